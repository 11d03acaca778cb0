"""What a store says of itself."""

import pytest

import graph_store
from graph_store import FeatureType, GraphWriter
from graph_store.info import PARTS, bytes_by_part
from tests.graph_store.empty_stores import edge_type, make_empty, node_type


@pytest.fixture
def store(tmp_path):
    types = [edge_type("a:likes:b", reverse=True), edge_type("a:knows:a", weighted=True, duplicates="sum")]
    return make_empty(tmp_path / "store", [node_type("a", features=(FeatureType("x"),)), node_type("b")], types)


def test_counts_are_those_of_the_newest_version_before_and_after_a_fold(store):
    with GraphWriter(store, fold_rows=0, keep=2) as writer:
        writer.add_edges("a:likes:b", [1, 2, 3], [1, 1, 2])
        writer.delete_nodes("b", [1])
        writer.add_edges("a:knows:a", [1, 1], [2, 2], weight=[1, 1])
        before = graph_store.info(store)
        writer.fold()
        after = graph_store.info(store)
    for found in (before, after):
        assert found["version"] == 4
        assert found["nodes"] == {"a": 3, "b": 1}
        assert found["edges"] == {"a:likes:b": 1, "b:rev_likes:a": 1, "a:knows:a": 1}
        assert found["weighted"] == ["a:knows:a"]
        assert found["rules"] == {"a:knows:a": {"duplicates": "sum"}}
        assert list(found["features"]) == ["a"]
    assert before["generations"] == [{"generation": 1, "version": 1}]
    assert after["generations"] == [{"generation": 1, "version": 1}, {"generation": 2, "version": 4}]


def test_a_file_of_two_generations_counts_once(store):
    with GraphWriter(store, fold_rows=0, keep=1) as writer:
        writer.add_edges("a:likes:b", [1], [1])
        writer.fold()
        before = bytes_by_part(store)["adjacency"]
        writer.set_features("a", [1], {"x": [5]})
        writer.fold()
    # The lists did not change, so both generations have the same files.
    linked = [path for path in (store / "arena").glob("gen-3.edges-*") if path.stat().st_nlink > 1]
    assert linked
    assert bytes_by_part(store)["adjacency"] <= before


def test_parts_are_all_bytes(store):
    found = graph_store.info(store)
    assert tuple(found["parts"]) == PARTS
    files = [file.stat().st_size for file in store.rglob("*") if file.is_file()]
    assert sum(found["parts"].values()) == found["bytes"] == sum(files)
    arena = [file.stat().st_size for file in (store / "arena").iterdir()]
    assert found["arena_bytes"] == sum(arena)


def test_a_store_without_updates_is_not_opened(store, monkeypatch):
    def refuse(*_, **__):
        raise AssertionError

    monkeypatch.setattr("graph_store.store.GraphStore.__init__", refuse)
    assert graph_store.info(store)["version"] == 1
