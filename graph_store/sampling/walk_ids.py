"""Walks and most visited nodes by original ids, along edge types of a store."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graph_store.errors import BadInput
from graph_store.manifest import StoredEdgeType
from graph_store.sampling.pinsage import visited_neighbors
from graph_store.sampling.plan import check_path
from graph_store.sampling.walks import walk

if TYPE_CHECKING:
    from graph_store.store import GraphStore


class Walks(NamedTuple):
    """Walks by original ids, those of the first start first.

    Attributes
    ----------
    ids
        int64[w, length + 1] or uint64[w, length + 1]; object[w, length + 1] where there are str. Behind the end of a
        walk: -1, 2^64 - 1 or None.
    lengths : int64[w]
        Nodes of each walk, the start among them.
    """

    ids: np.ndarray
    lengths: np.ndarray

    def lists(self) -> list[list[Any]]:
        """Return each walk as the list of its ids."""
        return [row[:length] for row, length in zip(self.ids.tolist(), self.lengths.tolist())]


class VisitedIds(NamedTuple):
    """The most visited nodes of each start by original ids: see `Visited`.

    Attributes
    ----------
    indptr : int64[n + 1]
    ids
        int64[m], uint64[m] or object[m] of str.
    counts : int64[m]
    """

    indptr: np.ndarray
    ids: np.ndarray
    counts: np.ndarray


def ways_of(
    store: "GraphStore", edge_type: str | None, metapath: Sequence[str] | None, length: int
) -> list[StoredEdgeType]:
    """Return what the hops of a walk go along, in turn and then from the first again.

    Raises
    ------
    UnknownEdgeType
    BadInput
        Both are given, one way does not begin where another ends, or there is no way back between two node types.
    """
    if metapath is None:
        ways = store.chain(edge_type, min(max(length, 1), 2))
        return ways[:1] if ways[0].src == ways[0].dst else ways
    if edge_type is not None:
        raise BadInput("a metapath names its edge types; leave edge_type out")
    if not len(metapath):
        raise BadInput("metapath must name one edge type or more, got none")
    ways = [store.chain(name, 1)[0] for name in metapath]
    around = ways + (ways[:1] if length > len(ways) else [])
    check_path([way.name for way in around], [(way.src, way.dst) for way in around])
    return ways


def walk_ids(
    store: "GraphStore",
    ids: Any,
    edge_type: str | None,
    metapath: Sequence[str] | None,
    *,
    length: int,
    **options: Any,
) -> Walks:
    """Walk from nodes given by original ids: see `GraphStore.walk`."""
    ways = ways_of(store, edge_type, metapath, length)
    adjacencies = [store.adjacency(way.name) for way in ways]
    nodes = walk(adjacencies, store.to_nodes(ways[0].src, ids), length=length, **options)
    types = [ways[hop % len(ways)].src for hop in range(length)] + [ways[(length - 1) % len(ways)].dst]
    return Walks(_ids_by_column(store, nodes, types), np.count_nonzero(nodes >= 0, axis=1))


def visited_ids(
    store: "GraphStore",
    ids: Any,
    edge_type: str | None,
    metapath: Sequence[str] | None,
    *,
    length: int,
    **options: Any,
) -> VisitedIds:
    """Find the most visited nodes of nodes given by original ids: see `GraphStore.visited_neighbors`."""
    ways = ways_of(store, edge_type, metapath, length)
    adjacencies = [store.adjacency(way.name) for way in ways]
    found = visited_neighbors(adjacencies, store.to_nodes(ways[0].src, ids), length=length, **options)
    return VisitedIds(found.indptr, store.to_ids(ways[-1].dst, found.neighbors), found.counts)


def _ids_by_column(store: "GraphStore", nodes: np.ndarray, types: Sequence[str]) -> np.ndarray:
    """Translate int64[w, c] nodes, -1 where there is none, whose columns are of those node types."""
    kinds = {store.to_ids(name, nodes[:0, 0]).dtype for name in types}
    kind = kinds.pop() if len(kinds) == 1 else np.dtype(object)
    ids = np.full(nodes.shape, None if kind.hasobject else np.array(-1).astype(kind), kind)
    for name in dict.fromkeys(types):
        there = (nodes >= 0) & np.array([other == name for other in types])
        ids[there] = store.to_ids(name, nodes[there])
    return ids
