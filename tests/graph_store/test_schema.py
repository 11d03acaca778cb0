"""Node types, edge types, sources and schema files: what they hold and what they refuse."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.errors import BadInput
from graph_store.schema import EdgeSource, EdgeType, EdgeTypeName, NodeType, Schema

NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,10}", fullmatch=True)


@settings(max_examples=30, deadline=None)
@given(NAMES, NAMES, NAMES)
def test_the_text_of_an_edge_type_parses_to_itself(src, relation, dst):
    name = EdgeTypeName.parse(f"{src}:{relation}:{dst}")
    assert (name.src, name.relation, name.dst) == (src, relation, dst)
    assert EdgeTypeName.parse(str(name)) == name
    assert str(name.reversed()) == f"{dst}:rev_{relation}:{src}"


@pytest.mark.parametrize(
    "text", ["", "user", "user:item", "a:b:c:d", ":b:c", "a::c", "a b:c:d", "a/b:c:d", "-a:b:c", 7]
)
def test_what_is_no_edge_type_is_refused_with_an_example(text):
    with pytest.raises(BadInput, match=r"user:clicks:item|name"):
        EdgeTypeName.parse(text)


def test_an_id_type_is_integer_unless_stated_and_nothing_else_is_taken():
    assert NodeType("user").id_type == "integer"
    assert not NodeType("user", "string").is_integer
    with pytest.raises(BadInput, match="did you mean 'string'"):
        NodeType("user", "strings")


def test_from_edges_makes_one_edge_type_over_all_files():
    schema = Schema.from_edges(["a.csv", Path("b.csv")], "user:clicks:item", weight="w", reverse=True)
    edge_type = schema.edge_types["user:clicks:item"]
    assert [str(source.path) for source in edge_type.sources] == ["a.csv", "b.csv"]
    assert edge_type.weighted
    assert not edge_type.timed
    assert edge_type.reverse
    assert list(schema.node_types) == ["item", "user"]
    assert edge_type.sources[0].columns() == {"src": 0, "dst": 1, "weight": "w"}


def test_from_edges_takes_an_id_type_for_each_end():
    schema = Schema.from_edges("a.csv", "user:clicks:item", id_type={"user": "string"})
    assert schema.node_types == {"item": NodeType("item"), "user": NodeType("user", "string")}
    with pytest.raises(BadInput, match="did you mean 'user'"):
        Schema.from_edges("a.csv", "user:clicks:item", id_type={"usr": "string"})


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "cvs"}, "did you mean 'csv'"),
        ({"src": "a", "dst": "a"}, "both column 'a'"),
        ({"src": -1}, "position from 0"),
        ({"src": True}, "position from 0"),
        ({"weight": ""}, "column name or a position"),
        ({"delimiter": "::"}, "one ASCII character"),
        ({"delimiter": '"'}, "one ASCII character"),
        ({"delimiter": "\n"}, "one ASCII character"),
        ({"header": "yes"}, "true or false"),
        ({"format": "adjacency", "weight": 2}, "no columns"),
        ({"format": "parquet", "header": True}, "always names its columns"),
        ({"format": "parquet", "delimiter": ","}, "no delimiter"),
    ],
)
def test_a_source_that_cannot_be_is_refused_with_its_file_and_reason(options, says):
    with pytest.raises(BadInput, match=says) as error:
        EdgeSource(Path("clicks.txt"), **options)
    assert "clicks.txt" in str(error.value)


@pytest.mark.parametrize(("word", "mark"), [("tab", "\t"), ("\\t", "\t"), ("space", " "), ("comma", ","), (";", ";")])
def test_a_delimiter_may_be_named(word, mark):
    assert EdgeSource(Path("a.csv"), delimiter=word).delimiter == mark


def test_undirected_needs_one_node_type_and_excludes_reverse():
    with pytest.raises(BadInput, match="one node type at both ends"):
        Schema.from_edges("a.csv", "user:clicks:item", undirected=True)
    with pytest.raises(BadInput, match="exclude each other"):
        Schema.from_edges("a.csv", "page:links:page", undirected=True, reverse=True)


def test_the_files_of_a_type_all_have_weights_or_none_does():
    sources = (EdgeSource(Path("a.csv"), weight=2), EdgeSource(Path("b.csv")))
    with pytest.raises(BadInput, match=r"a\.csv has a weight column, b\.csv has none"):
        EdgeType(EdgeTypeName.parse("a:b:c"), sources)


def test_an_edge_type_without_files_is_refused():
    with pytest.raises(BadInput, match="no files"):
        EdgeType(EdgeTypeName.parse("a:b:c"), ())
    with pytest.raises(BadInput, match="no files"):
        Schema.from_edges([], "a:b:c")


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
        ('[edges."a:b:c"]\nfiles="x"\nreverse="yes"', "reverse is 'yes', expected true or false"),
        ('[edges."a:b:c"]\nsources=["x"]', "expected a list of tables"),
        ('[edges."a:b:c"]\nsources=[{src=1}]', "has no files"),
        ('[nodes.user]\n[edges."usr:b:user"]\nfiles="x"', "node type 'usr' is not declared; did you mean 'user'"),
        ('[nodes.a]\nid_typ="string"\n[edges."a:b:a"]\nfiles="x"', "did you mean 'id_type'"),
        ('[edges."a:b:c"]\nfiles="x"\nreverse=true\n[edges."c:rev_b:a"]\nfiles="y"', "is an edge type already"),
        ("[edges", "not TOML"),
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
    (tmp_path / "clicks").mkdir()
    (tmp_path / "clicks" / "part-0.parquet").touch()
    schema = Schema.from_toml(write(tmp_path, text.partition("```toml\n")[2].partition("```")[0]))
    assert list(schema.edge_types) == ["user:clicks:item", "item:like:item", "item:from:shop"]
    assert schema.node_types["user"].id_type == "string"
    assert schema.edge_types["user:clicks:item"].timed
    assert schema.edge_types["item:from:shop"].sources[0].delimiter == ";"
