"""A durable graph store in RocksDB shards, sampled as fast as memory."""

import importlib
from typing import TYPE_CHECKING, Any

from graph_store.adjacency import Adjacency
from graph_store.batch import Batch, UpdateReport
from graph_store.changes import Changes, EdgeSet, changes
from graph_store.draws import permute
from graph_store.errors import (
    BadInput,
    CorruptBlock,
    GraphStoreError,
    StoreBusy,
    StoreClosed,
    StoreNotFound,
    UnknownEdgeType,
    UnknownId,
    UnknownNodeType,
    UnknownVersion,
)
from graph_store.features import FeatureValues
from graph_store.ingest import IngestReport, ingest
from graph_store.repair import RepairReport, repair
from graph_store.sampling.edge_part import EdgePart, Edges
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.induced import ego_graph, induced_subgraph
from graph_store.sampling.leakage import Leak, check_leakage
from graph_store.sampling.links import LinkBatch, LinkSampler
from graph_store.sampling.negatives import NegativeIds, Negatives, NegativeSampler, sample_negatives
from graph_store.sampling.neighbor_sampler import NeighborSampler
from graph_store.sampling.sampler import Sampler
from graph_store.sampling.splits import HeldOutNegatives, Split, split_edges
from graph_store.sampling.subgraph import Hop, Subgraph
from graph_store.schema import EdgeSource, EdgeType, EdgeTypeName, FeatureType, NodeSource, NodeType, Schema
from graph_store.store import GraphStore, Neighbors, info, open
from graph_store.verify import verify
from graph_store.writer import GraphWriter

if TYPE_CHECKING:
    from graph_store.interop import from_networkx, from_scipy, to_networkx, to_scipy
    from graph_store.parquet_export import export
    from graph_store.sampling.loader import Loader
    from graph_store.sampling.node_loader import NodeBatch, link_loader, node_loader
    from graph_store.sampling.pinsage import Visited, visited_neighbors
    from graph_store.sampling.pyg_batch import to_pyg as to_pyg
    from graph_store.sampling.tensors import to_torch as to_torch
    from graph_store.sampling.walk_ids import VisitedIds, Walks
    from graph_store.sampling.walks import walk

__all__ = [
    "Adjacency",
    "BadInput",
    "Batch",
    "Changes",
    "CorruptBlock",
    "EdgePart",
    "EdgeSet",
    "EdgeSource",
    "EdgeType",
    "EdgeTypeName",
    "Edges",
    "Exclusions",
    "FeatureType",
    "FeatureValues",
    "GraphStore",
    "GraphStoreError",
    "GraphWriter",
    "HeldOutNegatives",
    "Hop",
    "IngestReport",
    "Leak",
    "LinkBatch",
    "LinkSampler",
    "Loader",
    "NegativeIds",
    "NegativeSampler",
    "Negatives",
    "NeighborSampler",
    "Neighbors",
    "NodeBatch",
    "NodeSource",
    "NodeType",
    "RepairReport",
    "Sampler",
    "Schema",
    "Split",
    "StoreBusy",
    "StoreClosed",
    "StoreNotFound",
    "Subgraph",
    "UnknownEdgeType",
    "UnknownId",
    "UnknownNodeType",
    "UnknownVersion",
    "UpdateReport",
    "Visited",
    "VisitedIds",
    "Walks",
    "changes",
    "check_leakage",
    "ego_graph",
    "export",
    "from_networkx",
    "from_scipy",
    "induced_subgraph",
    "info",
    "ingest",
    "link_loader",
    "node_loader",
    "open",
    "permute",
    "repair",
    "sample_negatives",
    "split_edges",
    "to_networkx",
    "to_scipy",
    "verify",
    "visited_neighbors",
    "walk",
]

# `to_torch` and `to_pyg` are not in `__all__`: who imports all of it need not have torch.
# What a query can do without is loaded when it is first asked for: pyarrow's readers and writers, walks.
_LATE = {"export": "parquet_export", "walk": "sampling.walks"}
_LATE |= dict.fromkeys(("from_networkx", "from_scipy", "to_networkx", "to_scipy"), "interop")
_LATE |= dict.fromkeys(("Visited", "visited_neighbors"), "sampling.pinsage")
_LATE |= dict.fromkeys(("VisitedIds", "Walks"), "sampling.walk_ids")
_LATE |= dict.fromkeys(("NodeBatch", "link_loader", "node_loader"), "sampling.node_loader")
_LATE |= {"to_torch": "sampling.tensors", "to_pyg": "sampling.pyg_batch", "Loader": "sampling.loader"}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'graph_store' has no attribute {name!r}")
    return getattr(importlib.import_module(f"graph_store.{_LATE[name]}"), name)
