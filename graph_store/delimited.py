"""Rows from CSV, TSV and other text with columns: strictly converted, a fault named by its line or set aside."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.csv as pacsv

from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.row_batch import EdgeBatch, NodeBatch, Rejected, cell_reason, shown
from graph_store.row_plan import RowPlan
from graph_store.text_blocks import QuotedRows, Row, TextBlock, last_line_end, row_blocks, shown_row, spaced_rows
from graph_store.text_columns import Taken, either, field_type, take_field
from graph_store.text_features import feature_type, take_features
from graph_store.text_layout import TextLayout

_BLANKS = re.compile(rb"[ \t]+")
_EDGES = re.compile(rb"(?m)^ | (?=\r?$)")
# Where a block cannot be read at once, it is cut into pieces down to this size, and one that holds a fault gone
# through row by row.
_PIECE_BYTES = 1 << 16
Batch = EdgeBatch | NodeBatch


def read_delimited(
    plan: RowPlan, layout: TextLayout, *, threads: int, batch_rows: int | None = None
) -> Iterator[EdgeBatch | NodeBatch]:
    """Return the rows of a text file with columns in batches.

    Parameters
    ----------
    plan : RowPlan
        What to read.
    layout : TextLayout
        As `tell_layout` says of the file and this plan.
    threads : int
        Blocks that are converted at once; as many and one more wait in memory.
    batch_rows : int or None
        Rows that a batch aims at; None for as many as stand in 16 MiB.

    Raises
    ------
    BadInput
        From the iterator: a row with another number of cells, or a value that cannot be taken, with its line; not
        where such rows are set aside.
    """
    parser = _Parser(plan, layout)
    blocks = row_blocks(
        plan.path,
        layout.member,
        skip=layout.skip,
        first_line=layout.first_line,
        cut=parser.cut,
        block_bytes=layout.block_bytes(batch_rows),
        aside=plan.aside,
    )
    with closing(in_order((partial(parser.parse, block) for block in blocks), threads=threads)) as parsed:
        for batches in parsed:
            yield from batches


class _Fault(NamedTuple):
    """What is wrong with a row: in a cell, or with the row itself."""

    line: int
    reason: str
    in_cell: bool
    text: bytes


class _Parser:
    """Turns blocks of rows into batches; what it remembers between blocks only saves time."""

    def __init__(self, plan: RowPlan, layout: TextLayout) -> None:
        self.plan = plan
        self.layout = layout
        self.spaced = layout.delimiter == " "
        self.quoted = QuotedRows(layout.delimiter)
        self.cut = last_line_end if self.spaced else self.quoted.last_row_end
        self.typed: dict[int, pa.DataType] = {}
        for field in layout.fields:
            kind = field_type(field) if field.feature is None else feature_type(field.feature)
            agreed = self.typed.setdefault(field.position, kind) == kind
            self.typed[field.position] = kind if agreed else pa.large_string()
        self.texts = dict.fromkeys(self.typed, pa.large_string())
        self.plain = self.typed != self.texts

    def parse(self, block: TextBlock) -> list[Batch]:
        data = _single_spaced(block.data) if self.spaced else block.data
        if not data or (data.isspace() and not data.strip(b"\r\n")):
            return [self._batch_of_rows([], block)]
        batch = self._at_once(data, block.bytes_done)
        return [batch] if batch is not None else self._in_pieces(TextBlock(data, block.first_line, block.bytes_done))

    def _at_once(self, data: bytes, bytes_done: int) -> Batch | None:
        """Return the batch of all rows, None when one of them may be at fault."""
        quotes = not self.spaced and b'"' in data
        # Arrow ends a row at a lone carriage return; here it is a character like others.
        if (quotes and self.quoted.open_quote(data) >= 0) or (b"\r" in data and _has_lone_return(data)):
            return None
        # Arrow reads 0x10 as an integer.
        plain = self.plain and not (b"x" in data or b"X" in data)
        for types in (self.typed, self.texts) if plain else (self.texts,):
            try:
                table = self._read(data, types, quotes)
            except pa.ArrowInvalid:
                continue
            batch = self._batch({at: _joined(table.column(str(at))) for at in types}, table.num_rows, bytes_done)
            if batch is not None:
                self.plain = self.plain and (types is self.typed or not plain)
                return batch
        return None

    def _read(self, data: bytes, types: Mapping[int, pa.DataType], quotes: bool) -> pa.Table:
        names = [str(position) for position in range(self.layout.num_columns)]
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            parse_options=pacsv.ParseOptions(
                delimiter=self.layout.delimiter,
                quote_char='"' if quotes else False,
                newlines_in_values=quotes,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types={str(position): kind for position, kind in types.items()},
                include_columns=[str(position) for position in types],
                null_values=[""],
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )

    def _take(self, columns: Mapping[int, pa.Array]) -> tuple[dict[str, Taken], dict[str, Taken]]:
        """Return the values of columns by position: by role, and of features by name."""
        roles = {
            field.role: take_field(self.plan, field, columns[field.position])
            for field in self.layout.fields
            if field.feature is None
        }
        return roles, take_features(self.layout.fields, columns)

    def _batch(
        self, columns: Mapping[int, pa.Array], num_rows: int, bytes_done: int, rejected: Sequence[Rejected] = ()
    ) -> Batch | None:
        """Return the batch of these columns, None when a row of them is at fault."""
        roles, features = self._take(columns)
        if any(taken.wrong is not None for taken in (*roles.values(), *features.values())):
            return None
        return self.plan.batch(
            {role: taken.values for role, taken in roles.items()},
            {name: taken.values for name, taken in features.items()},
            num_rows,
            bytes_done=bytes_done,
            rejected=rejected,
        )

    def _in_pieces(self, block: TextBlock) -> list[Batch]:
        """Return the batches of a block of which a row may be at fault."""
        data, start, line = block.data, 0, block.first_line
        batches: list[Batch] = []
        rejected = 0
        while start < len(data) and rejected <= self.plan.limit:
            stop = self._piece_end(data, start)
            piece = TextBlock(data[start:stop], line, block.bytes_done)
            batch = self._at_once(piece.data, block.bytes_done) if len(piece.data) < len(data) else None
            if batch is not None:
                batches.append(batch)
            elif len(piece.data) <= _PIECE_BYTES or len(piece.data) == len(data):
                batches.append(self._row_by_row(piece))
            else:
                batches += self._in_pieces(piece)
            rejected = sum(len(batch.rejected) for batch in batches)
            start, line = stop, line + piece.data.count(b"\n")
        return batches

    def _piece_end(self, data: bytes, start: int) -> int:
        size = max(_PIECE_BYTES, len(data) // 16)
        while start + size < len(data):
            end = self.cut(data[start : start + size])
            if end:
                return start + end
            size *= 2
        return len(data)

    def _row_by_row(self, block: TextBlock) -> Batch:
        rows: list[Row] = []
        faults: list[_Fault] = []
        for row in spaced_rows(block.data) if self.spaced else self.quoted.rows(block.data):
            fault = self._row_fault(row, block)
            if fault is None:
                rows.append(row)
                continue
            faults.append(fault)
            if not self.plan.aside or len(faults) > self.plan.limit:
                break
        return self._batch_of_rows(rows, block, faults)

    def _batch_of_rows(self, rows: list[Row], block: TextBlock, faults: Sequence[_Fault] = ()) -> Batch:
        """Return the batch of those rows that can be taken; `faults` are those of other rows."""
        columns = {at: _strings([row.cells[at] for row in rows]) for at in self.typed}
        parts = [taken for some in self._take(columns) for taken in some.values()]
        wrong = None
        for part in parts:
            wrong = either(wrong, part.wrong)
        found = list(faults)
        for at in [] if wrong is None else np.flatnonzero(wrong).tolist():
            reason = next(part.reason(at) for part in parts if part.wrong is not None and part.wrong[at])
            found.append(_Fault(block.first_line + rows[at].line, reason, True, rows[at].text))
        found.sort(key=lambda fault: fault.line)
        if found and not self.plan.aside:
            raise self._error(found[0])
        rejected = [self._rejected(fault) for fault in found[: self.plan.limit + 1]]
        if wrong is not None:
            keep = pa.array(~wrong)
            columns = {at: column.filter(keep) for at, column in columns.items()}
        num_rows = len(rows) if wrong is None else int(np.count_nonzero(~wrong))
        batch = self._batch(columns, num_rows, block.bytes_done, rejected)
        assert batch is not None
        return batch

    def _error(self, fault: _Fault) -> BadInput:
        return BadInput(
            f"{self.plan.path}: line {fault.line}{', ' if fault.in_cell else ': '}{fault.reason}",
        )

    def _rejected(self, fault: _Fault) -> Rejected:
        return Rejected(self.plan.path, f"line {fault.line}", fault.reason, shown_row(fault.text))

    def _row_fault(self, row: Row, block: TextBlock) -> _Fault | None:
        """Return what is wrong with a row, whatever its cells hold; None when its cells can be looked at."""
        line = block.first_line + row.line
        opened = -1 if self.spaced or b'"' not in row.text else self.quoted.open_quote(row.text)
        if opened >= 0:
            line += row.text.count(b"\n", 0, opened)
            return _Fault(line, "a double quote is opened and never closed; close or double it", False, row.text)
        if len(row.cells) != self.layout.num_columns:
            return _Fault(line, self._miscounted(row, line), False, row.text)
        for field in self.layout.fields if not row.text.isascii() else ():
            try:
                row.cells[field.position].decode("utf-8")
            except UnicodeDecodeError:
                found = f"{shown(row.cells[field.position].decode('utf-8', 'replace'))} is not UTF-8"
                return _Fault(line, cell_reason(field, found, "write the file as UTF-8"), True, row.text)
        return None

    def _miscounted(self, row: Row, line: int) -> str:
        found, expected = len(row.cells), self.layout.num_columns
        text = shown(self.layout.delimiter.join(cell.decode("utf-8", "replace") for cell in row.cells))
        advice = "repair the row" if found < expected else "quote cells that hold the delimiter"
        if self.spaced and not self.plan.is_nodes:
            advice = "repair the row, or say --format adjacency if lines are 'user item item …'"
        lines = row.text.count(b"\n")
        if lines:
            advice = f"in quotes it goes on to line {line + lines}; is one too many or missing?"
        return f"expected {expected} columns, found {found}: {text}; {advice}"


def _single_spaced(data: bytes) -> bytes:
    """Return `data` with single spaces between words and none at the ends of lines."""
    odd = (b"\t", b"  ", b" \n", b" \r", b"\n ")
    if any(mark in data for mark in odd) or data[:1] == b" " or data[-1:] == b" ":
        return _EDGES.sub(b"", _BLANKS.sub(b" ", data))
    return data


def _has_lone_return(data: bytes) -> bool:
    raw = np.frombuffer(data, np.uint8)
    return bool(raw[-1] == 13 or ((raw[:-1] == 13) & (raw[1:] != 10)).any())


def _strings(cells: list[bytes]) -> Any:
    return pa.array(cells, pa.large_binary()).view(pa.large_string())


def _joined(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
