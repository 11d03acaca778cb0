"""Rows from JSON lines: an object a line, columns by key, numbers exact; a fault named by its line."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.json as pj

from graph_store.arrow_rows import ArrowRows, cut, with_usual_names
from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.json_cells import BadCell, BadLine, cell, is_word, read_line
from graph_store.read_ahead import in_order
from graph_store.row_batch import INT64_MAX, INT64_MIN, Rejected, cell_reason
from graph_store.row_plan import RowPlan, Wanted
from graph_store.sources import EdgeSource, NodeSource
from graph_store.text_blocks import BLOCK_BYTES, LONGEST_ROW_BYTES, TextBlock, TextFile, last_line_end, row_blocks
from graph_store.words import nearest

_BOM = b"\xef\xbb\xbf"
_SAMPLE_BYTES = 1 << 20
_SAMPLE_ROWS = 1000
_SMALLEST_BLOCK = 1 << 16
_INT64 = pa.int64()


def read_json_lines(
    source: EdgeSource | NodeSource,
    plan: RowPlan,
    *,
    time_unit: str | None = None,
    threads: int,
    batch_rows: int | None = None,
) -> Iterator[Any]:
    """Return the rows of a file of JSON lines in batches, of edges or of nodes as the plan is.

    Parameters
    ----------
    source : EdgeSource or NodeSource
        Columns are keys. A position counts the keys of the first objects, in their order.

    Raises
    ------
    BadInput
        No objects, or a key that the first of them do not have (at once); a line that cannot be taken (from the
        iterator).
    """
    sample = _Sample(source)
    rows = _rows_of(source, plan, sample, time_unit)
    parser = _Parser(rows)
    block_bytes = None
    if batch_rows is not None:
        block_bytes = min(max(int(batch_rows * sample.row_bytes), _SMALLEST_BLOCK), BLOCK_BYTES)
    blocks = row_blocks(
        plan.path, source.member, skip=sample.skip, first_line=1, cut=last_line_end, block_bytes=block_bytes
    )
    return _all_seen(rows, in_order((partial(parser.parse, block) for block in blocks), threads=threads))


def describe_json_lines(source: EdgeSource | NodeSource, plan: RowPlan) -> str:
    """Say how `read_json_lines` would read the file.

    Raises
    ------
    BadInput
        As of `read_json_lines`, at once.
    """
    return f"JSON lines, {_rows_of(source, plan, _Sample(source), None).described('key')}"


class _Sample:
    """The first objects of a file.

    Attributes
    ----------
    values : dict
        The keys of the objects in the order they come up, each with its first value that is not null.
    skip : int
        Bytes before the first line.
    row_bytes : float
        Bytes of a line on average.

    Raises
    ------
    BadInput
        There is no object.
    """

    def __init__(self, source: EdgeSource | NodeSource) -> None:
        text = self._read(source)
        self.skip = len(_BOM) if text.startswith(_BOM) else 0
        lines = [(place, line) for place, line in enumerate(text[self.skip :].split(b"\n"), 1) if line.strip()]
        self.values: dict[str, Any] = {}
        fault: BadLine | None = None
        for place, line in lines[:_SAMPLE_ROWS]:
            try:
                values = read_line(line)
            except BadLine as error:
                fault = fault or BadLine(f"line {place}: {error}")
                continue
            for key, value in values.items():
                if self.values.get(key) is None:
                    self.values[key] = value
        if not lines:
            raise BadInput(f"{source.path}: the file holds no rows; expected an object ({{…}}) a line")
        if not self.values and fault is not None:
            array = text[self.skip :].lstrip().startswith(b"[")
            raise BadInput(f"{source.path}: {'is a JSON array; write its objects a line each' if array else fault}")
        self.row_bytes = len(text) / len(lines)

    def _read(self, source: EdgeSource | NodeSource) -> bytes:
        """Return the first lines of the file, whole ones."""
        with TextFile(source.path, source.member) as file:
            text = b""
            while len(text) <= LONGEST_ROW_BYTES:
                fresh = file.read(_SAMPLE_BYTES)
                text += fresh
                end = last_line_end(text)
                if len(fresh) < _SAMPLE_BYTES or text[:end].strip():
                    return text if len(fresh) < _SAMPLE_BYTES else text[:end]
        raise BadInput(
            f"{source.path}: line 1: a row of more than {LONGEST_ROW_BYTES >> 20} MiB; write an object a line"
        )


def _rows_of(source: EdgeSource | NodeSource, plan: RowPlan, sample: _Sample, time_unit: str | None) -> ArrowRows:
    """Return the way from tables of the wanted keys to batches."""
    names = list(sample.values)
    plan = with_usual_names(plan, source, names)
    kinds: dict[str, pa.DataType] = {}
    for wanted in plan.wanted:
        name = _key(wanted, names)
        if name is not None and name not in kinds:
            kinds[name] = _column_type(wanted, sample.values.get(name))
    # A feature may be rare; an end that none of the first objects has is a slip.
    rare = [name for name in kinds if name not in sample.values]
    return ArrowRows(
        plan, pa.schema([(name, kinds.get(name, pa.null())) for name in names + rare]), time_unit=time_unit
    )


def _key(wanted: Wanted, names: Sequence[str]) -> str | None:
    """Return the key that holds a column; None where there is none, which is then told where columns are looked up."""
    column = wanted.column
    if column in names or (wanted.feature is not None and isinstance(column, str) and not column.isdecimal()):
        return str(column)
    position = int(column) if str(column).isdecimal() else len(names)
    return names[position] if position < len(names) else None


def _column_type(wanted: Wanted, value: Any) -> pa.DataType:
    """Return the type that a key's values are read as at once; those of another form are read one by one."""
    feature = wanted.feature
    if wanted.node_type is not None:
        return {"integer": pa.int64(), "unsigned": pa.uint64()}.get(wanted.node_type.id_type, pa.large_string())
    if feature is None:
        kinds = {"weight": pa.float64(), "time": pa.int64()}
        return kinds.get(wanted.role) or _word_type(value)
    if feature.kind in ("category", "string"):
        return _word_type(value)
    if feature.kind == "ids":
        return pa.list_(pa.int64())
    number = _number_type(feature, value)
    return pa.list_(number) if feature.kind == "vector" and len(feature.source_columns) == 1 else number


def _word_type(value: Any) -> pa.DataType:
    return pa.bool_() if isinstance(value, bool) else pa.int64() if isinstance(value, int) else pa.large_string()


def _number_type(feature: FeatureType, value: Any) -> pa.DataType:
    if isinstance(value, bool):
        return pa.bool_()
    return pa.float64() if feature.scale is not None or np.dtype(feature.dtype).kind == "f" else pa.int64()


class _BadValue(BadLine):
    """A line of which one value cannot be taken; its text names the key."""


class _Lines:
    """The lines of a block that are not blank, found when one is asked for."""

    def __init__(self, block: TextBlock) -> None:
        self._block = block

    @cached_property
    def all(self) -> list[tuple[str, bytes]]:
        """The place and the text of each."""
        lines = enumerate(self._block.data.split(b"\n"), self._block.first_line)
        return [(f"line {number}", line) for number, line in lines if line.strip()]

    def place(self, row: int) -> str:
        """Return where a row is."""
        return self.all[row][0]

    def text(self, row: int) -> str:
        """Return a row as far as it can be shown."""
        return cut(self.all[row][1].strip().decode("utf-8", "replace"))


class _Parser:
    """Turns blocks of lines into batches; holds no state between blocks."""

    def __init__(self, rows: ArrowRows) -> None:
        self.rows, self.plan = rows, rows.plan
        self.fields = {name: rows.fields_of(name) for name in rows.names}
        self.types = {name: rows.schema.field(name).type for name in rows.names}
        # Where values differ in kind: text holds all that words may be.
        self.exact_types = {
            name: pa.large_string() if is_word(self.fields[name][0]) else kind for name, kind in self.types.items()
        }
        self.required = [
            name
            for name, fields in self.fields.items()
            if any(field.role not in ("weight", "feature") for field in fields)
        ]
        self.keys = [
            (field.feature.name, json.dumps(name, ensure_ascii=False).encode())
            for name, fields in self.fields.items()
            for field in fields
            if field.feature is not None
        ]

    def parse(self, block: TextBlock) -> tuple[Any, set[str]]:
        """Return the batch of a block, and the features whose keys its text holds."""
        table, lines = self._read(block.data), _Lines(block)
        if table is None or any(table.column(name).null_count for name in self.required):
            batch = self._parse_slowly(lines, block.bytes_done)
        else:
            batch = self.rows.batch(table, bytes_done=block.bytes_done, place=lines.place, text=lines.text)
        return batch, {feature for feature, key in self.keys if key in block.data}

    def _read(self, data: bytes) -> pa.Table | None:
        """Return the columns as Arrow reads them; None where it cannot, or not one object from each line."""
        if not data.lstrip().startswith(b"{"):
            return None  # Arrow crashes where a null comes before any object (apache/arrow#47409)
        try:
            table = pj.read_json(
                pa.BufferReader(data),
                read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
                parse_options=pj.ParseOptions(
                    explicit_schema=pa.schema(self.types), unexpected_field_behavior="ignore"
                ),
            )
            table.validate(full=True)
        except pa.ArrowException:
            return None
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        if table.num_rows != lines and table.num_rows != sum(bool(line.strip()) for line in data.split(b"\n")):
            return None
        return table

    def _parse_slowly(self, lines: _Lines, bytes_done: int) -> Any:
        columns: dict[str, list[Any]] = {name: [] for name in self.types}
        keys = [json.dumps(name, ensure_ascii=False).encode() for name in self.types]
        taken, rejected, fault = [], [], None
        for row, (place, line) in enumerate(lines.all):
            try:
                cells = self._cells(read_line(line, keys))
            except BadLine as error:
                if not self.plan.aside:
                    mark = "," if isinstance(error, _BadValue) else ":"
                    fault = BadInput(f"{self.plan.path}: {place}{mark} {error}")
                    break
                rejected.append(Rejected(self.plan.path, place, str(error), lines.text(row)))
                if len(rejected) > self.plan.limit:
                    break
                continue
            taken.append(row)
            for name, value in cells.items():
                columns[name].append(value)
        table = pa.table({name: pa.array(values, self.exact_types[name]) for name, values in columns.items()})
        batch = self.rows.batch(
            table,
            bytes_done=bytes_done,
            place=lambda row: lines.place(taken[row]),
            text=lambda row: lines.text(taken[row]),
        )
        if fault is not None:
            raise fault
        if rejected:
            everything = sorted([*batch.rejected, *rejected], key=lambda each: int(each.place.removeprefix("line ")))
            batch = replace(batch, rejected=tuple(everything))
        return batch

    def _cells(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values of a line by column; _BadValue when one is missing or its column cannot hold it."""
        cells = {}
        for name, kind in self.exact_types.items():
            value = values.get(name)
            if type(value) is int and kind == _INT64 and INT64_MIN <= value <= INT64_MAX:
                cells[name] = value
                continue
            field = self.fields[name][0]
            if value is None and name in self.required:
                found = "null" if name in values else "no such key"
                raise _BadValue(cell_reason(field, found, "fill it in or remove the line"))
            try:
                cells[name] = cell(kind, value, field)
            except BadCell as error:
                raise _BadValue(cell_reason(field, error.found, error.advice)) from None
        return cells


def _all_seen(rows: ArrowRows, parsed: Iterator[tuple[Any, set[str]]]) -> Iterator[Any]:
    """Pass batches on; at the end refuse a file in which a feature has no value and its key does not come up."""
    unseen, num_rows = dict.fromkeys(field.feature.name for field in rows.fields if field.feature is not None), 0
    for batch, seen in parsed:
        num_rows += batch.num_rows
        for name in [*unseen]:
            present = batch.features[name].present
            if name in seen or (batch.num_rows and (present is None or present.any())):
                del unseen[name]
        yield batch
    if unseen and num_rows:
        name = next(iter(unseen))
        field = next(field for field in rows.fields if field.feature is not None and field.feature.name == name)
        known = [key for key in rows.schema.names if key not in rows.names]
        near = nearest(rows.schema.names[field.position], known)
        raise BadInput(f"{rows.plan.path}: no line has key {field.label} for {field.part}; {near}")
