"""Ids, weights, times and relations of Arrow columns, each row that cannot be taken told apart."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graph_store.arrow_features import is_text, letters_of, take_texts
from graph_store.arrow_numbers import UINT64_MAX, either, largest_exact, nulls, to_numpy, whole_numbers
from graph_store.row_batch import INT64_MAX, INT64_MIN, Field, cell_reason, shown
from graph_store.row_plan import RowPlan, relation_fault

_FILL_IN = "fill it in or remove the row"


class Taken(NamedTuple):
    """The values of a part of the rows, the rows at fault, and what is wrong with one of them."""

    values: Any
    wrong: NDArray[np.bool_] | None
    reason: Callable[[int], str]


def found_text(column: pa.Array, row: int) -> str:
    """Return a value as messages show it."""
    value = column[row]
    if not value.is_valid:
        return "null"
    if pa.types.is_temporal(column.type):
        return str(value.value)
    if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
        return shown(value.as_buffer().to_pybytes().decode("utf-8", "replace"))
    try:
        return str(value.as_py())
    except UnicodeDecodeError:  # of a list of texts
        return "?"


def _take_whole(plan: RowPlan, field: Field, column: pa.Array) -> Taken:
    unsigned = field.kind == "unsigned"
    missing = nulls(column)
    low, high = (0, UINT64_MAX) if unsigned else (INT64_MIN, INT64_MAX)
    numbers = whole_numbers(column, low=low, high=high)

    def reason(row: int) -> str:
        found = found_text(column, row)
        if missing is not None and missing[row]:
            return cell_reason(field, found, _FILL_IN)
        return cell_reason(field, *_whole_fault(field, column, row))

    return Taken(numbers.values, either(missing, numbers.wrong), reason)


def _whole_fault(field: Field, column: pa.Array, row: int) -> tuple[str, str]:
    found, value = found_text(column, row), column[row].as_py()
    if value != value or value in (float("inf"), -float("inf")) or value != int(value):
        what = "ids" if field.node_type else "times"
        return f"{found} is no whole number", f"write {what} as whole numbers, in a column of int64"
    if field.kind == "unsigned" and value < 0:
        return f"{found} is below 0", f"node type {field.node_type.name!r} has unsigned ids; declare integer ids"  # type: ignore[union-attr]
    if pa.types.is_floating(column.type) and abs(value) > largest_exact(column.type):
        power = largest_exact(column.type).bit_length() - 1
        return (
            f"{found} is beyond 2^{power}, from where on a {column.type} does not hold every whole number",
            "write the column as int64 from its source",
        )
    if field.node_type is None:
        return f"{found} is out of the range of int64", "use a coarser unit of time"
    if value > INT64_MAX:
        advice = "declare unsigned ids, or declare string ids and write them as strings"
        return f"{found} is above {INT64_MAX}, the largest int64", advice
    return f"{found} is below {INT64_MIN}, the least int64", "declare string ids and write them as strings"


def _take_strings(plan: RowPlan, field: Field, column: pa.Array) -> Taken:
    missing = nulls(column)
    texts, undecoded = take_texts(column)
    wrong = either(missing, undecoded)
    letters, starts = letters_of(texts)
    # Looking through all bytes at once is much faster than looking into every string, and nearly always enough.
    if (starts[1:] == starts[:-1]).any() or not letters.all():
        for mask in (pc.equal(pc.binary_length(texts), 0), pc.match_substring(texts, "\0")):
            wrong = either(wrong, mask.fill_null(False).to_numpy(zero_copy_only=False))

    def reason(row: int) -> str:
        if missing is not None and missing[row]:
            return cell_reason(field, "null", _FILL_IN)
        if undecoded is not None and undecoded[row]:
            found = f"{found_text(texts.view(pa.large_binary()), row)} is not UTF-8"
            return cell_reason(field, found, "write the column as UTF-8 strings")
        if len(texts[row].as_py()) == 0:
            return cell_reason(field, "empty id", _FILL_IN)
        return cell_reason(field, f"a zero byte in {found_text(texts, row)}", "repair the id")

    return Taken(texts, wrong, reason)


def _take_weights(plan: RowPlan, field: Field, column: pa.Array) -> Taken:
    missing = nulls(column)
    filled = column.fill_null(pa.scalar(0, pa.int64()).cast(column.type)) if missing is not None else column
    with np.errstate(over="ignore"):
        weights = to_numpy(filled).astype(np.float32, copy=missing is not None)
    if missing is not None:
        weights[missing] = np.nan
    wrong = None
    if plan.refuse_negative_weights or not np.isfinite(weights).all():
        wrong = either(plan.weigh(weights)[1], None)

    def reason(row: int) -> str:
        if missing is not None and missing[row]:
            return cell_reason(field, "null", _FILL_IN)
        if np.isfinite(weights[row]):
            return cell_reason(
                field, f"{found_text(column, row)} is below 0", "repair it, or say negative_weights = 'keep'"
            )
        return cell_reason(field, found_text(column, row), "expected a finite number within float32")

    return Taken(weights, wrong, reason)


def _take_relations(plan: RowPlan, field: Field, column: pa.Array) -> Taken:
    missing = nulls(column)
    texts, undecoded = take_texts(column if is_text(column.type) else column.cast(pa.large_string()))
    wrong = either(missing, undecoded)
    faults: dict[str, str] = {}
    if undecoded is None:
        for word in pc.unique(texts).to_pylist():
            if word is not None and (fault := relation_fault(word)) is not None:
                faults[word] = fault
    if faults:
        bad = pc.is_in(texts, pa.array(list(faults), pa.large_string()))
        wrong = either(wrong, bad.to_numpy(zero_copy_only=False))

    def reason(row: int) -> str:
        if missing is not None and missing[row]:
            return cell_reason(field, "null", _FILL_IN)
        if undecoded is not None and undecoded[row]:
            return cell_reason(field, "not UTF-8", "write the column as UTF-8 strings")
        return f"column {field.label} ({field.part}): {faults[texts[row].as_py()]}"

    return Taken(texts, wrong, reason)


_TAKE: dict[str, Callable[[RowPlan, Field, pa.Array], Taken]] = {
    "integer": _take_whole,
    "unsigned": _take_whole,
    "string": _take_strings,
    "weight": _take_weights,
    "relation": _take_relations,
}


def take_role(plan: RowPlan, field: Field, column: pa.Array) -> Taken:
    """Return the values that a column has for its part in a row; of a type that `check_type` passes."""
    return _TAKE[field.kind](plan, field, column)
