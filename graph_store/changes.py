"""What came and what went between two versions of a store."""

import os
from dataclasses import dataclass
from typing import Any

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.commit_log import read_batches
from graph_store.delta import Delta
from graph_store.edge_lists import sorted_order
from graph_store.ids import IdMap, nodes_of_ranks
from graph_store.overlay_edges import dirty_nodes
from graph_store.store import GraphStore
from graph_store.view import edge_change, operations


@dataclass(frozen=True)
class EdgeSet:
    """Edges in original ids.

    Attributes
    ----------
    src, dst
        int64[n], uint64[n], or object[n] of str.
    weights : float32[n] or None
    times : int64[n] or None
    """

    src: np.ndarray
    dst: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None

    def __len__(self) -> int:
        return int(self.src.size)


@dataclass(frozen=True)
class Changes:
    """The difference of two versions.

    Attributes
    ----------
    since, until : int
    added, removed : dict of str to EdgeSet
        By edge type, reverse types left out; of an undirected edge one way. An edge whose weight changed is in both.
    new_nodes, gone_nodes : dict of str to ids
        By node type.
    """

    since: int
    until: int
    added: dict[str, EdgeSet]
    removed: dict[str, EdgeSet]
    new_nodes: dict[str, np.ndarray]
    gone_nodes: dict[str, np.ndarray]


def changes(
    path: str | os.PathLike[str], since: int, until: int | None = None, *, threads: int | None = None
) -> Changes:
    """List the edges and nodes that came and went after version `since`, for training on what is new.

    Parameters
    ----------
    path : path
    since : int
        A version that the store keeps, such as that of an open reader.
    until : int, optional
        The newest version when None.

    Raises
    ------
    UnknownVersion
        A version is not kept, or not there yet.
    """
    with GraphStore(path, threads=threads, as_of=since) as old, GraphStore(path, threads=threads, as_of=until) as new:
        manifest = old.view.manifest
        delta = Delta(manifest, old.view.ids)
        delta.extend(payload for _, payload in read_batches(old.path, old.version, new.version))
        added, removed = {}, {}
        for number, entry in enumerate(manifest.edge_types):
            if manifest.forward(number) != number:
                continue
            rows, expired = operations(manifest, delta, number)
            nodes = np.unique(dirty_nodes(edge_change(old.view, delta, number), rows, expired))
            before = _edges(old.adjacency(entry.name), nodes, once=entry.undirected)
            after = _edges(new.adjacency(entry.name), nodes, once=entry.undirected)
            gone, came = _difference(before, after)
            added[entry.name] = _edge_set(new, entry, after, came)
            removed[entry.name] = _edge_set(old, entry, before, gone)
        came_nodes, gone_nodes = {}, {}
        for name in old.node_types:
            ids_before, ids_after = old.id_map(name), new.id_map(name)
            live_before, live_after = _live(ids_before), _live(ids_after)
            came_nodes[name] = ids_after.to_ids(np.setdiff1d(live_after, live_before, assume_unique=True))
            gone_nodes[name] = ids_before.to_ids(np.setdiff1d(live_before, live_after, assume_unique=True))
        return Changes(old.version, new.version, added, removed, came_nodes, gone_nodes)


def _live(ids: IdMap) -> np.ndarray:
    nodes = nodes_of_ranks(ids.base)
    return nodes if ids.dead.size == 0 else np.setdiff1d(nodes, ids.dead, assume_unique=True)


def _edges(adjacency: Adjacency, nodes: np.ndarray, *, once: bool) -> list[np.ndarray | None]:
    """Return source, neighbour, weight and time of the entries of nodes, as far as they are there."""
    num_shards = adjacency.counts.size
    there = nodes[nodes // num_shards < adjacency.counts[nodes % num_shards]]
    indptr, neighbors, weights, times, _ = adjacency.columns(there, edge_ids=False)
    columns: list[np.ndarray | None] = [np.repeat(there, np.diff(indptr)), neighbors, weights, times]
    if once:
        keep = np.repeat(there, np.diff(indptr)) <= neighbors
        columns = [None if column is None else column[keep] for column in columns]
    return columns


def _difference(before: list, after: list) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows that only one of two sets of edges has, equal ones cancelled one by one."""
    size = before[0].size
    keys = []
    for first, second in zip(before, after):
        if first is not None:
            both = np.concatenate([first, second])
            keys.append(both.view(np.uint32).astype(np.uint64) if both.dtype == np.float32 else both.view(np.uint64))
    order = sorted_order([(key, 64) for key in keys])
    if order.size == 0:
        return order, order
    starts = np.flatnonzero(np.logical_or.reduce([np.diff(key[order], prepend=~key[order[0]]) != 0 for key in keys]))
    runs = np.repeat(np.arange(starts.size), np.diff(np.append(starts, order.size)))
    is_new = order >= size
    # Within a run of equal edges the old ones come first; the k-th old cancels the k-th new.
    new_in_run = np.bincount(runs, weights=is_new).astype(np.int64)
    old_in_run = np.bincount(runs).astype(np.int64) - new_in_run
    place = np.arange(order.size) - starts[runs]
    gone = ~is_new & (place >= new_in_run[runs])
    came = is_new & (place - old_in_run[runs] >= old_in_run[runs])
    return np.sort(order[gone]), np.sort(order[came] - size)


def _edge_set(store: GraphStore, entry: Any, columns: list, rows: np.ndarray) -> EdgeSet:
    src, dst, *rest = columns
    weights, times = (None if column is None else column[rows] for column in rest)
    return EdgeSet(store.to_ids(entry.src, src[rows]), store.to_ids(entry.dst, dst[rows]), weights, times)
