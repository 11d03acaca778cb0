"""A durable graph store in RocksDB shards, sampled as fast as memory."""

from graph_store.adjacency import Adjacency
from graph_store.draws import permute
from graph_store.errors import (
    BadInput,
    CorruptBlock,
    GraphStoreError,
    StoreClosed,
    StoreNotFound,
    UnknownEdgeType,
    UnknownId,
    UnknownNodeType,
)
from graph_store.ingest import IngestReport, ingest
from graph_store.negatives import sample_negatives
from graph_store.sampling import Hop, Sampler, Subgraph
from graph_store.schema import EdgeSource, EdgeType, EdgeTypeName, FeatureType, NodeSource, NodeType, Schema
from graph_store.store import GraphStore, Neighbors, info, open
from graph_store.verify import verify

__all__ = [
    "Adjacency",
    "BadInput",
    "CorruptBlock",
    "EdgeSource",
    "EdgeType",
    "EdgeTypeName",
    "FeatureType",
    "GraphStore",
    "GraphStoreError",
    "Hop",
    "IngestReport",
    "Neighbors",
    "NodeSource",
    "NodeType",
    "Sampler",
    "Schema",
    "StoreClosed",
    "StoreNotFound",
    "Subgraph",
    "UnknownEdgeType",
    "UnknownId",
    "UnknownNodeType",
    "info",
    "ingest",
    "open",
    "permute",
    "sample_negatives",
    "verify",
]
