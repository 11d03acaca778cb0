"""String ids: hashed to 64 bits and compared byte by byte, so that two strings of one hash are two nodes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graph_store.ids import (
    IdMap,
    build_index,
    dense_ranks,
    home_shift,
    index_hash,
    live_ranks,
    nodes_of_ranks,
)
from graph_store.kernels import kernel, load_word, mix64, run_ranges
from graph_store.ragged import starts_of, take_spans
from graph_store.section_check import SectionCheck

ALL_BITS = (1 << 64) - 1
HASH_SEED = np.uint64(0x2545F4914F6CDD1D)


@kernel
def low_bytes(word: np.uint64, count: int) -> np.uint64:
    """Return a word with all but its low bytes zero: none of them for a count below 1, all for one above 7."""
    if count >= 8:
        return word
    if count <= 0:
        return np.uint64(0)
    return word & ((np.uint64(1) << np.uint64(8 * count)) - np.uint64(1))


@kernel
def word_at(data: np.ndarray, at: int, stop: int) -> np.uint64:
    """Return up to eight bytes from `at` on that lie before `stop`, as a little-endian number."""
    if at + 8 <= data.size:
        return low_bytes(load_word(data, at), stop - at)
    word = np.uint64(0)
    for i in range(at, min(at + 8, stop)):
        word |= np.uint64(data[i]) << np.uint64(8 * (i - at))
    return word


@kernel
def hash_bytes(data: np.ndarray, start: int, stop: int) -> np.uint64:
    """Hash bytes to 64 bits, eight at a time (mix64 as the round of a Merkle-Damgård chain, the length last)."""
    value, at = HASH_SEED, start
    if stop + 8 <= data.size:  # no load can go past the end: this takes a third of the time
        while at < stop:
            value = hash_more(value, low_bytes(load_word(data, at), stop - at))
            at += 8
    while at < stop:
        value = hash_more(value, word_at(data, at, stop))
        at += 8
    return mix64(value ^ np.uint64(stop - start))


@kernel
def hash_more(value: np.uint64, word: np.uint64) -> np.uint64:
    """Return the hash of what `value` is the hash of and eight bytes more."""
    return mix64(value ^ word) + np.uint64(0x9E3779B97F4A7C15)


@kernel
def hash_range(offsets: np.ndarray, data: np.ndarray, mask: np.uint64, out: np.ndarray, start: int, stop: int) -> None:
    for i in range(start, stop):
        out[i] = np.int64(hash_bytes(data, offsets[i], offsets[i + 1]) & mask)


def _hashes(offsets: np.ndarray, data: np.ndarray, mask: np.uint64) -> np.ndarray:
    out = np.empty(offsets.size - 1, np.int64)
    run_ranges(lambda start, stop: hash_range(offsets, data, mask, out, start, stop), out.size)
    return out


def hash_strings(offsets: np.ndarray, data: np.ndarray, mask: int) -> np.ndarray:
    """Return int64[n], the hash of each string of UTF-8 bytes, as far as `mask` lets through."""
    return _hashes(
        np.ascontiguousarray(offsets, np.int64), data if data.size else np.zeros(1, np.uint8), np.uint64(mask)
    )


@kernel
def same_bytes(first, first_start, first_stop, second, second_start, second_stop):
    if first_stop - first_start != second_stop - second_start:
        return False
    for i in range(0, first_stop - first_start, 8):
        if word_at(first, first_start + i, first_stop) != word_at(second, second_start + i, second_stop):
            return False
    return True


@kernel
def _find_strings(offsets, data, hashes, index, base, pool, pool_offsets, out):
    shift, num_shards = home_shift(index), base.size - 1
    for i in range(hashes.size):
        slot = np.int64(index_hash(hashes[i]) >> shift)
        out[i] = -1
        while index[2 * slot + 1]:
            node = index[2 * slot + 1] - 1
            rank = base[node % num_shards] + node // num_shards
            if index[2 * slot] == hashes[i] and same_bytes(
                data, offsets[i], offsets[i + 1], pool, pool_offsets[rank], pool_offsets[rank + 1]
            ):
                out[i] = node
                break
            slot += 1


@kernel
def _ranks_of_hashes(hashes, index, base, out):
    """List the dense ranks of the strings that have one of some hashes, as many as `out` takes; returns how many."""
    shift, num_shards, count = home_shift(index), base.size - 1, 0
    for i in range(hashes.size):
        slot = np.int64(index_hash(hashes[i]) >> shift)
        while index[2 * slot + 1]:
            if index[2 * slot] == hashes[i]:
                if count < out.size:
                    node = index[2 * slot + 1] - 1
                    out[count] = base[node % num_shards] + node // num_shards
                count += 1
            slot += 1
    return count


def is_utf8(text: str) -> bool:
    """Say whether a string can be written as UTF-8: not where it holds half a character, a lone surrogate."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def string_buffers(strings: Any, name: str) -> tuple[np.ndarray, np.ndarray]:
    """Return int64[n + 1] offsets and uint8[m] UTF-8 bytes of an Arrow string array or a sequence of str.

    Raises
    ------
    TypeError
        Anything else, or a null: `name` is the node type's that the message names.
    """
    import pyarrow as pa

    if len(strings) == 0:
        return np.zeros(1, np.int64), np.zeros(1, np.uint8)
    if isinstance(strings, pa.ChunkedArray):
        strings = strings.combine_chunks()
    if isinstance(strings, pa.Array):
        kind = strings.type.value_type if pa.types.is_dictionary(strings.type) else strings.type
        if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)):
            raise TypeError(f"ids of {name} are strings, got Arrow {strings.type}")
        strings = strings.cast(pa.large_string())
        if strings.null_count:
            place = strings.is_null().index(True).as_py()
            raise TypeError(f"ids of {name} are strings, got a null at position {place}")
    else:
        for value in strings:
            if not isinstance(value, str):
                raise TypeError(f"ids of {name} are strings, got {type(value).__name__}: {value!r}")
        strings = pa.array([str(value) for value in strings], type=pa.large_string())
    _, offsets, data = strings.buffers()
    starts = np.frombuffer(offsets, np.int64, len(strings) + 1, strings.offset * 8)
    if data is None or data.size == 0:
        return starts, np.zeros(1, np.uint8)
    return starts, np.frombuffer(data, np.uint8)


class StringMap(IdMap):
    """The string ids of one node type; `ids` and `offsets` hold their UTF-8 bytes in dense order."""

    def __init__(
        self, name: str, sections: Mapping[str, np.ndarray], checks: Mapping[str, SectionCheck] | None = None
    ) -> None:
        super().__init__(name, sections, "string", checks)
        self.offsets = sections["offsets"]
        self._mask = np.uint64(sections["hash_mask"][0])

    @property
    def hash_mask(self) -> int:
        """The bits of a hash that are used: all, but in tests of equal hashes."""
        return int(self._mask)

    @classmethod
    def restore_strings(
        cls,
        name: str,
        offsets: np.ndarray,
        data: np.ndarray,
        base: np.ndarray,
        hash_mask: int = ALL_BITS,
        dead: np.ndarray | None = None,
    ) -> "StringMap":
        """Make the map from the strings' bytes in dense order."""
        mask = np.array([hash_mask], np.uint64)
        hashes = _hashes(offsets, data, mask[0])
        empty = np.empty(0, np.int64)
        dead = empty if dead is None else dead
        live = live_ranks(base, dead)
        return cls(
            name,
            {
                "base": base,
                "low": np.zeros(1, np.int64),
                "direct": empty,
                "index": build_index(hashes[live], nodes_of_ranks(base)[live]),
                "dead": dead,
                "ids": data,
                "offsets": offsets,
                "hash_mask": mask,
            },
        )

    def find(self, ids: Any, *, threads: int | None = None) -> np.ndarray:
        """Return int64[n], the node of each string, -1 for one that is no node."""
        if isinstance(ids, str):
            raise TypeError(f"ids of {self.name} must be a sequence of strings, got one string {ids!r}")
        if not hasattr(ids, "to_pylist"):  # no array of Arrow
            # Half a character, which Python makes of bytes that are not UTF-8, is in no id; nor is one empty.
            ids = ["" if isinstance(value, str) and not is_utf8(value) else value for value in ids]
        return self.find_bytes(*string_buffers(ids, self.name))

    def find_bytes(self, offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return int64[n], the node of each string of UTF-8 bytes, given as int64[n + 1] offsets into uint8[m]."""
        out = np.empty(offsets.size - 1, np.int64)
        hashes = _hashes(offsets, data, self._mask)
        if not self.is_checked:
            self._check_found(hashes)
            ranks = np.empty(_ranks_of_hashes(hashes, self.index, self.base, np.empty(0, np.int64)), np.int64)
            _ranks_of_hashes(hashes, self.index, self.base, ranks)
            self._check_strings(ranks)
        _find_strings(
            offsets,
            data,
            hashes,
            self.index,
            self.base,
            self.originals,
            self.offsets,
            out,
        )
        return out

    def _check_strings(self, ranks: np.ndarray) -> None:
        """Compare the strings of dense ranks with their checksums."""
        if not self.is_checked:
            self._checks["offsets"].items(ranks, ranks + 2)
            self._checks["ids"].items(self.offsets[ranks], self.offsets[ranks + 1])

    def to_bytes(self, nodes: Any) -> tuple[np.ndarray, np.ndarray]:
        """Return int64[n + 1] starts and uint8[m] UTF-8 bytes of the original string of each node."""
        ranks = dense_ranks(nodes, self.base)
        self._check_strings(ranks)
        firsts = self.offsets[ranks]
        starts = starts_of(self.offsets[ranks + 1] - firsts)
        return starts, take_spans(self.originals, firsts, starts)

    def to_ids(self, nodes: Any) -> np.ndarray:
        """Return the original string of each node, object[n]."""
        ranks = dense_ranks(nodes, self.base)
        self._check_strings(ranks)
        starts, stops = self.offsets[ranks], self.offsets[ranks + 1]
        data = self.originals
        out = np.empty(ranks.size, object)
        out[:] = [data[start:stop].tobytes().decode() for start, stop in zip(starts.tolist(), stops.tolist())]
        return out
