"""Features of Arrow columns: vectors, numbers, words and lists of ids, each fault by its row; nulls are absent."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graph_store.arrow_numbers import Numbers, either, is_number, nulls, real_numbers, to_numpy, whole_numbers
from graph_store.feature_type import FeatureType
from graph_store.row_batch import Column, shown

_INT8 = 127


class TakenFeature(NamedTuple):
    """The values of a feature, and the rows that cannot be taken.

    Attributes
    ----------
    column : Column
        Means nothing where a row is wrong.
    wrong : bool[n] or None
    explain : callable
        Given a wrong row, returns which of the feature's columns is at fault, what was found, and what to do.
    """

    column: Column
    wrong: NDArray[np.bool_] | None
    explain: Callable[[int], tuple[int, str, str]]


def type_fault(feature: FeatureType, kind: pa.DataType) -> str | None:
    """Say what a column of this Arrow type should be to hold the feature; None when it can."""
    if feature.kind == "scalar" or (feature.kind == "vector" and len(feature.source_columns) > 1):
        moment = feature.kind == "scalar" and pa.types.is_timestamp(kind)
        return None if is_number(kind) or pa.types.is_boolean(kind) or moment else "expected numbers"
    if feature.is_list and is_text(kind):
        return None
    if feature.kind == "vector":
        if not is_list(kind) or not (is_number(kind.value_type) or pa.types.is_boolean(kind.value_type)):
            return f"expected lists of {feature.dim} numbers"
        if pa.types.is_fixed_size_list(kind) and kind.list_size != feature.dim:
            return f"expected lists of {feature.dim} numbers (dim)"
        return None
    if feature.kind == "ids":
        return None if is_list(kind) and is_number(kind.value_type) else "expected lists of integers"
    if is_text(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return None
    return "expected strings"


def is_list(kind: pa.DataType) -> bool:
    """True for lists of any Arrow kind that `plain` leaves."""
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def is_text(kind: pa.DataType) -> bool:
    """True for strings and bytes."""
    return bool(pa.types.is_large_string(kind) or pa.types.is_large_binary(kind))


def take_feature(feature: FeatureType, columns: Sequence[pa.Array]) -> TakenFeature:
    """Return the values of a feature from its columns of n rows, of types that `type_fault` passes."""
    if feature.kind == "vector":
        return _vector(feature, columns[0]) if len(columns) == 1 else _wide_vector(feature, columns)
    if feature.kind == "scalar":
        return _scalar(feature, columns[0])
    return (_ids if feature.kind == "ids" else _words)(feature, columns[0])


def take_texts(column: pa.Array) -> tuple[pa.LargeStringArray, NDArray[np.bool_] | None]:
    """Return a column of strings or bytes as strings, and the rows that are not UTF-8; nulls stay."""
    texts = column.view(pa.large_string()) if pa.types.is_large_binary(column.type) else column
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:
        return texts, np.array([not _is_utf8(text) for text in column.cast(pa.large_binary()).to_pylist()])
    return texts, None


def _is_utf8(text: bytes | None) -> bool:
    try:
        return text is None or text.decode() is not None
    except UnicodeDecodeError:
        return False


def _scalar(feature: FeatureType, column: pa.Array) -> TakenFeature:
    missing = nulls(column)
    dtype = np.dtype(feature.dtype)
    numbers = _numbers(feature, column)

    def explain(row: int) -> tuple[int, str, str]:
        return 0, str(_shown_value(column, row)), _number_advice(feature)

    return TakenFeature(
        Column(numbers.values.astype(dtype, copy=False), None, _present(missing)), numbers.wrong, explain
    )


def _numbers(feature: FeatureType, column: pa.Array) -> Numbers:
    """Return numbers of the feature's dtype, divided by the scale if it has one."""
    dtype = np.dtype(feature.dtype)
    if dtype.kind == "f":
        return real_numbers(column, dtype)
    if dtype.kind == "b":
        return whole_numbers(column, low=0, high=1)
    if feature.scale is not None:
        if not pa.types.is_integer(column.type):
            return _scaled(column, feature.scale)
        return whole_numbers(column, low=-_INT8, high=_INT8)
    limits = np.iinfo(dtype)
    return whole_numbers(column, low=int(limits.min), high=int(limits.max))


def _scaled(column: pa.Array, scale: float) -> Numbers:
    given = to_numpy(column.fill_null(pa.scalar(0, pa.int64()).cast(column.type)) if column.null_count else column)
    codes = np.rint(given.astype(np.float64, copy=False) / scale)
    wrong = ~(np.abs(codes) <= _INT8)
    return Numbers(np.where(wrong, 0, codes).astype(np.int8), either(wrong, None))


def _number_advice(feature: FeatureType) -> str:
    dtype = np.dtype(feature.dtype)
    if dtype.kind == "f":
        return f"expected a number within {dtype}; choose a wider dtype or repair the value"
    if feature.scale is not None:
        return f"expected codes from -{_INT8} to {_INT8}, or numbers that are once divided by the scale {feature.scale}"
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return f"expected a whole number from {low} to {high}; choose another dtype or repair the value"


def _vector(feature: FeatureType, column: pa.Array) -> TakenFeature:
    missing, lengths, flat = nulls(column), _lengths(column), column.flatten()
    numbers = _numbers(feature, flat)
    missized = lengths != feature.dim if missing is None else (lengths != feature.dim) & ~missing
    wrong = either(missized, _rows_of(either(nulls(flat), numbers.wrong), lengths))

    def explain(row: int) -> tuple[int, str, str]:
        if lengths[row] != feature.dim:
            return 0, f"a vector of {lengths[row]} numbers", f"expected {feature.dim} (dim)"
        return 0, *_item_fault(column[row].values, numbers.wrong, int(lengths[:row].sum()), _number_advice(feature))

    if wrong is not None:
        return TakenFeature(Column(np.empty(0)), wrong, explain)
    assert feature.dim is not None
    values = numbers.values.astype(feature.dtype, copy=False).reshape(-1, feature.dim)
    if missing is not None:
        spread = np.zeros((len(column), feature.dim), values.dtype)
        spread[~missing] = values
        values = spread
    return TakenFeature(Column(values, None, _present(missing)), None, explain)


def _wide_vector(feature: FeatureType, columns: Sequence[pa.Array]) -> TakenFeature:
    values = np.empty((len(columns[0]), len(columns)), feature.dtype)
    masks, wrongs = [], []
    for place, column in enumerate(columns):
        numbers = _numbers(feature, column)
        values[:, place] = numbers.values
        masks.append(nulls(column))
        wrongs.append(numbers.wrong)
    wrong = None
    for mask in wrongs:
        wrong = either(wrong, mask)
    missing = None
    if any(mask is not None for mask in masks):
        blank = np.zeros(len(columns[0]), bool)
        some = np.logical_or.reduce([blank if mask is None else mask for mask in masks])
        missing = np.logical_and.reduce([blank if mask is None else mask for mask in masks])
        wrong = either(wrong, some & ~missing)
        missing = missing if missing.any() else None

    def explain(row: int) -> tuple[int, str, str]:
        for place, (mask, wrong) in enumerate(zip(masks, wrongs)):
            if mask is not None and mask[row]:
                return place, "null", "fill it in, or leave all columns of the vector empty"
            if wrong is not None and wrong[row]:
                return place, str(_shown_value(columns[place], row)), _number_advice(feature)
        raise AssertionError

    return TakenFeature(Column(values, None, _present(missing)), wrong, explain)


def _ids(feature: FeatureType, column: pa.Array) -> TakenFeature:
    missing, lengths, flat = nulls(column), _lengths(column), column.flatten()
    numbers = whole_numbers(flat)
    wrong = _rows_of(either(nulls(flat), numbers.wrong), lengths)

    def explain(row: int) -> tuple[int, str, str]:
        advice = "expected whole numbers within int64"
        return 0, *_item_fault(column[row].values, numbers.wrong, int(lengths[:row].sum()), advice)

    return TakenFeature(Column(numbers.values, _indptr(lengths), _present(missing)), wrong, explain)


def _words(feature: FeatureType, column: pa.Array) -> TakenFeature:
    missing = nulls(column)
    if not is_text(column.type):
        column = column.cast(pa.large_string())
    if missing is not None:
        column = column.fill_null(b"" if pa.types.is_large_binary(column.type) else "")
    texts, wrong = take_texts(column)

    def explain(row: int) -> tuple[int, str, str]:
        raw = texts.view(pa.large_binary())[row].as_py()
        return 0, f"{shown(raw.decode('utf-8', 'replace'))} is not UTF-8", "write the column as UTF-8 strings"

    letters, indptr = letters_of(texts)
    return TakenFeature(Column(letters, indptr, _present(missing)), wrong, explain)


def letters_of(texts: pa.LargeStringArray) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Return the bytes of strings, and where each begins in them; what a null has is any."""
    _, offsets, data = texts.buffers()
    if len(texts) == 0 or data is None:
        return np.empty(0, np.uint8), np.zeros(len(texts) + 1, np.int64)
    starts = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return np.frombuffer(data, np.uint8)[starts[0] : starts[-1]], starts - starts[0]


def _lengths(column: pa.Array) -> NDArray[np.int64]:
    """Return the number of items of each row, 0 for null."""
    lengths = pc.list_value_length(column)
    return (lengths.fill_null(0) if lengths.null_count else lengths).cast(pa.int64()).to_numpy(zero_copy_only=True)


def _indptr(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    indptr = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=indptr[1:])
    return indptr


def _rows_of(items: NDArray[np.bool_] | None, lengths: NDArray[np.int64]) -> NDArray[np.bool_] | None:
    """Return the rows that hold any of these items."""
    if items is None:
        return None
    rows = np.zeros(len(lengths), bool)
    rows[np.searchsorted(_indptr(lengths), np.flatnonzero(items), side="right") - 1] = True
    return rows


def _item_fault(items: pa.Array, wrong: NDArray[np.bool_] | None, first: int, advice: str) -> tuple[str, str]:
    """Say which of a row's items is at fault; the row's first is item `first` of the batch."""
    for place in range(len(items)):
        if not items[place].is_valid:
            return f"null at place {place} of the list", "fill it in"
        if wrong is not None and wrong[first + place]:
            return f"{_shown_value(items, place)} at place {place} of the list", advice
    raise AssertionError


def _present(missing: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    return None if missing is None else ~missing


def _shown_value(column: pa.Array, row: int) -> Any:
    value = column[row]
    return value.value if pa.types.is_temporal(column.type) else value.as_py()
