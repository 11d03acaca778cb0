"""What becomes of rows by the rules of an edge type: equal edges, self loops, missing nodes, bad rows, relations."""

import json
from collections import defaultdict

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, Schema
from tests.graph_store.stores import CLICKS, leftovers

LINKS, BACK = "page:links:page", "page:rev_links:page"


def stored(path, name):
    """Return {src: [(dst, weight, time), …]} of a store, each list sorted."""
    with graph_store.open(path) as store:
        ids = store.ids(store.edge_types[name].src).tolist()
        found = store.neighbors(ids, edge_type=name)
        none = [None] * found.ids.size
        columns = [found.ids.tolist()] + [none if part is None else part.tolist() for part in found[2:4]]
        entries = list(zip(*columns))
        return {node: sorted(entries[low:high]) for node, low, high in zip(ids, found.indptr, found.indptr[1:])}


def expected(rows, *, duplicates="first", self_loops="keep", undirected=False):
    """Apply the rules in plain Python; returns (lists, edges, duplicates, self loops left out)."""
    equal, kept, loops = defaultdict(list), [], 0
    for src, dst, weight, time in rows:
        if src == dst and self_loops == "drop":
            loops += 1
            continue
        kept.append((src, dst))
        ends = tuple(sorted((src, dst))) if undirected else (src, dst)
        equal[(*ends, time)].append(weight)
    lists, edges = defaultdict(list), 0
    for (src, dst, time), weights in equal.items():
        if duplicates == "all":
            found = weights
        elif weights[0] is None or duplicates == "first":
            found = weights[:1]
        else:
            found = [sum(weights) if duplicates == "sum" else max(weights)]
        edges += len(found)
        for weight in found:
            lists[src].append((dst, weight, time))
            if undirected and src != dst:
                lists[dst].append((src, weight, time))
    return {node: sorted(entries) for node, entries in lists.items()}, edges, len(kept) - edges, loops


ROWS = st.tuples(st.booleans(), st.booleans()).flatmap(
    lambda kinds: st.lists(
        st.tuples(
            st.integers(0, 4),
            st.integers(0, 4),
            st.integers(-5, 5).map(float) if kinds[0] else st.none(),
            st.integers(0, 1) if kinds[1] else st.none(),
        ),
        min_size=1,
        max_size=30,
    )
)


@settings(max_examples=40, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    rows=ROWS,
    duplicates=st.sampled_from(["first", "all", "sum", "max"]),
    self_loops=st.sampled_from(["keep", "drop"]),
    way=st.sampled_from(["directed", "reverse", "undirected"]),
)
def test_equal_edges_and_self_loops_are_treated_as_the_type_says(make_store, rows, duplicates, self_loops, way):
    if rows[0][2] is None and duplicates in ("sum", "max"):
        duplicates = "all"
    rules = {"duplicates": duplicates, "self_loops": self_loops}
    options = {} if way == "directed" else {way: True}
    path = make_store(rows, edge_type=LINKS, num_shards=2, **rules, **options)
    assert graph_store.verify(path) == []
    lists, edges, dropped, loops = expected(rows, **rules, undirected=way == "undirected")
    info = graph_store.info(path)
    types = [LINKS, BACK] if way == "reverse" else [LINKS]
    assert info["edges"] == dict.fromkeys(types, edges)
    assert info["duplicates"] == dict.fromkeys(types, dropped)
    nodes = {end for row in rows for end in row[:2] if self_loops == "keep" or row[0] != row[1]}
    assert stored(path, LINKS) == {node: lists.get(node, []) for node in nodes}
    if way == "reverse":
        back = defaultdict(list)
        for src, entries in lists.items():
            for dst, weight, time in entries:
                back[dst].append((src, weight, time))
        assert stored(path, BACK) == {node: sorted(back[node]) for node in nodes}
    with graph_store.open(path) as store:
        entry = store.edge_types[LINKS]
        assert graph_store.info(path)["left_out"] == ({entry.name: {"self_loops": loops}} if loops else {})
        assert entry.rules["duplicates"] == duplicates


@pytest.fixture
def ingest_text(tmp_path):
    """Return `ingest_text(files, toml)`, which writes files, reads the schema and ingests; returns report and path."""

    def run(files, toml, **options):
        for name, text in files.items():
            (tmp_path / name).write_text(text)
        (tmp_path / "schema.toml").write_text(toml)
        schema = Schema.from_toml(tmp_path / "schema.toml")
        report = graph_store.ingest(schema, tmp_path / "store", num_shards=2, overwrite=True, **options)
        assert graph_store.verify(tmp_path / "store") == []
        return report, tmp_path / "store"

    return run


@pytest.mark.parametrize("id_type", ["integer", "unsigned", "string"])
def test_equal_edges_are_refused_by_name(ingest_text, tmp_path, id_type):
    big = "18446744073709551615" if id_type == "unsigned" else "12"
    toml = f"""
        [nodes.user]
        id_type = "{id_type}"
        [nodes.item]
        id_type = "{id_type}"
        [edges."user:buys:item"]
        files = "edges.csv"
        header = false
        duplicates = "error"
        reverse = true
        """
    report, _ = ingest_text({"edges.csv": f"{big},7\n1,7\n{big},8\n"}, toml)
    assert report.rows == 3
    shown = (repr(big), "'7'") if id_type == "string" else (big, "7")
    with pytest.raises(
        BadInput, match=rf"edge type user:buys:item: two rows from {shown[0]} to {shown[1]} with the same"
    ):
        ingest_text({"edges.csv": f"{big},7\n1,7\n{big},7\n"}, toml)
    assert leftovers(tmp_path / "store") == []


@pytest.mark.parametrize(("id_type", "shown"), [("integer", "5"), ("string", "'5'"), ("unsigned", "5")])
def test_self_loops_are_refused_by_name(ingest_text, id_type, shown):
    toml = f"""
        [nodes.page]
        id_type = "{id_type}"
        [edges."page:links:page"]
        files = "edges.csv"
        header = false
        self_loops = "error"
        """
    with pytest.raises(BadInput, match=rf"edges\.csv: row 3: edge type page:links:page: an edge from {shown} to "):
        ingest_text({"edges.csv": "1,2\n3,4\n5,5\n"}, toml)


NODES = """
    [nodes.user]
    id_type = "{id_type}"
    files = "users.csv"
    header = true
    [nodes.item]
    id_type = "{id_type}"
    [edges."user:buys:item"]
    files = "buys.csv"
    header = false
    reverse = true
    missing_nodes = "{rule}"
    [edges."user:likes:item"]
    files = "likes.csv"
    header = false
    """
FILES = {"users.csv": "id\n3\n1\n9\n1\n", "buys.csv": "1,100\n2,100\n3,200\n1,300\n", "likes.csv": "4,100\n3,400\n"}


@pytest.mark.parametrize("id_type", ["integer", "string"])
def test_listed_nodes_are_there_without_edges_and_ends_that_are_not_listed_are_made_or_left_out(ingest_text, id_type):
    def ids(*numbers):
        return sorted(map(str, numbers)) if id_type == "string" else sorted(numbers)

    for rule, users, items in (
        ("create", (1, 2, 3, 4, 9), (100, 200, 300, 400)),
        ("drop", (1, 3, 4, 9), (100, 200, 300, 400)),
    ):
        report, path = ingest_text(FILES, NODES.format(id_type=id_type, rule=rule))
        with graph_store.open(path) as store:
            assert sorted(store.ids("user").tolist()) == ids(*users)
            assert sorted(store.ids("item").tolist()) == ids(*items)
            assert store.edge_types["user:buys:item"].num_edges == (4 if rule == "create" else 3)
            assert store.edge_types["item:rev_buys:user"].num_edges == (4 if rule == "create" else 3)
            assert store.degree(ids(9), "user:buys:item").tolist() == [0]
        assert report.counts == ({} if rule == "create" else {"user:buys:item": {"missing_nodes": 1}})
    shown = "'2'" if id_type == "string" else "2"
    with pytest.raises(BadInput, match=rf"buys\.csv: row 2: edge type user:buys:item: user {shown} is listed by no"):
        ingest_text(FILES, NODES.format(id_type=id_type, rule="error"))


@pytest.mark.parametrize("undirected", [False, True])
def test_of_two_rows_that_may_not_be_the_second_is_named_whatever_file_it_is_in(ingest_text, undirected):
    toml = f"""
        [nodes.page]
        id_type = "string"
        [edges."page:links:page"]
        files = ["first.csv", "second.csv"]
        header = false
        duplicates = "error"
        undirected = {str(undirected).lower()}
        self_loops = "drop"
        """
    again = "b,a" if undirected else "a,b"
    files = {"first.csv": "a,b\nb,c\nc,c\n", "second.csv": f"c,d\nx,x\n{again}\n"}
    with pytest.raises(
        BadInput, match=r"second\.csv: row 3: edge type page:links:page: two rows from '[ab]' to '[ab]'"
    ):
        ingest_text(files, toml)


def test_an_item_that_only_left_out_edges_name_stays_a_node_of_a_type_without_files(ingest_text):
    files = FILES | {"buys.csv": "2,777\n", "likes.csv": "1,100\n"}
    report, path = ingest_text(files, NODES.format(id_type="integer", rule="drop"))
    with graph_store.open(path) as store:
        assert sorted(store.ids("item").tolist()) == [100, 777]
    assert report.counts == {"user:buys:item": {"missing_nodes": 1}}


def test_users_alone_on_a_line_must_be_listed_too_where_missing_nodes_are_an_error(ingest_text):
    toml = """
        [nodes.user]
        files = "users.csv"
        header = false
        [nodes.item]
        [edges."user:buys:item"]
        files = "buys.txt"
        format = "adjacency"
        missing_nodes = "{rule}"
        """
    files = {"users.csv": "1\n2\n", "buys.txt": "1 10 11\n2\n7\n"}
    for rule, users in (("create", [1, 2, 7]), ("drop", [1, 2])):
        _, path = ingest_text(files, toml.format(rule=rule))
        with graph_store.open(path) as store:
            assert sorted(store.ids("user").tolist()) == users
    with pytest.raises(BadInput, match="user 7 is listed by no file of nodes"):
        ingest_text(files, toml.format(rule="error"))


ASIDE = """
    [nodes.user]
    files = "users.csv"
    header = false
    bad_rows = "aside"
    [nodes.item]
    [edges."user:buys:item"]
    files = "buys.csv"
    header = false
    weight = 2
    bad_rows = "aside"
    bad_rows_limit = {limit}
    bad_weights = "drop"
    negative_weights = "drop"
    """
BAD = {"users.csv": "1\nx\n2\n", "buys.csv": "1,5,1\n2,y,1\n1,6,nan\n1,7,-3\n2,5\n2,7,4\n"}


def test_rows_that_cannot_be_taken_are_set_aside_beside_the_store(ingest_text, tmp_path):
    report, path = ingest_text(BAD, ASIDE.format(limit=2))
    assert report.rejected == tmp_path / "store.rejected.jsonl"
    rows = [json.loads(line) for line in report.rejected.read_text().splitlines()]
    assert [(row["path"], row["place"]) for row in rows] == [
        (str(tmp_path / "users.csv"), "line 2"),
        (str(tmp_path / "buys.csv"), "line 2"),
        (str(tmp_path / "buys.csv"), "line 5"),
    ]
    assert all(row["reason"] and row["text"] for row in rows)
    assert report.counts == {
        "user": {"bad_rows": 1},
        "user:buys:item": {"bad_weights": 1, "negative_weights": 1, "bad_rows": 2},
    }
    assert {
        node: [entry[:2] for entry in entries]
        for node, entries in stored(path, CLICKS.replace("clicks", "buys")).items()
    } == {
        1: [(5, 1.0)],
        2: [(7, 4.0)],
    }
    report, _ = ingest_text({"users.csv": "1\n2\n", "buys.csv": "1,5,1\n"}, ASIDE.format(limit=2))
    assert report.rejected is None
    assert not (tmp_path / "store.rejected.jsonl").exists()


def test_one_row_too_many_set_aside_stops_the_ingest(ingest_text, tmp_path):
    with pytest.raises(
        BadInput, match=r"buys\.csv: line 5, .*; 1 rows of user:buys:item were set aside before, and bad_rows_limit"
    ):
        ingest_text(BAD, ASIDE.format(limit=1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["buys.csv", "schema.toml", "users.csv"]


def triples(num_relations, num_rows, seed=0):
    random = np.random.default_rng(seed)
    return list(
        zip(
            random.integers(0, 60, num_rows).tolist(),
            [f"/film/actor/{number}" for number in random.integers(0, num_relations, num_rows).tolist()],
            random.integers(0, 60, num_rows).tolist(),
        )
    )


@pytest.mark.parametrize("way", ["directed", "reverse", "undirected"])
def test_a_column_of_relations_makes_an_edge_type_of_each(tmp_path, way):
    rows = triples(20, 3000)
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(("head", "relation", "tail"))})
    options = {} if way == "directed" else {way: True}
    given = {"table": table, "src": "head", "dst": "tail", "relation": "relation", **options}
    graph_store.ingest(Schema.from_tables({"e:*:e": given}), tmp_path / "store", num_shards=3)
    assert graph_store.verify(tmp_path / "store") == []
    with graph_store.open(tmp_path / "store") as store:
        names = sorted({row[1] for row in rows})
        ways = [f"e:{name}:e" for name in names]
        assert list(store.edge_types) == ways + ([f"e:rev_{name}:e" for name in names] if way == "reverse" else [])
    for name in names:
        pairs = {(row[0], row[2]) for row in rows if row[1] == name}
        if way == "undirected":
            pairs |= {pair[::-1] for pair in pairs}
        found = {
            (src, entry[0]) for src, entries in stored(tmp_path / "store", f"e:{name}:e").items() for entry in entries
        }
        assert found == pairs
        if way == "reverse":
            lists = stored(tmp_path / "store", f"e:rev_{name}:e")
            assert {(entry[0], src) for src, entries in lists.items() for entry in entries} == pairs


def test_a_relation_that_is_declared_as_well_is_refused(tmp_path):
    table = pa.table({"src": [1], "dst": [2], "relation": ["likes"]})
    plain = pa.table({"src": [1], "dst": [2]})
    schema = Schema.from_tables({"e:*:e": {"table": table, "relation": "relation"}, "e:likes:e": plain})
    with pytest.raises(BadInput, match=r"e:likes:e is an edge type of e:\*:e already"):
        graph_store.ingest(schema, tmp_path / "store")


def test_no_rows_of_a_wildcard_are_no_edge_types(tmp_path):
    table = pa.table(
        {"src": pa.array([], pa.int64()), "dst": pa.array([], pa.int64()), "relation": pa.array([], pa.string())}
    )
    graph_store.ingest(Schema.from_tables({"e:*:e": {"table": table, "relation": "relation"}}), tmp_path / "store")
    assert graph_store.verify(tmp_path / "store") == []
    assert graph_store.info(tmp_path / "store")["edges"] == {}


def test_a_stream_of_unknown_size_after_tables_is_read(tmp_path):
    stream = iter([pa.record_batch({"src": [1, 2], "dst": [10, 11]}), pa.record_batch({"src": [3], "dst": [12]})])
    schema = Schema.from_tables({CLICKS: stream}, {"user": pa.table({"id": [1, 9]})})
    graph_store.ingest(schema, tmp_path / "store", num_shards=2)
    assert stored(tmp_path / "store", CLICKS) == {
        1: [(10, None, None)], 2: [(11, None, None)], 3: [(12, None, None)], 9: [],
    }  # fmt: skip


def test_hundreds_of_relations_are_stored_at_once(tmp_path):
    rows = triples(500, 20_000)
    table = pa.table({name: [row[place] for row in rows] for place, name in enumerate(("head", "relation", "tail"))})
    given = {"table": table, "src": "head", "dst": "tail", "relation": "relation"}
    graph_store.ingest(Schema.from_tables({"e:*:e": given}), tmp_path / "store", num_shards=16)
    with graph_store.open(tmp_path / "store") as store:
        assert len(store.edge_types) == 500
        assert sum(entry.num_edges for entry in store.edge_types.values()) == len(set(rows))
