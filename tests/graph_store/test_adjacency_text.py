"""Adjacency text: every word of every line, or the line and place of the one that is wrong."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store import adjacency_text
from graph_store.errors import BadInput
from graph_store.readers import read_edges
from graph_store.schema import EdgeSource, NodeType


def read(path, *, ids=("integer", "integer"), threads=2, format="adjacency"):
    """Return the edges of a file, and the sources that stand alone."""
    found, alone = [], []
    plain = lambda values: values.to_pylist() if isinstance(values, pa.Array) else values.tolist()  # noqa: E731
    types = {"src_type": NodeType("user", ids[0]), "dst_type": NodeType("item", ids[1])}
    for batch in read_edges(EdgeSource(path, format=format), threads=threads, **types):
        assert batch.weight is None
        assert batch.time is None
        assert batch.num_rows == len(batch.dst)
        found += zip(plain(batch.src), plain(batch.dst))
        alone += [] if batch.src_only is None else plain(batch.src_only)
    return found, alone


@pytest.fixture
def write(tmp_path):
    def write(data):
        path = tmp_path / "edges.txt"
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


@pytest.mark.parametrize(
    "data",
    [
        "0 5 6\n1 7\n2\n",
        "0 5 6\n1 7\n2",
        "0 5 6\r\n1 7\r\n2\r\n",
        "\ufeff0 5 6\n1 7\n2\n",
        "0\t5\t6\n1\t7\n2\n",
        "  0  5 \t6  \n\n \n1 7 \r\n2 \n\n",
        "00 05 6\n1 7\n2\n",
        "# users and items\n0 5 6\n1 7\n2\n",
    ],
)
def test_one_graph_is_read_from_each_way_of_writing_it(write, data):
    for format in ("adjacency", None):
        assert read(write(data), format=format) == ([(0, 5), (0, 6), (1, 7)], [2])


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("x", "'x' is no whole number; node type 'item'"),
        ("3.5", "'3.5' is no whole number; ids of node type 'item' are whole numbers"),
        ("++3", "'++3' is no whole number"),
        ("1-2", "'1-2' is no whole number"),
        ("-", "'-' is no whole number"),
        ("0x1", "'0x1' is no whole number"),
        ("3\x00", r"'3\x00' is no whole number"),
        ("3,", "'3,' is no whole number"),
        ("9223372036854775808", "out of the range of int64"),
        ("-9223372036854775809", "out of the range of int64"),
    ],
)
def test_a_word_that_is_no_int64_is_refused_with_its_line_and_place(write, word, says):
    with pytest.raises(BadInput) as error:
        read(write(f"0 5 6\n\n1 7 {word} 8\n2\n"))
    assert "edges.txt: line 3, column 2 (dst): " in str(error.value)
    assert says in str(error.value)


def test_a_source_that_is_no_integer_is_refused(write):
    with pytest.raises(BadInput, match=r"line 2, column 0 \(src\): 'u1' .*node type 'user'"):
        read(write("0 5 6\nu1 7\n"))


def test_string_ids_come_back_unchanged_and_must_be_utf8(write):
    strings = ("string", "string")
    assert read(write("é 中 007\nb -0\nc\n"), ids=strings) == ([("é", "中"), ("é", "007"), ("b", "-0")], ["c"])
    with pytest.raises(BadInput, match=r"line 2, column 1 .*not UTF-8"):
        read(write(b"a b\nc \xff\n"), ids=strings)
    with pytest.raises(BadInput, match=r"line 1, column 1 .*zero byte"):
        read(write(b"a b\0\nc d\n"), ids=strings)


def test_the_ends_may_have_different_id_types(write):
    path = write("a 1 2\nb 3\n")
    assert read(path, ids=("string", "integer")) == ([("a", 1), ("a", 2), ("b", 3)], [])
    with pytest.raises(BadInput, match="line 1, column 0"):
        read(path, ids=("integer", "string"))


INT64 = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(INT64, st.lists(INT64, max_size=30)), min_size=1, max_size=15),
    st.integers(64, 400),
    st.booleans(),
)
def test_any_graph_comes_back_in_any_block_size(tmp_path_factory, lists, block_bytes, crlf):
    path = tmp_path_factory.mktemp("rows") / "edges.txt"
    end = "\r\n" if crlf else "\n"
    path.write_text("".join(" ".join(map(str, (user, *items))) + end for user, items in lists), newline="")
    expected = [(user, item) for user, items in lists for item in items]
    text = [(str(user), str(item)) for user, item in expected]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjacency_text, "BLOCK_BYTES", block_bytes)
        found, alone = read(path)
        assert found == expected
        # A line that is cut may say once more that its source is a node.
        assert {user for user, items in lists if not items} <= set(alone) <= {user for user, _ in lists}
        assert read(path, ids=("string", "string"))[0] == text


def test_a_line_longer_than_a_block_is_read_whole_and_its_faults_named(write, monkeypatch):
    monkeypatch.setattr(adjacency_text, "BLOCK_BYTES", 1 << 10)
    items = np.arange(5000) + 10**6
    hub = f"7 {' '.join(map(str, items))}"
    assert read(write(f"1 2\n{hub}\n3 4\n"))[0] == [(1, 2), *((7, item) for item in items), (3, 4)]
    with pytest.raises(BadInput, match=r"line 2, column \d+ \(dst\): 'x'"):
        read(write(f"1 2\n{hub} x\n3 4\n"))
    with pytest.raises(BadInput, match=r"line 3, column 1 \(dst\): 'x'"):
        read(write(f"1 2\n{hub}\n3 x\n"))
    with pytest.raises(BadInput, match="line 1: a word of more than"):
        read(write("1" * 5000))


def test_a_bad_word_in_the_middle_of_a_large_file_is_named(write, monkeypatch):
    monkeypatch.setattr(adjacency_text, "BLOCK_BYTES", 1 << 14)
    lines = [f"{row} {row + 1} {row + 2}" for row in range(50_000)]
    lines[34_567] = "5 6 7e-1"
    with pytest.raises(BadInput, match=r"line 34568, column 2 \(dst\): '7e-1'"):
        read(write("\n".join(lines)))


def test_a_column_of_single_words_is_no_adjacency_unless_stated(write):
    path = write("5\n6\n")
    assert read(path) == ([], [5, 6])
    with pytest.raises(BadInput, match="one column only"):
        read(path, format=None)
