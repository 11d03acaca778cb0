"""Rows of edges → sorted adjacency lists without duplicates.

Rows without weight and time take the fast way: one 64-bit key an edge (dense rank of the source, then the node of the
target), one stable partition by the key's high bits into buckets that fit the cache, and a radix sort from the least
significant digit within each (Knuth, TAOCP 3, 5.2.5). Other rows are sorted through their index, so that the first of
duplicates is the one that stays.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from graph_store.ids import LOOK_AHEAD, find_nodes, find_range
from graph_store.kernels import kernel, num_threads, run_ranges

DIGIT_BITS = 11
BUCKET_BITS = 11


class Columns(NamedTuple):
    """Rows of edges: `src` and `dst` int64[n] as the edges keep ids, weight float32[n], time int64[n] or None."""

    src: np.ndarray
    dst: np.ndarray
    weight: np.ndarray | None = None
    time: np.ndarray | None = None

    def swapped(self) -> "Columns":
        """Return the rows with their ends exchanged."""
        return Columns(self.dst, self.src, self.weight, self.time)

    def both_ways(self) -> "Columns":
        """Return each row followed by its opposite, self loops once."""
        src = np.stack([self.src, self.dst], axis=1).ravel()
        dst = np.stack([self.dst, self.src], axis=1).ravel()
        keep = np.ones(src.size, bool)
        keep[1::2] = self.src != self.dst
        weight = None if self.weight is None else np.repeat(self.weight, 2)[keep]
        time = None if self.time is None else np.repeat(self.time, 2)[keep]
        return Columns(src[keep], dst[keep], weight, time)

    def take(self, rows: np.ndarray) -> "Columns":
        """Return some rows, by index or mask."""
        return Columns(*(None if column is None else column[rows] for column in self))  # type: ignore[arg-type]

    @property
    def num_bytes(self) -> int:
        """Bytes of all columns."""
        return sum(0 if column is None else column.nbytes for column in self)


class Finder(NamedTuple):
    """How kept ids become nodes (`direct` and `low`, or the `hashed` index), and the dense ranks' `base`."""

    direct: np.ndarray
    low: int
    hashed: np.ndarray
    base: np.ndarray


class Lists(NamedTuple):
    """Adjacency lists of consecutive dense ranks.

    indptr : int64[n + 1]; neighbors : int64[m], nodes ascending within a list (by time first where there are times)
    weights : float32[m] or None; times : int64[m] or None
    """

    indptr: np.ndarray
    neighbors: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None


@kernel
def _map_rows(src, dst, source, target, bits, ranks_low, keys, to, start, stop):
    """Write key = (rank of source − ranks_low) << bits | node of target; bits 0 writes the rank alone."""
    sources, targets = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    direct, low, index, base = source
    to_direct, to_low, to_index, _ = target
    num_shards = np.uint64(base.size - 1)
    for at in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - at)
        find_nodes(src, at, size, direct, low, index, sources, 0)
        if bits:
            find_nodes(dst, at, size, to_direct, to_low, to_index, targets, 0)
        for i in range(size):
            local = np.uint64(sources[i]) // num_shards
            shard = np.int64(np.uint64(sources[i]) - local * num_shards)
            rank = np.uint64(base[shard] + np.int64(local) - ranks_low)
            if bits:
                rank = rank << np.uint64(bits) | np.uint64(targets[i])
            keys[to + at + i] = rank


def map_rows(
    chunks: Sequence[Columns], source: Finder, target: Finder, *, bits: int, ranks_low: int, threads: int
) -> np.ndarray:
    """Return uint64[n], the key of each row of all chunks; with `bits` 0 the source's rank alone."""
    keys, to = np.empty(sum(chunk.src.size for chunk in chunks), np.uint64), 0
    for chunk in chunks:
        into = partial(_map_rows, chunk.src, chunk.dst, source, target, bits, ranks_low, keys, to)
        run_ranges(into, chunk.src.size, threads=threads)
        to += chunk.src.size
    return keys


@kernel
def _histogram(keys: np.ndarray, shift: int, counts: np.ndarray, start: int, stop: int) -> None:
    for i in range(start, stop):
        counts[np.int64(keys[i] >> np.uint64(shift))] += 1


@kernel
def _scatter(keys: np.ndarray, shift: int, offsets: np.ndarray, out: np.ndarray, start: int, stop: int) -> None:
    for i in range(start, stop):
        bucket = np.int64(keys[i] >> np.uint64(shift))
        out[offsets[bucket]] = keys[i]
        offsets[bucket] += 1


@kernel
def _radix_sort(keys, scratch, start, stop, bits):
    """Sort `keys[start:stop]` by their low bits."""
    if stop - start <= 48:
        for i in range(start + 1, stop):
            key, j = keys[i], i
            while j > start and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    counts = np.empty(1 << DIGIT_BITS, np.int64)
    source, target = keys, scratch
    mask, passes = np.uint64((1 << DIGIT_BITS) - 1), 0
    for shift in range(0, bits, DIGIT_BITS):
        counts[:] = 0
        for i in range(start, stop):
            counts[np.int64((source[i] >> np.uint64(shift)) & mask)] += 1
        total = np.int64(start)
        for digit in range(counts.size):
            counts[digit], total = total, total + counts[digit]
        for i in range(start, stop):
            place = np.int64((source[i] >> np.uint64(shift)) & mask)
            target[counts[place]] = source[i]
            counts[place] += 1
        source, target = target, source
        passes += 1
    if passes & 1:
        for i in range(start, stop):
            keys[i] = scratch[i]


@kernel
def _sort_buckets(keys, scratch, offsets, shift, bits, degrees, kept, first, last):
    """Sort buckets, drop duplicates in place and count: `degrees` a rank, `kept` a bucket."""
    for bucket in range(first, last):
        start, stop = offsets[bucket], offsets[bucket + 1]
        _radix_sort(keys, scratch, start, stop, shift)
        used = start
        for i in range(start, stop):
            if i == start or keys[i] != keys[used - 1]:
                keys[used] = keys[i]
                degrees[np.int64(keys[i] >> np.uint64(bits)) + 1] += 1
                used += 1
        kept[bucket + 1] = used - start


@kernel
def _compact(keys, offsets, kept, bits, neighbors, first, last):
    mask = (np.uint64(1) << np.uint64(bits)) - np.uint64(1)
    for bucket in range(first, last):
        to, size, start = kept[bucket], kept[bucket + 1] - kept[bucket], offsets[bucket]
        for i in range(size):
            neighbors[to + i] = np.int64(keys[start + i] & mask)


def _plain_lists(keys: np.ndarray, num_ranks: int, bits: int, threads: int) -> Lists:
    """Sort keys of up to 64 bits into lists."""
    rank_bits = max(1, int(num_ranks - 1).bit_length()) if num_ranks else 1
    shift = bits + max(0, rank_bits - BUCKET_BITS)
    num_buckets = (max(num_ranks - 1, 0) >> (shift - bits)) + 1
    parts = max(1, min(num_threads(threads), keys.size >> 16))
    bounds = [keys.size * part // parts for part in range(parts + 1)]
    counts = np.zeros((parts, num_buckets), np.int64)

    def each(call):
        run_ranges(lambda low, high: [call(part) for part in range(low, high)], parts, threads=parts, grain=1)

    each(lambda part: _histogram(keys, shift, counts[part], bounds[part], bounds[part + 1]))
    offsets = np.zeros(num_buckets + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=offsets[1:])
    starts = offsets[:-1] + np.cumsum(counts, axis=0) - counts
    sorted_keys = np.empty_like(keys)
    each(lambda part: _scatter(keys, shift, starts[part], sorted_keys, bounds[part], bounds[part + 1]))
    cuts = np.searchsorted(offsets, [keys.size * part // parts for part in range(1, parts)])
    cuts = np.concatenate([[0], cuts, [num_buckets]])
    indptr, kept = np.zeros(num_ranks + 1, np.int64), np.zeros(num_buckets + 1, np.int64)
    each(lambda part: _sort_buckets(sorted_keys, keys, offsets, shift, bits, indptr, kept, cuts[part], cuts[part + 1]))
    np.cumsum(kept, out=kept)
    np.cumsum(indptr, out=indptr)
    neighbors = np.empty(int(kept[-1]), np.int64)
    each(lambda part: _compact(sorted_keys, offsets, kept, bits, neighbors, cuts[part], cuts[part + 1]))
    return Lists(indptr, neighbors, None, None)


@kernel
def _argsort(keys: np.ndarray, bits: int, order: np.ndarray, scratch: np.ndarray) -> None:
    """Sort `order` by `keys[order]`, stably; the result is in `order` (an even number of passes is made)."""
    counts = np.empty(1 << DIGIT_BITS, np.int64)
    source, target = order, scratch
    mask, passes = np.uint64((1 << DIGIT_BITS) - 1), 0
    for shift in range(0, bits, DIGIT_BITS):
        counts[:] = 0
        for i in range(source.size):
            counts[np.int64((keys[i] >> np.uint64(shift)) & mask)] += 1
        total = np.int64(0)
        for digit in range(counts.size):
            counts[digit], total = total, total + counts[digit]
        for i in range(source.size):
            place = np.int64((keys[source[i]] >> np.uint64(shift)) & mask)
            target[counts[place]] = source[i]
            counts[place] += 1
        source, target = target, source
        passes += 1
    if passes & 1:
        order[:] = scratch


def sorted_order(columns: Sequence[tuple[np.ndarray, int]]) -> np.ndarray:
    """Return the stable order by several uint64 columns of stated bits, the most significant first."""
    words: list[tuple[np.ndarray, int]] = []
    for values, bits in reversed(columns):
        if words and words[-1][1] + bits <= 64:
            low, used = words[-1]
            words[-1] = (values << np.uint64(used) | low, used + bits)
        else:
            words.append((values, bits))
    order = np.arange(columns[0][0].size)
    scratch = np.empty_like(order)
    for values, bits in words:
        _argsort(values, bits, order, scratch)
    return order


def _indexed_lists(
    ranks: np.ndarray, targets: np.ndarray, weight: np.ndarray | None, time: np.ndarray | None, num_ranks: int
) -> Lists:
    """Sort rows through their index; of equal (source, target, time) the first row stays."""

    def bits_of(values: np.ndarray) -> int:
        return max(1, int(values.max()).bit_length()) if values.size else 1

    keys = [ranks, targets.astype(np.uint64)]
    if time is not None:
        origin = time.min() if time.size else np.int64(0)
        keys.insert(1, time.view(np.uint64) - np.uint64(int(origin) & (2**64 - 1)))
    order = sorted_order([(values, bits_of(values)) for values in keys])
    keys = [values[order] for values in keys]
    keep = np.ones(order.size, bool)
    if order.size:
        keep[1:] = np.logical_or.reduce([values[1:] != values[:-1] for values in keys])
    indptr = np.zeros(num_ranks + 1, np.int64)
    np.cumsum(np.bincount(keys[0][keep].astype(np.int64), minlength=num_ranks), out=indptr[1:])
    order = order[keep]
    return Lists(
        indptr,
        keys[-1][keep].astype(np.int64),
        None if weight is None else weight[order],
        None if time is None else time[order],
    )


def build_lists(
    chunks: Sequence[Columns],
    source: Finder,
    target: Finder,
    *,
    ranks: tuple[int, int],
    bits: int,
    threads: int,
) -> Lists:
    """Build the lists of the dense ranks `ranks[0] … ranks[1] − 1` from rows whose sources are all among them.

    Parameters
    ----------
    chunks : sequence of Columns
        In the order of the input.
    source, target : Finder
        Of the two node types.
    ranks : (int, int)
    bits : int
        Bits of a target node.
    threads : int
        The result does not depend on it.
    """
    low, high = ranks
    rank_bits = max(1, (high - low).bit_length())
    plain = all(chunk.weight is None and chunk.time is None for chunk in chunks)
    if plain and bits + rank_bits <= 64:
        keys = map_rows(chunks, source, target, bits=bits, ranks_low=low, threads=threads)
        return _plain_lists(keys, high - low, bits, threads)
    keys = map_rows(chunks, source, target, bits=0, ranks_low=low, threads=threads)
    nodes = np.empty(keys.size, np.int64)
    at = 0
    for chunk in chunks:
        ids, to = chunk.dst, nodes[at : at + chunk.dst.size]
        find_range(ids, target.direct, target.low, target.hashed, to, 0, ids.size)
        at += ids.size

    def joined(name: str) -> np.ndarray | None:
        parts = [getattr(chunk, name) for chunk in chunks]
        return None if not parts or parts[0] is None else np.concatenate(parts)

    return _indexed_lists(keys, nodes, joined("weight"), joined("time"), high - low)
