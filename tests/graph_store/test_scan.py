"""Scans: every edge and node once, in original ids, a bounded number at a time."""

import tracemalloc

import numpy as np
import pyarrow as pa
import pytest

import graph_store
from graph_store import BadInput, FeatureType, Schema, UnknownEdgeType, UnknownNodeType
from graph_store.features import take
from graph_store.scan import node_reader

CLICKS, BACK, NEAR = "user:clicks:item", "item:rev_clicks:user", "item:near:item"
# src, dst, weight, time
CLICK_ROWS = [("ann", 10, 1.0, 5), ("ann", 20, 2.0, 3), ("bob", 10, 0.5, -1), ("ann", 10, 4.0, 9)]
NEAR_ROWS = [(10, 20, 0.25), (30, 20, 0.5), (30, 30, 8.0)]


def edges(rows, *names):
    return pa.table(dict(zip(names, map(list, zip(*rows)))))


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("scan") / "shop.store"
    schema = Schema.from_tables(
        {
            CLICKS: {
                "table": edges(CLICK_ROWS, "src", "dst", "weight", "time"),
                "weight": "weight",
                "time": "time",
                "reverse": True,
            },
            NEAR: {"table": edges(NEAR_ROWS, "src", "dst", "weight"), "weight": "weight", "undirected": True},
        },
        id_types={"user": "string"},
    )
    graph_store.ingest(schema, path, num_shards=2)
    with graph_store.open(path) as store:
        yield store


def rows_of(reader):
    return [tuple(row.values()) for batch in reader for row in batch.to_pylist()]


def test_a_scan_gives_every_edge_once_with_its_weight_and_time(shop):
    reader = shop.scan(CLICKS)
    assert isinstance(reader, pa.RecordBatchReader)
    assert reader.schema == pa.schema(
        {"src": pa.large_string(), "dst": pa.int64(), "weight": pa.float32(), "time": pa.int64()}
    )
    assert sorted(rows_of(reader)) == sorted(CLICK_ROWS)


def test_a_scan_of_the_reverse_type_has_the_ends_exchanged(shop):
    assert sorted(rows_of(shop.scan(BACK))) == sorted((dst, src, *rest) for src, dst, *rest in CLICK_ROWS)


def test_an_undirected_edge_is_given_once_and_with_both_in_both_directions(shop):
    assert sorted(rows_of(shop.scan(NEAR))) == [(10, 20, 0.25), (20, 30, 0.5), (30, 30, 8)]
    assert sorted(rows_of(shop.scan(NEAR, both=True))) == [
        (10, 20, 0.25),
        (20, 10, 0.25),
        (20, 30, 0.5),
        (30, 20, 0.5),
        (30, 30, 8.0),
    ]


def test_batches_have_at_most_as_many_rows_as_asked_for(shop):
    assert [batch.num_rows for batch in shop.scan(CLICKS, batch_rows=1)] == [1, 1, 1, 1]
    assert sorted(rows_of(shop.scan(CLICKS, batch_rows=1))) == sorted(CLICK_ROWS)
    assert sorted(rows_of(shop.scan(NEAR, batch_rows=2, both=True))) == sorted(rows_of(shop.scan(NEAR, both=True)))


def test_a_scan_of_nodes_gives_each_id_once_in_dense_order(shop):
    assert rows_of(shop.scan_nodes("user")) == [(name,) for name in shop.ids("user").tolist()]
    assert rows_of(shop.scan_nodes("item", batch_rows=1)) == [(item,) for item in shop.ids("item").tolist()]
    assert shop.scan_nodes("item").schema == pa.schema({"id": pa.int64()})


def test_what_is_not_there_is_said_when_the_scan_is_asked_for(shop):
    with pytest.raises(UnknownEdgeType, match="no edge type 'user:likes:item'"):
        shop.scan("user:likes:item")
    with pytest.raises(UnknownNodeType, match="no node type 'shop'"):
        shop.scan_nodes("shop")
    with pytest.raises(BadInput, match="user has no feature 'age'"):
        shop.scan_nodes("user", ["age"])
    with pytest.raises(BadInput, match="near:item has no feature 'x'"):
        shop.scan(NEAR, features=["x"])
    for call in (shop.scan, shop.scan_nodes):
        with pytest.raises(ValueError, match="batch_rows must be 1 or more, got 0"):
            call(CLICKS if call == shop.scan else "user", batch_rows=0)


def test_a_list_longer_than_a_batch_is_read_in_parts_within_bounded_memory(make_store):
    hub = [(7, other, float(other % 91), other % 13) for other in range(200_000)]
    few = [(node, node + 1, 1.0, 0) for node in range(20)]
    path = make_store(hub + few, num_shards=2)
    with graph_store.open(path) as store:
        for _ in store.scan(CLICKS, batch_rows=1000):  # compiled kernels do not count
            break
        tracemalloc.start()
        sums, sizes = np.zeros(4), []
        for batch in store.scan(CLICKS, batch_rows=1000):
            sizes.append(batch.num_rows)
            sums += [np.sum(column.to_numpy(), dtype=np.float64) for column in batch.columns]
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert sum(sizes) == 200_020
    assert max(sizes) == 1000
    assert sums[:2].tolist() == [7 * 200_000 + 190, 199_999 * 100_000 + 210]
    # 28 bytes an edge: the list of the hub alone would take 5.6 MB
    assert peak < 1_500_000


def test_parts_of_lists_are_the_lists(make_store):
    random = np.random.default_rng(3)
    rows = [(int(s), int(d), float(w), int(t)) for s, d, w, t in random.integers(0, 60, (4000, 4))]
    rows += [(99, int(d), float(d), int(t)) for d, t in random.integers(0, 700, (2000, 2))]
    path = make_store(rows, num_shards=3)
    with graph_store.open(path) as store:
        lists = store.neighbors(store.ids("user"), CLICKS)
        src = np.repeat(store.ids("user"), np.diff(lists.indptr))
        expected = list(zip(src.tolist(), lists.ids.tolist(), lists.weights.tolist(), lists.times.tolist()))
        for size in (7, 513, 100_000):
            assert sorted(rows_of(store.scan(CLICKS, batch_rows=size))) == sorted(expected)


def test_a_store_without_edges_gives_no_batch(make_store):
    with graph_store.open(make_store([])) as store:
        assert list(store.scan(CLICKS)) == []
        assert list(store.scan_nodes("user")) == []


ITEM_FEATURES = (
    FeatureType("emb", "vector", dim=2),
    FeatureType("half", "vector", dtype="float16", dim=1),
    FeatureType("code", "vector", dtype="int8", dim=2, scale=0.5),
    FeatureType("price"),
    FeatureType("stock", dtype="int16"),
    FeatureType("new", dtype="bool"),
    FeatureType("kind", "category"),
    FeatureType("tags", "ids"),
    FeatureType("title", "string"),
    FeatureType("id"),
)
ITEM_ROWS = {
    10: [[1.0, 2.0], [0.5], [0.5, -1.0], 9.5, -3, True, "book", [4, 5], "Ä", 1.5],
    20: [None, None, None, None, None, None, None, None, None, None],
    30: [[0.0, -1.0], [2.0], [63.5, 0.0], float("nan"), 7, False, "toy", [], "", 0.0],
}


@pytest.fixture(scope="module")
def featured(tmp_path_factory):
    path = tmp_path_factory.mktemp("scan") / "featured.store"
    graph_store.ingest(featured_schema(), path, num_shards=2)
    return path


def featured_schema():
    arrow = [
        pa.list_(pa.float32(), 2),
        pa.list_(pa.float32(), 1),
        pa.list_(pa.float32(), 2),
        pa.float32(),
        pa.int16(),
        pa.bool_(),
        pa.string(),
        pa.list_(pa.int64()),
        pa.string(),
        pa.float32(),
    ]
    columns = {"item": pa.array(list(ITEM_ROWS), pa.int64())}
    for place, (feature, kind) in enumerate(zip(ITEM_FEATURES, arrow)):
        name = "an_id" if feature.name == "id" else feature.name
        columns[name] = pa.array([row[place] for row in ITEM_ROWS.values()], kind)
    named = [FeatureType("id", columns="an_id") if each.name == "id" else each for each in ITEM_FEATURES]
    near = pa.table(
        {
            "src": [30, 10, 10],
            "dst": [20, 20, 30],
            "weight": pa.array([1, 2, 3], pa.float32()),
            "how": ["far", None, "close"],
            "time": pa.array([1.5, None, 2.5], pa.float32()),
        }
    )
    return Schema.from_tables(
        {
            NEAR: {
                "table": near,
                "weight": "weight",
                "undirected": True,
                "features": (
                    FeatureType("how", "category"),
                    FeatureType("time"),
                    FeatureType("weight", columns="weight"),
                ),
            }
        },
        {"item": {"table": pa.table(columns), "id": "item", "features": tuple(named)}},
    )


def test_features_of_nodes_come_as_arrow_columns_and_absent_ones_as_null(featured):
    with graph_store.open(featured) as store:
        reader = store.scan_nodes("item")
        assert reader.schema.names == [
            "id", "emb", "half", "code", "price", "stock", "new", "kind", "tags", "title", "id_",
        ]  # fmt: skip
        assert [field.type for field in reader.schema][1:] == [
            pa.list_(pa.float32(), 2),
            pa.list_(pa.float16(), 1),
            pa.list_(pa.float32(), 2),
            pa.float32(),
            pa.int16(),
            pa.bool_(),
            pa.dictionary(pa.int32(), pa.large_string()),
            pa.list_(pa.int64()),
            pa.large_string(),
            pa.float32(),
        ]
        found = {row[0]: list(row[1:]) for row in rows_of(reader)}
        assert set(found) == {10, 20, 30}
        assert found[10] == ITEM_ROWS[10]
        assert found[20] == ITEM_ROWS[20]
        assert np.isnan(found[30][3])
        assert found[30][:3] + found[30][4:] == ITEM_ROWS[30][:3] + ITEM_ROWS[30][4:]


def test_some_features_are_given_in_the_order_asked(featured):
    with graph_store.open(featured) as store:
        words = {word for batch in store.scan_nodes("item", ["kind"]) for word in batch["kind"].dictionary.to_pylist()}
        assert words == {"book", "toy"}  # and not what stands for an absent one
        reader = store.scan_nodes("item", ["title", "price"], batch_rows=1)
        assert reader.schema.names == ["id", "title", "price"]
        assert sorted(rows_of(reader))[:2] == [(10, "Ä", 9.5), (20, None, None)]
        assert store.scan_nodes("item", ()).schema.names == ["id"]


def test_vectors_of_int8_can_be_given_as_they_are_stored(featured):
    with graph_store.open(featured) as store:
        reader = node_reader(store, "item", ["code"], stored=True)
        assert reader.schema.field("code").type == pa.list_(pa.int8(), 2)
        assert sorted(rows_of(reader)) == [(10, [1, -2]), (20, None), (30, [127, 0])]


def test_features_of_edges_follow_their_edge_under_names_of_their_own(featured):
    with graph_store.open(featured) as store:
        reader = store.scan(NEAR, both=True)
        assert reader.schema.names == ["src", "dst", "weight", "how", "time", "weight_"]
        assert sorted(rows_of(reader)) == [
            (10, 20, 2.0, None, None, 2.0),
            (10, 30, 3.0, "close", 2.5, 3.0),
            (20, 10, 2.0, None, None, 2.0),
            (20, 30, 1.0, "far", 1.5, 1.0),
            (30, 10, 3.0, "close", 2.5, 3.0),
            (30, 20, 1.0, "far", 1.5, 1.0),
        ]
        assert store.scan(NEAR, features=()).schema.names == ["src", "dst", "weight"]
        assert len(rows_of(store.scan(NEAR, batch_rows=1))) == 3


def test_a_scan_shows_the_version_that_the_store_is_open_at(shop, tmp_path):
    path = tmp_path / "s.store"
    schema = Schema.from_tables({"a:r:b": pa.table({"src": ["x", "y"], "dst": [1, 2]})}, id_types={"a": "string"})
    graph_store.ingest(schema, path, num_shards=2)
    with graph_store.open(path) as old, graph_store.GraphWriter(path) as writer:
        writer.add_edges("a:r:b", ["z", "x"], [2, 3])
        writer.delete_nodes("b", [1])
        with graph_store.open(path) as new:
            assert sorted(rows_of(new.scan("a:r:b"))) == [("x", 3), ("y", 2), ("z", 2)]
            assert sorted(rows_of(new.scan_nodes("a"))) == [("x",), ("y",), ("z",)]
            assert sorted(rows_of(new.scan_nodes("b"))) == [(2,), (3,)]
        assert sorted(rows_of(old.scan("a:r:b"))) == [("x", 1), ("y", 2)]


def test_nodes_that_came_later_have_the_features_they_were_given_and_the_others_null(featured):
    with graph_store.GraphWriter(featured) as writer:
        version = writer.add_nodes("item", [40, 50], {"price": [2.0, None], "kind": ["car", "book"]}).version
        writer.set_features("item", [10], {"kind": ["toy"]})
    with graph_store.open(featured) as store:
        found = {row[0]: row[1:] for row in rows_of(store.scan_nodes("item", ["price", "kind", "tags"]))}
        assert found.pop(30)[1:] == ("toy", [])
        assert found == {
            10: (9.5, "toy", [4, 5]),
            20: (None, None, None),
            40: (2.0, "car", None),
            50: (None, "book", None),
        }
    with graph_store.open(featured, as_of=version - 1) as store:
        assert len(rows_of(store.scan_nodes("item"))) == 3


def test_rows_that_a_table_has_not_cost_no_copy_of_it():
    feature = FeatureType("emb", "vector", dim=100)
    table = {"present": np.ones(10_000, np.uint8), "values": np.ones(1_000_000, np.float32)}
    tracemalloc.start()
    taken = take(feature, table, np.array([-1, 7]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken["present"].tolist() == [0, 1]
    assert taken["values"].tolist() == [0.0] * 100 + [1.0] * 100
    assert peak < 10_000  # the table has 4 MB


def test_damaged_strings_are_not_given(tmp_path, monkeypatch):
    monkeypatch.setattr("graph_store.arena.CHECKED_AT_ONCE", 0)
    names = [f"node-{number:05}" for number in range(20_000)]
    schema = Schema.from_tables({"n:to:n": pa.table({"src": names, "dst": names})}, id_types={"n": "string"})
    graph_store.ingest(schema, tmp_path / "s.store", num_shards=2)
    (file,) = (tmp_path / "s.store" / "arena").glob("*.nodes-0")
    data = bytearray(file.read_bytes())
    data[data.rindex(b"node-")] ^= 1
    file.write_bytes(data)
    with graph_store.open(tmp_path / "s.store") as store:
        for scan in (store.scan, lambda: store.scan_nodes("n")):
            with pytest.raises(graph_store.CorruptBlock, match="nodes-0: section 'ids' is damaged"):
                scan().read_all()


def test_unsigned_ids_stay_unsigned(tmp_path):
    table = pa.table({"src": pa.array([2**64 - 1, 3], pa.uint64()), "dst": pa.array([3, 2**63], pa.uint64())})
    graph_store.ingest(
        Schema.from_tables({"n:to:n": table}, id_types={"n": "unsigned"}), tmp_path / "u.store", num_shards=2
    )
    with graph_store.open(tmp_path / "u.store") as store:
        assert store.scan("n:to:n").schema.types == [pa.uint64(), pa.uint64()]
        assert sorted(rows_of(store.scan("n:to:n"))) == [(3, 2**63), (2**64 - 1, 3)]
        assert sorted(rows_of(store.scan_nodes("n"))) == [(3,), (2**63,), (2**64 - 1,)]


def test_duckdb_reads_a_scan(shop):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (it is in the extra 'bench')")
    clicks = shop.scan(CLICKS)  # noqa: F841 (DuckDB finds it by its name)
    found = duckdb.sql("select src, count(*), sum(weight) from clicks group by src order by src").fetchall()
    assert found == [("ann", 3, 7.0), ("bob", 1, 0.5)]


def test_duckdb_reads_features(featured):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed (it is in the extra 'bench')")
    with graph_store.open(featured) as store:
        items = store.scan_nodes("item", ["kind", "tags", "emb", "title"])  # noqa: F841
        found = duckdb.sql("select id, len(tags), emb[2], title from items where id <= 30 order by id").fetchall()
    assert found == [(10, 2, 2.0, "Ä"), (20, None, None, None), (30, 0, -1.0, "")]


@pytest.mark.parametrize("strings", [False, True])
def test_undirected_edges_go_from_the_lower_id_to_the_higher_whatever_the_shards(tmp_path, strings):
    pairs = np.random.default_rng(0).integers(0, 30, (60, 2)).tolist()
    name = (lambda number: f"n{number}é") if strings else int
    ends = [[name(end) for end in pair] for pair in pairs]
    table = pa.table({"src": [src for src, _ in ends], "dst": [dst for _, dst in ends]})
    types = {"id_types": {"page": "string"}} if strings else {}
    schema = Schema.from_tables({"page:links:page": {"table": table, "undirected": True}}, **types)
    found = []
    for shards in (1, 3):
        graph_store.ingest(schema, tmp_path / f"{shards}", num_shards=shards)
        with graph_store.open(tmp_path / f"{shards}") as store:
            found.append(sorted(rows_of(store.scan())))
    key = (lambda text: text.encode()) if strings else int
    assert found[0] == found[1] == sorted({tuple(sorted(pair, key=key)) for pair in ends})
