"""Exclusions: edges of a type that must not be drawn."""

from functools import cached_property

import numpy as np

from graph_store.kernels import int64_array, kernel
from graph_store.ragged import starts_of, take_spans


@kernel
def excluded_span(sources, indptr, node):
    """Return where the targets of a node begin and end in `targets`, the same twice where it has none."""
    low, high = 0, sources.size
    while low < high:
        middle = (low + high) >> 1
        if sources[middle] < node:
            low = middle + 1
        else:
            high = middle
    if low < sources.size and sources[low] == node:
        return indptr[low], indptr[low + 1]
    return np.int64(0), np.int64(0)


@kernel
def is_excluded(targets, low, high, node):
    """Say whether a node is among the targets of a span."""
    while low < high:
        middle = (low + high) >> 1
        if targets[middle] < node:
            low = middle + 1
        elif targets[middle] == node:
            return True
        else:
            high = middle
    return False


@kernel
def _has(arrays, src, dst, out):
    few, few_indptr, few_targets, sources, indptr, targets = arrays
    for i in range(src.size):
        low, high = excluded_span(few, few_indptr, src[i])
        out[i] = is_excluded(few_targets, low, high, dst[i])
        if low == high:
            low, high = excluded_span(sources, indptr, src[i])
            out[i] = is_excluded(targets, low, high, dst[i])


class Exclusions:
    """Pairs of nodes whose edges, all parallel ones, must not be drawn; ordered once, then looked up.

    Parameters
    ----------
    src, dst : int64[k]
        Nodes; a pair may be given more than once.

    Raises
    ------
    TypeError
        Nodes that are no integers.
    ValueError
        There are not as many of both.
    """

    def __init__(self, src: np.ndarray, dst: np.ndarray) -> None:
        src, dst = int64_array(src, "src"), int64_array(dst, "dst")
        if src.size != dst.size:
            raise ValueError(f"as many dst as src are needed, got {dst.size} and {src.size}")
        order = np.lexsort((dst, src))
        src, dst = src[order], dst[order]
        is_new = np.ones(src.size, bool)
        is_new[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
        src, self._targets = src[is_new], dst[is_new]
        starts = np.flatnonzero(np.diff(src, prepend=src[:1] - 1))
        self._sources, self._indptr = src[starts], np.append(starts, src.size)
        # What else is excluded, of the sources that are not among these.
        self._others: Exclusions | None = None
        self._few: Exclusions | None = None  # what was added to the others

    @property
    def _own(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return self._sources, self._indptr, self._targets

    @property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """Two times sources int64[u] ascending, indptr int64[u + 1], targets int64[p] ascending in each, for kernels.

        A source that is among the first three has all its targets there; the first, or the last, may be empty.
        """
        none = np.empty(0, np.int64)
        return (none, none, none, *self._own) if self._others is None else (*self._own, *self._others._own)

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Sources and targets, int64[p] each, of the distinct pairs, ascending."""
        pairs = np.repeat(self._sources, np.diff(self._indptr)), self._targets
        if self._others is None:
            return pairs
        left = ~np.isin(self._others.pairs[0], self._sources)
        src, dst = (np.concatenate([own, other[left]]) for own, other in zip(pairs, self._others.pairs))
        order = np.lexsort((dst, src))
        return src[order], dst[order]

    def __len__(self) -> int:
        """Distinct pairs."""
        return self._targets.size if self._others is None else self.pairs[0].size

    def __bool__(self) -> bool:
        return self._targets.size > 0 or (self._others is not None and bool(self._others))

    def __repr__(self) -> str:
        return f"Exclusions({len(self):,} pairs)"

    @cached_property
    def reversed(self) -> "Exclusions":
        """The pairs the other way."""
        if self._others is not None and self._few is not None:
            return self._others.reversed.with_few(self._few.reversed)
        return Exclusions(*self.pairs[::-1])

    def union(self, other: "Exclusions") -> "Exclusions":
        """Return the pairs of both."""
        src, dst = (np.concatenate(ends) for ends in zip(self.pairs, other.pairs))
        return Exclusions(src, dst)

    def with_few(self, other: "Exclusions") -> "Exclusions":
        """Return the pairs of both for the price of the other's, which are few: these are not copied."""
        if self._others is not None or other._others is not None:
            return self.union(other)
        places = np.searchsorted(self._sources, other._sources)
        there = np.flatnonzero(np.append(self._sources, -1)[places] == other._sources)
        firsts, sizes = self._indptr[places[there]], np.diff(self._indptr)[places[there]]
        known = take_spans(self._targets, firsts, starts_of(sizes))
        src, dst = other.pairs
        both = Exclusions(np.concatenate([src, np.repeat(other._sources[there], sizes)]), np.concatenate([dst, known]))
        both._others, both._few = self, other
        return both

    def has(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Return bool[n], whether each pair of int64[n] nodes is among these."""
        found = np.empty(src.size, np.bool_)
        _has(self.arrays, np.ascontiguousarray(src, np.int64), np.ascontiguousarray(dst, np.int64), found)
        return found
