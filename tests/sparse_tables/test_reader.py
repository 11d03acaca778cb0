"""Tables in shared memory, read by another process."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from sparse_tables import ForeignId, LocalTable, SegmentNotFound, SharedAllocator, TableConfig, TableReader

READER = """
import json, sys, numpy as np
from sparse_tables import TableReader
reader = TableReader(sys.argv[1], "user")
for line in sys.stdin:
    ids = json.loads(line)
    reader.refresh()
    print(json.dumps(reader.pull(ids).tolist()), flush=True)
"""


@pytest.fixture
def allocator():
    allocator = SharedAllocator()
    yield allocator
    allocator.close()


def test_another_process_reads_what_the_owner_writes_through_growth_too(allocator):
    table = LocalTable(TableConfig("user", 3, optimizer="adam", num_shards=4), allocator=allocator)
    with subprocess.Popen(
        [sys.executable, "-c", READER, str(allocator.folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as reader:

        def ask(ids):
            reader.stdin.write(json.dumps(ids) + "\n")
            reader.stdin.flush()
            return np.array(json.loads(reader.stdout.readline()), np.float32)

        np.testing.assert_array_equal(ask([1, 2]), table.pull([1, 2], insert=False))
        table.push([1, 2, 3], np.ones((3, 3)))
        np.testing.assert_array_equal(ask([1, 2, 3, 4]), table.pull([1, 2, 3, 4], insert=False))
        table.push(np.arange(10_000), np.ones((10_000, 3)))
        assert table.shard(0).generation > 0
        some = list(range(0, 10_000, 97))
        np.testing.assert_array_equal(ask(some), table.pull(some))
        reader.stdin.close()


def test_growth_never_moves_what_a_reader_holds(allocator):
    table = LocalTable(TableConfig("user", 3, num_shards=1, learning_rate=1.0), allocator=allocator)
    before = table.pull([5])
    reader = TableReader(allocator.folder, "user")
    table.pull(np.arange(10_000))
    table.push([5], np.ones((1, 3)))
    # Not refreshed, the reader goes on reading the segment it maps, as it was when the owner left it.
    np.testing.assert_array_equal(reader.pull([5]), before)
    reader.refresh()
    np.testing.assert_array_equal(reader.pull([5]), before - 1)


def test_segments_lose_their_names_when_replaced_and_all_go_at_the_end(allocator):
    table = LocalTable(TableConfig("user", 3, num_shards=4), allocator=allocator)
    table.pull(np.arange(10_000))
    assert len(list(allocator.folder.glob("segment-*"))) == 4
    allocator.close()
    assert not os.path.exists(allocator.folder)


def test_a_process_that_ends_takes_its_folder_along():
    program = """
from sparse_tables import LocalTable, SharedAllocator, TableConfig
allocator = SharedAllocator()
table = LocalTable(TableConfig("user", 3), allocator=allocator)
print(allocator.folder)
"""
    folder = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert folder.strip()
    assert not os.path.exists(folder.strip())


def test_a_table_that_is_not_shared_is_said_so(allocator, tmp_path):
    with pytest.raises(SegmentNotFound, match="'user'"):
        TableReader(allocator.folder, "user")
    with pytest.raises(SegmentNotFound):
        TableReader(tmp_path / "absent", "user")


def test_an_id_of_a_shard_not_shared_is_named(allocator):
    LocalTable(TableConfig("user", 3, num_shards=4), allocator=allocator, shards=[0, 1])
    with pytest.raises(ForeignId, match="id 6 "):
        TableReader(allocator.folder, "user").pull([1, 6])


def test_a_loaded_table_can_be_shared(allocator, tmp_path):
    saved = LocalTable(TableConfig("user", 3, num_shards=4))
    saved.push(np.arange(1000), np.ones((1000, 3)))
    saved.save(tmp_path)
    loaded = LocalTable.load(tmp_path, allocator=allocator)
    np.testing.assert_array_equal(
        TableReader(allocator.folder, "user").pull(np.arange(1000)), loaded.pull(np.arange(1000))
    )


def test_shared_and_private_tables_hold_the_same(allocator):
    config = TableConfig("user", 7, optimizer="adagrad")
    shared, private = LocalTable(config, allocator=allocator), LocalTable(config)
    for table in (shared, private):
        table.push(np.arange(5000) % 700, np.ones((5000, 7)))
    np.testing.assert_array_equal(shared.pull(np.arange(700)), private.pull(np.arange(700)))


def test_a_reader_that_comes_while_the_owner_grows_finds_every_segment(allocator, monkeypatch):
    table = LocalTable(TableConfig("user", 3, num_shards=2), allocator=allocator, threads=1)
    rows = table.pull(np.arange(20))
    found = []
    allocate = allocator.allocate

    def read_then_allocate(num_bytes):
        # Between any two segments that the owner makes, another process may start to read.
        found.append(TableReader(allocator.folder, "user").pull(np.arange(20)))
        return allocate(num_bytes)

    monkeypatch.setattr(allocator, "allocate", read_then_allocate)
    table.pull(np.arange(10_000))
    assert len(found) > 8
    for each in found:
        np.testing.assert_array_equal(each, rows)
    assert len(list(allocator.folder.glob("segment-*"))) == 2


def test_growth_that_fails_leaves_the_table_and_its_readers_whole(allocator, monkeypatch):
    table = LocalTable(TableConfig("user", 3, num_shards=4, learning_rate=1.0), allocator=allocator, threads=2)
    rows = table.pull(np.arange(100))
    allocate = allocator.allocate

    def full_after_a_while(num_bytes):
        if num_bytes > 20_000:
            raise OSError(28, "No space left on device")
        return allocate(num_bytes)

    monkeypatch.setattr(allocator, "allocate", full_after_a_while)
    with pytest.raises(OSError, match="No space left"):
        table.push(np.arange(50_000), np.ones((50_000, 3)))
    np.testing.assert_array_equal(table.pull(np.arange(100)), rows)
    np.testing.assert_array_equal(TableReader(allocator.folder, "user").pull(np.arange(100)), rows)
    monkeypatch.undo()
    table.push(np.arange(50_000), np.ones((50_000, 3)))
    np.testing.assert_array_equal(table.pull(np.arange(100)), rows - 1)
    np.testing.assert_array_equal(TableReader(allocator.folder, "user").pull(np.arange(100)), rows - 1)


def test_a_segment_replaced_between_a_readers_two_looks_is_looked_up_again(allocator, monkeypatch):
    from sparse_tables import reader as module

    table = LocalTable(TableConfig("user", 3, num_shards=1), allocator=allocator)
    read, grown = module.read_published, []

    def read_then_grow(folder, name):
        published = read(folder, name)
        if len(grown) < 3:
            grown.append(table.pull(np.arange(100 * 4 ** len(grown))))
        return published

    monkeypatch.setattr(module, "read_published", read_then_grow)
    reader = TableReader(allocator.folder, "user")
    np.testing.assert_array_equal(reader.pull(np.arange(1600)), table.pull(np.arange(1600)))


def test_a_segment_that_is_gone_is_named(allocator):
    table = LocalTable(TableConfig("user", 3, num_shards=1), allocator=allocator)
    gone = allocator.folder / allocator.segment(table.shard(0).memory)
    gone.unlink()
    with pytest.raises(SegmentNotFound, match=f"'user': segment {gone} is gone"):
        TableReader(allocator.folder, "user")
