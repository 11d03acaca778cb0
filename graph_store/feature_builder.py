"""Feature values in the order of the input → a table in the order of its rows, in files beside the store."""

import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np

from graph_store.feature_type import FeatureType
from graph_store.features import Sections, is_ragged, value_type, width, word_sections
from graph_store.ragged import starts_of, take_spans
from graph_store.row_batch import Column
from graph_store.string_dictionary import HashedStrings

_ROWS_AT_ONCE = 1 << 18


class _FileArray:
    """An array in a file that grows with its highest row; what was written does not stay in the process's memory."""

    def __init__(self, path: Path, dtype: Any, width: int) -> None:
        self._path, self._dtype, self._width = path, np.dtype(dtype), width
        self.rows = 0
        with open(path, "wb"):
            pass

    def reserve(self, rows: int) -> None:
        if rows > self.rows:
            self.rows = rows
            os.truncate(self._path, rows * self._width * self._dtype.itemsize)

    def array(self) -> np.ndarray:
        """Return the whole, [rows, width], mapped for reading and writing."""
        if self.rows == 0:
            return np.empty((0, self._width), self._dtype)
        return np.memmap(self._path, self._dtype, "r+", shape=(self.rows, self._width))

    def put(self, rows: np.ndarray, values: np.ndarray) -> None:
        """Write values at rows."""
        array = self.array()
        array[rows] = values.reshape(rows.size, self._width)
        _let_go(array)

    def append(self, values: np.ndarray) -> None:
        """Add rows at the end."""
        self.rows += values.size // self._width
        with open(self._path, "ab") as file:
            file.write(memoryview(np.ascontiguousarray(values, self._dtype)).cast("B"))


def _let_go(array: np.ndarray) -> None:
    """Give the pages of a mapped file back to the page cache."""
    mapped = getattr(array, "_mmap", None)
    if mapped is not None:
        mapped.madvise(mmap.MADV_DONTNEED)


class FeatureBuilder:
    """Collects the values of one feature; a row given twice keeps the value that came last.

    Parameters
    ----------
    feature : FeatureType
    folder : Path
        Where its files go; it must exist and be this builder's own.
    rows : int
        Rows of the table; it grows when a higher one is added.
    """

    def __init__(self, feature: FeatureType, folder: Path, rows: int = 0) -> None:
        self.feature, self._folder = feature, folder
        self._present = _FileArray(folder / "present", np.uint8, 1)
        self._words = HashedStrings(feature.name) if feature.kind == "category" else None
        if is_ragged(feature):
            self._places = _FileArray(folder / "places", np.int64, 2)  # first value, number of values
            self._values = _FileArray(folder / "values", value_type(feature), 1)
        else:
            self._values = _FileArray(folder / "values", value_type(feature), width(feature))
        self._reserve(rows)

    def _reserve(self, rows: int) -> None:
        self._present.reserve(rows)
        (self._places if is_ragged(self.feature) else self._values).reserve(rows)

    def add(self, rows: np.ndarray, column: Column) -> None:
        """Take the values of int64[n] rows; a row below 0 is left out."""
        if rows.size == 0:
            return
        self._reserve(int(rows.max()) + 1)
        present = np.ones(rows.size, bool) if column.present is None else column.present
        used = np.flatnonzero(present & (rows >= 0))
        if is_ragged(self.feature):
            assert column.indptr is not None
            at = self._values.rows
            self._values.append(column.values)
            starts = column.indptr[:-1] - column.indptr[0] + at
            places = np.stack([starts, np.diff(column.indptr)], axis=1)
            self._places.put(rows[used], places[used])
        elif self._words is not None:
            self._values.put(rows[used], self._codes(column, used))
        else:
            self._values.put(rows[used], column.values[used])
        self._present.put(rows[used], np.ones(used.size, np.uint8))

    def _codes(self, column: Column, used: np.ndarray) -> np.ndarray:
        """Return the codes of some rows; words of the others are not taken."""
        import pyarrow as pa

        assert self._words is not None
        assert column.indptr is not None
        starts = np.ascontiguousarray(column.indptr, np.int64)
        data = np.ascontiguousarray(column.values, np.uint8)
        texts = pa.LargeStringArray.from_buffers(starts.size - 1, pa.py_buffer(starts), pa.py_buffer(data))
        return self._words.add(texts if used.size == len(texts) else texts.take(pa.array(used)))

    def sections(self) -> Sections:
        """Return the table, mapped from its files where it is large."""
        present = self._present.array().ravel()
        if is_ragged(self.feature):
            return {"present": present, **self._ragged()}
        if self._words is None:
            return {"present": present, "values": self._values.array().ravel()}
        words = self._words.words()
        order = sorted(range(len(words)), key=words.__getitem__)
        rank = np.zeros(max(1, len(words)), np.int32)
        rank[order] = np.arange(len(words), dtype=np.int32)
        codes = self._values.array().ravel()
        for low in range(0, codes.size, _ROWS_AT_ONCE):
            part = slice(low, low + _ROWS_AT_ONCE)
            codes[part] = np.where(present[part] != 0, rank[codes[part]], 0)
        self._words = None
        return {"present": present, "values": codes, **word_sections([words[place] for place in order])}

    def _ragged(self) -> Sections:
        places, values = self._places.array(), self._values.array().ravel()
        starts = starts_of(places[:, 1])
        ordered = _FileArray(self._folder / "ordered", values.dtype, 1)
        for low in range(0, places.shape[0], _ROWS_AT_ONCE):
            part = np.array(places[low : low + _ROWS_AT_ONCE])
            ordered.append(take_spans(values, part[:, 0], starts_of(part[:, 1])))
        return {"values": ordered.array().ravel(), "starts": starts}
