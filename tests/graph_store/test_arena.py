"""Arena files: whole or not at all, and damage is found."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.arena import ArenaFile, ArenaWriter
from graph_store.errors import CorruptBlock

SECTIONS = {
    "words": np.arange(1000, dtype=np.uint64) * np.uint64(2**60 + 1),
    "empty": np.empty(0, np.int64),
    "bytes": np.arange(7, dtype=np.uint8),
    "halves": np.linspace(0, 1, 5, dtype=np.float32),
}


@pytest.fixture
def path(tmp_path):
    with ArenaWriter(tmp_path / "arena") as writer:
        for name, section in SECTIONS.items():
            writer.add(name, section)
    return tmp_path / "arena"


def test_sections_come_back_with_their_types_at_pages(path):
    file = ArenaFile(path)
    assert list(file.sections) == list(SECTIONS)
    for name, section in file.sections.items():
        assert section.dtype == SECTIONS[name].dtype
        np.testing.assert_array_equal(section, SECTIONS[name])
        assert section.size == 0 or section.ctypes.data % 4096 == 0
        assert not section.flags.writeable
    assert file.num_bytes == path.stat().st_size
    assert file.damaged_sections() == []
    assert [entry.name for entry in path.parent.iterdir()] == ["arena"]


def test_a_section_may_be_appended_in_pieces(tmp_path):
    with ArenaWriter(tmp_path / "pieces") as writer:
        writer.begin("values", np.int64)
        for piece in np.split(np.arange(10), [0, 3, 3, 9]):
            writer.append(piece)
    file = ArenaFile(tmp_path / "pieces")
    assert file.sections["values"].tolist() == list(range(10))
    assert file.damaged_sections() == []


def test_an_exception_leaves_no_file_and_what_was_there_before(path):
    def interrupted():
        with ArenaWriter(path) as writer:
            writer.add("words", np.zeros(5000))
            raise RuntimeError("interrupted")

    before = path.read_bytes()
    with pytest.raises(RuntimeError, match="interrupted"):
        interrupted()
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["arena"]


def test_a_reader_keeps_what_it_mapped_when_the_file_is_replaced(path):
    words = ArenaFile(path).sections["words"]
    with ArenaWriter(path) as writer:
        writer.add("words", np.zeros(1000, np.uint64))
    np.testing.assert_array_equal(words, SECTIONS["words"])
    assert not ArenaFile(path).sections["words"].any()


@settings(max_examples=30, deadline=None)
@given(fraction=st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_refused_by_name(tmp_path_factory, fraction):
    path = tmp_path_factory.mktemp("cut") / "arena"
    with ArenaWriter(path) as writer:
        writer.add("words", SECTIONS["words"])
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * fraction)])
    with pytest.raises(CorruptBlock, match="arena"):
        ArenaFile(path)


def test_a_flipped_byte_of_the_table_or_the_tail_is_refused(path):
    data = path.read_bytes()
    table = data.rindex(b'{"words"')
    for at in range(table, len(data)):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1 :])
        with pytest.raises(CorruptBlock, match="delete it, it is rebuilt"):
            ArenaFile(path)


def test_an_empty_file_and_one_of_other_content_are_refused(tmp_path):
    for content in (b"", b"GSARENA1", bytes(24), b"x" * 10_000, b"\xff" * 16 + b"GSARENA1"):
        (tmp_path / "arena").write_bytes(content)
        with pytest.raises(CorruptBlock, match="arena"):
            ArenaFile(tmp_path / "arena")


def test_what_was_appended_after_the_tail_is_refused(path):
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(CorruptBlock, match="delete it, it is rebuilt"):
        ArenaFile(path)


def test_two_writers_of_a_file_leave_the_last_one_whole(path):
    def write(value):
        with ArenaWriter(path) as writer:
            for _ in range(20):
                writer.add("words", np.full(1000, value))

    threads = [threading.Thread(target=write, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    file = ArenaFile(path)
    assert file.damaged_sections() == []
    assert np.unique(file.sections["words"]).size == 1
    assert [entry.name for entry in path.parent.iterdir()] == ["arena"]


@pytest.mark.parametrize("name", ["words", "bytes", "halves"])
def test_a_flipped_byte_of_a_section_is_found_in_that_section(path, name):
    data = bytearray(path.read_bytes())
    at = data.index(SECTIONS[name].tobytes())
    data[at + SECTIONS[name].nbytes - 1] ^= 1
    path.write_bytes(data)
    assert ArenaFile(path).damaged_sections() == [name]
