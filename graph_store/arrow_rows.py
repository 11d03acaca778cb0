"""Arrow tables → batches of edges or nodes, by a plan: what every source with Arrow columns has in common."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graph_store.arrow_features import is_text, take_feature, take_texts
from graph_store.arrow_numbers import either
from graph_store.arrow_roles import Taken, found_text, take_role
from graph_store.arrow_types import check_type, plain
from graph_store.errors import BadInput
from graph_store.row_batch import (
    BATCH_ROWS,
    EdgeBatch,
    Field,
    NodeBatch,
    Rejected,
    cell_reason,
)
from graph_store.row_plan import RowPlan
from graph_store.sources import EdgeSource, NodeSource

# What a batch of wide rows may take: fewer of them are read at once.
_BATCH_BYTES = 128 << 20
_LONGEST_ROW_SHOWN = 200


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
            check_type(plan, field, schema.types[field.position], time_unit)

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
        columns = {position: plain(table.column(name)) for position, name in self._name_of.items()}
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
            assert all(part.wrong is None for part in taken)
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

    def _take(self, columns: Mapping[int, pa.Array]) -> Iterator[Taken]:
        for field in self.fields:
            if field.feature is None:
                yield take_role(self.plan, field, columns[field.position])
        for fields in self._features().values():
            yield _take_feature(fields, [columns[field.position] for field in fields])

    def _row_text(self, columns: Mapping[int, pa.Array], row: int) -> str:
        cells = (f"{self._name_of[position]}={found_text(column, row)}" for position, column in columns.items())
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


def _reason(taken: Sequence[Taken], row: int) -> str:
    return next(part.reason(row) for part in taken if part.wrong is not None and part.wrong[row])


def _take_feature(fields: Sequence[Field], columns: Sequence[pa.Array]) -> Taken:
    feature = fields[0].feature
    assert feature is not None
    if feature.is_list and is_text(columns[0].type):
        return _take_text_lists(fields[0], columns[0])
    taken = take_feature(feature, columns)

    def reason(row: int) -> str:
        place, found, advice = taken.explain(row)
        return cell_reason(fields[place], found, advice)

    return Taken(taken.column, taken.wrong, reason)


def _take_text_lists(field: Field, column: pa.Array) -> Taken:
    """Read lists that are written as text."""
    from graph_store.text_features import take_features

    assert field.feature is not None
    texts, undecoded = take_texts(column)
    texts = texts.fill_null("")
    if undecoded is not None:
        texts = pc.if_else(pa.array(undecoded), pa.scalar("", pa.large_string()), texts)
    taken = take_features([field], {field.position: texts})[field.feature.name]

    def reason(row: int) -> str:
        if undecoded is not None and undecoded[row]:
            return cell_reason(field, "not UTF-8", "write the column as UTF-8 strings")
        return taken.reason(row)

    return Taken(taken.values, either(undecoded, taken.wrong), reason)
