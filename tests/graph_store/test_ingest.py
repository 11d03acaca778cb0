"""Ingest: what a store holds for the rows it was made of."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, Schema
from tests.graph_store.stores import BACK, CLICKS, check, many_rows
from tests.oracles import lists_of

EXTREMES = [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1]


def rows_strategy(ids, weighted, timed):
    weight = st.floats(-10, 10, width=32) if weighted else st.none()
    time = st.one_of(st.integers(-3, 3), st.sampled_from(EXTREMES)) if timed else st.none()
    return st.lists(st.tuples(ids, ids, weight, time), max_size=40)


@settings(max_examples=15, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    data=st.data(),
    weighted=st.booleans(),
    timed=st.booleans(),
    way=st.sampled_from(["directed", "reverse", "undirected"]),
    strings=st.booleans(),
    num_shards=st.sampled_from([1, 2, 3]),
)
def test_a_store_answers_as_the_dicts_of_its_rows(make_store, data, weighted, timed, way, strings, num_shards):
    numbers = st.one_of(st.integers(0, 6), st.integers(-1000, 1000), st.sampled_from(EXTREMES))
    ids = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=4) if strings else numbers
    rows = data.draw(rows_strategy(ids, weighted, timed))
    edge_type = "page:links:page" if way == "undirected" else CLICKS
    options = {} if way == "directed" else {way: True}
    path = make_store(
        rows, edge_type=edge_type, num_shards=num_shards, id_type="string" if strings else "integer", **options
    )
    check(path, rows, edge_type=edge_type, **options)


@pytest.mark.parametrize("num_shards", [1, 2, 7, 16])
def test_any_number_of_shards_holds_the_same_graph(make_store, num_shards):
    rows = many_rows(weighted=num_shards % 2 == 0, timed=num_shards in (2, 7))
    path = make_store(rows, num_shards=num_shards, reverse=True)
    check(path, rows, reverse=True)
    with graph_store.open(path) as store:
        assert store.degree([1000, 1001, 1002, 1003], CLICKS).tolist() == [512, 513, 1024, 1025]
        assert store.num_shards == num_shards
        shards = np.repeat(np.arange(num_shards), np.diff(store.node_base("user")))
        assert np.array_equal(store.nodes("user") % num_shards, shards)


def content(path):
    """Return the bytes of a store's lists and ids: of its arena, which verify compares with the shards."""
    assert graph_store.verify(path) == []
    return {file.name: file.read_bytes() for file in sorted((path / "arena").iterdir())}


def test_the_store_does_not_depend_on_threads_or_on_the_order_of_rows(make_store):
    rows = many_rows(200_000, weighted=False)
    one = content(make_store(rows, threads=1, num_shards=2))
    assert content(make_store(rows, threads=3, num_shards=2)) == one
    assert content(make_store(rows[::-1], threads=2, num_shards=2)) == one


@pytest.mark.parametrize("options", [{}, {"reverse": True}, {"edge_type": "page:links:page", "undirected": True}])
@pytest.mark.parametrize("id_type", ["integer", "string"])
def test_no_rows_make_an_empty_store(make_store, options, id_type):
    path = make_store([], id_type=id_type, **options)
    assert graph_store.verify(path) == []
    info = graph_store.info(path)
    assert set(info["nodes"].values()) == set(info["edges"].values()) == {0}
    with graph_store.open(path) as store:
        for name in store.edge_types:
            assert store.to_scipy(name).shape == (0, 0)
            assert store.adjacency(name).num_edges == 0
            assert store.neighbors([], name).ids.size == 0


@pytest.mark.parametrize("text", ["", "src,dst\n", "src,dst,weight\n"])
def test_an_empty_file_or_a_header_alone_makes_an_empty_store_or_one_clear_error(tmp_path, text):
    (tmp_path / "edges.csv").write_text(text)
    schema = Schema.from_edges(tmp_path / "edges.csv", CLICKS)
    if not text:
        with pytest.raises(BadInput, match=r"edges\.csv"):
            graph_store.ingest(schema, tmp_path / "store")
        assert not (tmp_path / "store").exists()
    else:
        graph_store.ingest(schema, tmp_path / "store", num_shards=2)
        assert graph_store.info(tmp_path / "store")["edges"] == {CLICKS: 0}


def test_a_user_without_items_is_a_node_without_edges(tmp_path):
    (tmp_path / "train.txt").write_text("0 5 7\n1\n2 7\n3 \n")
    graph_store.ingest(
        Schema.from_edges(tmp_path / "train.txt", CLICKS, reverse=True), tmp_path / "store", num_shards=2
    )
    assert graph_store.verify(tmp_path / "store") == []
    with graph_store.open(tmp_path / "store") as store:
        assert store.degree([0, 1, 2, 3], CLICKS).tolist() == [2, 0, 1, 0]
        assert store.degree([5, 7], BACK).tolist() == [1, 2]


def test_several_types_and_files_of_one_schema(tmp_path):
    (tmp_path / "one.csv").write_text("u,i,w\na,1,0.5\nb,2,1.5\na,1,9\n")
    (tmp_path / "two.csv").write_text("u,i,w\na,1,7\nc,1,2\n")
    (tmp_path / "follows.tsv").write_text("a\tb\nb\ta\nz\tz\n")
    (tmp_path / "schema.toml").write_text(
        """
        [nodes.user]
        id_type = "string"
        [nodes.item]
        [edges."user:buys:item"]
        files = ["one.csv", "two.csv"]
        weight = "w"
        reverse = true
        [edges."user:follows:user"]
        files = ["follows.tsv"]
        header = false
        undirected = true
        """
    )
    report = graph_store.ingest(Schema.from_toml(tmp_path / "schema.toml"), tmp_path / "store", num_shards=2)
    assert graph_store.verify(tmp_path / "store") == []
    assert report.rows == 8
    assert report.info == graph_store.info(tmp_path / "store")
    assert report.info["nodes"] == {"item": 2, "user": 4}
    assert report.info["edges"] == {"user:buys:item": 3, "item:rev_buys:user": 3, "user:follows:user": 2}
    assert report.info["duplicates"] == {"user:buys:item": 2, "item:rev_buys:user": 2, "user:follows:user": 1}
    assert report.info["self_loops"] == {"user:buys:item": 0, "item:rev_buys:user": 0, "user:follows:user": 1}
    with graph_store.open(tmp_path / "store") as store:
        assert lists_of(store, "user:buys:item", ["a", "b", "c", "z"]) == {
            "a": [(1, 0.5, None)], "b": [(2, 1.5, None)], "c": [(1, 2.0, None)], "z": [],
        }  # fmt: skip
        assert lists_of(store, "item:rev_buys:user", [1, 2]) == {
            1: [("a", 0.5, None), ("c", 2.0, None)], 2: [("b", 1.5, None)],
        }  # fmt: skip
        assert store.neighbors(["z", "a"], "user:follows:user").ids.tolist() == ["z", "b"]


@pytest.mark.parametrize("num_shards", [0, -1, 65537])
def test_an_impossible_number_of_shards_is_refused(make_store, num_shards):
    with pytest.raises(BadInput, match=f"num_shards must be 1 to 65536, got {num_shards}"):
        make_store([(1, 2, None, None)], num_shards=num_shards)


def test_a_budget_below_64_mib_is_refused(make_store):
    with pytest.raises(BadInput, match="at least 64 MiB, got 1000 bytes"):
        make_store([(1, 2, None, None)], memory_bytes=1000)


def test_progress_shows_rows_a_second_on_stderr(tmp_path, capfd):
    (tmp_path / "edges.csv").write_text("1,2\n")
    graph_store.ingest(Schema.from_edges(tmp_path / "edges.csv", CLICKS), tmp_path / "s", num_shards=1, progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "rows/s" in err
    assert "reading" in err
    assert "sealing" in err
