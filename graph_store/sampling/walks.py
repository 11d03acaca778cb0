"""Random walks: uniform, weighted, along a metapath, node2vec, with restart, in time."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.draws import WALKS, key_of
from graph_store.errors import BadInput
from graph_store.kernels import int64_array, run_ranges
from graph_store.sampling.node2vec import node2vec_hops
from graph_store.sampling.walk_kernels import uniform_hops, unit_keys, valued_hops

METHODS = ("uniform", "weighted")
# Threads share out walks in parts of half as many hops or more.
_GRAIN = 1 << 15


@dataclass(frozen=True)
class WalkRule:
    """How a walk goes on: see `walk`.

    Raises
    ------
    BadInput
        A value that is out of its range.
    """

    method: str = "uniform"
    p: float = 1.0
    q: float = 1.0
    restart: float = 0.0
    strict: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise BadInput(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        for name, value in (("p", self.p), ("q", self.q)):
            if not (0 < value < np.inf and 1 / value < np.inf):
                raise BadInput(f"{name} must be a number above 0, got {value}; 1 makes no difference between edges")
        if not 0 <= self.restart <= 1:
            raise BadInput(f"restart must be a probability, 0 to 1, got {self.restart}")
        if self.window is not None and not 0 <= self.window < 1 << 63:
            raise BadInput(f"window must be a time span from 0 on, got {self.window}")

    @property
    def is_second_order(self) -> bool:
        """True when a hop depends on the node before, as in node2vec."""
        return self.p != 1 or self.q != 1

    def check(self, chain: Sequence[Adjacency], *, in_time: bool) -> None:
        """Raise BadInput where edges have not what the rule looks at, or two of its parts do not go together."""
        if self.is_second_order and len(chain) > 1:
            raise BadInput(
                f"p and q need one edge type between nodes of one type, got {len(chain)} in turn; leave them out"
            )
        if self.is_second_order and in_time:
            raise BadInput("p and q do not go with times; leave either out")
        if not in_time and (self.strict or self.window is not None):
            raise BadInput("strict and window need times, those from which the walks begin")
        for hop, adjacency in enumerate(chain):
            if self.method == "weighted" and not adjacency.weighted:
                raise BadInput(f"method 'weighted' needs weights, but edges of hop {hop + 1} have none; say 'uniform'")
            if in_time and not adjacency.timed:
                raise BadInput(f"times need edges with times, but those of hop {hop + 1} have none; leave times out")


def walk(
    chain: Sequence[Adjacency],
    starts: np.ndarray,
    *,
    length: int,
    walks: int = 1,
    method: str = "uniform",
    p: float = 1.0,
    q: float = 1.0,
    restart: float = 0.0,
    times: Any = None,
    strict: bool = False,
    window: int | None = None,
    seed: int,
    step: int = 0,
    positions: np.ndarray | None = None,
    threads: int | None = 1,
) -> np.ndarray:
    """Walk from nodes to neighbours, hop by hop.

    A draw depends on the seed, the step and the walk's number in the step, `positions[i] · walks + w` for walk w from
    start i, never on the node alone: walks that meet part again. They are the same at any number of threads, and for
    any cut of a step's starts over ranks.

    Parameters
    ----------
    chain : sequence of Adjacency
        What the hops go along, in turn and then from the first again; a hop's destinations are sources of the next.
    starts : int64[n]
        Source nodes of the first.
    length : int
        Hops.
    walks : int
        Walks from each start.
    method : str
        `"uniform"` or `"weighted"`: an edge is taken in proportion to its weight, never where that is zero, negative or
        NaN.
    p, q : float
        node2vec's return and in-out parameters (Grover and Leskovec, KDD 2016): the edge back to the node before counts
        1 / p times, one to a node that the node before has an edge to once, any other 1 / q times.
    restart : float
        With that probability a hop is taken from the start and not from where the walk is; at each beginning of the
        chain but the first. Where it does not start again, a dead end ends the walk.
    times : int64[n], optional
        From when on the walks begin. An edge is never earlier than the one before it (Nguyen et al., CTDNE, WWW 2018
        companion), or the start's time where there is none.
    strict : bool
        An edge is later than the one before it.
    window : int, optional
        An edge is at most so much later than the one before it.
    positions : int64[n], optional
        The global position of each start in the step; 0 … n − 1 when None.
    threads : int, optional
        All cores when None.

    Returns
    -------
    int64[n · walks, length + 1]
        Nodes, -1 behind a dead end; the walks of start i are rows `i · walks … (i + 1) · walks − 1`.

    Raises
    ------
    TypeError
        Nodes or times that are no integers.
    ValueError
        A start is no source node, or positions or times are not as many as starts.
    BadInput
        A value out of its range, or one that does not go with the edges or another.
    CorruptBlock
        A block on the way is damaged.
    """
    chain, rule = tuple(chain), WalkRule(method, p, q, restart, strict, window)
    rule.check(chain, in_time=times is not None)
    if length < 1 or walks < 1:
        raise BadInput(f"length and walks must be 1 or more, got {length} and {walks}")
    starts = chain[0].check_nodes(starts)
    positions = np.arange(starts.size) if positions is None else _as_many(positions, "positions", starts.size)
    from_times = np.empty(0, np.int64) if times is None else np.repeat(_as_many(times, "times", starts.size), walks)
    keys = np.empty(starts.size * walks, np.uint64)
    unit_keys(key_of(seed, step, WALKS), positions, walks, keys)
    paths = np.empty((keys.size, length + 1), np.int64)
    paths[:, 0] = np.repeat(starts, walks)
    no_sums = np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)
    tables = [adjacency.weight_sums if method == "weighted" else no_sums for adjacency in chain]
    clocks = from_times.copy()

    def hops(first: int, last: int, start: int, stop: int) -> None:
        adjacency, table = chain[first % len(chain)], tables[first % len(chain)]
        span = (first, last)
        if rule.is_second_order:
            kinds = method == "weighted", adjacency.timed, adjacency.distinct, 1 / p, 1 / q
            node2vec_hops(adjacency.arrays, table, keys, paths, kinds, span, float(restart), start, stop)
        elif method == "weighted" or clocks.size:
            kind = method == "weighted", bool(strict), -1 if window is None else window
            valued_hops(
                adjacency.arrays,
                table,
                keys,
                paths,
                clocks,
                from_times,
                kind,
                span,
                len(chain),
                float(restart),
                start,
                stop,
            )
        else:
            uniform_hops(adjacency.arrays, keys, paths, span, len(chain), float(restart), start, stop)

    def part(start: int, stop: int) -> None:
        if len(chain) == 1 and chain[0].is_checked:
            hops(0, length, start, stop)
            return
        for hop in range(length):
            reached = paths[start:stop, hop]
            chain[hop % len(chain)].check_blocks(reached[reached >= 0], sweep=True)
            hops(hop, hop + 1, start, stop)

    run_ranges(part, keys.size, threads=threads, grain=max(1, _GRAIN // length))
    return paths


def _as_many(values: Any, name: str, size: int) -> np.ndarray:
    values = int64_array(values, name)
    if values.size != size:
        raise ValueError(f"{name} must be as many as starts, got {values.size} and {size}")
    return values
