"""Text with columns: what is told from a file, what is read, and what is refused where."""

import csv
import gzip
import io
import os
import re
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store import text_blocks
from graph_store.errors import BadInput
from graph_store.readers import describe, read_edges, source_bytes
from graph_store.schema import EdgeSource, NodeType

INT64 = st.integers(-(2**63), 2**63 - 1)


def read(path, *, ids="integer", dst_ids=None, threads=2, **options):
    """Return the columns of a file as lists: src, dst, weight, time."""
    source = EdgeSource(path, **options)
    ends = {"src_type": NodeType("user", ids), "dst_type": NodeType("item", dst_ids or ids)}
    columns = ([], [], [], [])
    for batch in read_edges(source, threads=threads, **ends):
        assert batch.num_rows == len(batch.src) == len(batch.dst)
        for column, values in zip(columns, (batch.src, batch.dst, batch.weight, batch.time)):
            if values is not None:
                column.extend(values.to_pylist() if isinstance(values, pa.Array) else values.tolist())
    return columns


def edges(path, **options):
    src, dst, _, _ = read(path, **options)
    return list(zip(src, dst))


@pytest.fixture
def write(tmp_path):
    def write(data, name="edges.csv"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


def refusal(path, **options):
    """Return the message of the refusal, without the folder; it must be one line."""
    with pytest.raises(BadInput) as error:
        read(path, **options)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message.replace(str(path.parent) + "/", "")


@pytest.mark.parametrize(
    "data",
    [
        "1,2\n3,4\n",
        "1,2\n3,4",
        "1,2\r\n3,4\r\n",
        "\ufeff1,2\n3,4\n",
        "src,dst\n1,2\n3,4\n",
        "\ufeffsrc,dst\r\n1,2\r\n3,4",
        "\n1,2\n\n3,4\n\n",
        "1, 2\n 3 ,4\n",
        '"1",2\n3,"4"\n',
        "1;2\n3;4\n",
        "1|2\n3|4\n",
        "1\t2\n3\t4\n",
        "1 2\n3 4\n",
        "1   2 \n  3 \t 4\n",
        "001,2\n3,0004\n",
        "# a comment, and another\n# 1,2\n1,2\n3,4\n",
    ],
)
def test_one_list_of_edges_is_read_from_each_way_of_writing_it(write, data):
    assert edges(write(data)) == [(1, 2), (3, 4)]


def test_int64_extremes_come_back_unchanged(write):
    path = write("9223372036854775807,-9223372036854775808\n-0,9007199254740993\n")
    assert edges(path) == [(2**63 - 1, -(2**63)), (0, 2**53 + 1)]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("3.5", "'3.5' is no whole number; ids of node type 'item' are whole numbers"),
        ("1e-5", "'1e-5' is no whole number; ids of node type 'item' are whole numbers"),
        ("1e19", "'1e19' is out of the range of int64"),
        ("0x10", "'0x10' is no whole number"),
        ("0X10", "'0X10' is no whole number"),
        ("1_000", "'1_000' is no whole number"),
        ("- 5", "'- 5' is no whole number"),
        ("1\x002", r"'1\x002' is no whole number"),
        ("１", "'１' is no whole number"),
        ("nan", "'nan' is no whole number"),
        ("NULL", "'NULL' is no whole number; node type 'item' has integer ids; if they are strings, that"),
        ("", "empty id"),
        ("  ", "empty id"),
        ('""', "empty id"),
        ("9223372036854775808", "'9223372036854775808' is out of the range of int64"),
        ("-9223372036854775809", "'-9223372036854775809' is out of the range of int64"),
        ("18446744073709551616", "is out of the range of int64"),
    ],
)
def test_what_is_no_int64_is_refused_with_line_column_and_value(write, value, says):
    message = refusal(write(f"user,item\n1,2\n3,{value}\n5,6\n"))
    assert message.startswith("edges.csv: line 3, column 'item' (dst): ")
    assert says in message


def test_bytes_that_are_not_utf8_are_refused_by_line(write):
    assert "line 2, column 0 (src): '�' is not UTF-8" in refusal(write(b"1,2\n\xff,4\n"))
    assert "line 2, column 1 (dst): 'caf�' is not UTF-8" in refusal(write(b"a,b\na,caf\xe9\n"), ids="string")


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ("1,2\n3\n4,5\n", "line 2: expected 2 columns, found 1: '3'; repair the row"),
        ("1,2\n\n3,4,5\n", "line 3: expected 2 columns, found 3: '3,4,5'; quote cells that hold the delimiter"),
        ("1,2\n3,4,\n", "line 2: expected 2 columns, found 3: '3,4,'"),
        ('1,2\n"3,4\n5,6\n', "line 2: a double quote is opened and never closed"),
        ('1,2\n3,"4', "line 2: a double quote is opened and never closed"),
        ("1\n2\n", "line 1 has one column only: '1'"),
        ("", "the file is empty"),
        ("\n \r\n", "the file holds no rows"),
        ("# only\n# comments\n", "the file holds no rows"),
        ("1,2\r3,4\r", "lines end in a lone carriage return"),
        (",src,dst\n0,1,2\n1,3,4\n", "column 0 for src has no name in the header"),
        ("1,2\n3,4\n".encode("utf-16"), "is UTF-16 text"),
        (b"PK\x03\x04junk", "cannot read the file: File is not a zip file"),
        (b"BZh9junk", "cannot read the file: Invalid data stream"),
        (b"7z\xbc\xaf\x27\x1cjunk", "is a 7z archive; unpack it first"),
        (b"\x04\x22\x4d\x18junk", "is compressed with lz4; unpack it or compress it with zstd"),
        (b"\x1f\x8bjunkjunkjunk", "cannot read the file"),
        (gzip.compress(b"1,2\n")[:-9], "ends too early"),
        (gzip.compress(b"1,2\n") + b"junk", "cannot read the file"),
    ],
)
def test_a_damaged_file_is_refused_with_what_is_wrong(write, data, says):
    assert says in refusal(write(data))


def test_an_absent_file_and_a_directory_are_refused(tmp_path):
    assert "No such file" in refusal(tmp_path / "absent.csv")
    assert "is a directory" in refusal(tmp_path)


def test_a_header_alone_is_no_edges(write):
    assert edges(write("src,dst\n")) == []
    assert edges(write("src,dst")) == []


def test_columns_are_taken_by_name_and_by_position(write):
    path = write("w,item,user,t\n0.5,2,1,7\n-1.5e-3,4,3,-8\n")
    named = read(path, src="user", dst="item", weight="w", time="t")
    placed = read(path, src=2, dst="1", weight="0", time=3)
    assert named == placed == ([1, 3], [2, 4], [0.5, float(np.float32(-1.5e-3))], [7, -8])


def test_digits_are_a_position_unless_the_header_has_that_very_name(write):
    path = write("1,0\n5,6\n")
    assert edges(path, src="1", dst="0", header=True) == [(5, 6)]
    assert edges(path, src="1", dst="0", header=False) == [(0, 1), (6, 5)]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"src": "user", "dst": "itm"}, "no column 'itm' for dst; did you mean 'item'?"),
        ({"src": 5}, "no column 5 for src: the first row has 3, counted from 0"),
        ({"src": "user", "dst": 0}, "are one column"),
        ({"src": "user", "dst": "item", "header": False}, "the file has no header"),
        ({"delimiter": ";"}, "has one column only"),
        ({"format": "parquet"}, "not a readable Parquet file"),
    ],
)
def test_columns_that_are_not_there_are_refused(write, options, says):
    assert says in refusal(write("user,item,w\n1,2,3\n"), **options)


def test_a_name_that_two_columns_bear_is_refused(write):
    assert "2 columns have that name" in refusal(write("u,u,i\n1,2,3\n"), src="u", dst="i")


def test_a_stated_header_is_believed(write):
    path = write("1,2\n3,4\n")
    assert edges(path, header=True) == [(3, 4)]
    assert edges(path, header=False) == [(1, 2), (3, 4)]
    assert "line 1, column 0" in refusal(write("user,item\n3,4\n"), header=False)


@pytest.mark.parametrize(
    ("weight", "says"),
    [
        ("nan", "'nan' is no finite number"),
        ("inf", "'inf' is no finite number"),
        ("", "empty weight"),
        ("0x1", "'0x1' is no finite number"),
        ("1,5", "expected 4 columns, found 5"),
        ("abc", "'abc' is no finite number"),
        ("1e39", "'1e39' is out of the range of float32"),
    ],
)
def test_a_weight_that_is_no_finite_float32_is_refused(write, weight, says):
    message = refusal(write(f"1,2,3,4\n1,2,{weight},4\n"), weight=2, time=3)
    assert "line 2" in message
    assert says in message


@pytest.mark.parametrize("time", ["7.5", "1e-9", "1e19", "2020-01-01", "", "nan"])
def test_a_time_that_is_no_whole_number_is_refused(write, time):
    message = refusal(write(f"1,2,3,4\n1,2,3,{time}\n"), weight=2, time=3)
    assert "line 2, column 3 (time)" in message


def test_a_bad_row_in_the_middle_of_a_large_file_is_named_by_its_line(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 16)
    lines = [f"{row},{row * 7}" for row in range(200_000)]
    lines[123_456] = "12,3.5"
    for end in ("\n", "\r\n"):
        message = refusal(write("src,dst" + end + end.join(lines)))
        assert "line 123458, column 'dst' (dst): '3.5'" in message


def test_the_edges_before_a_bad_row_do_not_hide_it_whatever_the_threads(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 64)
    path = write("1,2\n" * 50 + "x,2\n" + "1,2\n" * 50 + "y,2\n")
    assert {refusal(path, threads=threads) for threads in (1, 2, 5)} == {refusal(path)}
    assert "line 51" in refusal(path)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(INT64, INT64), min_size=1, max_size=40), st.sampled_from(",;|\t "), st.booleans(), st.data())
def test_integers_come_back_in_any_block_size(tmp_path_factory, rows, delimiter, crlf, data):
    path = tmp_path_factory.mktemp("rows") / "edges.csv"
    with open(path, "w", newline="") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\r\n" if crlf else "\n").writerows(rows)
    if data.draw(st.booleans()):
        path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", data.draw(st.integers(1, 200)))
        assert edges(path, delimiter=delimiter, header=False) == rows
        assert edges(path, delimiter=delimiter, header=False, ids="string") == [(str(a), str(b)) for a, b in rows]


WORDS = st.text(st.sampled_from('ab",\n\té中 #x'), min_size=1, max_size=6)


@settings(max_examples=120, deadline=None)
@given(
    st.lists(st.tuples(WORDS, WORDS, WORDS).filter(lambda row: "".join(row).strip()), min_size=1, max_size=12),
    st.sampled_from([",", "\t"]),
    st.integers(1, 60),
)
def test_strings_in_quotes_come_back_in_any_block_size(tmp_path_factory, rows, delimiter, block_bytes):
    path = tmp_path_factory.mktemp("rows") / "edges.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter, lineterminator="\n").writerows(rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block_bytes)
        found = edges(path, dst=2, delimiter=delimiter, header=False, ids="string")
    assert found == [(src, dst) for src, _, dst in rows]


def test_a_bad_row_behind_cells_of_many_lines_is_named_by_its_line(write):
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([(1, "one\ntwo\nthree", 2), (3, 'a "quote"', 4), (5, "x", "6.5")])
    assert "line 5, column 2 (dst): '6.5'" in refusal(write(text.getvalue()), dst=2)


def test_a_row_longer_than_the_limit_is_refused(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(text_blocks, "LONGEST_ROW_BYTES", 1 << 14)
    path = write("1,2\n3," + "4" * 40_000 + "\n")
    assert "line 2: a row of more than" in refusal(path, header=False, delimiter=",")


def test_string_ids_come_back_unchanged(write):
    rows = [("001", " 7 "), ("NA", "null"), ("1.0", "-0"), ('5" pipe', "x"), ("中", "é")]
    path = write("a,b\n" + "".join(f"{a},{b}\n" for a, b in rows))
    assert edges(path, ids="string", header=True) == rows


def test_an_id_type_may_differ_between_the_ends(write):
    assert edges(write("alice,2\nbob,3\n"), ids="string", dst_ids="integer") == [("alice", 2), ("bob", 3)]


@pytest.mark.parametrize("data", ["a,\n", ",b\n", 'a,""\n', "a\x00,b\n"])
def test_an_empty_string_id_or_one_with_a_zero_byte_is_refused(write, data):
    assert "line 2, column" in refusal(write("x,y\n" + data), ids="string", header=False)


@pytest.mark.parametrize(
    ("first", "others", "is_header"),
    [
        ("user,item", "alice,matrix\n", True),
        ("user_id,itemId", "alice,matrix\n", True),
        ("who,what", "17,x1\n18,x2\n", True),
        ("u1,i1", "u2,i2\n", False),
        ("u1,i1", "", False),
        ("user_1,item_1", "user_2,item_1\n", False),
        ("item,node", "user,item\n", False),
        ("alice,matrix", "bob,alien\n", False),
        ("alice@x.org,m-1", "bob@x.org,m-2\n", False),
        ("17,18", "19,20\n", False),
        ("a b,c", "d,a b\na b,c\n", False),
    ],
)
def test_a_header_over_string_ids_is_told_where_something_speaks_for_it(write, first, others, is_header):
    found = edges(write(first + "\n" + others), ids="string")
    assert (tuple(first.split(",")) in found) != is_header


def test_a_pipe_is_refused_as_one_and_not_called_empty(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadInput, match=r"pipe: is a pipe or a device, .* write it to a file first"):
        source_bytes(EdgeSource(tmp_path / "pipe"))


def test_an_unclear_header_over_string_ids_must_be_stated(write):
    path = write("who?,what!\nalice,m1\nbob,m2\n")
    assert refusal(path, ids="string").endswith("say --header or --no-header, in a schema header = true or false")
    assert edges(path, ids="string", header=True) == [("alice", "m1"), ("bob", "m2")]


def test_lines_of_as_many_words_must_be_stated_columns_or_adjacency(write):
    path = write("1 2 3\n4 5 6\n", "edges.txt")
    assert "say --format csv or --format adjacency" in refusal(path)
    assert edges(path, format="csv") == [(1, 2), (4, 5)]
    assert edges(path, src=0, dst=1) == [(1, 2), (4, 5)]
    assert edges(path, format="adjacency") == [(1, 2), (1, 3), (4, 5), (4, 6)]
    assert read(path, time=2)[3] == [3, 6]


def test_describe_says_what_was_told_from_the_file(write):
    ends = {"src_type": NodeType("user"), "dst_type": NodeType("item")}
    said = describe(EdgeSource(write("u;i\n1;2\n")), **ends)
    assert said == "columns separated by ';', a header, src = column 'u', dst = column 'i'"
    assert describe(EdgeSource(write("1 2 3\n4 5\n", "a.txt")), **ends).startswith("adjacency")


def test_bytes_done_grows_to_the_size_of_the_file(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1000)
    source = EdgeSource(write("1,2\n" * 1000))
    ends = {"src_type": NodeType("user"), "dst_type": NodeType("item")}
    done = [batch.bytes_done for batch in read_edges(source, **ends)]
    assert done == sorted(done)
    assert len(done) > 2
    assert done[-1] == source_bytes(source) == 4000


def test_an_iterator_that_is_left_early_leaves_nothing_open(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 100)
    batches = read_edges(EdgeSource(write("1,2\n" * 1000)), src_type=NodeType("a"), dst_type=NodeType("a"))
    next(batches)
    batches.close()
    assert list(batches) == []


def whole(text):
    """Return the integer that a text is by our rule, None when it is none: a decimal number that is whole, in int64."""
    if not re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", text.strip(" \t")):
        return None
    value = Decimal(text.strip(" \t"))
    return int(value) if value == value.to_integral_value() and -(2**63) <= value < 2**63 else None


CELLS = st.text(st.sampled_from("0123456789-+. eExX_\t\x00n１"), max_size=6) | st.integers(-(2**70), 2**70).map(str)


@settings(max_examples=300, deadline=None)
@given(CELLS)
def test_a_cell_is_read_exactly_when_it_is_an_int64(tmp_path_factory, cell):
    path = tmp_path_factory.mktemp("cell") / "edges.csv"
    path.write_text(f"1,{cell}\n2,3\n", encoding="utf-8", newline="")
    if whole(cell) is None:
        assert "line 1, column 1 (dst)" in refusal(path, header=False, delimiter=",")
    else:
        assert edges(path, header=False, delimiter=",") == [(1, whole(cell)), (2, 3)]


@settings(max_examples=300, deadline=None)
@given(CELLS.filter(lambda cell: cell.split() == [cell]))
def test_a_word_is_read_exactly_when_it_is_an_int64(tmp_path_factory, cell):
    path = tmp_path_factory.mktemp("word") / "edges.txt"
    path.write_text(f"1 {cell} 4\n2 3\n", encoding="utf-8", newline="")
    if whole(cell) is None:
        assert "line 1, column 1 (dst)" in refusal(path, format="adjacency")
    else:
        assert edges(path, format="adjacency") == [(1, whole(cell)), (1, 4), (2, 3)]


@settings(max_examples=200, deadline=None)
@given(st.floats(width=32, allow_nan=False, allow_infinity=False) | st.floats(), st.sampled_from(["r", "e", "f"]))
def test_a_weight_is_the_nearest_float32_of_its_text(tmp_path_factory, weight, style):
    text = repr(weight) if style == "r" else f"{weight:.9{style}}"
    path = tmp_path_factory.mktemp("weight") / "edges.csv"
    path.write_text(f"1,2,{text}\n")
    with np.errstate(over="ignore"):
        expected = np.float32(float(text))
    if np.isfinite(expected):
        assert read(path, weight=2, header=False)[2] == [float(expected)]
    else:
        assert "line 1, column 2 (weight)" in refusal(path, weight=2, header=False)
