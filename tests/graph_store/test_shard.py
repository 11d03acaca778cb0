"""A shard: what goes in comes out in the order of keys, and what is damaged is refused by name."""

import shutil
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.blocks import Encoded, encode
from graph_store.errors import CorruptBlock
from graph_store.shard import Shard, SortedFile, id_key, open_piece, seal_piece
from tests.oracles import crc32c


def encoded(lists, first=0):
    indptr = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    return encode(indptr, np.array([node for entries in lists for node in entries], np.int64), first=first, bits=20)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "shard-0"


def fill(path, records, ids=()):
    """Make a shard of {edge type: records} and (node type, first, piece)s."""
    path.parent.mkdir(exist_ok=True)
    files = []
    for edge_type, values in records.items():
        files.append(SortedFile(path.parent / f"adj-{edge_type}.sst"))
        files[-1].put_records(edge_type, values)
        assert files[-1].finish()
    pieces = SortedFile(path.parent / "ids.sst")
    for node_type, first, piece in ids:
        pieces.put(id_key(node_type, first), piece)
    with Shard(path, read_only=False) as shard:
        for file in files:
            shard.ingest("adj", [file.path])
        if pieces.finish():
            shard.ingest("ids", [pieces.path])


def test_records_come_back_by_edge_type_in_the_order_of_their_keys(path):
    hub = encoded([range(2000), [1, 2], *[[5]] * 300])
    small = encoded([[7]], first=2**40)
    fill(path, {0: hub, 1: small, 258: small})
    with Shard(path) as shard:
        for edge_type, expected in {0: hub, 1: small, 258: small}.items():
            found = shard.records(edge_type)
            np.testing.assert_array_equal(found.words, expected.words)
            np.testing.assert_array_equal(found.records, expected.records)
        assert shard.records(2).records.shape == (0, 5)
        assert shard.id_pieces(0) == []


def test_keys_are_big_endian_so_that_their_order_is_that_of_ids(path):
    firsts = [0, 255, 256, 65535, 65536, 2**32, 2**40]
    pieces = [(node_type, first, seal_piece(np.array([first]), 1, first)) for node_type in (0, 1) for first in firsts]
    keys = [id_key(kind, first) for kind, first, _ in pieces]
    assert keys == sorted(keys)
    assert id_key(258, 3) == b"\x01\x02" + struct.pack(">Q", 3)
    fill(path, {}, pieces)
    with Shard(path) as shard:
        assert [open_piece(piece, "")[1].tolist() for piece in shard.id_pieces(1)] == [[first] for first in firsts]


def test_a_sorted_file_without_pairs_is_none(tmp_path):
    file = SortedFile(tmp_path / "none.sst")
    assert not file.finish()
    assert not file.path.exists()


def test_a_sorted_file_refuses_keys_that_descend(tmp_path):
    file = SortedFile(tmp_path / "file.sst")
    file.put(b"b", b"1")
    with pytest.raises(Exception, match="order"):
        file.put(b"a", b"2")


def test_files_are_moved_into_the_shard(path):
    fill(path, {0: encoded([[1]])})
    assert [entry.name for entry in path.parent.iterdir()] == ["shard-0"]
    assert len(list(path.glob("*.sst"))) == 1


def test_a_reader_changes_nothing_and_needs_no_lock(path):
    fill(path, {0: encoded([[1]])})
    before = {entry.name: entry.read_bytes() for entry in path.iterdir()}
    with Shard(path, read_only=False), Shard(path) as one, Shard(path) as other:
        np.testing.assert_array_equal(one.records(0).words, other.records(0).words)
    shutil.rmtree(path)
    path.mkdir()
    for name, data in before.items():
        (path / name).write_bytes(data)
    with Shard(path) as shard:
        assert shard.records(0).records.shape == (1, 5)
    assert {entry.name: entry.read_bytes() for entry in path.iterdir()} == before


def test_a_shard_is_found_by_a_relative_path(path, monkeypatch):
    fill(path, {0: encoded([[1]])})
    monkeypatch.chdir(path.parent)
    with Shard(type(path)("shard-0")) as shard:
        assert shard.records(0).records.shape == (1, 5)


@pytest.mark.parametrize("what", ["none", "empty", "file"])
def test_where_no_shard_is_that_is_said(path, what):
    if what == "empty":
        path.mkdir()
    elif what == "file":
        path.write_text("")
    with pytest.raises(CorruptBlock, match=r"shard-0: RocksDB cannot open the shard: "):
        Shard(path)
    assert not list(path.glob("*"))


def test_a_flipped_byte_of_a_value_is_refused_by_name(path):
    fill(path, {0: encoded([range(0, 1000, 2)])})
    (file,) = path.glob("*.sst")
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)
    with Shard(path) as shard, pytest.raises(CorruptBlock, match=r"shard-0: cannot read 'adj' .*: Corruption"):
        shard.records(0)


def test_a_record_of_no_whole_words_is_refused_by_name(path):
    file = SortedFile(path.parent / "adj.sst")
    file.put(struct.pack(">HQHI", 0, 16, 0, 0), b"1234567")
    file.finish()
    with Shard(path, read_only=False) as shard:
        shard.ingest("adj", [file.path])
    with Shard(path) as shard, pytest.raises(CorruptBlock, match="block 16 of edge type 0 has 7 bytes"):
        shard.records(0)


@settings(max_examples=40, deadline=None)
@given(
    body=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20),
    count=st.integers(0, 2**31),
    first=st.integers(0, 2**57),
    data=st.data(),
)
def test_a_sealed_piece_of_ids_opens_and_any_flipped_bit_is_found(body, count, first, data):
    piece = seal_piece(np.array(body, np.int64), count, first)
    assert piece[:8] == b"GSID" + struct.pack("<I", 1)
    assert struct.unpack("<QQQ", piece[8:32]) == (first, count, crc32c(piece[:24] + piece[32:]))
    found, words = open_piece(piece, "here")
    assert (found, words.tolist()) == (count, body)
    damaged = bytearray(piece)
    damaged[data.draw(st.integers(0, len(piece) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for wrong in (bytes(damaged), piece[:-1], piece[:-8] if body else piece[:24], b""):
        with pytest.raises(CorruptBlock, match=r"^here: damaged; restore the store from its source$"):
            open_piece(wrong, "here")


def test_records_are_written_as_they_lie_in_their_words(tmp_path):
    values = encoded([[3], [4, 5]])
    file = SortedFile(tmp_path / "adj.sst")
    file.put_records(7, Encoded(values.words, values.records))
    assert file.finish()
    assert values.words.tobytes() in file.path.read_bytes()
