"""Exports: Parquet and a schema that ingest to the same store again, there whole or not at all."""

import os
import sys
import tomllib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store import BadInput, FeatureType, GraphStoreError, Schema
from graph_store.parquet_export import export

CLICKS, NEAR, LINKS, ODD = "user:clicks:item", "item:near:item", "user:links:user", "item:/film/actor:user"


def big_schema():
    """Everything a store can hold: kinds of ids, weights, times, features, rules, undirected, reverse, odd names."""
    clicks = pa.table(
        {
            "user": ["ann", "ann", "bob", "ann"],
            "item": pa.array([2**64 - 1, 20, 2**64 - 1, 20], pa.uint64()),
            "w": [1.0, 2.0, 0.5, 4.0],
            "t": [5, 3, -1, 3],
            "device": ["phone", None, "desk", "phone"],
            "time": pa.array([1.5, 2.5, None, 3.5], pa.float64()),
        }
    )
    near = pa.table(
        {
            "a": pa.array([30, 10, 30, 30], pa.uint64()),
            "b": pa.array([10, 20, 30, 10], pa.uint64()),
            "w": [1.0, 2.0, 3.0, 9.0],
        }
    )
    links = pa.table({"a": ["ann", "bob", "ann"], "b": ["bob", "ann", "bob"]})
    odd = pa.table({"a": pa.array([30], pa.uint64()), "b": ['the "q" \\ é']})
    items = pa.table(
        {
            "key": pa.array([10, 20, 30, 40, 2**64 - 1], pa.uint64()),
            "emb": pa.array([[1.0, 2.0], None, [0.0, -0.5], [3.0, 4.0], None], pa.list_(pa.float32(), 2)),
            "half": pa.array([[0.5], [1.5], None, [2.5], None], pa.list_(pa.float32(), 1)),
            "code": pa.array([[0.5, -63.5], None, [0.0, 63.5], [1.0, 1.0], None], pa.list_(pa.float32(), 2)),
            "price": pa.array([9.5, None, float("nan"), 0.0, 1.0], pa.float32()),
            "stock": pa.array([2**40, None, -1, 0, 1], pa.int64()),
            "new": pa.array([True, False, None, True, None]),
            "kind": ["book", None, "toy", "book", ""],
            "tags": pa.array([[4, 5], [], None, [2**62], None], pa.list_(pa.int64())),
            "title": ["Ä", "", None, "x" * 3000, None],
            "id": pa.array([1, 2, None, 3, 4], pa.int8()),
        }
    )
    features = (
        FeatureType("emb", "vector", dim=2),
        FeatureType("half", "vector", dtype="float16", dim=1),
        FeatureType("code", "vector", dtype="int8", dim=2, scale=0.5),
        FeatureType("price"),
        FeatureType("stock", dtype="int64"),
        FeatureType("new", dtype="bool"),
        FeatureType("kind", "category"),
        FeatureType("tags", "ids"),
        FeatureType("title", "string"),
        FeatureType("id", dtype="int8"),
    )
    return Schema.from_tables(
        {
            CLICKS: {
                "table": clicks,
                "src": "user",
                "dst": "item",
                "weight": "w",
                "time": "t",
                "time_unit": "s",
                "reverse": True,
                "duplicates": "all",
                "missing_nodes": "error",
                "negative_weights": "drop",
                "features": (FeatureType("device", "category"), FeatureType("time", dtype="float64")),
            },
            NEAR: {"table": near, "weight": "w", "undirected": True, "duplicates": "sum", "self_loops": "keep"},
            LINKS: {"table": links, "self_loops": "drop"},
            ODD: {"table": odd},
        },
        {"item": {"table": items, "id": "key", "features": features}},
        id_types={"user": "string", "item": "unsigned"},
    )


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    path = tmp_path_factory.mktemp("export") / "big.store"
    graph_store.ingest(big_schema(), path, num_shards=2)
    return path


def content(path):
    """Return all that a store tells, by ids."""
    with graph_store.open(path) as store:
        nodes = {
            name: (
                entry.id_type,
                entry.features,
                sorted(str(row) for batch in store.scan_nodes(name) for row in batch.to_pylist()),
            )
            for name, entry in store.node_types.items()
        }
        edges = {
            name: (
                (entry.undirected, entry.reverse, entry.weighted, entry.timed, entry.num_edges, entry.self_loops),
                (entry.features, entry.time_unit, entry.rules),
                sorted(str(row) for batch in store.scan(name, both=True) for row in batch.to_pylist()),
            )
            for name, entry in store.edge_types.items()
        }
        return nodes, edges, list(store.edge_types)


def test_an_export_ingests_to_the_same_store_again(big, tmp_path):
    with graph_store.open(big) as store:
        export(store, tmp_path / "out", batch_rows=2)
    graph_store.ingest(Schema.from_toml(tmp_path / "out" / "schema.toml"), tmp_path / "again.store", num_shards=2)
    assert content(tmp_path / "again.store") == content(big)
    assert graph_store.verify(tmp_path / "again.store") == []
    with graph_store.open(big) as store, graph_store.open(tmp_path / "again.store") as again:
        for name in store.node_types:
            assert np.array_equal(store.nodes(name), again.nodes(name))
        for name in store.edge_types:
            nodes = store.nodes(store.edge_types[name].src)
            for ours, theirs in zip(store.adjacency(name).columns(nodes)[:4], again.adjacency(name).columns(nodes)[:4]):
                assert (ours is None and theirs is None) or np.array_equal(ours, theirs)


def test_an_export_of_an_export_is_the_same_files(big, tmp_path):
    with graph_store.open(big) as store:
        export(store, tmp_path / "one")
    graph_store.ingest(Schema.from_toml(tmp_path / "one" / "schema.toml"), tmp_path / "again.store", num_shards=2)
    with graph_store.open(tmp_path / "again.store") as store:
        export(store, tmp_path / "two")
    assert sorted(file.name for file in (tmp_path / "one").iterdir()) == sorted(
        file.name for file in (tmp_path / "two").iterdir()
    )
    for file in (tmp_path / "one").glob("*.parquet"):
        ours, theirs = pq.read_table(file), pq.read_table(tmp_path / "two" / file.name)
        assert ours.schema == theirs.schema
        assert str(ours.to_pylist()) == str(theirs.to_pylist())  # NaN is NaN
    assert (tmp_path / "one" / "schema.toml").read_text() == (tmp_path / "two" / "schema.toml").read_text()


def test_the_files_are_named_after_their_types_and_say_what_the_schema_says(big, tmp_path):
    with graph_store.open(big) as store:
        export(store, tmp_path / "out")
    assert sorted(file.name for file in (tmp_path / "out").iterdir()) == [
        "edges-0-user-clicks-item.parquet",
        "edges-1-item-near-item.parquet",
        "edges-2-user-links-user.parquet",
        "edges-3-item-_film_actor-user.parquet",
        "nodes-0-item.parquet",
        "nodes-1-user.parquet",
        "schema.toml",
    ]
    document = tomllib.loads((tmp_path / "out" / "schema.toml").read_text())
    assert document["edges"][CLICKS] == {
        "files": "edges-0-user-clicks-item.parquet",
        "src": "src",
        "dst": "dst",
        "weight": "weight",
        "time": "time",
        "time_unit": "s",
        "reverse": True,
        "duplicates": "all",
        "missing_nodes": "error",
        "negative_weights": "drop",
        "features": {
            "device": {"kind": "category"},
            "time": {"kind": "scalar", "dtype": "float64", "column": "time_"},
        },
    }
    assert document["nodes"]["item"]["features"]["code"] == {"kind": "vector", "dtype": "int8", "dim": 2, "scale": 0.5}
    assert document["nodes"]["user"] == {"id_type": "string", "files": "nodes-1-user.parquet", "id": "id"}
    names = pq.read_schema(tmp_path / "out" / "nodes-0-item.parquet").names
    assert names[0] == "id"
    assert names[-1] == "id_"


def test_an_export_is_of_the_version_that_is_open_and_leaves_out_what_was_deleted(tmp_path):
    table = pa.table({"src": ["x", "y"], "dst": [1, 2]})
    schema = Schema.from_tables({"a:r:b": table}, id_types={"a": "string"})
    graph_store.ingest(schema, tmp_path / "s.store", num_shards=2)
    with graph_store.GraphWriter(tmp_path / "s.store") as writer:
        writer.add_edges("a:r:b", ["z", "x"], [2, 3])
        writer.delete_nodes("b", [1])
    with graph_store.open(tmp_path / "s.store") as store:
        export(store, tmp_path / "out")
    graph_store.ingest(Schema.from_toml(tmp_path / "out" / "schema.toml"), tmp_path / "again.store", num_shards=2)
    assert content(tmp_path / "again.store") == content(tmp_path / "s.store")


def test_a_store_without_edges_is_exported_too(make_store, tmp_path):
    with graph_store.open(make_store([], reverse=True)) as store:
        export(store, tmp_path / "out")
        assert content(store.path)[0]["user"] == ("integer", [], [])
    graph_store.ingest(Schema.from_toml(tmp_path / "out" / "schema.toml"), tmp_path / "again.store", num_shards=3)
    assert content(tmp_path / "again.store") == content(store.path)


def test_a_folder_that_is_there_stays_as_it_is(big, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("x")
    with graph_store.open(big) as store, pytest.raises(BadInput, match="out: exists already; choose another path"):
        export(store, tmp_path / "out")
    assert [file.name for file in tmp_path.rglob("*")] == ["out", "mine"]


def test_a_format_that_is_unknown_is_refused(big, tmp_path):
    with (
        graph_store.open(big) as store,
        pytest.raises(BadInput, match="format 'csv' cannot be written; known: 'parquet'"),
    ):
        export(store, tmp_path / "out", "csv")


def test_an_export_that_fails_leaves_nothing(big, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sys.modules["graph_store.parquet_export"], "fsync_file", full)
    with graph_store.open(big) as store, pytest.raises(GraphStoreError, match="no space left on the disk"):
        export(store, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_an_export_shows_how_far_it_is(big, tmp_path, capfd):
    with graph_store.open(big) as store:
        export(store, tmp_path / "out", progress=True)
    shown = capfd.readouterr().err
    assert "writing Parquet" in shown


def test_exported_files_are_readable_by_others_who_may_read_the_folder(big, tmp_path):
    with graph_store.open(big) as store:
        export(store, tmp_path / "out")
    mask = os.umask(0)
    os.umask(mask)
    for file in (tmp_path / "out").iterdir():
        assert file.stat().st_mode & 0o777 == 0o666 & ~mask
