"""The query commands, as a shell sees them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from graph_store import FeatureType, GraphWriter
from tests.graph_store.empty_stores import edge_type, make_empty, node_type
from tests.mpi_runner.shell import CLICKS, Shell, make_clicks


@pytest.fixture
def gossamer(tmp_path, monkeypatch, capsys):
    """A shell in an empty folder that holds clicks.csv."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text(CLICKS)
    return Shell(capsys)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of clicks.csv, made once."""
    return make_clicks(tmp_path_factory.mktemp("made"))


@pytest.fixture
def store(gossamer, made):
    """The store of clicks.csv, in the empty folder."""
    shutil.copytree(made, "clicks.store")
    return "clicks.store"


@pytest.fixture
def shop(gossamer, tmp_path):
    """A store with unsigned and string ids, and a feature of each kind on items."""
    features = (
        FeatureType("price"),
        FeatureType("emb", kind="vector", dim=2),
        FeatureType("genres", kind="ids"),
        FeatureType("shelf", kind="category"),
        FeatureType("name", kind="string"),
        FeatureType("new", dtype="bool"),
    )
    nodes = [node_type("item", "unsigned", features), node_type("user", "string")]
    make_empty(tmp_path / "shop.store", nodes, [edge_type("user:buys:item", timed=True, reverse=True)])
    with GraphWriter("shop.store") as writer:
        values = {
            "price": [0.5, None],
            "emb": [[1, 2.25], None],
            "genres": [[7, 8], []],
            "shelf": ["a", None],
            "name": ["red, box", None],
            "new": [True, None],
        }
        writer.add_nodes("item", np.array([2**64 - 1, 5], np.uint64), values)
        writer.add_edges("user:buys:item", ["ann", "bob"], np.array([5, 2**64 - 1], np.uint64), time=[3, 4])
    return "shop.store"


def test_neighbors_come_in_the_order_asked_with_full_degrees_and_weights(gossamer, store):
    ask = ("query", "neighbors", store, "--edge-type", "user:clicks:item", "--ids")
    assert gossamer.answer(*ask, "9007199254740993,-3,7,-3") == {
        "edge_type": "user:clicks:item",
        "results": [
            {"id": 9007199254740993, "degree": 1, "neighbors": [72], "weights": [1.0]},
            {"id": -3, "degree": 1, "neighbors": [70], "weights": [2.0]},
            {"id": 7, "degree": 2, "neighbors": [70, 71], "weights": [0.5, 1.5]},
            {"id": -3, "degree": 1, "neighbors": [70], "weights": [2.0]},
        ],
    }
    limited = gossamer.answer(*ask, "7", "--limit", 1)
    assert limited["results"] == [{"id": 7, "degree": 2, "neighbors": [70], "weights": [0.5]}]
    status, out, _ = gossamer(*ask, "7")
    assert (status, out) == (0, "7: 2 neighbours\n  70  0.5\n  71  1.5\n")


def test_degree_counts_in_the_order_asked(gossamer, store):
    ask = ("query", "degree", store, "--edge-type", "item:rev_clicks:user", "--ids", "72,70")
    assert gossamer.answer(*ask) == {
        "edge_type": "item:rev_clicks:user",
        "results": [{"id": 72, "degree": 1}, {"id": 70, "degree": 2}],
    }
    assert gossamer(*ask)[1] == "id  degree\n72       1\n70       2\n"


def test_a_sample_gives_edges_of_each_hop_and_does_not_depend_on_threads(gossamer, store):
    ask = (
        "query",
        "sample",
        store,
        "--edge-type",
        "user:clicks:item",
        "--ids",
        "7,-3",
        "--fanouts",
        "1,-1",
        "--seed",
        7,
    )
    found = gossamer.answer(*ask, "--threads", 1)
    assert found == gossamer.answer(*ask, "--threads", 3)
    assert list(found) == ["edge_type", "seeds", "hops"]
    assert found["seeds"] == [7, -3]
    first, second = found["hops"]
    assert first["src"] == [7, -3]
    assert set(zip(first["src"], first["dst"])) <= {(7, 70), (7, 71), (-3, 70)}
    assert set(zip(second["src"], second["dst"])) <= {(70, 7), (70, -3), (71, 7)}
    assert {*second["src"]} == {*first["dst"]}
    assert gossamer(*ask)[1].startswith("hop 1, user:clicks:item: 2 drawn\n")


def test_string_ids_may_stand_in_double_quotes(gossamer, tmp_path):
    (tmp_path / "odd.csv").write_text('"a,b",x\n"say ""hi""",x\nc,y\n')
    command = ("ingest", "--edges", "odd.csv", "--edge-type", "user:saw:item", "--id-type", "string", "--no-header")
    gossamer.answer(*command, "s.store")
    found = gossamer.answer("query", "degree", "s.store", "--ids", 'c,"a,b","say ""hi"""')
    assert [result["id"] for result in found["results"]] == ["c", "a,b", 'say "hi"']


def test_contains_answers_pair_by_pair(gossamer, store):
    ask = ("query", "contains", store, "--edge-type", "user:clicks:item", "--src", "7,7,404", "--dst", "71,72,70")
    assert gossamer.answer(*ask) == {
        "edge_type": "user:clicks:item",
        "results": [
            {"src": 7, "dst": 71, "contains": True},
            {"src": 7, "dst": 72, "contains": False},
            {"src": 404, "dst": 70, "contains": False},
        ],
    }
    assert gossamer(*ask)[1] == "src  dst  contains\n7    71   yes\n7    72   no\n404  70   no\n"


def test_contains_takes_unsigned_and_string_ids(gossamer, shop):
    ask = ("query", "contains", shop, "--edge-type", "item:rev_buys:user")
    found = gossamer.answer(*ask, "--src", "18446744073709551615,5", "--dst", "bob,bob")
    assert [result["contains"] for result in found["results"]] == [True, False]


def test_features_come_as_json_values_and_null_where_absent(gossamer, shop):
    ask = ("query", "features", shop, "--node-type", "item", "--ids", "5,18446744073709551615")
    absent = {"price": None, "emb": None, "genres": [], "shelf": None, "name": None, "new": None}
    there = {"price": 0.5, "emb": [1.0, 2.25], "genres": [7, 8], "shelf": "a", "name": "red, box", "new": True}
    assert gossamer.answer(*ask) == {
        "node_type": "item",
        "results": [{"id": 5, "features": absent}, {"id": 18446744073709551615, "features": there}],
    }
    status, out, _ = gossamer(*ask, "--features", "name,emb")
    assert (status, out.splitlines()) == (
        0,
        [
            "id                    name      emb",
            "5                     -         -",
            "18446744073709551615  red, box  [1 2.25]",
        ],
    )


def test_numbers_that_json_has_no_word_for_are_words(gossamer, shop):
    with GraphWriter(shop) as writer:
        writer.set_features("item", np.array([5], np.uint64), {"price": [np.nan], "emb": [[np.inf, -np.inf]]})
    found = gossamer.answer("query", "features", shop, "--node-type", "item", "--ids", 5, "--features", "price,emb")
    assert found["results"] == [{"id": 5, "features": {"price": "NaN", "emb": ["Infinity", "-Infinity"]}}]


def test_neighbors_of_unsigned_ids_and_by_string_ids_with_times(gossamer, shop):
    ask = ("query", "neighbors", shop, "--edge-type")
    assert gossamer.answer(*ask, "user:buys:item", "--ids", "bob")["results"] == [
        {"id": "bob", "degree": 1, "neighbors": [18446744073709551615], "times": [4]}
    ]
    assert gossamer.answer(*ask, "item:rev_buys:user", "--ids", "18446744073709551615")["results"] == [
        {"id": 18446744073709551615, "degree": 1, "neighbors": ["bob"], "times": [4]}
    ]


def test_every_query_answers_an_older_version(gossamer, store):
    with GraphWriter(store, fold_rows=0) as writer:
        writer.add_edges("user:clicks:item", [7], [72], weight=[1])
    ends = ("--edge-type", "user:clicks:item", "--ids", "7")
    assert gossamer.answer("query", "degree", store, *ends)["results"][0]["degree"] == 3
    assert gossamer.answer("query", "degree", store, *ends, "--as-of", 1)["results"][0]["degree"] == 2
    assert gossamer.answer("query", "neighbors", store, *ends, "--as-of", 1)["results"][0]["neighbors"] == [70, 71]
    sampled = gossamer.answer("query", "sample", store, *ends, "--fanouts", "-1", "--as-of", 1)
    assert sampled["hops"][0]["dst"] == [70, 71]
    pair = ("--edge-type", "user:clicks:item", "--src", "7", "--dst", "72", "--as-of")
    for version, there in ((1, False), (2, True)):
        found = gossamer.answer("query", "contains", store, *pair, version)
        assert found["results"][0]["contains"] is there


@pytest.mark.parametrize(
    ("ids", "status", "says"),
    [
        ("7,404", 1, "404"),
        ("9007199254740992", 1, "9007199254740992"),
        ("99999999999999999999", 1, "99999999999999999999"),
        ("7,abc", 2, "'abc' is no integer"),
        ("7.0", 2, "'7.0' is no integer"),
        ("7,", 2, "'' is no integer"),
        ("", 2, "is no integer"),
    ],
)
def test_an_id_that_is_no_node_is_an_error_that_names_it(gossamer, store, ids, status, says):
    for query in (("neighbors",), ("degree",), ("sample", "--fanouts", "2"), ("walk", "--length", "2")):
        command = ("query", *query, store, "--edge-type", "user:clicks:item", "--ids", ids)
        said = gossamer.refusal(*command, "--json", status=status)
        assert said.startswith(f"gossamer query {query[0]}: ")
        assert says in said


def test_ids_that_are_no_nodes_can_be_left_out_or_be_null(gossamer, store, shop):
    of_clicks = ("--edge-type", "user:clicks:item", "--ids", "404,7,99999999999999999999,-3")
    null, skip = ("--missing", "null"), ("--missing", "skip")
    found = gossamer.answer("query", "neighbors", store, *of_clicks, *null)["results"]
    none = {"degree": None, "neighbors": None, "weights": None}
    assert found == [
        {"id": 404, **none},
        {"id": 7, "degree": 2, "neighbors": [70, 71], "weights": [0.5, 1.5]},
        {"id": 99999999999999999999, **none},
        {"id": -3, "degree": 1, "neighbors": [70], "weights": [2.0]},
    ]
    assert gossamer.answer("query", "neighbors", store, *of_clicks, *skip)["results"] == [found[1], found[3]]
    assert (
        "\n99999999999999999999: no such node\n-3: 1 neighbours\n"
        in gossamer("query", "neighbors", store, *of_clicks, *null)[1]
    )
    found = gossamer.answer("query", "degree", store, *of_clicks, *null)["results"]
    assert [each["degree"] for each in found] == [None, 2, None, 1]
    assert gossamer("query", "degree", store, *of_clicks, *skip)[1] == "id  degree\n7        2\n-3       1\n"
    of_items = ("--node-type", "item", "--ids", "5,6", "--features", "name,price")
    found = gossamer.answer("query", "features", shop, *of_items, *null)["results"]
    assert found == [{"id": 5, "features": {"name": None, "price": None}}, {"id": 6, "features": None}]
    assert len(gossamer.answer("query", "features", shop, *of_items, *skip)["results"]) == 1
    for query in (("sample", "--fanouts", "1", "--disjoint"), ("walk", "--length", "1")):
        found = gossamer.answer("query", query[0], store, *of_clicks, *skip, *query[1:])
        assert (found.get("seeds") or [walk[0] for walk in found["walks"]]) == [7, -3]
        assert "'null' is not one of" in gossamer.refusal("query", *query, store, *of_clicks, *null, status=2)


def test_a_skipped_id_takes_its_time_along(gossamer, shop):
    ask = ("query", "sample", shop, "--edge-type", "user:buys:item", "--fanouts", "2", "--missing", "skip")
    found = gossamer.answer(*ask, "--ids", "nobody,ann,bob", "--times", "9,2,9")
    assert found["seeds"] == ["ann", "bob"]
    assert found["hops"][0]["src"] == ["bob"]


def test_edges_between_pairs_come_with_weights_times_and_features(gossamer, tmp_path):
    rows = "who,what,stars,day,note,place\nann,5,1.5,3,good,7\nann,5,0.5,2,,8\nbob,6,2,4,bad,9\n"
    (tmp_path / "rates.csv").write_text(rows)
    (tmp_path / "rates.toml").write_text(
        """
        [nodes.user]
        id_type = "string"
        [nodes.item]
        [edges."user:rates:item"]
        files = "rates.csv"
        src = "who"
        dst = "what"
        weight = "stars"
        time = "day"
        reverse = true
        duplicates = "all"
        [edges."user:rates:item".features.note]
        kind = "string"
        [edges."user:rates:item".features.place]
        dtype = "int64"
        """
    )
    gossamer.answer("ingest", "rates.toml", "rates.store")
    ask = (
        "query",
        "edges",
        "rates.store",
        "--edge-type",
        "user:rates:item",
        "--src",
        "ann,bob,ann,x",
        "--dst",
        "5,6,6,5",
    )
    found = gossamer.answer(*ask)
    assert found["results"][0]["edges"] == [
        {"weight": 0.5, "time": 2, "features": {"note": None, "place": 8}},
        {"weight": 1.5, "time": 3, "features": {"note": "good", "place": 7}},
    ]
    assert found["results"][1]["edges"] == [{"weight": 2.0, "time": 4, "features": {"note": "bad", "place": 9}}]
    assert [each["edges"] for each in found["results"][2:]] == [[], []]
    only = gossamer.answer(*ask, "--features", "place")["results"]
    assert only[1]["edges"] == [{"weight": 2.0, "time": 4, "features": {"place": 9}}]
    back = ("--edge-type", "item:rev_rates:user", "--src", "6", "--dst", "bob")
    assert (
        gossamer.answer("query", "edges", "rates.store", *back)["results"][0]["edges"] == found["results"][1]["edges"]
    )
    shown = gossamer(*ask)[1]
    assert shown.splitlines()[0].split() == ["src", "dst", "weight", "time", "note", "place"]
    assert shown.endswith("2 of 4 pairs without an edge\n")
    assert "has no feature 'plaice'" in gossamer.refusal(*ask, "--features", "plaice", status=1)
    assert "name as many of both" in gossamer.refusal(*ask[:-1], "5", status=2)


def test_walks_go_there_and_back_and_do_not_depend_on_threads(gossamer, store):
    ask = ("query", "walk", store, "--edge-type", "user:clicks:item", "--ids", "7,-3", "--walks", 40, "--seed", 7)
    found = gossamer.answer(*ask, "--length", 4, "--threads", 1)
    assert found == gossamer.answer(*ask, "--length", 4, "--threads", 3)
    assert list(found) == ["walks"]
    assert [path[0] for path in found["walks"]] == [7] * 40 + [-3] * 40
    clicks = {(7, 70), (7, 71), (-3, 70), (9007199254740993, 72)}
    for path in found["walks"]:
        assert len(path) == 5
        assert {*zip(path[::2], path[1::2]), *zip(path[2::2], path[1::2])} <= clicks
    assert {path[1] for path in found["walks"][:40]} == {70, 71}
    again = gossamer.answer(*ask, "--length", 3, "--restart", 1)
    assert {tuple(path[::2]) for path in again["walks"]} <= {(user, other) for user in (7, -3) for other in (7, -3)}
    heavy = gossamer.answer(*ask, "--length", 1, "--method", "weighted", "--walks", 400)
    # Weights 0.5 and 1.5.
    assert 260 < sum(path[1] == 71 for path in heavy["walks"][:400]) < 340


def test_walks_along_a_metapath_end_where_there_is_no_way_on(gossamer, shop):
    ask = ("query", "walk", shop, "--ids", "ann", "--length")
    found = gossamer.answer(*ask, 2, "--metapath", "user:buys:item, item:rev_buys:user", "--walks", 2)
    assert found == {"walks": [["ann", 5, "ann"]] * 2}
    status, out, _ = gossamer(*ask, 1, "--edge-type", "user:buys:item", "--walks", 2)
    assert (status, out) == (0, "id   walk  nodes\nann     1  5\nann     2  5\n")
    edges = ("--edges", "line.csv", "--edge-type", "node:links:node", "line.store")
    Path("line.csv").write_text("src,dst\n1,2\n2,3\n")
    assert gossamer("ingest", *edges)[0] == 0
    line = ("query", "walk", "line.store", "--ids", "1,3", "--length", 9)
    assert gossamer.answer(*line, "--p", 0.5, "--q", 2) == {"walks": [[1, 2, 3], [3]]}
    assert gossamer(*line)[1] == "id  walk  nodes\n1      1  2 -> 3\n3      1\n"


def test_a_sample_is_in_time_against_the_edges_and_shows_their_columns(gossamer, tmp_path):
    nodes = [node_type("user", "integer"), node_type("item", "integer")]
    make_empty(tmp_path / "t.store", nodes, [edge_type("user:buys:item", timed=True, reverse=True)])
    with GraphWriter("t.store") as writer:
        writer.add_edges("user:buys:item", [1, 2, 1, 3], [5, 5, 6, 6], time=[10, 20, 30, 40])
    line = ("query", "sample", "t.store", "--edge-type", "user:buys:item", "--fanouts", "-1")
    back = gossamer.answer(
        *line, "--ids", "5,6", "--direction", "in", "--times", "15,40", "--strict", "--columns", "times,edge_ids"
    )
    assert back["seeds"] == [5, 6]
    (hop,) = back["hops"]
    assert (hop["src"], hop["dst"], hop["times"], hop["trees"]) == ([1, 1], [5, 6], [10, 30], [0, 1])
    assert len(set(hop["edge_ids"])) == 2
    latest = gossamer.answer(*line[:-1], "1", "--ids", "1", "--method", "recent", "--times", 30, "--window", 5)
    assert latest["hops"] == [{"src": [1], "dst": [6], "trees": [0]}]
    status, out, _ = gossamer(*line, "--ids", "1", "--columns", "times")
    assert (status, out) == (0, "hop 1, user:buys:item: 2 drawn\n  1 -> 5  10\n  1 -> 6  30\n")
    twice = gossamer.answer(*line[:-1], "9", "--ids", "2", "--replace", "--disjoint")
    assert twice["hops"] == [{"src": [2] * 9, "dst": [5] * 9, "trees": [0] * 9}]
    ask = " ".join(line)
    for more, status, says in [
        ("--ids 1 --times x", 2, "--times 'x'"),
        ("--ids 1 --times 1,2", 2, "--times has 2 and --ids 1"),
        ("--ids 1 --strict", 1, "strict and window are for temporal"),
        ("--ids 1 --columns age", 1, "columns may be edge_ids, weights, times, got age"),
        ("--ids 1 --method weighted", 1, "'weighted' needs weights, but edges of user:buys:item have none"),
        ("--ids 1 --method best", 2, "'best' is not one of"),
    ]:
        assert says in gossamer.refusal(*f"{ask} {more}".split(), status=status)


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("query degree no.store --ids 1", 1, "no.store: no store is here"),
        ("query degree clicks.store --ids 7", 2, "--edge-type is needed"),
        ("query degree clicks.store --ids 7 --edge-type a:b:c", 1, "no edge type 'a:b:c'; it has user:clicks:item"),
        ("query degree clicks.store", 2, "--ids"),
        ("query neighbors clicks.store --ids 7 --limit -1", 2, "--limit"),
        ("query sample clicks.store --ids 7 --fanouts 2,x", 2, "'2,x'"),
        ("query sample clicks.store --ids 7 --fanouts -2", 2, "'-2'"),
        ("query walks", 2, "walks"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7", 2, "--length"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7 --length 0", 2, "--length"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7 --length 2 --walks 0", 2, "--walks"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7 --length 2 --p 0", 2, "--p"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7 --length 2 --q -1", 2, "--q"),
        (
            "query walk clicks.store --edge-type user:clicks:item --ids 7 --length 2 --q 2",
            1,
            "p and q need one edge type",
        ),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7 --length 2 --restart 1.5", 2, "--restart"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7 --length 2 --method best", 2, "'best'"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 404 --length 2", 1, "404"),
        ("query walk clicks.store --ids 7 --length 2", 2, "--edge-type is needed"),
        ("query walk clicks.store --ids 7 --length 2 --metapath a:b:c", 1, "no edge type 'a:b:c'"),
        ("query walk clicks.store --edge-type user:clicks:item --ids 7 --length 2 --metapath a:b:c", 2, "--metapath"),
        ("query walk clicks.store --ids 7 --length 2 --metapath user:clicks:item", 1, "leads to nodes of item"),
        ("query degree clicks.store --ids 7 --edge-type user:clicks:item --as-of 9", 1, "version 9 is not there yet"),
        ("query degree clicks.store --ids 7 --as-of 0", 2, "--as-of"),
        ("query contains clicks.store --edge-type user:clicks:item --src 7 --dst 70,71", 2, "pair by pair"),
        ("query contains clicks.store --edge-type user:clicks:item --src x --dst 70", 2, "--src: 'x' is no integer"),
        ("query contains clicks.store --edge-type user:clicks:item --src 7", 2, "--dst"),
        ("query features clicks.store --node-type item --ids 70", 2, "node type item has no features"),
        ("query features clicks.store --node-type item --ids 70 --features age", 1, "item has no feature 'age'"),
        ("query features clicks.store --node-type shop --ids 70", 1, "no node type 'shop'; it has item, user"),
        ("query features clicks.store --ids 70", 2, "--node-type is needed; the store has item, user"),
    ],
)
def test_a_mistake_is_one_line_with_its_status(gossamer, store, line, status, says):
    assert says in gossamer.refusal(*line.split(), status=status)


@pytest.mark.parametrize("command", ["neighbors", "sample", "degree", "contains", "features", "edges", "walk"])
def test_help_shows_an_example_of_each_command(gossamer, command):
    status, out, _ = gossamer("query", command, "--help")
    assert status == 0
    assert f"gossamer query {command} " in out.partition("Example")[2]
