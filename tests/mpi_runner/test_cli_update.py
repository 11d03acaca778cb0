"""The commands that change a store, as a shell sees them."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store import FeatureType, GraphWriter
from tests.graph_store.empty_stores import edge_type, make_empty, node_type
from tests.mpi_runner.shell import CLICKS, Shell, make_clicks

ROOT = Path(__file__).parents[2]
OF_CLICKS = ("--edge-type", "user:clicks:item", "--weight", "n")


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
    """A store without nodes that knows users by strings, items by unsigned ids with features, and timed edges."""
    features = (FeatureType("price"), FeatureType("genres", kind="ids"), FeatureType("name", kind="string"))
    nodes = [node_type("item", "unsigned", features), node_type("user", "string")]
    edges = [
        edge_type("user:buys:item", timed=True, reverse=True, features=(FeatureType("device", kind="category"),)),
        edge_type("user:rates:item", weighted=True, bad_weights="drop", self_loops="drop"),
        edge_type("user:likes:item", weighted=True),
    ]
    make_empty(tmp_path / "shop.store", nodes, edges)
    return "shop.store"


def neighbors(gossamer, store, edge_type, ids):
    found = gossamer.answer("query", "neighbors", store, "--edge-type", edge_type, "--ids", ids)
    return [result["neighbors"] for result in found["results"]]


def test_edges_of_a_file_are_added_in_commits_of_some_rows(gossamer, store, tmp_path):
    (tmp_path / "new.csv").write_text("user_id,item_id,n\n" + "".join(f"{row},{row + 100},1\n" for row in range(10)))
    found = gossamer.answer("update", store, "--edges", "new.csv", *OF_CLICKS, "--batch-rows", 4)
    assert found.pop("seconds") >= 0
    assert found == {
        "version": 3,
        "rows": 10,
        "new_nodes": {"user": 9, "item": 10},
        "removed": {},
        "dropped": {},
        "batches": 2,
    }
    assert neighbors(gossamer, store, "user:clicks:item", "7,3") == [[70, 71, 107], [103]]
    assert neighbors(gossamer, store, "item:rev_clicks:user", "103") == [[3]]


def test_an_update_without_json_tells_counts_and_how_the_file_was_read(gossamer, store, tmp_path):
    (tmp_path / "new.csv").write_text("user_id,item_id,n\n7,75,1\n")
    status, out, err = gossamer("update", store, "--edges", "new.csv", *OF_CLICKS)
    assert status == 0
    assert out.startswith("clicks.store: version 2, 1 row in 1 commit, ")
    assert out.endswith("new item: 1\n")
    assert err == (
        "new.csv: read as columns separated by ',', a header, src = column 'user_id', dst = column 'item_id', "
        "weight = column 'n'\n"
    )


def test_delete_takes_away_what_a_file_names(gossamer, store, tmp_path):
    (tmp_path / "wrong.csv").write_text("7,70\n7,404\n404,70\n")
    found = gossamer.answer("update", store, "--edges", "wrong.csv", "--edge-type", "user:clicks:item", "--delete")
    assert (found["version"], found["rows"], found["dropped"]) == (2, 1, {"unknown_nodes": 2})
    assert found["removed"] == {"user:clicks:item": 1}
    assert neighbors(gossamer, store, "user:clicks:item", "7") == [[71]]
    assert neighbors(gossamer, store, "item:rev_clicks:user", "70") == [[-3]]
    (tmp_path / "gone.csv").write_text("70\n72\n")
    found = gossamer.answer("update", store, "--nodes", "gone.csv", "--node-type", "item", "--delete")
    assert found["rows"] == 2
    assert found["removed"] == {"user:clicks:item": 2, "item": 2}
    assert neighbors(gossamer, store, "user:clicks:item", "7,-3") == [[71], []]
    assert "no item has the id 70" in gossamer("query", "degree", store, "--ids", "70", *OF_BACK)[2]


def test_deleting_what_is_not_there_is_counted_as_such(gossamer, store, tmp_path):
    (tmp_path / "wrong.csv").write_text("7,72\n-3,71\n")  # both ends are there, the edges are not
    of_clicks = ("--edge-type", "user:clicks:item", "--delete")
    found = gossamer.answer("update", store, "--edges", "wrong.csv", *of_clicks)
    assert (found["rows"], found["removed"]) == (2, {})
    version = found["version"]
    (tmp_path / "wrong.csv").write_text("404,405\n")  # of unknown nodes no batch is made
    found = gossamer.answer("update", store, "--edges", "wrong.csv", *of_clicks)
    assert (found["version"], found["rows"], found["dropped"]) == (version, 0, {"unknown_nodes": 1})
    (tmp_path / "wrong.csv").write_text("7,70\n7,71\n7,72\n")
    status, out, _ = gossamer("update", store, "--edges", "wrong.csv", *of_clicks)
    assert status == 0
    assert "\nremoved user:clicks:item: 2\n" in out


OF_BACK = ("--edge-type", "item:rev_clicks:user")


def test_an_edge_type_is_found_where_there_is_one_besides_its_reverse(gossamer, store, tmp_path):
    (tmp_path / "new.csv").write_text("8,70,1\n")
    assert gossamer.answer("update", store, "--edges", "new.csv", "--weight", 2)["rows"] == 1
    (tmp_path / "back.csv").write_text("70,9,1\n")
    assert gossamer.answer("update", store, "--edges", "back.csv", "--weight", 2, *OF_BACK)["rows"] == 1
    assert neighbors(gossamer, store, "item:rev_clicks:user", "70") == [[-3, 7, 8, 9]]


def test_nodes_get_the_features_that_the_file_has_columns_for(gossamer, shop, tmp_path):
    table = pa.table(
        {
            "item_id": pa.array([2**64 - 1, 5], pa.uint64()),
            "price:float": [2.5, None],
            "genres": pa.array([[1, 2], []], pa.list_(pa.int64())),
            "colour": ["red", "blue"],
        }
    )
    pq.write_table(table, tmp_path / "items.parquet")
    found = gossamer.answer("update", shop, "--nodes", "items.parquet", "--node-type", "item")
    assert (found["rows"], found["new_nodes"]) == (2, {"item": 2})
    (tmp_path / "names.csv").write_text('key,name,genres\n5,"a, b",7|8\n')
    gossamer.answer("update", shop, "--nodes", "names.csv", "--node-type", "item", "--id", "key", "--separator", "|")
    asked = gossamer.answer("query", "features", shop, "--node-type", "item", "--ids", "18446744073709551615,5")
    assert [result["features"] for result in asked["results"]] == [
        {"price": 2.5, "genres": [1, 2], "name": None},
        {"price": None, "genres": [7, 8], "name": "a, b"},
    ]


def test_edges_with_times_features_and_unsigned_ids(gossamer, shop, tmp_path):
    (tmp_path / "buys.csv").write_text("who,what,when,device\nann,18446744073709551615,3,phone\nann,5,2,\n")
    of_buys = ("--edge-type", "user:buys:item", "--time", "when")
    assert gossamer.answer("update", shop, "--edges", "buys.csv", *of_buys)["rows"] == 2
    with graph_store.open(shop) as opened:
        adjacency = opened.adjacency("user:buys:item")
        _, nodes, _, times, edge_ids = adjacency.columns(opened.to_nodes("user", ["ann"]))
        assert opened.to_ids("item", nodes).tolist() == [5, 2**64 - 1]
        assert times.tolist() == [2, 3]
        assert opened.edge_features("user:buys:item").values("device", edge_ids).values.tolist() == [None, "phone"]
    (tmp_path / "wrong.csv").write_text("who,what,when\nann,5,9\nann,18446744073709551615,3\n")
    gossamer.answer("update", shop, "--edges", "wrong.csv", *of_buys, "--delete")
    assert neighbors(gossamer, shop, "user:buys:item", "ann") == [[5]]


def test_expire_before_takes_earlier_edges_away_at_last(gossamer, shop, tmp_path):
    (tmp_path / "buys.csv").write_text("who,what,when\nann,1,3\nann,2,5\nann,3,4\n")
    of_buys = ("--edge-type", "user:buys:item")
    found = gossamer.answer("update", shop, "--edges", "buys.csv", *of_buys, "--time", "when", "--expire-before", 4)
    assert (found["version"], found["batches"]) == (3, 2)
    assert neighbors(gossamer, shop, "user:buys:item", "ann") == [[3, 2]]
    found = gossamer.answer("update", shop, *of_buys, "--expire-before", 5)
    assert (found["version"], found["removed"]) == (4, {"user:buys:item": 1})
    assert neighbors(gossamer, shop, "user:buys:item", "ann") == [[2]]


def test_a_column_of_relations_goes_to_several_edge_types(gossamer, shop, tmp_path):
    (tmp_path / "acts.csv").write_text("who,what,does,w\nann,1,rates,0.5\nann,2,likes,1\nbob,1,rates,nan\n")
    given = ("--edges", "acts.csv", "--edge-type", "user:*:item", "--relation", "does", "--weight", "w")
    assert "acts.csv: line 4" in gossamer.refusal("update", shop, *given, status=1)
    (tmp_path / "acts.csv").write_text("who,what,does,w\nann,1,rates,0.5\nann,2,likes,1\nbob,1,rates,1\n")
    assert gossamer.answer("update", shop, *given)["rows"] == 3
    assert neighbors(gossamer, shop, "user:rates:item", "ann,bob") == [[1], [1]]
    assert neighbors(gossamer, shop, "user:likes:item", "ann") == [[2]]


def test_rows_that_the_rules_of_a_type_leave_out_are_counted(gossamer, shop, tmp_path):
    (tmp_path / "rates.csv").write_text("who,what,w\nann,1,0.5\nann,2,nan\nann,3,1\n")
    given = ("--edges", "rates.csv", "--edge-type", "user:rates:item", "--weight", "w")
    found = gossamer.answer("update", shop, *given)
    assert (found["rows"], found["dropped"]) == (2, {"bad_weights": 1})


def test_lines_of_an_adjacency_without_items_are_nodes(gossamer, tmp_path):
    (tmp_path / "likes.txt").write_text("1 2 3\n2 3\n")
    gossamer.answer("ingest", "--edges", "likes.txt", "--edge-type", "item:like:item", "s.store")
    (tmp_path / "more.txt").write_text("7\n1 8 9\n4 1\n")
    found = gossamer.answer("update", "s.store", "--edges", "more.txt")
    assert found["new_nodes"] == {"item": 4}
    assert neighbors(gossamer, "s.store", "item:like:item", "1,7,4") == [[2, 3, 8, 9], [], [1]]


def write_rows(path, count, bad=None):
    rows = [f"{1000 + row},{row},1\n" for row in range(count)]
    if bad is not None:
        rows[bad] = "x,1,1\n"
    path.write_text("user_id,item_id,n\n" + "".join(rows))


def test_a_bad_row_stops_with_its_place_and_what_is_in_stays(gossamer, store, tmp_path):
    write_rows(tmp_path / "new.csv", 20_000, bad=19_000)
    given = ("--edges", "new.csv", *OF_CLICKS, "--batch-rows", 1000)
    said = gossamer.refusal("update", store, *given, status=1)
    assert said.startswith("gossamer update: new.csv: line 19002, column 'user_id' (src): 'x' is no whole number; ")
    words, _, number = said.strip().rpartition(" ")
    assert words.endswith("go on behind them with --skip-rows")
    before = gossamer.answer("info", store)
    assert before["edges"]["user:clicks:item"] == 4 + int(number)
    assert 5_000 < int(number) < 19_000
    assert f"the {int(number):,} rows before are in (version {before['version']})" in said
    write_rows(tmp_path / "new.csv", 20_000)
    found = gossamer.answer("update", store, *given, "--skip-rows", number)
    assert found["rows"] == 20_000 - int(number)
    assert gossamer.answer("info", store)["edges"]["user:clicks:item"] == 20_004
    assert gossamer.answer("verify", store)["ok"]


def test_a_bad_first_row_changes_nothing(gossamer, store, tmp_path):
    write_rows(tmp_path / "new.csv", 3, bad=0)
    said = gossamer.refusal("update", store, "--edges", "new.csv", *OF_CLICKS, status=1)
    assert said.endswith("; none of its rows is in\n")
    assert gossamer.answer("info", store)["version"] == 1


def test_rows_to_skip_are_counted_over_all_files(gossamer, store, tmp_path):
    write_rows(tmp_path / "a.csv", 5)
    (tmp_path / "b.csv").write_text("7,500,1\n7,501,1\n7,502,1\n")
    given = ("update", store, "--edges", "a.csv", "--edges", "b.csv", "--edge-type", "user:clicks:item", "--weight", 2)
    found = gossamer.answer(*given, "--batch-rows", 2, "--skip-rows", 6)
    assert (found["rows"], found["new_nodes"]) == (2, {"item": 2})
    assert neighbors(gossamer, store, "user:clicks:item", "7") == [[70, 71, 501, 502]]
    assert gossamer.answer(*given, "--skip-rows", 8)["batches"] == 0
    said = gossamer.refusal(*given, "--skip-rows", 9, status=1)
    assert "9 rows were to be skipped, the files hold 8" in said


def test_a_row_that_a_rule_refuses_is_named_with_its_file(gossamer, tmp_path):
    make_empty(tmp_path / "s.store", [node_type("a")], [edge_type("a:r:a", self_loops="error")])
    (tmp_path / "new.csv").write_text("1,2\n3,4\n5,5\n")
    said = gossamer.refusal("update", "s.store", "--edges", "new.csv", "--batch-rows", 2, status=1)
    assert "new.csv: among rows " in said
    assert "is a self loop" in said


def test_a_second_writer_is_told_who_is_writing(gossamer, store):
    with GraphWriter(store):
        said = gossamer.refusal("update", store, "--edges", "clicks.csv", *OF_CLICKS, status=1)
    assert "is writing to it" in said


def test_changes_counts_and_lists_what_came_and_went(gossamer, store):
    with GraphWriter(store, fold_rows=0) as writer:
        writer.add_edges("user:clicks:item", [7, 8], [72, 80], weight=[1, 2])
        writer.delete_edges("user:clicks:item", [7], [70])
    counts = {"user:clicks:item": {"added": 2, "removed": 1}}
    ends = {"item": {"added": 1, "removed": 0}, "user": {"added": 1, "removed": 0}}
    ask = ("changes", store, "--since", 1)
    assert gossamer.answer(*ask) == {"since": 1, "until": 3, "edges": counts, "nodes": ends}
    assert gossamer.answer(*ask, "--until", 2)["edges"] == {"user:clicks:item": {"added": 2, "removed": 0}}
    listed = gossamer.answer(*ask, "--list")
    edges = listed["edges"]["user:clicks:item"]
    assert edges["removed_edges"] == {"src": [7], "dst": [70], "weights": [0.5]}
    added = edges["added_edges"]
    assert sorted(zip(added["src"], added["dst"], added["weights"])) == [(7, 72, 1.0), (8, 80, 2.0)]
    assert listed["nodes"]["item"] == {"added": 1, "removed": 0, "added_ids": [80], "removed_ids": []}
    status, out, _ = gossamer(*ask, "--list")
    assert status == 0
    assert out.splitlines()[:3] == [
        "clicks.store: from version 1 to 3",
        "edge type         added  removed",
        "user:clicks:item      2        1",
    ]
    assert {"+ user:clicks:item  8  80  2.0", "- user:clicks:item  7  70  0.5", "+ item  80"} <= set(out.splitlines())


def test_compact_folds_and_keeps_what_it_is_told_to(gossamer, store):
    with GraphWriter(store, fold_rows=0) as writer:
        writer.delete_nodes("user", [7])
    found = gossamer.answer("compact", store, "--keep", 1)
    assert found.pop("seconds") > 0
    sizes = [found.pop(name) for name in ("bytes_before", "bytes_after")]
    assert found == {"version": 2, "generation": 2}
    assert min(sizes) > 0
    assert gossamer.answer("info", store)["bytes"] == pytest.approx(sizes[1], abs=200)
    assert gossamer.answer("query", "degree", store, "--ids", "70", *OF_BACK)["results"][0]["degree"] == 1
    asked = gossamer.answer("query", "degree", store, "--ids", "70", *OF_BACK, "--as-of", 1)
    assert asked["results"][0]["degree"] == 2
    status, out, _ = gossamer("compact", store)
    assert status == 0
    assert out.startswith("clicks.store: version 2 is generation 2, ")
    said = gossamer.refusal("query", "degree", store, "--ids", "70", *OF_BACK, "--as-of", 1, status=1)
    assert "version 1 is not kept" in said


def test_compact_removes_what_readers_have_closed_since(gossamer, store):
    with graph_store.open(store), GraphWriter(store, fold_rows=0) as writer:
        writer.delete_nodes("user", [7])
        writer.fold()
        assert [each["generation"] for each in gossamer.answer("info", store)["generations"]] == [1, 2]
    found = gossamer.answer("compact", store)
    assert found["bytes_after"] < found["bytes_before"]
    assert [each["generation"] for each in gossamer.answer("info", store)["generations"]] == [2]
    status, _, err = gossamer("compact", store, "--progress")
    assert (status, err) == (0, "")


def test_reshard_makes_the_same_store_in_other_shards(gossamer, store):
    found = gossamer.answer("reshard", store, "wide.store", "--shards", 9)
    assert (found["num_shards"], found["nodes"]) == (9, {"item": 3, "user": 3})
    assert neighbors(gossamer, "wide.store", "user:clicks:item", "7,-3") == [[70, 71], [70]]
    assert gossamer("verify", "wide.store")[0] == 0
    said = gossamer.refusal("reshard", store, "wide.store", "--shards", 2, status=1)
    assert "wide.store: exists already" in said
    status, out, _ = gossamer("reshard", store, "wide.store", "--shards", 2, "--overwrite")
    assert (status, out.startswith("wide.store: 8 edges in 2 shards, ")) == (0, True)


def test_export_writes_files_that_make_the_store_again(gossamer, store, tmp_path):
    with GraphWriter(store, fold_rows=0) as writer:
        writer.add_edges("user:clicks:item", [7], [72], weight=[1])
    found = gossamer.answer("export", store, "files")
    assert (found["version"], found["schema"]) == (2, "files/schema.toml")
    assert sorted(found["files"]) == sorted(path.name for path in (tmp_path / "files").iterdir())
    gossamer.answer("ingest", "files/schema.toml", "again.store")
    assert neighbors(gossamer, "again.store", "user:clicks:item", "7,-3") == [[70, 71, 72], [70]]
    assert "files: exists already" in gossamer.refusal("export", store, "files", status=1)
    gossamer.answer("export", store, "old", "--as-of", 1)
    gossamer.answer("ingest", "old/schema.toml", "old.store")
    assert neighbors(gossamer, "old.store", "user:clicks:item", "7") == [[70, 71]]


def test_repair_leaves_a_sound_store_as_it_is(gossamer, store):
    assert gossamer.answer("repair", store) == {
        "version": 1,
        "faults": [],
        "done": [],
        "lost": [],
        "left": [],
        "kept": None,
    }
    assert gossamer("repair", store) == (0, "clicks.store: sound; version 1\n", "")


def test_repair_says_what_it_did_and_what_is_lost(gossamer, store, tmp_path):
    with GraphWriter(store, fold_rows=0) as writer:
        writer.add_edges("user:clicks:item", [7], [72], weight=[1])
        writer.add_edges("user:clicks:item", [7], [73], weight=[1])
    log = next((tmp_path / store / "log").glob("*.log"))
    log.write_bytes(log.read_bytes()[:-8])
    assert gossamer("verify", store)[0] == 1
    status, out, err = gossamer("repair", store)
    assert (status, err) == (0, "")
    assert "\nlost: clicks.store/log: batches from version 3 to 3\n" in out
    assert out.endswith(" found, 0 left; version 2\n")
    assert gossamer("verify", store)[0] == 0
    assert neighbors(gossamer, store, "user:clicks:item", "7") == [[70, 71, 72]]


def test_the_page_of_updates_works_as_it_is_written(tmp_path):
    page = (ROOT / "docs" / "updates.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(\w*)\n(.*?)```", page, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["", "", "python", "python", "", ""]
    (tmp_path / "gossamer").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mpi_runner "$@"\n')
    (tmp_path / "gossamer").chmod(0o755)
    places = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    said = []
    for kind, block in blocks:
        command = [sys.executable, "-W", "error", "-c", block] if kind else ["sh", "-ec", block]
        done = subprocess.run(
            command, cwd=tmp_path, env={**os.environ, **places}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert "4: 1 neighbours\n  13  1.0  104\n1: 2 neighbours\n" in said[0]
    assert "5 8\n[10 14]\n" in said[2]
    assert said[3].startswith("[10 11 12]\n")
    assert "clicks.store: no fault\n" in said[4]


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("update clicks.store", 2, "nothing to do; expected --edges FILE"),
        ("update clicks.store --delete", 2, "nothing to do"),
        ("update clicks.store --edges clicks.csv --edge-type user:clicks:item", 2, "name their column by --weight"),
        (
            "update clicks.store --edges clicks.csv --weight n --time user_id",
            2,
            "user:clicks:item has no times; leave it",
        ),
        ("update clicks.store --edges clicks.csv --weight n --delete", 2, "--weight: edges are deleted by their ends"),
        ("update clicks.store --edges clicks.csv --weight n --relation user_id", 2, "SRC:*:DST go together"),
        ("update clicks.store --edges clicks.csv --weight n --edge-type user:*:item", 2, "SRC:*:DST go together"),
        ("update clicks.store --edges clicks.csv --weight n --edge-type user:item", 2, "expected 'src:relation:dst'"),
        ("update clicks.store --edges clicks.csv --weight n --format cvs", 2, "did you mean 'csv'"),
        ("update clicks.store --edges clicks.csv --weight n --id x", 2, "--id is for a file of nodes"),
        ("update clicks.store --nodes clicks.csv --src x --node-type item", 2, "--src is for a file of edges"),
        ("update clicks.store --nodes clicks.csv", 2, "--node-type is needed; the store has item, user"),
        ("update clicks.store --edges clicks.csv --weight n --batch-rows 0", 2, "--batch-rows"),
        ("update clicks.store --edges clicks.csv --weight n --separator 7", 2, "can be part of a number"),
        ("update clicks.store --edges clicks.csv --weight n --edge-type a:b:c", 1, "no edge type 'a:b:c'"),
        ("update clicks.store --nodes clicks.csv --node-type shop", 1, "no node type 'shop'"),
        ("update clicks.store --edges none.csv --weight n", 1, "none.csv: cannot read the file"),
        ("update clicks.store --edges clicks.csv --weight m", 1, "no column 'm' for weight"),
        ("update clicks.store --expire-before 4", 1, "user:clicks:item has no times"),
        ("update no.store --edges clicks.csv", 1, "no.store: no store is here"),
        ("changes clicks.store", 2, "--since"),
        ("changes clicks.store --since 3 --until 2", 2, "--until 2 is before --since 3"),
        ("changes clicks.store --since 9", 1, "version 9 is not there yet"),
        ("changes no.store --since 1", 1, "no store is here"),
        ("compact no.store", 1, "no store is here"),
        ("compact clicks.store --keep -1", 2, "--keep"),
        ("reshard clicks.store out", 2, "--shards"),
        ("reshard clicks.store out --shards 0", 2, "--shards"),
        ("reshard no.store out --shards 2", 1, "no store is here"),
        ("repair no.store", 1, "no store is here"),
        ("export clicks.store", 2, "FOLDER"),
        ("export no.store out", 1, "no store is here"),
        ("export clicks.store out --as-of 7", 1, "version 7 is not there yet"),
    ],
)
def test_a_mistake_is_one_line_with_its_status(gossamer, store, line, status, says):
    assert says in gossamer.refusal(*line.split(), status=status)
    assert gossamer.answer("info", store)["version"] == 1


@pytest.mark.parametrize("command", ["update", "changes", "compact", "reshard", "repair", "export"])
def test_help_shows_an_example_of_each_command(gossamer, command):
    status, out, _ = gossamer(command, "--help")
    assert status == 0
    assert f"gossamer {command} " in out.partition("Example")[2]
