"""A hash table of strings that keeps the bytes of short ones in its slots, so that finding one reads one place.

A slot is four words, `number + 1`, flags and the length of a string in the first: bits 0 to 39, 40 to 47 and 48 to 63.
The other three hold the bytes of a string of at most 24, zeros behind them. Of a longer one, marked by the length
`_LONG`, they are its hash, where its bytes begin in a pool, and how many they are.
"""

import numpy as np

from graph_store.dictionary import FLAG_SHIFT, in_part
from graph_store.kernels import kernel, load_word, mix64, prefetch
from graph_store.string_ids import HASH_SEED, hash_more, low_bytes, same_bytes, word_at

SLOT_WORDS, SLOT_BYTES = 4, 32
# A table is full when so many sixteenths of its slots are in use.
FULL_OF_16 = 12
_SHORTEST_LONG, _LONG = 25, 0xFFFF
_LENGTH_SHIFT = 48
_SMALLEST_TABLE, _SMALLEST_POOL = 1 << 11, 1 << 12
_LOOK_AHEAD = 32
_LINE_BYTES = 64


def _empty_table(num_slots: int) -> np.ndarray:
    """Return a table whose slots do not cross lines of the cache."""
    words = np.zeros(SLOT_WORDS * num_slots + _LINE_BYTES // 8, np.uint64)
    first = -words.ctypes.data % _LINE_BYTES // 8
    return words[first : first + SLOT_WORDS * num_slots]


@kernel
def _length(table: np.ndarray, at: int) -> np.int64:
    length = np.int64(table[at] >> np.uint64(_LENGTH_SHIFT))
    return np.int64(table[at + 3]) if length == _LONG else length


@kernel
def _number(table: np.ndarray, at: int) -> np.int64:
    return np.int64(table[at] & np.uint64((1 << FLAG_SHIFT) - 1)) - 1


@kernel
def _hash_of(table: np.ndarray, at: int, mask: np.uint64) -> np.uint64:
    """Return the hash of the string in a slot."""
    length = table[at] >> np.uint64(_LENGTH_SHIFT)
    if length == np.uint64(_LONG):
        return table[at + 1]
    value = HASH_SEED
    for word in range((np.int64(length) + 7) >> 3):
        value = hash_more(value, table[at + 1 + word])
    return mix64(value ^ length) & mask


@kernel
def _enter(strings, table, pool, used, part, parts, flag, codes, begin):
    """Give the strings of one part, from `begin` on, their codes; stops where room is short. Returns (next, used).

    used : int64[2], strings and bytes of the pool
    """
    starts, data, hashes = strings
    numbers, pooled = used
    mask, known = np.uint64(table.size // SLOT_WORDS - 1), np.uint64(flag) << np.uint64(FLAG_SHIFT)
    limit = FULL_OF_16 * (table.size // SLOT_WORDS) // 16
    rows, slots = np.empty(_LOOK_AHEAD, np.int64), np.empty(_LOOK_AHEAD, np.int64)
    for low in range(begin, hashes.size, _LOOK_AHEAD):
        count = 0
        for i in range(low, min(low + _LOOK_AHEAD, hashes.size)):
            mixed = mix64(~np.uint64(hashes[i]))
            rows[count], slots[count] = i, SLOT_WORDS * np.int64(mixed & mask)
            count += in_part(mixed, part, parts)
        for place in range(count):
            prefetch(table, slots[place])
        for place in range(count):
            at = slots[place]
            if table[at] >> np.uint64(_LENGTH_SHIFT) == np.uint64(_LONG):
                prefetch(pool, np.int64(table[at + 2]))
        for place in range(count):
            i, at = rows[place], slots[place]
            start, stop = starts[i], starts[i + 1]
            length = stop - start
            is_long = length >= _SHORTEST_LONG
            marked = np.uint64(_LONG if is_long else length)
            if is_long:
                first, second, third = np.uint64(hashes[i]), np.uint64(pooled), np.uint64(length)
            elif start + 24 <= data.size:
                first = low_bytes(load_word(data, start), length)
                second = low_bytes(load_word(data, start + 8), length - 8)
                third = low_bytes(load_word(data, start + 16), length - 16)
            else:
                first = word_at(data, start, stop)
                second, third = word_at(data, start + 8, stop), word_at(data, start + 16, stop)
            while table[at]:
                if table[at] >> np.uint64(_LENGTH_SHIFT) == marked and table[at + 1] == first:
                    if is_long:
                        other = np.int64(table[at + 2])
                        if table[at + 3] == third and same_bytes(data, start, stop, pool, other, other + length):
                            break
                    elif table[at + 2] == second and table[at + 3] == third:
                        break
                at = (at + SLOT_WORDS) & (table.size - 1)
            if table[at] == 0:
                if numbers == limit or (is_long and pooled + length > pool.size):
                    return i, (numbers, pooled)
                numbers += 1
                table[at] = np.uint64(numbers) | known | marked << np.uint64(_LENGTH_SHIFT)
                table[at + 1], table[at + 2], table[at + 3] = first, second, third
                if is_long:
                    pool[pooled : pooled + length] = data[start:stop]
                    pooled += length
            elif table[at] & known != known:
                table[at] |= known
            codes[i] = _number(table, at) * parts + part
    return hashes.size, (numbers, pooled)


@kernel
def _rehash(old: np.ndarray, table: np.ndarray, hash_mask: np.uint64) -> None:
    mask = np.uint64(table.size // SLOT_WORDS - 1)
    for i in range(0, old.size, SLOT_WORDS):
        if old[i]:
            at = SLOT_WORDS * np.int64(mix64(~_hash_of(old, i, hash_mask)) & mask)
            while table[at]:
                at = (at + SLOT_WORDS) & (table.size - 1)
            for word in range(SLOT_WORDS):
                table[at + word] = old[i + word]


@kernel
def _list(table, hash_mask, hashes, flags, slots):
    """Write of each string, by its number, its hash, its flags and its slot."""
    for i in range(0, table.size, SLOT_WORDS):
        if table[i]:
            number = _number(table, i)
            hashes[number] = np.int64(_hash_of(table, i, hash_mask))
            flags[number] = (table[i] >> np.uint64(FLAG_SHIFT)) & np.uint64(0xFF)
            slots[number] = i // SLOT_WORDS


@kernel
def _measure(table, slots, numbers, lengths):
    for i in range(numbers.size):
        prefetch(table, SLOT_WORDS * np.int64(slots[numbers[min(i + _LOOK_AHEAD, numbers.size - 1)]]))
        lengths[i] = _length(table, SLOT_WORDS * np.int64(slots[numbers[i]]))


@kernel
def _copy(table, pool, slots, numbers, starts, out):
    for i in range(numbers.size):
        prefetch(table, SLOT_WORDS * np.int64(slots[numbers[min(i + _LOOK_AHEAD, numbers.size - 1)]]))
        at, to = SLOT_WORDS * np.int64(slots[numbers[i]]), starts[i]
        if table[at] >> np.uint64(_LENGTH_SHIFT) == np.uint64(_LONG):
            begin = np.int64(table[at + 2])
            out[to : to + np.int64(table[at + 3])] = pool[begin : begin + np.int64(table[at + 3])]
        else:
            for j in range(_length(table, at)):
                out[to + j] = np.uint8((table[at + 1 + (j >> 3)] >> np.uint64(8 * (j & 7))) & np.uint64(0xFF))


class StringTable:
    """Distinct strings, numbered as they came, whose hash falls in one of some parts.

    Parameters
    ----------
    hash_mask : int
        The bits of a hash that are used.

    Attributes
    ----------
    used, pooled : int
        Strings, and bytes of the long ones.
    """

    def __init__(self, part: int, parts: int, hash_mask: int) -> None:
        self._part, self._parts, self._mask = part, parts, np.uint64(hash_mask)
        self._table, self._pool = _empty_table(_SMALLEST_TABLE), np.empty(_SMALLEST_POOL, np.uint8)
        self._slots = np.empty(0, np.uint32)
        self.used = self.pooled = 0

    @property
    def num_bytes(self) -> int:
        """Memory in use."""
        return self._table.nbytes + self._pool.nbytes

    def add(self, strings: tuple[np.ndarray, np.ndarray, np.ndarray], flag: int, codes: np.ndarray) -> None:
        """Write the code, number · parts + part, of each string of this part among (offsets, bytes, hashes)."""
        begin, starts = 0, strings[0]
        while begin < codes.size:
            begin, (self.used, self.pooled) = _enter(
                strings, self._table, self._pool, (self.used, self.pooled), self._part, self._parts, flag, codes, begin
            )
            if begin < codes.size:
                self._grow(int(starts[begin + 1] - starts[begin]))

    def _grow(self, length: int) -> None:
        if 16 * (self.used + 1) > FULL_OF_16 * (self._table.size // SLOT_WORDS):
            table = _empty_table(2 * self._table.size // SLOT_WORDS)
            _rehash(self._table, table, self._mask)
            self._table = table
        if length >= _SHORTEST_LONG and self.pooled + length > self._pool.size:
            # `resize` moves pages where it can instead of copying them; nobody else holds this array.
            self._pool.resize(self._pool.size * 3 // 2 + length, refcheck=False)

    def entries(self) -> tuple[np.ndarray, np.ndarray]:
        """Return int64[used] hashes and uint8[used] flags by number; no string may be added afterwards."""
        hashes, flags = np.empty(self.used, np.int64), np.empty(self.used, np.uint8)
        self._slots = np.empty(self.used, np.uint32)
        _list(self._table, self._mask, hashes, flags, self._slots)
        return hashes, flags

    def lengths(self, numbers: np.ndarray) -> np.ndarray:
        """Return uint32[n], the bytes of each string, once `entries` was called."""
        lengths = np.empty(numbers.size, np.uint32)
        _measure(self._table, self._slots, numbers, lengths)
        return lengths

    def copy(self, numbers: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
        """Copy each string to `out[start]` and behind it, once `entries` was called."""
        _copy(self._table, self._pool, self._slots, numbers, starts, out)


def most_strings(num_bytes: int, parts: int) -> int:
    """Return how many strings fit tables of at most so many bytes together; their sizes are powers of two."""
    slots = 1 << (max(1, num_bytes // SLOT_BYTES // parts).bit_length() - 1)
    return parts * slots * FULL_OF_16 // 16
