"""Features through ingest: those of nodes by id, those of edges with their edge, under any budget."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store import FeatureType, Schema
from tests.graph_store.budgets import BUDGETS, ROOMY, content

FEATURES = (
    FeatureType("vec", "vector", dim=3),
    FeatureType("small", "vector", dtype="int8", dim=2, scale=0.5),
    FeatureType("age", dtype="int16"),
    FeatureType("word", "category"),
    FeatureType("tags", "ids"),
    FeatureType("text", "string"),
)


def values(row):
    """Return what a row has, None where a value is absent."""
    return {
        "vec": [row + 0.5, -row, 2.0 * row],
        "small": [row % 7, -(row % 5)],
        "age": None if row % 4 == 0 else row % 100,
        "word": None if row % 5 == 0 else f"w{row % 11}",
        "tags": list(range(row % 3)),
        "text": None if row % 6 == 0 else "é" * (row % 4) + str(row),
    }


TYPES = {
    "vec": pa.list_(pa.float32(), 3),
    "small": pa.list_(pa.float32(), 2),
    "age": pa.int16(),
    "word": pa.string(),
    "tags": pa.list_(pa.int64()),
    "text": pa.string(),
}


def columns(rows):
    """Return the columns of features of rows."""
    found = [values(row) for row in rows]
    return {name: pa.array([each[name] for each in found], kind) for name, kind in TYPES.items()}


def rows_of(reader, *keys):
    """Return {key: row of features} of a scan."""
    found = {}
    for batch in reader:
        for row in batch.to_pylist():
            key = tuple(row.pop(each) for each in keys)
            row.pop("weight", None)
            row.pop("time", None)
            found.setdefault(key, []).append(row)
    return found


def ids_of(kind, numbers):
    return [f"n{number}" for number in numbers] if kind == "string" else [number * 2**40 for number in numbers]


@pytest.mark.parametrize("kind", ["integer", "string"])
def test_features_of_nodes_are_found_by_id_under_any_budget(tmp_path, budget, kind):
    random = np.random.default_rng(0)
    listed = random.permutation(400)[:300].tolist()
    # A node that is listed twice has of each feature the value that came last.
    order = [*listed, *listed[:10]]
    rows = [*range(300), *range(1000, 1010)]
    table = pa.table({"id": ids_of(kind, order), **columns(rows)})
    pq.write_table(table, tmp_path / "nodes.parquet", row_group_size=50)
    ends = random.integers(0, 400, (2, 1000)).tolist()
    edges = pa.table({"src": ids_of(kind, ends[0]), "dst": ids_of(kind, ends[1])})
    node = {"user": {"table": pq.read_table(tmp_path / "nodes.parquet"), "features": FEATURES}}
    schema = Schema.from_tables({"user:knows:user": edges}, node, id_types={"user": kind})
    last = {}
    for number, row in zip(order, rows):
        given = {name: value for name, value in values(row).items() if value is not None}
        last[number] = last.get(number, dict.fromkeys(TYPES)) | given
    expected = None
    for parts in (ROOMY, *BUDGETS.values()):
        budget(parts)
        graph_store.ingest(schema, tmp_path / "store", num_shards=3, overwrite=True)
        expected = content(tmp_path / "store") if expected is None else expected
        assert content(tmp_path / "store") == expected
    with graph_store.open(tmp_path / "store") as store:
        found = rows_of(store.scan_nodes("user"), "id")
    absent = dict.fromkeys(TYPES)
    for number in {*listed, *ends[0], *ends[1]}:
        (row,) = found[ids_of(kind, [number])[0],]
        assert row == last.get(number, absent), number


@pytest.mark.parametrize("way", ["directed", "reverse", "undirected"])
@pytest.mark.parametrize("duplicates", ["first", "all"])
def test_features_of_edges_stay_with_their_edge(tmp_path, budget, way, duplicates):
    random = np.random.default_rng(1)
    ends = random.integers(0, 30, (2, 700)).tolist()
    table = pa.table({"src": ends[0], "dst": ends[1], **columns(range(700))})
    given = {"table": table, "features": FEATURES, "duplicates": duplicates, "self_loops": "drop"}
    schema = Schema.from_tables({"a:r:a": given | ({} if way == "directed" else {way: True})})
    expected = None
    for parts in (ROOMY, BUDGETS["nothing in memory"], BUDGETS["some rows on disk"]):
        budget(parts)
        graph_store.ingest(schema, tmp_path / "store", num_shards=3, overwrite=True)
        expected = content(tmp_path / "store") if expected is None else expected
        assert content(tmp_path / "store") == expected
    rows = {}
    for row, (src, dst) in enumerate(zip(*ends)):
        if src == dst:
            continue
        key = tuple(sorted((src, dst))) if way == "undirected" else (src, dst)
        if duplicates == "all" or key not in rows:
            rows.setdefault(key, []).append(values(row))
    with graph_store.open(tmp_path / "store") as store:
        found = rows_of(store.scan("a:r:a", both=True), "src", "dst")
        for key, expected_rows in rows.items():
            assert found[key] == expected_rows
            if way == "undirected":
                assert found[key[::-1]] == expected_rows
        assert sum(map(len, found.values())) == sum(map(len, rows.values())) * (2 if way == "undirected" else 1)
        if way == "reverse":
            back = rows_of(store.scan("a:rev_r:a", both=True), "src", "dst")
            assert {key[::-1]: value for key, value in back.items()} == found


@pytest.mark.parametrize("reverse", [False, True])
def test_features_of_each_relation_are_its_own(tmp_path, budget, reverse):
    random = np.random.default_rng(2)
    ends, relations = random.integers(0, 40, (2, 500)).tolist(), random.integers(0, 7, 500).tolist()
    names = [f"r{relation}" for relation in relations]
    table = pa.table({"src": ends[0], "dst": ends[1], "relation": names, **columns(range(500))})
    features = (FEATURES[0], FEATURES[3], FEATURES[4])
    given = {"table": table, "relation": "relation", "features": features, "duplicates": "all", "reverse": reverse}
    expected = None
    for parts in (ROOMY, BUDGETS["nothing in memory"]):
        budget(parts)
        graph_store.ingest(Schema.from_tables({"a:*:a": given}), tmp_path / "store", num_shards=2, overwrite=True)
        expected = content(tmp_path / "store") if expected is None else expected
        assert content(tmp_path / "store") == expected
    with graph_store.open(tmp_path / "store") as store:
        for name in sorted(set(names)):
            rows = {}
            for row, (src, dst, relation) in enumerate(zip(*ends, names)):
                if relation == name:
                    kept = {key: value for key, value in values(row).items() if key in ("vec", "word", "tags")}
                    rows.setdefault((src, dst), []).append(kept)
            assert rows_of(store.scan(f"a:{name}:a"), "src", "dst") == rows
            assert store.edge_types[f"a:{name}:a"].edge_rows == names.count(name)
            if reverse:
                back = rows_of(store.scan(f"a:rev_{name}:a"), "src", "dst")
                assert {key[::-1]: value for key, value in back.items()} == rows


def test_features_without_any_node_or_edge_are_empty_tables(tmp_path):
    empty = pa.table({"id": pa.array([], pa.int64()), **columns([])})
    edges = pa.table({"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64()), **columns([])})
    schema = Schema.from_tables(
        {"a:r:b": {"table": edges, "features": FEATURES}}, {"a": {"table": empty, "features": FEATURES}}
    )
    graph_store.ingest(schema, tmp_path / "store", num_shards=2)
    assert graph_store.verify(tmp_path / "store") == []
    with graph_store.open(tmp_path / "store") as store:
        assert rows_of(store.scan_nodes("a"), "id") == {}
