"""Stores in other numbers of shards hold the same ids, edges and features."""

import numpy as np
import pytest

import graph_store
from graph_store import BadInput, GraphWriter, Schema
from graph_store.reshard import reshard


def content(path):
    """Return everything that a store holds, by original ids."""
    with graph_store.open(path) as store:
        found = {name: sorted(store.ids(name).tolist()) for name in store.node_types}
        for name, entry in store.edge_types.items():
            ids = store.ids(entry.src)
            lists = store.neighbors(ids, name)
            rows = np.repeat(np.arange(ids.size), np.diff(lists.indptr))
            columns = [ids[rows], lists.ids, *(part for part in (lists.weights, lists.times) if part is not None)]
            found[name] = sorted(zip(*(column.tolist() for column in columns)))
        return found


@pytest.mark.parametrize("num_shards", [1, 3, 16])
def test_a_resharded_store_holds_the_same(tmp_path, num_shards):
    random = np.random.default_rng(1)
    rows = random.integers(-500, 500, (8000, 2)) * 2**40
    rows[:700, 0] = 7  # a hub
    with open(tmp_path / "edges.csv", "w") as file:
        for number, (src, dst) in enumerate(rows.tolist()):
            file.write(f"{src},{dst},{number % 7}.5,{number % 11}\n")
    schema = Schema.from_edges(tmp_path / "edges.csv", "a:r:b", weight=2, time=3, reverse=True)
    graph_store.ingest(schema, tmp_path / "store", num_shards=4)
    with GraphWriter(tmp_path / "store") as writer:
        writer.add_edges("a:r:b", [1, 2], [3, rows[0, 1]], weight=[0.25, 0.5], time=[-5, 2**62])
        writer.delete_nodes("b", rows[1:20, 1])
        writer.add_nodes("a", [2**61])
    report = reshard(tmp_path / "store", tmp_path / "other", num_shards=num_shards)
    assert report["num_shards"] == num_shards
    assert graph_store.verify(tmp_path / "other") == []
    assert content(tmp_path / "other") == content(tmp_path / "store")
    assert graph_store.info(tmp_path / "other")["uuid"] != graph_store.info(tmp_path / "store")["uuid"]


def test_strings_keep_their_ids(tmp_path):
    (tmp_path / "edges.tsv").write_text("ä\tb\nb\tç d\nb\tä\n日本\tb\n", encoding="utf-8")
    schema = Schema.from_edges(tmp_path / "edges.tsv", "p:r:p", header=False, id_type="string", undirected=True)
    graph_store.ingest(schema, tmp_path / "store", num_shards=2)
    reshard(tmp_path / "store", tmp_path / "other", num_shards=5)
    assert graph_store.verify(tmp_path / "other") == []
    assert content(tmp_path / "other") == content(tmp_path / "store")
    assert content(tmp_path / "other")["p"] == ["b", "ä", "ç d", "日本"] == sorted(["ä", "b", "ç d", "日本"])


def test_what_cannot_be_leaves_everything_as_it_was(tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n")
    graph_store.ingest(Schema.from_edges(tmp_path / "edges.csv", "a:r:b"), tmp_path / "store")
    with pytest.raises(BadInput, match="num_shards must be 1 to 65536, got 0"):
        reshard(tmp_path / "store", tmp_path / "other", num_shards=0)
    with pytest.raises(BadInput, match="exists already"):
        reshard(tmp_path / "store", tmp_path / "store", num_shards=3)
    with pytest.raises(BadInput, match=r"lies within the store .*store; choose a path outside of it"):
        reshard(tmp_path / "store", tmp_path / "store" / "deeper" / "other", num_shards=3)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["edges.csv", "store"]
    assert content(tmp_path / "store")["a:r:b"] == [(1, 2)]
