"""Negative samples: nodes that a source has no edge to."""

import numpy as np

from graph_store.adjacency import Adjacency, entry_of, list_has, locate, node_mark
from graph_store.draws import NEGATIVES, draw, key_of, mixed
from graph_store.kernels import int64_array, kernel, run_ranges


@kernel
def _negatives(arrays, sources, candidates, positions, key, tries, by_time, out, start, stop):
    words, words32, directory, group_base = arrays
    for i in range(start, stop):
        entry = entry_of(sources[i], directory, group_base)
        degree, bit, bits, _ = locate(words, words32, entry, node_mark(sources[i], entry, group_base))
        unit = mixed(key, np.uint64(positions[i]))
        for k in range(out.shape[1]):
            unit = mixed(unit, np.uint64(k))
            found = np.int64(-1)
            for attempt in range(tries):
                candidate = candidates[draw(unit, attempt, candidates.size)]
                if not list_has(words, degree, bit, bits, candidate, by_time):
                    found = candidate
                    break
            if found < 0:  # the exact way: one of those that are left
                left = 0
                for candidate in candidates:
                    left += not list_has(words, degree, bit, bits, candidate, by_time)
                if left:
                    chosen = draw(unit, tries, left)
                    for candidate in candidates:
                        if not list_has(words, degree, bit, bits, candidate, by_time):
                            if chosen == 0:
                                found = candidate
                                break
                            chosen -= 1
            out[i, k] = found


def sample_negatives(
    adjacency: Adjacency,
    sources: np.ndarray,
    candidates: np.ndarray,
    positions: np.ndarray,
    *,
    num_negatives: int = 1,
    seed: int,
    epoch: int = 0,
    tries: int = 32,
    threads: int | None = None,
) -> np.ndarray:
    """Draw nodes uniformly from those candidates that a source has no edge to.

    Up to `tries` candidates are drawn and refused when there is an edge; after them the choice is made among all that
    are left, so that it is exact for a source which has nearly all of them.

    Parameters
    ----------
    adjacency : Adjacency
        The edges that a negative must not be among.
    sources : int64[n]
        The node of each sample.
    candidates : int64[m]
        Nodes to draw from.
    positions : int64[n]
        Each sample's position in the epoch, over all ranks: a draw depends on (seed, epoch, position) only.

    Returns
    -------
    int64[n, num_negatives]
        Repeats are possible. -1 where a source has an edge to every candidate.

    Raises
    ------
    TypeError
        An array is not of integers.
    ValueError
        A source is no source node here, a candidate is negative, there is no candidate, or positions are not as many
        as sources.
    """
    sources = adjacency.check_nodes(sources)
    candidates, positions = int64_array(candidates, "candidates"), int64_array(positions, "positions")
    if positions.size != sources.size:
        raise ValueError(f"positions must be as many as sources, got {positions.size} and {sources.size}")
    if candidates.size == 0:
        raise ValueError("candidates must hold at least one node")
    if candidates.min() < 0:
        raise ValueError(f"candidates must be nodes, got {candidates.min()}")
    if num_negatives < 0:
        raise ValueError(f"num_negatives must be 0 or more, got {num_negatives}")
    out = np.empty((sources.size, num_negatives), np.int64)
    key = key_of(seed, epoch, NEGATIVES)
    run_ranges(
        lambda start, stop: _negatives(
            adjacency.arrays, sources, candidates, positions, key, tries, adjacency.timed, out, start, stop
        ),
        sources.size,
        threads=threads,
        grain=1 << 11,
    )
    return out
