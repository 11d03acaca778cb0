"""Edges from CSV, TSV and other text with columns: strictly converted, a fault named by its line."""

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from graph_store.errors import BadInput
from graph_store.read_ahead import in_order
from graph_store.row_batch import EdgeBatch, Field, fault, shown
from graph_store.text_blocks import QuotedRows, TextBlock, last_line_end, row_blocks
from graph_store.text_cells import check_text
from graph_store.text_layout import TextLayout

_BLANKS = re.compile(rb"[ \t]+")
_EDGES = re.compile(rb"(?m)^ | (?=\r?$)")
_WHOLE = r"^[ \t]*-?[0-9]+[ \t]*$"


def read_delimited(path: Path, layout: TextLayout, *, threads: int) -> Iterator[EdgeBatch]:
    """Return the edges of a text file with columns in batches.

    Raises
    ------
    BadInput
        From the iterator: a row with another number of cells, or a value that cannot be taken, with its line.
    """
    parser = _Parser(path, layout)
    blocks = row_blocks(path, skip=layout.skip, first_line=layout.first_line, cut=parser.cut)
    return in_order((partial(parser.parse, block) for block in blocks), threads=threads)


class _Parser:
    """Turns blocks of rows into batches; holds no state between blocks."""

    def __init__(self, path: Path, layout: TextLayout) -> None:
        self.path = path
        self.layout = layout
        self.spaced = layout.delimiter == " "
        self.quoted = QuotedRows(layout.delimiter)
        self.cut = last_line_end if self.spaced else self.quoted.last_row_end

    def parse(self, block: TextBlock) -> EdgeBatch:
        data = _single_spaced(block.data) if self.spaced else block.data
        if not data or data.isspace():
            return self._batch({field.role: self._empty(field) for field in self.layout.fields}, 0, block)
        # Arrow reads 0x10 as an integer; where there is an x, digits are checked for apart.
        strictly = b"x" in data or b"X" in data
        try:
            table = self._read(data, strictly)
            columns = {field.role: _column(table.column(str(field.position)), field) for field in self.layout.fields}
            if b"\0" in data:
                _refuse_zero_bytes(columns)
        except (pa.ArrowInvalid, _Unfit) as error:
            raise self._find_fault(block, data, error) from None
        return self._batch(columns, table.num_rows, block)

    def _read(self, data: bytes, strictly: bool) -> pa.Table:
        names = [str(position) for position in range(self.layout.num_columns)]
        integer = pa.large_string() if strictly else pa.int64()
        kinds = {"integer": integer, "string": pa.large_string(), "weight": pa.float64()}
        used = [str(field.position) for field in self.layout.fields]
        quotes = not self.spaced and b'"' in data
        if quotes and self.quoted.open_quote(data) >= 0:
            raise _Unfit
        return pacsv.read_csv(
            pa.BufferReader(data),
            read_options=pacsv.ReadOptions(use_threads=False, block_size=len(data) + 1, column_names=names),
            parse_options=pacsv.ParseOptions(
                delimiter=self.layout.delimiter,
                quote_char='"' if quotes else False,
                newlines_in_values=quotes,
            ),
            convert_options=pacsv.ConvertOptions(
                column_types={str(field.position): kinds[field.kind] for field in self.layout.fields},
                include_columns=used,
                null_values=[],
                strings_can_be_null=False,
                quoted_strings_can_be_null=False,
            ),
        )

    def _empty(self, field: Field) -> Any:
        if field.kind == "string":
            return pa.array([], pa.large_string())
        return np.empty(0, np.float32 if field.kind == "weight" else np.int64)

    def _batch(self, columns: dict[str, Any], num_rows: int, block: TextBlock) -> EdgeBatch:
        weight, time = columns.get("weight"), columns.get("time")
        return EdgeBatch(columns["src"], columns["dst"], weight, time, num_rows, block.bytes_done)

    def _find_fault(self, block: TextBlock, data: bytes, error: Exception) -> BadInput:
        """Go through the rows one by one to the first that cannot be taken, and say what is wrong with it."""
        opened = -1 if self.spaced else self.quoted.open_quote(data)
        for line, cells in self.quoted.rows(data):
            wrong = self._check_row(block.first_line + line, cells)
            at_open_quote = opened >= 0 and line >= data.count(b"\n", 0, opened)
            if at_open_quote:
                break
            if wrong is not None:
                return wrong
        if opened >= 0:
            line = block.first_line + data.count(b"\n", 0, opened)
            return BadInput(f"{self.path}: line {line}: a double quote is opened and never closed; close or double it")
        last = block.first_line + data.count(b"\n")
        detail = " ".join(str(error).split())
        return BadInput(f"{self.path}: lines {block.first_line} to {last}: cannot be read: {detail}")

    def _check_row(self, line: int, cells: list[bytes]) -> BadInput | None:
        if len(cells) != self.layout.num_columns:
            text = self.layout.delimiter.join(cell.decode("utf-8", "replace") for cell in cells)
            advice = "repair the row" if len(cells) < self.layout.num_columns else "quote cells that hold the delimiter"
            if self.spaced:
                advice = "repair the row, or say --format adjacency if lines are 'user item item …'"
            return BadInput(
                f"{self.path}: line {line}: expected {self.layout.num_columns} columns, found {len(cells)}: "
                f"{shown(text)}; {advice}"
            )
        for field in self.layout.fields:
            wrong = _check_cell(cells[field.position], field)
            if wrong is not None:
                return fault(self.path, f"line {line}", field, *wrong)
        return None


class _Unfit(Exception):
    """A value that Arrow takes and we do not; the rows are then gone through one by one."""


def _check_cell(cell: bytes, field: Field) -> tuple[str, str] | None:
    try:
        text = cell.decode("utf-8")
    except UnicodeDecodeError:
        return f"{shown(cell.decode('utf-8', 'replace'))} is not UTF-8", "write the file as UTF-8"
    return check_text(text, field)


def _single_spaced(data: bytes) -> bytes:
    """Return `data` with single spaces between words and none at the ends of lines."""
    odd = (b"\t", b"  ", b" \n", b" \r", b"\n ")
    if any(mark in data for mark in odd) or data[:1] == b" " or data[-1:] == b" ":
        return _EDGES.sub(b"", _BLANKS.sub(b" ", data))
    return data


def _column(column: pa.ChunkedArray, field: Field) -> Any:
    values = column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)
    if field.kind == "string":
        if len(values) and pc.min(pc.binary_length(values)).as_py() == 0:
            raise _Unfit
        return values
    if field.kind == "integer":
        return _integers(values).to_numpy(zero_copy_only=True)
    with np.errstate(over="ignore"):
        weights = values.to_numpy(zero_copy_only=True).astype(np.float32)
    if not np.isfinite(weights).all():
        raise _Unfit
    return weights


def _refuse_zero_bytes(columns: dict[str, Any]) -> None:
    for values in columns.values():
        if isinstance(values, pa.Array) and pc.any(pc.match_substring(values, "\0")).as_py():
            raise _Unfit


def _integers(values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type):
        return values
    if not pc.all(pc.match_substring_regex(values, _WHOLE)).as_py():
        raise _Unfit
    return pc.utf8_trim(values, " \t").cast(pa.int64())
