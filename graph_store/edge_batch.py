"""A batch of edges as the readers hand it over, and how they say what is wrong with one."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from graph_store.errors import BadInput
from graph_store.schema import NodeType

# Rows a batch aims at: large enough that a batch's fixed costs vanish, small enough to keep a few in memory.
BATCH_ROWS = 1 << 20
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
_WHOLE = re.compile(r"[ \t]*-?[0-9]+[ \t]*")
_NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")
_LONGEST_SHOWN = 60


@dataclass(frozen=True)
class EdgeBatch:
    """Edges read from one file, in the file's order.

    Attributes
    ----------
    src, dst : int64[n] or pyarrow.LargeStringArray of length n
        Original ids: a numpy array (perhaps read-only) of integers, an Arrow array of strings without nulls.
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
    """

    src: Any
    dst: Any
    weight: NDArray[np.float32] | None
    time: NDArray[np.int64] | None
    num_rows: int
    bytes_done: int
    src_only: Any = None


@dataclass(frozen=True)
class Field:
    """A column that is read: its part in an edge, how messages call it, and its place in a row.

    Attributes
    ----------
    role : str
        `"src"`, `"dst"`, `"weight"` or `"time"`.
    label : str
        The column as messages name it: `"'user_id'"` or `"0"`.
    position : int
        From 0.
    node_type : NodeType or None
        The node type of the ids for `src` and `dst`.
    """

    role: str
    label: str
    position: int
    node_type: NodeType | None

    @property
    def kind(self) -> str:
        """What the column holds: `"integer"`, `"string"` or `"weight"`."""
        if self.node_type is not None:
            return self.node_type.id_type
        return "integer" if self.role == "time" else "weight"


def fault(path: Path, place: str, field: Field, found: str, advice: str) -> BadInput:
    """Return the error for one bad value: file, place (`"line 7"`, `"row 7"`), column, found, what to do."""
    return BadInput(f"{path}: {place}, column {field.label} ({field.role}): {found}; {advice}")


def shown(text: str) -> str:
    """Return `text` quoted for a message, cut when it is long."""
    return repr(text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…")


def check_text(text: str, field: Field) -> tuple[str, str] | None:
    """Say what is wrong with the text of one value, exactly as the readers would have it.

    Returns
    -------
    (found, advice) or None
        None when the value can be taken.
    """
    if text == "" or (field.kind != "string" and not text.strip(" \t")):
        return f"empty {_noun(field)}", "fill it in or remove the row"
    if field.kind == "string":
        return (f"{shown(text)} holds a zero byte", "repair the id") if "\0" in text else None
    if field.kind == "weight":
        return _check_weight(text)
    if not _WHOLE.fullmatch(text):
        return f"{shown(text)} is no whole number", _advice(text, field)
    if not INT64_MIN <= int(text) <= INT64_MAX:
        remedy = "declare string ids (--id-type string)" if field.node_type else "use a coarser unit of time"
        return (
            f"{shown(text.strip())} is out of the range of int64",
            f"expected {INT64_MIN} to {INT64_MAX}; {remedy}",
        )
    return None


def _noun(field: Field) -> str:
    return "id" if field.node_type else field.role


def _advice(text: str, field: Field) -> str:
    if field.node_type is None:
        return "expected whole numbers in one unit of time, such as seconds"
    if _NUMBER.fullmatch(text):
        return "write ids as plain digits, without sign '+', point or exponent; a float loses ids above 2^53"
    return (
        f"node type {field.node_type.name!r} has integer ids; declare string ids (--id-type string) "
        "if that is what they are"
    )


def _check_weight(text: str) -> tuple[str, str] | None:
    advice = "expected a finite number within float32"
    if not _NUMBER.fullmatch(text):
        return f"{shown(text)} is no finite number", advice
    with np.errstate(over="ignore"):
        finite = math.isfinite(np.float32(float(text)))
    return None if finite else (f"{shown(text.strip())} is out of the range of float32", advice)
