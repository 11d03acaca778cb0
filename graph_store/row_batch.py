"""Batches of edges and nodes as the readers hand them over, and how they say what is wrong with a row."""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from graph_store.errors import BadInput
from graph_store.schema import NodeType

if TYPE_CHECKING:
    from graph_store.feature_type import FeatureType

# Rows a batch aims at: large enough that a batch's fixed costs vanish, small enough to keep a few in memory.
BATCH_ROWS = 1 << 20
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class Column:
    """The values of one feature in a batch of n rows.

    Attributes
    ----------
    values : ndarray
        A vector: float32, float16 or int8 [n, dim], int8 as stored (already divided by the scale). A scalar: [n] of
        its dtype. "ids": int64[m]. "category" and "string": uint8[m], UTF-8. Where absent, zeros (nothing, for lists).
    indptr : int64[n + 1] or None
        For "ids", "category" and "string": those of row i are `values[indptr[i]:indptr[i + 1]]`.
    present : bool[n] or None
        False where a row has no value (an empty cell, a null); None when all have one.
    """

    values: NDArray[Any]
    indptr: NDArray[np.int64] | None = None
    present: NDArray[np.bool_] | None = None

    def filter(self, keep: NDArray[np.bool_]) -> "Column":
        """Return the rows where `keep`, bool[n], is true."""
        present = None if self.present is None else self.present[keep]
        if self.indptr is None:
            return Column(self.values[keep], None, present)
        lengths = np.diff(self.indptr)
        indptr = np.zeros(np.count_nonzero(keep) + 1, np.int64)
        np.cumsum(lengths[keep], out=indptr[1:])
        values = self.values[self.indptr[0] : self.indptr[-1]]
        return Column(values[np.repeat(keep, lengths)], indptr, present)


@dataclass(frozen=True)
class Rejected:
    """A row that was set aside because it cannot be taken.

    Attributes
    ----------
    path : Path
    place : str
        `"line 7"` of a text file, `"row 7"` of any other; from 1.
    reason : str
        What is wrong, as the error would say it: `"column 'item' (dst): 'x' is no whole number; …"`.
    text : str
        The row, as far as it can be shown.
    """

    path: Path
    place: str
    reason: str
    text: str


@dataclass(frozen=True)
class EdgeBatch:
    """Edges read from one file, in the file's order.

    Ids are int64 (perhaps read-only): for a node type with "unsigned" ids the bit patterns of the uint64. For one with
    "string" ids they are a pyarrow.LargeStringArray without nulls.

    Attributes
    ----------
    src, dst : int64[n] or pyarrow.LargeStringArray of length n
        Original ids.
    weight : float32[n] or None
        All finite; None when the source has no weight column.
    time : int64[n] or None
        None when the source has no time column.
    num_rows : int
        n, the edges of this batch.
    bytes_done : int
        Bytes of the file (compressed, if it is) read up to the end of this batch, for a progress bar.
    src_only : like src, or None
        Sources that an adjacency file lists without any neighbour: nodes without an edge on their line.
    features : dict of str to Column
        By the feature's name.
    relation : pyarrow.LargeStringArray of length n, or None
        The relation of each edge, for a source with a relation column.
    rejected : tuple of Rejected
        Rows set aside; they are in no other attribute.
    dropped : dict of str to int
        Rows left out as the edge type says, by "bad_weights" and "negative_weights".
    """

    src: Any
    dst: Any
    weight: NDArray[np.float32] | None
    time: NDArray[np.int64] | None
    num_rows: int
    bytes_done: int
    src_only: Any = None
    features: dict[str, Column] = field(default_factory=dict)
    relation: Any = None
    rejected: tuple[Rejected, ...] = ()
    dropped: dict[str, int] = field(default_factory=dict)

    def filter(self, keep: NDArray[np.bool_]) -> "EdgeBatch":
        """Return the edges where `keep`, bool[n], is true; what concerns no edge stays."""
        return replace(
            self,
            src=_filter(self.src, keep),
            dst=_filter(self.dst, keep),
            weight=_filter(self.weight, keep),
            time=_filter(self.time, keep),
            num_rows=int(np.count_nonzero(keep)),
            features={name: column.filter(keep) for name, column in self.features.items()},
            relation=_filter(self.relation, keep),
        )


@dataclass(frozen=True)
class NodeBatch:
    """Nodes read from one file, in the file's order; ids as in `EdgeBatch`.

    Attributes
    ----------
    ids : int64[n] or pyarrow.LargeStringArray of length n
        Original ids.
    num_rows : int
        n, the nodes of this batch.
    bytes_done : int
        Bytes of the file read up to the end of this batch.
    features : dict of str to Column
        By the feature's name.
    rejected : tuple of Rejected
        Rows set aside.
    """

    ids: Any
    num_rows: int
    bytes_done: int
    features: dict[str, Column] = field(default_factory=dict)
    rejected: tuple[Rejected, ...] = ()


def _filter(values: Any, keep: NDArray[np.bool_]) -> Any:
    if values is None or isinstance(values, np.ndarray):
        return None if values is None else values[keep]
    return values.filter(keep)


@dataclass(frozen=True)
class Field:
    """A column that is read: its part in a row, how messages call it, and its place.

    Attributes
    ----------
    role : str
        `"src"`, `"dst"`, `"weight"`, `"time"`, `"relation"`, `"id"` (of a node) or `"feature"`.
    label : str
        The column as messages name it: `"'user_id'"` or `"0"`.
    position : int
        From 0.
    node_type : NodeType or None
        The node type of the ids for `src`, `dst` and `id`.
    feature : FeatureType or None
        For `feature`; a vector of several columns has a field for each, in order, all with the same `feature`.
    """

    role: str
    label: str
    position: int
    node_type: NodeType | None = None
    feature: "FeatureType | None" = None

    @property
    def kind(self) -> str:
        """What a cell holds: `"integer"`, `"unsigned"`, `"string"`, `"weight"`, `"relation"` or `"feature"`."""
        if self.node_type is not None:
            return self.node_type.id_type
        return "integer" if self.role == "time" else self.role

    @property
    def part(self) -> str:
        """The part in a row as messages name it: `"src"`, `"feature 'age'"`."""
        return part_name(self.role, self.feature)


def part_name(role: str, feature: "FeatureType | None") -> str:
    """Return how messages call a part of a row: its role, or `"feature 'age'"`."""
    return role if feature is None else f"feature {feature.name!r}"


def fault(path: Path, place: str, field: Field, found: str, advice: str) -> BadInput:
    """Return the error for one bad value: file, place (`"line 7"`, `"row 7"`), column, found, what to do."""
    return BadInput(f"{path}: {place}, {cell_reason(field, found, advice)}")


def cell_reason(field: Field, found: str, advice: str) -> str:
    """Return what is wrong with one value, as errors say it behind file and place, and `Rejected.reason` says it."""
    return f"column {field.label} ({field.part}): {found}; {advice}"


def shown(text: str) -> str:
    """Return `text` quoted for a message, cut when it is long."""
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")
