"""Schema files: what they declare, and what in them is refused and how."""

from dataclasses import fields
from pathlib import Path

import pytest

from graph_store.errors import BadInput
from graph_store.schema import EdgeSource, EdgeType, FeatureType, NodeSource, NodeType, Schema
from graph_store.sources import expand

SCHEMA = """
[nodes.user]
id_type = "string"
[nodes.item]

[edges."user:clicks:item"]
files = ["clicks-*.csv", "more.tsv"]
src = "user_id"
dst = 3
weight = "n"
reverse = true

[edges."item:like:item"]
undirected = true
format = "csv"
sources = [
    { files = "one.txt", delimiter = "tab", time = 2 },
    { files = ["two.txt"], header = false, time = "2" },
]
"""


def write(folder, text):
    path = folder / "schema.toml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_schema_file_declares_types_files_and_columns_relative_to_itself(tmp_path):
    for name in ("clicks-2.csv", "clicks-1.csv"):
        (tmp_path / name).touch()
    schema = Schema.from_toml(write(tmp_path, SCHEMA))
    assert schema.node_types == {"item": NodeType("item"), "user": NodeType("user", "string")}
    clicks, like = schema.edge_types["user:clicks:item"], schema.edge_types["item:like:item"]
    assert [source.path for source in clicks.sources] == [
        tmp_path / name for name in ("clicks-1.csv", "clicks-2.csv", "more.tsv")
    ]
    assert clicks.sources[0].columns() == {"src": "user_id", "dst": 3, "weight": "n"}
    assert clicks.reverse
    assert like.undirected
    assert like.timed
    assert like.sources == (
        EdgeSource(tmp_path / "one.txt", format="csv", delimiter="\t", time=2),
        EdgeSource(tmp_path / "two.txt", format="csv", header=False, time="2"),
    )


def test_without_declared_nodes_all_ids_are_integers(tmp_path):
    schema = Schema.from_toml(write(tmp_path, '[edges."a:b:c"]\nfiles = "x.csv"\n'))
    assert schema.node_types == {"a": NodeType("a"), "c": NodeType("c")}


FULL = """
[nodes.user]
id_type = "unsigned"
[nodes.item]
files = ["items/*.csv", "late.csv"]
id = "item_id"
delimiter = "pipe"
bad_rows = "aside"
bad_rows_limit = 20
sources = [{ files = "more.zip", member = "items.csv", id = 1, format = "csv", header = false }]
[nodes.item.features.emb]
kind = "vector"
dtype = "int8"
scale = 0.25
columns = ["e0", "e1"]
[nodes.item.features.genres]
kind = "ids"
column = "genre_ids"
separator = "comma"
[nodes.item.features.title]
kind = "string"

[edges."user:rated:item"]
files = "ratings"
weight = "rating"
time = "at"
time_unit = "ms"
duplicates = "all"
self_loops = "drop"
missing_nodes = "error"
bad_weights = "drop"
negative_weights = "error"
bad_rows = "aside"
bad_rows_limit = 0
[edges."user:rated:item".features.device]
kind = "category"
columns = 7

[edges."item:*:item"]
files = "triples.tar.gz"
member = "train.txt"
src = 0
relation = 1
dst = 2

[edges."user:saw:item"]
files = "sessions.txt"
format = "adjacency"
time = "position"
"""


def test_a_schema_file_says_all_that_a_schema_can_hold(tmp_path):
    for name in ("items/b.csv", "items/a.csv", "ratings/z.csv", "ratings/day=1/part-0.csv", "ratings/_SUCCESS"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    schema = Schema.from_toml(write(tmp_path, FULL))
    item = schema.node_types["item"]
    assert schema.node_types["user"] == NodeType("user", "unsigned")
    assert item.sources == (
        *(
            NodeSource(tmp_path / name, id="item_id", delimiter="|")
            for name in ("items/a.csv", "items/b.csv", "late.csv")
        ),
        NodeSource(tmp_path / "more.zip", "csv", 1, header=False, delimiter="|", member="items.csv"),
    )
    assert item.features == (
        FeatureType("emb", "vector", "int8", 2, 0.25, ("e0", "e1")),
        FeatureType("genres", "ids", columns=("genre_ids",), separator=","),
        FeatureType("title", "string"),
    )
    assert (item.bad_rows, item.bad_rows_limit) == ("aside", 20)
    rated, any_, saw = schema.edge_types.values()
    assert rated == EdgeType(
        "user:rated:item",
        tuple(
            EdgeSource(tmp_path / "ratings" / name, weight="rating", time="at")
            for name in ("day=1/part-0.csv", "z.csv")
        ),
        features=(FeatureType("device", "category", columns=(7,)),),
        time_unit="ms",
        duplicates="all",
        self_loops="drop",
        missing_nodes="error",
        bad_weights="drop",
        negative_weights="error",
        bad_rows="aside",
        bad_rows_limit=0,
    )
    assert any_.name.is_wildcard
    assert any_.sources == (EdgeSource(tmp_path / "triples.tar.gz", src=0, dst=2, relation=1, member="train.txt"),)
    assert saw.sources[0].timed_by_position


def test_a_folder_stands_for_its_files_in_order_without_hidden_ones(tmp_path):
    shown = ["a/2.csv", "a/b/1.csv", "a-b/0.csv", "z.csv"]
    for name in (*shown, ".hidden", "_SUCCESS", ".git/x", "_temporary/y", "a/_c/z", "a/.d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert expand(tmp_path) == [tmp_path / name for name in shown]


def test_a_pattern_may_match_folders_and_walk_them(tmp_path):
    for name in ("d1/x.csv", "d2/y.csv", "d2/z.txt", "d3.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / "d4").mkdir()
    assert expand(tmp_path / "d?") == [tmp_path / name for name in ("d1/x.csv", "d2/y.csv", "d2/z.txt")]
    assert expand(tmp_path / "**" / "*.csv") == [tmp_path / name for name in ("d1/x.csv", "d2/y.csv", "d3.csv")]
    assert expand(tmp_path / "d[2]" / "*.txt") == [tmp_path / "d2" / "z.txt"]


def test_a_file_named_like_a_pattern_is_that_file_and_an_absent_one_stays(tmp_path):
    for name in ("x[1].csv", "x1.csv"):
        (tmp_path / name).touch()
    assert expand(tmp_path / "x[1].csv") == [tmp_path / "x[1].csv"]
    assert expand(tmp_path / "absent.csv") == [tmp_path / "absent.csv"]


def test_a_folder_with_the_marks_of_patterns_in_its_name_is_no_pattern(tmp_path):
    folder = tmp_path / "data[1]*"
    folder.mkdir()
    for name in ("a.csv", "b.csv"):
        (folder / name).touch()
    schema = Schema.from_toml(write(folder, '[edges."a:b:c"]\nfiles = "?.csv"\n'))
    assert [source.path for source in schema.edge_types["a:b:c"].sources] == [folder / "a.csv", folder / "b.csv"]
    assert expand(folder / "a.csv") == [folder / "a.csv"]
    assert expand(str(folder / "a.csv"), Path("elsewhere")) == [folder / "a.csv"]


def test_what_holds_no_file_is_refused(tmp_path):
    (tmp_path / "_SUCCESS").touch()
    with pytest.raises(BadInput, match=r"no file in this folder \(names beginning with '\.' or '_' are left out\)"):
        expand(tmp_path)
    (tmp_path / "d1").mkdir()
    with pytest.raises(BadInput, match="no file matches"):
        expand(tmp_path / "d*")


EDGES = '[edges."a:b:c"]\nfiles="x"\n[nodes.a]\n'


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "no edge type"),
        ("edges = 3", "expected a table"),
        ("[edge]", "unknown key 'edge'; did you mean 'edges'"),
        ('[edges."a:b:c"]', "no files"),
        ('[edges."a:b"]\nfiles="x"', "expected 'src:relation:dst'"),
        ('[edges."a:b:c"]\nfile="x"', "unknown key 'file'; did you mean 'files'"),
        ('[edges."a:b:c"]\nfiles=3', "expected a path or a list of paths"),
        ('[edges."a:b:c"]\nfiles="no-*.csv"', "no file matches"),
        ('[edges."a:b:c"]\nfiles="x"\nwieght="w"', "did you mean 'weight'"),
        ('[edges."a:b:c"]\nfiles="x"\npart=[0, 2]', "unknown key 'part'"),
        ('[nodes.a]\nfiles="x"\npart=[0, 2]', "unknown key 'part'"),
        ('[edges."a:b:c"]\nfiles="x"\nreverse="yes"', "reverse is 'yes', expected true or false"),
        ('[edges."a:b:c"]\nsources=["x"]', "expected a list of tables"),
        ('[edges."a:b:c"]\nsources=[{src=1}]', "has no files"),
        ('[nodes.user]\n[edges."usr:b:user"]\nfiles="x"', "node type 'usr' is not declared; did you mean 'user'"),
        ('[nodes.a]\nid_typ="string"\n[edges."a:b:a"]\nfiles="x"', "did you mean 'id_type'"),
        ('[edges."a:b:c"]\nfiles="x"\nreverse=true\n[edges."c:rev_b:a"]\nfiles="y"', "is an edge type already"),
        ("[edges", "not TOML"),
        ('[edges."a:b:c"]\nfiles="x"\nfeatures=3', r"features is 3, expected tables, as in .*features.NAME"),
        ('[edges."a:b:c"]\nfiles="x"\nfeatures.age=3', r"\[edges.\"a:b:c\".features.age\] is 3, expected a table"),
        ('[edges."a:b:c"]\nfiles="x"\nduplicates="sum"', "there are no weights; name their column"),
        ('[edges."a:*:c"]\nfiles="x"', "no relation column"),
        ('[edges."a:b:c"]\nfiles="x"\nmember=3', "member is 3"),
        ('[edges."a:b:c"]\nfiles="x"\nmissing_nodes="drop"', "no files of nodes .* a or c; name them or leave it out"),
        (f"{EDGES}[nodes.c.features.x]", r"\[nodes.c\]: features but no files; name the files"),
        (f"{EDGES}[nodes.c]\nfile='x'", r"\[nodes.c\]: unknown key 'file'; did you mean 'files'"),
        (f"{EDGES}[nodes.c]\nformat='csv'", r"\[nodes.c\]: format but no files"),
        (f"{EDGES}[nodes.c]\nbad_rows='aside'", r"\[nodes.c\]: bad_rows but no files"),
        (f"{EDGES}[nodes.c]\nfiles='no-*'", r"\[nodes.c\]: .*no file matches"),
        (f"{EDGES}[nodes.c]\nfiles='x'\nid=true", r"\[nodes.c\]: .*x: id is True"),
        (f"{EDGES}[nodes.c]\nfiles='x'\nsrc='a'", r"\[nodes.c\]: unknown key 'src'"),
        (f"{EDGES}[nodes.c]\nsources=[{{id=0}}]", r"\[nodes.c\]: sources: an entry has no files"),
        (f"{EDGES}[nodes.c]\nfiles='x'\n[nodes.c.features.x]\nkind='vec'", r"\[nodes.c.features.x\]: .*'vector'"),
        (f"{EDGES}[nodes.c]\nfiles='x'\n[nodes.c.features.x]\ndims=3", r"\[nodes.c.features.x\]: unknown key 'dims'"),
        (
            f"{EDGES}[nodes.c]\nfiles='x'\n[nodes.c.features.x]\ncolumn=3\ncolumns=4",
            r"\[nodes.c.features.x\]: column and columns; give one of them",
        ),
    ],
)
def test_a_schema_file_that_cannot_be_is_refused_by_file_and_key(tmp_path, text, says):
    path = write(tmp_path, text)
    with pytest.raises(BadInput, match=says) as error:
        Schema.from_toml(path)
    assert str(path) in str(error.value)


def test_an_absent_schema_file_is_refused(tmp_path):
    with pytest.raises(BadInput, match="No such file"):
        Schema.from_toml(tmp_path / "absent.toml")


def test_the_schema_of_the_documentation_is_one(tmp_path):
    text = (Path(__file__).parents[2] / "docs" / "ingest.md").read_text(encoding="utf-8")
    for name in ("clicks/part-0.parquet", "items/0.csv", "items/1.csv"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    schema = Schema.from_toml(write(tmp_path, text.partition("```toml\n")[2].partition("```")[0]))
    assert list(schema.edge_types) == ["user:clicks:item", "item:like:item", "item:from:shop"]
    assert schema.node_types["user"].id_type == "string"
    assert schema.edge_types["user:clicks:item"].timed
    assert schema.edge_types["user:clicks:item"].features == (FeatureType("device", "category"),)
    assert schema.edge_types["item:from:shop"].sources[0].delimiter == ";"
    item = schema.node_types["item"]
    assert item.sources == tuple(NodeSource(tmp_path / "items" / name, id="item_id") for name in ("0.csv", "1.csv"))
    assert item.features == (
        FeatureType("price", "scalar", "float32"),
        FeatureType("genres", "ids", columns=("genre_ids",), separator="|"),
        FeatureType("picture", "vector", "float16", 64, separator=","),
    )


def test_every_key_is_in_the_documentation():
    text = (Path(__file__).parents[2] / "docs" / "ingest.md").read_text(encoding="utf-8")
    tables = text.partition("### Keys of files")[2].partition("## In Python")[0]
    values = (NodeSource, EdgeSource, NodeType, EdgeType, FeatureType)
    keys = {each.name for value in values for each in fields(value)} - {"name", "path", "table", "part"}
    assert [key for key in sorted(keys) if f"`{key}`" not in tables] == []
