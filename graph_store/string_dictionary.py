"""A dictionary of strings: hash tables, one a thread, each for its part of the hashes."""

from typing import Any

import numpy as np

from graph_store.dictionary import NODE, SortedIds, by_shard
from graph_store.ids import nodes_of_ranks
from graph_store.kernels import run_ranges
from graph_store.ragged import starts_of
from graph_store.string_ids import ALL_BITS, StringMap, hash_range, string_buffers
from graph_store.string_table import StringTable, most_strings


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
        self._parts = [StringTable(part, threads, hash_mask) for part in range(threads)]

    @property
    def num_bytes(self) -> int:
        """Memory in use."""
        return sum(part.num_bytes for part in self._parts)

    def takes(self, values: Any) -> bool:
        """Say whether there is room if half of the values are new."""
        used = sum(part.used for part in self._parts)
        if used == 0:
            return True
        # The same share of them is long as of those before.
        wanted = used + len(values) // 2
        pooled = sum(part.pooled for part in self._parts) * wanted // used
        return wanted <= most_strings(self._limit - pooled, len(self._parts))

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
        """Return the distinct strings so far, UTF-8, by their codes; of one thread only, and nothing is added then."""
        (part,) = self._parts
        part.entries()
        starts, data = self._strings(np.arange(part.used, dtype=np.uint32))
        return [data[start:stop].tobytes() for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist())]

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
        hashes, flags = (np.concatenate(columns) for columns in zip(*entries))
        del entries
        codes = np.concatenate(
            [np.arange(each.used, dtype=np.uint32) * parts + part for part, each in enumerate(self._parts)]
        )
        found = by_shard(hashes, codes, flags, num_codes, num_shards, ascending=False, threads=self._threads)
        self._order_equal(found)
        starts, data = self._strings(found.codes)
        self._parts = [StringTable(part, parts, int(self._mask)) for part in range(parts)]
        return found._replace(lengths=np.diff(starts).astype(np.uint32), data=data)

    def _strings(self, codes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return int64[n + 1] starts and uint8[m] bytes of strings by their codes."""
        numbers, owner = np.divmod(codes, np.uint32(len(self._parts)))
        own = [np.flatnonzero(owner == part) for part in range(len(self._parts))]
        lengths = np.empty(codes.size, np.uint32)
        for part, places in zip(self._parts, own):
            lengths[places] = part.lengths(numbers[places])
        starts = starts_of(lengths)
        data = np.empty(int(starts[-1]), np.uint8)
        for part, places in zip(self._parts, own):
            part.copy(numbers[places], starts[places], data)
        return starts, data

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
            starts, data = self._strings(found.codes[at:done])
            texts = [data[start:stop].tobytes() for start, stop in zip(starts[:-1].tolist(), starts[1:].tolist())]
            order = at + np.array(sorted(range(done - at), key=texts.__getitem__))
            for column in (found.codes, found.flags):
                if column is not None:
                    column[at:done] = column[order]
