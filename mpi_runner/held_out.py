"""The held-out edges of a run: a file or an edge type of the store, as nodes."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mpi_runner.config import DataConfig, HeldOut, is_edge_type
from mpi_runner.errors import RunError

if TYPE_CHECKING:
    from graph_store import GraphStore

Nodes = npt.NDArray[np.int64]


@dataclass(frozen=True)
class HeldOutEdges:
    """The users to rank for and the items that should come first, as CSR over nodes.

    Attributes
    ----------
    users : int64[q]
        Ascending, each with at least one item.
    indptr : int64[q + 1]
    items : int64[e]
        Ascending within a user.
    dropped : dict of str to int
        Held-out edges that cannot count, by reason: `unknown_user`, `unknown_item` (a node the store does not
        have), `duplicate`, and `in_train` (the very edge is trained on).
    """

    users: Nodes
    indptr: Nodes
    items: Nodes
    dropped: dict[str, int]

    def describe(self) -> str:
        """Return a line on what was left out and why; empty where nothing was."""
        reasons = [f"{count:,} {reason.replace('_', ' ')}" for reason, count in self.dropped.items() if count]
        return f"held-out edges left out: {', '.join(reasons)}" if reasons else ""


def read(data: DataConfig, store: "GraphStore", *, threads: int | None = None) -> HeldOutEdges | None:
    """Read the held-out edges of a configuration.

    Parameters
    ----------
    data : DataConfig
    store : GraphStore

    Returns
    -------
    HeldOutEdges or None
        None where `data.test` is absent.

    Raises
    ------
    RunError
        If no held-out edge is left.
    graph_store.GraphStoreError
        If the file cannot be read, or the store has no such edge type.
    """
    if data.test is None:
        return None
    edge_type = store.edge_types[data.edge_type]
    if isinstance(data.test, str) and is_edge_type(data.test):
        users, items = _edges_of_type(store, data.test, edge_type)
        dropped = {"unknown_user": 0, "unknown_item": 0}
    else:
        users, items, dropped = _edges_of_file(store, data.test, edge_type, threads)
    pairs = np.unique(np.stack([users, items]), axis=1)
    dropped["duplicate"] = users.size - pairs.shape[1]
    known = store.adjacency(data.edge_type).has_edges(*np.ascontiguousarray(pairs))
    dropped["in_train"] = int(known.sum())
    users, items = pairs[:, ~known]
    if not users.size:
        reasons = ", ".join(f"{reason.replace('_', ' ')} {count:,}" for reason, count in dropped.items())
        raise RunError(f"data.test has no edge to rank ({reasons}): is it of the same ids as {data.store}?")
    unique, counts = np.unique(users, return_counts=True)
    return HeldOutEdges(unique, np.concatenate([[0], np.cumsum(counts)]), np.ascontiguousarray(items), dropped)


def _edges_of_type(store: "GraphStore", name: str, trained: Any) -> tuple[Nodes, Nodes]:
    held_out = store.edge_types.get(name)
    adjacency = store.adjacency(name)
    assert held_out is not None
    if (held_out.src, held_out.dst) != (trained.src, trained.dst):
        raise RunError(f"data.test {name} must connect {trained.src} to {trained.dst}, as {trained.name} does")
    return adjacency.edges_at(np.arange(adjacency.num_edges, dtype=np.int64))


def _edges_of_file(
    store: "GraphStore", test: str | HeldOut, trained: Any, threads: int | None
) -> tuple[Nodes, Nodes, dict[str, int]]:
    users: list[Nodes] = []
    items: list[Nodes] = []
    dropped = {"unknown_user": 0, "unknown_item": 0}
    for src, dst in _batches(store, test, trained, threads):
        user_nodes = store.id_map(trained.src).find(src)
        item_nodes = store.id_map(trained.dst).find(dst)
        dropped["unknown_user"] += int((user_nodes < 0).sum())
        dropped["unknown_item"] += int(((user_nodes >= 0) & (item_nodes < 0)).sum())
        known = (user_nodes >= 0) & (item_nodes >= 0)
        users.append(user_nodes[known])
        items.append(item_nodes[known])
    empty = [np.zeros(0, dtype=np.int64)]
    return np.concatenate(empty + users), np.concatenate(empty + items), dropped


def _batches(store: "GraphStore", test: str | HeldOut, trained: Any, threads: int | None) -> Iterator[tuple[Any, Any]]:
    from graph_store.readers import read_edges
    from graph_store.schema import EdgeSource, NodeType

    layout = test if isinstance(test, HeldOut) else HeldOut(test)
    source = EdgeSource(
        Path(layout.path),
        format=layout.format,
        src=layout.src,
        dst=layout.dst,
        header=layout.header,
        delimiter=layout.delimiter,
    )
    ends = [NodeType(name, id_type=store.node_types[name].id_type) for name in (trained.src, trained.dst)]
    for batch in read_edges(source, src_type=ends[0], dst_type=ends[1], threads=threads):
        yield batch.src, batch.dst


def pack(edges: HeldOutEdges) -> npt.NDArray[np.int64]:
    """Return the edges as one int64 array that `unpack` takes apart, for the wire."""
    counts = [edges.users.size, edges.items.size, *edges.dropped.values()]
    return np.concatenate([np.array(counts, dtype=np.int64), edges.users, edges.indptr, edges.items])


def unpack(packed: npt.NDArray[np.int64]) -> HeldOutEdges:
    """Return what `pack` was given."""
    names = ("unknown_user", "unknown_item", "duplicate", "in_train")
    num_users, num_items = packed[:2].tolist()
    users, indptr, items = np.split(packed[2 + len(names) :], np.cumsum([num_users, num_users + 1]))
    assert items.size == num_items
    return HeldOutEdges(users, indptr, items, dict(zip(names, packed[2 : 2 + len(names)].tolist())))
