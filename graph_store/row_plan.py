"""What is read from a file, whatever its format: the columns asked for, and what becomes of bad rows and weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.row_batch import Column, EdgeBatch, Field, NodeBatch, Rejected, part_name, shown
from graph_store.schema import EdgeSource, EdgeType, NodeSource, NodeType, nearest
from graph_store.words import check_relation


class Wanted(NamedTuple):
    """A column that is asked for by name or position: a `Field` before its place in the file is known."""

    role: str
    column: str | int
    node_type: NodeType | None = None
    feature: FeatureType | None = None

    @property
    def part(self) -> str:
        """The part in a row as messages name it: `"src"`, `"feature 'age'"`."""
        return part_name(self.role, self.feature)

    def find(self, path: Path, names: Sequence[str] | None, num_columns: int) -> Field:
        """Return the column among those of a file; `names` is None when it has no header.

        A name may be asked for with its type (`user_id:token`) or without; a string of digits is a position unless a
        column has that very name.

        Raises
        ------
        BadInput
            No such column, or several.
        """
        if isinstance(self.column, str):
            position = self._named(path, names or ())
            if position is not None:
                return Field(self.role, shown(self.column), position, self.node_type, self.feature)
            if not self.column.isdecimal():
                why = (
                    nearest(self.column, map(_without_type, names))
                    if names
                    else "the file has no header; give positions from 0"
                )
                raise BadInput(f"{path}: no column {self.column!r} for {self.part}; {why}")
        position = int(self.column)
        if position >= num_columns:
            raise BadInput(
                f"{path}: no column {position} for {self.part}: the first row has {num_columns}, counted from 0"
            )
        label = shown(names[position]) if names else str(position)
        return Field(self.role, label, position, self.node_type, self.feature)

    def _named(self, path: Path, names: Sequence[str]) -> int | None:
        for spelled in (list(names), list(map(_without_type, names))):
            if spelled.count(str(self.column)) > 1:
                raise BadInput(
                    f"{path}: {self.part} column {self.column!r}: "
                    f"{spelled.count(str(self.column))} columns have that name"
                )
            if self.column in spelled:
                return spelled.index(str(self.column))
        return None


def _without_type(name: str) -> str:
    return name.partition(":")[0] or name


@dataclass(frozen=True)
class RowPlan:
    """What to read from one file of edges or of nodes.

    Attributes
    ----------
    path : Path
        The file, for messages.
    wanted : tuple of Wanted
        The columns, in the order src, dst, weight, time, relation, features; or id, features.
    aside : bool
        Rows that cannot be taken are set aside; otherwise the first of them is an error.
    limit : int
        Rows that may be set aside: a reader need not look at a batch beyond one more.
    drop_bad_weights, drop_negative_weights, refuse_negative_weights : bool
        What becomes of weights that are not finite (else an error) and below zero (else taken).
    """

    path: Path
    wanted: tuple[Wanted, ...]
    aside: bool = False
    limit: int = 0
    drop_bad_weights: bool = False
    drop_negative_weights: bool = False
    refuse_negative_weights: bool = False

    @classmethod
    def of_edges(
        cls, source: EdgeSource, src_type: NodeType, dst_type: NodeType, edge_type: EdgeType | None = None
    ) -> "RowPlan":
        """Return the plan of a file of edges; `edge_type` adds features and policies."""
        types = {"src": src_type, "dst": dst_type}
        roles = (Wanted(role, column, types.get(role)) for role, column in source.columns().items())
        if edge_type is None:
            return cls(source.path, tuple(roles))
        return cls(
            source.path,
            (*roles, *_features(edge_type.features)),
            aside=edge_type.bad_rows == "aside",
            limit=edge_type.bad_rows_limit,
            drop_bad_weights=edge_type.bad_weights == "drop",
            drop_negative_weights=edge_type.negative_weights == "drop",
            refuse_negative_weights=edge_type.negative_weights == "error",
        )

    @classmethod
    def of_nodes(cls, source: NodeSource, node_type: NodeType, *, features: bool = True) -> "RowPlan":
        """Return the plan of a file of nodes; without `features` of their ids only."""
        ids = (Wanted("id", column, node_type) for column in source.columns().values())
        wanted = (*ids, *(_features(node_type.features) if features else ()))
        return cls(source.path, wanted, aside=node_type.bad_rows == "aside", limit=node_type.bad_rows_limit)

    @property
    def is_nodes(self) -> bool:
        """True for a file of nodes."""
        return self.wanted[0].role == "id"

    def find(self, names: Sequence[str] | None, num_columns: int) -> tuple[Field, ...]:
        """Return the wanted columns among those of a file, as `Wanted.find` does for each.

        Raises
        ------
        BadInput
            A column that is absent, or one that has two roles; features may share a column with others.
        """
        fields = tuple(wanted.find(self.path, names, num_columns) for wanted in self.wanted)
        roles = {field.role: field.position for field in fields if field.feature is None}
        if len(set(roles.values())) < len(roles):
            raise BadInput(f"{self.path}: two of {', '.join(roles)} are one column; name different ones")
        return fields

    def weigh(self, weights: NDArray[np.floating]) -> tuple[dict[str, NDArray[np.bool_]], NDArray[np.bool_]]:
        """Return the rows to leave out, bool[n] by the keys of `EdgeBatch.dropped`, and those at fault, bool[n]."""
        bad = ~np.isfinite(weights)
        negative = (weights < 0) & ~bad
        dropped = {}
        if self.drop_bad_weights:
            dropped["bad_weights"] = bad
        if self.drop_negative_weights:
            dropped["negative_weights"] = negative
        faults = np.zeros_like(bad) if self.drop_bad_weights else bad
        return dropped, faults | negative if self.refuse_negative_weights else faults

    def batch(
        self,
        columns: Mapping[str, Any],
        features: Mapping[str, Column],
        num_rows: int,
        *,
        bytes_done: int,
        rejected: Sequence[Rejected] = (),
    ) -> EdgeBatch | NodeBatch:
        """Return the batch of these columns by role and features by name, without the rows that are to be left out.

        Weights that are faults must not be among them.
        """
        if self.is_nodes:
            return NodeBatch(columns["id"], num_rows, bytes_done, dict(features), tuple(rejected))
        batch = EdgeBatch(
            columns["src"],
            columns["dst"],
            columns.get("weight"),
            columns.get("time"),
            num_rows,
            bytes_done,
            features=dict(features),
            relation=columns.get("relation"),
            rejected=tuple(rejected),
        )
        return self._without_dropped(batch)

    def _without_dropped(self, batch: EdgeBatch) -> EdgeBatch:
        if batch.weight is None or not (self.drop_bad_weights or self.drop_negative_weights):
            return batch
        dropped = {key: rows for key, rows in self.weigh(batch.weight)[0].items() if rows.any()}
        if not dropped:
            return batch
        counts = {key: int(np.count_nonzero(rows)) for key, rows in dropped.items()}
        return replace(batch.filter(~np.logical_or.reduce(list(dropped.values()))), dropped=counts)


def _features(features: Sequence[FeatureType]) -> Iterator[Wanted]:
    for feature in features:
        for column in feature.source_columns:
            yield Wanted("feature", column, feature=feature)


def relation_fault(word: str) -> str | None:
    """Say what is wrong with the relation that an edge names, and what to do; None when it can be one."""
    try:
        check_relation(word)
    except BadInput as error:
        return f"{error}; rename it"
    return f"relation {word!r} stands for all relations and can be none of them; rename it" if word == "*" else None
