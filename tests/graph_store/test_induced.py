"""Induced subgraphs and ego graphs, against networkx and against all edges of the store."""

import re
from pathlib import Path

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, Schema, UnknownEdgeType, UnknownNodeType, ego_graph, induced_subgraph
from tests.graph_store.shop import ALL, BACK, CLICKS, FOLLOWS, LIKES, check_edge_ids, tables


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "store"
    graph_store.ingest(Schema.from_tables(tables(seed=2, rows=700)), path, num_shards=2)
    with graph_store.open(path, threads=2) as store:
        yield store


def edges_of(store, edge_type):
    """All edges as {(src, dst): copies}, in nodes."""
    adjacency, counts = store.adjacency(edge_type), {}
    for pair in zip(*(ends.tolist() for ends in adjacency.edges_at(np.arange(adjacency.num_edges)))):
        counts[pair] = counts.get(pair, 0) + 1
    return counts


def counted(found, hop):
    counts = {}
    ends = found.nodes[hop.src_type][hop.src_labels], found.nodes[hop.dst_type][hop.dst_labels]
    for pair in zip(*(nodes.tolist() for nodes in ends)):
        counts[pair] = counts.get(pair, 0) + 1
    return counts


@settings(max_examples=40, deadline=None)
@given(users=st.lists(st.integers(0, 39), max_size=25), items=st.lists(st.integers(0, 29), max_size=25))
def test_an_induced_subgraph_has_the_edges_among_its_nodes_and_no_other(shop, users, items):
    nodes = {"user": shop.nodes("user")[users], "item": shop.nodes("item")[items]}
    found = induced_subgraph(shop, nodes, columns=ALL, threads=2)
    for name, own in nodes.items():
        assert found.nodes[name].tolist() == list(dict.fromkeys(own.tolist()))
        assert found.nodes[name][found.labels_of_seeds[name]].tolist() == own.tolist()
    assert [hop.edge_type for hop in found.hops] == list(shop.edge_types)
    for hop in found.hops:
        there = {name: set(own.tolist()) for name, own in nodes.items()}
        assert counted(found, hop) == {
            pair: count
            for pair, count in edges_of(shop, hop.edge_type).items()
            if pair[0] in there[hop.src_type] and pair[1] in there[hop.dst_type]
        }
    check_edge_ids(shop, found)


def test_an_induced_subgraph_of_all_nodes_is_the_graph(shop):
    found = induced_subgraph(shop, {name: shop.nodes(name) for name in shop.node_types}, columns=["edge_ids"])
    for hop in found.hops:
        assert np.array_equal(np.sort(hop.edge_ids), np.arange(shop.adjacency(hop.edge_type).num_edges))


@pytest.mark.parametrize("direction", ["out", "in", "both"])
@pytest.mark.parametrize("hops", [0, 1, 2, 3])
def test_an_ego_graph_is_that_of_networkx(make_store, direction, hops):
    random = np.random.default_rng(6)
    rows = [(int(src), int(dst), None, None) for src, dst in random.integers(0, 60, (90, 2))]
    graph = networkx.DiGraph([row[:2] for row in rows])
    view = {"out": graph, "in": graph.reverse(), "both": graph.to_undirected()}[direction]
    with graph_store.open(make_store(rows, edge_type="a:r:a", reverse=True)) as store:
        for centre in store.ids("a")[:12].tolist():
            found = ego_graph(
                store, store.to_nodes("a", [centre]), hops, node_type="a", edge_types=["a:r:a"], direction=direction
            )
            expected = graph.subgraph(networkx.ego_graph(view, centre, radius=hops))
            (hop,) = found.hops
            assert set(found.ids["a"].tolist()) == set(expected.nodes)
            assert sorted(zip(hop.src.tolist(), hop.dst.tolist())) == sorted(expected.edges)
            near = networkx.single_source_shortest_path_length(view, centre, cutoff=hops)
            distances = np.repeat(np.arange(hops + 1), found.num_sampled_nodes["a"]).tolist()
            assert [near[node] for node in found.ids["a"].tolist()] == distances
            assert found.seeds.tolist() == [centre]


def test_an_ego_graph_goes_along_all_types(shop):
    found = ego_graph(shop, shop.nodes("user")[:1], 2, node_type="user", columns=ALL)
    assert {hop.edge_type for hop in found.hops} == {CLICKS, BACK, FOLLOWS, LIKES}
    check_edge_ids(shop, found)
    assert found.num_sampled_nodes["user"][0] == 1
    by_ids = shop.ego_graph([shop.ids("user")[0]], 2, node_type="user")
    assert [hop.src.tolist() for hop in by_ids.hops] == [hop.src.tolist() for hop in found.hops]
    again = shop.induced_subgraph(dict(found.ids.items()))
    assert [hop.dst.tolist() for hop in again.hops] == [hop.dst.tolist() for hop in found.hops]


def test_what_is_not_there_is_named(shop):
    user = shop.nodes("user")[:1]
    with pytest.raises(UnknownNodeType, match="no node type 'shop'"):
        induced_subgraph(shop, {"shop": user})
    with pytest.raises(UnknownEdgeType, match="no edge type 'a:b:c'"):
        induced_subgraph(shop, {"user": user}, edge_types=["a:b:c"])
    with pytest.raises(BadInput, match="edges of user:clicks:item need nodes of type 'item'; those given are of user"):
        induced_subgraph(shop, {"user": user}, edge_types=[CLICKS])
    with pytest.raises(ValueError, match="node 999999 at position 0 is no node of type user"):
        induced_subgraph(shop, {"user": [999_999]})
    with pytest.raises(BadInput, match="direction must be one of out, in, both, got 'up'"):
        ego_graph(shop, user, node_type="user", direction="up")
    with pytest.raises(BadInput, match="hops must be 0 or more"):
        ego_graph(shop, user, -1, node_type="user")
    with pytest.raises(BadInput, match="'in' along user:follows:user needs its reverse"):
        ego_graph(shop, user, node_type="user", edge_types=[FOLLOWS], direction="in")
    with pytest.raises(BadInput, match="columns may be"):
        ego_graph(shop, user, node_type="user", columns=["age"])


def test_the_page_on_sampling_says_what_happens(make_store, tmp_path, monkeypatch, capsys):
    rows = [(1, 10, None, None), (1, 11, None, None), (2, 10, None, None), (3, 12, None, None)]
    make_store(rows, path=tmp_path / "clicks.store", reverse=True)
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "sampling.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "sampling.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("user:clicks:item [1 1 3] [10 11 12] [")
    assert said[2].endswith("[0 1]")
    assert said[3:5] == ["[1 1 2] [10 11 10]", "[1 2] [1, 0, 1]"]
    assert len(said) == 8
