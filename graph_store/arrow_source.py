"""Rows from Arrow tables and streams in memory, and from Arrow IPC files (Feather), in batches."""

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa

from graph_store.arrow_rows import ArrowRows
from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.row_plan import RowPlan
from graph_store.sources import TABLE, EdgeSource, NodeSource
from graph_store.sparse_source import sparse_bytes, sparse_schema, sparse_tables

_MAGIC = b"ARROW1"
_FEATHER_1 = b"FEA1"
Source = TypeVar("Source", EdgeSource, NodeSource)
# A table, and how many bytes of its source are read with it.
_Piece = tuple[pa.Table, int]


def read_table(
    table: Any, plan: RowPlan, *, time_unit: str | None = None, threads: int, batch_rows: int | None = None
) -> Iterator[Any]:
    """Return the rows of a table in memory in batches, of edges or of nodes as the plan is.

    Parameters
    ----------
    table : object
        As `EdgeSource.table`; a stream is read up to its end, and can be read once.

    Raises
    ------
    BadInput
        A column that is absent or of a wrong type (at once), or a row that cannot be taken (from the iterator).
    """
    if hasattr(table, "tocoo"):
        rows = ArrowRows(plan, sparse_schema(table), time_unit=time_unit)
        pieces = _measured(sparse_tables(table, rows.rows_at_once(batch_rows)), table.nnz, sparse_bytes(table))
        return _converted(rows, pieces, threads)
    if isinstance(table, pa.Table):
        rows = ArrowRows(plan, table.schema, time_unit=time_unit)
        tables = _slices(table.select(rows.names), rows.rows_at_once(batch_rows))
        return _converted(rows, _measured(tables, table.num_rows, table.nbytes), threads)
    schema, batches = _stream(table)
    if schema is None:
        return iter(())
    rows = ArrowRows(plan, schema, time_unit=time_unit)
    pieces = _regrouped(((batch, 0) for batch in batches), rows.names, rows.rows_at_once(batch_rows))
    return _converted(rows, pieces, threads)


def describe_table(table: Any, plan: RowPlan) -> str:
    """Say how `read_table` would read the table; of an iterable, which looking would begin, only that it is one.

    Raises
    ------
    BadInput
        A column that is absent or of a wrong type.
    """
    if hasattr(table, "tocoo"):
        return f"a sparse matrix, {ArrowRows(plan, sparse_schema(table)).described()}"
    schema = getattr(table, "schema", None)
    return "Arrow batches" if schema is None else f"an Arrow table, {ArrowRows(plan, schema).described()}"


def describe_arrow_file(plan: RowPlan) -> str:
    """Say how `read_arrow_file` would read the file.

    Raises
    ------
    BadInput
        As of `read_arrow_file`, at once.
    """
    return f"Arrow IPC, {ArrowRows(plan, arrow_file_schema(plan.path)).described()}"


def table_bytes(table: Any) -> int:
    """Return the bytes of a table in memory; 0 for a stream, of which they are not known."""
    if hasattr(table, "tocoo"):
        return sparse_bytes(table)
    return int(table.nbytes) if isinstance(table, pa.Table) else 0


def spooled(source: Source, folder: Path) -> Source:
    """Return a source that can be read as often as needed, with the rows of `source`.

    Parameters
    ----------
    source : EdgeSource or NodeSource
        One whose table is a stream is written to a file in `folder`, and so used up; any other comes back as it is.
    folder : Path
        Must exist. The file may be removed once the source that is returned is no longer used.

    Raises
    ------
    BadInput
        The batches of the stream are no Arrow batches, or not of one schema.
    """
    table = source.table
    if not (hasattr(table, "read_next_batch") or isinstance(table, Iterator)):
        return source
    schema, batches = _stream(table)
    if schema is None:
        return replace(source, table=())
    descriptor, name = tempfile.mkstemp(dir=folder, suffix=".arrows")
    with open(descriptor, "wb") as file, pa.ipc.new_stream(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    with pa.memory_map(name) as mapped:
        return replace(source, table=pa.ipc.open_stream(mapped).read_all())


def read_arrow_file(
    plan: RowPlan, *, time_unit: str | None = None, threads: int, batch_rows: int | None = None
) -> Iterator[Any]:
    """Return the rows of an Arrow IPC file or stream in batches, of edges or of nodes as the plan is.

    Raises
    ------
    BadInput
        No Arrow file, a column that is absent or of a wrong type (at once); a row that cannot be taken, or damage
        (from the iterator).
    """
    rows = ArrowRows(plan, arrow_file_schema(plan.path), time_unit=time_unit)
    pieces = _regrouped(_file_batches(plan.path, rows.names), rows.names, rows.rows_at_once(batch_rows))
    return _converted(rows, pieces, threads, check=partial(_validated, plan.path))


def arrow_file_schema(path: Path) -> pa.Schema:
    """Return the columns of an Arrow IPC file or stream.

    Raises
    ------
    BadInput
        It is neither.
    """
    try:
        with pa.memory_map(str(path)) as mapped:
            head = mapped.read(len(_MAGIC))
            if head[: len(_FEATHER_1)] == _FEATHER_1:
                raise BadInput(f"{path}: is Feather version 1; write it again as version 2")
            mapped.seek(0)
            schema = (pa.ipc.open_file if head == _MAGIC else pa.ipc.open_stream)(mapped).schema
            _ = schema.names  # names that are no UTF-8 are found here
            return schema
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a readable Arrow file ({_one_line(error)}); write it again") from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


@contextmanager
def _damage_told(path: Path) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{path}: damaged ({_one_line(error)}); write it again") from None


def _file_batches(path: Path, names: list[str]) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the batches of a file with the columns `names` only, and how many of its bytes are read with each."""
    with _damage_told(path), pa.memory_map(str(path)) as mapped:
        size = mapped.size()
        is_file = mapped.read(len(_MAGIC)) == _MAGIC
        mapped.seek(0)
        schema = arrow_file_schema(path)
        options = pa.ipc.IpcReadOptions(included_fields=sorted(schema.get_field_index(name) for name in names))
        if is_file:
            reader = pa.ipc.open_file(mapped, options=options)
            for number in range(reader.num_record_batches):
                yield reader.get_batch(number), size * (number + 1) // reader.num_record_batches
        else:
            for batch in pa.ipc.open_stream(mapped, options=options):
                yield batch, mapped.tell()


def _validated(path: Path, table: pa.Table, first: int) -> None:
    """Refuse a table whose offsets or indices point astray, before anything follows them."""
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        rows = f"rows {first + 1} to {first + table.num_rows}"
        raise BadInput(f"{path}: damaged in {rows} ({_one_line(error)}); write it again") from None


def _stream(table: Any) -> tuple[pa.Schema | None, Iterator[pa.RecordBatch]]:
    """Return the schema and the batches of a stream; an iterable without any has no schema."""
    if hasattr(table, "to_batches"):  # a data set
        return table.schema, _checked(table.to_batches(), table.schema)
    if hasattr(table, "read_next_batch"):
        return table.schema, _checked(table, table.schema)
    batches = iter(table)
    first = next(batches, None)
    if first is None:
        return None, iter(())
    _check_batch(1, first, None)
    return first.schema, _checked(chain([first], batches), first.schema)


def _checked(batches: Iterable[Any], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for number, batch in enumerate(batches, 1):
        _check_batch(number, batch, schema)
        yield batch


def _check_batch(number: int, batch: Any, schema: pa.Schema | None) -> None:
    if not isinstance(batch, pa.RecordBatch):
        kind = type(batch)
        raise BadInput(
            f"{TABLE}: batch {number} is a {kind.__module__}.{kind.__qualname__}, expected a pyarrow.RecordBatch"
        )
    if schema is not None and not batch.schema.equals(schema):
        raise BadInput(f"{TABLE}: batch {number} has other columns than the first; give all one schema")


def _slices(table: pa.Table, at_once: int) -> Iterator[pa.Table]:
    return (table.slice(start, at_once) for start in range(0, table.num_rows, at_once))


def _measured(tables: Iterable[pa.Table], num_rows: int, size: int) -> Iterator[_Piece]:
    done = 0
    for table in tables:
        done += table.num_rows
        yield table, size * done // num_rows


def _regrouped(batches: Iterable[tuple[pa.RecordBatch, int]], names: list[str], at_once: int) -> Iterator[_Piece]:
    """Join small batches and cut large ones, so that a table has about `at_once` rows."""
    waiting: list[pa.RecordBatch] = []
    num_rows = done = 0
    for batch, done in batches:
        waiting.append(batch.select(names))
        num_rows += batch.num_rows
        if num_rows > at_once // 2:
            yield from ((table, done) for table in _slices(pa.Table.from_batches(waiting), at_once))
            waiting, num_rows = [], 0
    if num_rows:
        yield pa.Table.from_batches(waiting), done


def _converted(
    rows: ArrowRows, pieces: Iterator[_Piece], threads: int, check: Callable[[pa.Table, int], None] | None = None
) -> Iterator[Any]:
    """Return tables as batches, made ahead by threads; a source that fails does so behind what it gave before."""

    def convert(table: pa.Table, first: int, done: int) -> Any:
        if check is not None:
            check(table, first)
        return rows.batch(table, first=first, bytes_done=done)

    def fail(error: Exception) -> Any:
        raise error

    def calls() -> Iterator[Callable[[], Any]]:
        first = 0
        try:
            for table, done in pieces:
                yield partial(convert, table, first, done)
                first += table.num_rows
        except Exception as error:
            yield partial(fail, error)

    return in_order(calls(), threads=threads)
