"""The writer of a store: batches of updates, each all or nothing and durable when it is acknowledged."""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from graph_store import update_batch
from graph_store.batch import Batch, UpdateReport
from graph_store.commit_log import CommitLog, read_batches
from graph_store.delta import Delta
from graph_store.errors import BadInput, GraphStoreError, StoreClosed, UnknownEdgeType, UnknownNodeType
from graph_store.fold import drop_generations, fold, oldest_version, publish, recover
from graph_store.live_ids import LiveIds
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType
from graph_store.overlay_edges import scan_lists
from graph_store.update_batch import Operation, to_payload
from graph_store.update_rules import known_edges, plain
from graph_store.view import base_view, view_at
from graph_store.write_errors import write_errors
from graph_store.writer_lock import WriterLock

# A fold begins when the log holds this share of the base's entries, and at least so many.
FOLD_SHARE, FOLD_ROWS = 0.1, 1 << 20


class GraphWriter:
    """The one writer of a store; readers see a batch once they ask for the newest version.

    Each of `add_nodes`, `delete_nodes`, `set_features`, `add_edges`, `delete_edges` and `expire` commits a batch of its
    own and returns an `UpdateReport`; their arguments are those of `Batch`. `batch()` commits several together.

    Parameters
    ----------
    path : path
    threads : int, optional
        Threads of the folds; all cores when None.
    fold_rows : int, optional
        Rows of updates after which a fold begins in the background, a tenth of the store but a million at least when
        None; 0 for never.
    keep : int
        Older generations that a fold keeps for `as_of` and `changes`, besides those that readers hold.

    Raises
    ------
    StoreNotFound, CorruptBlock
        There is no store, or it is damaged.
    StoreBusy
        Another process is writing to it.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, threads: int | None = None, fold_rows: int | None = None, keep: int = 0
    ) -> None:
        self.path, self._threads, self._keep = Path(path), threads, keep
        self.manifest = Manifest.load(self.path)
        self._lock = WriterLock(self.path)
        self._mutex, self._fold_mutex, self._fold_rows = threading.RLock(), threading.Lock(), fold_rows
        self._in_batch = False
        self._folding: threading.Thread | None = None
        self._fold_error: BaseException | None = None
        self._closed = False
        try:
            self.manifest = Manifest.load(self.path)
            recover(self.path, self.manifest)
            self._log = CommitLog(self.path, self.manifest.version)
            try:
                self._load()
            except BaseException:
                self._log.close()
                raise
        except BaseException:
            self._lock.release()
            raise

    def _load(self) -> None:
        """Read the ids of the base and of the log."""
        view = base_view(self.manifest, self.path, threads=self._threads)
        self.num_shards = self.manifest.num_shards
        self.live = [LiveIds(view.ids[entry.name]) for entry in self.manifest.node_types]
        delta = Delta(self.manifest, view.ids)
        delta.extend(payload for _, payload in read_batches(self.path, self.manifest.version, self._log.version))
        for live, changes in zip(self.live, delta.nodes):
            live.follow(changes)
        self.counts = [changes.counts for changes in delta.nodes]
        self._edge_rows = [changes.edge_rows for changes in delta.edges]
        self._logged_rows = sum(changes.num_rows for changes in delta.edges)

    @property
    def version(self) -> int:
        """The newest committed version."""
        return self._log.version

    def node_type(self, name: str) -> tuple[int, StoredNodeType]:
        """Return the number and entry of a node type."""
        for number, entry in enumerate(self.manifest.node_types):
            if entry.name == name:
                return number, entry
        known = ", ".join(entry.name for entry in self.manifest.node_types)
        raise UnknownNodeType(f"{self.path}: no node type {name!r}; it has {known}")

    def edge_type(self, name: str) -> tuple[int, StoredEdgeType, bool]:
        """Return the number and entry of an edge type; of a reverse type those of the other, and True."""
        for number, entry in enumerate(self.manifest.edge_types):
            if entry.name == str(name):
                forward = self.manifest.forward(number)
                return forward, self.manifest.edge_types[forward], forward != number
        known = ", ".join(entry.name for entry in self.manifest.edge_types)
        raise UnknownEdgeType(f"{self.path}: no edge type {str(name)!r}; it has {known}")

    def ends(self, entry: StoredEdgeType) -> tuple[tuple[int, StoredNodeType], tuple[int, StoredNodeType]]:
        """Return the node types of an edge type."""
        return self.node_type(entry.src), self.node_type(entry.dst)

    def feature_place(self, entry: StoredNodeType, name: str) -> int:
        """Return the number of a feature of a node type."""
        from graph_store.schema import nearest

        names = [feature["name"] for feature in entry.features]
        if name not in names:
            raise BadInput(f"{self.path}: {entry.name} has no feature {name!r}; {nearest(name, names)}")
        return names.index(name)

    def take_edge_rows(self, number: int, count: int) -> int:
        """Give out edge ids; returns the first."""
        first = self._edge_rows[number]
        self._edge_rows[number] += count
        return first

    def count_all(self) -> dict[str, int]:
        """Return by type the number of edges, once for a type and its reverse, and of nodes, in the newest version."""
        manifest = view_at(self.manifest, self.path, self.version, threads=self._threads).manifest
        edges = {
            entry.name: entry.num_edges
            for number, entry in enumerate(manifest.edge_types)
            if manifest.forward(number) == number
        }
        return edges | {entry.name: entry.count for entry in manifest.node_types}

    def count_earlier(self, entry: StoredEdgeType, before: int) -> int:
        """Return how many edges of a type have a time below `before`, in the newest version; reads all of them."""
        view = view_at(self.manifest, self.path, self.version, threads=self._threads)
        count = 0
        for nodes, neighbors, times in scan_lists(view.adjacencies[entry.name], times=True):
            earlier = times < before
            count += int(np.count_nonzero(earlier & (nodes <= neighbors) if entry.undirected else earlier))
        return count

    def refuse_duplicates(self, entry: StoredEdgeType, rows: Any, nodes: Any, pending: list[Operation]) -> None:
        """Raise BadInput where an edge is there already, or twice in the batch."""
        from graph_store.store import GraphStore

        number = self.edge_type(entry.name)[0]
        if any(each.kind == update_batch.DELETE_NODES or _is_of_edges(each, number) for each in pending):
            raise BadInput(
                f"edges of {entry.name}: duplicates are errors, so nothing earlier in the batch may change its edges; "
                "commit that first"
            )
        keys = np.stack([*nodes, np.zeros_like(nodes[0]) if rows.time is None else rows.time])
        if entry.undirected:
            keys[:2].sort(axis=0)
        twice = np.unique(keys, axis=1, return_index=True)[1]
        with GraphStore(self.path, threads=self._threads) as store:
            known = known_edges(store.adjacency(entry.name), nodes[0], nodes[1], rows.time)
        wrong = known.copy()
        wrong[np.setdiff1d(np.arange(known.size), twice)] = True
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            ends = f"{plain(rows.src[row])!r} to {plain(rows.dst[row])!r}"
            raise BadInput(
                f"edges of {entry.name}: row {row} ({ends}) is there already; delete it first, or leave it out"
            )

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Collect updates and commit them as one when the block ends; an exception commits nothing.

        The batch's `report` has its version afterwards.
        """
        if self._closed:
            raise StoreClosed(f"{self.path}: the writer was closed")
        with self._mutex:
            if self._in_batch:
                raise GraphStoreError(f"{self.path}: a batch is open; use it, or end it first")
            self._raise_fold_error()
            batch, self._in_batch = Batch(self), True
            try:
                yield batch
                self._commit(batch)
            except BaseException:
                # Ids that the batch gave out are forgotten.
                self._load()
                raise
            finally:
                batch.end()
                self._in_batch = False
        self._maybe_fold()

    def _commit(self, batch: Batch) -> None:
        if self._closed:
            raise StoreClosed(f"{self.path}: the writer was closed while a batch was open")
        if batch.failure:
            raise GraphStoreError(f"{self.path}: the batch was not committed, a call in it failed: {batch.failure}")
        if not batch.operations:
            batch.report.version = self.version
            return
        try:
            batch.report.version = self._log.append(to_payload(batch.operations))
        except OSError as error:
            raise GraphStoreError(
                f"{self.path}: the batch was not committed, cannot write the log: {error.strerror}; "
                "make room and try again"
            ) from error
        self._logged_rows += sum(each.arrays["src"].size for each in batch.operations if "src" in each.arrays)

    def _one(self, call: str, *args: Any, **options: Any) -> UpdateReport:
        with self.batch() as batch:
            getattr(batch, call)(*args, **options)
        return batch.report

    def add_nodes(self, node_type: str, ids: Any, features: Mapping[str, Any] | None = None) -> UpdateReport:
        """Commit `Batch.add_nodes`."""
        return self._one("add_nodes", node_type, ids, features)

    def delete_nodes(self, node_type: str, ids: Any) -> UpdateReport:
        """Commit `Batch.delete_nodes`."""
        return self._one("delete_nodes", node_type, ids)

    def set_features(self, node_type: str, ids: Any, features: Mapping[str, Any]) -> UpdateReport:
        """Commit `Batch.set_features`."""
        return self._one("set_features", node_type, ids, features)

    def add_edges(self, edge_type: str, src: Any, dst: Any, **columns: Any) -> UpdateReport:
        """Commit `Batch.add_edges`."""
        return self._one("add_edges", edge_type, src, dst, **columns)

    def delete_edges(self, edge_type: str, src: Any, dst: Any, *, time: Any = None) -> UpdateReport:
        """Commit `Batch.delete_edges`."""
        return self._one("delete_edges", edge_type, src, dst, time=time)

    def expire(self, edge_type: str, before: int) -> UpdateReport:
        """Commit `Batch.expire`."""
        return self._one("expire", edge_type, before)

    def _maybe_fold(self) -> None:
        entries = sum(entry.num_entries for entry in self.manifest.edge_types)
        limit = max(FOLD_ROWS, int(FOLD_SHARE * entries)) if self._fold_rows is None else self._fold_rows
        if limit and self._logged_rows >= limit and (self._folding is None or not self._folding.is_alive()):
            self._logged_rows = 0
            self._folding = threading.Thread(target=self._fold_behind, name="gossamer-fold", daemon=True)
            self._folding.start()

    def _fold_behind(self) -> None:
        try:
            self._fold()
        except BaseException as error:  # it is raised where the caller sees it
            self._fold_error = error

    def _raise_fold_error(self) -> None:
        error, self._fold_error = self._fold_error, None
        if error is not None:
            raise GraphStoreError(f"{self.path}: a fold in the background failed: {error}") from error

    def _fold(self, *, progress: bool = False) -> None:
        with self._fold_mutex:
            with self._mutex:
                version = self.version
                self._log.rotate()
            if version == self.manifest.version:
                return
            manifest = fold(self.path, self.manifest, version, threads=self._threads, progress=progress)
            with self._mutex, write_errors(self.path, "it is as it was"):
                try:
                    publish(self.path, manifest, keep=self._keep)
                finally:
                    self.manifest = Manifest.load(self.path)
                self._log.drop(oldest_version(self.path))

    def fold(self, *, progress: bool = False) -> int:
        """Write a new generation of all that is committed, and return its version; none where nothing is to fold.

        Batches may be committed meanwhile. Space of what was deleted is given back when no reader needs the old one:
        older generations that readers have closed by now go too.

        Parameters
        ----------
        progress : bool
            Show a bar on stderr.
        """
        if self._closed:
            raise StoreClosed(f"{self.path}: the writer was closed")
        self.wait()
        if self.version > self.manifest.version:
            self._logged_rows = 0
            self._fold(progress=progress)
        else:
            with self._mutex:
                drop_generations(self.path, self.manifest, keep=self._keep)
                self._log.drop(oldest_version(self.path))
        return self.manifest.version

    def wait(self) -> None:
        """Wait for a fold in the background."""
        if self._folding is not None:
            self._folding.join()
        self._raise_fold_error()

    def close(self) -> None:
        """Wait for a fold in the background and let another writer in."""
        if self._closed:
            return
        self._closed = True
        if self._folding is not None:
            self._folding.join()
        self._log.close()
        self._lock.release()
        self._raise_fold_error()

    def __enter__(self) -> "GraphWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _is_of_edges(operation: Operation, number: int) -> bool:
    kinds = (update_batch.ADD, update_batch.DELETE, update_batch.EXPIRE)
    return operation.kind in kinds and operation.number == number
