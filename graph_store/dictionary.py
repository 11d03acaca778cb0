"""A dictionary: the distinct ids of a node type and their codes, for as many rows as memory allows.

Rows keep codes of 32 bits instead of ids. When a dictionary is full, or at the end, it is sorted by shard and id, put
away, and another one begins; what all of them hold together is the node type (see `id_merge`).
"""

from typing import Any, NamedTuple, Protocol

import numpy as np

from graph_store.ids import LOOK_AHEAD, shard_of
from graph_store.kernels import kernel, mix64, prefetch, run_ranges

# What is known of an id: it is an end of an edge that makes nodes of its ends; a file of nodes lists it.
NODE, LISTED = 1, 2
FLAG_SHIFT = 40
# A table is full when so many sixteenths of its slots are in use.
FULL_OF_16 = 10
SMALLEST_TABLE = 1 << 12


class SortedIds(NamedTuple):
    """What a dictionary holds, by shard and within a shard ascending (strings by hash, then bytes).

    starts : int64[num_shards + 1], where each shard's ids begin
    keys : int64[n], the ids, or the hashes of strings
    codes : uint32[n], each below `num_codes`
    flags : uint8[n], `NODE` and `LISTED`; None where all are `NODE`
    lengths : uint32[n] and data : uint8[m], the bytes of strings; None for integers
    """

    starts: np.ndarray
    keys: np.ndarray
    codes: np.ndarray
    flags: np.ndarray | None
    num_codes: int
    lengths: np.ndarray | None = None
    data: np.ndarray | None = None


class Dictionary(Protocol):
    """What collects ids; `values` are an int64[n] or an Arrow string array."""

    @property
    def num_bytes(self) -> int:
        """Memory in use."""

    def takes(self, values: Any) -> bool:
        """Say whether the values can be added without outgrowing the limit."""

    def add(self, values: Any, flag: int) -> np.ndarray:
        """Take ids and return their codes, uint32[n]; `flag` is what is known of them."""

    def sort(self, num_shards: int) -> SortedIds:
        """Return what it holds; it is empty then and of no more use."""


@kernel
def _bounds(values: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    low, high = values[start], values[start]
    for i in range(start, stop):
        # Plain comparisons become vector instructions, `min` and `max` do not: a ninth of the time.
        low = values[i] if values[i] < low else low
        high = values[i] if values[i] > high else high
    return low, high


@kernel
def _mark(values: np.ndarray, marks: np.ndarray, flag: int, codes: np.ndarray, start: int, stop: int) -> None:
    for i in range(start, stop):
        codes[i] = values[i]
        # Nearly all are marked already: reads overlap where writes would wait for each other.
        if marks[values[i]] & flag != flag:
            marks[values[i]] |= flag


class MarkedIds:
    """A dictionary of small ids that are not negative: an id is its own code and is marked in a map of bytes.

    Parameters
    ----------
    limit : int
        The ids it takes are below; so are the bytes it may take up.
    """

    # A bit that says no more than that the id was seen.
    _SEEN = 4

    def __init__(self, *, limit: int, threads: int) -> None:
        self._limit, self._threads = min(limit, 1 << 32), threads
        self._marks = np.zeros(min(SMALLEST_TABLE, self._limit), np.uint8)

    @property
    def num_bytes(self) -> int:
        """Memory in use."""
        return self._marks.nbytes

    def takes(self, values: np.ndarray) -> bool:
        """Say whether all values are in range."""
        if values.size == 0:
            return True
        low, high = self._range(values)
        return low >= 0 and high < self._limit

    def _range(self, values: np.ndarray) -> tuple[int, int]:
        parts = run_ranges(lambda start, stop: _bounds(values, start, stop), values.size, threads=self._threads)
        return min(low for low, _ in parts), max(high for _, high in parts)

    def add(self, values: np.ndarray, flag: int) -> np.ndarray:
        """Take int64[n] ids and return their codes."""
        codes = np.empty(values.size, np.uint32)
        if values.size == 0:
            return codes
        high = int(self._range(values)[1])
        if high >= self._marks.size:
            grown = np.zeros(min(max(2 * self._marks.size, high + 1), self._limit), np.uint8)
            grown[: self._marks.size] = self._marks
            self._marks = grown
        marks, bits = self._marks, flag | self._SEEN
        run_ranges(
            lambda start, stop: _mark(values, marks, bits, codes, start, stop), values.size, threads=self._threads
        )
        return codes

    def sort(self, num_shards: int) -> SortedIds:
        """Return the ids by shard."""
        keys = np.flatnonzero(self._marks)
        flags = self._marks[keys] & np.uint8(NODE | LISTED)
        self._marks = np.empty(0, np.uint8)
        num_codes = int(keys[-1]) + 1 if keys.size else 0
        return by_shard(keys, keys.astype(np.uint32), flags, num_codes, num_shards)


@kernel
def in_part(hashed: np.uint64, part: int, parts: int) -> bool:
    """Say whether a hash falls in a part, by its high bits: tables use the low ones."""
    return (hashed >> np.uint64(32)) * np.uint64(parts) >> np.uint64(32) == np.uint64(part)


@kernel
def _enter(values, table, used, part, parts, flag, codes, begin):
    """Give the values of one part, from `begin` on, their codes; stops when full. Returns (next, used).

    A slot is the id, then its number + 1 and above `FLAG_SHIFT` what is known of it.
    """
    mask, limit = np.uint64(table.size // 2 - 1), FULL_OF_16 * (table.size // 2) // 16
    known = np.int64(flag) << FLAG_SHIFT
    rows, slots = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    for low in range(begin, values.size, LOOK_AHEAD):
        high = min(low + LOOK_AHEAD, values.size)
        if used + (high - low) > limit:
            return low, used
        count = 0
        for i in range(low, high):
            hashed = mix64(~np.uint64(values[i]))
            rows[count], slots[count] = i, np.int64(hashed & mask)
            count += in_part(hashed, part, parts)
        for place in range(count):
            prefetch(table, 2 * slots[place])
        for place in range(count):
            i, slot = rows[place], slots[place]
            while table[2 * slot + 1] and table[2 * slot] != values[i]:
                slot = np.int64(np.uint64(slot + 1) & mask)
            entry = table[2 * slot + 1]
            if entry == 0:
                used += 1
                entry = np.int64(used) | known
                table[2 * slot], table[2 * slot + 1] = values[i], entry
            elif entry & known != known:
                table[2 * slot + 1] = entry | known
            number = (entry & ((np.int64(1) << FLAG_SHIFT) - 1)) - 1
            codes[i] = number * parts + part
    return values.size, used


@kernel
def _rehash(old: np.ndarray, table: np.ndarray) -> None:
    mask = np.uint64(table.size // 2 - 1)
    for i in range(0, old.size, 2):
        if old[i + 1]:
            slot = np.int64(mix64(~np.uint64(old[i])) & mask)
            while table[2 * slot + 1]:
                slot = np.int64(np.uint64(slot + 1) & mask)
            table[2 * slot], table[2 * slot + 1] = old[i], old[i + 1]


class _Part:
    """The ids of a dictionary whose hash falls in one part."""

    def __init__(self, part: int, parts: int) -> None:
        self._part, self._parts = part, parts
        self.table, self.used = np.zeros(2 * SMALLEST_TABLE, np.int64), 0

    def add(self, values: np.ndarray, flag: int, codes: np.ndarray) -> None:
        begin = 0
        while begin < values.size:
            begin, self.used = _enter(values, self.table, self.used, self._part, self._parts, flag, codes, begin)
            if begin < values.size:
                table = np.zeros(2 * self.table.size, np.int64)
                _rehash(self.table, table)
                self.table = table

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return ids, codes and flags; empties it."""
        pairs = self.table.reshape(-1, 2)
        pairs = pairs[pairs[:, 1] != 0]
        self.table = np.empty(0, np.int64)
        numbers = (pairs[:, 1] & ((1 << FLAG_SHIFT) - 1)) - 1
        codes = (numbers * self._parts + self._part).astype(np.uint32)
        return pairs[:, 0], codes, (pairs[:, 1] >> FLAG_SHIFT).astype(np.uint8)


def most_entries(num_bytes: int, parts: int) -> int:
    """Return how many entries fit hash tables of at most so many bytes together; their sizes are powers of two."""
    slots = 1 << (max(1, num_bytes // 16 // parts).bit_length() - 1)
    return parts * slots * FULL_OF_16 // 16


class HashedIds:
    """A dictionary of any integers: hash tables, one a thread, each for its part of the hashes.

    Parameters
    ----------
    limit : int
        Bytes of the tables; at least one batch is taken whatever it needs.
    """

    def __init__(self, *, limit: int, threads: int) -> None:
        self._limit, self._threads = limit, threads
        self._parts = [_Part(part, threads) for part in range(threads)]

    @property
    def num_bytes(self) -> int:
        """Memory in use."""
        return sum(part.table.nbytes for part in self._parts)

    def takes(self, values: np.ndarray) -> bool:
        """Say whether there is room if half of the values are new."""
        used = sum(part.used for part in self._parts)
        return used == 0 or used + values.size // 2 <= most_entries(self._limit, len(self._parts))

    def add(self, values: np.ndarray, flag: int) -> np.ndarray:
        """Take int64[n] ids and return their codes."""
        codes = np.empty(values.size, np.uint32)

        def add_parts(low: int, high: int) -> None:
            for part in self._parts[low:high]:
                part.add(values, flag, codes)

        run_ranges(add_parts, len(self._parts), threads=self._threads, grain=1)
        return codes

    def sort(self, num_shards: int) -> SortedIds:
        """Return the ids by shard, ascending."""
        num_codes = max(part.used for part in self._parts) * len(self._parts)
        entries = [part.entries() for part in self._parts]
        keys, codes, flags = (np.concatenate(columns) for columns in zip(*entries))
        del entries
        return by_shard(keys, codes, flags, num_codes, num_shards, ascending=False, threads=self._threads)


@kernel
def _count_shards(keys: np.ndarray, starts: np.ndarray) -> None:
    num_shards = starts.size - 1
    for i in range(keys.size):
        starts[shard_of(np.uint64(keys[i]), num_shards) + 1] += 1
    for shard in range(num_shards):
        starts[shard + 1] += starts[shard]


@kernel
def _scatter(keys, codes, flags, places, new_keys, new_codes, new_flags):
    num_shards = places.size - 1
    for i in range(keys.size):
        shard = shard_of(np.uint64(keys[i]), num_shards)
        place = places[shard]
        places[shard] += 1
        new_keys[place], new_codes[place], new_flags[place] = keys[i], codes[i], flags[i]


def by_shard(
    keys: np.ndarray,
    codes: np.ndarray,
    flags: np.ndarray,
    num_codes: int,
    num_shards: int,
    *,
    ascending: bool = True,
    threads: int = 1,
) -> SortedIds:
    """Put distinct keys in the order of shard and key; `ascending` when they are in the order of keys already."""
    starts = np.zeros(num_shards + 1, np.int64)
    _count_shards(keys, starts)
    sorted_keys, sorted_codes, sorted_flags = np.empty_like(keys), np.empty_like(codes), np.empty_like(flags)
    _scatter(keys, codes, flags, starts.copy(), sorted_keys, sorted_codes, sorted_flags)

    def sort_shards(low: int, high: int) -> None:
        for shard in range(low, high):
            part = slice(int(starts[shard]), int(starts[shard + 1]))
            order = np.argsort(sorted_keys[part])
            for column in (sorted_keys, sorted_codes, sorted_flags):
                column[part] = column[part][order]

    if not ascending:
        run_ranges(sort_shards, num_shards, threads=threads, grain=2)
    plain = bool((sorted_flags == NODE).all())
    return SortedIds(starts, sorted_keys, sorted_codes, None if plain else sorted_flags, num_codes)
