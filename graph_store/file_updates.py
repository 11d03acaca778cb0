"""Files of edges and nodes → updates: read in any format, committed some rows at a time, resumed behind what is in."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graph_store.batch import Batch, UpdateReport
from graph_store.edge_type import EdgeType, EdgeTypeName
from graph_store.errors import BadInput, GraphStoreError, UnknownEdgeType
from graph_store.feature_type import FeatureType
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.progress import Progress
from graph_store.readers import column_names, describe, describe_nodes, read_edges, read_nodes
from graph_store.row_batch import EdgeBatch, NodeBatch
from graph_store.schema import NodeType
from graph_store.sources import EdgeSource, NodeSource

if TYPE_CHECKING:
    from graph_store.writer import GraphWriter


@dataclass(frozen=True)
class EdgeFile:
    """A file of edges for an edge type of a store.

    Attributes
    ----------
    source : EdgeSource
    edge_type : EdgeType
        Its features are those of the store's type that the file has a column for.
    src_type, dst_type : NodeType
    """

    source: EdgeSource
    edge_type: EdgeType
    src_type: NodeType
    dst_type: NodeType

    @classmethod
    def of_store(
        cls,
        writer: "GraphWriter",
        name: str,
        source: EdgeSource,
        *,
        separator: str | None = None,
        ends_only: bool = False,
    ) -> "EdgeFile":
        """Return the file of edges to add to a store's edge type, or with `ends_only` to delete from it.

        Parameters
        ----------
        name : str
            `src:relation:dst`, of a reverse type too; `src:*:dst` where the source has a column of relations.
        separator : str, optional
            Between the numbers of one cell of text, as of `FeatureType`.

        Raises
        ------
        BadInput
            The file cannot be read, or lacks a column.
        UnknownEdgeType
            The store has no such type.
        """
        words = EdgeTypeName.parse(name)
        entries = stored_types(writer, words, source)
        entry = entries[0]
        src_type, dst_type = (_plain_type(writer.node_type(end)[1]) for end in (words.src, words.dst))
        rules = _weight_rules(entries) if source.weight is not None else {}
        unit = entry.time_unit if source.time is not None else None
        edge_type = EdgeType(words, (source,), time_unit=unit, **rules)
        if ends_only or not entry.features:
            return cls(source, edge_type, src_type, dst_type)
        features = _present(entry.feature_types, column_names(source, src_type, dst_type), separator)
        return cls(source, replace(edge_type, features=features), src_type, dst_type)

    def __str__(self) -> str:
        said = describe(self.source, src_type=self.src_type, dst_type=self.dst_type, edge_type=self.edge_type)
        return f"{self.source.path}: read as {said}"

    def batches(self, batch_rows: int) -> Iterator[EdgeBatch]:
        """Read the file."""
        return read_edges(
            self.source,
            src_type=self.src_type,
            dst_type=self.dst_type,
            edge_type=self.edge_type,
            batch_rows=batch_rows,
        )

    def add(self, update: Batch, rows: EdgeBatch) -> None:
        """Add rows to a batch of updates."""
        for name, each in self._by_type(rows):
            src, dst = _ids(each.src, self.src_type), _ids(each.dst, self.dst_type)
            update.add_edges(name, src, dst, weight=each.weight, time=each.time, features=each.features or None)
        if rows.src_only is not None and len(rows.src_only):
            update.add_nodes(self.src_type.name, _ids(rows.src_only, self.src_type))

    def delete(self, update: Batch, rows: EdgeBatch) -> None:
        """Delete the edges that rows name."""
        for name, each in self._by_type(rows):
            update.delete_edges(name, _ids(each.src, self.src_type), _ids(each.dst, self.dst_type), time=each.time)

    def _by_type(self, rows: EdgeBatch) -> Iterator[tuple[str, EdgeBatch]]:
        """Yield (edge type, rows) for each relation among the rows."""
        name = self.edge_type.name
        if rows.relation is None:
            yield str(name), rows
            return
        coded = rows.relation.dictionary_encode()
        codes = coded.indices.to_numpy(zero_copy_only=False)
        for code, relation in enumerate(coded.dictionary.to_pylist()):
            yield str(name.with_relation(relation)), rows.filter(codes == code)


@dataclass(frozen=True)
class NodeFile:
    """A file of nodes for a node type of a store.

    Attributes
    ----------
    source : NodeSource
    node_type : NodeType
        Its features are those of the store's type that the file has a column for.
    """

    source: NodeSource
    node_type: NodeType

    @classmethod
    def of_store(
        cls,
        writer: "GraphWriter",
        name: str,
        source: NodeSource,
        *,
        separator: str | None = None,
        ids_only: bool = False,
    ) -> "NodeFile":
        """Return the file of nodes to add to a store's node type, or with `ids_only` to delete; see `EdgeFile`."""
        entry = writer.node_type(name)[1]
        node_type = _plain_type(entry)
        if ids_only or not entry.features:
            return cls(source, node_type)
        features = _present(entry.feature_types, column_names(source, node_type), separator)
        return cls(source, replace(node_type, features=features))

    def __str__(self) -> str:
        return f"{self.source.path}: read as {describe_nodes(self.source, node_type=self.node_type)}"

    def batches(self, batch_rows: int) -> Iterator[NodeBatch]:
        """Read the file."""
        return read_nodes(self.source, node_type=self.node_type, batch_rows=batch_rows)

    def add(self, update: Batch, rows: NodeBatch) -> None:
        """Add rows to a batch of updates."""
        update.add_nodes(self.node_type.name, _ids(rows.ids, self.node_type), rows.features or None)

    def delete(self, update: Batch, rows: NodeBatch) -> None:
        """Delete the nodes that rows name."""
        update.delete_nodes(self.node_type.name, _ids(rows.ids, self.node_type))


class FileUpdates:
    """Commits the rows of files, one after another, some rows at a time.

    Parameters
    ----------
    writer : GraphWriter
    batch_rows : int
        About how many rows a commit has.
    skip_rows : int
        Rows, from the first of the first file on, that are left out since they are in already.
    progress : Progress

    Attributes
    ----------
    report : UpdateReport
        The sum of all commits.
    num_batches : int
    rows_in : int
        Rows of the files that are committed or were skipped; those that a rule for weights left out do not count.
    """

    def __init__(self, writer: "GraphWriter", *, batch_rows: int, skip_rows: int, progress: Progress) -> None:
        self.writer, self.batch_rows, self.progress = writer, batch_rows, progress
        self.report, self.num_batches, self.rows_in = UpdateReport(writer.version), 0, 0
        self._skip = skip_rows
        self._before: dict[str, int] | None = None

    def run(self, file: EdgeFile | NodeFile, *, delete: bool) -> None:
        """Add what a file holds, or delete it.

        Raises
        ------
        GraphStoreError
            A row or a commit failed: the message says how many rows are in. What was committed stays.
        """
        done = 0
        if delete:
            self._count_before()
        with self._telling(file.source.path):
            for batch in file.batches(self.batch_rows):
                for name, count in getattr(batch, "dropped", {}).items():
                    self.report.drop(name, count)
                for rows in self._pieces(batch):
                    self._commit(file, rows, delete)
                self.progress.advance(batch.bytes_done - done, rows=batch.num_rows)
                done = batch.bytes_done

    def expire(self, edge_type: str, before: int) -> None:
        """Delete the edges of a type that are older."""
        self._count_before()
        with self._telling(None):
            self._count(self.writer.expire(edge_type, before))

    def finish(self) -> None:
        """Raise BadInput where more rows were to be skipped than there are."""
        if self._skip:
            raise BadInput(
                f"{self.rows_in + self._skip} rows were to be skipped, the files hold {self.rows_in}; nothing was left"
            )

    def removed(self) -> dict[str, int]:
        """Return by type how many edges (once for both directions) and nodes deletions took away; no type with none."""
        if self._before is None:
            return {}
        counts = self.writer.count_all()
        fewer = {name: before - counts[name] for name, before in self._before.items()}
        return {name: count for name, count in fewer.items() if count > 0}

    def _count_before(self) -> None:
        if self._before is None:
            self._before = self.writer.count_all()

    def _pieces(self, batch: Any) -> Iterator[Any]:
        """Yield the rows of a batch that are not in yet, as many as a commit has."""
        skipped = min(self._skip, batch.num_rows)
        self._skip -= skipped
        self.rows_in += skipped
        left = batch.num_rows - skipped
        alone = getattr(batch, "src_only", None) is not None
        if left == 0 and not (alone and not self._skip):
            return
        number = max(1, round(left / self.batch_rows))
        if number == 1 and not skipped:
            yield batch
            return
        bounds = (skipped + left * np.arange(number + 1) // number).tolist()
        for low, high in zip(bounds, bounds[1:]):
            piece = _rows_between(batch, low, high)
            yield replace(piece, src_only=None) if alone and low > skipped else piece

    def _commit(self, file: EdgeFile | NodeFile, rows: Any, delete: bool) -> None:
        before = self.writer.version
        try:
            with self.writer.batch() as update:
                (file.delete if delete else file.add)(update, rows)
        except GraphStoreError as error:
            first = self.rows_in + 1
            where = f"{file.source.path}: among rows {first} to {first + rows.num_rows - 1}: {error}"
            raise type(error)(where) from error
        finally:
            if self.writer.version > before:
                self.rows_in += rows.num_rows
        self._count(update.report)

    def _count(self, report: UpdateReport) -> None:
        self.num_batches += report.version > self.report.version
        self.report.version = report.version
        self.report.rows += report.rows
        for name, count in report.dropped.items():
            self.report.drop(name, count)
        for name, count in report.new_nodes.items():
            self.report.new_nodes[name] = self.report.new_nodes.get(name, 0) + count

    @contextmanager
    def _telling(self, path: Path | None) -> Iterator[None]:
        """Say, when an error ends it, how many rows are in."""
        try:
            yield
        except KeyboardInterrupt:
            raise GraphStoreError(f"interrupted; {self._state()}") from None
        except GraphStoreError as error:
            raise type(error)(f"{error}; {self._state()}") from error
        except OSError as error:
            raise GraphStoreError(f"{path or self.writer.path}: {error.strerror or error}; {self._state()}") from error

    def _state(self) -> str:
        if not self.rows_in:
            return "none of its rows is in"
        return (
            f"the {self.rows_in:,} rows before are in (version {self.writer.version}); "
            f"go on behind them with --skip-rows {self.rows_in}"
        )


def stored_types(writer: "GraphWriter", name: EdgeTypeName, source: EdgeSource) -> list[StoredEdgeType]:
    """Return the entries of an edge type, of a wildcard those of all types that it stands for.

    Of the latter only those that have weights and times as the source has, if there are such.

    Raises
    ------
    UnknownEdgeType
        There is none.
    """
    if not name.is_wildcard:
        return [writer.edge_type(str(name))[1]]
    entries = [entry for entry in writer.manifest.edge_types if (entry.src, entry.dst) == (name.src, name.dst)]
    if not entries:
        known = ", ".join(entry.name for entry in writer.manifest.edge_types)
        raise UnknownEdgeType(f"{writer.path}: no edge type from {name.src!r} to {name.dst!r}; it has {known}")
    has = (source.weight is not None, source.time is not None)
    return [entry for entry in entries if (entry.weighted, entry.timed) == has] or entries


def _weight_rules(entries: Sequence[StoredEdgeType]) -> dict[str, Any]:
    """Return the rules for weights that all entries have; the writer sees to those that differ."""
    rules = {}
    for key in ("bad_weights", "negative_weights"):
        stated = {entry.rules.get(key) for entry in entries}
        if len(stated) == 1 and stated != {None}:
            rules[key] = stated.pop()
    return rules


def _plain_type(entry: StoredNodeType) -> NodeType:
    return NodeType(entry.name, entry.id_type)


def _present(features: Sequence[FeatureType], names: Sequence[str], separator: str | None) -> tuple[FeatureType, ...]:
    """Return the features that a file has a column for."""
    known = {*names, *(name.partition(":")[0] for name in names)}
    found = [feature for feature in features if feature.name in known]
    return tuple(replace(each, separator=separator) if separator and each.is_list else each for each in found)


def _ids(ids: Any, node_type: NodeType) -> Any:
    """Return ids as updates take them."""
    return ids.view(np.uint64) if node_type.id_type == "unsigned" else ids


def _rows_between(batch: Any, low: int, high: int) -> Any:
    keep = np.zeros(batch.num_rows, bool)
    keep[low:high] = True
    if isinstance(batch, EdgeBatch):
        return batch.filter(keep)
    features: Mapping[str, Any] = {name: column.filter(keep) for name, column in batch.features.items()}
    return replace(batch, ids=batch.ids[low:high], num_rows=high - low, features=dict(features))
