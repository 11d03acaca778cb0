"""Sharded embedding tables: int64 id to row, pull, push with fused optimizers, checkpoints."""

from sparse_tables.allocator import Allocator, SharedAllocator, private_allocator
from sparse_tables.config import TableConfig
from sparse_tables.errors import (
    CheckpointNotFound,
    CorruptCheckpoint,
    ForeignId,
    SegmentNotFound,
    TableError,
    TableFull,
)
from sparse_tables.reader import TableReader
from sparse_tables.table import LocalTable, Table

__all__ = [
    "Allocator",
    "CheckpointNotFound",
    "CorruptCheckpoint",
    "ForeignId",
    "LocalTable",
    "SegmentNotFound",
    "SharedAllocator",
    "Table",
    "TableConfig",
    "TableError",
    "TableFull",
    "TableReader",
    "private_allocator",
]
