"""Rows from NumPy files: one array, arrays by name, or a saved sparse matrix; nothing in them is ever unpickled."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from graph_store.array_pieces import ArrayPieces, damage_told, open_npy, open_npz
from graph_store.arrow_rows import ArrowRows, with_usual_names
from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.row_plan import RowPlan
from graph_store.sources import SPARSE_COLUMNS, EdgeSource, NodeSource
from graph_store.sparse_source import data_type, entries, major_of, native, sparse_schema, sparse_tables

Tables = Iterator[Callable[[], pa.Table]]


def read_arrays(
    source: EdgeSource | NodeSource,
    plan: RowPlan,
    *,
    time_unit: str | None = None,
    threads: int,
    batch_rows: int | None = None,
) -> Iterator[Any]:
    """Return the rows of a .npy or .npz file in batches, of edges or of nodes as the plan is.

    Raises
    ------
    BadInput
        No NumPy file, a column that is absent, of a wrong type or of another length (at once); a row that cannot be
        taken, or damage (from the iterator).
    """
    arrays, plan = _opened(source, plan)
    rows = ArrowRows(plan, arrays.schema, time_unit=time_unit)
    size, num_rows, at_once = plan.path.stat().st_size, arrays.num_rows(rows.names), rows.rows_at_once(batch_rows)

    def convert(table: Callable[[], pa.Table], first: int) -> Any:
        done = min(first + at_once, num_rows)
        return rows.batch(table(), first=first, bytes_done=size * done // num_rows)

    calls = (
        partial(convert, table, number * at_once) for number, table in enumerate(arrays.tables(rows.names, at_once))
    )
    return in_order(calls, threads=threads)


def describe_arrays(source: EdgeSource | NodeSource, plan: RowPlan) -> str:
    """Say how `read_arrays` would read the file.

    Raises
    ------
    BadInput
        As of `read_arrays`, at once.
    """
    arrays, plan = _opened(source, plan)
    return f"{arrays.what}, {ArrowRows(plan, arrays.schema).described(arrays.noun)}"


class _Column(NamedTuple):
    """A column of the rows: an array, or a part of one (a column by number, a field by name)."""

    array: ArrayPieces
    part: int | str | None = None

    def arrow_type(self) -> pa.DataType:
        """Return the type its values have in Arrow; null for what cannot be read."""
        dtype, width = self.array.dtype, len(self.array.shape)
        if isinstance(self.part, str):
            dtype = dtype[self.part]
        try:
            kind = pa.from_numpy_dtype(dtype)
        except pa.ArrowException:
            return pa.null()
        if width == 1 or (width == 2 and self.part is not None):
            return kind
        return pa.list_(kind, self.array.shape[1]) if width == 2 and pa.types.is_primitive(kind) else pa.null()

    def take(self, piece: np.ndarray) -> pa.Array:
        """Return its values in a piece of the array."""
        if isinstance(self.part, int):
            piece = piece[:, self.part]
        elif self.part is not None:
            piece = piece[self.part]
        if piece.ndim == 1:
            return pa.array(native(piece))
        return pa.FixedSizeListArray.from_arrays(pa.array(native(piece).ravel()), piece.shape[1])


class _Columns:
    """Rows whose columns are arrays of one length, or the parts of one array."""

    def __init__(self, path: Path, columns: Mapping[str, _Column], what: str, noun: str) -> None:
        self._path, self._columns, self.what, self.noun = path, columns, what, noun
        self.schema = pa.schema([(name, column.arrow_type()) for name, column in columns.items()])

    def num_rows(self, names: Sequence[str]) -> int:
        """Return the rows of the columns `names`; BadInput when they differ."""
        lengths = {name: self._columns[name].array.shape[0] for name in names}
        for name, length in lengths.items():
            if length != lengths[names[0]]:
                raise BadInput(
                    f"{self._path}: array {name!r} has {length} rows, {names[0]!r} has {lengths[names[0]]}; "
                    "all must have as many"
                )
        return lengths[names[0]]

    def tables(self, names: Sequence[str], at_once: int) -> Tables:
        """Yield what makes each table; the pieces are read here, in their order."""
        columns = {name: self._columns[name] for name in names}
        arrays = {id(column.array): column.array for column in columns.values()}
        try:
            for start in range(0, self.num_rows(names), at_once):
                stop = min(start + at_once, self.num_rows(names))
                pieces = {key: array.rows(start, stop) for key, array in arrays.items()}
                yield partial(self._table, columns, pieces)
        finally:
            for array in arrays.values():
                array.close()

    def _table(self, columns: Mapping[str, _Column], pieces: Mapping[int, np.ndarray]) -> pa.Table:
        taken = {name: column.take(pieces[id(column.array)]) for name, column in columns.items()}
        return pa.table(taken)


class _Entries:
    """The stored entries of a matrix in compressed rows (CSR) or columns (CSC), which are read in pieces."""

    what, noun = "a sparse matrix", "column"

    def __init__(self, path: Path, arrays: Mapping[str, ArrayPieces], *, by_column: bool) -> None:
        self._indices, self._data, self._by_column = arrays["indices"], arrays["data"], by_column
        self._indptr = indptr = arrays["indptr"].whole().astype(np.int64)
        length = self._indices.shape[0]
        if indptr[0] != 0 or indptr[-1] != length or (np.diff(indptr) < 0).any() or self._data.shape != (length,):
            raise BadInput(f"{path}: damaged: indptr, indices and data of the matrix do not fit; save it again")
        self.schema = pa.schema(dict(zip(SPARSE_COLUMNS, (pa.int64(), pa.int64(), data_type(self._data.dtype)))))

    def num_rows(self, names: Sequence[str]) -> int:
        """Return the number of entries."""
        return int(self._data.shape[0])

    def tables(self, names: Sequence[str], at_once: int) -> Tables:
        """Yield what makes each table; the pieces are read here, in their order."""
        try:
            for start in range(0, self.num_rows(names), at_once):
                stop = min(start + at_once, self.num_rows(names))
                rows, cols = major_of(self._indptr, start, stop), self._indices.rows(start, stop)
                if self._by_column:
                    rows, cols = cols, rows
                yield partial(entries, rows, cols, self._data.rows(start, stop))
        finally:
            self._indices.close()
            self._data.close()


class _Matrix:
    """The stored entries of a matrix in memory."""

    what, noun = "a sparse matrix", "column"

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix.tocoo()
        self.schema = sparse_schema(matrix)

    def num_rows(self, names: Sequence[str]) -> int:
        """Return the number of entries."""
        return int(self._matrix.nnz)

    def tables(self, names: Sequence[str], at_once: int) -> Tables:
        """Yield what makes each table."""
        return (partial(pa.Table.select, table, names) for table in sparse_tables(self._matrix, at_once))


def _opened(source: EdgeSource | NodeSource, plan: RowPlan) -> tuple[_Columns | _Entries | _Matrix, RowPlan]:
    """Open the file, and return it and the plan with the names that it makes clear."""
    path = plan.path
    if _is_npy(path):
        return _one_array(plan, open_npy(path)), plan
    arrays = open_npz(path)
    if {"format", "shape"} <= set(arrays):
        with damage_told(path):
            return _sparse(path, arrays), plan
    if len(arrays) == 1:
        return _one_array(plan, next(iter(arrays.values()))), plan
    plan = with_usual_names(plan, source, list(arrays))
    columns = {name: _Column(array) for name, array in arrays.items()}
    return _checked(plan, _Columns(path, columns, "NumPy arrays", "array")), plan


def _is_npy(path: Path) -> bool:
    with damage_told(path), open(path, "rb") as file:
        return file.read(6) == b"\x93NUMPY"


def _one_array(plan: RowPlan, array: ArrayPieces) -> _Columns:
    shape, path = array.shape, plan.path
    what = f"a NumPy array {list(shape)}"
    if array.dtype.names is not None and len(shape) == 1:
        fields = {name: _Column(array, name) for name in array.dtype.names}
        return _checked(plan, _Columns(path, fields, f"{what} of records", "field"))
    if len(shape) == 1 and plan.is_nodes:
        return _checked(plan, _Columns(path, {"0": _Column(array)}, what, "column"))
    if len(shape) != 2:
        raise BadInput(
            f"{path}: has shape {list(shape)}, expected [n, 2] or more columns, or records with named fields; "
            "save it so, or several arrays with numpy.savez"
        )
    if shape[0] == 2 < shape[1] and not plan.is_nodes and _asked_columns(plan) == 2:
        sides = [_Column(ArrayPieces(path, side)) for side in array.whole()]
        return _checked(plan, _Columns(path, {"0": sides[0], "1": sides[1]}, f"{what}, an edge in each column", "row"))
    return _checked(
        plan, _Columns(path, {str(place): _Column(array, place) for place in range(shape[1])}, what, "column")
    )


def _asked_columns(plan: RowPlan) -> int:
    """Return how many columns there must be for those that are asked for."""
    return 1 + max(int(wanted.column) if str(wanted.column).isdecimal() else 0 for wanted in plan.wanted)


def _checked(plan: RowPlan, columns: _Columns) -> _Columns:
    """Refuse a column that no Arrow type holds, by the dtype and shape that it has."""
    for field in plan.find(columns.schema.names, len(columns.schema)):
        column = columns._columns[columns.schema.names[field.position]]
        if pa.types.is_null(column.arrow_type()):
            raise BadInput(
                f"{plan.path}: {columns.noun} {field.label} ({field.part}) has dtype {column.array.dtype} and shape "
                f"{list(column.array.shape)}; expected numbers or strings, in one or two dimensions"
            )
    return columns


def _sparse(path: Path, arrays: Mapping[str, ArrayPieces]) -> _Columns | _Entries | _Matrix:
    """Open what scipy.sparse.save_npz wrote."""
    form = arrays["format"].whole()
    name = form.item().decode() if form.dtype.kind == "S" else str(form)
    if name == "coo" and set(SPARSE_COLUMNS) <= set(arrays):
        return _Columns(path, {name: _Column(arrays[name]) for name in SPARSE_COLUMNS}, "a sparse matrix", "column")
    if name in ("csr", "csc") and {"indptr", "indices", "data"} <= set(arrays):
        return _Entries(path, arrays, by_column=name == "csc")
    import scipy.sparse

    return _Matrix(scipy.sparse.load_npz(path))
