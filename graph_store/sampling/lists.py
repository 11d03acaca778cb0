"""Neighbours drawn from many lists of one edge type by a rule, with what goes with them."""

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.errors import BadInput
from graph_store.kernels import run_ranges
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.list_draws import draw_places, draw_places_by_weight, gather_places
from graph_store.sampling.neighbors import MOST, draw_plainly, joined, room_of
from graph_store.sampling.rule import METHODS, Rule

COLUMNS = ("edge_ids", "weights", "times")
_NO_PEAKS = np.empty(0, np.float32)


class Drawn(NamedTuple):
    """What was drawn, list by list.

    Where all that can be drawn are taken they are in the order of the list (by node, or by time and node where the type
    has times), and so are the latest; the heaviest come heaviest first, others in the order in which they were drawn.

    Attributes
    ----------
    indptr : int64[n + 1]
    neighbors : int64[m]
    edge_ids : int64[m] or None
        The stored edge id, or the edge's position where the type has none: see `Adjacency.edges_at`.
    weights : float32[m] or None
    times : int64[m] or None
    """

    indptr: np.ndarray
    neighbors: np.ndarray
    edge_ids: np.ndarray | None = None
    weights: np.ndarray | None = None
    times: np.ndarray | None = None


def draw_lists(
    adjacency: Adjacency,
    nodes: np.ndarray,
    rule: Rule,
    *,
    key: np.uint64,
    units: np.ndarray | None = None,
    bounds: np.ndarray | None = None,
    exclude: Exclusions | None = None,
    columns: Collection[str] = (),
    threads: int | None = 1,
) -> Drawn:
    """Draw neighbours of nodes by a rule; the same for any number of threads.

    Parameters
    ----------
    adjacency : Adjacency
    nodes : int64[n]
        Source nodes, known to be such; one may come several times.
    rule : Rule
    key : uint64
        See `draws.key_of`.
    units : uint64[n], optional
        What the draws of each list depend on besides the key; the node when None.
    bounds : int64[n], optional
        The time up to which the edges of each list are seen. Edges of a type without times are seen always.
    exclude : Exclusions, optional
        Edges, all parallel ones, that are left out as if they were not there.
    columns : collection of str
        Which of `edge_ids`, `weights` and `times` are wanted; weights and times are None where the type has none.
    threads : int, optional
        All cores when None.
    """
    adjacency.check_blocks(nodes, sweep=True)
    if rule.is_plain and units is None and not (len(columns) or exclude) and (bounds is None or not adjacency.timed):
        return Drawn(*draw_plainly(adjacency, nodes, rule.fanout, key, threads))
    fanout = min(rule.fanout, MOST)
    window = -1 if rule.window is None else rule.window
    kernel_rule = fanout, rule.replace, METHODS.index(rule.method), rule.strict, window
    wanted = _wanted(adjacency, columns)
    none = np.empty(0, np.int64)
    asked = (
        nodes,
        np.empty(0, np.uint64) if units is None else units,
        bounds if bounds is not None and adjacency.timed else none,
    )
    groups = adjacency.group_positions if wanted[2] and not adjacency.numbered else none
    by_weight = rule.method in ("weighted", "top")
    hubs = adjacency.weight_sums if by_weight else None, adjacency.weight_peaks if rule.method == "top" else _NO_PEAKS
    excluded = (none,) * 6 if exclude is None else exclude.arrays

    def part(start: int, stop: int) -> list[np.ndarray]:
        room = room_of(adjacency, nodes[start:stop], fanout, replace=rule.replace)
        indptr, out = np.empty(stop - start + 1, np.int64), np.empty(room, np.int64)
        found = _columns_of(wanted, room)
        how = asked, kernel_rule, key, excluded, indptr, out, found, start, stop
        if by_weight:
            used = draw_places_by_weight(adjacency.arrays, groups, hubs, *how)
        else:
            used = draw_places(adjacency.arrays, groups, *how)
        return [indptr, *(column[:used] for column in (out, *found))]

    return _drawn(joined(run_ranges(part, nodes.size, threads=threads, grain=1 << 12)), wanted)


def gather_lists(
    adjacency: Adjacency,
    nodes: np.ndarray,
    indptr: np.ndarray,
    places: np.ndarray,
    *,
    columns: Collection[str] = (),
    threads: int | None = 1,
) -> Drawn:
    """Return the neighbours at places `indptr[i] … indptr[i + 1] − 1` of the list of node i, with their columns."""
    wanted = _wanted(adjacency, columns)
    groups = adjacency.group_positions if wanted[2] and not adjacency.numbered else np.empty(0, np.int64)
    out, found = places.copy(), _columns_of(wanted, places.size)
    run_ranges(
        lambda start, stop: gather_places(adjacency.arrays, groups, nodes, indptr, out, found, start, stop),
        nodes.size,
        threads=threads,
        grain=1 << 12,
    )
    return _drawn([indptr, out, *found], wanted)


def check_columns(columns: Collection[str]) -> frozenset[str]:
    """Return columns, of which one may be given alone; BadInput where one is not among `COLUMNS`."""
    if isinstance(columns, str):
        columns = (columns,)
    unknown = set(columns) - set(COLUMNS)
    if unknown:
        raise BadInput(f"columns may be {', '.join(COLUMNS)}, got {', '.join(sorted(unknown))}")
    return frozenset(columns)


def _wanted(adjacency: Adjacency, columns: Collection[str]) -> tuple[bool, bool, bool]:
    """Say which of weights, times and edge ids are asked for and there."""
    return "weights" in columns and adjacency.weighted, "times" in columns and adjacency.timed, "edge_ids" in columns


def _columns_of(wanted: tuple[bool, bool, bool], size: int) -> tuple[np.ndarray, ...]:
    kinds = np.float32, np.int64, np.int64
    return tuple(np.empty(size if want else 0, kind) for want, kind in zip(wanted, kinds))


def _drawn(parts: list[np.ndarray], wanted: tuple[bool, bool, bool]) -> Drawn:
    indptr, neighbors, weights, times, edge_ids = parts
    return Drawn(
        indptr,
        neighbors,
        edge_ids if wanted[2] else None,
        weights if wanted[0] else None,
        times if wanted[1] else None,
    )
