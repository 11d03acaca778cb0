"""Rows from Parquet files: the columns asked for only, row groups decoded ahead of their consumer."""

import mmap
import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from graph_store.arrow_rows import ArrowRows
from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.row_plan import RowPlan

# A row group of more than this many batches is decoded in slices by one thread instead of whole by one of several.
_LARGEST_GROUP = 4


def read_parquet(
    plan: RowPlan,
    *,
    time_unit: str | None = None,
    threads: int,
    batch_rows: int | None = None,
    part: tuple[int, int] = (0, 1),
) -> Iterator[Any]:
    """Open the file, check its columns, and return its rows in batches, of edges or of nodes as the plan is.

    Of several parts the row groups of one are read.

    Raises
    ------
    BadInput
        No Parquet file, a column that is absent or of a wrong type (at once); a null, a value out of range or
        damage (from the iterator), with its row, counted from 1.
    """
    file = _open(plan.path)
    rows = ArrowRows(plan, file.schema_arrow, time_unit=time_unit)
    at_once = rows.rows_at_once(batch_rows)
    span = _Span.of(file, part)
    if max(span.sizes, default=0) > at_once * (_LARGEST_GROUP if batch_rows is None else 1):
        return _slices(file, rows, span, at_once, threads)
    return _groups(file, rows, span, at_once // 2, threads)


class _Span(NamedTuple):
    """Consecutive row groups of a file.

    groups : range; sizes : rows of each; first : the first row, counted in the file
    """

    groups: range
    sizes: list[int]
    first: int

    @classmethod
    def of(cls, file: pq.ParquetFile, part: tuple[int, int]) -> "_Span":
        number, parts = part
        count = file.num_row_groups
        groups = range(count * number // parts, count * (number + 1) // parts)
        sizes = [file.metadata.row_group(group).num_rows for group in range(groups.stop)]
        return cls(groups, sizes[groups.start :], sum(sizes[: groups.start]))

    def share(self, path: Path, num_groups: int) -> int:
        """Return about how many bytes of the file they are."""
        return path.stat().st_size * len(self.groups) // max(1, num_groups)

    def bytes_at(self, row: int, size: int) -> int:
        """Return how much of `size` bytes is read when `row`, counted in the file, is the next."""
        return size * (row - self.first) // max(1, sum(self.sizes))


def describe_parquet(plan: RowPlan) -> str:
    """Say how `read_parquet` would read the file.

    Raises
    ------
    BadInput
        As of `read_parquet`, at once.
    """
    return f"parquet, {ArrowRows(plan, _open(plan.path).schema_arrow).described()}"


class _Mapped:
    """A mapped file; what was read of it is let go, so that its pages do not count as this process's memory."""

    def __init__(self, path: Path) -> None:
        with open(path, "rb") as file:
            self._pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self._bytes = pa.py_buffer(self._pages)

    def reader(self) -> pa.BufferReader:
        """Return the file from its beginning."""
        return pa.BufferReader(self._bytes)

    def let_go(self, metadata: pq.FileMetaData, groups: list[int]) -> None:
        """Give the pages of row groups back to the system's cache."""
        for group in groups:
            columns = [metadata.row_group(group).column(place) for place in range(metadata.num_columns)]
            starts = [min(filter(None, (c.dictionary_page_offset, c.data_page_offset))) for c in columns]
            stops = [start + column.total_compressed_size for start, column in zip(starts, columns)]
            first = min(starts) // mmap.PAGESIZE * mmap.PAGESIZE
            if 0 <= first < max(stops) <= len(self._pages):
                self._pages.madvise(mmap.MADV_DONTNEED, first, max(stops) - first)


def _open(path: Path) -> pq.ParquetFile:
    try:
        file = pq.ParquetFile(path, memory_map=True)
        _ = file.schema_arrow.names  # names that are no UTF-8 are found here
        return file
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not a readable Parquet file ({_one_line(error)}); write it again") from None


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()).rstrip(".")


def _slices(file: pq.ParquetFile, rows: ArrowRows, span: _Span, at_once: int, threads: int) -> Iterator[Any]:
    """Read large row groups piece by piece."""
    path = rows.plan.path
    size = span.share(path, file.num_row_groups)
    mapped = _Mapped(path)
    stream = pq.ParquetFile(mapped.reader(), metadata=file.metadata).iter_batches(
        at_once, row_groups=list(span.groups), columns=rows.names, use_threads=threads > 1
    )
    ends = span.first + np.cumsum(span.sizes)
    first = span.first
    for table in in_order(repeat(partial(_next, path, stream)), threads=1):
        if table is None:
            return
        done = first + table.num_rows
        mapped.let_go(file.metadata, (span.groups.start + np.flatnonzero((ends > first) & (ends <= done))).tolist())
        yield rows.batch(table, first=first, bytes_done=span.bytes_at(done, size))
        first = done


def _groups(file: pq.ParquetFile, rows: ArrowRows, span: _Span, enough: int, threads: int) -> Iterator[Any]:
    """Read whole row groups, joined up to `enough` rows or more, several at once."""
    metadata = file.metadata
    size = span.share(rows.plan.path, file.num_row_groups)
    opened, mapped = threading.local(), _Mapped(rows.plan.path)  # a ParquetFile is not for several threads at once

    def read(run: list[int], first: int) -> Any:
        table = _read(rows.plan.path, metadata, run, rows.names, opened, mapped)
        mapped.let_go(metadata, run)
        return rows.batch(table, first=first, bytes_done=span.bytes_at(first + table.num_rows, size))

    def calls() -> Iterator[Callable[[], Any]]:
        first = span.first
        for run in _runs(span.sizes, enough):
            yield partial(read, [span.groups.start + place for place in run], first)
            first += sum(span.sizes[place] for place in run)

    return in_order(calls(), threads=threads)


def _runs(sizes: list[int], enough: int) -> Iterator[list[int]]:
    """Join neighbouring small row groups into reads of `enough` rows or more."""
    run: list[int] = []
    size = 0
    for group, count in enumerate(sizes):
        run.append(group)
        size += count
        if size >= enough:
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
    path: Path,
    metadata: pq.FileMetaData,
    groups: list[int],
    names: list[str],
    opened: threading.local,
    mapped: _Mapped,
) -> pa.Table:
    try:
        if not hasattr(opened, "file"):
            opened.file = pq.ParquetFile(mapped.reader(), metadata=metadata)
        return opened.file.read_row_groups(groups, columns=names, use_threads=False)
    except (pa.ArrowException, OSError) as error:
        place = f"row group {groups[0]}" if len(groups) == 1 else f"row groups {groups[0]} to {groups[-1]}"
        raise BadInput(f"{path}: damaged in {place} ({_one_line(error)}); write it again") from None
