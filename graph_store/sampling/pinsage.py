"""PinSAGE's neighbourhoods: the nodes that walks with restart visit most (Ying et al., KDD 2018, section 3.1)."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.errors import BadInput
from graph_store.kernels import kernel, run_ranges
from graph_store.ragged import starts_of
from graph_store.sampling.walks import walk

# Walks are made and counted in parts of so many nodes at most: 32 MiB.
_PART_NODES = 1 << 22


class Visited(NamedTuple):
    """The most visited nodes of each start, the most visited first; of equal ones the smaller node.

    Attributes
    ----------
    indptr : int64[n + 1]
    neighbors : int64[m]
        Nodes; never the start itself.
    counts : int64[m]
        How often the walks came to each.
    """

    indptr: np.ndarray
    neighbors: np.ndarray
    counts: np.ndarray


@kernel
def count_visits(paths, walks, period, limit, sizes, nodes, counts, start, stop):
    """Count what the walks of each start visited at the ends of rounds of `period` hops, and keep the first `limit`."""
    length = paths.shape[1] - 1
    seen = np.empty(walks * (length // period), np.int64)
    for i in range(start, stop):
        size = 0
        for row in range(i * walks, (i + 1) * walks):
            for hop in range(period, length + 1, period):
                node = paths[row, hop]
                if node >= 0 and node != paths[row, 0]:
                    seen[size] = node
                    size += 1
        ordered = np.sort(seen[:size])
        firsts, distinct = np.empty(size + 1, np.int64), 0
        for j in range(size):
            if j == 0 or ordered[j] != ordered[j - 1]:
                firsts[distinct] = j
                distinct += 1
        firsts[distinct] = size
        visits = firsts[1 : distinct + 1] - firsts[:distinct]
        order = np.argsort(-visits, kind="mergesort")
        sizes[i] = min(limit, distinct)
        for j in range(sizes[i]):
            nodes[i, j], counts[i, j] = ordered[firsts[order[j]]], visits[order[j]]


def visited_neighbors(
    chain: Sequence[Adjacency],
    starts: np.ndarray,
    *,
    num_neighbors: int,
    walks: int,
    length: int,
    restart: float = 0.5,
    method: str = "uniform",
    seed: int,
    step: int = 0,
    positions: np.ndarray | None = None,
    threads: int | None = 1,
) -> Visited:
    """Return the nodes that walks with restart come to most often, with how often they do.

    Parameters
    ----------
    chain : sequence of Adjacency
        See `walk`. A node counts where a round of the chain ends: along a type and its reverse these are nodes of the
        starts' type.
    starts : int64[n]
    num_neighbors : int
        Nodes kept for each start; there are fewer where the walks came to fewer.
    walks, length : int
        Walks from each start, and hops of each.
    restart, method, seed, step, positions, threads
        See `walk`.

    Returns
    -------
    Visited
        The same for any number of threads.

    Raises
    ------
    BadInput
        No neighbours or walks are asked for, or a walk is shorter than the chain.
    """
    if num_neighbors < 1:
        raise BadInput(f"num_neighbors must be 1 or more, got {num_neighbors}")
    if length < len(chain):
        raise BadInput(f"length must be {len(chain)} or more, the hops of a round, got {length}")
    if walks < 1:
        raise BadInput(f"walks must be 1 or more, got {walks}")
    starts = chain[0].check_nodes(starts)
    positions = np.arange(starts.size) if positions is None else positions
    limit = min(num_neighbors, walks * (length // len(chain)))
    part_starts = max(1, _PART_NODES // (walks * (length + 1)))
    parts = []
    for low in range(0, max(1, starts.size), part_starts):
        own = slice(low, low + part_starts)
        paths = walk(
            chain,
            starts[own],
            length=length,
            walks=walks,
            method=method,
            restart=restart,
            seed=seed,
            step=step,
            positions=positions[own],
            threads=threads,
        )
        parts.append(_counted(paths, walks, len(chain), limit, threads))
    sizes, nodes, counts = (np.concatenate(columns) for columns in zip(*parts))
    return Visited(starts_of(sizes), nodes, counts)


def _counted(
    paths: np.ndarray, walks: int, period: int, limit: int, threads: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    num_starts = paths.shape[0] // walks
    sizes = np.empty(num_starts, np.int64)
    nodes, counts = np.empty((num_starts, limit), np.int64), np.empty((num_starts, limit), np.int64)
    run_ranges(
        lambda start, stop: count_visits(paths, walks, period, limit, sizes, nodes, counts, start, stop),
        num_starts,
        threads=threads,
        grain=64,
    )
    kept = np.arange(limit) < sizes[:, None]
    return sizes, nodes[kept], counts[kept]
