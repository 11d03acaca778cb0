"""Ids and features of a store as Arrow arrays, without a Python object a value."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pyarrow as pa

from graph_store.feature_type import FeatureType
from graph_store.features import width
from graph_store.ids import IdMap
from graph_store.string_ids import StringMap

_ID_TYPES = {"integer": pa.int64(), "unsigned": pa.uint64(), "string": pa.large_string()}


def id_type(kind: str) -> pa.DataType:
    """Return the Arrow type of ids of "integer", "unsigned" or "string"."""
    return _ID_TYPES[kind]


def id_array(ids: IdMap, nodes: np.ndarray) -> pa.Array:
    """Return the original ids of nodes, int64[n]."""
    if not isinstance(ids, StringMap):
        return pa.array(ids.to_ids(nodes), id_type(ids.id_type))
    return _texts(*ids.to_bytes(nodes), None)


def feature_type(feature: FeatureType, *, stored: bool = False) -> pa.DataType:
    """Return the Arrow type of a feature's values.

    Parameters
    ----------
    stored : bool
        int8 vectors as they are stored, and not multiplied by their scale.
    """
    if feature.kind == "vector":
        item = pa.float32() if feature.scale is not None and not stored else pa.from_numpy_dtype(feature.dtype)
        return pa.list_(item, width(feature))
    if feature.kind == "scalar":
        return pa.from_numpy_dtype(feature.dtype)
    by_kind = {
        "category": pa.dictionary(pa.int32(), pa.large_string()),
        "ids": pa.list_(pa.int64()),
        "string": pa.large_string(),
    }
    return by_kind[feature.kind]


def feature_array(feature: FeatureType, sections: Mapping[str, np.ndarray], *, stored: bool = False) -> pa.Array:
    """Return all rows of a table; see `graph_store.features` for its sections. Absent values are null."""
    present, values = sections["present"].astype(bool), np.ascontiguousarray(sections["values"])
    absent = None if present.all() else ~present
    if feature.kind == "vector":
        if feature.scale is not None and not stored:
            values = values.astype(np.float32) * np.float32(feature.scale)
        mask = None if absent is None else pa.array(absent)
        return pa.FixedSizeListArray.from_arrays(pa.array(values), width(feature), mask=mask)
    if feature.kind == "scalar":
        return pa.array(values, feature_type(feature), mask=absent)
    if feature.kind == "category":
        words = _texts(sections["word_starts"], sections["words"], None)
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32(), mask=absent), words)
    starts = np.ascontiguousarray(sections["starts"], np.int64)
    if feature.kind == "string":
        return _texts(starts, values, present if absent is not None else None)
    mask = None if absent is None else pa.array(absent)
    return pa.ListArray.from_arrays(pa.array(starts, pa.int32()), pa.array(values, pa.int64()), mask=mask)


def _texts(starts: np.ndarray, data: np.ndarray, present: np.ndarray | None) -> pa.LargeStringArray:
    """Return strings of their UTF-8 bytes."""
    bits = None if present is None else pa.py_buffer(np.packbits(present, bitorder="little"))
    starts = np.ascontiguousarray(starts, np.int64)
    return pa.LargeStringArray.from_buffers(
        starts.size - 1, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(data)), bits
    )


def distinct_names(wanted: Sequence[str], taken: Iterable[str]) -> list[str]:
    """Return a column for each feature: its name, with `_` behind it where another column is called so."""
    others, names = {*taken}, []
    for name in wanted:
        column = name
        while column in others or (column != name and column in wanted):
            column += "_"
        names.append(column)
    return names
