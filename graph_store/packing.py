"""Packing: numbers of a few bits in words of 64, and the crc32c of such words."""

import numpy as np

from graph_store.kernels import kernel


def crc32c_tables() -> np.ndarray:
    """Return uint32[8, 256], the tables of slicing-by-8 for the polynomial of Castagnoli (RFC 3720, appendix B)."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        tables[0, byte] = value
    for row in range(1, 8):
        previous = tables[row - 1]
        tables[row] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


CRC_TABLES = crc32c_tables()


@kernel
def crc32c(words: np.ndarray, start: int, stop: int, crc: int, tables: np.ndarray) -> np.uint32:
    """Continue the crc32c `crc` (0 to begin) over `words[start:stop]`, eight bytes a step."""
    low32, byte = np.uint64(0xFFFFFFFF), np.uint64(0xFF)
    value = np.uint64(crc) ^ low32
    for i in range(start, stop):
        word = words[i] ^ value
        value = np.uint64(
            tables[7, word & byte]
            ^ tables[6, (word >> np.uint64(8)) & byte]
            ^ tables[5, (word >> np.uint64(16)) & byte]
            ^ tables[4, (word >> np.uint64(24)) & byte]
            ^ tables[3, (word >> np.uint64(32)) & byte]
            ^ tables[2, (word >> np.uint64(40)) & byte]
            ^ tables[1, (word >> np.uint64(48)) & byte]
            ^ tables[0, word >> np.uint64(56)]
        )
    return np.uint32(value ^ low32)


@kernel
def bit_length(value: int) -> int:
    """Return the number of bits of a value, at least 1; a negative one (a span past int64) takes 64."""
    if value < 0:
        return 64
    bits = 1
    while bits < 63 and value >> bits:
        bits += 1
    return bits


@kernel
def words_of(count: int, bits: int) -> int:
    """Return the words that `count` values of `bits` bits fill, without a guard."""
    return (count * bits + 63) >> 6


@kernel
def pack(words: np.ndarray, bit: int, value: int) -> None:
    """Or a value into the zeroed bits from `bit` on; the next word must exist."""
    word, shift = bit >> 6, np.uint64(bit & 63)
    words[word] |= np.uint64(value) << shift
    if shift:
        words[word + 1] |= np.uint64(value) >> (np.uint64(64) - shift)


@kernel
def unpack(words: np.ndarray, bit: int, mask: np.uint64) -> np.uint64:
    """Return the value under `mask` at `bit`; reads the next word as well (the guard)."""
    word, shift = bit >> 6, np.uint64(bit & 63)
    low = words[word] >> shift
    high = (words[word + 1] << np.uint64(1)) << (np.uint64(63) - shift)
    return (low | high) & mask


@kernel
def bit_mask(bits: int) -> np.uint64:
    """Return a mask of the low `bits` bits, 1 to 64."""
    return ~np.uint64(0) >> np.uint64(64 - bits)
