"""JSON lines: numbers exact, keys as columns, every fault by its line and key, fast way and slow way alike."""

import bz2
import gzip
import json
import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store import json_lines, text_blocks
from graph_store.errors import BadInput
from graph_store.readers import describe, describe_nodes, read_edges, read_nodes, source_bytes
from graph_store.schema import EdgeSource, EdgeType, FeatureType, NodeSource, NodeType

USER, NAMED, UNSIGNED = NodeType("user"), NodeType("user", "string"), NodeType("user", "unsigned")


@pytest.fixture
def write(tmp_path):
    def write(data, name="edges.jsonl"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def edge_type(path, *, features=(), policies=None, **options):
    name = "user:*:user" if "relation" in options else "user:x:user"
    return EdgeType(name, (EdgeSource(path, **options),), features=features, **policies or {})


def batches(path, *, ids=USER, threads=2, batch_rows=None, **options):
    declared = edge_type(path, **options)
    reading = {"edge_type": declared, "threads": threads, "batch_rows": batch_rows}
    return list(read_edges(declared.sources[0], src_type=ids, dst_type=ids, **reading))


def read(path, **options):
    """Return the columns of a file by role as lists."""
    found = {role: [] for role in ("src", "dst", "weight", "time", "relation")}
    for batch in batches(path, **options):
        for role, column in found.items():
            values = getattr(batch, role)
            if values is not None:
                column.extend(values.to_pylist() if isinstance(values, pa.Array) else values.tolist())
    return {role: column for role, column in found.items() if column}


def refusal(path, **options):
    with pytest.raises(BadInput) as error:
        batches(path, **options)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message


@pytest.mark.parametrize(
    "data",
    [
        '{"u":1,"i":2}\n{"u":3,"i":4}\n',
        '{"u":1,"i":2}\n{"u":3,"i":4}',
        '{"u":1,"i":2}\r\n\r\n{"u":3,"i":4}\r\n',
        '\ufeff{"u":1,"i":2}\n{"u":3,"i":4}\n',
        '\n\n  { "u" : 1 , "i" : 2 }  \n\t{"i":4,"u":3}\n\n',
        '{"u":1,"i":2,"x":[{"u":9}]}\n{"u":3,"i":4,"u2":null}\n',
        '{"u":1.0,"i":2e0}\n{"u":30e-1,"i":4}\n',
    ],
)
def test_one_list_of_edges_is_read_from_each_way_of_writing_it(write, data):
    assert read(write(data)) == {"src": [1, 3], "dst": [2, 4]}


@pytest.mark.parametrize("slow", [False, True])
def test_integers_are_exact(write, slow):
    rows = [(9007199254740993, -(2**63)), (2**63 - 1, 0)]
    text = "".join(f'{{"u":{u},"i":{i}}}\n' for u, i in rows)
    path = write(text + ('{"u":1e3,"i":1E+3}\n' if slow else ""))
    extra = [1000] if slow else []
    assert read(path) == {"src": [9007199254740993, 2**63 - 1, *extra], "dst": [-(2**63), 0, *extra]}


def test_decimals_that_are_whole_are_exact(write):
    path = write('{"u":9007199254740993.0,"i":9.223372036854775807e18}\n{"u":-0.0,"i":0e999999999}\n')
    assert read(path) == {"src": [9007199254740993, 0], "dst": [2**63 - 1, 0]}


def test_unsigned_ids_are_bit_patterns(write):
    path = write('{"u":18446744073709551615,"i":0}\n')
    assert read(path, ids=UNSIGNED) == {"src": [-1], "dst": [0]}
    path = write('{"u":18446744073709551615,"i":1e1}\n')
    assert read(path, ids=UNSIGNED) == {"src": [-1], "dst": [10]}
    assert "line 1, column 'i' (dst): -1 is out of the range of uint64" in refusal(
        write('{"u":1,"i":-1}'), ids=UNSIGNED
    )


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("1.5", "1.5 is no whole number; node type 'user' has integer ids"),
        ("9223372036854775808", "9223372036854775808 is out of the range of int64"),
        ("-9223372036854775809", "is out of the range of int64"),
        ("1" * 5000, "is out of the range of int64"),
        ("1e400", "is out of the range of int64"),
        ("1e-400", "is no whole number"),
        ("1e99999999999999999999", "cannot be read"),
        ("NaN", "nan is no whole number"),
        ('"7"', "'7' is no number; node type 'user' has integer ids; repair it, or declare string ids"),
        ("true", "true is no number"),
        ("[1]", "a list is no number"),
        ("{}", "an object is no number"),
        ("null", "null; fill it in or remove the line"),
    ],
)
def test_what_is_no_integer_is_refused_by_line_and_key(write, value, says):
    message = refusal(write(f'{{"u":1,"i":2}}\n\n{{"u":3,"i":{value}}}\n{{"u":5,"i":6}}\n'))
    assert "edges.jsonl: line 3" in message
    assert says in message
    if says != "cannot be read":
        assert "column 'i' (dst)" in message


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ('{"u":3}', "line 2, column 'i' (dst): no such key; fill it in or remove the line"),
        ('{"u":3,"i":4', "line 2: is no JSON (Expecting ',' delimiter at character 13)"),
        ('{"u":3,"i":4},', "line 2: is no JSON (Extra data at character 14)"),
        ('{"u":3,"i":4}{"u":5,"i":6}', "line 2: is no JSON (Extra data at character 14)"),
        ('{"u":3,"u":4,"i":4}', "line 2: has key 'u' twice"),
        ("[3,4]", "line 2: is a list; write an object ({…}) a line"),
        ("7", "line 2: is a number; write an object"),
        ("null", "line 2: is null; write an object"),
        ('{"u":3,\n"i":4}', "line 2: is no JSON"),
        ('{"u":03,"i":4}', "line 2: is no JSON"),
        ("[" * 100_000, "line 2: cannot be read"),
    ],
)
def test_a_line_that_is_no_object_is_refused(write, line, says):
    assert says in refusal(write(f'{{"u":1,"i":2}}\n{line}\n{{"u":5,"i":6}}\n'))


@pytest.mark.parametrize("first", ["null", "  null", "\n\tnull", "true", "[null]", '"null"', "null null"])
def test_a_first_line_that_is_no_object_is_refused(write, first):
    assert "write an object ({…}) a line" in refusal(write(f'{first}\n{{"u":1,"i":2}}\n'))


def test_bytes_that_are_not_utf8_are_refused_by_line(write):
    data = b'{"u":"a","i":"b"}\n{"u":"\xff","i":"c"}\n'
    assert "line 2: is not UTF-8" in refusal(write(data), ids=NAMED)


def test_string_ids_with_escapes(write):
    path = write('{"u":"é","i":"\\u00e9"}\n{"u":"\\ud83d\\ude00","i":"007"}\n')
    assert read(path, ids=NAMED) == {"src": ["é", "\N{GRINNING FACE}"], "dst": ["é", "007"]}


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("7", "7 is no string; node type 'user' has string ids; write strings, or declare integer ids"),
        ('""', "empty id"),
        ('"a\\u0000b"', "a zero byte in 'a\\x00b'"),
        ('"\\ud800"', "half a character"),
    ],
)
def test_what_is_no_string_id_is_refused(write, value, says):
    message = refusal(write(f'{{"u":"x","i":"y"}}\n{{"u":"x","i":{value}}}\n'), ids=NAMED)
    assert "line 2, column 'i' (dst): " in message
    assert says in message


def test_weights_times_and_relations(write):
    path = write(
        '{"u":1,"i":2,"w":3,"t":1700000000000,"r":"likes"}\n'
        '{"u":3,"i":4,"w":-1.5e-3,"t":-5,"r":"/film/actor"}\n'
        '{"u":5,"i":6,"w":0.1,"t":1e3,"r":17}\n'
    )
    found = read(path, weight="w", time="t", relation="r")
    assert found["weight"] == [3, float(np.float32(-1.5e-3)), float(np.float32(0.1))]
    assert found["time"] == [1700000000000, -5, 1000]
    assert found["relation"] == ["likes", "/film/actor", "17"]
    assert "line 1, column 'r' (relation): relation name 'a b'" in refusal(
        write('{"u":1,"i":2,"r":"a b"}'), relation="r"
    )


def test_weights_that_are_not_finite_are_as_declared(write):
    path = write('{"u":1,"i":2,"w":NaN}\n{"u":3,"i":4,"w":-1}\n{"u":5,"i":6,"w":1}\n{"u":7,"i":8,"w":Infinity}\n')
    assert "line 1, column 'w' (weight): nan" in refusal(path, weight="w")
    policies = {"bad_weights": "drop", "negative_weights": "drop"}
    (batch,) = batches(path, weight="w", policies=policies)
    (other,) = batches(
        write('{"u":1,"i":2,"w":null}\n{"u":3,"i":4}\n{"u":5,"i":6,"w":1}'), weight="w", policies=policies
    )
    assert (other.src.tolist(), other.dropped) == ([5], {"bad_weights": 2})
    assert (batch.src.tolist(), batch.dropped) == ([5], {"bad_weights": 2, "negative_weights": 1})
    assert "line 1, column 'w' (weight): inf" in refusal(write('{"u":1,"i":2,"w":1e400}'), weight="w")


def test_bad_lines_are_set_aside_and_the_others_stay(write):
    lines = [
        '{"u":1,"i":2,"w":1}',
        "",
        '{"u":3,"i":4.5,"w":1}',
        "nonsense",
        '{"u":5,"i":6,"w":NaN}',
        '{"u":7,"w":1}',
        '  {"u":9,"i":10,"w":2e0}',
    ]
    (batch,) = batches(write("\n".join(lines)), weight="w", policies={"bad_rows": "aside"})
    assert (batch.src.tolist(), batch.dst.tolist(), batch.weight.tolist()) == ([1, 9], [2, 10], [1, 2])
    assert [row.place for row in batch.rejected] == ["line 3", "line 4", "line 5", "line 6"]
    assert [row.text for row in batch.rejected] == [line.strip() for line in lines[2:6]]
    assert batch.rejected[0].reason.startswith("column 'i' (dst): 4.5 is no whole number")
    assert batch.rejected[1].reason.startswith("is no JSON")
    assert batch.rejected[2].reason.startswith("column 'w' (weight): nan")
    assert batch.rejected[3].reason == "column 'i' (dst): no such key; fill it in or remove the line"


def test_the_first_lines_may_be_the_bad_ones(write):
    path = write('oops\n{"u":1}\n{"u":3,"i":4}\n')
    (batch,) = batches(path, policies={"bad_rows": "aside"}, src="u", dst="i")
    assert (batch.src.tolist(), len(batch.rejected)) == ([3], 2)
    assert "line 1: is no JSON" in refusal(path, src="u", dst="i")


def test_no_more_lines_are_set_aside_than_it_takes_to_stop(write):
    path = write('{"u":1,"i":2}\n' + "x\n" * 100)
    (batch,) = batches(path, policies={"bad_rows": "aside", "bad_rows_limit": 7})
    assert len(batch.rejected) == 8


# Which keys


def test_ends_are_src_and_dst_or_the_first_two_keys(write):
    assert read(write('{"a":9,"dst":2,"src":1}')) == {"src": [1], "dst": [2]}
    assert read(write('{"x":9,"y":2,"z":1}')) == {"src": [9], "dst": [2]}
    assert read(write('{"x":9,"y":2,"z":1}'), src="z", dst=0) == {"src": [1], "dst": [9]}


def test_a_key_that_no_object_has_is_refused(write):
    path = write('{"user":9,"item":2}\n')
    assert "no column 'usr' for src; did you mean 'user'?" in refusal(path, src="usr", dst="item")
    message = refusal(path, features=(FeatureType("age"),))
    assert "no line has key 'age' for feature 'age'" in message
    path = write('{"user":9,"item":2,"agee":1}\n')
    assert "no line has key 'age' for feature 'age'; did you mean 'agee'?" in refusal(
        path, features=(FeatureType("age"),)
    )


def test_a_rare_or_empty_feature_is_absent(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 12)
    text = '{"user":9,"item":2}\n' * 5000
    (*_, last) = batches(write(text + '{"user":9,"item":2,"age":7}\n'), features=(FeatureType("age", dtype="int8"),))
    column = last.features["age"]
    assert column.values[-2:].tolist() == [0, 7]
    assert column.present[-2:].tolist() == [False, True]
    found = batches(write('{"user":9,"item":2,"age":null}\n'), features=(FeatureType("age"),))
    assert found[0].features["age"].present.tolist() == [False]


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("", "the file is empty"),
        (" \n\n", "the file holds no rows; expected an object ({…}) a line"),
        ('[{"u":1,"i":2},\n {"u":3,"i":4}]\n', "is a JSON array; write its objects a line each"),
        ('{\n "u": 1,\n "i": 2\n}\n', "line 1: is no JSON"),
        ("{}\n", "no column 0 for src"),
    ],
)
def test_a_file_that_holds_no_lines_of_objects_is_refused(write, data, says):
    assert says in refusal(write(data))


# Features


def test_features_of_every_kind(write):
    path = write(
        '{"u":1,"i":2,"v":[1,2.5],"n":7,"on":true,"c":"x","ids":[9007199254740993,-1],"s":"long text"}\n'
        '{"u":3,"i":4,"v":null,"n":null,"on":false,"c":4,"ids":[],"s":null}\n'
        '{"u":5,"i":6,"v":[0,-1],"n":8.0,"on":1}\n'
    )
    features = (
        FeatureType("v", "vector", dim=2),
        FeatureType("n", dtype="int16"),
        FeatureType("on", dtype="bool"),
        FeatureType("c", "category"),
        FeatureType("ids", "ids"),
        FeatureType("s", "string"),
    )
    (batch,) = batches(path, features=features)
    found = batch.features
    assert found["v"].values.tolist() == [[1, 2.5], [0, 0], [0, -1]]
    assert found["v"].present.tolist() == [True, False, True]
    assert found["n"].values.dtype == np.int16
    assert found["n"].values.tolist() == [7, 0, 8]
    assert found["n"].present.tolist() == [True, False, True]
    assert found["on"].values.tolist() == [True, False, True]
    assert (found["c"].values.tobytes(), found["c"].indptr.tolist()) == (b"x4", [0, 1, 2, 2])
    assert found["c"].present.tolist() == [True, True, False]
    assert found["ids"].values.tolist() == [9007199254740993, -1]
    assert found["ids"].indptr.tolist() == [0, 2, 2, 2]
    assert found["ids"].present.tolist() == [True, True, False]
    assert found["s"].values.tobytes() == b"long text"


@pytest.mark.parametrize(
    ("feature", "value", "says"),
    [
        (FeatureType("f", "vector", dim=2), "[1]", "a vector of 1 numbers; expected 2 (dim)"),
        (FeatureType("f", "vector", dim=2), "[1,null]", "null at place 1 of the list"),
        (FeatureType("f", "vector", dim=2), '[1,"x"]', "'x' is no number; expected a number"),
        (FeatureType("f", "vector", dim=2), "3", "3 is no list; expected a list ([…])"),
        (FeatureType("f", "ids"), "[1,2.5]", "2.5 is no whole number; expected a whole number"),
        (FeatureType("f", "ids"), "{}", "an object is no list; expected a list ([…])"),
        (FeatureType("f", dtype="int8"), "300", "300; expected a whole number from -128 to 127"),
        (FeatureType("f", dtype="int8"), '"3"', "'3' is no number"),
        (FeatureType("f"), "1e39", "1e+39; expected a number within float32"),
        (FeatureType("f", dtype="float64"), "1e400", "1E+400 is out of the range of float64"),
        (FeatureType("f", "category"), "1.5", "1.5 is no string; write it as a string"),
        (FeatureType("f", "string"), "[]", "a list is no string"),
    ],
)
def test_a_value_that_is_no_feature_is_refused_by_line_and_key(write, feature, value, says):
    good = {"vector": "[1,2]", "ids": "[1]", "category": '"a"', "string": '"a"'}.get(feature.kind, "1")
    message = refusal(write(f'{{"u":1,"i":2,"f":{good}}}\n{{"u":3,"i":4,"f":{value}}}\n'), features=(feature,))
    assert f"line 2, column 'f' (feature 'f'): {says}" in message


def test_int8_vectors_are_divided_by_their_scale(write):
    feature = FeatureType("f", "vector", dim=2, dtype="int8", scale=0.5)
    (batch,) = batches(write('{"u":1,"i":2,"f":[1,-63.5]}\n'), features=(feature,))
    assert batch.features["f"].values.tolist() == [[2, -127]]


def test_a_vector_of_several_keys(write):
    feature = FeatureType("f", "vector", columns=("x", "y"))
    (batch,) = batches(write('{"u":1,"i":2,"x":3,"y":0.5}\n{"u":1,"i":2}\n'), features=(feature,))
    assert batch.features["f"].values.tolist() == [[3, 0.5], [0, 0]]
    assert batch.features["f"].present.tolist() == [True, False]


# Files and blocks


def test_nodes(write):
    path = write('{"id":"a","age":3}\n{"id":"b"}\n', "nodes.ndjson")
    node_type = NodeType("user", "string", (NodeSource(path),), (FeatureType("age", dtype="int8"),))
    source = node_type.sources[0]
    (batch,) = read_nodes(source, node_type=node_type)
    assert batch.ids.to_pylist() == ["a", "b"]
    assert batch.features["age"].present.tolist() == [True, False]
    assert describe_nodes(source, node_type=node_type) == "JSON lines, id = key 'id', feature 'age' = key 'age'"
    assert next(read_nodes(source, node_type=node_type, features=False)).features == {}


@pytest.mark.parametrize(
    ("name", "compress"),
    [
        ("edges.jsonl.gz", gzip.compress),
        ("edges.ndjson.bz2", bz2.compress),
        ("edges.jsonl.zst", lambda data: pa.compress(data, "zstd", asbytes=True)),
        ("edges.json", bytes),
        ("edges.dat", bytes),
        ("edges", gzip.compress),
    ],
)
def test_a_file_is_told_by_its_name_or_its_first_bytes(write, name, compress):
    path = write(compress(b'{"u":1,"i":2}\n{"u":3,"i":4}\n'), name)
    assert read(path) == {"src": [1, 3], "dst": [2, 4]}
    assert describe(EdgeSource(path), src_type=USER, dst_type=USER) == "JSON lines, src = key 'u', dst = key 'i'"


def test_a_bad_line_in_the_middle_of_a_large_file_is_named(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 16)
    lines = [f'{{"u":{row},"i":{row * 7}}}' for row in range(50_000)]
    lines[34_567] = '{"u":1,"i":"x"}'
    assert {refusal(write("\n".join(lines)), threads=threads) for threads in (1, 3)} == {
        refusal(write("\n".join(lines)))
    }
    assert "line 34568, column 'i' (dst): 'x' is no number" in refusal(write("\n".join(lines)))


def test_batches_can_be_limited_and_count_bytes_up_to_the_size(write):
    path = write("".join(f'{{"u":{row},"i":{row * 7}}}\n' for row in range(50_000)))
    found = batches(path, batch_rows=2000)
    assert len(found) >= 10
    assert max(batch.num_rows for batch in found) <= 5000
    assert np.concatenate([batch.src for batch in found]).tolist() == list(range(50_000))
    assert found[-1].bytes_done == source_bytes(EdgeSource(path))


def test_a_line_longer_than_the_sample_is_read(write, monkeypatch):
    monkeypatch.setattr(json_lines, "_SAMPLE_BYTES", 64)
    path = write(json.dumps({"u": 1, "pad": "x" * 1000, "i": 2}) + '\n{"u":3,"i":4}\n')
    assert read(path, src="u", dst="i") == {"src": [1, 3], "dst": [2, 4]}


VALUES = st.one_of(
    st.integers(-(2**64), 2**65),
    st.floats(),
    st.sampled_from(["1e3", "12.0", "-0", "1.50", "9007199254740993", "1E2", "null", "true", '"5"', "[1]"]),
)


def oracle(text):
    """Return the int64 that JSON text is, None when it is none: by Python's own arithmetic of fractions."""
    from fractions import Fraction

    try:
        number = Fraction(text)
    except ValueError:
        return None
    return int(number) if number.denominator == 1 and -(2**63) <= number < 2**63 else None


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(VALUES, VALUES), min_size=1, max_size=12), st.integers(1, 100))
def test_lines_are_taken_exactly_or_set_aside(tmp_path_factory, rows, block_bytes):
    def text(value):
        if isinstance(value, float):
            return json.dumps(value) if not math.isnan(value) else "NaN"
        return str(value)

    path = tmp_path_factory.mktemp("lines") / "edges.jsonl"
    cells = [(text(src), text(dst)) for src, dst in rows]
    path.write_text("".join(f'{{"u":{src},"i":{dst}}}\n' for src, dst in cells))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block_bytes)
        found = batches(path, policies={"bad_rows": "aside"}, src="u", dst="i")
    edges = [edge for batch in found for edge in zip(batch.src.tolist(), batch.dst.tolist())]
    whole = [(oracle(src), oracle(dst)) for src, dst in cells]
    assert edges == [edge for edge in whole if None not in edge]
    places = [row.place for batch in found for row in batch.rejected]
    assert places == [f"line {line}" for line, edge in enumerate(whole, 1) if None in edge]
