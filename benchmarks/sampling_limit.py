"""What bounds sampling: lines of memory that a batch touches at random, and how many of those a second can be read."""

from typing import Any

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.kernels import kernel, mix64, prefetch
from graph_store.packed_lists import LOOK_AHEAD
from graph_store.sampling.located import BIT, BITS, DEGREE, NUM_ROWS, find_lists

LINE_BITS = 512


@kernel
def _list_lines(arrays, nodes, fanout):
    spots = np.zeros((NUM_ROWS, LOOK_AHEAD), np.int64)
    total = 0.0
    for low in range(0, nodes.size, LOOK_AHEAD):
        size = min(LOOK_AHEAD, nodes.size - low)
        find_lists(arrays, nodes, low, size, spots)
        for i in range(size):
            degree, bit, bits = spots[DEGREE, i], spots[BIT, i], spots[BITS, i]
            if degree:
                lines = (bit + degree * bits - 1) // LINE_BITS - bit // LINE_BITS + 1
                total += lines * (1 - (1 - 1 / lines) ** min(degree, fanout))
    return total


def lines_touched(adjacency: Adjacency, nodes: np.ndarray, fanout: int, num_edges: int) -> float:
    """Return how many lines of 64 bytes a hop is expected to touch.

    Two a node, in the directory and where its block says where lists end; those of its list that draws fall in (of n
    lines k draws hit n(1 − (1 − 1/n)^k)); and a slot of the labels for each neighbour drawn.

    Parameters
    ----------
    adjacency : Adjacency
    nodes : int64[n]
        What the hop expands.
    fanout, num_edges : int
    """
    return 2 * nodes.size + float(_list_lines(adjacency.arrays, nodes, fanout)) + num_edges


@kernel
def _read_lines(words, count, seed):
    """Sum words at random, 64 of them asked for ahead, as the sampler does."""
    at, total = np.empty(LOOK_AHEAD, np.int64), np.uint64(0)
    for low in range(0, count, LOOK_AHEAD):
        for i in range(LOOK_AHEAD):
            at[i] = np.int64(mix64(np.uint64(seed + low + i)) % np.uint64(words.size))
            prefetch(words, at[i])
        for i in range(LOOK_AHEAD):
            total += words[at[i]]
    return total


def read_lines(adjacency: Adjacency, count: int, seed: int) -> Any:
    """Read so many words of the arena at random."""
    return _read_lines(adjacency.arrays[0], count, seed)
