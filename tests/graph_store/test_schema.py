"""Node types, edge types and their sources: what they hold and what they refuse."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.errors import BadInput
from graph_store.schema import EdgeSource, EdgeType, EdgeTypeName, FeatureType, NodeSource, NodeType, Schema

NAMES = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,10}", fullmatch=True)


@settings(max_examples=30, deadline=None)
@given(NAMES, NAMES, NAMES)
def test_the_text_of_an_edge_type_parses_to_itself(src, relation, dst):
    name = EdgeTypeName.parse(f"{src}:{relation}:{dst}")
    assert (name.src, name.relation, name.dst) == (src, relation, dst)
    assert EdgeTypeName.parse(str(name)) == name
    assert str(name.reversed()) == f"{dst}:rev_{relation}:{src}"


@pytest.mark.parametrize(
    "text", ["", "user", "user:item", "a:b:c:d", ":b:c", "a::c", "a b:c:d", "a/b:c:d", "-a:b:c", 7, "*:b:c", "a:b:*"]
)
def test_what_is_no_edge_type_is_refused_with_an_example(text):
    with pytest.raises(BadInput, match=r"user:clicks:item|name"):
        EdgeTypeName.parse(text)


@pytest.mark.parametrize("relation", ["/film/actor", "http//x#y", "é", "+1", "rev_*", "r" * 255, "a\u200db", "-"])
def test_a_relation_keeps_the_words_of_its_graph(relation):
    name = EdgeTypeName.parse(f"a:{relation}:b")
    assert name.relation == relation
    assert not name.is_wildcard


@pytest.mark.parametrize("relation", ["", "two words", "a\tb", "a\u00a0b", "a\0b", "a\x7fb", "r" * 256, "\ud800"])
def test_a_relation_of_blanks_control_characters_or_too_many_is_refused(relation):
    with pytest.raises(BadInput, match=r"relation name '.*': expected 1 to 255 characters") as error:
        EdgeTypeName("a", relation, "b")
    assert len(str(error.value)) < 200


def test_a_star_stands_for_every_relation_and_is_none_itself():
    name = EdgeTypeName.parse("user:*:item")
    assert name.is_wildcard
    assert name.with_relation("buys") == EdgeTypeName("user", "buys", "item")
    assert str(name.reversed()) == "item:rev_*:user"
    with pytest.raises(BadInput, match="relation name '\\*': stands for all relations"):
        name.with_relation("*")
    with pytest.raises(BadInput, match="relation name 'a b'"):
        name.with_relation("a b")


def test_an_id_type_is_integer_unless_stated_and_nothing_else_is_taken():
    assert NodeType("user").id_type == "integer"
    assert not NodeType("user", "string").is_integer
    assert NodeType("user", "unsigned").is_integer
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
        ({"header": 1}, "header is 1, expected true or false"),
        ({"member": ""}, "member is '', expected the name of a file within the archive"),
        ({"member": 3}, "member is 3"),
        ({"relation": "a", "src": "a"}, "relation and src are both column 'a'"),
        ({"time": "position", "weight": "position"}, "time and weight are both"),
        ({"format": "adjacency", "time": 2}, "its time can be 'position'"),
        ({"format": "adjacency", "relation": 2}, "no columns"),
        ({"format": "npy", "delimiter": ","}, "a file of format 'npy' has no delimiter"),
        ({"format": "jsonl", "header": False}, "a file of format 'jsonl' has no delimiter"),
        ({"format": "parket"}, "did you mean 'parquet'"),
        ({"table": pa.table({"a": [1]})}, "a file and a table; give one of them"),
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


def test_the_columns_of_a_source_are_told_by_role_and_a_place_in_a_line_is_none():
    source = EdgeSource("a.csv", weight="w", time="position", relation=4)
    assert source.columns() == {"src": 0, "dst": 1, "weight": "w", "time": "position", "relation": 4}
    assert not source.timed_by_position
    line = EdgeSource("a.txt", format="adjacency", time="position")
    assert line.columns() == {"src": 0, "dst": 1}
    assert line.timed_by_position
    assert not line.has_column_options
    assert EdgeSource("a.csv", relation=4).has_column_options


def test_a_source_of_nodes_has_its_ids_in_the_first_column_unless_told():
    assert NodeSource("n.csv").columns() == {"id": 0}
    assert NodeSource("n.csv", id="item_id", delimiter="pipe").columns() == {"id": "item_id"}
    assert NodeSource("n.csv", delimiter="pipe").delimiter == "|"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"format": "adjacency"}, "format 'adjacency' is for edges"),
        ({"format": "jason"}, "format 'jason' is unknown; did you mean 'jsonl'"),
        ({"id": True}, "id is True, expected a column name"),
        ({"id": -1}, "id is -1, expected a position from 0"),
        ({"header": "no"}, "true or false"),
        ({"format": "parquet", "delimiter": ","}, "no delimiter"),
        ({"member": ""}, "member is ''"),
        ({"delimiter": ", "}, "one ASCII character"),
    ],
)
def test_a_source_of_nodes_that_cannot_be_is_refused_with_its_file_and_reason(options, says):
    with pytest.raises(BadInput, match=says) as error:
        NodeSource("nodes.txt", **options)
    assert str(error.value).startswith("nodes.txt: ")


TABLE = pa.table({"u": [1, 2], "i": [3, 4], "w": [0.5, 1.5]})


@pytest.mark.parametrize(
    "table",
    [
        TABLE,
        TABLE.to_reader(),
        TABLE.to_batches(),
        iter(TABLE.to_batches()),
        scipy.sparse.coo_array(np.eye(2)),
        scipy.sparse.csr_matrix(np.eye(2)),
    ],
    ids=["table", "reader", "list", "generator", "sparse array", "sparse matrix"],
)
def test_a_source_may_be_a_table_in_memory(table):
    source = EdgeSource(table=table)
    assert source.path == Path("<table>")
    assert source.table is table
    assert replace(source, weight="data").table is table
    assert source == EdgeSource(table=TABLE)
    assert hash(source) == hash(EdgeSource(table=TABLE))
    assert "pyarrow" not in repr(source)


def test_one_record_batch_is_a_table_of_one():
    batch = TABLE.to_batches()[0]
    assert EdgeSource(table=batch).table == (batch,)
    assert NodeSource(table=batch).table == (batch,)


@pytest.mark.parametrize("table", [np.eye(2), {"u": [1]}, "clicks.csv", b"x", 3, object()])
def test_what_is_no_table_is_refused_with_what_would_be(table):
    with pytest.raises(BadInput, match=r"^<table>: a .* is no table; expected a pyarrow Table"):
        EdgeSource(table=table)


@pytest.mark.parametrize("key", [{"format": "csv"}, {"header": True}, {"delimiter": ","}, {"member": "a.csv"}])
def test_a_table_in_memory_has_none_of_the_options_of_files(key):
    with pytest.raises(BadInput, match=f"^<table>: {next(iter(key))} is for files"):
        EdgeSource(table=TABLE, **key)


def test_a_source_needs_a_file_or_a_table():
    for kind in (EdgeSource, NodeSource):
        with pytest.raises(BadInput, match="no file and no table"):
            kind()


def test_the_columns_of_a_sparse_array_are_row_col_and_data():
    array = scipy.sparse.coo_array(np.eye(2))
    assert EdgeSource(table=array, src="col", dst="row", weight="data").columns()["weight"] == "data"
    assert EdgeSource(table=array, weight=2).columns() == {"src": 0, "dst": 1, "weight": 2}
    with pytest.raises(BadInput, match=r"weight is 'dat', but a sparse array .* did you mean 'data'"):
        EdgeSource(table=array, weight="dat")
    with pytest.raises(BadInput, match="time is 3, but a sparse array has columns"):
        EdgeSource(table=array, time=3)
    with pytest.raises(BadInput, match="holds edges"):
        NodeSource(table=array)
    with pytest.raises(BadInput, match="node type 'b' has string ids; declare integer ids"):
        Schema.from_tables({"a:r:b": array}, id_types={"b": "string"})


CLICKS = EdgeTypeName.parse("user:clicks:item")
PLAIN, WEIGHTED, TIMED = EdgeSource("a.csv"), EdgeSource("a.csv", weight=2), EdgeSource("a.csv", time=3)
LINES = EdgeSource("a.txt", format="adjacency", time="position")
AGE = FeatureType("age")


def test_what_becomes_of_rows_has_these_defaults():
    edges, nodes = EdgeType(CLICKS, (PLAIN,)), NodeType("user")
    assert (edges.duplicates, edges.self_loops, edges.missing_nodes) == ("first", "keep", "create")
    assert (edges.bad_weights, edges.negative_weights) == ("error", "keep")
    assert (edges.bad_rows, edges.bad_rows_limit, edges.features, edges.time_unit) == ("stop", 1000, (), None)
    assert (nodes.bad_rows, nodes.bad_rows_limit, nodes.features, nodes.sources) == ("stop", 1000, (), ())


@pytest.mark.parametrize(
    ("source", "options", "says"),
    [
        (PLAIN, {"duplicates": "frist"}, "duplicates is 'frist', expected .* did you mean 'first'"),
        (PLAIN, {"duplicates": "sum"}, "duplicates is 'sum', but there are no weights; name their column"),
        (PLAIN, {"duplicates": "max"}, "there are no weights"),
        (PLAIN, {"self_loops": True}, "self_loops is True, expected 'keep', 'drop', 'error'"),
        (PLAIN, {"missing_nodes": "creat"}, "did you mean 'create'"),
        (PLAIN, {"bad_weights": "drop"}, "bad_weights is 'drop', but there are no weights"),
        (PLAIN, {"negative_weights": "error"}, "negative_weights is 'error', but there are no weights"),
        (WEIGHTED, {"bad_weights": "keep"}, "bad_weights is 'keep', expected 'error', 'drop'"),
        (WEIGHTED, {"negative_weights": "dorp"}, "did you mean 'drop'"),
        (PLAIN, {"bad_rows": "asid"}, "did you mean 'aside'"),
        (PLAIN, {"bad_rows_limit": -1}, "bad_rows_limit is -1, expected a whole number of 0 or more"),
        (PLAIN, {"bad_rows_limit": True}, "bad_rows_limit is True"),
        (PLAIN, {"bad_rows_limit": 1.5}, r"bad_rows_limit is 1\.5"),
        (PLAIN, {"time_unit": "s"}, "there are no times; name their column"),
        (TIMED, {"time_unit": "sec"}, "time_unit is 'sec', expected 's', 'ms', 'us', 'ns', 'step'"),
        (LINES, {"time_unit": "s"}, r"a\.txt has times by position, which are steps"),
        (PLAIN, {"features": (AGE, FeatureType("age", "ids"))}, "two features are called 'age'; rename one"),
        (PLAIN, {"features": ("age",)}, "features is .*, expected a tuple of FeatureType"),
        (LINES, {"features": (AGE,)}, r"an adjacency file \(a\.txt\) holds no features"),
        (EdgeSource(table=scipy.sparse.coo_array(np.eye(2))), {"features": (AGE,)}, "a sparse array .*no features"),
        (EdgeSource("a.txt", delimiter=" "), {"features": (FeatureType("tags", "ids"),)}, "say its separator"),
        (EdgeSource("a.csv", relation=2), {}, "for edge types with '\\*'; say 'user:\\*:item' or leave relation out"),
        ("a.csv", {}, "sources is 'a.csv', expected a tuple of EdgeSource"),
    ],
)
def test_an_edge_type_that_cannot_be_is_refused_by_name_and_reason(source, options, says):
    with pytest.raises(BadInput, match=says) as error:
        EdgeType(CLICKS, source if isinstance(source, str) else (source,), **options)
    assert str(error.value).startswith("edge type user:clicks:item: ")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"id_type": "int"}, "id_type is 'int', expected 'integer', 'unsigned', 'string'; did you mean"),
        ({"bad_rows": "skip"}, "bad_rows is 'skip', expected 'stop', 'aside'"),
        ({"bad_rows_limit": "9"}, "bad_rows_limit is '9'"),
        ({"features": (AGE, AGE)}, "two features are called 'age'"),
        ({"sources": (EdgeSource("a.csv"),)}, "expected a tuple of NodeSource"),
    ],
)
def test_a_node_type_that_cannot_be_is_refused_by_name_and_reason(options, says):
    with pytest.raises(BadInput, match=says) as error:
        NodeType("user", **options)
    assert str(error.value).startswith("node type 'user': ")


def test_weights_and_times_take_their_options():
    edges = EdgeType(CLICKS, (EdgeSource("a", weight=2, time=3),), duplicates="sum", bad_weights="drop", time_unit="ms")
    assert (edges.duplicates, edges.bad_weights, edges.time_unit) == ("sum", "drop", "ms")


def test_times_by_position_are_steps_and_mix_with_steps_only():
    assert EdgeType(CLICKS, (LINES,)).time_unit == "step"
    assert EdgeType(CLICKS, (LINES,)).timed
    assert EdgeType(CLICKS, (LINES, TIMED), time_unit="step").time_unit == "step"
    with pytest.raises(BadInput, match="say time_unit = 'step' if the other times are too"):
        EdgeType(CLICKS, (LINES, TIMED))


def test_one_source_or_feature_need_not_stand_in_a_tuple():
    edges = EdgeType(CLICKS, PLAIN, features=AGE)
    assert edges == EdgeType(CLICKS, (PLAIN,), features=(AGE,))
    assert NodeType("a", sources=NodeSource("n.csv"), features=[AGE]).features == (AGE,)


def test_a_wildcard_needs_a_relation_column_in_every_file():
    name = EdgeTypeName.parse("a:*:b")
    files = (EdgeSource("x.csv", relation=2), EdgeSource("y.csv"))
    with pytest.raises(BadInput, match=r"y\.csv has no relation column; '\*' needs one, say relation"):
        EdgeType(name, files)
    schema = Schema.from_edges("x.csv", "a:*:b", relation="r", reverse=True)
    assert schema.edge_types["a:*:b"].sources[0].relation == "r"


@pytest.mark.parametrize("duplicates", ["all", "sum", "error"])
def test_a_file_named_twice_is_refused_where_its_rows_would_count_twice(duplicates):
    files = ["a.csv", "b.csv", "a.csv"]
    assert len(Schema.from_edges(files, "a:b:c").edge_types["a:b:c"].sources) == 3
    with pytest.raises(BadInput, match=r"a\.csv is named twice and duplicates is .*; name it once"):
        Schema.from_edges(files, "a:b:c", weight=2, duplicates=duplicates)
    assert EdgeType(CLICKS, (EdgeSource("a.csv"), EdgeSource("a.csv", src=1, dst=0)), duplicates="all").sources


def test_from_edges_takes_the_options_of_sources_and_edge_types():
    schema = Schema.from_edges(
        "a.zip",
        "u:r:u",
        member="a.csv",
        time="t",
        weight="w",
        time_unit="ms",
        duplicates="max",
        self_loops="drop",
        missing_nodes="error",
        bad_weights="drop",
        negative_weights="drop",
        bad_rows="aside",
        bad_rows_limit=7,
        features=(AGE,),
    )
    edges = schema.edge_types["u:r:u"]
    assert edges.sources == (EdgeSource("a.zip", member="a.csv", time="t", weight="w"),)
    assert (edges.time_unit, edges.duplicates, edges.self_loops) == ("ms", "max", "drop")
    assert (edges.missing_nodes, edges.bad_weights, edges.negative_weights) == ("error", "drop", "drop")
    assert (edges.bad_rows, edges.bad_rows_limit, edges.features) == ("aside", 7, (AGE,))
    with pytest.raises(BadInput, match="edge type u:r:u: unknown option 'wieght'; did you mean 'weight'"):
        Schema.from_edges("a.csv", "u:r:u", wieght="w")


def test_from_edges_takes_folders_and_patterns(tmp_path):
    for name in ("part-1.csv", "part-0.csv", "_SUCCESS"):
        (tmp_path / name).touch()
    parts = [tmp_path / "part-0.csv", tmp_path / "part-1.csv"]
    for files in (tmp_path, tmp_path / "part-*.csv", str(tmp_path)):
        sources = Schema.from_edges(files, "a:b:c").edge_types["a:b:c"].sources
        assert [source.path for source in sources] == parts


def test_from_tables_makes_a_schema_of_tables_with_options():
    schema = Schema.from_tables(
        {
            "user:clicks:item": {"table": TABLE, "src": "u", "dst": "i", "weight": "w", "duplicates": "sum"},
            "user:knows:user": scipy.sparse.csr_array(np.eye(2)),
        },
        {"item": {"table": TABLE, "id": "i", "features": (FeatureType("w"),), "bad_rows": "aside"}, "user": TABLE},
        id_types={"item": "unsigned"},
    )
    clicks = schema.edge_types["user:clicks:item"]
    assert clicks.sources[0].columns() == {"src": "u", "dst": "i", "weight": "w"}
    assert clicks.sources[0].table is TABLE
    assert clicks.duplicates == "sum"
    assert schema.edge_types["user:knows:user"].sources[0].is_sparse
    item, user = schema.node_types["item"], schema.node_types["user"]
    assert (item.id_type, item.bad_rows, item.sources[0].id) == ("unsigned", "aside", "i")
    assert item.features == (FeatureType("w"),)
    assert (user.id_type, user.sources[0].table) == ("integer", TABLE)


@pytest.mark.parametrize(
    ("edges", "nodes", "id_types", "says"),
    [
        ({}, {}, {}, "no edge type"),
        ({"a:b": TABLE}, {}, {}, "expected 'src:relation:dst'"),
        ({"a:r:b": {"src": "u"}}, {}, {}, "edge type a:r:b: no table"),
        ({"a:r:b": None}, {}, {}, "edge type a:r:b: no table"),
        ({"a:r:b": {"table": TABLE, "sorce": "u"}}, {}, {}, "edge type a:r:b: unknown option 'sorce'; did you mean"),
        ({"a:r:b": {"table": TABLE, "format": "csv"}}, {}, {}, "edge type a:r:b: <table>: format is for files"),
        ({"a:r:b": {"table": TABLE, "src": True}}, {}, {}, "edge type a:r:b: <table>: src is True"),
        ({"a:r:b": "x.csv"}, {}, {}, "edge type a:r:b: <table>: a str is no table"),
        ({"a:r:b": TABLE}, {"bb": TABLE}, {}, "node type 'bb': no edge type has it at an end; did you mean 'b'"),
        ({"a:r:b": TABLE}, {"b": {"table": TABLE, "ids": 0}}, {}, "node type 'b': unknown option 'ids'; did you mean"),
        ({"a:r:b": TABLE}, {"b": 3}, {}, "node type 'b': <table>: a int is no table"),
        ({"a:r:b": TABLE}, {}, {"a": "text"}, "node type 'a': id_type is 'text'"),
        ({"a:r:b": TABLE}, {}, {"c": "string"}, "node type 'c': no edge type has it"),
    ],
)
def test_tables_that_cannot_be_are_refused_by_type_and_option(edges, nodes, id_types, says):
    with pytest.raises(BadInput, match=says):
        Schema.from_tables(edges, nodes, id_types=id_types)


def test_a_schema_calls_its_types_by_their_own_names():
    edges = EdgeType(EdgeTypeName.parse("a:r:a"), PLAIN)
    with pytest.raises(BadInput, match="'b' stands for the type 'a'; use its own name"):
        Schema({"b": NodeType("a")}, {"a:r:a": edges})
    with pytest.raises(BadInput, match="'a:s:a' stands for the type 'a:r:a'"):
        Schema({"a": NodeType("a")}, {"a:s:a": edges})


def test_a_reverse_type_needs_room_for_its_longer_name():
    edges = EdgeType(EdgeTypeName("a", "r" * 255, "b"), (PLAIN,), reverse=True)
    with pytest.raises(BadInput, match="relation name 'rev_rrr"):
        Schema({"a": NodeType("a"), "b": NodeType("b")}, {str(edges.name): edges})
