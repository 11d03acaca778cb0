"""Propagation: LightGCN's layers as means over neighbours, and their adjoint, over the rows of one rank."""

from dataclasses import dataclass, field

import numpy as np

from graph_store import GraphStore
from graph_store.kernels import kernel, prefetch, run_ranges
from models.exchange import Exchange, FetchPlan

SIDES = ("user", "item")
_SCAN_EDGES = 1 << 22
# Neighbours' rows are asked for this many neighbours ahead; a line of the cache holds 16 floats.
_AHEAD, _LINE = 6, 16


@kernel
def _add_means(indptr, indices, wanted, marks, fetched, base, out, start, stop):
    """out[k] = base[i] + the mean of the fetched rows of i's neighbours, i = wanted[k]; unmarked ones are zeros."""
    dim = fetched.shape[1]
    flat = fetched.reshape(-1)
    total = np.empty(dim, np.float32)
    for k in range(start, stop):
        i = wanted[k]
        begin, end = indptr[i], indptr[i + 1]
        total[:] = 0
        if marks.size:
            for at in range(begin, end):
                j = indices[at]
                if marks[j]:
                    for column in range(dim):
                        total[column] += fetched[j, column]
        else:
            for at in range(begin, end):
                if at + _AHEAD < indices.size:
                    for line in range(0, dim, _LINE):
                        prefetch(flat, np.int64(indices[at + _AHEAD]) * dim + line)
                j = indices[at]
                for column in range(dim):
                    total[column] += fetched[j, column]
        factor = np.float32(1.0) / np.float32(max(end - begin, 1))
        for column in range(dim):
            out[k, column] = base[i, column] + factor * total[column]


@dataclass
class Side:
    """One side's rows on this rank, and their neighbours on the other side.

    Attributes
    ----------
    nodes : int64[n]
        The nodes whose rows this rank holds, in dense order.
    indptr : int64[n + 1]
    indices : int32[e] or int64[e]
        Their neighbours as positions in the rows that the other side's plan fetches.
    roots : float32[n, 1]
        Square roots of the degrees, 1 for a node without neighbours.
    plan : FetchPlan
        Fetches this side's rows for the lists of the other side.
    """

    nodes: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    plan: FetchPlan
    roots: np.ndarray = field(init=False)
    all_rows: np.ndarray = field(init=False)
    buffers: dict[tuple[int, int], np.ndarray] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        degrees = np.maximum(np.diff(self.indptr), 1).astype(np.float32)
        self.roots = np.sqrt(degrees)[:, None]
        self.all_rows = np.arange(self.nodes.size, dtype=np.int64)

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Return the rows of this side that the other side's lists need. Collective."""
        requested = self.plan.requested
        return self.plan.fetch(rows if requested.size == len(rows) else rows[requested])

    def buffer(self, number: int, dim: int) -> np.ndarray:
        """Return a float32[n, dim] that is written anew by each layer of its parity."""
        if (number, dim) not in self.buffers:
            self.buffers[number, dim] = np.empty((self.nodes.size, dim), np.float32)
        return self.buffers[number, dim]


class Propagation:
    """The symmetrically normalised propagation of LightGCN (He et al., SIGIR 2020), layers 0 … L averaged.

    With A the adjacency, D its degrees and S = D^-1/2 A D^-1/2 the result is (1 + S + … + S^L) X / (L + 1). Written
    in Y = D^-1/2 X a layer is Y + D^-1 A H: a mean over neighbours without weights, and nothing is summed beside it
    (Horner). S is symmetric, so the same layers carry gradients back.

    Parameters
    ----------
    store : GraphStore
    edge_type : str
    exchange : Exchange
        Its ranks each hold the rows of their own shards. The constructor and every method are collective.
    layers : int
    threads : int, optional
    """

    def __init__(
        self, store: GraphStore, edge_type: str, *, exchange: Exchange, layers: int, threads: int | None = None
    ) -> None:
        self.layers = layers
        self._threads = threads
        owned, lists = _own_lists(store, edge_type, exchange)
        parts = {}
        for side, other in (("user", "item"), ("item", "user")):
            _, neighbors = lists[other]
            needed, positions = _needed(neighbors, owned[side], store.num_shards, alone=exchange.size == 1)
            plan = exchange.plan(needed, owned[side], num_shards=store.num_shards)
            parts[side] = plan, positions
        self.sides = {
            side: Side(owned[side], lists[side][0], parts[other][1], parts[side][0])
            for side, other in (("user", "item"), ("item", "user"))
        }

    def forward(
        self, rows: dict[str, np.ndarray], wanted: dict[str, np.ndarray] | None = None
    ) -> dict[str, np.ndarray]:
        """Return the final representations. Collective.

        Parameters
        ----------
        rows : dict of float32[n, dim]
            Initial rows of this rank's nodes by side; overwritten.
        wanted : dict of int64[m], optional
            Positions of the rows to return, ascending; all by default.

        Returns
        -------
        dict of float32[m, dim]
        """
        for side, part in self.sides.items():
            rows[side] /= part.roots
        heights = self._layers(rows, wanted=wanted)
        results = {}
        for side, part in self.sides.items():
            roots = part.roots if wanted is None else part.roots[wanted[side]]
            results[side] = heights[side] * (roots / np.float32(self.layers + 1))
        return results

    def backward(self, gradients: dict[str, np.ndarray], wanted: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Return the gradients of the initial rows from those of the final rows. Collective.

        Parameters
        ----------
        gradients : dict of float32[m, dim]
        wanted : dict of int64[m]
            The rows they belong to; all others are zero.

        Returns
        -------
        dict of float32[n, dim]
            Valid until the next call.
        """
        base, marks = {}, {}
        for side, part in self.sides.items():
            full = part.buffer(2, gradients[side].shape[1])
            full[:] = 0
            full[wanted[side]] = gradients[side] / part.roots[wanted[side]]
            base[side] = full
            flags = np.zeros((part.nodes.size, 1), np.float32)
            flags[wanted[side]] = 1
            marks[side] = flags
        heights = self._layers(base, marks=marks)
        for side, part in self.sides.items():
            heights[side] *= part.roots / np.float32(self.layers + 1)
        return heights

    def _layers(
        self,
        base: dict[str, np.ndarray],
        *,
        wanted: dict[str, np.ndarray] | None = None,
        marks: dict[str, np.ndarray] | None = None,
    ) -> dict[str, np.ndarray]:
        heights = base
        for layer in range(self.layers):
            last = layer == self.layers - 1
            fetched = {side: part.fetch(heights[side]) for side, part in self.sides.items()}
            flags = dict.fromkeys(SIDES, np.zeros(0, np.uint8))
            if layer == 0 and marks is not None:
                flags = {side: part.fetch(marks[side])[:, 0].astype(np.uint8) for side, part in self.sides.items()}
            heights = {
                side: self._layer(
                    side, fetched[other], base[side], flags[other], layer, wanted[side] if wanted and last else None
                )
                for side, other in (("user", "item"), ("item", "user"))
            }
        if self.layers == 0 and wanted is not None:
            return {side: base[side][wanted[side]] for side in SIDES}
        return heights

    def _layer(
        self,
        side: str,
        fetched: np.ndarray,
        base: np.ndarray,
        flags: np.ndarray,
        layer: int,
        wanted: np.ndarray | None,
    ) -> np.ndarray:
        part, dim = self.sides[side], base.shape[1]
        rows = part.all_rows if wanted is None else wanted
        out = part.buffer(layer % 2, dim) if wanted is None else np.empty((rows.size, dim), np.float32)
        run_ranges(
            lambda start, stop: _add_means(part.indptr, part.indices, rows, flags, fetched, base, out, start, stop),
            rows.size,
            threads=self._threads,
            grain=512,
        )
        return out


Lists = tuple[np.ndarray, np.ndarray]


def _own_lists(store: GraphStore, edge_type: str, exchange: Exchange) -> tuple[dict[str, np.ndarray], dict[str, Lists]]:
    """Return this rank's nodes by side, and their lists: `indptr` and neighbour nodes."""
    stored = store.edge_types[edge_type]
    owned = {}
    for side, node_type in (("user", stored.src), ("item", stored.dst)):
        shards, base = exchange.owned(store.num_shards), store.node_base(node_type)
        owned[side] = store.nodes(node_type, deleted=True)[base[shards.start] : base[shards.stop]]
    users = store.adjacency(edge_type).neighbors(owned["user"])
    if stored.reverse is not None:
        return owned, {"user": users, "item": store.adjacency(stored.reverse).neighbors(owned["item"])}
    if exchange.size == 1:
        sources = np.repeat(owned["user"], np.diff(users[0]))
        return owned, {"user": users, "item": _grouped(store, stored.dst, owned["item"], (sources, users[1]))}
    return owned, {
        "user": users,
        "item": _grouped(store, stored.dst, owned["item"], _edges_into(store, edge_type, exchange)),
    }


def _edges_into(store: GraphStore, edge_type: str, exchange: Exchange) -> tuple[np.ndarray, np.ndarray]:
    """Scan all edges for those into this rank's shards; memory for a part of them at a time."""
    adjacency, shards = store.adjacency(edge_type), exchange.owned(store.num_shards)
    sources, targets = [], []
    for begin in range(0, adjacency.num_edges, _SCAN_EDGES):
        positions = np.arange(begin, min(begin + _SCAN_EDGES, adjacency.num_edges), dtype=np.int64)
        source, target = adjacency.edges_at(positions)
        shard = target % store.num_shards
        own = (shard >= shards.start) & (shard < shards.stop)
        sources.append(source[own])
        targets.append(target[own])
    empty = np.zeros(0, np.int64)
    return np.concatenate([empty, *sources]), np.concatenate([empty, *targets])


def _grouped(store: GraphStore, node_type: str, nodes: np.ndarray, edges: tuple[np.ndarray, np.ndarray]) -> Lists:
    """Group edges by target: the lists of `nodes` (dense order), sources in the order of the edges."""
    sources, targets = edges
    first = int(store.dense(node_type, nodes[:1])[0]) if nodes.size else 0
    rows = store.dense(node_type, targets) - first
    indptr = np.zeros(nodes.size + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=nodes.size), out=indptr[1:])
    return indptr, sources[np.argsort(rows, kind="stable")]


def _needed(neighbors: np.ndarray, owned: np.ndarray, num_shards: int, *, alone: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return the nodes to fetch, and each neighbour's position among them."""
    if alone:  # its own rows as they lie: nothing to copy
        needed = owned
    else:
        unique = np.unique(neighbors)
        needed = unique[np.lexsort((unique, unique % num_shards))]
    order = np.argsort(needed, kind="stable")
    positions = order[np.searchsorted(needed, neighbors, sorter=order)]
    narrow = needed.size < np.iinfo(np.int32).max
    return needed, positions.astype(np.int32 if narrow else np.int64)
