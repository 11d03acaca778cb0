"""How negatives are drawn: tries that are refused where there is an edge, then a choice among all that are left."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.draws import draw, fraction, mixed
from graph_store.kernels import kernel
from graph_store.packed_lists import entry_of, list_has, locate, node_mark
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.first_times import ALWAYS, NEVER, first_times

# How many tries are drawn and tested together: most are met by the first, so that the next are few.
_ROUNDS = (1, 3, 12)


@kernel
def strict_uniform(arrays, sources, candidates, positions, key, tries, out, start, stop):
    """Draw uniformly, strict against one adjacency without times, in one pass: what most epochs need."""
    words, words32, directory, group_base = arrays
    for i in range(start, stop):
        entry = entry_of(sources[i], directory, group_base)
        degree, bit, bits, _ = locate(words, words32, entry, node_mark(sources[i], entry, group_base))
        unit = mixed(key, np.uint64(positions[i]))
        left = np.int64(-1)
        for k in range(out.shape[1]):
            unit = mixed(unit, np.uint64(k))
            found = np.int64(-1)
            for attempt in range(tries):
                candidate = candidates[draw(unit, attempt, candidates.size)]
                if not list_has(words, degree, bit, bits, candidate, False):
                    found = candidate
                    break
            if found < 0 and left < 0:
                left = np.int64(0)
                for candidate in candidates:
                    left += not list_has(words, degree, bit, bits, candidate, False)
            if found < 0 and left > 0:  # the exact way: one of those that are left
                chosen = draw(unit, tries, left)
                for candidate in candidates:
                    if not list_has(words, degree, bit, bits, candidate, False):
                        if chosen == 0:
                            found = candidate
                            break
                        chosen -= 1
            out[i, k] = found


@kernel
def _units(key, positions, out):
    for i in range(positions.size):
        unit = mixed(key, np.uint64(positions[i]))
        for k in range(out.shape[1]):
            unit = mixed(unit, np.uint64(k))
            out[i, k] = unit


@kernel
def _place(unit, attempt, size, sums):
    """Draw a place 0 … size − 1, uniformly or, where there are any, by cumulated weights."""
    if sums.size == 0:
        return draw(unit, attempt, size)
    point = fraction(unit, attempt) * sums[-1]
    if point >= sums[-1]:  # the product was rounded up
        return np.int64(np.searchsorted(sums, sums[-1], side="left"))
    return np.int64(np.searchsorted(sums, point, side="right"))


@kernel
def _places(units, attempt, size, sums, out):
    for i in range(units.size):
        for j in range(out.shape[1]):
            out[i, j] = _place(units[i], attempt + j, size, sums)


def units_of(key: np.uint64, positions: np.ndarray, num_negatives: int) -> np.ndarray:
    """Return uint64[n, k], the unit of the draws of each negative of each position."""
    units = np.empty((positions.size, num_negatives), np.uint64)
    _units(key, positions, units)
    return units


@dataclass(frozen=True)
class Request:
    """What is to be drawn: see `NegativeSampler`.

    Attributes
    ----------
    sources : int64[n]
    candidates : int64[m]
    sums : float64[m]
        Cumulated weights; empty where candidates are alike.
    known : sequence of Adjacency
    held_out, taken : Exclusions or None
    targets, times : int64[n] or None
    units : uint64[n, k]
    tries : int
    """

    sources: np.ndarray
    candidates: np.ndarray
    sums: np.ndarray
    known: Sequence[Adjacency]
    held_out: Exclusions | None
    taken: Exclusions | None
    targets: np.ndarray | None
    times: np.ndarray | None
    units: np.ndarray
    tries: int

    def drawn(self) -> np.ndarray:
        """Return int64[n, k] nodes, -1 where there is none."""
        nodes = np.full(self.units.size, -1, np.int64)
        left = np.arange(nodes.size)
        attempt = 0
        for width in (*_ROUNDS, self.tries):
            width = min(width, self.tries - attempt)
            if width and left.size:
                tried = self._tried(left, attempt, width)
                rows = np.repeat(left // self.units.shape[1], width)
                good = ~self._refused(rows, tried.ravel()).reshape(tried.shape)
                met = good.any(axis=1)
                nodes[left[met]] = tried[met, good[met].argmax(axis=1)]
                left = left[~met]
            attempt += width
        self._choose(left, nodes)
        return nodes.reshape(self.units.shape)

    def fill(self, nodes: np.ndarray) -> None:
        """Put a candidate in the place of each -1 of int64[n, k] nodes, the target only where there is no other."""
        left = np.flatnonzero(nodes.ravel() < 0)
        tried = self._tried(left, self.tries + 1, 1).ravel()
        if self.targets is not None:
            targets = self.targets[left // self.units.shape[1]]
            for i in np.flatnonzero(tried == targets):
                others = np.flatnonzero((self.candidates != targets[i]) & self._has_weight)
                if others.size:
                    tried[i] = self.candidates[self._one_of(others, self.units.ravel()[left[i]], self.tries + 2)]
        nodes.ravel()[left] = tried

    def _tried(self, left: np.ndarray, attempt: int, width: int) -> np.ndarray:
        places = np.empty((left.size, width), np.int64)
        _places(self.units.ravel()[left], attempt, self.candidates.size, self.sums, places)
        return self.candidates[places]

    def _refused(self, rows: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return bool[r], whether each node may not be drawn for sample `rows[i]`."""
        first = self._first_times(self.sources[rows], nodes)
        refused = first < NEVER if self.times is None else first <= self.times[rows]
        if self.targets is not None:
            refused |= nodes == self.targets[rows]
        return refused

    def _first_times(self, sources: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        """Return int64[r], from when on each node is none to draw: ALWAYS, a time, or NEVER."""
        first = np.full(nodes.size, NEVER)
        for adjacency in self.known:
            np.minimum(first, first_times(adjacency, sources, nodes), out=first)
        if self.held_out is not None:
            there = np.flatnonzero(first < NEVER)
            first[there[self.held_out.has(sources[there], nodes[there])]] = NEVER
        if self.taken is not None:
            first[self.taken.has(sources, nodes)] = ALWAYS
        return first

    def _choose(self, left: np.ndarray, nodes: np.ndarray) -> None:
        """Fill in what the tries left over, by looking at every candidate."""
        count = self.units.shape[1]
        rows = left // max(1, count)
        for source in np.unique(self.sources[rows]):
            first = self._first_times(np.full(self.candidates.size, source), self.candidates)
            for row in np.unique(rows[self.sources[rows] == source]):
                free = first == NEVER if self.times is None else first > self.times[row]
                if self.targets is not None:
                    free &= self.candidates != self.targets[row]
                places = np.flatnonzero(free & self._has_weight)
                if places.size:
                    for i in left[rows == row]:
                        nodes[i] = self.candidates[self._one_of(places, self.units.ravel()[i], self.tries)]

    @property
    def _has_weight(self) -> np.ndarray | bool:
        return True if self.sums.size == 0 else np.diff(self.sums, prepend=0) > 0

    def _one_of(self, places: np.ndarray, unit: np.uint64, attempt: int) -> int:
        """Draw one of int64[p] places as it is weighted."""
        sums = np.cumsum(np.diff(self.sums, prepend=0)[places]) if self.sums.size else self.sums
        return int(places[_place(unit, attempt, places.size, sums)])
