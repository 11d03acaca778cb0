"""Matrices of scipy and graphs of networkx, made of stores and made into stores."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import networkx as nx
import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse

import graph_store
from graph_store import BadInput, FeatureType, Schema
from graph_store.interop import from_networkx, from_scipy, positions, to_networkx, to_scipy

CLICKS, NEAR = "user:clicks:item", "item:near:item"


def edges_of(store, edge_type):
    return sorted(tuple(row.values()) for batch in store.scan(edge_type) for row in batch.to_pylist())


@pytest.fixture
def shop(tmp_path):
    clicks = pa.table({"src": ["ann", "ann", "bob"], "dst": [1, 2, 1], "weight": [1.0, 2.0, 4.0], "time": [7, 8, 9]})
    near = pa.table({"src": [1, 3], "dst": [2, 3]})
    items = pa.table({"id": [1, 2, 3, 4], "price": [0.5, None, 2.0, 3.0], "tags": [[1], [], None, [2, 3]]})
    schema = Schema.from_tables(
        {
            CLICKS: {"table": clicks, "weight": "weight", "time": "time", "reverse": True},
            NEAR: {"table": near, "undirected": True},
        },
        {"item": {"table": items, "features": (FeatureType("price"), FeatureType("tags", "ids"))}},
        id_types={"user": "string"},
    )
    graph_store.ingest(schema, tmp_path / "shop.store", num_shards=2)
    with graph_store.open(tmp_path / "shop.store") as store:
        yield store


def test_a_matrix_of_a_store_is_in_the_order_of_its_ids_without_deleted_nodes(tmp_path):
    table = pa.table({"src": [1, 1, 2, 3, 4], "dst": [10, 11, 10, 12, 11], "weight": [1.0, 2.0, 3.0, 4.0, 5.0]})
    schema = Schema.from_tables({"a:r:b": {"table": table, "weight": "weight"}})
    graph_store.ingest(schema, tmp_path / "s.store", num_shards=2)
    with graph_store.GraphWriter(tmp_path / "s.store") as writer:
        writer.delete_nodes("a", [1])
        writer.delete_nodes("b", [10])
    with graph_store.open(tmp_path / "s.store") as store:
        assert sorted(store.ids("a").tolist()) == [2, 3, 4]
        assert sorted(store.ids("b").tolist()) == [11, 12]
        assert positions(store, "a", store.nodes("a")).tolist() == [0, 1, 2]
        matrix = to_scipy(store, "a:r:b")
        assert matrix.shape == (3, 2)
        a = {each: place for place, each in enumerate(store.ids("a").tolist())}
        b = {each: place for place, each in enumerate(store.ids("b").tolist())}
        expected = np.zeros((3, 2), np.float32)
        expected[a[3], b[12]], expected[a[4], b[11]] = 4, 5
        assert np.array_equal(matrix.toarray(), expected)
        assert np.array_equal(store.to_scipy().toarray(), expected)


def test_parallel_edges_are_added_up_in_a_matrix(tmp_path):
    table = pa.table({"src": [1, 1, 1], "dst": [2, 2, 2], "weight": [1.0, 2.0, 4.0], "time": [3, 4, 5]})
    for weighted, expected in ((True, 7.0), (False, 3.0)):
        options = {"weight": "weight"} if weighted else {}
        schema = Schema.from_tables({"a:r:b": {"table": table, "time": "time", **options}})
        graph_store.ingest(schema, tmp_path / "s.store", num_shards=1, overwrite=True)
        with graph_store.open(tmp_path / "s.store") as store:
            assert to_scipy(store).toarray().tolist() == [[expected]]


def test_a_matrix_becomes_a_store_with_a_node_for_each_row_and_column(tmp_path):
    dense = np.array([[0, 1.5, 0], [0, 0, 0], [2.5, 0, -1], [0, 0, 0]], np.float32)
    for kind in ("csr", "csc", "coo"):
        matrix = scipy.sparse.csr_array(dense).asformat(kind)
        from_scipy(matrix, tmp_path / "s.store", CLICKS, reverse=True, num_shards=2, overwrite=True)
        with graph_store.open(tmp_path / "s.store") as store:
            assert sorted(store.ids("user").tolist()) == [0, 1, 2, 3]
            assert sorted(store.ids("item").tolist()) == [0, 1, 2]
            assert edges_of(store, CLICKS) == [(0, 1, 1.5), (2, 0, 2.5), (2, 2, -1.0)]
            assert store.to_scipy(CLICKS).shape == (4, 3)


def test_entries_of_one_place_are_added_up_as_scipy_has_it(tmp_path):
    matrix = scipy.sparse.coo_array(([1.0, 2.0, 4.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    from_scipy(matrix, tmp_path / "s.store", "n:to:n", num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        assert edges_of(store, "n:to:n") == [(0, 1, 3.0), (1, 0, 4.0)]


def test_a_symmetric_matrix_becomes_an_undirected_type(tmp_path):
    matrix = scipy.sparse.csr_array(np.array([[3, 1, 0], [1, 0, 2], [0, 2, 0]], np.float32))
    from_scipy(matrix, tmp_path / "s.store", "n:near:n", undirected=True, num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        assert store.edge_types["n:near:n"].num_edges == 3
        ids = store.ids("n")
        assert np.array_equal(store.to_scipy().toarray(), matrix.toarray()[np.ix_(ids, ids)])


def test_a_matrix_without_weights_has_edges_only(tmp_path):
    matrix = scipy.sparse.csr_array(np.array([[0, 7], [0, 0]]))
    from_scipy(matrix, tmp_path / "s.store", "n:to:n", weighted=False, num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        assert edges_of(store, "n:to:n") == [(0, 1)]
        assert not store.edge_types["n:to:n"].weighted


def test_rows_and_columns_can_have_ids_so_a_matrix_of_a_store_becomes_the_store_again(shop, tmp_path):
    ids = {"user": shop.ids("user"), "item": shop.ids("item")}
    from_scipy(shop.to_scipy(CLICKS), tmp_path / "again.store", CLICKS, ids=ids, num_shards=3)
    with graph_store.open(tmp_path / "again.store") as store:
        assert edges_of(store, CLICKS) == [("ann", 1, 1.0), ("ann", 2, 2.0), ("bob", 1, 4.0)]
        assert sorted(store.ids("item").tolist()) == [1, 2, 3, 4]
        assert store.node_types["user"].id_type == "string"


def test_what_cannot_be_a_store_is_refused(tmp_path):
    matrix, path = scipy.sparse.eye_array(3, format="csr"), tmp_path / "s.store"
    with pytest.raises(BadInput, match=r"ids of 'n': 2, but the matrix has 3 of them"):
        from_scipy(matrix, path, "n:to:n", ids={"n": [1, 2]})
    with pytest.raises(BadInput, match=r"ids of 'n': 5 is there twice"):
        from_scipy(matrix, path, "n:to:n", ids={"n": [5, 1, 5]})
    with pytest.raises(BadInput, match=r"ids of 'm': edge type n:to:n has no such node type; known: 'n'"):
        from_scipy(matrix, path, "n:to:n", ids={"m": [5, 1, 5]})
    with pytest.raises(BadInput, match=r"ids of 'n' are float64, expected integers or strings"):
        from_scipy(matrix, path, "n:to:n", ids={"n": [0.5, 1, 5]})
    with pytest.raises(BadInput, match=r"a ndarray is no sparse matrix"):
        from_scipy(np.eye(3), path, "n:to:n")
    path.mkdir()
    with pytest.raises(BadInput, match="exists already"):
        from_scipy(matrix, path, "n:to:n")


def test_a_graph_has_nodes_of_all_types_with_their_features(shop):
    graph = to_networkx(shop)
    assert isinstance(graph, nx.MultiDiGraph)
    assert set(graph) == {("user", "ann"), ("user", "bob"), *(("item", item) for item in (1, 2, 3, 4))}
    assert graph.nodes["user", "ann"] == {"node_type": "user"}
    assert graph.nodes["item", 1] == {"node_type": "item", "price": 0.5, "tags": [1]}
    assert graph.nodes["item", 2] == {"node_type": "item", "tags": []}
    assert graph.nodes["item", 3] == {"node_type": "item", "price": 2.0}
    found = sorted((u, v, sorted(data.items())) for u, v, data in graph.edges(data=True))
    user, item, name = "user", "item", "edge_type"
    assert found == [
        ((item, 1), (item, 2), [(name, NEAR)]),
        ((item, 2), (item, 1), [(name, NEAR)]),
        ((item, 3), (item, 3), [(name, NEAR)]),
        ((user, "ann"), (item, 1), [(name, CLICKS), ("time", 7), ("weight", 1.0)]),
        ((user, "ann"), (item, 2), [(name, CLICKS), ("time", 8), ("weight", 2.0)]),
        ((user, "bob"), (item, 1), [(name, CLICKS), ("time", 9), ("weight", 4.0)]),
    ]


def test_a_graph_of_one_edge_type_has_the_nodes_of_its_ends_under_their_ids(shop):
    graph = to_networkx(shop, [NEAR], features=False)
    assert dict(graph.nodes(data=True)) == {item: {"node_type": "item"} for item in (1, 2, 3, 4)}
    assert graph.number_of_edges() == 3


def test_a_graph_that_would_not_fit_is_refused(shop):
    with pytest.raises(BadInput, match=r"shop.store: 6 edges, but at most 5 go into a networkx graph .* edge_types"):
        to_networkx(shop, limit=5)
    with pytest.raises(graph_store.UnknownEdgeType):
        to_networkx(shop, ["a:b:c"])


def test_a_graph_becomes_a_store(tmp_path):
    graph = nx.DiGraph()
    graph.add_edge(1, 2, weight=0.5)
    graph.add_edge(2, 1, weight=2)
    graph.add_node(9)
    from_networkx(graph, tmp_path / "s.store", "n:to:n", num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        assert edges_of(store, "n:to:n") == [(1, 2, 0.5), (2, 1, 2.0)]
        assert sorted(store.ids("n").tolist()) == [1, 2, 9]


def test_an_undirected_graph_becomes_an_undirected_type(tmp_path):
    from_networkx(nx.path_graph(["a", "b", "c"]), tmp_path / "s.store", num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        entry = store.edge_types["node:edge:node"]
        assert entry.undirected
        assert entry.num_edges == 2
        assert store.neighbors(["b"]).ids.tolist() == ["a", "c"]


def test_parallel_edges_of_a_multigraph_are_kept(tmp_path):
    graph = nx.MultiDiGraph([(1, 2), (1, 2)])
    from_networkx(graph, tmp_path / "s.store", num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        assert store.degree([1]).tolist() == [2]


def test_a_graph_of_a_store_becomes_the_store_again(shop, tmp_path):
    graph = to_networkx(shop, [CLICKS])
    features = {"item": shop.node_features("item").features}
    from_networkx(graph, tmp_path / "again.store", node_features=features, reverse=True, num_shards=2)
    with graph_store.open(tmp_path / "again.store") as store:
        assert edges_of(store, CLICKS) == edges_of(shop, CLICKS)
        assert list(store.edge_types) == [CLICKS, "item:rev_clicks:user"]
        for name in ("user", "item"):
            expected = [row for batch in shop.scan_nodes(name) for row in batch.to_pylist()]
            found = [row for batch in store.scan_nodes(name) for row in batch.to_pylist()]
            assert sorted(found, key=str) == sorted(expected, key=str)


def test_an_undirected_graph_between_two_types_is_turned_as_the_edge_type_says(tmp_path):
    graph = nx.Graph([("i1", "u1"), ("u2", "i1")])
    for node in graph:
        graph.nodes[node]["node_type"] = "user" if node[0] == "u" else "item"
    from_networkx(graph, tmp_path / "s.store", CLICKS, num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        assert edges_of(store, CLICKS) == [("u1", "i1"), ("u2", "i1")]


def test_a_graph_that_cannot_be_a_store_is_refused(tmp_path):
    path = tmp_path / "s.store"
    with pytest.raises(BadInput, match=r"node 0.5 of type 'node' is a float; ids are integers or strings"):
        from_networkx(nx.DiGraph([(0.5, 1)]), path)
    with pytest.raises(BadInput, match=r"nodes of type 'node' are integers and strings .*use one kind"):
        from_networkx(nx.DiGraph([(1, "a")]), path)
    graph = nx.DiGraph([(1, 2), (2, 3)])
    graph[1][2]["weight"] = 1.0
    with pytest.raises(
        BadInput, match=r"edge 2 to 3 of node:edge:node has no 'weight', but others have; .* weight=None"
    ):
        from_networkx(graph, path)
    graph = nx.DiGraph([(1, 2)])
    graph.nodes[1]["node_type"] = "user"
    with pytest.raises(BadInput, match=r"edge 1 to 2 is from 'user' to 'node', but edge type node:edge:node"):
        from_networkx(graph, path)


def test_a_graph_without_edges_becomes_a_store_without_edges(tmp_path):
    graph = nx.DiGraph()
    graph.add_nodes_from([5, 2**64 - 1])
    from_networkx(graph, tmp_path / "s.store", num_shards=1)
    with graph_store.open(tmp_path / "s.store") as store:
        assert sorted(store.ids("node").tolist()) == [5, 2**64 - 1]
        assert edges_of(store, "node:edge:node") == []


def test_without_networkx_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['networkx'] = None\n"
        "from graph_store.interop import to_networkx\n"
        "try:\n    to_networkx(None)\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "to_networkx needs networkx, which is not installed: pip install networkx\n"


def test_the_examples_of_the_documentation_run_as_they_are_written(tmp_path):
    page = Path(__file__).parents[2] / "docs" / "interop.md"
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) == 7
    needs = {"import duckdb": ["duckdb"], "torch_geometric": ["torch_geometric", "torch_sparse"]}
    missing = [word for word, names in needs.items() if not all(map(importlib.util.find_spec, names))]
    chosen = [block for block in blocks if not any(word in block for word in missing)]
    code = "import warnings; warnings.simplefilter('ignore')\n" + "\n".join(chosen)
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.stderr == ""
    assert "['edges-0-user-clicks-item.parquet', 'nodes-0-item.parquet'" in done.stdout
    assert "{'id': [1, 2, 3], 'price': [9.5, None, 2.0]}" in done.stdout
