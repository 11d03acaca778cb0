"""Parquet: columns by name and type, every value exact, no float on the way, each fault by its row."""

import datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graph_store import arrow_rows
from graph_store.errors import BadInput
from graph_store.readers import describe, read_edges, source_bytes
from graph_store.row_batch import BATCH_ROWS
from graph_store.schema import EdgeSource, EdgeType, FeatureType, NodeType

EXTREMES = [-(2**63), 2**63 - 1, 2**53 + 1, 10150093035685641]


@pytest.fixture
def write(tmp_path):
    def write(columns, **options):
        path = tmp_path / "edges.parquet"
        pq.write_table(pa.table(columns), path, **options)
        return path

    return write


def read(path, *, ids="integer", threads=2, batch_rows=None, **options):
    """Return the columns of a file by role, each one array, or None."""
    ends = {"src_type": NodeType("user", ids), "dst_type": NodeType("item", ids)}
    batches = list(read_edges(EdgeSource(path, **options), threads=threads, batch_rows=batch_rows, **ends))
    assert all(batch.num_rows == len(batch.src) == len(batch.dst) for batch in batches)
    join = pa.concat_arrays if ids == "string" else np.concatenate
    columns = {role: [getattr(batch, role) for batch in batches] for role in ("src", "dst", "weight", "time")}
    return {
        role: None if parts[0] is None else (join if role in ("src", "dst") else np.concatenate)(parts)
        for role, parts in columns.items()
    }


def refusal(path, **options):
    with pytest.raises(BadInput) as error:
        read(path, **options)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message


def test_int64_ids_weights_and_times_come_back_exact(write):
    path = write({"t": [5, -1, 0, 7], "b": EXTREMES, "w": [0.5, -1.0, 0.1, 3e38], "a": EXTREMES[::-1]})
    found = read(path, src="a", dst="b", weight="w", time="t")
    assert found["src"].tolist() == EXTREMES[::-1]
    assert found["dst"].tolist() == EXTREMES
    assert found["time"].tolist() == [5, -1, 0, 7]
    assert found["weight"].dtype == np.float32
    np.testing.assert_array_equal(found["weight"], np.array([0.5, -1.0, 0.1, 3e38], np.float32))


def test_the_first_two_columns_are_the_ends_unless_stated(write):
    path = write({"x": [1, 2], "y": [3, 4], "z": [5, 6]})
    assert read(path)["dst"].tolist() == [3, 4]
    assert read(path, src=2, dst="1")["src"].tolist() == [5, 6]


def test_digits_are_a_position_unless_a_column_has_that_very_name(write):
    path = write({"1": [1], "0": [2]})
    assert read(path, src="1", dst="0")["src"].tolist() == [1]
    assert read(path, src=1, dst=0)["src"].tolist() == [2]


@pytest.mark.parametrize("kind", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"])
def test_every_integer_type_is_taken_as_int64(write, kind):
    found = read(write({"a": pa.array([1, 127], kind), "b": pa.array([0, 3], kind)}))
    assert found["src"].dtype == np.int64
    assert found["src"].tolist() == [1, 127]


def test_dictionaries_are_decoded(write):
    numbers = write({"a": pa.array([2**60, 3, 2**60]).dictionary_encode(), "b": [1, 2, 3]})
    assert read(numbers)["src"].tolist() == [2**60, 3, 2**60]
    texts = write({"a": pa.array(["x", "é", "x"]).dictionary_encode(), "b": ["1", "NA", " "]})
    assert read(texts, ids="string")["src"].to_pylist() == ["x", "é", "x"]


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_strings_come_back_unchanged(write, kind):
    texts = ["007", " 7 ", "NA", "中"]
    column = pa.array([text.encode() for text in texts], kind) if kind == pa.binary() else pa.array(texts, kind)
    found = read(write({"a": column, "b": column}), ids="string")
    assert found["src"].type == pa.large_string()
    assert found["src"].to_pylist() == texts


def test_timestamps_are_their_integers(write):
    moments = [datetime.datetime(1970, 1, 2), datetime.datetime(2024, 1, 1)]
    path = write({"a": [1, 2], "b": [3, 4], "t": pa.array(moments, pa.timestamp("us"))})
    assert read(path, time="t")["time"].tolist() == [86_400_000_000, 1_704_067_200_000_000]


@pytest.mark.parametrize(
    ("column", "ids", "says"),
    [
        (pa.array(["1", "2"]), "integer", "node type 'user' has integer ids; declare string ids"),
        (pa.array([True, False]), "integer", "has type bool"),
        (pa.array([datetime.date(2024, 1, 1)] * 2), "integer", "has type date32"),
        (pa.array([[1], [2]]), "integer", "has type list"),
        (pa.array([1, 2]), "string", "node type 'user' has string ids; declare integer ids"),
        (pa.array([1.0, 2.0]), "string", "write the column as strings"),
    ],
)
def test_an_id_column_of_another_type_is_refused_never_converted(write, column, ids, says):
    other = pa.array(["1", "2"]) if ids == "string" else pa.array([1, 2])
    message = refusal(write({"user": column, "item": other}), ids=ids)
    assert "column 'user' (src)" in message
    assert says in message


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "brotli", "zstd", "lz4"])
def test_every_codec_is_read(write, codec):
    rows = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (1000, 2))
    path = write({"a": rows[:, 0], "b": rows[:, 1]}, compression=codec)
    found = read(path)
    np.testing.assert_array_equal(np.stack([found["src"], found["dst"]], 1), rows)


def test_floats_are_ids_where_each_is_whole_and_exact(write):
    path = write({"a": [1.0, -3.0, 2.0**53], "b": pa.array([4.0, 2.0**24, 0.0], "float32")})
    assert read(path)["src"].tolist() == [1, -3, 9007199254740992]
    assert read(path)["dst"].tolist() == [4, 16777216, 0]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (1.5, "row 2, column 'a' (src): 1.5 is no whole number; write ids as whole numbers"),
        (float("nan"), "nan is no whole number"),
        (float("inf"), "inf is no whole number"),
        (2.0**53 + 2, "9007199254740994.0 is beyond 2^53, from where on a double does not hold every whole number"),
        (-(2.0**60), "is beyond 2^53"),
    ],
)
def test_a_float_that_is_no_exact_id_is_refused_by_row(write, value, says):
    message = refusal(write({"a": [1.0, value, 1.5], "b": [1, 2, 3]}))
    assert says in message
    assert "row 2, column 'a' (src)" in message


def test_decimals_are_ids_where_they_are_whole(write):
    path = write({"a": pa.array([Decimal("-1.00"), Decimal(2**53 + 1)]).cast(pa.decimal128(38, 2)), "b": [1, 2]})
    assert read(path)["src"].tolist() == [-1, 9007199254740993]
    path = write({"a": pa.array([Decimal(3), Decimal("1.5")]).cast(pa.decimal128(38, 2)), "b": [1, 2]})
    assert "row 2, column 'a' (src): 1.50 is no whole number" in refusal(path)
    path = write({"a": pa.array([Decimal(2**63)]).cast(pa.decimal128(38, 0)), "b": [1]})
    assert "9223372036854775808 is above 9223372036854775807" in refusal(path)
    assert read(path, ids="unsigned")["src"].tolist() == [-(2**63)]


def test_a_negative_unsigned_id_is_refused_by_row(write):
    assert "row 2, column 'b' (dst): -1 is below 0" in refusal(write({"a": [1, 2], "b": [0, -1]}), ids="unsigned")


def test_timestamps_must_have_the_unit_of_time_that_is_declared(write):
    path = write({"a": [1], "b": [3], "t": pa.array([7], pa.timestamp("us"))})
    source = EdgeSource(path, time="t")
    ends = {"src_type": NodeType("user"), "dst_type": NodeType("user")}
    good = EdgeType("user:sees:user", (source,), time_unit="us")
    assert next(read_edges(source, edge_type=good, **ends)).time.tolist() == [7]
    bad = EdgeType("user:sees:user", (source,), time_unit="s")
    with pytest.raises(BadInput, match=r"column 't' \(time\) has type .* but time_unit is 's'; say time_unit = 'us'"):
        read_edges(source, edge_type=bad, **ends)


def test_the_rows_of_a_batch_can_be_limited(write):
    path = write({"a": np.arange(1000), "b": np.arange(1000)}, row_group_size=300)
    source = EdgeSource(path)
    ends = {"src_type": NodeType("user"), "dst_type": NodeType("item")}
    batches = list(read_edges(source, batch_rows=64, **ends))
    assert max(batch.num_rows for batch in batches) <= 64
    np.testing.assert_array_equal(np.concatenate([batch.src for batch in batches]), np.arange(1000))


def test_vectors_and_lists_are_read_from_row_groups(write):
    vectors = np.arange(3000, dtype=np.float32).reshape(1000, 3)
    lists = [list(range(row % 4)) for row in range(1000)]
    columns = {"a": np.arange(1000), "b": np.arange(1000), "emb": list(vectors), "tags": lists}
    source = EdgeSource(write(columns, row_group_size=150))
    features = (FeatureType("emb", "vector", dim=3), FeatureType("tags", "ids"))
    edge_type = EdgeType("user:sees:user", (source,), features=features)
    for batch_rows in (None, 70):
        ends = {"src_type": NodeType("user"), "dst_type": NodeType("user")}
        batches = list(read_edges(source, edge_type=edge_type, batch_rows=batch_rows, **ends))
        np.testing.assert_array_equal(np.concatenate([batch.features["emb"].values for batch in batches]), vectors)
        found = [
            column.values[start:stop].tolist()
            for column in (batch.features["tags"] for batch in batches)
            for start, stop in zip(column.indptr[:-1], column.indptr[1:])
        ]
        assert found == lists


def test_a_uint64_beyond_int64_is_refused_by_row(write):
    path = write({"a": pa.array([2**63 - 1, 2**63], "uint64"), "b": [1, 2]})
    message = refusal(path)
    assert "row 2, column 'a' (src): 9223372036854775808 is above 9223372036854775807" in message
    assert "declare unsigned ids" in message
    assert read(path, ids="unsigned", dst="b")["src"].tolist() == [2**63 - 1, -(2**63)]


@pytest.mark.parametrize("group", [1 << 20, 10])
def test_a_null_is_refused_by_its_row_in_the_file(write, group):
    column = [*range(57), None, *range(58, 100)]
    for ids, kind in (("integer", pa.int64()), ("string", pa.string())):
        values = pa.array([None if value is None else value for value in column], pa.int64()).cast(kind)
        path = write({"a": pa.array(range(100)).cast(kind), "b": values}, row_group_size=group)
        assert "row 58, column 'b' (dst): null" in refusal(path, ids=ids)


def test_empty_ids_and_zero_bytes_are_refused_by_row(write):
    assert "row 2, column 'a' (src): empty id" in refusal(write({"a": ["x", ""], "b": ["y", "z"]}), ids="string")
    assert "row 1, column 'b' (dst): a zero byte" in refusal(write({"a": ["x"], "b": ["y\0"]}), ids="string")
    bad = pa.array([b"x", b"\xff"], pa.binary())
    assert "row 2, column 'a' (src): '�' is not UTF-8" in refusal(write({"a": bad, "b": ["y", "z"]}), ids="string")


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e39])
def test_a_weight_that_is_no_finite_float32_is_refused_by_row(write, value):
    path = write({"a": [1, 2], "b": [3, 4], "w": [1.0, value]})
    assert "row 2, column 'w' (weight)" in refusal(path, weight="w")


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"src": "user", "dst": "itm"}, "no column 'itm' for dst; did you mean 'item'?"),
        ({"src": 9}, "no column 9 for src"),
        ({"src": "user", "dst": 0}, "are one column"),
        ({"weight": "day"}, "has type string, expected floats or integers"),
        ({"time": "day"}, "has type string, expected integers or timestamps"),
    ],
)
def test_a_column_that_is_absent_or_unfit_is_refused(write, options, says):
    assert says in refusal(write({"user": [1], "item": [2], "day": ["Monday"]}), **options)


def test_a_truncated_and_a_damaged_file_are_refused(write):
    path = write({"a": np.arange(1000), "b": np.arange(1000)}, compression="zstd", use_dictionary=False)
    whole = path.read_bytes()
    path.write_bytes(whole[:-100])
    assert "not a readable Parquet file" in refusal(path)
    damaged = bytearray(whole)
    damaged[100:300] = bytes(200)
    path.write_bytes(damaged)
    assert "damaged" in refusal(path)


def test_a_file_without_rows_has_no_edges(write):
    path = write({"a": pa.array([], pa.int64()), "b": pa.array([], pa.int64())})
    source = EdgeSource(path)
    ends = {"src_type": NodeType("user"), "dst_type": NodeType("item")}
    assert list(read_edges(source, **ends)) == []
    assert describe(source, **ends) == "parquet, src = column 'a', dst = column 'b'"


@pytest.mark.parametrize("group", [7, 100, 1000])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch_rows", [50, None])
def test_rows_come_in_file_order_whatever_the_row_groups_and_threads(write, monkeypatch, group, threads, batch_rows):
    monkeypatch.setattr(arrow_rows, "BATCH_ROWS", 80)
    rows = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, (1000, 2))
    path = write({"a": rows[:, 0], "b": rows[:, 1], "user.name": rows[:, 0]}, row_group_size=group)
    found = read(path, threads=threads, batch_rows=batch_rows, src="user.name", dst="b")
    np.testing.assert_array_equal(np.stack([found["src"], found["dst"]], 1), rows)


def test_batches_are_about_a_million_rows_and_count_bytes_up_to_the_size(write):
    num_rows = 3 * BATCH_ROWS
    path = write({"a": np.arange(num_rows), "b": np.zeros(num_rows, np.int64)}, row_group_size=BATCH_ROWS // 8)
    source = EdgeSource(path)
    batches = list(read_edges(source, src_type=NodeType("a"), dst_type=NodeType("b")))
    assert sum(batch.num_rows for batch in batches) == num_rows
    assert all(BATCH_ROWS // 2 <= batch.num_rows <= 2 * BATCH_ROWS for batch in batches)
    done = [batch.bytes_done for batch in batches]
    assert done == sorted(done)
    assert done[-1] == source_bytes(source)
