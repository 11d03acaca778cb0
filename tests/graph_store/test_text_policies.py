"""Text and what a schema says of it: rows set aside, weights left out, relations, unsigned ids, archives."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store import adjacency_text, text_blocks
from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.readers import read_edges, read_nodes
from graph_store.schema import EdgeSource, EdgeType, NodeSource, NodeType


def batches(path, *, ids="integer", dst_ids=None, features=(), threads=2, batch_rows=None, name="u:r:i", **options):
    """Read a file of edges; options are those of the source and of the edge type."""
    keys = ("bad_rows", "bad_rows_limit", "bad_weights", "negative_weights")
    policies = {key: options.pop(key) for key in keys if key in options}
    edge_type = EdgeType(name, [EdgeSource(path, **options)], features=features, **policies)
    ends = {"src_type": NodeType("u", ids), "dst_type": NodeType("i", dst_ids or ids)}
    return list(read_edges(edge_type.sources[0], edge_type=edge_type, threads=threads, batch_rows=batch_rows, **ends))


def listed(values):
    return values.to_pylist() if isinstance(values, pa.Array) else values.tolist()


def edges(found):
    """Return (src, dst) of all batches."""
    return [pair for batch in found for pair in zip(listed(batch.src), listed(batch.dst))]


def aside(found):
    """Return (place, reason, text) of the rows set aside."""
    return [(row.place, row.reason, row.text) for batch in found for row in batch.rejected]


@pytest.fixture
def write(tmp_path):
    def write(data, name="edges.csv"):
        path = tmp_path / name
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        return path

    return write


BAD = (
    "user,item\n1,2\n3,x\n\n4\n5,6,7\n7,8\n,9\n10,1e19\n11,12.0\n"
    '13,"14\n15,16\n'  # a quote that is never closed: its row is set aside, the next is not
)


def test_rows_that_cannot_be_taken_are_set_aside_and_the_others_go_on(write):
    path = write(BAD)
    found = batches(path, bad_rows="aside")
    assert edges(found) == [(1, 2), (7, 8), (11, 12), (15, 16)]
    rows = aside(found)
    assert [(place, text) for place, _, text in rows] == [
        ("line 3", "3,x"),
        ("line 5", "4"),
        ("line 6", "5,6,7"),
        ("line 8", ",9"),
        ("line 9", "10,1e19"),
        ("line 11", '13,"14'),
    ]
    reasons = [reason for _, reason, _ in rows]
    assert reasons[0].startswith("column 'item' (dst): 'x' is no whole number; node type 'i' has integer ids")
    assert reasons[1] == "expected 2 columns, found 1: '4'; repair the row"
    assert reasons[2] == "expected 2 columns, found 3: '5,6,7'; quote cells that hold the delimiter"
    assert reasons[3] == "column 'user' (src): empty id; fill it in or remove the row"
    assert reasons[4].startswith("column 'item' (dst): '1e19' is out of the range of int64; expected")
    assert reasons[5] == "a double quote is opened and never closed; close or double it"
    assert {row.path for batch in found for row in batch.rejected} == {path}


def test_the_reason_of_a_row_is_that_of_the_error(write):
    for _, reason, text in aside(batches(write(BAD), bad_rows="aside")):
        with pytest.raises(BadInput) as error:
            batches(write(f"user,item\n{text}\n"), delimiter=",")
        assert str(error.value).endswith(f"line 2{', ' if reason.startswith('column') else ': '}{reason}")


def test_bytes_that_are_not_utf8_set_their_row_aside(write):
    found = batches(write(b"a,b\nx,y\nx,caf\xe9\n\xe4,y\nu,v\n"), ids="string", header=True, bad_rows="aside")
    assert edges(found) == [("x", "y"), ("u", "v")]
    assert [(place, text) for place, _, text in aside(found)] == [("line 3", "x,caf�"), ("line 4", "�,y")]


def test_a_row_of_several_lines_is_set_aside_as_one(write):
    found = batches(write('1,2\n"3,4\n5,6",7,8\n9,10\n'), bad_rows="aside")
    assert edges(found) == [(1, 2), (9, 10)]
    assert aside(found) == [
        (
            "line 2",
            r"expected 2 columns, found 3: '3,4\n5,6,7,8'; in quotes it goes on to line 3; is one too many or missing?",
            '"3,4\n5,6",7,8',
        )
    ]


def test_a_quote_never_closed_in_a_large_file_sets_its_line_aside(write, monkeypatch):
    monkeypatch.setattr(text_blocks, "BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(text_blocks, "LONGEST_ROW_BYTES", 1 << 12)
    path = write('1,2\n"3,4\n' + "5,6\n" * 5000)
    found = batches(path, bad_rows="aside")
    assert edges(found) == [(1, 2)] + [(5, 6)] * 5000
    assert [(place, text) for place, _, text in aside(found)] == [("line 2", '"3,4')]
    with pytest.raises(BadInput, match="line 2: a row of more than"):
        batches(path)


def test_a_long_row_is_shown_cut(write):
    ((_, _, text),) = aside(batches(write("1,2\n3," + "x" * 5000 + "\n"), bad_rows="aside"))
    assert text == "3," + "x" * 998 + "…"


def test_lines_are_right_in_a_large_file_with_few_bad_rows(write):
    lines = [f"{row},{row * 7}" for row in range(300_000)]
    for row in (17, 123_456, 123_457, 299_999):
        lines[row] = f"{row},bad"
    found = batches(write("\r\n".join(["u,i", *lines])), bad_rows="aside")
    assert [(place, text) for place, _, text in aside(found)] == [
        (f"line {row + 2}", f"{row},bad") for row in (17, 123_456, 123_457, 299_999)
    ]
    src = np.concatenate([batch.src for batch in found])
    dst = np.concatenate([batch.dst for batch in found])
    good = np.delete(np.arange(300_000), [17, 123_456, 123_457, 299_999])
    assert np.array_equal(src, good)
    assert np.array_equal(dst, good * 7)


def test_a_file_of_nothing_else_is_not_read_to_its_end(write):
    path = write("1,2\n" + "x,y\n" * 50_000)
    rows = aside(batches(path, bad_rows="aside", bad_rows_limit=10, threads=1))
    # one more than the limit: whoever counts them stops there
    assert 11 <= len(rows) <= 11 + 1
    assert rows[0][0] == "line 2"


CELLS = st.sampled_from(["1", "22", "3.0", "x", "", '"4"', '"5\n6"', '7"', "-8", "1e2", "é", " 9", "0x1"])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(CELLS, min_size=1, max_size=3), min_size=1, max_size=12), st.integers(1, 80), st.booleans())
def test_good_and_bad_rows_do_not_depend_on_the_blocks(tmp_path_factory, rows, block_bytes, crlf):
    path = tmp_path_factory.mktemp("rows") / "edges.csv"
    end = "\r\n" if crlf else "\n"
    path.write_text("".join(",".join(row) + end for row in rows), newline="", encoding="utf-8")
    values = {"1": 1, "22": 22, "3.0": 3, '"4"': 4, "-8": -8, "1e2": 100, " 9": 9}
    expected = [tuple(values[cell] for cell in row) for row in rows if len(row) == 2 and all(c in values for c in row)]
    bad = sum(row != [""] for row in rows) - len(expected)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_blocks, "BLOCK_BYTES", block_bytes)
        options = {"delimiter": ",", "header": False, "src": 0, "dst": 1, "bad_rows": "aside"}
        if max(map(len, rows)) >= 2 and len(rows[0]) == 2:
            found = batches(path, **options)
            assert edges(found) == expected
            assert len(aside(found)) == bad


def test_nodes_are_set_aside_with_their_features(write):
    node_type = NodeType(
        "item",
        sources=[NodeSource(write("id,x,t\n1,5,a\n2,500,b\n3,,c\n4,-1,d\nx,6,e\n"))],
        features=[FeatureType("x", dtype="uint8"), FeatureType("t", "string")],
        bad_rows="aside",
    )
    (batch,) = read_nodes(node_type.sources[0], node_type=node_type)
    assert batch.ids.tolist() == [1, 3]
    assert batch.num_rows == 2
    assert batch.features["x"].values.tolist() == [5, 0]
    assert batch.features["x"].present.tolist() == [True, False]
    assert bytes(batch.features["t"].values) == b"ac"
    assert batch.features["t"].indptr.tolist() == [0, 1, 2]
    assert [row.place for row in batch.rejected] == ["line 3", "line 5", "line 6"]
    assert batch.rejected[0].reason.startswith("column 'x' (feature 'x'): 500; expected a whole number from 0 to 255")


WEIGHTS = "u,i,w\n1,1,0.5\n1,2,nan\n1,3,-2\n1,4,inf\n1,5,-inf\n1,6,-0.0\n1,7,1e39\n"


def test_weights_that_are_not_finite_are_left_out_and_counted(write):
    (batch,) = batches(write(WEIGHTS), weight="w", bad_weights="drop")
    assert edges([batch]) == [(1, 1), (1, 3), (1, 6)]
    assert batch.weight.tolist() == [0.5, -2.0, 0.0]
    assert (batch.num_rows, batch.dropped, batch.rejected) == (3, {"bad_weights": 4}, ())


def test_negative_weights_are_left_out_and_counted_apart(write):
    (batch,) = batches(write(WEIGHTS), weight="w", bad_weights="drop", negative_weights="drop")
    assert edges([batch]) == [(1, 1), (1, 6)]
    assert batch.dropped == {"bad_weights": 4, "negative_weights": 1}
    with pytest.raises(BadInput, match=r"line 3, column 'w' .weight.: 'nan' is no finite number"):
        batches(write(WEIGHTS), weight="w", negative_weights="drop")


def test_a_negative_weight_can_be_an_error_or_set_aside(write):
    with pytest.raises(BadInput, match=r"line 4, column 'w' .weight.: '-2' is below 0; repair it, or say negative_we"):
        batches(write(WEIGHTS), weight="w", bad_weights="drop", negative_weights="error")
    found = batches(write(WEIGHTS), weight="w", bad_weights="drop", negative_weights="error", bad_rows="aside")
    assert edges(found) == [(1, 1), (1, 6)]
    assert [(place, text) for place, _, text in aside(found)] == [("line 4", "1,3,-2")]
    assert found[0].dropped == {"bad_weights": 4}


def test_bad_weights_are_set_aside_where_they_are_not_left_out(write):
    found = batches(write(WEIGHTS), weight="w", bad_rows="aside")
    assert edges(found) == [(1, 1), (1, 3), (1, 6)]
    assert [place for place, _, _ in aside(found)] == ["line 3", "line 5", "line 6", "line 8"]
    assert aside(found)[3][1].startswith("column 'w' (weight): '1e39' is out of the range of float32")


def test_edges_that_are_left_out_take_their_features_with_them(write):
    tags = FeatureType("t", "ids")
    (batch,) = batches(
        write("u,i,w,t\n1,1,1,5 6\n1,2,nan,7\n1,3,2,\n"), weight="w", bad_weights="drop", features=[tags]
    )
    assert batch.features["t"].values.tolist() == [5, 6]
    assert batch.features["t"].indptr.tolist() == [0, 2, 2]


def test_relations_come_back_by_edge(write):
    path = write("a\t/film/actor\tb\nc\tliebt\tb\na\t/film/actor\tc\n", "train.txt")
    found = batches(path, ids="string", src=0, dst=2, relation=1, header=False, name="u:*:i")
    assert edges(found) == [("a", "b"), ("c", "b"), ("a", "c")]
    assert found[0].relation.to_pylist() == ["/film/actor", "liebt", "/film/actor"]


@pytest.mark.parametrize("word", ["", "a:b", "a b", "*", "a\x01b", "r" * 256])
def test_a_word_that_can_be_no_relation_is_refused_with_its_line(write, word):
    path = write(f"u,r,i\n1,good,2\n3,{word},4\n")
    with pytest.raises(BadInput, match=r"line 3, column 'r' .relation.: relation") as error:
        batches(path, src="u", dst="i", relation="r", name="u:*:i")
    assert "\n" not in str(error.value)
    found = batches(path, src="u", dst="i", relation="r", name="u:*:i", bad_rows="aside")
    assert edges(found) == [(1, 2)]
    assert len(aside(found)) == 1


def test_typed_headers_are_named_either_way(write):
    path = write("user_id:token\titem_id:token\trating:float\ttimestamp:float\n7\t8\t4.0\t8.8125e+08\n", "ml.inter")
    for names in ("user_id item_id rating timestamp", "user_id:token item_id:token rating:float timestamp:float"):
        src, dst, weight, time = names.split()
        (batch,) = batches(path, src=src, dst=dst, weight=weight, time=time)
        assert (edges([batch]), batch.weight.tolist(), batch.time.tolist()) == ([(7, 8)], [4.0], [881250000])


def test_unsigned_ids_come_back_as_their_bit_patterns(write):
    path = write("u,i\n18446744073709551615,0\n9223372036854775808,1.8446744073709551614e19\n")
    (batch,) = batches(path, ids="unsigned")
    assert batch.src.dtype == np.int64
    assert batch.src.view(np.uint64).tolist() == [2**64 - 1, 2**63]
    assert batch.dst.view(np.uint64).tolist() == [0, 2**64 - 2]
    (plain,) = batches(write("u,i\n18446744073709551615,0\n"), ids="unsigned")
    assert plain.src.tolist() == [-1]
    for word, says in (("-1", "expected 0 to 18446744073709551615; declare string ids"), ("18446744073709551616", "")):
        with pytest.raises(
            BadInput, match=rf"line 2, column 'i' .dst.: '{word}' is out of the range of uint64; {says}"
        ):
            batches(write(f"u,i\n1,{word}\n"), ids="unsigned")
    with pytest.raises(BadInput, match=r"is out of the range of int64; expected .* declare unsigned or string ids"):
        batches(write("u,i\n1,18446744073709551615\n"))


PACK = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": lzma.compress,
    "zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize("kind", PACK)
def test_compressed_text_is_read_whatever_it_is_called(write, kind):
    for name in (f"edges.csv.{kind}", "edges"):
        found = batches(write(PACK[kind](b"u,i\n1,2\n3,4\n"), name))
        assert edges(found) == [(1, 2), (3, 4)]
        assert found[-1].bytes_done == len(PACK[kind](b"u,i\n1,2\n3,4\n"))
    packed = PACK[kind](b"u,i\n" + b"1,2\n" * 50_000)
    with pytest.raises(BadInput, match=r"edges.csv: the compressed file ends too early"):
        batches(write(packed[: len(packed) // 2]))


def test_members_of_archives_are_read(write):
    files = {"ml/train.csv": b"u,i\n1,2\n", "ml/test.csv": b"u;i\n3;4\n"}
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    for name, data in (("a.tar", plain), ("a.tgz", gzip.compress(plain.getvalue())), ("a.zip", zipped)):
        path = write(data if isinstance(data, bytes) else data.getvalue(), name)
        assert edges(batches(path, member="ml/train.csv")) == [(1, 2)]
        assert edges(batches(path, member="ml/test.csv")) == [(3, 4)]
        with pytest.raises(BadInput, match=r"the archive holds 2 files: 'ml/train.csv', 'ml/test.csv'; say member ="):
            batches(path)


def test_a_member_tells_its_format_by_its_own_name(write):
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("edges.tsv", "1\t2\n3\t4 5\n")
    assert edges(batches(write(zipped.getvalue(), "edges.zip"), dst_ids="string", header=False)) == [
        (1, "2"),
        (3, "4 5"),
    ]


@pytest.mark.parametrize("batch_rows", [1, 20_000])
def test_small_batches_are_about_as_large_as_asked(write, batch_rows):
    path = write("".join(f"{row},{row % 7}\n" for row in range(100_000, 200_000)))
    small = batches(path, batch_rows=batch_rows)
    assert edges(small) == edges(batches(path))
    # a block is 64 KiB at least, a row 9 bytes
    assert max(batch.num_rows for batch in small) <= max(batch_rows, (1 << 16) // 9) + 1
    assert len(small) >= 4


def test_a_lone_carriage_return_is_a_character_like_others(write):
    found = batches(write("a,b\rc\nd,e\n"), ids="string", header=False)
    assert edges(found) == [("a", "b\rc"), ("d", "e")]
    with pytest.raises(BadInput, match=r"line 2, column 1 .dst.: '2.r3' is no whole number"):
        batches(write("0,1\n1,2\r3\n4,5\n"), bad_rows="stop")


def test_quotes_among_words_with_spaces_between_are_characters(write):
    found = batches(write('"a b"\nc d"\n', "edges.txt"), ids="string", header=False, delimiter="space")
    assert edges(found) == [('"a', 'b"'), ("c", 'd"')]
    found = batches(write('1 2\n"3 4"\n5  6 \n', "edges.txt"), delimiter="space", bad_rows="aside")
    assert edges(found) == [(1, 2), (5, 6)]
    assert [(place, text) for place, _, text in aside(found)] == [("line 2", '"3 4"')]


# Adjacency text


def adjacency(path, **options):
    return batches(path, format="adjacency", **options)


def test_places_in_a_line_are_times_where_asked_for(write):
    path = write("7 5 6 5\n8\n9 1\n7 2 3\n", "seq.txt")
    (batch,) = adjacency(path, time="position")
    assert edges([batch]) == [(7, 5), (7, 6), (7, 5), (9, 1), (7, 2), (7, 3)]
    assert batch.time.tolist() == [0, 1, 2, 0, 0, 1]
    assert batch.src_only.tolist() == [8]
    assert adjacency(path)[0].time is None


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(st.integers(0, 10**6), min_size=1, max_size=40), min_size=1, max_size=8), st.integers(16, 300))
def test_places_go_on_over_lines_that_are_cut(tmp_path_factory, lines, block_bytes):
    path = tmp_path_factory.mktemp("rows") / "seq.txt"
    path.write_text("".join(" ".join(map(str, line)) + "\n" for line in lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(adjacency_text, "BLOCK_BYTES", block_bytes)
        found = adjacency(path, time="position")
    expected = [(line[0], item, place) for line in lines for place, item in enumerate(line[1:])]
    times = [time for batch in found for time in batch.time.tolist()]
    assert [(*pair, time) for pair, time in zip(edges(found), times)] == expected


def test_a_bad_word_of_a_cut_line_is_named_by_its_place_in_the_whole(write, monkeypatch):
    monkeypatch.setattr(adjacency_text, "BLOCK_BYTES", 64)
    path = write("1 2\n7 " + "55 " * 100 + "x 4\n", "seq.txt")
    with pytest.raises(BadInput, match=r"line 2, column 101 \(dst\): 'x'"):
        adjacency(path)


def test_lines_of_an_adjacency_are_set_aside_as_a_whole(write, monkeypatch):
    path = write("1 2 3\n4 5 x 6 y\n\nz\n7 8\n9\n", "seq.txt")
    hub = "11 " + "5 " * 200
    for block_bytes in (1 << 20, 16):
        monkeypatch.setattr(adjacency_text, "BLOCK_BYTES", block_bytes)
        found = adjacency(path, bad_rows="aside", time="position")
        assert edges(found) == [(1, 2), (1, 3), (7, 8)]
        assert [time for batch in found for time in batch.time.tolist()] == [0, 1, 0]
        assert [id for batch in found if batch.src_only is not None for id in batch.src_only.tolist()] == [9]
        assert [(place, text) for place, _, text in aside(found)] == [("line 2", "4 5 x 6 y"), ("line 4", "z")]
        assert aside(found)[0][1].startswith("column 2 (dst): 'x' is no whole number")
        # a line longer than a block is set aside whole
        long = adjacency(write(f"{hub}x\n{hub}\n", "hub.txt"), bad_rows="aside")
        assert len(edges(long)) == 200
        assert [place for place, _, _ in aside(long)] == ["line 1"]


def test_string_ids_of_an_adjacency_are_set_aside_where_not_utf8(write):
    path = write(b"a b \xff c\nd e\nf g\0\n", "seq.txt")
    found = adjacency(path, ids="string", bad_rows="aside")
    assert edges(found) == [("d", "e")]
    assert [(place, reason.partition(";")[0]) for place, reason, _ in aside(found)] == [
        ("line 1", "column 2 (dst): '�' is not UTF-8"),
        ("line 3", r"column 1 (dst): 'g\x00' holds a zero byte"),
    ]


def test_ids_of_an_adjacency_may_be_unsigned_or_written_as_floats(write):
    path = write("18446744073709551615 1.0 +2\n3 9223372036854775808\n", "seq.txt")
    (batch,) = adjacency(path, ids="unsigned")
    assert batch.src.view(np.uint64).tolist() == [2**64 - 1, 2**64 - 1, 3]
    assert batch.dst.view(np.uint64).tolist() == [1, 2, 2**63]
    (mixed,) = adjacency(write("1 18446744073709551615\n", "seq.txt"), ids="integer", dst_ids="unsigned")
    assert (mixed.src.tolist(), mixed.dst.tolist()) == ([1], [-1])


def test_small_batches_of_an_adjacency_are_about_as_large_as_asked(write):
    path = write("".join(f"{row} {row + 1} {row + 2}\n" for row in range(60_000)), "seq.txt")
    small = adjacency(path, batch_rows=1)
    assert edges(small) == edges(adjacency(path))
    assert len(small) > 10
