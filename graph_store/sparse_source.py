"""Edges of a scipy sparse matrix: a row for each stored entry, without a copy of the whole."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graph_store.errors import BadInput
from graph_store.sources import SPARSE_COLUMNS, TABLE


def sparse_schema(matrix: Any) -> pa.Schema:
    """Return the columns `row`, `col` and `data` that a sparse matrix is read as.

    Raises
    ------
    BadInput
        It has not two dimensions.
    """
    if len(matrix.shape) != 2:
        raise BadInput(f"{TABLE}: a sparse array of {len(matrix.shape)} dimensions; edges need rows and columns")
    return pa.schema(dict(zip(SPARSE_COLUMNS, (pa.int64(), pa.int64(), data_type(matrix.dtype)))))


def data_type(dtype: np.dtype) -> pa.DataType:
    """Return the Arrow type of the entries; null for what can be no weight."""
    return pa.uint8() if dtype.kind == "b" else pa.from_numpy_dtype(dtype) if dtype.kind in "iuf" else pa.null()


def sparse_bytes(matrix: Any) -> int:
    """Return the bytes of the entries, as far as they are known without making them."""
    return int(matrix.nnz) * (16 + int(np.dtype(matrix.dtype).itemsize))


def sparse_tables(matrix: Any, at_once: int) -> Iterator[pa.Table]:
    """Yield the entries in the order they are stored, `at_once` in each table."""
    if matrix.format in ("csr", "csc"):
        major, indptr, minor = None, np.asarray(matrix.indptr), matrix.indices
    else:
        matrix = matrix.tocoo(copy=False)
        major, indptr, minor = matrix.row, np.empty(0), matrix.col
    for start in range(0, len(matrix.data), at_once):
        stop = min(start + at_once, len(matrix.data))
        majors = major_of(indptr, start, stop) if major is None else major[start:stop]
        rows, cols = majors, minor[start:stop]
        if matrix.format == "csc":
            rows, cols = cols, rows
        yield entries(rows, cols, matrix.data[start:stop])


def major_of(indptr: NDArray[np.integer], start: int, stop: int) -> NDArray[np.int64]:
    """Return the row (of a CSC matrix: the column) of each of the entries `start … stop − 1`."""
    first = int(np.searchsorted(indptr, start, side="right")) - 1
    last = int(np.searchsorted(indptr, stop, side="left"))
    counts = np.diff(np.clip(indptr[first : last + 1], start, stop))
    return np.repeat(np.arange(first, last), counts)


def entries(rows: NDArray[Any], cols: NDArray[Any], data: NDArray[Any]) -> pa.Table:
    """Return entries as a table."""
    kind = data_type(data.dtype)
    if pa.types.is_null(kind):
        weights = pa.nulls(len(data))
    else:
        weights = pa.array(native(data.view(np.uint8) if data.dtype.kind == "b" else data))
    ends = [pa.array(np.ascontiguousarray(end, np.int64)) for end in (rows, cols)]
    return pa.table(dict(zip(SPARSE_COLUMNS, (*ends, weights))))


def native(values: NDArray[Any]) -> NDArray[Any]:
    """Return the values contiguous and in the byte order of the machine."""
    return np.ascontiguousarray(values, values.dtype.newbyteorder("="))
