"""Features in text: cells become Arrow values, absent where empty, and Arrow values become the columns of a batch."""

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graph_store.arrow_features import take_feature
from graph_store.feature_type import FeatureType
from graph_store.row_batch import Field, cell_reason, shown
from graph_store.text_columns import Taken, either, mask_of
from graph_store.text_numbers import EMPTY, NUMBER, OUT_OF_RANGE, real_numbers, split_cells, whole_numbers

_TRUTHS = pa.array(["0", "1", "false", "true"], pa.large_string())
_TRUE = pa.array(["1", "true"], pa.large_string())
_FLOATS = {"float32": pa.float32(), "float16": pa.float32(), "float64": pa.float64()}
_Read = tuple[pa.Array, NDArray[np.bool_] | None]


def feature_type(feature: FeatureType) -> pa.DataType:
    """Return the Arrow type as which plainly written cells of a feature can be read at once."""
    if feature.is_list or feature.kind not in ("scalar", "vector") or feature.dtype == "bool":
        return pa.large_string()
    return _number_type(feature)


def take_features(fields: Sequence[Field], columns: Mapping[int, pa.Array]) -> dict[str, Taken]:
    """Return the values of the features among `fields`, by name, as `Column`, from columns by position."""
    parts: dict[str, list[Field]] = {}
    for field in fields:
        if field.feature is not None:
            parts.setdefault(field.feature.name, []).append(field)
    return {name: _take(found, [columns[field.position] for field in found]) for name, found in parts.items()}


def _take(fields: Sequence[Field], columns: Sequence[pa.Array]) -> Taken:
    feature = fields[0].feature
    assert feature is not None
    read = [_read(feature, column) for column in columns]
    taken = take_feature(feature, [values for values, _ in read])
    wrong = taken.wrong
    for _, unread in read:
        wrong = either(wrong, unread)

    def reason(row: int) -> str:
        for field, column, (_, unread) in zip(fields, columns, read):
            if unread is not None and unread[row]:
                return cell_reason(field, _fault(feature, column[row].as_py()), _expected(feature))
        place, found, advice = taken.explain(row)
        return cell_reason(fields[place], "empty cell" if found == "null" else found, advice)

    return Taken(taken.column, wrong, reason)


def _read(feature: FeatureType, column: pa.Array) -> _Read:
    """Return the values of a column of n cells, null where empty, and bool[n], the cells that could not be read."""
    if not pa.types.is_large_string(column.type):
        # A float that is infinite may be one that is out of range: only its text tells.
        floats = pa.types.is_floating(column.type)
        return column, either(mask_of(pc.is_inf(column).fill_null(False)), None) if floats else None
    if feature.kind in ("category", "string"):
        empty = pc.equal(pc.binary_length(column), 0)
        return pc.if_else(empty, pa.scalar(None, column.type), column), None
    return _lists(feature, column) if feature.is_list else _numbers(feature, column)


def _numbers(feature: FeatureType, texts: pa.Array) -> _Read:
    kind = _number_type(feature)
    if pa.types.is_floating(kind):
        numbers, unread = real_numbers(texts, kind)
        endless = mask_of(pc.is_inf(numbers).fill_null(False))
        if endless.any():
            unread = either(unread, endless & ~mask_of(pc.match_substring(texts, "inf", ignore_case=True)))
        return numbers, unread
    if feature.dtype == "bool":
        return _truths(texts)
    values, status = whole_numbers(texts)
    if status is None:
        return pa.array(values), None
    return pa.array(values, mask=status != 0), either((status != 0) & (status != EMPTY), None)


def _truths(texts: pa.Array) -> _Read:
    lower = pc.utf8_lower(pc.utf8_trim(texts, " \t"))
    known = mask_of(pc.is_in(lower, _TRUTHS))
    empty = mask_of(pc.equal(pc.binary_length(lower), 0))
    return pa.array(mask_of(pc.is_in(lower, _TRUE)), mask=~known), either(~known & ~empty, None)


def _lists(feature: FeatureType, texts: pa.Array) -> _Read:
    indptr, items = split_cells(texts, feature.separator)
    values, unread = _items(feature, items)
    absent = None if feature.kind == "ids" else pa.array(np.diff(indptr) == 0)
    lists = pa.LargeListArray.from_arrays(pa.array(indptr), values, mask=absent)
    if unread is None:
        return lists, None
    rows = np.zeros(len(texts), np.bool_)
    rows[np.searchsorted(indptr, np.flatnonzero(unread), side="right") - 1] = True
    return lists, rows


def _items(feature: FeatureType, items: pa.Array) -> _Read:
    """Return the numbers of lists, and bool[m], those that are none."""
    values, unread = _numbers(feature, items)
    if values.null_count:
        unread = either(unread, mask_of(values.is_null()))
        values = values.fill_null(0)
    return values, unread


def _number_type(feature: FeatureType) -> pa.DataType:
    """Return what the numbers of a feature are read as, before they are brought to its dtype."""
    if feature.kind == "vector" and feature.dtype == "int8":
        return pa.float64()
    return _FLOATS.get(str(feature.dtype), pa.int64())


def _fault(feature: FeatureType, text: str) -> str:
    """Say what is wrong with the text of a cell that could not be read."""
    if feature.is_list:
        items = split_cells(pa.array([text], pa.large_string()), feature.separator)[1]
        unread = _items(feature, items)[1]
        assert unread is not None
        place = int(np.argmax(unread))
        return f"{_number_fault(feature, items[place].as_py())}, at place {place} of the list"
    return _number_fault(feature, text)


def _number_fault(feature: FeatureType, text: str) -> str:
    if not text:
        return "an empty item"
    if feature.dtype == "bool":
        return f"{shown(text)} is neither true nor false"
    if pa.types.is_floating(_number_type(feature)):
        return f"{shown(text.strip())} is " + (
            f"out of the range of {feature.dtype}" if NUMBER.fullmatch(text) else "no number"
        )
    status = whole_numbers(pa.array([text], pa.large_string()))[1]
    large = status is not None and status[0] == OUT_OF_RANGE
    return f"{shown(text.strip())} is {'out of the range of int64' if large else 'no whole number'}"


def _expected(feature: FeatureType) -> str:
    whole = pa.types.is_integer(_number_type(feature))
    what = "0, 1, true or false" if feature.dtype == "bool" else "a whole number" if whole else "a number"
    if feature.is_list:
        what = "whole numbers" if whole else f"{feature.dim} numbers"
    return f"expected {what}, or nothing where there is no value"
