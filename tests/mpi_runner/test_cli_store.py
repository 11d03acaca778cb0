"""The commands of a store, as a shell sees them: stdout, stderr, status."""

import csv
import gzip
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store import FeatureType, GraphWriter
from tests.graph_store.empty_stores import edge_type, make_empty, node_type
from tests.mpi_runner.shell import CLICKS, Shell, make_clicks

DATA = Path(__file__).parents[2].parent / "shared" / "data"


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


def test_ingest_prints_one_json_object_with_the_counts(gossamer):
    command = ("ingest", "--edges", "clicks.csv", "--edge-type", "user:clicks:item", "s.store", "--shards", 3)
    found = gossamer.answer(*command)
    assert found["format"] == 2
    assert found["num_shards"] == 3
    assert found["nodes"] == {"item": 3, "user": 3}
    assert found["edges"] == {"user:clicks:item": 4}
    assert found["duplicates"] == {"user:clicks:item": 1}
    assert found["rows"] == 5
    listed = gossamer.answer("info", "s.store")
    assert {key: found[key] for key in listed} == listed


def test_ingest_without_json_tells_counts_and_how_the_file_was_read(gossamer):
    status, out, err = gossamer("ingest", "--edges", "clicks.csv", "--edge-type", "user:clicks:item", "s.store")
    assert status == 0
    assert "s.store: 5 rows" in out
    assert "user:clicks:item      4" in out
    assert err == (
        "clicks.csv: read as columns separated by ',', a header, src = column 'user_id', dst = column 'item_id'\n"
    )


def test_several_files_make_one_edge_type(gossamer, tmp_path):
    (tmp_path / "more.csv").write_text("user_id,item_id,n\n8,80,1\n")
    found = gossamer.answer(
        "ingest", "--edges", "clicks.csv", "--edges", "more.csv", "--edge-type", "user:clicks:item", "s.store"
    )
    assert found["edges"] == {"user:clicks:item": 5}


def test_every_flag_of_a_layout_reaches_the_reader(gossamer, tmp_path):
    (tmp_path / "odd.txt").write_text("who;x;whom;when;w\na;0;b;5;0.5\n")
    flags = ("--src", "who", "--dst", "2", "--weight", "w", "--time", "when", "--header", "--delimiter", ";")
    command = (
        "ingest",
        "--edges",
        "odd.txt",
        "--edge-type",
        "p:met:p",
        "--format",
        "csv",
        *flags,
        "--id-type",
        "string",
    )
    gossamer.answer(*command, "s.store", "--memory", "64MiB")
    found = gossamer.answer("query", "neighbors", "s.store", "--ids", "a,b")
    assert found["results"] == [
        {"id": "a", "degree": 1, "neighbors": ["b"], "weights": [0.5], "times": [5]},
        {"id": "b", "degree": 0, "neighbors": [], "weights": [], "times": []},
    ]


def test_every_flag_of_an_edge_type_reaches_the_schema(gossamer, monkeypatch):
    seen = []

    def stop(schema, *_, **__):
        seen.append(schema)
        raise graph_store.BadInput("seen")

    monkeypatch.setattr(graph_store, "ingest", stop)
    layout = ("--member", "a.csv", "--relation", "r", "--weight", "w", "--time", "t", "--time-unit", "ms")
    weights = ("--duplicates", "sum", "--bad-weights", "drop", "--negative-weights", "error")
    rows = ("--self-loops", "drop", "--missing-nodes", "error", "--bad-rows", "aside", "--bad-rows-limit", 0)
    ends = ("--id-type", "unsigned", "--reverse")
    command = ("ingest", "--edges", "clicks.csv", "--edge-type", "user:*:item")
    gossamer.refusal(*command, *layout, *weights, *rows, *ends, "s.store", status=1)
    found = seen[0].edge_types["user:*:item"]
    assert (found.sources[0].member, found.sources[0].relation) == ("a.csv", "r")
    assert (found.time_unit, found.duplicates, found.self_loops, found.missing_nodes) == ("ms", "sum", "drop", "error")
    assert (found.bad_weights, found.negative_weights) == ("drop", "error")
    assert (found.bad_rows, found.bad_rows_limit, found.reverse) == ("aside", 0, True)
    assert {each.id_type for each in seen[0].node_types.values()} == {"unsigned"}


def test_no_header_takes_the_first_row_as_an_edge(gossamer, tmp_path):
    (tmp_path / "names.csv").write_text("user,item\nalice,matrix\n")
    command = ("ingest", "--edges", "names.csv", "--edge-type", "user:saw:item", "--id-type", "string")
    assert gossamer.answer(*command, "a.store")["rows"] == 1
    assert gossamer.answer(*command, "--no-header", "b.store")["rows"] == 2


def test_undirected_pairs_are_counted_once_and_stored_both_ways(gossamer, tmp_path):
    (tmp_path / "links.csv").write_text("1,2\n2,1\n3,3\n2,4\n")
    command = ("ingest", "--edges", "links.csv", "--edge-type", "page:links:page", "--undirected", "s.store")
    found = gossamer.answer(*command)
    assert found["edges"] == {"page:links:page": 3}
    assert found["duplicates"] == {"page:links:page": 1}
    assert found["self_loops"] == {"page:links:page": 1}
    asked = gossamer.answer("query", "neighbors", "s.store", "--ids", "2,1,3,4")
    assert [result["neighbors"] for result in asked["results"]] == [[1, 4], [2], [3], [2]]


def test_a_schema_makes_a_store_of_several_types(gossamer, tmp_path):
    (tmp_path / "likes.txt").write_text("70 71 72\n71 72\n")
    (tmp_path / "shop.toml").write_text(
        '[edges."user:clicks:item"]\nfiles = "clicks.csv"\nweight = "n"\nreverse = true\n'
        '[edges."item:like:item"]\nfiles = "likes.txt"\nundirected = true\n'
    )
    found = gossamer.answer("ingest", "shop.toml", "shop.store")
    assert found["nodes"] == {"item": 3, "user": 3}
    assert found["edges"] == {"user:clicks:item": 4, "item:rev_clicks:user": 4, "item:like:item": 3}


@pytest.fixture
def shop(gossamer, tmp_path):
    """A store without nodes, of features, rules and times."""
    features = (FeatureType("price"), FeatureType("emb", kind="vector", dim=3, dtype="int8", scale=0.5))
    edges = [edge_type("user:buys:item", timed=True, self_loops="drop", features=(FeatureType("d", kind="ids"),))]
    make_empty(tmp_path / "shop.store", [node_type("item", "unsigned", features), node_type("user", "string")], edges)
    return "shop.store"


def test_info_counts_the_newest_version_and_lists_features_generations_and_parts(gossamer, shop):
    with GraphWriter(shop, fold_rows=0, keep=1) as writer:
        writer.add_edges("user:buys:item", ["ann"], np.array([2**64 - 1], np.uint64), time=[3])
        writer.fold()
        writer.add_edges("user:buys:item", ["bob", "bob"], np.array([1, 2], np.uint64), time=[3, 4])
    found = gossamer.answer("info", shop)
    assert (found["version"], found["generation"]) == (3, 2)
    assert found["generations"] == [{"generation": 1, "version": 1}, {"generation": 2, "version": 2}]
    assert found["nodes"] == {"item": 3, "user": 2}
    assert found["edges"] == {"user:buys:item": 3}
    assert found["id_types"] == {"item": "unsigned", "user": "string"}
    assert found["time_units"] == {"user:buys:item": None}
    assert found["rules"] == {"user:buys:item": {"self_loops": "drop"}}
    price, emb = found["features"]["item"]
    assert price == {"name": "price", "kind": "scalar", "dtype": "float32", "dim": None, "scale": None}
    assert emb == {"name": "emb", "kind": "vector", "dtype": "int8", "dim": 3, "scale": 0.5}
    assert found["log_bytes"] == found["parts"]["log"] > 0
    assert sum(found["parts"].values()) == found["bytes"]
    assert min(found["parts"][name] for name in ("shards", "adjacency", "ids", "features", "overlay")) > 0


def test_info_tells_people_the_same(gossamer, shop):
    status, out, _ = gossamer("info", shop)
    assert status == 0
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert "kept generations 1 (versions from 1 on)" in lines
    assert "user:buys:item: self loops: drop" in lines
    assert "item emb vector int8[3] x 0.5" in lines
    assert "user:buys:item d ids int64" in lines
    assert any(line.startswith("adjacency ") for line in lines)


def test_verify_exits_0_on_a_whole_store_and_1_naming_each_fault(gossamer, store, tmp_path):
    assert gossamer("verify", store) == (0, "clicks.store: no fault\n", "")
    assert gossamer.answer("verify", store) == {"ok": True, "faults": []}
    sealed = max((tmp_path / store).rglob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(sealed.read_bytes())
    data[len(data) // 3] ^= 1
    sealed.chmod(0o644)
    sealed.write_bytes(data)
    status, out, err = gossamer("verify", store)
    assert status == 1
    assert sealed.name in out
    assert "fault" in err
    status, out, _ = gossamer("verify", store, "--json")
    assert status == 1
    assert json.loads(out)["ok"] is False


def test_a_malformed_row_leaves_no_store_and_an_old_one_as_it_was(gossamer, store, tmp_path):
    before = gossamer.answer("info", store)
    (tmp_path / "bad.csv").write_text("1,2\n3,4.5\n")
    command = ("ingest", "--edges", "bad.csv", "--edge-type", "a:b:c")
    said = gossamer.refusal(*command, "new.store", status=1)
    assert said.startswith("gossamer ingest: bad.csv: line 2, column 1 (dst): '4.5' is no whole number; ")
    gossamer.refusal(*command, "--overwrite", store, status=1)
    after = gossamer.answer("info", store)
    for found in (before, after):
        # The file that says who writes came.
        del found["bytes"], found["parts"]["other"]
    assert after == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "clicks.csv", "clicks.store"]


@pytest.mark.parametrize(
    ("line", "status", "says"),
    [
        ("ingest", 2, "expected SCHEMA.toml STORE, or --edges FILE"),
        ("ingest s.store", 2, "expected SCHEMA.toml STORE"),
        ("ingest --edges clicks.csv s.store", 2, "--edges needs --edge-type"),
        ("ingest --edges clicks.csv --edge-type a:b:c", 2, "one STORE, got 0 paths"),
        ("ingest --edges clicks.csv --edge-type a:b s.store", 2, "expected 'src:relation:dst'"),
        ("ingest --edges clicks.csv --edge-type a:b:c --undirected s.store", 2, "one node type"),
        ("ingest --edges clicks.csv --edge-type a:b:c --format cvs s.store", 2, "did you mean 'csv'"),
        ("ingest --edges clicks.csv --edge-type a:b:c --id-type str s.store", 2, "did you mean 'string'"),
        ("ingest --edges clicks.csv --edge-type a:b:c --memory 2XB s.store", 2, "'2XB'"),
        ("ingest --edges clicks.csv --edge-type a:b:c --shards 0 s.store", 2, "--shards"),
        ("ingest --edges clicks.csv --edge-type a:b:c --memory 0 s.store", 2, "at least 64 MiB"),
        ("ingest --edges clicks.csv --edge-type a:b:c --memory 63MiB s.store", 2, "at least 64 MiB"),
        ("ingest --edges clicks.csv --edge-type a:b:c --duplicates sum s.store", 2, "there are no weights"),
        ("ingest --edges clicks.csv --edge-type a:b:c --duplicates frist s.store", 2, "did you mean 'first'"),
        ("ingest --edges clicks.csv --edge-type a:b:c --bad-rows skip s.store", 2, "bad_rows"),
        ("ingest --edges clicks.csv --edge-type a:b:c --bad-rows-limit -1 s.store", 2, "--bad-rows-limit"),
        ("ingest --edges clicks.csv --edge-type a:b:c --time-unit s s.store", 2, "there are no times"),
        ("ingest --edges clicks.csv --edge-type a:*:c s.store", 2, "no relation column"),
        ("ingest shop.toml s.store --bad-rows-limit 0", 2, "--bad-rows-limit: with a schema"),
        ("ingest --edges clicks.csv --edge-type a:b:c --shard 4 s.store", 2, "--shard"),
        ("ingest shop.toml s.store", 2, "shop.toml: cannot read the schema"),
        ("ingest shop.toml s.store --src a --no-header", 2, "--src, --header: with a schema"),
        ("ingest --edges none.csv --edge-type a:b:c s.store", 1, "none.csv: cannot read the file"),
        ("ingest --edges clicks.csv --edge-type a:b:c --src usr s.store", 1, "no column 'usr' for src"),
        ("ingest --edges clicks.csv --edge-type a:b:c clicks.store", 1, "clicks.store: exists"),
        ("info no.store", 1, "gossamer info: no.store: no store is here"),
        ("verify no.store", 1, "gossamer verify: no.store: no store is here"),
    ],
)
def test_a_mistake_is_one_line_with_its_status(gossamer, store, line, status, says):
    assert says in gossamer.refusal(*line.split(), status=status)


@pytest.mark.parametrize("command", [("ingest",), ("info",), ("verify",)])
def test_help_shows_an_example_of_each_command(gossamer, command):
    status, out, _ = gossamer(*command, "--help")
    assert status == 0
    assert f"gossamer {' '.join(command)} " in out.partition("Example")[2]


@pytest.mark.parametrize(
    ("name", "pairs", "duplicates", "loops"),
    [("chameleon", 31421, 4680, 50), ("crocodile", 170918, 9102, 145)],
)
def test_wikipedia_undirected_keeps_the_published_pairs(gossamer, name, pairs, duplicates, loops):
    path = DATA / "wikipedia" / name / f"{name}_edges.csv"
    if not path.exists():
        pytest.skip(f"{path} is not here")
    found = gossamer.answer("ingest", "--edges", path, "--edge-type", "page:links:page", "--undirected", "s.store")
    assert found["edges"] == {"page:links:page": pairs}
    assert found["duplicates"] == {"page:links:page": duplicates}
    assert found["self_loops"] == {"page:links:page": loops}
    assert gossamer("verify", "s.store")[0] == 0


@pytest.mark.parametrize("format", ["parquet", "csv", "csv.gz", "adjacency"])
def test_facebook_ids_that_a_float_would_change_come_back_exact(gossamer, tmp_path, format):
    folder = DATA / "facebook"
    if not folder.exists():
        pytest.skip(f"{folder} is not here")
    with open(folder / "facebook_target.csv", newline="", encoding="utf-8") as text:
        ids = [int(row["facebook_id"]) for row in csv.DictReader(text)]
    with open(folder / "facebook_edges.csv", newline="") as text:
        pairs = [(ids[int(row["id_1"])], ids[int(row["id_2"])]) for row in csv.DictReader(text)]
    changed = [10150093035685641, 10150096495755651, 10150101343025475, 10150125867040707]
    changed += [10150125874235531, 10150130150045573, 10150136203045543, 10150144130895123]
    expected: dict[int, set[int]] = {one: set() for one in changed}
    for src, dst in pairs:
        for one, other in ((src, dst), (dst, src)):
            if one in expected:
                expected[one].add(other)
    path = tmp_path / f"edges.{format}"
    if format == "parquet":
        pq.write_table(pa.table({"a": [src for src, _ in pairs], "b": [dst for _, dst in pairs]}), path)
    else:
        mark = " " if format == "adjacency" else ","
        lines = "".join(f"{src}{mark}{dst}\n" for src, dst in pairs).encode()
        path.write_bytes(gzip.compress(lines) if format == "csv.gz" else lines)
    stated = ("--format", format.removesuffix(".gz"))
    command = ("ingest", "--edges", path, "--edge-type", "page:likes:page", "--undirected", *stated)
    made = gossamer.answer(*command, "s.store")
    assert made["edges"] == {"page:likes:page": 171002}
    assert made["self_loops"] == {"page:likes:page": 179}
    assert made["nodes"] == {"page": 22470}
    found = gossamer.answer("query", "neighbors", "s.store", "--ids", ",".join(map(str, changed)))
    assert {result["id"]: result["neighbors"] for result in found["results"]} == {
        one: sorted(others) for one, others in expected.items()
    }
