"""The commands of a store, as a shell sees them: stdout, stderr, status."""

import csv
import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mpi_runner.cli import main

CLICKS = "user_id,item_id,n\n7,70,0.5\n7,71,1.5\n-3,70,2\n7,70,0.5\n9007199254740993,72,1\n"
DATA = Path(__file__).parents[2].parent / "shared" / "data"


class Shell:
    """Runs commands in this process."""

    def __init__(self, capsys):
        self.capsys = capsys

    def __call__(self, *arguments):
        """Return status, stdout and stderr of a command."""
        with pytest.raises(SystemExit) as end:
            main([str(argument) for argument in arguments])
        out, err = self.capsys.readouterr()
        assert "Traceback" not in err
        return int(end.value.code or 0), out, err

    def answer(self, *arguments):
        """Return the one JSON object that a command prints."""
        status, out, err = self(*arguments, "--json")
        assert status == 0, err
        assert out.count("\n") == 1
        return json.loads(out)

    def refusal(self, *arguments, status):
        """Return the one line that a command ends with."""
        found, out, err = self(*arguments)
        assert (found, out, err.count("\n")) == (status, "", 1)
        return err


@pytest.fixture
def gossamer(tmp_path, monkeypatch, capsys):
    """A shell in an empty folder that holds clicks.csv."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "clicks.csv").write_text(CLICKS)
    return Shell(capsys)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A store of clicks.csv, made once."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "clicks.csv").write_text(CLICKS)
    edges = ("--edges", str(folder / "clicks.csv"), "--edge-type", "user:clicks:item", "--reverse", "--weight", "n")
    with pytest.raises(SystemExit) as end:
        main(["ingest", *edges, "--shards", "4", str(folder / "clicks.store")])
    assert not end.value.code
    return folder / "clicks.store"


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
    assert gossamer.answer("info", store) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.csv", "clicks.csv", "clicks.store"]


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
    for query in (("neighbors",), ("degree",), ("sample", "--fanouts", "2")):
        command = ("query", *query, store, "--edge-type", "user:clicks:item", "--ids", ids)
        said = gossamer.refusal(*command, "--json", status=status)
        assert said.startswith(f"gossamer query {query[0]}: ")
        assert says in said


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
        ("ingest --edges clicks.csv --edge-type a:b:c --shard 4 s.store", 2, "--shard"),
        ("ingest shop.toml s.store", 2, "shop.toml: cannot read the schema"),
        ("ingest shop.toml s.store --src a --no-header", 2, "--src, --header: with a schema"),
        ("ingest --edges none.csv --edge-type a:b:c s.store", 1, "none.csv: cannot read the file"),
        ("ingest --edges clicks.csv --edge-type a:b:c --src usr s.store", 1, "no column 'usr' for src"),
        ("ingest --edges clicks.csv --edge-type a:b:c clicks.store", 1, "clicks.store: exists"),
        ("info no.store", 1, "gossamer info: no.store: no store is here"),
        ("verify no.store", 1, "gossamer verify: no.store: no store is here"),
        ("query degree no.store --ids 1", 1, "no.store: no store is here"),
        ("query degree clicks.store --ids 7", 2, "--edge-type is needed"),
        ("query degree clicks.store --ids 7 --edge-type a:b:c", 1, "no edge type 'a:b:c'; it has user:clicks:item"),
        ("query degree clicks.store", 2, "--ids"),
        ("query neighbors clicks.store --ids 7 --limit -1", 2, "--limit"),
        ("query sample clicks.store --ids 7 --fanouts 2,x", 2, "'2,x'"),
        ("query sample clicks.store --ids 7 --fanouts -2", 2, "'-2'"),
        ("query walks", 2, "walks"),
    ],
)
def test_a_mistake_is_one_line_with_its_status(gossamer, store, line, status, says):
    assert says in gossamer.refusal(*line.split(), status=status)


@pytest.mark.parametrize(
    "command", [("ingest",), ("info",), ("verify",), ("query", "neighbors"), ("query", "sample"), ("query", "degree")]
)
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
