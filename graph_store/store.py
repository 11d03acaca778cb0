"""The store that users open: ids in, ids out, from any number of threads and processes."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.commit_log import newest_version
from graph_store.errors import (
    BadInput,
    GraphStoreError,
    StoreClosed,
    UnknownEdgeType,
    UnknownId,
    UnknownNodeType,
    UnknownVersion,
)
from graph_store.feature_table import FeatureTables
from graph_store.features import FeatureValues
from graph_store.fold import manifest_of
from graph_store.found_edges import FoundEdges, find_edges
from graph_store.id_lists import id_lists
from graph_store.ids import IdMap, dense_ranks, live_ranks, nodes_of_ranks
from graph_store.info import info as info
from graph_store.kernels import Kernel
from graph_store.list_order import sort_lists
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType
from graph_store.ragged import starts_of
from graph_store.sampling.edge_part import EdgePart, Edges
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.links import LinkBatch, LinkSampler
from graph_store.sampling.negatives import ALPHA, NegativeIds, NegativeSampler
from graph_store.sampling.neighbor_sampler import NeighborSampler
from graph_store.sampling.plan import chain
from graph_store.sampling.sampler import Sampler
from graph_store.sampling.splits import Split, split_edges
from graph_store.sampling.subgraph import Subgraph
from graph_store.view import View, view_at
from graph_store.writer_lock import Lease

if TYPE_CHECKING:
    import pyarrow as pa
    import scipy.sparse

    from graph_store.sampling.loader import Loader
    from graph_store.sampling.node_loader import NodeBatch
    from graph_store.sampling.walk_ids import VisitedIds, Walks


class Neighbors(NamedTuple):
    """Neighbour lists in original ids.

    Attributes
    ----------
    indptr : int64[n + 1]
        Where each node's list starts.
    ids
        int64[m], or object[m] of str; ascending within a list, or by time where the edge type has times.
    weights : float32[m] or None
    times : int64[m] or None
    """

    indptr: np.ndarray
    ids: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None


class GraphStore:
    """A store, open for reading; its version does not change under the reader.

    Attributes
    ----------
    path : Path
    uuid : str
    version, num_shards : int
    node_types : dict of str to StoredNodeType
    edge_types : dict of str to StoredEdgeType
    """

    def __init__(self, path: str | os.PathLike[str], *, threads: int | None = None, as_of: int | None = None) -> None:
        self.path = Path(path)
        self._threads = threads
        self._closed = False
        self._lease: Lease | None = None
        self._known: View | None = None
        self._take(as_of)

    def _take(self, as_of: int | None) -> None:
        view, lease = self._pin(as_of)
        if self._lease is not None:
            self._lease.release()
        self.view, self._known, self._lease = view, view, lease
        manifest = view.manifest
        self.uuid, self.version, self.num_shards = manifest.uuid, manifest.version, manifest.num_shards
        self.node_types: dict[str, StoredNodeType] = {entry.name: entry for entry in manifest.node_types}
        self.edge_types: dict[str, StoredEdgeType] = {entry.name: entry for entry in manifest.edge_types}
        self._ids, self._adjacencies = view.ids, view.adjacencies

    def _pin(self, as_of: int | None) -> tuple[View, Lease]:
        """Map every file of a version; again when a fold, or another store in this place, took files away meanwhile."""
        while True:
            newest, error = Manifest.load(self.path), None
            manifest = newest if as_of is None or as_of >= newest.version else manifest_of(self.path, as_of)
            version = self._version(newest, as_of)
            lease = Lease(self.path, manifest.generation)
            try:
                view = view_at(manifest, self.path, version, threads=self._threads, known=self._known)
            except (GraphStoreError, OSError) as failure:
                error = failure
            later = Manifest.load(self.path)
            if error is None and later.uuid == newest.uuid:
                return view, lease
            lease.release()
            if error is not None and (later.uuid, later.generation) == (newest.uuid, newest.generation):
                raise error

    def _version(self, manifest: Manifest, as_of: int | None) -> int:
        newest = newest_version(self.path, manifest.version)
        if as_of is None:
            return newest
        if as_of > newest:
            raise UnknownVersion(f"{self.path}: version {as_of} is not there yet, the newest is {newest}")
        return as_of

    def refresh(self) -> int:
        """Go over to the newest version and return it; arrays of the old one stay as they are.

        Raises
        ------
        StoreClosed, CorruptBlock
        """
        self._check_open()
        if newest_version(self.path, Manifest.load(self.path).version) != self.version:
            self._take(None)
        return self.version

    def __enter__(self) -> "GraphStore":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"GraphStore({str(self.path)!r})"

    def close(self) -> None:
        """Let the mapped files go once no array refers to them."""
        if self._closed:
            return
        self._closed = True
        self.view, self._known = View(self.view.manifest), None
        self._ids, self._adjacencies = {}, {}
        if self._lease is not None:
            self._lease.release()

    def _check_open(self) -> None:
        if self._closed:
            raise StoreClosed(f"{self.path}: the store was closed; open it again")

    def id_map(self, node_type: str) -> IdMap:
        """Return the ids of a node type."""
        self._check_open()
        if node_type not in self.node_types:
            known = ", ".join(self.node_types)
            raise UnknownNodeType(f"{self.path}: no node type {node_type!r}; it has {known}")
        return self._ids[node_type]

    def _node_type(self, node_type: str | None) -> str:
        """Return the name of a node type, the only one when None; what it is used for says if there is none."""
        return next(iter(self.node_types)) if node_type is None and len(self.node_types) == 1 else str(node_type)

    def _edge_type(self, edge_type: str | None) -> StoredEdgeType:
        if edge_type is None and len(self.edge_types) == 1:
            return next(iter(self.edge_types.values()))
        if edge_type not in self.edge_types:
            known = ", ".join(self.edge_types)
            raise UnknownEdgeType(f"{self.path}: no edge type {str(edge_type)!r}; it has {known}")
        return self.edge_types[str(edge_type)]

    def adjacency(self, edge_type: str) -> Adjacency:
        """Return the lists of an edge type, by nodes."""
        self._check_open()
        return self._adjacencies[self._edge_type(edge_type).name]

    def ids(self, node_type: str) -> np.ndarray:
        """Return all original ids of a type in dense order: int64[n], or object[n] of str."""
        return self.id_map(node_type).to_ids(self.nodes(node_type))

    def nodes(self, node_type: str, *, deleted: bool = False) -> np.ndarray:
        """Return int64[n], all nodes of a type in dense order (shard by shard).

        With `deleted` those that were deleted too: then place i is dense rank i.
        """
        ids = self.id_map(node_type)
        nodes = nodes_of_ranks(ids.base)
        return nodes if deleted else nodes[live_ranks(ids.base, ids.dead)]

    def node_base(self, node_type: str) -> np.ndarray:
        """Return int64[num_shards + 1], the dense rank of each shard's first node."""
        return self.id_map(node_type).base

    def dense(self, node_type: str, nodes: np.ndarray) -> np.ndarray:
        """Return int64[n], the dense rank of each node."""
        return dense_ranks(nodes, self.node_base(node_type))

    def to_nodes(self, node_type: str, ids: Any) -> np.ndarray:
        """Return int64[n], the node of each original id; UnknownId names the first that is none."""
        return self.id_map(node_type).to_nodes(ids)

    def find_nodes(self, node_type: str, ids: Any) -> np.ndarray:
        """Return int64[n], the node of each original id; -1 where there is none."""
        return _find_all(self.id_map(node_type), ids)

    def to_ids(self, node_type: str, nodes: np.ndarray) -> np.ndarray:
        """Return the original id of each node: int64[n], or object[n] of str."""
        return self.id_map(node_type).to_ids(nodes)

    def degree(self, ids: Any, edge_type: str | None = None) -> np.ndarray:
        """Return int64[n], the number of neighbours of each node, by original ids.

        Raises
        ------
        UnknownEdgeType, UnknownId
        """
        entry = self._edge_type(edge_type)
        with Kernel.plainly(np.size(ids)):
            return self.adjacency(entry.name).degrees(self.to_nodes(entry.src, ids))

    def neighbors(self, ids: Any, edge_type: str | None = None, *, limit: int | None = None) -> Neighbors:
        """Return the neighbours of nodes, by original ids, in the order asked; a repeated id is answered again.

        Parameters
        ----------
        ids : int64[n] or sequence of str
        edge_type : str, optional
            May be left out where the store has one edge type.
        limit : int, optional
            At most so many a node, the first of its list.

        Raises
        ------
        UnknownEdgeType, UnknownId
        """
        if limit is not None and limit < 0:
            raise ValueError(f"limit must be 0 or more, got {limit}")
        entry = self._edge_type(edge_type)
        adjacency, size = self.adjacency(entry.name), 0
        with Kernel.plainly(np.size(ids)) as plain:
            nodes = self.to_nodes(entry.src, ids)
            if plain:
                size = int(adjacency.degrees(nodes).sum())
        with Kernel.plainly(size):
            found = self._neighbors(entry, nodes)
        if limit is None:
            return found
        starts = starts_of(np.minimum(np.diff(found.indptr), limit))
        places = np.arange(starts[-1]) + np.repeat(found.indptr[:-1] - starts[:-1], np.diff(starts))
        weights, times = (None if column is None else column[places] for column in found[2:])
        return Neighbors(starts, found.ids[places], weights, times)

    def _neighbors(self, entry: StoredEdgeType, nodes: np.ndarray) -> Neighbors:
        adjacency, ids = self.adjacency(entry.name), self.id_map(entry.dst)
        if type(ids) is IdMap and ids.is_checked:
            return Neighbors(*id_lists(adjacency, ids, nodes))
        indptr, neighbors, weights, times = adjacency.lists(nodes, extras=True)
        found = ids.to_ids(neighbors)
        if times is None and found.dtype == object:
            rows = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
            order = np.lexsort((np.unique(found, return_inverse=True)[1], rows))
            found, weights = found[order], None if weights is None else weights[order]
        elif times is None:
            sort_lists(indptr, found, weights, threads=self._threads)
        return Neighbors(indptr, found, weights, times)

    def contains(self, src: Any, dst: Any, edge_type: str | None = None) -> np.ndarray:
        """Return bool[n], whether there is an edge from `src[i]` to `dst[i]`, by original ids; unknown ids have none.

        Raises
        ------
        UnknownEdgeType
        ValueError
            There are not as many of both.
        """
        entry = self._edge_type(edge_type)
        sources, targets = self._pairs(entry, src, dst)
        known = np.flatnonzero((sources >= 0) & (targets >= 0))
        found = np.zeros(sources.size, bool)
        found[known] = self.adjacency(entry.name).has_edges(sources[known], targets[known])
        return found

    def edges(self, src: Any, dst: Any, edge_type: str | None = None) -> FoundEdges:
        """Return the edges from `src[i]` to `dst[i]`, by original ids, with weights, times and edge ids.

        An unknown id has none. Features are those of the edge ids: `edge_features(edge_type).values(name, edge_ids)`.

        Raises
        ------
        UnknownEdgeType
        ValueError
            There are not as many of both.
        """
        entry = self._edge_type(edge_type)
        return find_edges(self.adjacency(entry.name), *self._pairs(entry, src, dst))

    def _pairs(self, entry: StoredEdgeType, src: Any, dst: Any) -> tuple[np.ndarray, np.ndarray]:
        sources, targets = self.find_nodes(entry.src, src), self.find_nodes(entry.dst, dst)
        if sources.size != targets.size:
            raise ValueError(f"as many dst as src are needed, got {targets.size} and {sources.size}")
        return sources, targets

    def features(
        self, ids: Any, node_type: str | None = None, names: Sequence[str] | None = None
    ) -> dict[str, FeatureValues]:
        """Return features of nodes, by original ids, in the order asked.

        Parameters
        ----------
        ids : int64[n], uint64[n] or sequence of str
        node_type : str, optional
            May be left out where the store has one node type.
        names : sequence of str, optional
            The features; all when None.

        Raises
        ------
        UnknownNodeType, UnknownId
        BadInput
            The type has no feature of that name.
        """
        name = self._node_type(node_type)
        nodes, tables = self.to_nodes(name, ids), self.node_features(name)
        return {name: tables.values(name, nodes) for name in (tables.names if names is None else names)}

    def node_features(self, node_type: str) -> FeatureTables:
        """Return the tables of a node type's features, by nodes."""
        self.id_map(node_type)
        return self.view.node_features[node_type]

    def edge_features(self, edge_type: str) -> FeatureTables:
        """Return the tables of an edge type's features, by edge ids (see `Adjacency.columns`)."""
        self._check_open()
        return self.view.edge_features[self._edge_type(edge_type).name]

    def chain(self, edge_type: str | None, hops: int) -> list[StoredEdgeType]:
        """Return the edge type each hop walks along: the type itself, or type and reverse in turn.

        Raises
        ------
        BadInput
            More than one hop, two node types and no reverse type.
        """
        names = chain(self.edge_types, self._edge_type(edge_type).name, hops)
        return [self.edge_types[name] for name in names]

    def sampler(self, edge_type: str, fanouts: Sequence[int]) -> Sampler:
        """Return a sampler by nodes, with its own workspace: one a thread."""
        return Sampler(
            [(entry.src, entry.dst, self.adjacency(entry.name)) for entry in self.chain(edge_type, len(fanouts))],
            fanouts,
        )

    def neighbor_sampler(self, fanouts: Sequence[int] | Mapping[str, Sequence[int]], **options: Any) -> NeighborSampler:
        """Return a sampler by nodes over any edge types, with its own workspace: see `NeighborSampler`."""
        return NeighborSampler(self, fanouts, **options)

    def link_sampler(
        self, edge_type: str, fanouts: Sequence[int] | Mapping[str, Sequence[int]], **options: Any
    ) -> LinkSampler:
        """Return a maker of link batches by nodes, with its own workspace: see `LinkSampler`."""
        return LinkSampler(self, edge_type, fanouts, **options)

    def node_loader(
        self,
        fanouts: Sequence[int] | Mapping[str, Sequence[int]],
        ids: Any = None,
        *,
        node_type: str | None = None,
        **options: Any,
    ) -> "Loader[NodeBatch]":
        """Return a loader of neighbourhoods of nodes, by original ids: see `node_loader`.

        The node type must be said with ids where the store has several.
        """
        from graph_store.sampling.node_loader import node_loader

        if ids is None:
            return node_loader(self, fanouts, node_type=node_type, **options)
        name = self._node_type(node_type)
        return node_loader(self, fanouts, self.to_nodes(name, ids), node_type=name, **options)

    def link_loader(
        self,
        edge_type: str,
        fanouts: Sequence[int] | Mapping[str, Sequence[int]],
        links: EdgePart | Edges,
        **options: Any,
    ) -> "Loader[LinkBatch]":
        """Return a loader of link batches: see `link_loader`."""
        from graph_store.sampling.node_loader import link_loader

        return link_loader(self, edge_type, fanouts, links, **options)

    def sample(
        self,
        ids: Any,
        edge_type: str | None = None,
        *,
        fanouts: Sequence[int] | Mapping[str, Sequence[int]],
        node_type: str | None = None,
        seed: int,
        step: int = 0,
        times: Any = None,
        exclude: Mapping[str, tuple[Any, Any]] | None = None,
        threads: int | None = None,
        **options: Any,
    ) -> Subgraph:
        """Sample the neighbourhoods of seeds, by original ids; uniformly without replacement if nothing else is said.

        Parameters
        ----------
        ids : int64[b] or sequence of str
            Seeds; a repeated one is expanded once, or in trees of its own.
        edge_type : str, optional
            Between two node types each hop alternates between the type and its reverse. May be left out where the store
            has one, and with fanouts by edge type, `edge_types` or a `metapath`.
        fanouts : sequence of int, or dict of str to sequence of int
            Neighbours a node for each hop, -1 for all; by edge type: every hop goes along all of them.
        node_type : str, optional
            The type of the seeds; that which the first hop expands when None.
        seed, step : int
            The same ones give the same subgraph whatever the number of threads.
        times : int64[b], optional
            The time of each seed: a tree of each, in which no edge is later.
        exclude : dict of str to (src, dst), optional
            By edge type original ids of the ends of edges that are left out, all parallel ones.
        options
            `edge_types`, `metapath`, `direction`, `method`, `replace`, `disjoint`, `strict`, `window` and `columns` of
            `NeighborSampler`, which is what to keep for many batches.

        Raises
        ------
        UnknownEdgeType, UnknownId
        BadInput
            No fanout, one below -1, no way back between two node types, or what `NeighborSampler` refuses.
        """
        if not isinstance(fanouts, Mapping) and not {"edge_types", "metapath"} & options.keys():
            options["edge_types"] = self._edge_type(edge_type).name
        elif edge_type is not None:
            raise BadInput("edge_type is for fanouts that are numbers; leave it out, the edge types are named already")
        sampler = NeighborSampler(self, fanouts, temporal=times is not None, **options)
        name = sampler.seed_type if node_type is None else node_type
        left_out = {}
        for kind, (src, dst) in (exclude or {}).items():
            entry = self._edge_type(kind)
            left_out[kind] = Exclusions(self.to_nodes(entry.src, src), self.to_nodes(entry.dst, dst))
        return sampler.sample(
            self.to_nodes(name, ids),
            node_type=name,
            seed=seed,
            step=step,
            times=times,
            exclude=left_out,
            threads=self._threads if threads is None else threads,
        )

    def induced_subgraph(self, ids: Mapping[str, Any], **options: Any) -> Subgraph:
        """Return nodes, given as original ids by node type, and all edges among them: see `induced_subgraph`."""
        from graph_store.sampling.induced import induced_subgraph

        nodes = {name: self.to_nodes(name, own) for name, own in ids.items()}
        return induced_subgraph(self, nodes, **({"threads": self._threads} | options))

    def ego_graph(self, ids: Any, hops: int = 1, *, node_type: str | None = None, **options: Any) -> Subgraph:
        """Return all nodes within some hops of nodes, given as original ids, and all edges among them: see `ego_graph`.

        The node type may be left out where the store has one.
        """
        from graph_store.sampling.induced import ego_graph

        name = self._node_type(node_type)
        return ego_graph(self, self.to_nodes(name, ids), hops, node_type=name, **({"threads": self._threads} | options))

    def walk(
        self,
        ids: Any,
        edge_type: str | None = None,
        *,
        metapath: Sequence[str] | None = None,
        length: int,
        walks: int = 1,
        seed: int,
        threads: int | None = None,
        **options: Any,
    ) -> "Walks":
        """Walk from nodes to neighbours, hop by hop, by original ids.

        Parameters
        ----------
        ids : int64[n] or sequence of str
            Starts; a repeated one is started from again, with walks of its own.
        edge_type : str, optional
            Between two node types each hop alternates between the type and its reverse. May be left out where the store
            has one, and with a metapath.
        metapath : sequence of str, optional
            Edge types that the hops go along, in turn and then from the first again.
        length : int
            Hops; a walk that comes to a dead end is shorter.
        walks : int
            Walks from each start.
        seed : int
            The same seed gives the same walks whatever the number of threads.
        options
            `method`, `p` and `q` of node2vec, `restart`, `times`, `strict`, `window`, `step` and `positions` of
            `sampling.walks.walk`.

        Returns
        -------
        Walks

        Raises
        ------
        UnknownEdgeType, UnknownId
        BadInput
            No way on between two node types, or what `sampling.walks.walk` refuses.
        """
        from graph_store.sampling.walk_ids import walk_ids

        options |= {"walks": walks, "seed": seed, "threads": self._threads if threads is None else threads}
        return walk_ids(self, ids, edge_type, metapath, length=length, **options)

    def visited_neighbors(
        self,
        ids: Any,
        edge_type: str | None = None,
        *,
        metapath: Sequence[str] | None = None,
        num_neighbors: int,
        length: int,
        walks: int,
        seed: int,
        threads: int | None = None,
        **options: Any,
    ) -> "VisitedIds":
        """Return the nodes that walks with restart come to most often, by original ids, as PinSAGE does.

        Parameters
        ----------
        ids, edge_type, metapath, length, walks, seed
            See `walk`. Nodes count where a round of edge types ends; along a type and its reverse they are its sources.
        num_neighbors : int
            Nodes kept for each start at most, the most visited first.
        options
            `restart`, `method`, `step` and `positions` of `sampling.pinsage.visited_neighbors`.

        Raises
        ------
        UnknownEdgeType, UnknownId
        BadInput
            No way on between two node types, or a number that is too small.
        """
        from graph_store.sampling.walk_ids import visited_ids

        options |= {"walks": walks, "seed": seed, "threads": self._threads if threads is None else threads}
        options["num_neighbors"] = num_neighbors
        return visited_ids(self, ids, edge_type, metapath, length=length, **options)

    def negatives(
        self,
        ids: Any,
        edge_type: str | None = None,
        *,
        num_negatives: int = 1,
        method: str = "uniform",
        alpha: float = ALPHA,
        strict: bool = True,
        times: Any = None,
        fallback: str = "mark",
        seed: int,
    ) -> NegativeIds:
        """Draw destinations that sources have no edge to, by original ids.

        Parameters
        ----------
        ids : int64[n] or sequence of str
            Sources; the i-th is at position i, on which its draws depend.
        method : str
            `"uniform"` or `"degree"`; with `alpha` and `strict` see `NegativeSampler.of_type`, which is also what to
            keep for many calls.
        times : int64[n], optional
            Edges later than a source's time do not count.
        fallback : str
            See `NegativeSampler`.

        Raises
        ------
        UnknownEdgeType, UnknownId
        BadInput
            A method or fallback that there is not, or a type without nodes.
        """
        entry = self._edge_type(edge_type)
        sources = self.to_nodes(entry.src, ids)
        sampler = NegativeSampler.of_type(
            self, entry.name, method=method, alpha=alpha, strict=strict, fallback=fallback
        )
        drawn = sampler.sample(sources, np.arange(sources.size), num_negatives=num_negatives, seed=seed, times=times)
        return NegativeIds.of(drawn, lambda nodes: self.to_ids(entry.dst, nodes))

    def split_edges(
        self,
        edge_type: str | None = None,
        *,
        by: str = "edge",
        valid: float | None = None,
        test: float | None = None,
        cuts: Sequence[int] | None = None,
        latest: bool | None = None,
        seed: int = 0,
    ) -> Split:
        """Share the edges of a type out to training, validation and test: see `graph_store.split_edges`."""
        name = self._edge_type(edge_type).name
        return split_edges(self, name, by=by, valid=valid, test=test, cuts=cuts, latest=latest, seed=seed)

    def scan(
        self,
        edge_type: str | None = None,
        *,
        batch_rows: int = 1 << 16,
        features: Sequence[str] | None = None,
        both: bool = False,
    ) -> "pa.RecordBatchReader":
        """Return all edges of a type, by original ids, as a stream of Arrow record batches in bounded memory.

        Parameters
        ----------
        edge_type : str, optional
            May be left out where the store has one edge type.
        batch_rows : int
            Edges in a batch at most.
        features : sequence of str, optional
            Features of the edges; all when None.
        both : bool
            Give the edges of an undirected type at both ends, and not each once, from the lower id to the higher.

        Returns
        -------
        pyarrow.RecordBatchReader
            Columns `src`, `dst`, `weight` and `time` where the type has them, then features: see `scan_nodes`. Edges
            are in the order of their sources, shard by shard.

        Raises
        ------
        UnknownEdgeType
        BadInput
            The type has no feature of that name.
        """
        from graph_store.scan import edge_reader

        name = self._edge_type(edge_type).name
        return edge_reader(self, name, batch_rows=batch_rows, features=features, both=both)

    def scan_nodes(
        self, node_type: str, features: Sequence[str] | None = None, *, batch_rows: int = 1 << 16
    ) -> "pa.RecordBatchReader":
        """Return all nodes of a type, by original ids, as a stream of Arrow record batches in bounded memory.

        Parameters
        ----------
        node_type : str
        features : sequence of str, optional
            All when None.
        batch_rows : int
            Nodes in a batch at most.

        Returns
        -------
        pyarrow.RecordBatchReader
            Columns `id` and one for each feature: fixed-size lists for vectors (int8 is multiplied by its scale),
            numbers for scalars, dictionaries for categories, lists of int64 for ids, and strings. Absent values are
            null. A feature that is called like another column has `_` behind its name. Nodes are in dense order.

        Raises
        ------
        UnknownNodeType
        BadInput
            The type has no feature of that name.
        """
        from graph_store.scan import node_reader

        return node_reader(self, node_type, features, batch_rows=batch_rows)

    def to_scipy(self, edge_type: str | None = None) -> "scipy.sparse.csr_array":
        """Return an edge type as float32 CSR of [sources, destinations], both in the order of `ids`.

        Values are weights, or ones; parallel edges are added up.
        """
        from graph_store.interop import to_scipy

        return to_scipy(self, self._edge_type(edge_type).name)


def _find_all(ids: IdMap, given: Any) -> np.ndarray:
    """Return the node of each id; -1 for one that is no node, be it past all that ids can be."""
    try:
        return ids.find(given)
    except UnknownId:
        values = list(np.asarray(given, dtype=object).ravel())
        low, high = (0, 1 << 64) if ids.id_type == "unsigned" else (-(1 << 63), 1 << 63)
        inside = np.array([low <= value < high for value in values])
        nodes = np.full(len(values), -1, np.int64)
        nodes[inside] = ids.find([value for value, known in zip(values, inside) if known])
        return nodes


def open(path: str | os.PathLike[str], *, threads: int | None = None, as_of: int | None = None) -> GraphStore:
    """Open a store for reading.

    Parameters
    ----------
    path : path
    threads : int, optional
        Threads that answer a call; all cores that this process may use when None.
    as_of : int, optional
        The version to open; the newest when None.

    Returns
    -------
    GraphStore
        A context manager. The arena is rebuilt from the shards where it is absent.

    Raises
    ------
    StoreNotFound
        There is no complete store.
    UnknownVersion
        The store does not keep the version.
    CorruptBlock
        A file that is read to open it is damaged.
    """
    return GraphStore(path, threads=threads, as_of=as_of)
