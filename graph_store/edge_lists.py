"""Rows of edges → sorted adjacency lists, equal edges made one as the edge type's rule says.

Rows without any value take the fast way: one 64-bit key an edge (rank of the source, then the node of the target), one
stable partition by the key's high bits into buckets that fit the cache, and a radix sort from the least significant
digit within each (Knuth, TAOCP 3, 5.2.5). For other rows see `valued_lists`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from graph_store.kernels import kernel, num_threads, run_ranges

DIGIT_BITS = 11
BUCKET_BITS = 10
# Memory that building lists takes a row, at its peak, for rows without and with values.
PLAIN_ROW_BYTES, ROW_BYTES = 36, 120


class Rows(NamedTuple):
    """Edges from some sources, in the order of the input.

    ranks : uint64[n], of the sources; nodes : uint64[n], the targets
    weights : float32[n]; times, edge_ids : int64[n]; each None where edges have none
    """

    ranks: np.ndarray
    nodes: np.ndarray
    weights: np.ndarray | None = None
    times: np.ndarray | None = None
    edge_ids: np.ndarray | None = None


class Lists(NamedTuple):
    """Adjacency lists of consecutive ranks.

    indptr : int64[r + 1]; neighbors : int64[m], nodes ascending within a list (by time first where there are times)
    weights : float32[m]; times, edge_ids : int64[m]; each None where edges have none
    """

    indptr: np.ndarray
    neighbors: np.ndarray
    weights: np.ndarray | None = None
    times: np.ndarray | None = None
    edge_ids: np.ndarray | None = None

    def part(self, first: int, stop: int) -> "Lists":
        """Return the lists of the ranks `first … stop − 1`, counted from the first one here."""
        indptr = self.indptr[first : stop + 1]
        edges = slice(int(indptr[0]), int(indptr[-1]))
        columns = (None if column is None else column[edges] for column in self[1:])
        return Lists(indptr - indptr[0], *columns)  # type: ignore[arg-type]


class Ends(NamedTuple):
    """Edges without values from some sources, in any order.

    locals : uint32[n], of the sources; nodes : uint32[n] or uint64[n], the targets
    kinds : uint16[n], which of several edge types they are of; empty where there is one
    """

    locals: np.ndarray
    nodes: np.ndarray
    kinds: np.ndarray


class EqualEdges(Exception):
    """Two rows are one edge where the rule is "error": the rank of their source and the node of their target."""

    def __init__(self, rank: int, node: int) -> None:
        super().__init__(rank, node)
        self.rank, self.node = rank, node


@kernel
def _rank(locals_, kinds, i, padded, low):
    rank = np.int64(locals_[i]) - low
    if kinds.size:
        rank += np.int64(kinds[i]) * padded
    return rank


@kernel
def _histogram(ends, padded, low, shift, counts):
    locals_, _, kinds = ends
    for i in range(locals_.size):
        counts[_rank(locals_, kinds, i, padded, low) >> shift] += 1


@kernel
def _scatter(ends, padded, low, bits, shift, offsets, out):
    """Put keys, the rank above `bits` bits of the target, into the bucket of their rank."""
    locals_, nodes, kinds = ends
    for i in range(locals_.size):
        rank = _rank(locals_, kinds, i, padded, low)
        bucket = rank >> shift
        out[offsets[bucket]] = np.uint64(rank) << np.uint64(bits) | np.uint64(nodes[i])
        offsets[bucket] += 1


@kernel
def _radix_sort(keys, scratch, start, stop, digit_bits, counts):
    """Sort `keys[start:stop]` by their low bits.

    Parameters
    ----------
    scratch : uint64[n]
        As many as there are keys, or more.
    counts : uint32[passes, 2 ** digit_bits]
        Overwritten; it says how many digits are sorted by.
    """
    size = stop - start
    if size <= 48:
        for i in range(start + 1, stop):
            key, j = keys[i], i
            while j > start and keys[j - 1] > key:
                keys[j] = keys[j - 1]
                j -= 1
            keys[j] = key
        return
    # All digits are counted at once: a bucket is little more than its tables of counts.
    counts[:] = 0
    mask = np.uint64(counts.shape[1] - 1)
    for i in range(start, stop):
        key = keys[i]
        for number in range(counts.shape[0]):
            counts[number, np.int64(key & mask)] += np.uint32(1)
            key >>= np.uint64(digit_bits)
    for number in range(counts.shape[0]):
        total = np.uint32(0)
        for place in range(counts.shape[1]):
            count = counts[number, place]
            counts[number, place] = total
            total += count
    source, target, source_at, target_at = keys, scratch, start, 0
    for number in range(counts.shape[0]):
        shift = np.uint64(number * digit_bits)
        for i in range(source_at, source_at + size):
            digit = np.int64((source[i] >> shift) & mask)
            target[target_at + np.int64(counts[number, digit])] = source[i]
            counts[number, digit] += np.uint32(1)
        source, target, source_at, target_at = target, source, target_at, source_at
    if counts.shape[0] & 1:
        for i in range(size):
            keys[start + i] = scratch[i]


@kernel
def _sort_buckets(keys, offsets, shift, bits, unique, degrees, kept, first, last):
    """Sort buckets, drop equal keys in place if told, and count: `degrees` a rank, `kept` a bucket."""
    passes, largest = (shift + DIGIT_BITS - 1) // DIGIT_BITS, 0
    digit_bits = (shift + passes - 1) // passes
    counts = np.empty((passes, 1 << digit_bits), np.uint32)
    for bucket in range(first, last):
        largest = max(largest, offsets[bucket + 1] - offsets[bucket])
    scratch = np.empty(largest, np.uint64)
    for bucket in range(first, last):
        start, stop = offsets[bucket], offsets[bucket + 1]
        _radix_sort(keys, scratch, start, stop, digit_bits, counts)
        used = start
        for i in range(start, stop):
            if i == start or not unique or keys[i] != keys[used - 1]:
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


def plain_lists(
    rows: Sequence[Ends], num_ranks: int, bits: int, *, low: int = 0, padded: int = 0, rule: str, threads: int
) -> Lists:
    """Build lists of rows without values.

    Parameters
    ----------
    rows : sequence of Ends
        The rank of a source is `kind * padded + local - low`, below `num_ranks`; targets have at most `bits` bits.
    rule : str
        "first", "all" or "error".

    Raises
    ------
    EqualEdges
    """
    rank_bits = max(1, int(num_ranks - 1).bit_length()) if num_ranks else 1
    shift = max(0, rank_bits - BUCKET_BITS)
    num_buckets = (max(num_ranks - 1, 0) >> shift) + 1
    size = sum(each.nodes.size for each in rows)
    parts = max(1, min(num_threads(threads), size >> 16))
    shares = [_share(rows, size * part // parts, size * (part + 1) // parts) for part in range(parts)]
    counts = np.zeros((parts, num_buckets), np.int64)

    def each_part(call: Callable[[int], None]) -> None:
        def call_some(first: int, last: int) -> None:
            for part in range(first, last):
                call(part)

        run_ranges(call_some, parts, threads=parts, grain=1)

    def count(part: int) -> None:
        for ends in shares[part]:
            _histogram(ends, padded, low, shift, counts[part])

    def scatter(part: int) -> None:
        for ends in shares[part]:
            _scatter(ends, padded, low, bits, shift, starts[part], keys)

    each_part(count)
    offsets = np.zeros(num_buckets + 1, np.int64)
    np.cumsum(counts.sum(axis=0), out=offsets[1:])
    starts = offsets[:-1] + np.cumsum(counts, axis=0) - counts
    keys = np.empty(size, np.uint64)
    each_part(scatter)
    cuts = np.searchsorted(offsets, [size * part // parts for part in range(1, parts)])
    cuts = np.concatenate([[0], cuts, [num_buckets]])
    indptr, kept = np.zeros(num_ranks + 1, np.int64), np.zeros(num_buckets + 1, np.int64)
    sorted_bits, unique = bits + shift, rule == "first"
    each_part(
        lambda part: _sort_buckets(keys, offsets, sorted_bits, bits, unique, indptr, kept, cuts[part], cuts[part + 1])
    )
    if rule == "error":
        _check_different(keys, bits)
    np.cumsum(kept, out=kept)
    np.cumsum(indptr, out=indptr)
    # One thread never writes over what it has not read; of several, one would over another's.
    neighbors = keys.view(np.int64)[: int(kept[-1])] if parts == 1 else np.empty(int(kept[-1]), np.int64)
    each_part(lambda part: _compact(keys, offsets, kept, bits, neighbors, cuts[part], cuts[part + 1]))
    return Lists(indptr, neighbors)


def _share(rows: Sequence[Ends], first: int, stop: int) -> list[Ends]:
    """Return the rows `first … stop − 1`, counted through all."""
    share, at = [], 0
    for each in rows:
        part = slice(max(first - at, 0), max(stop - at, 0))
        at += each.nodes.size
        if first < at and part.start < part.stop:
            share.append(Ends(*(column[part] for column in each)))
    return share


def _check_different(keys: np.ndarray, bits: int) -> None:
    equal = np.flatnonzero(keys[1:] == keys[:-1])
    if equal.size:
        key = int(keys[equal[0]])
        raise EqualEdges(key >> bits, key & ((1 << bits) - 1))


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
