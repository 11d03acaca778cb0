"""Exclusions: edges of a type that must not be drawn."""

from functools import cached_property

import numpy as np

from graph_store.kernels import int64_array, kernel


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
def _has(sources, indptr, targets, src, dst, out):
    for i in range(src.size):
        low, high = excluded_span(sources, indptr, src[i])
        out[i] = is_excluded(targets, low, high, dst[i])


class Exclusions:
    """Pairs of nodes whose edges, all parallel ones, must not be drawn; ordered once, then looked up.

    Parameters
    ----------
    src, dst : int64[k]
        Nodes; a pair may be given more than once.

    Attributes
    ----------
    sources : int64[u]
        The distinct sources, ascending.
    indptr : int64[u + 1]
    targets : int64[p]
        Ascending and distinct for each source.

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
        src, self.targets = src[is_new], dst[is_new]
        starts = np.flatnonzero(np.diff(src, prepend=src[:1] - 1))
        self.sources, self.indptr = src[starts], np.append(starts, src.size)

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`sources`, `indptr` and `targets`, as kernels take them."""
        return self.sources, self.indptr, self.targets

    def __len__(self) -> int:
        """Distinct pairs."""
        return self.targets.size

    def __repr__(self) -> str:
        return f"Exclusions({len(self):,} pairs)"

    @cached_property
    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """Sources and targets, int64[p] each, of the distinct pairs."""
        return np.repeat(self.sources, np.diff(self.indptr)), self.targets

    def union(self, other: "Exclusions") -> "Exclusions":
        """Return the pairs of both."""
        src, dst = (np.concatenate(ends) for ends in zip(self.pairs, other.pairs))
        return Exclusions(src, dst)

    def has(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Return bool[n], whether each pair of int64[n] nodes is among these."""
        found = np.empty(src.size, np.bool_)
        _has(*self.arrays, np.ascontiguousarray(src, np.int64), np.ascontiguousarray(dst, np.int64), found)
        return found
