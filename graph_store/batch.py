"""A batch of updates: what a user asks for, as the operations that the log keeps."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from graph_store import update_batch
from graph_store.delta import next_nodes
from graph_store.errors import BadInput, StoreClosed
from graph_store.features import Sections
from graph_store.ids import shards_of
from graph_store.live_ids import id_arrays
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.row_batch import INT64_MAX, INT64_MIN
from graph_store.string_ids import hash_strings
from graph_store.update_batch import Operation
from graph_store.update_rules import (
    as_ids,
    as_times,
    checked_rows,
    checked_table,
    kept_rows,
    plain,
    plain_array,
    take_ids,
)

if TYPE_CHECKING:
    from graph_store.writer import GraphWriter


@dataclass
class UpdateReport:
    """What a batch did.

    Attributes
    ----------
    version : int
        The store's version with the batch in it.
    rows : int
        Edges and nodes that were written: added, deleted, changed. An edge that was there already counts.
    new_nodes : dict of str to int
        Nodes that came, by type.
    dropped : dict of str to int
        Rows left out, by rule.
    """

    version: int = 0
    rows: int = 0
    new_nodes: dict[str, int] = field(default_factory=dict)
    dropped: dict[str, int] = field(default_factory=dict)

    def drop(self, rule: str, count: int) -> None:
        """Count rows left out."""
        if count:
            self.dropped[rule] = self.dropped.get(rule, 0) + count


Call = TypeVar("Call", bound=Callable[..., None])


def _all_or_nothing(call: Call) -> Call:
    """Note a failure, after which the batch cannot be committed: a part of the call may be among its operations."""

    @wraps(call)
    def noted(self: "Batch", *args: Any, **options: Any) -> None:
        try:
            call(self, *args, **options)
        except Exception as error:
            self.failure = self.failure or str(error)
            raise

    return noted  # type: ignore[return-value]


class Batch:
    """Updates that are committed together; see `GraphWriter.batch`. Once it has ended each call raises StoreClosed."""

    def __init__(self, writer: "GraphWriter") -> None:
        self._open: GraphWriter | None = writer
        self.operations: list[Operation] = []
        self.failure = ""
        self.report = UpdateReport()

    @property
    def _writer(self) -> "GraphWriter":
        if self._open is None:
            raise StoreClosed("the batch has ended and takes no more; begin another with `writer.batch()`")
        return self._open

    def end(self) -> None:
        """Take no more: what came later would give out ids that no commit holds."""
        self._open = None

    @_all_or_nothing
    def add_nodes(self, node_type: str, ids: Any, features: Mapping[str, Any] | None = None) -> None:
        """Add nodes; those that are there stay, and get the features given.

        Parameters
        ----------
        node_type : str
        ids : int64[n], uint64[n] or sequence of str
        features : mapping of str to values, optional
            As for `set_features`.
        """
        number, entry = self._writer.node_type(node_type)
        given = as_ids(ids, entry)
        nodes = self._nodes(number, given, create=True)
        self.report.rows += nodes.size
        if features:
            self._set(number, entry, nodes, features)

    @_all_or_nothing
    def delete_nodes(self, node_type: str, ids: Any) -> None:
        """Delete nodes with all edges at them; an id that is no node is counted as dropped."""
        number, entry = self._writer.node_type(node_type)
        nodes = self._nodes(number, as_ids(ids, entry), create=False)
        known = np.unique(nodes[nodes >= 0])
        self.report.drop("unknown_nodes", int(np.count_nonzero(nodes < 0)))
        self.report.rows += known.size
        if known.size:
            self._add(update_batch.DELETE_NODES, number, {"nodes": known})
            self._writer.live[number].mark(known, dead=True)

    @_all_or_nothing
    def set_features(self, node_type: str, ids: Any, features: Mapping[str, Any]) -> None:
        """Set features of nodes that are there.

        Parameters
        ----------
        node_type : str
        ids
            Each must be a node; of a repeated one the last value stays.
        features : mapping of str to values
            By the feature's name, a value a node: see `graph_store.features.stored`. None takes a value away.
        """
        number, entry = self._writer.node_type(node_type)
        given = as_ids(ids, entry)
        nodes = self._nodes(number, given, create=False)
        if (nodes < 0).any():
            row = int(np.flatnonzero(nodes < 0)[0])
            raise BadInput(
                f"set_features: row {row}: no {entry.name} has the id {plain(given[row])!r}; add the node first"
            )
        self.report.rows += nodes.size
        self._set(number, entry, nodes, features)

    @_all_or_nothing
    def add_edges(
        self,
        edge_type: str,
        src: Any,
        dst: Any,
        *,
        weight: Any = None,
        time: Any = None,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        """Add edges, and to the reverse type what is its part.

        Parameters
        ----------
        edge_type : str
        src, dst : ids, n each
            An id that is no node becomes one, unless the edge type's rule for missing nodes says otherwise.
        weight : float32[n]
            Needed where the edge type has weights.
        time : int64[n]
            Needed where the edge type has times, in their unit.
        features : mapping of str to values, optional
        """
        number, entry, swapped = self._writer.edge_type(edge_type)
        ends = self._writer.ends(entry)
        src, dst = (dst, src) if swapped else (src, dst)
        rows = checked_rows(entry, (ends[0][1], ends[1][1]), src, dst, weight=weight, time=time, features=features)
        allowed, dropped = kept_rows(entry, rows)
        for rule, count in dropped.items():
            self.report.drop(rule, count)
        if not allowed.all():
            rows = rows.take(np.flatnonzero(allowed), entry)
        nodes, keep = self._ends(entry, ends, rows.src, rows.dst)
        if not keep.all():
            chosen = np.flatnonzero(keep)
            rows, nodes = rows.take(chosen, entry), (nodes[0][chosen], nodes[1][chosen])
        if entry.rules.get("duplicates") == "error":
            self._writer.refuse_duplicates(entry, rows, nodes, self.operations)
        arrays = {"src": nodes[0], "dst": nodes[1]}
        if rows.weight is not None:
            arrays["weight"] = rows.weight
        if rows.time is not None:
            arrays["time"] = rows.time
        if entry.features:
            first = self._writer.take_edge_rows(number, nodes[0].size)
            arrays["row"] = np.array([first], np.int64)
        self.report.rows += nodes[0].size
        if nodes[0].size:
            self._add(update_batch.ADD, number, arrays)
        if rows.features and nodes[0].size:
            places = {feature.name: place for place, feature in enumerate(entry.feature_types)}
            tables = {places[name]: table for name, table in rows.features.items()}
            edge_rows = np.arange(first, first + nodes[0].size)
            self._add(update_batch.SET_EDGES, number, {"rows": edge_rows, **_named(tables)})

    @_all_or_nothing
    def delete_edges(self, edge_type: str, src: Any, dst: Any, *, time: Any = None) -> None:
        """Delete edges between ids, and from the reverse type; those that are not there are no error.

        Parameters
        ----------
        time : int64[n], optional
            Only the edges of these times; without, all between the two.
        """
        number, entry, swapped = self._writer.edge_type(edge_type)
        ends = self._writer.ends(entry)
        sources, targets = (dst, src) if swapped else (src, dst)
        given = as_ids(sources, ends[0][1]), as_ids(targets, ends[1][1])
        if len(given[0]) != len(given[1]):
            raise BadInput(f"delete_edges: {len(given[0])} sources and {len(given[1])} destinations")
        if time is not None and not entry.timed:
            raise BadInput(f"delete_edges: {entry.name} has no times; leave time out")
        nodes = [self._nodes(end[0], ids, create=False) for end, ids in zip(ends, given)]
        known = (nodes[0] >= 0) & (nodes[1] >= 0)
        self.report.drop("unknown_nodes", int(np.count_nonzero(~known)))
        arrays = {"src": nodes[0][known], "dst": nodes[1][known]}
        if time is not None:
            times = plain_array(time, "delete_edges: time")
            if times.shape != known.shape or (times.size and times.dtype.kind not in "iu"):
                raise BadInput(f"delete_edges: time must be {known.size} integers, got {times.dtype} {times.shape}")
            arrays["time"] = as_times("delete_edges", times)[known]
        self.report.rows += arrays["src"].size
        if arrays["src"].size:
            self._add(update_batch.DELETE, number, arrays)

    @_all_or_nothing
    def expire(self, edge_type: str, before: int) -> None:
        """Delete the edges whose time is below `before`, an integer within int64."""
        number, entry, _ = self._writer.edge_type(edge_type)
        if not entry.timed:
            raise BadInput(f"expire: {entry.name} has no times; delete edges by their ends")
        if isinstance(before, bool) or not isinstance(before, int | np.integer):
            raise BadInput(f"expire: before is {before!r}; expected an integer, as the times of {entry.name} are")
        if not INT64_MIN <= before <= INT64_MAX:
            raise BadInput(f"expire: before is {before}, out of the range of int64, as no time can be")
        self.report.rows += self._writer.count_earlier(entry, before)
        self._add(update_batch.EXPIRE, number, {"before": np.array([before], np.int64)})

    def _add(self, kind: str, number: int, arrays: dict[str, np.ndarray]) -> None:
        self.operations.append(Operation(kind, number, arrays))

    def _set(self, number: int, entry: StoredNodeType, nodes: np.ndarray, features: Mapping[str, Any]) -> None:
        if not isinstance(features, Mapping):
            raise BadInput(f"nodes of {entry.name}: features must be values by name, got {type(features).__name__}")
        types = entry.feature_types
        tables: dict[int, Sections] = {}
        for name, values in features.items():
            place = self._writer.feature_place(entry, name)
            tables[place] = checked_table(f"nodes of {entry.name}", types[place], values, nodes.size)
        if nodes.size:
            self._add(update_batch.SET_NODES, number, {"nodes": nodes, **_named(tables)})

    def _ends(self, entry: StoredEdgeType, ends: Any, src: Any, dst: Any) -> tuple[Any, np.ndarray]:
        """Return the nodes of both ends, and the mask of rows that have both."""
        rule = entry.rules.get("missing_nodes", "create")
        keep = np.ones(len(src), bool)
        if rule == "create":
            found = [self._nodes(end[0], ids, create=True) for end, ids in zip(ends, (src, dst))]
            return (found[0], found[1]), keep
        found = [self._nodes(end[0], ids, create=False) for end, ids in zip(ends, (src, dst))]
        for nodes, ids, end in zip(found, (src, dst), ends):
            if rule == "error" and (nodes < 0).any():
                row = int(np.flatnonzero(nodes < 0)[0])
                raise BadInput(f"edges of {entry.name}: row {row}: no {end[1].name} has the id {plain(ids[row])!r}")
            keep &= nodes >= 0
        self.report.drop("missing_nodes", int(np.count_nonzero(~keep)))
        return (found[0], found[1]), keep

    def _nodes(self, number: int, ids: Any, *, create: bool) -> np.ndarray:
        """Return the node of each id; -1, or with `create` a new one, where there is none."""
        live = self._writer.live[number]
        if len(ids) == 0:
            return np.empty(0, np.int64)
        nodes = live.find(ids)
        dead = live.is_dead(nodes)
        if not create:
            nodes[dead] = -1
            return nodes
        if dead.any():
            back = np.unique(nodes[dead])
            self._add(update_batch.REVIVE, number, {"nodes": back})
            live.mark(back, dead=False)
            self._count_new(number, back.size)
        missing = np.flatnonzero(nodes < 0)
        if missing.size:
            fresh = _distinct(take_ids(ids, missing))
            self._create(number, fresh)
            nodes[missing] = live.find(take_ids(ids, missing))
        return nodes

    def _create(self, number: int, fresh: Any) -> None:
        live = self._writer.live[number]
        arrays = id_arrays(fresh, is_string=live.is_string)
        if live.is_string:
            hashes = hash_strings(arrays["starts"], arrays["bytes"], live.base.hash_mask)  # type: ignore[attr-defined]
        else:
            hashes = arrays["ids"]
        nodes = next_nodes(shards_of(hashes, self._writer.num_shards), self._writer.counts[number])
        live.put(fresh, nodes)
        self._add(update_batch.NEW, number, arrays)
        self._count_new(number, nodes.size)

    def _count_new(self, number: int, count: int) -> None:
        name = self._writer.manifest.node_types[number].name
        self.report.new_nodes[name] = self.report.new_nodes.get(name, 0) + count


def _distinct(ids: Any) -> Any:
    """Return each id once, in the order of appearance."""
    if not isinstance(ids, np.ndarray):
        return list(dict.fromkeys(ids))
    return ids[np.sort(np.unique(ids, return_index=True)[1])]


def _named(tables: Mapping[int, Sections]) -> dict[str, np.ndarray]:
    return {f"{place}.{name}": section for place, table in tables.items() for name, section in table.items()}
