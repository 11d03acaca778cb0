"""Exclusions: edges of a type that must not be drawn."""

from functools import cached_property

import numpy as np

from graph_store.kernels import int64_array, kernel


@kernel
def _place_in(values, low, high, value):
    """Return where a value is among ascending ones from `low` to before `high`, -1 where it is not.

    Without a branch that depends on what is there, which a processor would guess wrong half of the time.
    """
    left = high - low
    while left > 1:
        half = left >> 1
        low += half if values[low + half - 1] < value else np.int64(0)
        left -= half
    return low if left > 0 and values[low] == value else np.int64(-1)


@kernel
def excluded_span(sources, indptr, node):
    """Return where the targets of a node begin and end in `targets`, the same twice where it has none."""
    at = _place_in(sources, np.int64(0), np.int64(sources.size), node)
    if at >= 0:
        return indptr[at], indptr[at + 1]
    return np.int64(0), np.int64(0)


@kernel
def is_excluded(targets, low, high, node):
    """Say whether a node is among the targets of a span."""
    return _place_in(targets, low, high, node) >= 0


@kernel
def _has(arrays, src, dst, out):
    few, few_indptr, few_targets, sources, indptr, targets = arrays
    for i in range(src.size):
        low, high = excluded_span(few, few_indptr, src[i])
        out[i] = is_excluded(few_targets, low, high, dst[i])
        if low == high:
            low, high = excluded_span(sources, indptr, src[i])
            out[i] = is_excluded(targets, low, high, dst[i])


@kernel
def _joined(few, known, ends, targets):
    """Put the targets of each source in `few`, and what is known of it, in order and once; returns how many."""
    sources, indptr, own = few
    known_sources, known_indptr, known_targets = known
    count = np.int64(0)
    for i in range(sources.size):
        j, stop = excluded_span(known_sources, known_indptr, sources[i])
        for at in range(indptr[i], indptr[i + 1]):
            while j < stop and known_targets[j] < own[at]:
                targets[count] = known_targets[j]
                count, j = count + 1, j + 1
            if j < stop and known_targets[j] == own[at]:
                j += 1
            targets[count] = own[at]
            count += 1
        targets[count : count + stop - j] = known_targets[j:stop]
        count += stop - j
        ends[i + 1] = count
    return count


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
        src, targets = src[is_new], dst[is_new]
        starts = np.flatnonzero(np.diff(src, prepend=src[:1] - 1))
        self._set(src[starts], np.append(starts, src.size), targets)

    def _set(self, sources: np.ndarray, indptr: np.ndarray, targets: np.ndarray) -> None:
        self._sources, self._indptr, self._targets = sources, indptr, targets
        # What else is excluded, of the sources that are not among these.
        self._others: Exclusions | None = None
        self._few: Exclusions | None = None  # what was added to the others

    @classmethod
    def _of(cls, sources: np.ndarray, indptr: np.ndarray, targets: np.ndarray) -> "Exclusions":
        """Return those of arrays that are in order already."""
        made = cls.__new__(cls)
        made._set(sources, indptr, targets)
        return made

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
            other = self._others.reversed.with_few(self._few.reversed)
        else:
            other = Exclusions(*self.pairs[::-1])
        other.__dict__["reversed"] = self
        return other

    def union(self, other: "Exclusions") -> "Exclusions":
        """Return the pairs of both."""
        src, dst = (np.concatenate(ends) for ends in zip(self.pairs, other.pairs))
        return Exclusions(src, dst)

    def with_few(self, other: "Exclusions") -> "Exclusions":
        """Return the pairs of both for the price of the other's, which are few: these are not copied."""
        if self._others is not None or other._others is not None:
            return self.union(other)
        places = np.searchsorted(self._sources, other._sources)
        there = np.append(self._sources, -1)[places] == other._sources
        room = other._targets.size + int(np.diff(self._indptr)[places[there]].sum())
        ends, targets = np.zeros(other._sources.size + 1, np.int64), np.empty(room, np.int64)
        count = _joined(other._own, self._own, ends, targets)
        both = Exclusions._of(other._sources, ends, targets[:count])
        both._others, both._few = self, other
        return both

    def has(self, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
        """Return bool[n], whether each pair of int64[n] nodes is among these."""
        found = np.empty(src.size, np.bool_)
        _has(self.arrays, np.ascontiguousarray(src, np.int64), np.ascontiguousarray(dst, np.int64), found)
        return found
