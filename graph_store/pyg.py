"""A store behind the interfaces of PyTorch Geometric, so that its loaders take batches from it.

Nodes have PyG's numbers 0 … n − 1: the place of their id in `GraphStore.ids`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graph_store.arrow_columns import distinct_names
from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.features import width
from graph_store.interop import positions
from graph_store.manifest import StoredEdgeType
from graph_store.ragged import starts_of
from graph_store.scan import entries

try:
    import torch
    from torch_geometric.data import FeatureStore as _FeatureStore
    from torch_geometric.data import GraphStore as _GraphStore
    from torch_geometric.data import TensorAttr
    from torch_geometric.data.graph_store import EdgeAttr, EdgeLayout
except ImportError:
    raise ImportError(
        "graph_store.pyg needs torch and torch_geometric, which are not installed: pip install 'gossamer[torch]'"
    ) from None

if TYPE_CHECKING:
    from graph_store.feature_table import FeatureTables
    from graph_store.store import GraphStore

Group = str | tuple[str, str, str]
_ROWS = 1 << 18
# The kinds of features that can be tensors.
_KINDS = ("vector", "scalar", "category")
_READ_ONLY = "is read only; change the store with graph_store.GraphWriter"


def pyg_data(
    store: "GraphStore", *, x: Mapping[str, str] | None = None, y: Mapping[str, str] | None = None
) -> "tuple[PygFeatureStore, PygGraphStore]":
    """Return what PyG's loaders take as `data`; the parameters are those of `PygFeatureStore`."""
    return PygFeatureStore(store, x=x, y=y), PygGraphStore(store)


class PygGraphStore(_GraphStore):
    """The edges of a store as edge indices, in any layout; read only.

    An edge type is a tuple (source, relation, destination). Each call makes its index anew, O(edges). Edges are in
    the order of `csc`: by destination and, within its edges, by time where there are times.

    Parameters
    ----------
    store : GraphStore
        The version it is open at is shown.
    """

    def __init__(self, store: "GraphStore") -> None:
        super().__init__()
        self.store = store

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """Return an attribute an edge type; its layout is the one that loaders ask for, the others are given too."""
        return [self._attr(entry) for entry in self.store.edge_types.values()]

    def _attr(self, entry: StoredEdgeType) -> EdgeAttr:
        size = self.store.node_types[entry.src].count, self.store.node_types[entry.dst].count
        return EdgeAttr(tuple(entry.name.split(":")), EdgeLayout.CSC, is_sorted=True, size=size)

    def _get_edge_index(self, edge_attr: EdgeAttr) -> tuple[torch.Tensor, torch.Tensor] | None:
        entry = self.store.edge_types.get(":".join(edge_attr.edge_type))
        if entry is None:
            return None
        if edge_attr.layout == EdgeLayout.CSR:
            lists = _lists(self.store, entry)
            return torch.from_numpy(lists.indptr), torch.from_numpy(lists.neighbors)
        lists = _into(self.store, entry)
        cols = lists.indptr
        if edge_attr.layout == EdgeLayout.COO:
            cols = np.repeat(np.arange(cols.size - 1), np.diff(cols))
        return torch.from_numpy(lists.neighbors), torch.from_numpy(cols)

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise TypeError(f"{type(self).__name__} {_READ_ONLY}")

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise TypeError(f"{type(self).__name__} {_READ_ONLY}")


class _Lists(NamedTuple):
    """Lists of an edge type by PyG's numbers: indptr int64[n + 1], neighbours int64[m], and what goes with them."""

    indptr: np.ndarray
    neighbors: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None
    edge_ids: np.ndarray | None


def _lists(store: "GraphStore", entry: StoredEdgeType, *, extras: bool = False) -> _Lists:
    """Return the lists of all sources, read some at a time."""
    adjacency = store.adjacency(entry.name)
    indptr = starts_of(adjacency.degrees(store.nodes(entry.src)))
    size, low = int(indptr[-1]), 0
    kinds = np.int64, np.float32, np.int64, np.int64
    wanted = True, extras and adjacency.weighted, extras and adjacency.timed, extras and adjacency.numbered
    columns = [np.empty(size, kind) if want else None for kind, want in zip(kinds, wanted)]
    for part in entries(adjacency, batch_rows=_ROWS, edge_ids=extras):
        rows = slice(low, low + part.targets.size)
        found = (positions(store, entry.dst, part.targets), part.weights, part.times, part.edge_ids)
        for column, values in zip(columns, found):
            if column is not None:
                column[rows] = values
        low = rows.stop
    return _Lists(indptr, *columns)  # type: ignore[arg-type]


def _into(store: "GraphStore", entry: StoredEdgeType, *, extras: bool = False) -> _Lists:
    """Return the lists of all destinations: of the reverse type, or those of the type turned round."""
    if entry.reverse is not None:
        return _lists(store, store.edge_types[entry.reverse], extras=extras)
    import scipy.sparse

    own = _lists(store, entry, extras=extras or entry.timed)
    shape = (own.indptr.size - 1, store.node_types[entry.dst].count)
    turned = scipy.sparse.csr_array((np.arange(own.neighbors.size), own.neighbors, own.indptr), shape=shape).tocsc()
    indptr, order = turned.indptr.astype(np.int64), turned.data
    sources = turned.indices.astype(np.int64)
    if own.times is not None:
        cols = np.repeat(np.arange(indptr.size - 1), np.diff(indptr))
        by_time = np.lexsort((own.times[order], cols))
        order, sources = order[by_time], sources[by_time]
    rest = [None if column is None else column[order] for column in own[2:]]
    return _Lists(indptr, sources, *rest)


class _Tensor(NamedTuple):
    """What a tensor holds: the values of a feature, where they are present, or a `part` that is no feature."""

    feature: FeatureType | None
    part: str
    listed: bool


class _Nodes:
    """The tensors of a node type."""

    def __init__(self, store: "GraphStore", name: str, x: str | None, y: str | None) -> None:
        self._store, self._name = store, name
        self.tables, self.size = store.node_features(name), store.node_types[name].count
        named = {"x": _chosen(self.tables, x, "x", ("vector",)), "y": _chosen(self.tables, y, "y", ("scalar",))}
        self.tensors = {"node": _Tensor(None, "node", True)}
        _add_features(self.tensors, self.tables, named, int(store.node_base(name)[-1]))

    @cached_property
    def nodes(self) -> np.ndarray:
        return self._store.nodes(self._name)

    def keys(self, index: Any) -> Any:
        return self.nodes[index]

    def part(self, part: str, index: Any) -> np.ndarray:
        return self.nodes[index]


class _Edges:
    """The tensors of an edge type, in the order of its csc."""

    def __init__(self, store: "GraphStore", entry: StoredEdgeType) -> None:
        self._store, self._entry = store, entry
        self.tables, self.size = store.edge_features(entry.name), entry.num_entries
        self.tensors = {
            f"edge_{part}": _Tensor(None, part, True)
            for part, there in (("weight", entry.weighted), ("time", entry.timed))
            if there
        }
        named = {"edge_attr": _chosen(self.tables, None, "edge_attr", ("vector",))}
        _add_features(self.tensors, self.tables, named, entry.edge_rows)

    @cached_property
    def _lists(self) -> _Lists:
        lists = _into(self._store, self._entry, extras=True)
        return lists._replace(indptr=lists.indptr[:0], neighbors=lists.neighbors[:0])

    def keys(self, index: Any) -> Any:
        assert self._lists.edge_ids is not None
        return self._lists.edge_ids[index]

    def part(self, part: str, index: Any) -> np.ndarray:
        column = self._lists.weights if part == "weight" else self._lists.times
        assert column is not None
        return column[index]


def _chosen(tables: "FeatureTables", wanted: str | None, name: str, kinds: tuple[str, ...]) -> str | None:
    """Return the feature that a tensor like `x` is: the one wanted, the one of that name, or the first of its kind."""
    if wanted is not None:
        feature = tables.features[tables.place(wanted)]
        if feature.kind not in _KINDS:
            raise BadInput(f"feature {wanted!r} of {tables.owner} is a {feature.kind} and can be no tensor")
        return wanted
    if name in tables.names:
        return name
    return next((feature.name for feature in tables.features if feature.kind in kinds), None)


def _add_features(
    tensors: dict[str, _Tensor], tables: "FeatureTables", named: Mapping[str, str | None], rows: int
) -> None:
    """Enter the tensors of features, those in `named` under these names, of a type that has so many rows."""
    shown = {feature: name for name, feature in named.items() if feature is not None}
    own = distinct_names([feature.name for feature in tables.features], {*tensors, *named})
    for place, (feature, column) in enumerate(zip(tables.features, own)):
        if feature.kind not in _KINDS:
            continue
        name = shown.get(feature.name, column)
        tensors[name] = _Tensor(feature, "values", True)
        present = tables.tables[place]["present"]
        absent = place in tables.changed or present.size < rows or not present.all()
        tensors[f"{name}_present"] = _Tensor(feature, "present", absent and feature.kind != "category")
        if name != column:
            tensors.setdefault(column, _Tensor(feature, "values", False))


class PygFeatureStore(_FeatureStore):
    """The features of a store as tensors; read only.

    Of a node type there are `x`, its first vector; `y`, its first scalar; `node`, the store's node numbers, for
    `GraphStore.to_ids`; the other vectors and scalars, and categories as int64 places in the sorted words (−1 where
    absent), under their own names. Absent numbers are 0; where there may be any, `x_present`, `y_present` and so on,
    bool, say which are there. Of an edge type (a tuple) there are `edge_weight`, `edge_time`, `edge_attr` (the first
    vector) and the others, in the order of PyG's `e_id`.

    Parameters
    ----------
    store : GraphStore
        The version it is open at is shown.
    x, y : mapping of str to str, optional
        By node type the feature that is its `x` or `y`.

    Raises
    ------
    BadInput
        There is no feature of that name, or it can be no tensor.
    """

    def __init__(
        self, store: "GraphStore", *, x: Mapping[str, str] | None = None, y: Mapping[str, str] | None = None
    ) -> None:
        super().__init__()
        self.store = store
        self._groups: dict[Group, _Nodes | _Edges] = {
            name: _Nodes(store, name, (x or {}).get(name), (y or {}).get(name)) for name in store.node_types
        }
        for given in (*(x or {}), *(y or {})):
            store.id_map(given)
        for name, entry in store.edge_types.items():
            self._groups[tuple(name.split(":"))] = _Edges(store, entry)  # type: ignore[index]

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Return the attributes of all tensors."""
        return [
            TensorAttr(group, name)
            for group, members in self._groups.items()
            for name, tensor in members.tensors.items()
            if tensor.listed
        ]

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor:
        group, index = self._groups.get(attr.group_name), attr.index
        if group is None or attr.attr_name not in group.tensors:
            known = ", ".join(map(repr, group.tensors if group is not None else self._groups))
            what = "group" if group is None else f"tensor {attr.attr_name!r} of"
            raise KeyError(f"no {what} {attr.group_name!r}; it has {known}")
        if isinstance(index, torch.Tensor):
            index = index.cpu().numpy()
        rows = slice(None) if index is None else index
        feature, part, _ = group.tensors[attr.attr_name]
        if feature is None:
            return torch.as_tensor(np.array(group.part(part, rows)))
        keys = group.keys(rows)
        values, _, present = group.tables.numbers(feature.name, np.atleast_1d(keys))
        found = present if part == "present" else values
        return torch.from_numpy(np.ascontiguousarray(found))[0 if np.ndim(keys) == 0 else slice(None)]

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        group = self._groups.get(attr.group_name)
        if group is None or attr.attr_name not in group.tensors:
            return None
        feature, part, _ = group.tensors[attr.attr_name]
        index = attr.index.cpu().numpy() if isinstance(attr.index, torch.Tensor) else attr.index
        rows = (group.size,) if index is None else np.empty(group.size, np.bool_)[index].shape
        wide = feature is not None and feature.kind == "vector" and part == "values"
        return (*rows, width(feature)) if wide and feature is not None else rows

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise TypeError(f"{type(self).__name__} {_READ_ONLY}")

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise TypeError(f"{type(self).__name__} {_READ_ONLY}")
