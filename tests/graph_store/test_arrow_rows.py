"""Arrow columns to batches: what each type is worth in each part of a row, and which row is at fault for what."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.errors import BadInput
from graph_store.readers import read_edges
from graph_store.schema import EdgeSource, EdgeType, FeatureType, NodeType

USER = NodeType("user")


def read(columns, *, features=(), ids=USER, relation=None, weight=None, time=None, **policies):
    """Return the one batch of a table whose first two columns are the ends."""
    source = EdgeSource(table=pa.table(columns), relation=relation, weight=weight, time=time)
    name = "user:*:user" if relation else "user:sees:user"
    edge_type = EdgeType(name, (source,), features=features, **policies)
    batches = list(read_edges(source, src_type=ids, dst_type=ids, edge_type=edge_type, threads=1))
    assert len(batches) == 1
    return batches[0]


def feature(column, **declared):
    """Return one feature's column, read beside ends."""
    ends = pa.array(range(len(column)), pa.int64())
    declared = {"name": "f", **declared}
    return read({"a": ends, "b": ends, "f": column}, features=(FeatureType(**declared),)).features["f"]


def refusal(columns, **options):
    with pytest.raises(BadInput) as error:
        read(columns, **options)
    message = str(error.value)
    assert "\n" not in message
    return message


def feature_refusal(column, **declared):
    ends = pa.array(range(len(column)), pa.int64())
    declared = {"name": "f", **declared}
    message = refusal({"a": ends, "b": ends, "f": column}, features=(FeatureType(**declared),))
    assert "column 'f' (feature 'f')" in message
    return message


def texts(column):
    """Return the words of a column of words or ids: None where absent."""
    present = np.ones(len(column.indptr) - 1, bool) if column.present is None else column.present
    cells = [column.values[a:b] for a, b in zip(column.indptr[:-1], column.indptr[1:])]
    return [bytes(cell).decode() if there else None for cell, there in zip(cells, present)]


# Ids, weights, times, relations


@pytest.mark.parametrize("kind", ["int8", "int32", "int64", "uint8", "uint64", "float16", "float32", "float64"])
def test_every_number_type_is_taken_as_ids_exactly(kind):
    column = pa.array([0, 1, 127], kind)
    assert read({"a": column, "b": column}).src.tolist() == [0, 1, 127]
    assert read({"a": column.dictionary_encode(), "b": column}).src.tolist() == [0, 1, 127]


def test_unsigned_ids_are_bit_patterns():
    ids = NodeType("user", "unsigned")
    column = pa.array([0, 2**63, 2**64 - 1], "uint64")
    found = read({"a": column, "b": pa.array([1, 2, 3], "int16")}, ids=ids)
    assert found.src.dtype == np.int64
    assert found.src.view(np.uint64).tolist() == [0, 2**63, 2**64 - 1]
    assert found.dst.tolist() == [1, 2, 3]


def test_an_extension_type_is_read_as_what_it_stores():
    class Key(pa.ExtensionType):
        def __init__(self):
            super().__init__(pa.int64(), "test.key")

        def __arrow_ext_serialize__(self):
            return b""

    column = pa.ExtensionArray.from_storage(Key(), pa.array([4, 5]))
    assert read({"a": column, "b": [1, 2]}).src.tolist() == [4, 5]


def test_string_ids_of_every_string_type():
    ids = NodeType("user", "string")
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        column = pa.array(["x", "é"], pa.string()).cast(kind)
        assert read({"a": column, "b": column}, ids=ids).src.to_pylist() == ["x", "é"]


def test_weights_of_integers_and_decimals():
    ends = {"a": [1, 2], "b": [3, 4]}
    assert read({**ends, "w": [2, -3]}, weight="w").weight.tolist() == [2, -3]
    decimals = pa.array([Decimal("0.50"), Decimal(3)]).cast(pa.decimal128(10, 2))
    assert read({**ends, "w": decimals}, weight="w").weight.tolist() == [0.5, 3]


def test_times_of_whole_floats_and_of_timestamps_before_1970():
    ends = {"a": [1, 2], "b": [3, 4]}
    assert read({**ends, "t": [1.0e9, -5.0]}, time="t").time.tolist() == [1_000_000_000, -5]
    moments = pa.array([datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(1970, 1, 1)])
    assert read({**ends, "t": moments.cast(pa.timestamp("s", "UTC"))}, time="t").time.tolist() == [-1, 0]
    assert "row 2, column 't' (time): 0.5 is no whole number" in refusal({**ends, "t": [1, 0.5]}, time="t")
    late = pa.array([1, 2**63], "uint64")
    assert "is out of the range of int64; use a coarser unit" in refusal({**ends, "t": late}, time="t")


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["likes", "/film/actor"]),
        pa.array(["likes", "/film/actor"]).dictionary_encode(),
    ],
)
def test_relations_are_words(column):
    found = read({"a": [1, 2], "b": [3, 4], "r": column}, relation="r").relation
    assert found.type == pa.large_string()
    assert found.to_pylist() == ["likes", "/film/actor"]


def test_relations_that_are_integers_are_their_digits():
    assert read({"a": [1], "b": [3], "r": [17]}, relation="r").relation.to_pylist() == ["17"]


@pytest.mark.parametrize("word", ["a b", "a:b", "", "*", "x" * 256, None])
def test_a_relation_that_can_be_none_is_refused_by_row(word):
    columns = {"a": [1, 2, 3], "b": [3, 4, 5], "r": ["x", word, word]}
    assert "row 2, column 'r' (relation): " in refusal(columns, relation="r")


# What becomes of bad rows and weights


def test_the_first_bad_row_is_named_whatever_its_column():
    columns = {"a": [1, 2, None], "b": [1.0, 2.5, 3.0], "w": [1.0, 1.0, float("nan")]}
    assert "row 2, column 'b' (dst): 2.5 is no whole number" in refusal(columns, weight="w")


def test_bad_rows_are_set_aside_and_the_others_stay():
    columns = {"a": [1, None, 3, 4, 5], "b": [1.0, 2.0, 3.5, 4.0, 5.0], "w": [0.5, 1, 1, float("inf"), 2]}
    found = read(columns, weight="w", bad_rows="aside")
    assert (found.src.tolist(), found.dst.tolist(), found.weight.tolist()) == ([1, 5], [1, 5], [0.5, 2])
    assert found.num_rows == 2
    assert found.dropped == {}
    assert [row.place for row in found.rejected] == ["row 2", "row 3", "row 4"]
    assert found.rejected[0].reason == "column 'a' (src): null; fill it in or remove the row"
    assert found.rejected[1].reason.startswith("column 'b' (dst): 3.5 is no whole number")
    assert found.rejected[2].reason.startswith("column 'w' (weight): inf; expected a finite number")
    assert found.rejected[1].text == "a=3, b=3.5, w=1.0"
    assert str(found.rejected[0].path) == "<table>"


def test_bad_and_negative_weights_are_dropped_and_counted():
    columns = {"a": [1, 2, 3, 4, 5], "b": [6, 7, 8, 9, 10], "w": [1.0, float("nan"), -1, None, 0]}
    found = read(columns, weight="w", bad_weights="drop", negative_weights="drop")
    assert (found.src.tolist(), found.weight.tolist()) == ([1, 5], [1, 0])
    assert found.dropped == {"bad_weights": 2, "negative_weights": 1}
    assert found.rejected == ()
    assert "row 2, column 'w' (weight): nan" in refusal(columns, weight="w")
    found = read(columns, weight="w", bad_weights="drop")
    assert (found.src.tolist(), found.dropped) == ([1, 3, 5], {"bad_weights": 2})


def test_negative_weights_are_refused_where_they_may_not_be():
    columns = {"a": [1, 2], "b": [6, 7], "w": [0, -3]}
    message = refusal(columns, weight="w", negative_weights="error")
    assert "row 2, column 'w' (weight): -3 is below 0" in message
    assert read(columns, weight="w").weight.tolist() == [0, -3]


def test_a_row_with_a_bad_id_and_a_bad_weight_is_set_aside_and_not_dropped():
    columns = {"a": [1, None], "b": [6, 7], "w": [1, float("nan")]}
    found = read(columns, weight="w", bad_weights="drop", bad_rows="aside")
    assert (len(found.rejected), found.dropped) == (1, {})


def test_no_more_rows_are_set_aside_than_it_takes_to_stop():
    columns = {"a": pa.array([None] * 100, pa.int64()), "b": range(100)}
    assert len(read(columns, bad_rows="aside", bad_rows_limit=7).rejected) == 8


# Features


@pytest.mark.parametrize(
    ("dtype", "column", "expected"),
    [
        ("float32", [1, 2.5], [1, 2.5]),
        ("float64", [0.1, -1e300], [0.1, -1e300]),
        ("int8", [-128, 127], [-128, 127]),
        ("int16", [-32768.0, 32767.0], [-32768, 32767]),
        ("int64", [2**53 + 1, -(2**63)], [2**53 + 1, -(2**63)]),
        ("uint8", [0, 255], [0, 255]),
        ("bool", [True, False], [True, False]),
        ("bool", [1, 0], [True, False]),
        ("float32", [True, False], [1, 0]),
        ("int64", pa.array([7, 8], pa.timestamp("ns")), [7, 8]),
    ],
)
def test_a_scalar_is_read_into_its_dtype(dtype, column, expected):
    found = feature(column, dtype=dtype)
    assert found.values.dtype == dtype
    assert found.values.tolist() == expected
    assert found.present is None
    assert found.indptr is None


@pytest.mark.parametrize(
    ("dtype", "value", "says"),
    [
        ("int8", 128, "128; expected a whole number from -128 to 127"),
        ("uint8", -1, "-1; expected a whole number from 0 to 255"),
        ("int64", 1.5, "1.5; expected a whole number"),
        ("int32", float("nan"), "nan; expected a whole number"),
        ("bool", 2, "2; expected a whole number from 0 to 1"),
        ("float32", 1e39, "1e+39; expected a number within float32"),
    ],
)
def test_a_scalar_out_of_its_range_is_refused_by_row(dtype, value, says):
    message = feature_refusal([0, value], dtype=dtype)
    assert f"row 2, column 'f' (feature 'f'): {says}" in message


def test_nulls_of_features_are_absent_and_nan_is_a_value():
    found = feature([1.5, None, float("nan")], dtype="float32")
    assert found.present.tolist() == [True, False, True]
    assert found.values[0] == 1.5
    assert found.values[1] == 0
    assert np.isnan(found.values[2])


@pytest.mark.parametrize(
    "kind",
    [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.float32(), 2), pa.list_view(pa.float64())],
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_a_vector_is_read_from_every_list_type(kind, dtype):
    found = feature(pa.array([[1, 2.5], None, [3, -4]], kind), kind="vector", dim=2, dtype=dtype)
    assert found.values.dtype == dtype
    assert found.values.tolist() == [[1, 2.5], [0, 0], [3, -4]]
    assert found.present.tolist() == [True, False, True]


def test_a_tensor_column_is_a_vector():
    tensors = pa.FixedShapeTensorArray.from_numpy_ndarray(np.array([[1, 2, 3], [4, 5, 6]], np.float32))
    assert feature(tensors, kind="vector", dim=3).values.tolist() == [[1, 2, 3], [4, 5, 6]]


def test_a_vector_of_several_columns():
    columns = {"a": [1, 2], "b": [3, 4], "x": [0.5, None], "y": pa.array([7, None], "int8")}
    declared = FeatureType("xy", "vector", columns=("y", "x"))
    found = read(columns, features=(declared,)).features["xy"]
    assert found.values.tolist() == [[7, 0.5], [0, 0]]
    assert found.present.tolist() == [True, False]
    columns["x"] = [0.5, 1]
    message = refusal(columns, features=(declared,))
    assert "row 2, column 'y' (feature 'xy'): null; fill it in, or leave all columns of the vector empty" in message
    columns["y"] = [1, 2]
    declared = FeatureType("xy", "vector", columns=("y", "x"), dtype="float16")
    columns["x"] = [1, 1e6]
    assert "row 2, column 'x' (feature 'xy'): 1000000" in refusal(columns, features=(declared,))


def test_int8_vectors_are_divided_by_their_scale_unless_they_are_codes():
    # 0.26 / 0.5 = 0.52 → 1, 0.25 / 0.5 = 0.5 → 0 (half to even), −63.5 / 0.5 = −127
    found = feature([[0.26, 0.25], [-63.5, 63.5]], kind="vector", dim=2, dtype="int8", scale=0.5)
    assert found.values.dtype == np.int8
    assert found.values.tolist() == [[1, 0], [-127, 127]]
    codes = pa.array([[1, -127], [127, 0]], pa.list_(pa.int8()))
    assert feature(codes, kind="vector", dim=2, dtype="int8", scale=0.5).values.tolist() == [[1, -127], [127, 0]]
    options = {"kind": "vector", "dim": 1, "dtype": "int8", "scale": 0.5}
    assert "row 2, column 'f' (feature 'f'): 64.0 at place 0" in feature_refusal([[0.5], [64.0]], **options)
    assert "-128 at place 0" in feature_refusal([[5], [-128]], **options)
    assert "nan at place 0" in feature_refusal([[5.0], [float("nan")]], **options)


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ([[1.0, 2.0], [1.0], None], "row 2, column 'f' (feature 'f'): a vector of 1 numbers; expected 2 (dim)"),
        ([[1.0, 2.0], None, [1.0, None]], "row 3, column 'f' (feature 'f'): null at place 1 of the list; fill it in"),
        ([[1.0, 2.0], None, [1e39, 1.0]], "row 3, column 'f' (feature 'f'): 1e+39 at place 0 of the list"),
        ([[1.0], [None, 1.0], []], "row 1, column 'f' (feature 'f'): a vector of 1 numbers"),
        (pa.array([[1.0], [2.0]], pa.list_(pa.float64(), 1)), "has type fixed_size_list<item: double>[1], expected"),
        ([1.0, 2.0], "has type double, expected lists of 2 numbers"),
        ([["a"], ["b"]], "has type list<item: string>, expected lists of 2 numbers"),
    ],
)
def test_a_vector_that_is_none_is_refused_by_row(column, says):
    assert says in feature_refusal(column, kind="vector", dim=2)


def test_bad_vectors_are_set_aside_all_at_once():
    columns = {"a": range(6), "b": range(6), "f": [[1.0, 2.0], [1.0], None, [None, 1.0], [5.0, 1e39], [3.0, 4.0]]}
    found = read(columns, features=(FeatureType("f", "vector", dim=2),), bad_rows="aside")
    assert found.src.tolist() == [0, 2, 5]
    assert found.features["f"].values.tolist() == [[1, 2], [0, 0], [3, 4]]
    assert found.features["f"].present.tolist() == [True, False, True]
    assert [row.place for row in found.rejected] == ["row 2", "row 4", "row 5"]
    assert "at place 1" in found.rejected[2].reason


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (["x", "é", "", None], ["x", "é", "", None]),
        (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
        ([3, None, -7], ["3", None, "-7"]),
        ([True, None, False], ["true", None, "false"]),
        (pa.array(["a", None, "bc"], pa.string_view()), ["a", None, "bc"]),
        (pa.array([b"a", None, b"bc"]), ["a", None, "bc"]),
        (pa.nulls(2, pa.string()), [None, None]),
        (pa.array(["zero", "one", "two", "three"])[1:3], ["one", "two"]),
    ],
)
@pytest.mark.parametrize("kind", ["category", "string"])
def test_words_are_their_utf8_bytes(kind, column, expected):
    found = feature(column, kind=kind)
    assert found.values.dtype == np.uint8
    assert found.indptr[0] == 0
    assert texts(found) == expected
    assert (found.present is None) == (None not in expected)


def test_words_of_floats_and_of_bytes_that_are_not_utf8_are_refused():
    assert "has type double, expected strings" in feature_refusal([1.5], kind="category")
    message = feature_refusal(pa.array([b"ok", b"\xff"]), kind="string")
    assert "row 2, column 'f' (feature 'f'): '\N{REPLACEMENT CHARACTER}' is not UTF-8" in message


@pytest.mark.parametrize("kind", [pa.list_(pa.int64()), pa.large_list(pa.int32()), pa.list_(pa.float64())])
def test_lists_of_ids(kind):
    found = feature(pa.array([[1, 2], [], None, [3]], kind), kind="ids")
    assert found.values.dtype == np.int64
    assert found.values.tolist() == [1, 2, 3]
    assert found.indptr.tolist() == [0, 2, 2, 2, 3]
    assert found.present.tolist() == [True, True, False, True]


@pytest.mark.parametrize(
    ("column", "says"),
    [
        ([[1], [2, None]], "row 2, column 'f' (feature 'f'): null at place 1 of the list"),
        ([[1.0], [2.0, 0.5]], "row 2, column 'f' (feature 'f'): 0.5 at place 1 of the list"),
        (pa.array([[1], [2**63]], pa.list_(pa.uint64())), "9223372036854775808 at place 0"),
        ([["x"]], "has type list<item: string>, expected lists of integers"),
        ([1, 2], "has type int64, expected lists of integers"),
    ],
)
def test_a_list_that_holds_no_ids_is_refused_by_row(column, says):
    assert says in feature_refusal(column, kind="ids")


def test_lists_written_as_text_are_split_at_their_separator():
    found = feature(["1|2", "", None, "3"], kind="ids", separator="|")
    assert (found.values.tolist(), found.indptr.tolist()) == ([1, 2, 3], [0, 2, 2, 2, 3])
    found = feature(["0.5 1", None], kind="vector", dim=2)
    assert found.values.tolist() == [[0.5, 1], [0, 0]]
    assert found.present.tolist() == [True, False]
    assert "row 2, column 'f' (feature 'f')" in feature_refusal(["1|2", "3|x"], kind="ids", separator="|")


def test_one_column_may_be_a_weight_and_a_feature():
    found = read({"a": [1], "b": [2], "w": [3]}, weight="w", features=(FeatureType("w", dtype="int8"),))
    assert found.weight.tolist() == [3]
    assert found.features["w"].values.tolist() == [3]


def test_two_columns_of_one_name_are_refused_where_they_are_read():
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2]), pa.array([3])], names=["a", "a", "b"])
    ends = {"src_type": USER, "dst_type": USER}
    with pytest.raises(BadInput, match="2 columns are called 'a'"):
        read_edges(EdgeSource(table=table), **ends)
    with pytest.raises(BadInput, match="2 columns have that name"):
        read_edges(EdgeSource(table=table, src="a", dst="b"), **ends)


CELLS = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
ROWS = st.lists(st.tuples(CELLS, CELLS, st.lists(CELLS, max_size=3) | st.none()), min_size=1, max_size=30)


@settings(max_examples=60, deadline=None)
@given(ROWS, st.integers(1, 10))
def test_good_rows_come_back_and_bad_ones_are_set_aside(rows, batch_rows):
    good = [row for row in rows if row[0] is not None and row[1] is not None and None not in (row[2] or [])]
    kinds = {"a": pa.int64(), "b": pa.int64(), "f": pa.list_(pa.int64())}
    table = pa.table({name: pa.array(column, kinds[name]) for name, column in zip(kinds, zip(*rows))})
    source = EdgeSource(table=table)
    edge_type = EdgeType("user:x:user", (source,), features=(FeatureType("f", "ids"),), bad_rows="aside")
    found, rejected = [], []
    for batch in read_edges(source, src_type=USER, dst_type=USER, edge_type=edge_type, batch_rows=batch_rows):
        column = batch.features["f"]
        assert batch.num_rows <= batch_rows
        present = np.ones(batch.num_rows, bool) if column.present is None else column.present
        for row, (src, dst, there) in enumerate(zip(batch.src.tolist(), batch.dst.tolist(), present)):
            cell = column.values[column.indptr[row] : column.indptr[row + 1]].tolist()
            found.append((src, dst, cell if there else None))
        rejected.extend(int(row.place.removeprefix("row ")) for row in batch.rejected)
    assert found == good
    assert rejected == [place for place, row in enumerate(rows, 1) if row not in good]
