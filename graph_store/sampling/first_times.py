"""When an edge first was there: the membership test of lists that are ordered by time."""

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.kernels import int64_array, kernel, run_ranges
from graph_store.packed_lists import entry_of, locate, locate_extra, node_mark
from graph_store.packing import bit_mask, unpack
from graph_store.sampling.probing import FREE, slot_of

# The time of an edge that is not there, and of one of a type without times.
NEVER, ALWAYS = np.iinfo(np.int64).max, np.iinfo(np.int64).min


@kernel
def _first_times(arrays, order, sources, targets, out, start, stop):
    """Read the list of each source once, looking every neighbour up among the targets that are asked of it."""
    words, words32, directory, group_base = arrays
    room, first = np.empty(0, np.int64), np.empty(0, np.int64)
    low = start
    while low < stop:
        source, high = sources[order[low]], low + 1
        while high < stop and sources[order[high]] == source:
            high += 1
        size = 4
        while size < 2 * (high - low):
            size *= 2
        if room.size < size:
            room, first = np.empty(size, np.int64), np.empty(size, np.int64)
        keys, left = room[:size], 0
        keys[:] = FREE
        for i in range(low, high):
            at = slot_of(keys, targets[order[i]])
            left += keys[at] == FREE
            keys[at], first[at] = targets[order[i]], NEVER
        entry = entry_of(source, directory, group_base)
        degree, bit, bits, begin = locate(words, words32, entry, node_mark(source, entry, group_base))
        if degree:
            _, time_bit, time_bits, base, _, _, _ = locate_extra(words, words32, entry, degree, bit, bits, begin)
            value_mask, time_mask = bit_mask(bits), bit_mask(time_bits)
            for j in range(degree):  # by time: what comes first is the earliest
                neighbor = np.int64(unpack(words, bit + j * bits, value_mask))
                at = slot_of(keys, neighbor)
                if keys[at] != FREE and first[at] == NEVER:
                    first[at] = base + np.int64(unpack(words, time_bit + j * time_bits, time_mask))
                    left -= 1
                    if left == 0:
                        break
        for i in range(low, high):
            out[order[i]] = first[slot_of(keys, targets[order[i]])]
        low = high


def first_times(adjacency: Adjacency, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """Return the time of the earliest edge `sources[i]` → `targets[i]`.

    A timed list is read once for all that is asked of its source, in memory for what is asked: a hub costs a pass over
    it, never a table of its size.

    Parameters
    ----------
    adjacency : Adjacency
    sources, targets : int64[n]
        Nodes.

    Returns
    -------
    int64[n]
        `NEVER`, the greatest int64, where there is no such edge; `ALWAYS`, the least, where the type has no times.

    Raises
    ------
    ValueError
        A source is no source node here, or there are not as many of both.
    """
    if not adjacency.timed:
        return np.where(adjacency.has_edges(sources, targets), ALWAYS, NEVER)
    sources, targets = adjacency.check_nodes(sources), int64_array(targets, "targets")
    if targets.size != sources.size:
        raise ValueError(f"targets must be as many as sources, got {targets.size} and {sources.size}")
    order, out = np.argsort(sources, kind="stable"), np.empty(sources.size, np.int64)
    run_ranges(
        lambda start, stop: _first_times(adjacency.arrays, order, sources, targets, out, start, stop),
        sources.size,
        threads=adjacency.threads,
    )
    return out
