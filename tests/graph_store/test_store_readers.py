"""Readers of a store: what they are told in original ids, several at once, where nothing can be written, replaced."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graph_store
from graph_store import StoreClosed, UnknownEdgeType, UnknownId, UnknownNodeType
from tests.graph_store.stores import BACK, CLICKS, check
from tests.oracles import Twin, lists_of

ROOT = Path(__file__).parents[2]
ROWS = [(7, 72, 0.5, None), (7, 70, 1.5, None), (-3, 70, 2.0, None), (2**53 + 1, 71, 4.0, None), (7, 71, 1.0, None)]


@pytest.fixture(scope="module")
def path(make_store):
    return make_store(ROWS, reverse=True)


@pytest.fixture
def store(path):
    with graph_store.open(path) as opened:
        yield opened


def test_neighbors_come_in_the_order_asked_ascending_by_original_id(store):
    found = store.neighbors([2**53 + 1, 7, -3, 7], CLICKS)
    assert found.indptr.tolist() == [0, 1, 4, 5, 8]
    assert found.ids.tolist() == [71, 70, 71, 72, 70, 70, 71, 72]
    assert found.weights.tolist() == [4.0, 1.5, 1.0, 0.5, 2.0, 1.5, 1.0, 0.5]
    assert found.times is None
    assert (found.indptr.dtype, found.ids.dtype, found.weights.dtype) == (np.int64, np.int64, np.float32)
    back = store.neighbors([70, 72], BACK)
    assert back.ids.tolist() == [-3, 7, 7]
    assert back.weights.tolist() == [2.0, 1.5, 0.5]


def test_neighbors_with_times_come_by_time(make_store):
    rows = [(1, 5, 0.5, 30), (1, 9, 1.5, -10), (1, 5, 2.5, 20), (2, 5, 9.0, 0)]
    with graph_store.open(make_store(rows)) as store:
        found = store.neighbors([1, 2])
        assert found.ids.tolist() == [9, 5, 5, 5]
        assert found.times.tolist() == [-10, 20, 30, 0]
        assert found.weights.tolist() == [1.5, 2.5, 0.5, 9.0]
        limited = store.neighbors([1], limit=2)
        assert (limited.ids.tolist(), limited.times.tolist()) == ([9, 5], [-10, 20])
        # Parallel edges are added up.
        matrix = store.to_scipy()
        assert matrix.shape == (2, 2)
        assert sorted(matrix.data.tolist()) == [1.5, 3.0, 9.0]


def test_degrees_and_empty_questions(store):
    assert store.degree([7, -3, 7], CLICKS).tolist() == [3, 1, 3]
    assert store.degree(np.array([72, 70, 71], np.int32), BACK).tolist() == [1, 2, 2]
    for empty in ([], np.empty(0, np.int64), np.empty(0)):
        assert store.degree(empty, CLICKS).size == 0
        found = store.neighbors(empty, CLICKS)
        assert (found.indptr.tolist(), found.ids.size, found.weights.size) == ([0], 0, 0)


def test_the_edge_type_may_be_left_out_where_there_is_one(make_store, store):
    with graph_store.open(make_store(ROWS)) as one:
        assert one.degree([7]).tolist() == [3]
    with pytest.raises(UnknownEdgeType, match=f"no edge type 'None'; it has {CLICKS}, {BACK}"):
        store.degree([7])


@pytest.mark.parametrize("ask", ["degree", "neighbors", "sample"])
def test_unknown_names_and_ids_are_named_with_what_there_is(store, ask):
    def call(ids, edge_type):
        options = {"fanouts": [2], "seed": 1} if ask == "sample" else {}
        return getattr(store, ask)(ids, edge_type, **options)

    with pytest.raises(UnknownEdgeType, match=f"no edge type 'user:buys:item'; it has {CLICKS}, {BACK}"):
        call([7], "user:buys:item")
    for missing in (404, 70, 2**53, 2**53 + 2, -(2**63), 2**63 - 1, 0):
        with pytest.raises(UnknownId, match=f"no user has the id {missing}$"):
            call([7, missing, 405], CLICKS)
    with pytest.raises(UnknownId, match="no user has the id 9223372036854775808"):
        call(np.array([2**63], np.uint64), CLICKS)
    for wrong in ([7.0], ["7"], [True], np.array([7.5])):
        with pytest.raises(TypeError, match="ids of user are integers"):
            call(wrong, CLICKS)


def test_unknown_node_types_are_named_with_what_there_is(store):
    for ask in (store.ids, store.nodes, store.node_base):
        with pytest.raises(UnknownNodeType, match="no node type 'usr'; it has item, user"):
            ask("usr")
    with pytest.raises(UnknownEdgeType, match="no edge type 'x'"):
        store.to_scipy("x")
    with pytest.raises(UnknownEdgeType, match="no edge type 'x'"):
        store.adjacency("x")


def test_a_closed_store_says_so_and_what_it_gave_stays(path):
    store = graph_store.open(path)
    adjacency, ids = store.adjacency(CLICKS), store.ids("user")
    store.close()
    store.close()
    for ask in (
        lambda: store.degree([7], CLICKS),
        lambda: store.neighbors([7], CLICKS),
        lambda: store.sample([7], CLICKS, fanouts=[1], seed=0),
        lambda: store.ids("user"),
        lambda: store.to_scipy(CLICKS),
        lambda: store.adjacency(CLICKS),
    ):
        with pytest.raises(StoreClosed, match="the store was closed; open it again"):
            ask()
    assert adjacency.num_edges == 5
    assert sorted(ids.tolist()) == [-3, 7, 2**53 + 1]


def test_a_store_opens_and_verifies_where_nothing_can_be_written(make_store, tmp_path):
    folder = tmp_path / "readonly"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], capture_output=True).returncode:
        pytest.skip("no file system can be mounted here")
    try:
        shutil.copytree(make_store(ROWS, reverse=True), folder / "a.store")
        shutil.copytree(folder / "a.store", folder / "b.store")
        shutil.rmtree(folder / "b.store" / "arena")
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        check(folder / "a.store", ROWS, reverse=True)
        assert graph_store.verify(folder / "b.store") == []
        with pytest.raises(graph_store.GraphStoreError, match="arena is absent and cannot be written: Read-only"):
            graph_store.open(folder / "b.store")
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def test_who_has_a_store_open_keeps_it_when_another_takes_its_place(make_store, tmp_path):
    path = make_store(ROWS, path=tmp_path / "clicks.store", reverse=True)
    with graph_store.open(path) as store:
        make_store([(1, 2, 1.0, None)], path=path, overwrite=True)
        assert store.uuid != graph_store.info(path)["uuid"]
        assert lists_of(store, CLICKS) == {node: Twin(ROWS).lists[node] for node in (-3, 7, 2**53 + 1)}
        assert store.sample([7], CLICKS, fanouts=[-1, -1], seed=0).hops[1].src.size == 5
        shutil.rmtree(path)
        assert store.degree([7], CLICKS).tolist() == [3]


def test_a_store_that_is_replaced_while_it_is_opened_is_opened_whole(make_store, tmp_path, monkeypatch):
    path = make_store(ROWS, path=tmp_path / "clicks.store", reverse=True)
    module = sys.modules["graph_store.view"]
    read_nodes, replaced = module.read_nodes, []

    def replaced_between(*args):
        if not replaced:
            replaced.append(make_store([("x", "y", 1.0, None)], path=path, id_type="string", overwrite=True))
        return read_nodes(*args)

    monkeypatch.setattr(module, "read_nodes", replaced_between)
    with graph_store.open(path) as store:
        assert list(store.edge_types) == [CLICKS]
        assert lists_of(store, CLICKS) == {"x": [("y", 1.0, None)]}


def test_info_has_the_keys_of_its_json(path):
    info = graph_store.info(path)
    assert {"format", "num_shards", "nodes", "edges", "duplicates", "self_loops", "bytes"} <= set(info)
    assert info["format"] == 2
    assert info["num_shards"] == 3
    assert info["nodes"] == {"item": 3, "user": 3}
    assert info["edges"] == {CLICKS: 5, BACK: 5}
    assert info["duplicates"] == info["self_loops"] == {CLICKS: 0, BACK: 0}
