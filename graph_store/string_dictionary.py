"""A dictionary of strings: hash tables over a pool of their bytes, one a thread, each for its part of the hashes."""

from typing import Any

import numpy as np

from graph_store.dictionary import FLAG_SHIFT, FULL_OF_16, NODE, SMALLEST_TABLE, SortedIds, by_shard, most_entries
from graph_store.ids import LOOK_AHEAD, nodes_of_ranks
from graph_store.kernels import kernel, mix64, prefetch, run_ranges
from graph_store.ragged import starts_of
from graph_store.string_ids import ALL_BITS, StringMap, hash_range, same_bytes, string_buffers

_SMALLEST_POOL = 1 << 16


@kernel
def _enter(strings, table, pool, pool_starts, used, part, parts, flag, codes, begin):
    """Give the strings of one part, from `begin` on, their codes; stops where room is short. Returns (next, used).

    A slot is the hash, then the string's number + 1 and above `FLAG_SHIFT` what is known of it.
    """
    starts, data, hashes = strings
    likely = np.empty(LOOK_AHEAD, np.int64)
    mask, known = np.uint64(table.size // 2 - 1), np.int64(flag) << FLAG_SHIFT
    for low in range(begin, hashes.size, LOOK_AHEAD):
        high = min(low + LOOK_AHEAD, hashes.size)
        # Most strings are there already: their slot, where their bytes start and the bytes are asked for in turn.
        for i in range(low, high):
            prefetch(table, 2 * np.int64(mix64(~np.uint64(hashes[i])) & mask))
        for i in range(low, high):
            slot = np.int64(mix64(~np.uint64(hashes[i])) & mask)
            likely[i - low] = (table[2 * slot + 1] & ((np.int64(1) << FLAG_SHIFT) - 1)) - 1
            prefetch(pool_starts, max(likely[i - low], 0))
        for i in range(low, high):
            prefetch(pool, pool_starts[max(likely[i - low], 0)])
        for i in range(low, high):
            mixed = mix64(~np.uint64(hashes[i]))
            if parts > 1 and np.int64((mixed >> np.uint64(40)) % np.uint64(parts)) != part:
                continue
            start, stop = starts[i], starts[i + 1]
            slot, number = np.int64(mixed & mask), np.int64(-1)
            while table[2 * slot + 1]:
                if table[2 * slot] == hashes[i]:
                    other = (table[2 * slot + 1] & ((np.int64(1) << FLAG_SHIFT) - 1)) - 1
                    if same_bytes(data, start, stop, pool, pool_starts[other], pool_starts[other + 1]):
                        number = other
                        break
                slot = np.int64(np.uint64(slot + 1) & mask)
            if number < 0:
                if 32 * (used + 1) > FULL_OF_16 * table.size or used + 1 >= pool_starts.size:
                    return i, used
                if pool_starts[used] + stop - start > pool.size:
                    return i, used
                number, used = used, used + 1
                table[2 * slot], table[2 * slot + 1] = hashes[i], (number + 1) | known
                for j in range(stop - start):
                    pool[pool_starts[number] + j] = data[start + j]
                pool_starts[used] = pool_starts[number] + stop - start
            elif table[2 * slot + 1] & known != known:
                table[2 * slot + 1] |= known
            codes[i] = number * parts + part
    return hashes.size, used


@kernel
def _rehash(old: np.ndarray, table: np.ndarray) -> None:
    mask = np.uint64(table.size // 2 - 1)
    for i in range(0, old.size, 2):
        if old[i + 1]:
            slot = np.int64(mix64(~np.uint64(old[i])) & mask)
            while table[2 * slot + 1]:
                slot = np.int64(np.uint64(slot + 1) & mask)
            table[2 * slot], table[2 * slot + 1] = old[i], old[i + 1]


@kernel
def _gather(pool, pool_starts, codes, part, parts, starts, out):
    """Copy the strings of one part to their places."""
    for i in range(codes.size):
        if codes[i] % parts == part:
            number = codes[i] // parts
            for j in range(pool_starts[number + 1] - pool_starts[number]):
                out[starts[i] + j] = pool[pool_starts[number] + j]


class _Part:
    """The strings of a dictionary whose hash falls in one part."""

    def __init__(self, part: int, parts: int) -> None:
        self._part, self._parts = part, parts
        self.table, self.used = np.zeros(2 * SMALLEST_TABLE, np.int64), 0
        self.pool, self.starts = np.zeros(_SMALLEST_POOL, np.uint8), np.zeros(SMALLEST_TABLE // 2, np.int64)

    @property
    def num_bytes(self) -> int:
        return self.table.nbytes + self.pool.nbytes + self.starts.nbytes

    def add(self, strings: tuple[np.ndarray, np.ndarray, np.ndarray], flag: int, codes: np.ndarray) -> None:
        begin, starts = 0, strings[0]
        while begin < codes.size:
            begin, self.used = _enter(
                strings, self.table, self.pool, self.starts, self.used, self._part, self._parts, flag, codes, begin
            )
            if begin < codes.size:
                self._grow(int(starts[begin + 1] - starts[begin]))

    def _grow(self, length: int) -> None:
        # `resize` moves pages where it can instead of copying them; nobody else holds these arrays.
        if self.used + 1 >= self.starts.size:
            self.starts.resize(2 * self.starts.size, refcheck=False)
        if self.starts[self.used] + length > self.pool.size:
            self.pool.resize(self.pool.size * 3 // 2 + length, refcheck=False)
        if 32 * (self.used + 1) > FULL_OF_16 * self.table.size:
            table = np.zeros(2 * self.table.size, np.int64)
            _rehash(self.table, table)
            self.table = table

    def entries(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return hashes, codes and flags; the bytes stay."""
        pairs = self.table.reshape(-1, 2)
        pairs = pairs[pairs[:, 1] != 0]
        self.table = np.empty(0, np.int64)
        numbers = (pairs[:, 1] & ((1 << FLAG_SHIFT) - 1)) - 1
        codes = (numbers * self._parts + self._part).astype(np.uint32)
        return pairs[:, 0], codes, (pairs[:, 1] >> FLAG_SHIFT).astype(np.uint8)


class HashedStrings:
    """A dictionary of strings; two strings of one hash are two strings.

    Parameters
    ----------
    name : str
        The node type's, or what else the strings are, for messages.
    limit : int
        Bytes that it may take up; at least one batch is taken whatever it needs.
    hash_mask : int
        The bits of a hash that are used.
    """

    def __init__(self, name: str, *, limit: int = 1 << 62, threads: int = 1, hash_mask: int = ALL_BITS) -> None:
        self.name = name
        self._limit, self._threads, self._mask = limit, threads, np.uint64(hash_mask)
        self._parts = [_Part(part, threads) for part in range(threads)]

    @property
    def num_bytes(self) -> int:
        """Memory in use."""
        return sum(part.num_bytes for part in self._parts)

    def takes(self, values: Any) -> bool:
        """Say whether there is room if half of the values are new."""
        used = sum(part.used for part in self._parts)
        if used == 0:
            return True
        # Three bytes of four for the strings.
        pool = sum(int(part.starts[part.used]) for part in self._parts)
        room = used + len(values) // 2 <= most_entries(self._limit // 4, len(self._parts))
        return room and pool + values.nbytes // 2 <= self._limit // 2

    def add(self, values: Any, flag: int = NODE) -> np.ndarray:
        """Take an Arrow string array and return uint32[n] codes."""
        starts, data = string_buffers(values, self.name)
        hashes = np.empty(starts.size - 1, np.int64)
        run_ranges(
            lambda start, stop: hash_range(starts, data, self._mask, hashes, start, stop),
            hashes.size,
            threads=self._threads,
        )
        codes = np.empty(hashes.size, np.uint32)

        def add_parts(low: int, high: int) -> None:
            for part in self._parts[low:high]:
                part.add((starts, data, hashes), flag, codes)

        run_ranges(add_parts, len(self._parts), threads=self._threads, grain=1)
        return codes

    def words(self) -> list[bytes]:
        """Return the distinct strings so far, UTF-8, by their codes; of one thread only."""
        (part,) = self._parts
        data, starts = part.pool.tobytes(), part.starts[: part.used + 1].tolist()
        return [data[start:stop] for start, stop in zip(starts[:-1], starts[1:])]

    def finish(self, num_shards: int) -> tuple[StringMap, np.ndarray]:
        """Return the ids of a node type that has just these strings, and the node of each code; it is empty then."""
        found = self.sort(num_shards)
        assert found.lengths is not None
        data = found.data if found.data is not None and found.data.size else np.zeros(1, np.uint8)
        ids = StringMap.restore_strings(self.name, starts_of(found.lengths), data, found.starts, int(self._mask))
        nodes = np.full(found.num_codes, -1, np.int64)
        nodes[found.codes] = nodes_of_ranks(found.starts)
        return ids, nodes

    def sort(self, num_shards: int) -> SortedIds:
        """Return the strings by shard, hash and bytes."""
        parts = len(self._parts)
        num_codes = max(part.used for part in self._parts) * parts
        entries = [part.entries() for part in self._parts]
        hashes, codes, flags = (np.concatenate(columns) for columns in zip(*entries))
        del entries
        found = by_shard(hashes, codes, flags, num_codes, num_shards, ascending=False, threads=self._threads)
        self._order_equal(found)
        lengths = np.empty(found.codes.size, np.uint32)
        for number, part in enumerate(self._parts):
            own = found.codes % np.uint32(parts) == number
            lengths[own] = np.diff(part.starts[: part.used + 1])[found.codes[own] // np.uint32(parts)]
        starts = starts_of(lengths)
        data = np.empty(int(starts[-1]), np.uint8)
        for number, part in enumerate(self._parts):
            _gather(part.pool, part.starts, found.codes, number, parts, starts, data)
            part.pool, part.starts = np.empty(0, np.uint8), np.empty(0, np.int64)
        return found._replace(lengths=lengths, data=data)

    def _order_equal(self, found: SortedIds) -> None:
        """Put strings of one hash in the order of their bytes."""
        equal = np.flatnonzero(found.keys[1:] == found.keys[:-1])
        done = 0
        for at in equal.tolist():
            if at < done:
                continue
            done = at + 1
            while done < found.keys.size and found.keys[done] == found.keys[at]:
                done += 1
            order = sorted(range(at, done), key=lambda place: self._bytes(int(found.codes[place])))
            for column in (found.codes, found.flags):
                if column is not None:
                    column[at:done] = column[order]

    def _bytes(self, code: int) -> bytes:
        number, part = divmod(code, len(self._parts))
        starts = self._parts[part].starts
        return self._parts[part].pool[starts[number] : starts[number + 1]].tobytes()
