"""Edges from Parquet files: the named columns only, row groups decoded ahead of their consumer."""

import threading
from collections.abc import Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from graph_store.row_batch import BATCH_ROWS, INT64_MAX, EdgeBatch, Field, fault, shown
from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.schema import EdgeSource, NodeType, nearest

# A row group above this is decoded in slices by one thread instead of whole by one of several.
_LARGEST_GROUP = 4 * BATCH_ROWS
_SMALLEST_READ = BATCH_ROWS // 2


def read_parquet(source: EdgeSource, src_type: NodeType, dst_type: NodeType, *, threads: int) -> Iterator[EdgeBatch]:
    """Open the file, check its columns, and return its edges in batches.

    Raises
    ------
    BadInput
        No Parquet file, a column that is absent or of a wrong type (at once); a null, a value out of range or
        damage (from the iterator), with its row, counted from 1.
    """
    file = _open(source.path)
    fields = _fields(source, file.schema_arrow, src_type, dst_type)
    return _batches(source.path, file, fields, threads)


def _open(path: Path) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(path, memory_map=True)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: not a readable Parquet file ({_one_line(error)}); write it again") from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _fields(source: EdgeSource, schema: pa.Schema, src_type: NodeType, dst_type: NodeType) -> list[Field]:
    node_types = {"src": src_type, "dst": dst_type}
    fields = []
    for role, column in source.columns().items():
        position = _position(source.path, role, column, schema)
        field = Field(role, shown(schema.names[position]), position, node_types.get(role))
        _check_type(source.path, field, schema.types[position])
        fields.append(field)
    if len({field.position for field in fields}) < len(fields):
        raise BadInput(f"{source.path}: two of {', '.join(source.columns())} are one column; name different ones")
    return fields


def _position(path: Path, role: str, column: str | int, schema: pa.Schema) -> int:
    names = schema.names
    if isinstance(column, str):
        if names.count(column) > 1:
            raise BadInput(f"{path}: {role} column {column!r}: {names.count(column)} columns have that name")
        if column in names:
            return int(names.index(column))
        if not column.isdecimal():
            raise BadInput(f"{path}: no column {column!r} for {role}; {nearest(column, names)}")
    position = int(column)
    if position >= len(names):
        raise BadInput(f"{path}: no column {position} for {role}: the file has {len(names)}, counted from 0")
    return position


def _check_type(path: Path, field: Field, kind: pa.DataType) -> None:
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    place = f"{path}: column {field.label} ({field.role}) has type {plain}"
    if field.kind == "string":
        if not _is_text(plain):
            raise BadInput(
                f"{place}, but node type {field.node_type.name!r} has string ids; "  # type: ignore[union-attr]
                f"{'declare integer ids' if pa.types.is_integer(plain) else 'write the column as strings'}"
            )
    elif field.kind == "weight":
        if not (pa.types.is_floating(plain) or pa.types.is_integer(plain)):
            raise BadInput(f"{place}, expected floats or integers; convert it where the file is written")
    elif field.role == "time":
        if not (pa.types.is_integer(plain) or pa.types.is_timestamp(plain)):
            raise BadInput(f"{place}, expected integers or timestamps; convert it where the file is written")
    elif _is_text(plain):
        raise BadInput(f"{place}, but node type {field.node_type.name!r} has integer ids; declare string ids")  # type: ignore[union-attr]
    elif not pa.types.is_integer(plain):
        remedy = "a float loses ids above 2^53: " if pa.types.is_floating(plain) else ""
        raise BadInput(f"{place}, expected integer ids; {remedy}write the column as int64")


def _is_text(kind: pa.DataType) -> bool:
    names = (
        "is_string",
        "is_large_string",
        "is_string_view",
        "is_binary",
        "is_large_binary",
        "is_binary_view",
    )
    return any(getattr(pa.types, name)(kind) for name in names)


def _batches(path: Path, file: pq.ParquetFile, fields: list[Field], threads: int) -> Iterator[EdgeBatch]:
    size, total = path.stat().st_size, file.metadata.num_rows
    names = [file.schema_arrow.names[field.position] for field in fields]
    first = 0
    for table in _tables(path, file, names, threads):
        columns = {field.role: _column(path, field, table.column(name), first) for field, name in zip(fields, names)}
        first += table.num_rows
        yield EdgeBatch(
            columns["src"],
            columns["dst"],
            columns.get("weight"),
            columns.get("time"),
            table.num_rows,
            size * first // max(total, 1),
        )


def _tables(path: Path, file: pq.ParquetFile, names: list[str], threads: int) -> Iterator[pa.Table]:
    rows = [file.metadata.row_group(group).num_rows for group in range(file.num_row_groups)]
    if max(rows, default=0) > _LARGEST_GROUP:
        stream = file.iter_batches(BATCH_ROWS, columns=names, use_threads=threads > 1)
        for table in in_order(repeat(partial(_next, path, stream)), threads=1):
            if table is None:
                return
            yield table
    else:
        opened = threading.local()  # a ParquetFile is not for several threads at once
        calls = (partial(_read, path, file.metadata, groups, names, opened) for groups in _runs(rows))
        yield from in_order(calls, threads=threads)


def _runs(rows: list[int]) -> Iterator[list[int]]:
    """Join neighbouring small row groups into reads of about a batch."""
    run: list[int] = []
    size = 0
    for group, count in enumerate(rows):
        run.append(group)
        size += count
        if size >= _SMALLEST_READ:
            yield run
            run, size = [], 0
    if size:
        yield run


def _next(path: Path, stream: Iterator[pa.RecordBatch]) -> pa.Table | None:
    try:
        batch = next(stream, None)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: damaged ({_one_line(error)}); write it again") from None
    return None if batch is None else pa.Table.from_batches([batch])


def _read(
    path: Path, metadata: pq.FileMetaData, groups: list[int], names: list[str], opened: threading.local
) -> pa.Table:
    try:
        if not hasattr(opened, "file"):
            opened.file = pq.ParquetFile(path, metadata=metadata, memory_map=True)
        return opened.file.read_row_groups(groups, columns=names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        place = f"row group {groups[0]}" if len(groups) == 1 else f"row groups {groups[0]} to {groups[-1]}"
        raise BadInput(f"{path}: damaged in {place} ({_one_line(error)}); write it again") from None


def _column(path: Path, field: Field, column: pa.ChunkedArray, first: int) -> Any:
    """Return the values of a column whose first row is row `first` (from 0) of the file."""
    if column.null_count:
        row = first + 1 + int(pc.index(pc.is_null(column), pa.scalar(True)).as_py())
        raise fault(path, f"row {row}", field, "null", "fill it in or remove the row")
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if field.kind == "string":
        return _strings(path, field, column, first)
    return (_integers if field.kind == "integer" else _weights)(path, field, column, first)


def _strings(path: Path, field: Field, column: pa.ChunkedArray, first: int) -> pa.LargeStringArray:
    try:
        texts = _joined(column.cast(pa.large_string()))
    except pa.ArrowInvalid as error:
        rows = f"rows {first + 1} to {first + len(column)}"
        raise fault(path, rows, field, _one_line(error), "write the column as UTF-8 strings") from None
    row = pc.index(pc.binary_length(texts), pa.scalar(0, pa.int64())).as_py()
    if row >= 0:
        raise fault(path, f"row {first + 1 + row}", field, "empty id", "fill it in or remove the row")
    row = pc.index(pc.match_substring(texts, "\0"), pa.scalar(True)).as_py()
    if row >= 0:
        raise fault(path, f"row {first + 1 + row}", field, "a zero byte", "repair the id")
    return texts


def _integers(path: Path, field: Field, column: pa.ChunkedArray, first: int) -> NDArray[np.int64]:
    values = _joined(column)
    if pa.types.is_timestamp(values.type):
        values = values.view(pa.int64())
    numbers = values.to_numpy(zero_copy_only=True)
    if numbers.dtype == np.uint64 and len(numbers) and numbers.max() > INT64_MAX:
        row = int(np.argmax(numbers > INT64_MAX))
        found = f"{numbers[row]} is above {INT64_MAX}, the largest int64"
        remedy = "declare string ids and write them as strings" if field.node_type else "use a coarser unit"
        raise fault(path, f"row {first + 1 + row}", field, found, remedy)
    return numbers.astype(np.int64, copy=False)


def _weights(path: Path, field: Field, column: pa.ChunkedArray, first: int) -> NDArray[np.float32]:
    numbers = _joined(column).to_numpy(zero_copy_only=True)
    with np.errstate(over="ignore"):
        weights = numbers.astype(np.float32, copy=False)
    finite = np.isfinite(weights)
    if not finite.all():
        row = int(np.argmin(finite))
        raise fault(
            path,
            f"row {first + 1 + row}",
            field,
            f"{numbers[row]}",
            "expected a finite number within float32",
        )
    return weights


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
