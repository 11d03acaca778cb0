"""Features in text: each cell the value it says, absent where empty, or refused with its line and column."""

import csv

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store import text_blocks
from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.readers import describe_nodes, read_edges, read_nodes
from graph_store.schema import EdgeSource, EdgeType, NodeSource, NodeType


def plain(column, row):
    """Return one value of a feature as Python has it, None where it is absent."""
    if column.present is not None and not column.present[row]:
        return None
    if column.indptr is None:
        return column.values[row].tolist()
    part = column.values[column.indptr[row] : column.indptr[row + 1]]
    return part.tobytes().decode() if part.dtype == np.uint8 else part.tolist()


def nodes(path, *features, ids="integer", threads=2, bad_rows="stop", **options):
    """Return {id: {feature: value}} of a file of nodes."""
    node_type = NodeType("item", ids, sources=[NodeSource(path, **options)], features=features, bad_rows=bad_rows)
    found = {}
    for batch in read_nodes(node_type.sources[0], node_type=node_type, threads=threads):
        assert len(batch.ids) == batch.num_rows
        assert set(batch.features) == {feature.name for feature in features}
        for column in batch.features.values():
            assert len(column.values if column.indptr is None else column.indptr[1:]) == batch.num_rows
        for row, id in enumerate(batch.ids.tolist()):
            found[id] = {name: plain(column, row) for name, column in batch.features.items()}
    return found


def refusal(path, *features, **options):
    with pytest.raises(BadInput) as error:
        nodes(path, *features, **options)
    message = str(error.value)
    assert "\n" not in message
    return message.replace(f"{path.parent}/", "")


@pytest.fixture
def write(tmp_path):
    def write(text, name="items.csv"):
        path = tmp_path / name
        path.write_bytes(text.encode())
        return path

    return write


def one(values):
    """Return the single feature of all nodes, by id."""
    return {id: next(iter(value.values())) for id, value in values.items()}


@pytest.mark.parametrize(
    ("dtype", "cells", "expected"),
    [
        ("float32", ["1.5", "-2", "1e3", " 4 "], [1.5, -2.0, 1000.0, 4.0]),
        ("float64", ["0.1", "1e300", "+7", "5."], [0.1, 1e300, 7.0, 5.0]),
        ("int8", ["-128", "127", "12.0", "+7"], [-128, 127, 12, 7]),
        ("int16", ["-32768", "32767", "3e2", "0"], [-32768, 32767, 300, 0]),
        ("int32", ["-2147483648", "2147483647", "1", "0"], [-(2**31), 2**31 - 1, 1, 0]),
        ("int64", ["-9223372036854775808", "9223372036854775807", "9007199254740993", "3.2466e+05"],
         [-(2**63), 2**63 - 1, 2**53 + 1, 324660]),
        ("uint8", ["0", "255", "2.55e2", "007"], [0, 255, 255, 7]),
        ("bool", ["0", "1", "True", "FALSE"], [False, True, True, False]),
    ],
)  # fmt: skip
def test_scalars_of_each_dtype_come_back_and_empty_cells_are_absent(write, dtype, cells, expected):
    path = write("id,x\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate([*cells, "", "  ", '""'])))
    found = one(nodes(path, FeatureType("x", dtype=dtype)))
    assert found == dict(enumerate([*expected, None, None, None]))


@pytest.mark.parametrize(
    ("dtype", "cell", "says"),
    [
        ("float32", "abc", "'abc' is no number; expected a number, or nothing where there is no value"),
        ("float32", "1e39", "'1e39' is out of the range of float32"),
        ("float64", "1e400", "'1e400' is out of the range of float64"),
        ("float32", "1_0", "'1_0' is no number"),
        ("int8", "128", "128; expected a whole number from -128 to 127"),
        ("int8", "-129", "-129; expected a whole number from -128 to 127"),
        ("int16", "40000", "40000; expected a whole number from -32768 to 32767"),
        ("int32", "3e9", "3000000000; expected a whole number from"),
        ("int64", "9223372036854775808", "'9223372036854775808' is out of the range of int64"),
        ("int64", "1.5", "'1.5' is no whole number; expected a whole number, or nothing"),
        ("uint8", "256", "256; expected a whole number from 0 to 255"),
        ("uint8", "-1", "-1; expected a whole number from 0 to 255"),
        ("bool", "2", "'2' is neither true nor false; expected 0, 1, true or false, or nothing"),
        ("bool", "yes", "'yes' is neither true nor false"),
    ],
)
def test_a_scalar_that_does_not_fit_is_refused_with_line_and_column(write, dtype, cell, says):
    message = refusal(write(f"id,x\n1,1\n2,{cell}\n3,0\n"), FeatureType("x", dtype=dtype))
    assert message.startswith("items.csv: line 3, column 'x' (feature 'x'): ")
    assert says in message


def test_nan_and_infinity_that_are_written_are_values_of_floats(write):
    found = one(nodes(write("id,x\n1,nan\n2,-inf\n3,Infinity\n4,\n"), FeatureType("x")))
    assert np.isnan(found[1])
    assert (found[2], found[3], found[4]) == (-np.inf, np.inf, None)


def test_a_vector_of_several_columns_comes_back(write):
    path = write("id,a,b,c\n1,0.5,1,-2\n2,,,\n3,1e-3,0,7\n")
    vector = FeatureType("v", "vector", columns=("c", "a"))
    assert one(nodes(path, vector)) == {1: [-2.0, 0.5], 2: None, 3: [7.0, float(np.float32(0.001))]}
    by_position = FeatureType("v", "vector", "float16", columns=(3, 1))
    assert one(nodes(path, by_position, id=0)) == {1: [-2.0, 0.5], 2: None, 3: [7.0, float(np.float16(0.001))]}


def test_a_wide_table_without_a_header_comes_back(write):
    rng = np.random.default_rng(7)
    bits = rng.integers(0, 2, (50, 1433))
    path = write("".join(f"{i}\t" + "\t".join(map(str, row)) + "\tTheory\n" for i, row in enumerate(bits)), "cora.tsv")
    words = FeatureType("words", "vector", columns=tuple(range(1, 1434)))
    found = nodes(path, words, FeatureType("class", "category", columns=1434))
    assert np.array([found[i]["words"] for i in range(50)]).astype(int).tolist() == bits.tolist()
    assert {value["class"] for value in found.values()} == {"Theory"}


def test_a_vector_with_some_cells_empty_is_refused(write):
    vector = FeatureType("v", "vector", columns=("a", "b"))
    message = refusal(write("id,a,b\n1,0.5,1\n2,3,\n"), vector)
    assert message == (
        "items.csv: line 3, column 'b' (feature 'v'): empty cell; fill it in, or leave all columns of the vector empty"
    )
    assert "line 2, column 'b' (feature 'v'): 'x' is no number" in refusal(write("id,a,b\n1,0.5,x\n"), vector)


@pytest.mark.parametrize(
    ("separator", "cells"),
    [
        (None, ["0.5 1 -2", " 0.5  1\t-2 ", "[0.5 1 -2]", '"[0.5 1\n -2]"']),
        ("|", ["0.5|1|-2", "0.5 | 1 | -2", "[0.5|1|-2]", "5e-1|+1|-2."]),
        (",", ['"0.5,1,-2"', '"[0.5, 1, -2]"', '"0.5,1.0,-2.0"', '" 0.5,1,-2 "']),
    ],
)
def test_a_vector_in_one_column_comes_back(write, separator, cells):
    path = write("id,v\n" + "".join(f"{row},{cell}\n" for row, cell in enumerate([*cells, "", "[]", " "])))
    found = one(nodes(path, FeatureType("v", "vector", dim=3, separator=separator)))
    assert found == dict(enumerate([[0.5, 1.0, -2.0]] * 4 + [None] * 3))


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("1|2", "a vector of 2 numbers; expected 3 (dim)"),
        ("1|2|3|4", "a vector of 4 numbers; expected 3 (dim)"),
        ("1||3", "an empty item, at place 1 of the list; expected 3 numbers"),
        ("1|2|x", "'x' is no number, at place 2 of the list; expected 3 numbers, or nothing"),
        ("1|1e39|x", "'1e39' is out of the range of float32, at place 1 of the list"),
    ],
)
def test_a_vector_in_one_column_that_cannot_be_is_refused(write, cell, says):
    message = refusal(write(f"id,v\n1,1|2|3\n2,{cell}\n3,\n"), FeatureType("v", "vector", dim=3, separator="|"))
    assert message.startswith("items.csv: line 3, column 'v' (feature 'v'): ")
    assert says in message


def test_int8_vectors_are_divided_by_their_scale_and_rounded(write):
    # 1 / 0.5 = 2; 0.3 / 0.5 = 0.6 → 1; -63.5 / 0.5 = -127; 0.25 / 0.5 = 0.5 → 0, to even
    scaled = FeatureType("v", "vector", "int8", dim=2, scale=0.5)
    assert one(nodes(write("id,v\n1,1 0.3\n2,-63.5 0.25\n3,\n"), scaled)) == {1: [2, 1], 2: [-127, 0], 3: None}
    # text says values, never codes, even where all are whole numbers
    columns = FeatureType("v", "vector", "int8", columns=("a", "b"), scale=2.0)
    assert one(nodes(write("id,a,b\n1,4,-8\n"), columns)) == {1: [2, -4]}
    assert "line 2, column 'v' (feature 'v'): 64.0 at place 1" in refusal(write("id,v\n1,1 64\n"), scaled)
    assert "line 3, column 'a' (feature 'v'): 256" in refusal(write("id,a,b\n1,4,-8\n2,256,0\n"), columns)


def test_a_float16_that_is_too_large_is_refused(write):
    half = FeatureType("v", "vector", "float16", dim=2)
    assert one(nodes(write("id,v\n1,65504 0.1\n"), half)) == {1: [65504.0, float(np.float16(0.1))]}
    assert "line 2, column 'v' (feature 'v'): 70000.0 at place 0" in refusal(write("id,v\n1,70000 1\n"), half)


def test_lists_of_ids_come_back_and_an_empty_cell_is_an_empty_list(write):
    path = write("id,tags\n1,5|7.0|+9\n2,\n3,-9223372036854775808|9223372036854775807\n4,[1]\n")
    found = one(nodes(path, FeatureType("tags", "ids", separator="|")))
    assert found == {1: [5, 7, 9], 2: [], 3: [-(2**63), 2**63 - 1], 4: [1]}
    assert one(nodes(write('id,tags\n1,"[3, 4]"\n2,[]\n'), FeatureType("tags", "ids", separator=","))) == {
        1: [3, 4],
        2: [],
    }
    assert one(nodes(write("id,tags\n1,3  4\n2, \n"), FeatureType("tags", "ids"))) == {1: [3, 4], 2: []}


@pytest.mark.parametrize(
    ("cell", "says"),
    [
        ("1|x", "'x' is no whole number, at place 1 of the list; expected whole numbers, or nothing"),
        ("1|", "an empty item, at place 1 of the list"),
        ("1.5", "'1.5' is no whole number, at place 0"),
        ("3|9223372036854775808", "'9223372036854775808' is out of the range of int64, at place 1"),
    ],
)
def test_a_list_with_what_is_no_id_is_refused(write, cell, says):
    message = refusal(write(f"id,tags\n1,1|2\n2,{cell}\n"), FeatureType("tags", "ids", separator="|"))
    assert message.startswith("items.csv: line 3, column 'tags' (feature 'tags'): ")
    assert says in message


def test_categories_and_strings_come_back_as_they_are_written(write):
    path = write('id,kind,title\n1,a b,"Toy Story, the ""best"""\n2,,中文 é\n3, x ,\n4,NA,"two\nlines"\n5,"",null\n')
    found = nodes(path, FeatureType("kind", "category"), FeatureType("title", "string"))
    assert [tuple(found[row].values()) for row in range(1, 6)] == [
        ("a b", 'Toy Story, the "best"'),
        (None, "中文 é"),
        (" x ", None),
        ("NA", "two\nlines"),
        (None, "null"),
    ]


def test_a_string_that_is_not_utf8_is_refused_by_line(tmp_path):
    path = tmp_path / "items.csv"
    path.write_bytes(b"id,title\n1,caf\xc3\xa9\n2,caf\xe9\n")
    assert "line 3, column 'title' (feature 'title'): 'caf�' is not UTF-8" in refusal(
        path, FeatureType("title", "string")
    )


def test_one_column_can_be_several_features_and_the_id_too(write):
    path = write("id,year\n1,1995\n2,\n")
    found = nodes(
        path,
        FeatureType("year", dtype="int32"),
        FeatureType("label", "category", columns="year"),
        FeatureType("number", dtype="float32", columns="id"),
    )
    assert found == {
        1: {"year": 1995, "label": "1995", "number": 1.0},
        2: {"year": None, "label": None, "number": 2.0},
    }


def test_typed_headers_are_named_either_way(write):
    path = write("item_id:token\tyear:float\tclass:token_seq\n7\t1.995e3\tDrama War\n8\t\t\n", "ml.item")
    year, kinds = FeatureType("year", dtype="int32"), FeatureType("class", "string")
    assert nodes(path, year, kinds, id="item_id") == {
        7: {"year": 1995, "class": "Drama War"},
        8: {"year": None, "class": None},
    }
    typed = FeatureType("year", dtype="int32", columns="year:float")
    assert one(nodes(path, typed, id="item_id:token")) == {7: 1995, 8: None}
    assert "no column 'yaer' for feature 'x'; did you mean 'year" in refusal(path, FeatureType("x", columns="yaer"))


@pytest.mark.parametrize("text", ["7\n8\n9\n", "id\n7\n8\n9\n", "\ufeff7\r\n8\r\n\r\n9", "7.0\n+8\n9e0\n"])
def test_a_file_of_ids_alone_is_read(write, text):
    assert set(nodes(write(text))) == {7, 8, 9}


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("New York\nSan Francisco\nSan Jose\n", ["New York", "San Francisco", "San Jose"]),
        ("Smith, John\nMadonna\nPrince\n", ["Smith, John", "Madonna", "Prince"]),
        ("name\na,b\nc\n", ["a,b", "c"]),
        ('"a\nb"\nc\n', ["a\nb", "c"]),
    ],
)
def test_names_alone_on_their_lines_are_not_cut_into_columns(write, text, ids):
    node_type = NodeType("city", "string")
    header = text.startswith("name")
    batches = list(read_nodes(NodeSource(write(text, "cities.txt"), header=header), node_type=node_type))
    assert [id for batch in batches for id in batch.ids.to_pylist()] == ids


def test_the_separator_of_a_list_is_not_taken_for_the_delimiter(write):
    path = write("1|0.5,1\n2|2,3\n", "emb.txt")
    assert one(nodes(path, FeatureType("v", "vector", dim=2, columns=1, separator=","))) == {
        1: [0.5, 1.0],
        2: [2.0, 3.0],
    }


def test_edges_have_features_too(write):
    path = write("u,i,stars,text\n1,2,5,good\n3,4,,\n")
    features = (FeatureType("stars", dtype="uint8"), FeatureType("text", "string"))
    edge_type = EdgeType("user:rates:item", [EdgeSource(path)], features=features)
    ends = {"src_type": NodeType("user"), "dst_type": NodeType("item")}
    (batch,) = read_edges(edge_type.sources[0], edge_type=edge_type, **ends)
    assert batch.src.tolist() == [1, 3]
    assert batch.features["stars"].values.dtype == np.uint8
    assert [plain(batch.features["stars"], row) for row in range(2)] == [5, None]
    assert [plain(batch.features["text"], row) for row in range(2)] == ["good", None]
    (bare,) = read_edges(edge_type.sources[0], **ends)
    assert bare.features == {}


def test_ids_can_be_read_without_their_features(write):
    node_type = NodeType("item", sources=[NodeSource(write("id,x\n1,bad\n"))], features=[FeatureType("x")])
    (batch,) = read_nodes(node_type.sources[0], node_type=node_type, features=False)
    assert (batch.ids.tolist(), batch.features) == ([1], {})


def test_describe_names_the_columns_of_features(write):
    path = write("id,a,b,kind\n1,2,3,x\n")
    node_type = NodeType(
        "item",
        sources=[NodeSource(path)],
        features=[FeatureType("v", "vector", columns=("a", "b")), FeatureType("kind", "category")],
    )
    said = describe_nodes(node_type.sources[0], node_type=node_type)
    assert said == (
        "columns separated by ',', a header, id = column 'id', feature 'v' = columns 'a' … 'b', "
        "feature 'kind' = column 'kind'"
    )


def test_a_header_alone_is_no_nodes(write):
    assert (
        nodes(write("id,x,v,t,k\n"), FeatureType("x"), FeatureType("v", "vector", dim=2), FeatureType("k", "category"))
        == {}
    )


FINITE = st.floats(width=32, allow_nan=False, allow_infinity=False)
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-(2**15), 2**15 - 1),
        st.none() | st.lists(FINITE, min_size=3, max_size=3),
        st.lists(st.integers(-(2**63), 2**63 - 1), max_size=4),
        st.none() | st.text(st.sampled_from('ab",|\n é中\t'), min_size=1, max_size=5),
        st.none() | st.tuples(FINITE, FINITE),
    ),
    min_size=1,
    max_size=15,
)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.sampled_from([",", "\t", ";"]), st.integers(1, 200), st.integers(1, 3))
def test_any_table_comes_back_in_any_block_size(tmp_path_factory, rows, delimiter, block_bytes, threads):
    path = tmp_path_factory.mktemp("rows") / "items.csv"
    cell = lambda value: "" if value is None else value  # noqa: E731
    with open(path, "w", newline="", encoding="utf-8") as file:
        out = csv.writer(file, delimiter=delimiter, lineterminator="\n")
        out.writerow(["id", "n", "v", "tags", "text", "a", "b"])
        for id, (n, v, tags, text, pair) in enumerate(rows):
            vector = "" if v is None else "|".join(map(repr, v))
            out.writerow([id, cell(n), vector, "|".join(map(str, tags)), cell(text), *(pair or ("", ""))])
    features = [
        FeatureType("n", dtype="int16"),
        FeatureType("v", "vector", dim=3, separator="|"),
        FeatureType("tags", "ids", separator="|"),
        FeatureType("text", "string"),
        FeatureType("pair", "vector", columns=("a", "b")),
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block_bytes)
        found = nodes(path, *features, delimiter=delimiter, threads=threads)
    names = [feature.name for feature in features]
    assert found == {
        id: dict(zip(names, (*row[:4], None if row[4] is None else list(row[4])))) for id, row in enumerate(rows)
    }
