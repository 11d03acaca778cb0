"""Feature values as users give them, checked and turned into the sections of a table."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from graph_store.feature_type import FeatureType
from graph_store.features import Sections, width, word_sections
from graph_store.row_batch import Column


def checked_sections(feature: FeatureType, values: Any, rows: int, present: Any) -> Sections:
    """Do as `graph_store.features.stored`."""
    there = np.ones(rows, bool) if present is None else np.asarray(present)
    if there.shape != (rows,) or there.dtype != bool:
        raise ValueError(f"feature {feature.name!r}: present must be bool[{rows}], got {there.dtype}{there.shape}")
    if isinstance(values, Column):
        return column_sections(feature, values, rows)
    if hasattr(values, "to_pylist"):  # Arrow
        values = values.to_pylist()
    if isinstance(values, np.ma.MaskedArray) and len(values) == rows:
        values, there = _unmasked(feature, values, there)
    if feature.kind in ("vector", "scalar"):
        return _numbers(feature, values, rows, there)
    return _lists(feature, values, rows, there)


def _unmasked(feature: FeatureType, values: np.ma.MaskedArray, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return what lies under a mask, and which rows are present: those that are masked are not."""
    mask = np.ma.getmaskarray(values).reshape(len(values), -1)
    torn = np.flatnonzero(mask.any(axis=1) & ~mask.all(axis=1))
    if torn.size:
        raise ValueError(f"feature {feature.name!r}: row {torn[0]} is masked in part; mask all of it, or fill it in")
    return np.ma.getdata(values), present & ~mask.all(axis=1) if mask.size else present


def column_sections(feature: FeatureType, column: Column, rows: int) -> Sections:
    """Return the sections of a column that a reader has checked."""
    present = np.ones(rows, np.uint8) if column.present is None else column.present.astype(np.uint8)
    if column.indptr is None:
        return {"present": present, "values": np.ascontiguousarray(column.values).ravel()}
    if feature.kind != "category":
        return {"present": present, "values": column.values, "starts": column.indptr}
    data, starts = column.values.tobytes(), column.indptr.tolist()
    words = [data[start:stop] for start, stop in zip(starts[:-1], starts[1:])]
    return _coded(words, present.astype(bool))


def _coded(words: Sequence[bytes], present: np.ndarray) -> Sections:
    known = sorted({word for word, there in zip(words, present.tolist()) if there})
    place = {word: number for number, word in enumerate(known)}
    codes = np.array([place.get(word, 0) for word in words], np.int32)
    return {"present": present.astype(np.uint8), "values": codes, **word_sections(known)}


def _numbers(feature: FeatureType, values: Any, rows: int, present: np.ndarray) -> Sections:
    if isinstance(values, (list, tuple)):
        present = present & np.array([value is not None for value in values] or np.ones(0, bool), bool)
        blank: Any = [0] * width(feature) if feature.kind == "vector" else 0
        values = [blank if value is None else value for value in values]
    try:
        given = np.asarray(values)
    except ValueError:
        given = np.asarray(None)
    shape = (rows, width(feature)) if feature.kind == "vector" else (rows,)
    if given.size == 0 and rows == 0:
        given = np.empty(shape, feature.dtype)
    if given.shape != shape or given.dtype.kind not in "biuf":
        raise ValueError(
            f"feature {feature.name!r}: expected numbers of shape {list(shape)}, got {given.dtype} {list(given.shape)}"
        )
    numbers = _converted(feature, np.where(present.reshape(-1, *[1] * (given.ndim - 1)), given, given.dtype.type(0)))
    return {"present": present.astype(np.uint8), "values": np.ascontiguousarray(numbers).ravel()}


def _converted(feature: FeatureType, given: np.ndarray) -> np.ndarray:
    """Return numbers in the feature's dtype; ValueError where one would change."""
    wanted = np.dtype(feature.dtype)
    if feature.scale is not None and given.dtype != np.int8:
        given = np.rint(given / feature.scale)
    if wanted.kind == "f":
        with np.errstate(over="ignore"):
            numbers = given.astype(wanted)
        if not np.array_equal(np.isfinite(numbers), np.isfinite(given)):
            raise ValueError(f"feature {feature.name!r}: a value is out of the range of {wanted}")
        return numbers
    if wanted.kind == "b":
        low, high = 0, 1
    else:
        low, high = int(np.iinfo(wanted).min), int(np.iinfo(wanted).max)
    if feature.scale is not None:
        low = -high
    whole = given if given.dtype.kind != "f" else np.where(np.isfinite(given), given, np.inf)
    wrong = (whole < low) | (whole > high) | (whole != np.floor(whole))
    if wrong.any():
        raise ValueError(
            f"feature {feature.name!r}: {given[wrong].ravel()[0]} is no {wanted}: expected whole numbers "
            f"from {low} to {high}{' after division by the scale' if feature.scale else ''}"
        )
    return whole.astype(wanted)


def _lists(feature: FeatureType, values: Any, rows: int, present: np.ndarray) -> Sections:
    if isinstance(values, (str, bytes)) or not hasattr(values, "__len__") or len(values) != rows:
        raise ValueError(
            f"feature {feature.name!r}: expected {rows} values in a sequence, got {type(values).__name__}"
            f"{f' of {len(values)}' if hasattr(values, '__len__') else ''}"
        )
    present = present & np.array([value is not None for value in values] or np.ones(0, bool), bool)
    there = present.tolist()
    if feature.kind == "ids":
        return _id_lists(feature, values, present)
    texts: list[bytes] = []
    for row, value in enumerate(values):
        if there[row] and not isinstance(value, str):
            raise TypeError(f"feature {feature.name!r}: row {row} is {value!r}, expected a string or None")
        texts.append(value.encode() if there[row] else b"")
    if feature.kind == "category":
        return _coded(texts, present)
    starts = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return {
        "present": present.astype(np.uint8),
        "values": np.frombuffer(b"".join(texts), np.uint8),
        "starts": starts,
    }


def _id_lists(feature: FeatureType, values: Any, present: np.ndarray) -> Sections:
    parts = []
    for row, value in enumerate(values):
        part = np.asarray([] if not present[row] else value)
        if part.ndim != 1 or (part.size and part.dtype.kind not in "iu"):
            raise TypeError(f"feature {feature.name!r}: row {row} is {value!r}, expected a list of integers")
        parts.append(part.astype(np.int64))
    starts = np.cumsum([0, *(part.size for part in parts)]).astype(np.int64)
    joined = np.concatenate([*parts, np.empty(0, np.int64)])
    return {"present": present.astype(np.uint8), "values": joined, "starts": starts}
