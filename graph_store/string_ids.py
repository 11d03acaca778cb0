"""String ids: hashed to 64 bits and compared byte by byte, so that two strings of one hash are two nodes."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graph_store.ids import (
    IdMap,
    assign,
    build_index,
    dense_ranks,
    home_shift,
    index_hash,
    live_ranks,
    nodes_of_ranks,
    shards_of,
)
from graph_store.kernels import kernel, mix64, run_ranges
from graph_store.ragged import starts_of, take_spans
from graph_store.section_check import SectionCheck

ALL_BITS = (1 << 64) - 1
_SEED = np.uint64(0x2545F4914F6CDD1D)


@kernel
def _hash(data: np.ndarray, start: int, stop: int) -> np.uint64:
    """Hash bytes to 64 bits, eight at a time (mix64 as the round of a Merkle-Damgård chain, the length last)."""
    value = _SEED
    for at in range(start, stop, 8):
        word = np.uint64(0)
        for i in range(at, min(at + 8, stop)):
            word |= np.uint64(data[i]) << np.uint64(8 * (i - at))
        value = mix64(value ^ word) + np.uint64(0x9E3779B97F4A7C15)
    return mix64(value ^ np.uint64(stop - start))


@kernel
def hash_range(offsets: np.ndarray, data: np.ndarray, mask: np.uint64, out: np.ndarray, start: int, stop: int) -> None:
    for i in range(start, stop):
        out[i] = np.int64(_hash(data, offsets[i], offsets[i + 1]) & mask)


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
    for i in range(first_stop - first_start):
        if first[first_start + i] != second[second_start + i]:
            return False
    return True


@kernel
def _enter(offsets, data, hashes, begin, index, codes, pool, pool_offsets, count):
    """Give strings from `begin` on their codes, new ones entering the pool; stops when the room may not do."""
    mask = np.uint64(index.size // 2 - 1)
    for i in range(begin, hashes.size):
        start, stop = offsets[i], offsets[i + 1]
        if (
            4 * (count + 1) > index.size
            or count + 1 >= pool_offsets.size
            or pool_offsets[count] + stop - start > pool.size
        ):
            return i, count
        slot = np.int64(mix64(~np.uint64(hashes[i])) & mask)
        code = np.int64(-1)
        while index[2 * slot + 1]:
            known = index[2 * slot + 1] - 1
            if index[2 * slot] == hashes[i] and same_bytes(
                data, start, stop, pool, pool_offsets[known], pool_offsets[known + 1]
            ):
                code = known
                break
            slot = np.int64(np.uint64(slot + 1) & mask)
        if code < 0:
            code = count
            index[2 * slot], index[2 * slot + 1] = hashes[i], code + 1
            pool[pool_offsets[code] : pool_offsets[code] + stop - start] = data[start:stop]
            pool_offsets[code + 1] = pool_offsets[code] + stop - start
            count += 1
        codes[i] = code
    return hashes.size, count


@kernel
def _reindex(hashes: np.ndarray, index: np.ndarray) -> None:
    """Enter (hash, code + 1) of all strings into an empty index."""
    mask = np.uint64(index.size // 2 - 1)
    for code in range(hashes.size):
        slot = np.int64(mix64(~np.uint64(hashes[code])) & mask)
        while index[2 * slot + 1]:
            slot = np.int64(np.uint64(slot + 1) & mask)
        index[2 * slot], index[2 * slot + 1] = hashes[code], code + 1


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


@kernel
def _gather(pool: np.ndarray, offsets: np.ndarray, order: np.ndarray, new_offsets: np.ndarray, out: np.ndarray) -> None:
    for i in range(order.size):
        out[new_offsets[i] : new_offsets[i + 1]] = pool[offsets[order[i]] : offsets[order[i] + 1]]


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
        return self.find_bytes(*string_buffers(ids, self.name))

    def find_bytes(self, offsets: np.ndarray, data: np.ndarray) -> np.ndarray:
        """Return int64[n], the node of each string of UTF-8 bytes, given as int64[n + 1] offsets into uint8[m]."""
        out = np.empty(offsets.size - 1, np.int64)
        hashes = _hashes(offsets, data, self._mask)
        if not self._is_checked:
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
        if not self._is_checked:
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


class StringIds:
    """Collects the distinct string ids of a node type; edges keep a string's code, its order of appearance."""

    def __init__(self, name: str, *, hash_mask: int = ALL_BITS) -> None:
        self.name = name
        self._mask = np.uint64(hash_mask)
        self._index = np.zeros(2 << 12, np.int64)
        self._pool, self._offsets, self._count = np.zeros(1 << 16, np.uint8), np.zeros(1 << 11, np.int64), 0
        self._code_hashes = np.empty(0, np.int64)

    def add(self, values: Any) -> np.ndarray:
        """Take an Arrow string array and return int64[n] codes."""
        offsets, data = string_buffers(values, self.name)
        hashes = _hashes(offsets, data, self._mask)
        codes, begin = np.empty(hashes.size, np.int64), 0
        while begin < hashes.size:
            begin, self._count = _enter(
                offsets, data, hashes, begin, self._index, codes, self._pool, self._offsets, self._count
            )
            if begin < hashes.size:
                self._grow(int(offsets[begin + 1] - offsets[begin]))
        return codes

    def words(self) -> list[bytes]:
        """Return the distinct strings so far, UTF-8, by their codes."""
        data, offsets = self._pool.tobytes(), self._offsets[: self._count + 1].tolist()
        return [data[start:stop] for start, stop in zip(offsets[:-1], offsets[1:])]

    def _grow(self, length: int) -> None:
        count = self._count
        if count + 1 >= self._offsets.size:
            self._offsets = np.concatenate([self._offsets, np.zeros(self._offsets.size, np.int64)])
        if self._offsets[count] + length > self._pool.size:
            self._pool = np.concatenate([self._pool, np.zeros(self._pool.size + length, np.uint8)])
        if 4 * (count + 1) > self._index.size:
            keys = _hashes(self._offsets[: count + 1], self._pool, self._mask)
            self._index = np.zeros(2 * self._index.size, np.int64)
            _reindex(keys, self._index)

    def shards(self, values: np.ndarray, num_shards: int) -> np.ndarray:
        """Return int64[n], the shard of each code."""
        if self._code_hashes.size < self._count:
            self._code_hashes = _hashes(self._offsets[: self._count + 1], self._pool, self._mask)
        return shards_of(self._code_hashes[values], num_shards)

    def finish(self, num_shards: int) -> tuple[StringMap, np.ndarray, int, np.ndarray]:
        """Return the map, and the `direct`, `low` and `index` that turn codes into nodes."""
        count = self._count
        offsets = self._offsets[: count + 1]
        hashes = _hashes(offsets, self._pool, self._mask)
        by_hash = self._sorted(hashes, offsets)
        base, nodes, order = assign(hashes[by_hash], num_shards)
        node_of_code = np.empty(count, np.int64)
        node_of_code[by_hash] = nodes
        dense = by_hash[order]
        new_offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.diff(offsets)[dense], out=new_offsets[1:])
        data = np.zeros(max(1, int(new_offsets[-1])), np.uint8)
        _gather(self._pool, offsets, dense, new_offsets, data)
        built = StringMap.restore_strings(self.name, new_offsets, data, base, int(self._mask))
        return built, node_of_code if count else np.full(1, -1, np.int64), 0, np.empty(0, np.int64)

    def _sorted(self, hashes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
        """Order codes by hash, and by bytes where hashes are equal."""
        order = np.argsort(hashes, kind="stable")
        runs = np.flatnonzero(np.diff(hashes[order]) == 0)
        if runs.size == 0:
            return order
        values = hashes[order]
        for value in np.unique(values[runs]):
            low, high = (int(np.searchsorted(values, value, side)) for side in ("left", "right"))
            group = order[low:high]
            text = [self._pool[offsets[code] : offsets[code + 1]].tobytes() for code in group]
            order[low:high] = group[sorted(range(len(text)), key=text.__getitem__)]
        return order
