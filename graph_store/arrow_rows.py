"""Arrow tables → batches of edges or nodes, by a plan: what every source with Arrow columns has in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graph_store.arrow_features import is_text, take_feature, take_texts, type_fault
from graph_store.arrow_numbers import UINT64_MAX, either, is_number, largest_exact, nulls, to_numpy, whole_numbers
from graph_store.errors import BadInput
from graph_store.row_batch import (
    BATCH_ROWS,
    INT64_MAX,
    INT64_MIN,
    EdgeBatch,
    Field,
    NodeBatch,
    Rejected,
    cell_reason,
    shown,
)
from graph_store.row_plan import RowPlan, relation_fault
from graph_store.sources import EdgeSource, NodeSource

# What a batch of wide rows may take: fewer of them are read at once.
_BATCH_BYTES = 128 << 20
_LONGEST_ROW_SHOWN = 200
_FILL_IN = "fill it in or remove the row"


class _Taken(NamedTuple):
    """The values of a part of the rows, the rows at fault, and what is wrong with one of them."""

    values: Any
    wrong: NDArray[np.bool_] | None
    reason: Callable[[int], str]


class ArrowRows:
    """Turns tables of one schema into batches; holds no state between tables.

    Parameters
    ----------
    plan : RowPlan
    schema : pyarrow.Schema
        Of the whole file: positions count its columns.
    time_unit : str or None
        The unit that times are declared to have; a column of timestamps must agree.

    Attributes
    ----------
    plan, schema
        As given.
    fields : tuple of Field
        The columns that are read, by their part in a row.
    names : list of str
        The names of these columns, each once; tables may have others too.

    Raises
    ------
    BadInput
        A column that is absent, or whose type cannot hold what it should.
    """

    def __init__(self, plan: RowPlan, schema: pa.Schema, *, time_unit: str | None = None) -> None:
        self.plan, self.schema = plan, schema
        self.fields = plan.find(schema.names, len(schema.names))
        self.names = list(dict.fromkeys(schema.names[field.position] for field in self.fields))
        self._name_of = {field.position: schema.names[field.position] for field in self.fields}
        for name in self.names:
            if schema.names.count(name) > 1:
                raise BadInput(f"{plan.path}: {schema.names.count(name)} columns are called {name!r}; rename them")
        for field in self.fields:
            _check_type(plan, field, schema.types[field.position], time_unit)

    def fields_of(self, name: str) -> list[Field]:
        """Return the parts of a row that a column holds."""
        return [field for field in self.fields if self._name_of[field.position] == name]

    def described(self, noun: str = "column") -> str:
        """Return which column each part of a row is read from."""
        labels: dict[str, list[str]] = {}
        for field in self.fields:
            labels.setdefault(field.part, []).append(field.label)
        return ", ".join(
            f"{part} = " + (f"{noun} {found[0]}" if len(found) == 1 else f"{noun}s {found[0]} … {found[-1]}")
            for part, found in labels.items()
        )

    def rows_at_once(self, batch_rows: int | None) -> int:
        """Return how many rows a batch should have: `batch_rows`, or about a million, fewer where they are wide."""
        width = 8 * len(self.fields) + sum(_width(field) for field in self.fields)
        return max(1, min(batch_rows or BATCH_ROWS, BATCH_ROWS, _BATCH_BYTES // width))

    def batch(
        self,
        table: pa.Table,
        *,
        first: int = 0,
        bytes_done: int,
        place: Callable[[int], str] | None = None,
        text: Callable[[int], str] | None = None,
    ) -> EdgeBatch | NodeBatch:
        """Return the rows of a table as a batch.

        Parameters
        ----------
        table : pyarrow.Table
            Holds the columns `names`.
        first : int
            Rows of the file before this table.
        bytes_done : int
            As in `EdgeBatch`.
        place, text : callable, optional
            Given a row of the table, from 0: where it is (`"row 7"` when None) and what stands there.

        Raises
        ------
        BadInput
            A row that cannot be taken, where they are not set aside: the first one.
        """
        columns = {position: _plain(table.column(name)) for position, name in self._name_of.items()}
        taken = list(self._take(columns))
        wrong = None
        for part in taken:
            wrong = either(wrong, part.wrong)
        rejected: list[Rejected] = []
        num_rows = table.num_rows
        if wrong is not None:
            where = place or (lambda row: f"row {first + 1 + row}")
            if not self.plan.aside:
                row = int(np.argmax(wrong))
                raise BadInput(f"{self.plan.path}: {where(row)}, {_reason(taken, row)}")
            show = text or (lambda row: self._row_text(columns, row))
            for row in np.flatnonzero(wrong)[: self.plan.limit + 1].tolist():
                rejected.append(Rejected(self.plan.path, where(row), _reason(taken, row), show(row)))
            keep = pa.array(~wrong)
            taken = list(self._take({position: column.filter(keep) for position, column in columns.items()}))
            num_rows -= int(np.count_nonzero(wrong))
        values = [part.values for part in taken]
        roles = [field.role for field in self.fields if field.feature is None]
        features = dict(zip(self._features(), values[len(roles) :]))
        by_role = dict(zip(roles, values))
        return self.plan.batch(by_role, features, num_rows, bytes_done=bytes_done, rejected=rejected)

    def _features(self) -> dict[str, list[Field]]:
        """Return the fields of each feature, by its name."""
        features: dict[str, list[Field]] = {}
        for field in self.fields:
            if field.feature is not None:
                features.setdefault(field.feature.name, []).append(field)
        return features

    def _take(self, columns: Mapping[int, pa.Array]) -> Iterator[_Taken]:
        for field in self.fields:
            if field.feature is None:
                yield _TAKE[field.kind](self.plan, field, columns[field.position])
        for fields in self._features().values():
            yield _take_feature(fields, [columns[field.position] for field in fields])

    def _row_text(self, columns: Mapping[int, pa.Array], row: int) -> str:
        cells = (f"{self._name_of[position]}={_found(column, row)}" for position, column in columns.items())
        return cut(", ".join(cells))


def with_usual_names(plan: RowPlan, source: EdgeSource | NodeSource, names: Sequence[str]) -> RowPlan:
    """Return the plan with columns called `src` and `dst`, or `id`, as the ends where the source names none.

    For sources whose columns have no order that means anything.
    """
    usual = ("src", "dst") if isinstance(source, EdgeSource) else ("id",)
    if any(getattr(source, role) is not None for role in usual) or not set(usual) <= set(names):
        return plan
    wanted = (each._replace(column=each.role) if each.role in usual else each for each in plan.wanted)
    return replace(plan, wanted=tuple(wanted))


def cut(text: str) -> str:
    """Return the text of a row, cut when it is long."""
    return text if len(text) <= _LONGEST_ROW_SHOWN else text[:_LONGEST_ROW_SHOWN] + "…"


def _width(field: Field) -> int:
    """Return the bytes a row of the column takes, as far as its declaration tells."""
    feature = field.feature
    if feature is None:
        return 32 if field.kind == "string" else 8
    if feature.kind == "vector" and len(feature.source_columns) == 1:
        assert feature.dim is not None
        return feature.dim * 8
    return 64 if feature.kind in ("ids", "string") else 8


def _plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionary, extension and views: the one that `_plain` gives."""
    if isinstance(kind, pa.BaseExtensionType):
        return _plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return _plain_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(kind.value_type)
    return kind


def _plain(column: pa.ChunkedArray) -> pa.Array:
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    while isinstance(joined.type, pa.BaseExtensionType):
        joined = joined.storage
    kind = _plain_type(joined.type)
    return joined if joined.type == kind else joined.cast(kind)


def _check_type(plan: RowPlan, field: Field, given: pa.DataType, time_unit: str | None) -> None:
    kind = _plain_type(given)
    named = given.value_type if pa.types.is_dictionary(given) else given
    place = f"{plan.path}: column {field.label} ({field.part}) has type {named}"
    if field.feature is not None:
        expected = type_fault(field.feature, kind)
        remedy = f"{expected}; convert it where the file is written, or declare another kind" if expected else None
    elif field.node_type is not None:
        remedy = _id_type_fault(field, kind)
    elif field.role == "relation":
        remedy = None if is_text(kind) or pa.types.is_integer(kind) else "expected strings; write the column as strings"
    elif field.role == "time":
        remedy = _time_type_fault(kind, time_unit)
    else:
        remedy = None if is_number(kind) else "expected floats or integers; convert it where the file is written"
    if remedy is not None:
        raise BadInput(f"{place}, {remedy}")


def _id_type_fault(field: Field, kind: pa.DataType) -> str | None:
    assert field.node_type is not None
    name = field.node_type.name
    if field.kind == "string":
        if is_text(kind):
            return None
        advice = "declare integer ids" if pa.types.is_integer(kind) else "write the column as strings"
        return f"but node type {name!r} has string ids; {advice}"
    if is_number(kind):
        return None
    if is_text(kind):
        return f"but node type {name!r} has integer ids; declare string ids"
    return "expected integer ids; write the column as int64"


def _time_type_fault(kind: pa.DataType, time_unit: str | None) -> str | None:
    if pa.types.is_timestamp(kind):
        if time_unit in (None, kind.unit):
            return None
        return f"but time_unit is {time_unit!r}; say time_unit = {kind.unit!r}, or convert it where the file is written"
    return None if is_number(kind) else "expected integers or timestamps; convert it where the file is written"


def _reason(taken: Sequence[_Taken], row: int) -> str:
    return next(part.reason(row) for part in taken if part.wrong is not None and part.wrong[row])


def _found(column: pa.Array, row: int) -> str:
    """Return a value as messages show it."""
    value = column[row]
    if not value.is_valid:
        return "null"
    if pa.types.is_temporal(column.type):
        return str(value.value)
    if pa.types.is_large_binary(column.type):
        return shown(value.as_py().decode("utf-8", "replace"))
    plain = value.as_py()
    return shown(plain) if isinstance(plain, str) else str(plain)


def _take_whole(plan: RowPlan, field: Field, column: pa.Array) -> _Taken:
    unsigned = field.kind == "unsigned"
    missing = nulls(column)
    low, high = (0, UINT64_MAX) if unsigned else (INT64_MIN, INT64_MAX)
    numbers = whole_numbers(column, low=low, high=high)

    def reason(row: int) -> str:
        found = _found(column, row)
        if missing is not None and missing[row]:
            return cell_reason(field, found, _FILL_IN)
        return cell_reason(field, *_whole_fault(field, column, row))

    return _Taken(numbers.values, either(missing, numbers.wrong), reason)


def _whole_fault(field: Field, column: pa.Array, row: int) -> tuple[str, str]:
    found, value = _found(column, row), column[row].as_py()
    if value != value or value in (float("inf"), -float("inf")) or value != int(value):
        what = "ids" if field.node_type else "times"
        return f"{found} is no whole number", f"write {what} as whole numbers, in a column of int64"
    if field.kind == "unsigned" and value < 0:
        return f"{found} is below 0", f"node type {field.node_type.name!r} has unsigned ids; declare integer ids"  # type: ignore[union-attr]
    if pa.types.is_floating(column.type) and abs(value) > largest_exact(column.type):
        power = largest_exact(column.type).bit_length() - 1
        return (
            f"{found} is beyond 2^{power}, from where on a {column.type} does not hold every whole number",
            "write the column as int64 from its source",
        )
    if field.node_type is None:
        return f"{found} is out of the range of int64", "use a coarser unit of time"
    if value > INT64_MAX:
        advice = "declare unsigned ids, or declare string ids and write them as strings"
        return f"{found} is above {INT64_MAX}, the largest int64", advice
    return f"{found} is below {INT64_MIN}, the least int64", "declare string ids and write them as strings"


def _take_strings(plan: RowPlan, field: Field, column: pa.Array) -> _Taken:
    missing = nulls(column)
    texts, undecoded = take_texts(column)
    wrong = either(missing, undecoded)
    faults = ((pc.equal(pc.binary_length(texts), 0)), pc.match_substring(texts, "\0"))
    for mask in faults:
        if pc.any(mask).as_py():
            wrong = either(wrong, mask.fill_null(False).to_numpy(zero_copy_only=False))

    def reason(row: int) -> str:
        if missing is not None and missing[row]:
            return cell_reason(field, "null", _FILL_IN)
        if undecoded is not None and undecoded[row]:
            found = f"{_found(texts.view(pa.large_binary()), row)} is not UTF-8"
            return cell_reason(field, found, "write the column as UTF-8 strings")
        if len(texts[row].as_py()) == 0:
            return cell_reason(field, "empty id", _FILL_IN)
        return cell_reason(field, f"a zero byte in {_found(texts, row)}", "repair the id")

    return _Taken(texts, wrong, reason)


def _take_weights(plan: RowPlan, field: Field, column: pa.Array) -> _Taken:
    missing = nulls(column)
    filled = column.fill_null(pa.scalar(0, pa.int64()).cast(column.type)) if missing is not None else column
    with np.errstate(over="ignore"):
        weights = to_numpy(filled).astype(np.float32, copy=missing is not None)
    if missing is not None:
        weights[missing] = np.nan
    wrong = None
    if plan.refuse_negative_weights or not np.isfinite(weights).all():
        wrong = either(plan.weigh(weights)[1], None)

    def reason(row: int) -> str:
        if missing is not None and missing[row]:
            return cell_reason(field, "null", _FILL_IN)
        if np.isfinite(weights[row]):
            return cell_reason(
                field, f"{_found(column, row)} is below 0", "repair it, or say negative_weights = 'keep'"
            )
        return cell_reason(field, _found(column, row), "expected a finite number within float32")

    return _Taken(weights, wrong, reason)


def _take_relations(plan: RowPlan, field: Field, column: pa.Array) -> _Taken:
    missing = nulls(column)
    texts, undecoded = take_texts(column if is_text(column.type) else column.cast(pa.large_string()))
    wrong = either(missing, undecoded)
    faults: dict[str, str] = {}
    if undecoded is None:
        for word in pc.unique(texts).to_pylist():
            if word is not None and (fault := relation_fault(word)) is not None:
                faults[word] = fault
    if faults:
        bad = pc.is_in(texts, pa.array(list(faults), pa.large_string()))
        wrong = either(wrong, bad.to_numpy(zero_copy_only=False))

    def reason(row: int) -> str:
        if missing is not None and missing[row]:
            return cell_reason(field, "null", _FILL_IN)
        if undecoded is not None and undecoded[row]:
            return cell_reason(field, "not UTF-8", "write the column as UTF-8 strings")
        return f"column {field.label} ({field.part}): {faults[texts[row].as_py()]}"

    return _Taken(texts, wrong, reason)


def _take_feature(fields: Sequence[Field], columns: Sequence[pa.Array]) -> _Taken:
    feature = fields[0].feature
    assert feature is not None
    if feature.is_list and is_text(columns[0].type):
        return _take_text_lists(fields[0], columns[0])
    taken = take_feature(feature, columns)

    def reason(row: int) -> str:
        place, found, advice = taken.explain(row)
        return cell_reason(fields[place], found, advice)

    return _Taken(taken.column, taken.wrong, reason)


def _take_text_lists(field: Field, column: pa.Array) -> _Taken:
    """Read lists that are written as text."""
    from graph_store.text_features import take_features

    assert field.feature is not None
    texts, undecoded = take_texts(column)
    if undecoded is not None:
        return _Taken(None, undecoded, lambda row: cell_reason(field, "not UTF-8", "write the column as UTF-8 strings"))
    taken = take_features([field], {field.position: texts.fill_null("")})[field.feature.name]
    return _Taken(taken.values, taken.wrong, taken.reason)


_TAKE: dict[str, Callable[[RowPlan, Field, pa.Array], _Taken]] = {
    "integer": _take_whole,
    "unsigned": _take_whole,
    "string": _take_strings,
    "weight": _take_weights,
    "relation": _take_relations,
}
