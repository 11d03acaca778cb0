"""Columns of text: ids, times, weights and relations, each cell that cannot be taken told apart.

A column comes either typed, as Arrow's CSV reader makes it of plainly written numbers, or as strings. The typed way is
the fast one; it calls wrong whatever it is not sure of, and then the strings decide.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graph_store.row_batch import INT64_MAX, INT64_MIN, Field, cell_reason, shown
from graph_store.row_plan import RowPlan, relation_fault
from graph_store.text_numbers import (
    EMPTY,
    NUMBER,
    OUT_OF_RANGE,
    buffers_of,
    real_numbers,
    whole_numbers,
)

_FILL_IN = "fill it in or remove the row"
_UINT64_MAX = (1 << 64) - 1
_TYPES = {"integer": pa.int64(), "unsigned": pa.uint64(), "weight": pa.float64()}


class Taken(NamedTuple):
    """The values of one part of n rows.

    Attributes
    ----------
    values : ndarray, pyarrow.LargeStringArray or Column
        Mean nothing where a row is wrong.
    wrong : bool[n] or None
        None when all can be taken.
    reason : callable
        Given a wrong row of a column of strings, says what is wrong with it.
    """

    values: Any
    wrong: NDArray[np.bool_] | None
    reason: Callable[[int], str]


def field_type(field: Field) -> pa.DataType:
    """Return the Arrow type as which plainly written values of a field that is no feature can be read at once."""
    return _TYPES.get(field.kind, pa.large_string())


def take_field(plan: RowPlan, field: Field, column: pa.Array) -> Taken:
    """Return the values of a column that is no feature."""
    if field.kind == "weight":
        return _weights(plan, field, column)
    if field.kind == "relation":
        return _relations(field, column)
    return (_string_ids if field.kind == "string" else _integers)(field, column)


def whole_fault(field: Field, text: str, status: int) -> tuple[str, str]:
    """Say what is wrong with the text of an integer, given its status from `whole_numbers`: (found, advice)."""
    if status == EMPTY:
        return f"empty {'id' if field.node_type else field.role}", _FILL_IN
    if status == OUT_OF_RANGE:
        unsigned = field.kind == "unsigned"
        low, high = (0, _UINT64_MAX) if unsigned else (INT64_MIN, INT64_MAX)
        remedy = "use a coarser unit of time"
        if field.node_type is not None:
            remedy = f"declare {'' if unsigned else 'unsigned or '}string ids"
        kind = "uint64" if unsigned else "int64"
        return f"{shown(text.strip())} is out of the range of {kind}", f"expected {low} to {high}; {remedy}"
    found = f"{shown(text)} is no whole number"
    if field.node_type is None:
        return found, "expected whole numbers in one unit of time, such as seconds"
    if NUMBER.fullmatch(text):
        return found, f"ids of node type {field.node_type.name!r} are whole numbers; repair it, or declare string ids"
    return found, (
        f"node type {field.node_type.name!r} has integer ids; if they are strings, that is declared at ingest "
        "(--id-type string)"
    )


def _integers(field: Field, column: pa.Array) -> Taken:
    if pa.types.is_integer(column.type):
        if column.null_count:
            return Taken(None, mask_of(column.is_null()), str)
        return Taken(column.to_numpy(zero_copy_only=True).view(np.int64), None, str)
    values, status = whole_numbers(column, unsigned=field.kind == "unsigned")

    def reason(row: int) -> str:
        assert status is not None
        return cell_reason(field, *whole_fault(field, column[row].as_py(), int(status[row])))

    return Taken(values, None if status is None else status != 0, reason)


def _string_ids(field: Field, column: pa.Array) -> Taken:
    offsets, data = buffers_of(column)
    wrong = offsets[1:] == offsets[:-1]
    if (data[offsets[0] : offsets[-1]] == 0).any():
        wrong |= mask_of(pc.match_substring(column, "\0"))

    def reason(row: int) -> str:
        text = column[row].as_py()
        fault = (f"{shown(text)} holds a zero byte", "repair the id") if text else ("empty id", _FILL_IN)
        return cell_reason(field, *fault)

    return Taken(column, wrong if wrong.any() else None, reason)


def _weights(plan: RowPlan, field: Field, column: pa.Array) -> Taken:
    unread = None
    numbers = column
    if not pa.types.is_floating(column.type):
        numbers, unread = real_numbers(column, pa.float64())
    with np.errstate(over="ignore"):
        weights = numbers.to_numpy(zero_copy_only=False).astype(np.float32)
    wrong = unread
    if plan.refuse_negative_weights or not np.isfinite(weights).all():
        wrong = either(plan.weigh(weights)[1], unread)

    def reason(row: int) -> str:
        text = column[row].as_py()
        return cell_reason(field, *_weight_fault(text, weights[row]))

    return Taken(weights, wrong, reason)


def _weight_fault(text: str, weight: np.float32) -> tuple[str, str]:
    if not text.strip(" \t"):
        return "empty weight", _FILL_IN
    if np.isfinite(weight):
        return f"{shown(text)} is below 0", "repair it, or say negative_weights = 'keep'"
    what = "out of the range of float32" if NUMBER.fullmatch(text) else "no finite number"
    return f"{shown(text.strip())} is {what}", "expected a finite number within float32"


def _relations(field: Field, column: pa.Array) -> Taken:
    faults = {word: fault for word in pc.unique(column).to_pylist() if (fault := relation_fault(word)) is not None}
    wrong = mask_of(pc.is_in(column, pa.array(list(faults), pa.large_string()))) if faults else None

    def reason(row: int) -> str:
        return f"column {field.label} ({field.part}): {faults[column[row].as_py()]}"

    return Taken(column, wrong, reason)


def mask_of(values: Any) -> NDArray[np.bool_]:
    """Return Arrow booleans without nulls as bool[n]."""
    return values.to_numpy(zero_copy_only=False)


def either(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Return the rows that are in one or the other; None when no row is."""
    both = one if other is None else other if one is None else one | other
    return both if both is not None and both.any() else None
