"""Edge types as matrices of scipy and stores as graphs of networkx, and the ways back."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from graph_store.arrow_columns import distinct_names, feature_type, id_type
from graph_store.edge_type import EdgeTypeName
from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.ids import dense_ranks
from graph_store.ingest import IngestReport, ingest
from graph_store.scan import edge_reader, forward_types, node_reader
from graph_store.schema import Schema, nearest
from graph_store.sparse_source import sparse_tables
from graph_store.update_rules import plain_array

if TYPE_CHECKING:
    import networkx
    import scipy.sparse

    from graph_store.store import GraphStore

# A networkx graph takes about a kilobyte an edge.
LARGEST_GRAPH = 5_000_000
_ENTRIES = 1 << 20
_NODE_KEYS, _EDGE_KEYS = ("node_type",), ("edge_type", "weight", "time")
_DEFAULT_TYPE = "node:edge:node"


def positions(store: "GraphStore", node_type: str, nodes: np.ndarray) -> np.ndarray:
    """Return int64[n], where each node is in `store.nodes`: its dense rank, deleted nodes not counted."""
    ids = store.id_map(node_type)
    ranks = dense_ranks(nodes, ids.base)
    if ids.dead.size == 0:
        return ranks
    return ranks - np.searchsorted(np.sort(dense_ranks(ids.dead, ids.base)), ranks)


def to_scipy(store: "GraphStore", edge_type: str | None = None) -> "scipy.sparse.csr_array":
    """Return the matrix of an edge type; see `GraphStore.to_scipy`."""
    import scipy.sparse

    entry = store.chain(edge_type, 1)[0]
    indptr, nodes, weights, _ = store.adjacency(entry.name).lists(store.nodes(entry.src), extras=True)
    values = np.ones(nodes.size, np.float32) if weights is None else weights
    shape = (store.node_types[entry.src].count, store.node_types[entry.dst].count)
    matrix = scipy.sparse.csr_array((values, positions(store, entry.dst, nodes), indptr), shape=shape)
    matrix.sum_duplicates()
    return matrix


def from_scipy(
    matrix: Any,
    path: str | os.PathLike[str],
    edge_type: str = _DEFAULT_TYPE,
    *,
    ids: Mapping[str, Any] | None = None,
    weighted: bool = True,
    reverse: bool = False,
    undirected: bool = False,
    **options: Any,
) -> IngestReport:
    """Make a store of a sparse matrix: an edge for each stored entry, a node for each row and column.

    Parameters
    ----------
    matrix : scipy.sparse array or matrix
    path : path
    edge_type : str
        `src:relation:dst`; rows are sources. With one node type at both ends row 3 and column 3 are one node.
    ids : mapping of str to ids, optional
        By node type the id of each row or column: int64[n], uint64[n] or sequence of str; their numbers when left
        out.
    weighted : bool
        The entries are weights; else they only say where edges are.
    reverse, undirected : bool
        As in `EdgeType`. Entries of one place are added up, but in an undirected type an entry and its opposite
        are one edge, and the first stays.
    **options
        As of `ingest`.

    Raises
    ------
    BadInput
        As of `ingest`, or ids that are too few, not distinct or of another kind.
    """
    if not hasattr(matrix, "tocoo"):
        raise BadInput(f"a {type(matrix).__name__} is no sparse matrix; scipy.sparse.csr_array(…) makes one")
    name = EdgeTypeName.parse(edge_type)
    sizes = {name.src: matrix.shape[0], name.dst: matrix.shape[-1]}
    if name.src == name.dst:
        sizes = {name.src: max(matrix.shape)}
    kinds, columns = {}, {}
    for given in ids or {}:
        if given not in sizes:
            raise BadInput(f"ids of {given!r}: edge type {name} has no such node type; {nearest(given, sizes)}")
    for node_type, size in sizes.items():
        known = np.arange(size) if ids is None or node_type not in ids else ids[node_type]
        kinds[node_type], columns[node_type] = _id_column(node_type, known)
        if len(columns[node_type]) != size:
            raise BadInput(f"ids of {node_type!r}: {len(known)}, but the matrix has {size} of them")
    table: Any = matrix
    if ids:
        table = _named_entries(matrix, columns[name.src], columns[name.dst])
    edges = {
        "table": table,
        "weight": "data" if weighted else None,
        "reverse": reverse,
        "undirected": undirected,
        "duplicates": "sum" if weighted and not undirected else "first",
    }
    nodes = {node_type: pa.table({"id": column}) for node_type, column in columns.items()}
    return ingest(Schema.from_tables({str(name): edges}, nodes, id_types=kinds), path, **options)


def _id_column(node_type: str, ids: Any) -> tuple[str, pa.Array]:
    """Return the kind of ids, and the ids as Arrow has them."""
    given = plain_array(ids, f"ids of {node_type!r}")
    if given.dtype.kind == "O" and all(isinstance(each, str) for each in given):
        given = given.astype(np.dtypes.StringDType())
    if given.ndim != 1 or given.dtype.kind not in "iuUT":
        kind = given.dtype if given.ndim == 1 else f"of shape {given.shape}"
        raise BadInput(f"ids of {node_type!r} are {kind}, expected integers or strings")
    unique, counts = np.unique(given, return_counts=True)
    if unique.size < given.size:
        raise BadInput(f"ids of {node_type!r}: {unique[counts > 1][0]} is there twice; each node has an id of its own")
    if given.dtype.kind in "UT":
        return "string", pa.array(given.tolist(), pa.large_string())
    return ("unsigned", pa.array(given)) if given.dtype == np.uint64 else ("integer", pa.array(given.astype(np.int64)))


def _named_entries(matrix: Any, rows: pa.Array, cols: pa.Array) -> Iterator[pa.RecordBatch]:
    for table in sparse_tables(matrix, _ENTRIES):
        for batch in table.to_batches():
            ends = (rows.take(batch.column(0)), cols.take(batch.column(1)))
            yield pa.record_batch([*ends, batch.column(2)], names=["row", "col", "data"])


def to_networkx(
    store: "GraphStore",
    edge_types: Sequence[str] | None = None,
    *,
    features: bool = True,
    limit: int = LARGEST_GRAPH,
) -> "networkx.MultiDiGraph":
    """Return a store as a graph of networkx.

    Parameters
    ----------
    store : GraphStore
    edge_types : sequence of str, optional
        All but reverse types when None. All nodes of their ends are in the graph.
    features : bool
        Features become attributes, absent ones are left out.
    limit : int
        The most edges; an undirected one counts, and is, one in each direction.

    Returns
    -------
    networkx.MultiDiGraph
        A node is its id, or (node type, id) where there are several node types; it has the attribute `node_type`.
        An edge has `edge_type`, and `weight` and `time` where its type has them.

    Raises
    ------
    ImportError
        networkx is not installed.
    UnknownEdgeType
    BadInput
        There are more edges than `limit`.
    """
    networkx = _networkx("to_networkx")
    known = forward_types(store) if edge_types is None else [store.chain(name, 1)[0] for name in edge_types]
    size = sum(entry.num_entries for entry in known)
    if size > limit:
        raise BadInput(
            f"{store.path}: {size:,} edges, but at most {limit:,} go into a networkx graph (about 1 kB each); "
            "name fewer edge_types, raise limit, or use to_scipy"
        )
    ends = dict.fromkeys(end for entry in known for end in (entry.src, entry.dst))
    graph = networkx.MultiDiGraph()

    def key(node_type: str, node_id: Any) -> Any:
        return node_id if len(ends) == 1 else (node_type, node_id)

    for end in ends:
        names = distinct_names(store.node_features(end).names if features else (), _NODE_KEYS)
        reader = node_reader(store, end, None if features else ())
        graph.add_nodes_from((key(end, row[0]), {"node_type": end, **_there(names, row[1:])}) for row in _rows(reader))
    for entry in known:
        own = [name for name, there in (("weight", entry.weighted), ("time", entry.timed)) if there]
        names = own + distinct_names(store.edge_features(entry.name).names if features else (), _EDGE_KEYS)
        reader = edge_reader(store, entry.name, features=None if features else (), both=True)
        graph.add_edges_from(
            (key(entry.src, row[0]), key(entry.dst, row[1]), {"edge_type": entry.name, **_there(names, row[2:])})
            for row in _rows(reader)
        )
    return graph


def _networkx(caller: str) -> ModuleType:
    try:
        import networkx
    except ImportError:
        raise ImportError(f"{caller} needs networkx, which is not installed: pip install networkx") from None
    return networkx


def _rows(reader: pa.RecordBatchReader) -> Iterator[tuple]:
    for batch in reader:
        yield from zip(*(column.to_pylist() for column in batch.columns))


def _there(names: Sequence[str], values: Sequence[Any]) -> dict[str, Any]:
    return {name: value for name, value in zip(names, values) if value is not None}


def from_networkx(
    graph: "networkx.Graph",
    path: str | os.PathLike[str],
    edge_type: str = _DEFAULT_TYPE,
    *,
    weight: str | None = "weight",
    time: str | None = "time",
    node_features: Mapping[str, Sequence[FeatureType]] | None = None,
    edge_features: Mapping[str, Sequence[FeatureType]] | None = None,
    reverse: bool = False,
    **options: Any,
) -> IngestReport:
    """Make a store of a graph of networkx.

    Parameters
    ----------
    graph : networkx.Graph, DiGraph, MultiGraph or MultiDiGraph
        A node is an integer, a string, or (its type, one of these). The attributes `node_type` and `edge_type` say
        which types nodes and edges have.
    path : path
    edge_type : str
        `src:relation:dst`, of the edges that have no `edge_type`; nodes that have no `node_type` are of `src`.
    weight, time : str or None
        The attributes of weights and times, where edges have them; None takes none.
    node_features, edge_features : mapping of str to sequence of FeatureType, optional
        By type, the attributes that become features.
    reverse : bool
        Also store the reverse types. Edges of an undirected graph between nodes of one type are undirected.
    **options
        As of `ingest`.

    Raises
    ------
    BadInput
        A node that can be no id, ends that contradict the edge type, or attributes that only some edges have.
    """
    default = EdgeTypeName.parse(edge_type)
    node_types = {node: str(data.get("node_type", default.src)) for node, data in graph.nodes(data=True)}
    ids = {node: node[1] if _is_named(node, its) else node for node, its in node_types.items()}
    kinds, nodes = {}, {}
    for name in dict.fromkeys(node_types.values()):
        members = [node for node, its in node_types.items() if its == name]
        own = [ids[node] for node in members]
        kinds[name] = _id_kind(name, own)
        column = _id_column(name, np.array(own, np.uint64) if kinds[name] == "unsigned" else own)[1]
        data, features = [graph.nodes[node] for node in members], (node_features or {}).get(name, ())
        nodes[name] = _featured(f"nodes of {name!r}", {"id": column}, data, features, _NODE_KEYS)
    edges: dict[str, dict[str, Any]] = {}
    for text, rows in _edges_by_type(graph, node_types, default).items():
        table = _edge_table(text, rows, ids, kinds, {"weight": weight, "time": time})
        data, features = [row[2] for row in rows], (edge_features or {}).get(text, ())
        undirected = not graph.is_directed() and text.split(":")[0] == text.split(":")[2]
        edges[text] = {
            **_featured(f"edges of {text}", table, data, features, _EDGE_KEYS),
            **{role: role for role in ("weight", "time") if role in table},
            "duplicates": "all" if graph.is_multigraph() else "first",
            "undirected": undirected,
            "reverse": reverse and not undirected,
        }
    return ingest(Schema.from_tables(edges, nodes, id_types=kinds), path, **options)


def _edges_by_type(
    graph: "networkx.Graph", node_types: Mapping[Any, str], default: EdgeTypeName
) -> dict[str, list[tuple[Any, Any, dict]]]:
    """Return (source, destination, attributes) of all edges by their type, turned as the type says."""
    rows: dict[str, list[tuple[Any, Any, dict]]] = {}
    for src, dst, data in graph.edges(data=True):
        name = EdgeTypeName.parse(data.get("edge_type", default))
        ends, have = (name.src, name.dst), (node_types[src], node_types[dst])
        if have != ends and have[::-1] == ends and not graph.is_directed():
            src, dst = dst, src
        elif have != ends:
            raise BadInput(
                f"edge {src!r} to {dst!r} is from {have[0]!r} to {have[1]!r}, but edge type {name}; "
                "set the nodes' node_type or the edge's edge_type"
            )
        rows.setdefault(str(name), []).append((src, dst, data))
    return rows or {str(default): []}


def _is_named(node: Any, node_type: str) -> bool:
    return isinstance(node, tuple) and len(node) == 2 and node[0] == node_type


def _id_kind(node_type: str, ids: Sequence[Any]) -> str:
    """Return the id type of the nodes of a graph."""
    for each in ids:
        if isinstance(each, bool) or not isinstance(each, (int, np.integer, str)):
            raise BadInput(
                f"node {each!r} of type {node_type!r} is a {type(each).__name__}; ids are integers or strings, "
                "networkx.relabel_nodes gives others"
            )
    texts = [each for each in ids if isinstance(each, str)]
    if texts and len(texts) < len(ids):
        raise BadInput(
            f"nodes of type {node_type!r} are integers and strings (as {texts[0]!r}); use one kind, or give "
            "each a node_type of its own"
        )
    if texts:
        return "string"
    return "unsigned" if ids and max(ids) >= 1 << 63 else "integer"


def _edge_table(
    name: str,
    rows: Sequence[tuple[Any, Any, dict]],
    ids: Mapping[Any, Any],
    kinds: Mapping[str, str],
    roles: Mapping[str, str | None],
) -> dict[str, pa.Array]:
    src, dst = name.split(":")[0], name.split(":")[2]
    table = {
        role: pa.array([ids[row[place]] for row in rows], id_type(kinds.get(end, "integer")))
        for place, (role, end) in enumerate((("src", src), ("dst", dst)))
    }
    for role, attribute in roles.items():
        missing = [row for row in rows if attribute not in row[2]]
        if not rows or attribute is None or len(missing) == len(rows):
            continue
        if missing:
            raise BadInput(
                f"edge {missing[0][0]!r} to {missing[0][1]!r} of {name} has no {attribute!r}, but others have; give "
                f"all one, or say {role}=None"
            )
        values = [row[2][attribute] for row in rows]
        table[role] = _array(f"{attribute!r} of edges of {name}", values, pa.float64() if role == "weight" else None)
    return table


def _array(place: str, values: Sequence[Any], kind: pa.DataType | None) -> pa.Array:
    try:
        return pa.array(values, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise BadInput(f"{place}: {error}") from None


def _featured(
    place: str,
    table: Mapping[str, pa.Array],
    data: Sequence[Mapping[str, Any]],
    features: Sequence[FeatureType],
    reserved: Sequence[str],
) -> dict[str, Any]:
    """Return a table with a column for each feature, and the features."""
    names = [feature.name for feature in features]
    columns, attributes = distinct_names(names, table), distinct_names(names, reserved)
    table, declared = dict(table), []
    for feature, column, attribute in zip(features, columns, attributes):
        kind = pa.large_string() if feature.kind == "category" else feature_type(feature)
        values = [each.get(attribute) for each in data]
        table[column] = _array(f"feature {feature.name!r} of {place}", values, kind)
        declared.append(replace(feature, columns=(column,), separator=None))
    return {"table": pa.table(table), "features": tuple(declared)}
