"""The commit log: whole batches only, whatever end a process or a disk came to."""

import os
import struct
import subprocess
import sys
import time
from zlib import crc32

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from graph_store import commit_log
from graph_store.commit_log import (
    CommitLog,
    faults_of_log,
    log_folder,
    newest_version,
    read_batches,
    read_head,
    segment_file,
    segments,
)
from graph_store.errors import CorruptBlock, StoreBusy
from graph_store.writer_lock import WriterLock

PAYLOADS = [b"first", b"", b"x" * 100_000, b"fourth"]


@pytest.fixture
def store(tmp_path):
    """A folder with a log of four batches, versions 2 to 5."""
    log = CommitLog(tmp_path, 1)
    for payload in PAYLOADS:
        log.append(payload)
    log.close()
    return tmp_path


def batches(store, after=1, until=None):
    return list(read_batches(store, after, newest_version(store, after) if until is None else until))


def test_batches_come_back_in_order(store):
    assert batches(store) == list(enumerate(PAYLOADS, 2))
    assert batches(store, 3) == list(enumerate(PAYLOADS[2:], 4))
    assert batches(store, 2, 4) == list(enumerate(PAYLOADS[1:3], 3))
    assert batches(store, 5) == []
    assert (newest_version(store, 1), newest_version(store, 9)) == (5, 9)
    assert faults_of_log(store, 1) == []


def test_a_store_without_batches_is_at_the_version_of_its_base(tmp_path):
    assert newest_version(tmp_path, 7) == 7
    assert batches(tmp_path, 7) == []
    log = CommitLog(tmp_path, 7)
    assert log.version == 7
    assert newest_version(tmp_path, 7) == 7
    assert log.append(b"next") == 8
    log.close()
    assert faults_of_log(tmp_path, 7) == []


def test_the_bytes_are_as_described(store):
    """Magic, length, version, crc32 of the rest and payload; the head is magic, crc32, version, file, end."""
    data = segment_file(store, 2).read_bytes()
    at = 0
    for version, payload in enumerate(PAYLOADS, 2):
        magic, length, said, crc = struct.unpack_from("<4sQQI", data, at)
        assert (magic, length, said) == (b"GSLR", len(payload), version)
        assert data[at + 24 : at + 24 + length] == payload
        assert crc == crc32(data[at : at + 20] + payload)
        at += 24 + length
    assert at == len(data)
    magic, crc, version, first, end = struct.unpack("<4sIQQQ", (log_folder(store) / "head").read_bytes())
    assert (magic, version, first, end) == (b"GSLH", 5, 2, len(data))
    assert crc == crc32(struct.pack("<QQQ", version, first, end))


@pytest.mark.parametrize("left", [1, 4, 23, 24, 25, 28])
def test_a_record_that_was_being_written_is_cut_off(store, left):
    path = segment_file(store, 2)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[-30:][:left])
    assert batches(store) == list(enumerate(PAYLOADS, 2))
    assert faults_of_log(store, 1) == []
    log = CommitLog(store, 1)
    assert path.read_bytes() == whole
    assert log.append(b"sixth") == 6
    log.close()
    assert batches(store) == list(enumerate([*PAYLOADS, b"sixth"], 2))


def stale(store, version, end):
    rest = struct.pack("<QQQ", version, 2, end)
    (log_folder(store) / "head").write_bytes(b"GSLH" + struct.pack("<I", crc32(rest)) + rest)


def test_whole_records_behind_the_head_count(store):
    """The head is not synced with each batch: after a loss of power it may be an older one."""
    stale(store, 3, 24 + 5 + 24)
    assert read_head(store).version == 3
    assert newest_version(store, 1) == 5
    assert batches(store) == list(enumerate(PAYLOADS, 2))
    assert faults_of_log(store, 1) == []
    log = CommitLog(store, 1)
    assert log.version == 5
    log.close()
    assert read_head(store).version == 5


def test_what_a_living_writer_has_not_acknowledged_is_not_read(store):
    stale(store, 3, 24 + 5 + 24)
    lock = WriterLock(store)
    assert newest_version(store, 1) == 3
    lock.release()
    assert newest_version(store, 1) == 5


def test_a_missing_head_is_found_again_and_a_fault(store):
    (log_folder(store) / "head").unlink()
    assert newest_version(store, 1) == 5
    assert batches(store) == list(enumerate(PAYLOADS, 2))
    (fault,) = faults_of_log(store, 1)
    assert "head: missing" in fault
    CommitLog(store, 1).close()
    assert faults_of_log(store, 1) == []


@pytest.mark.parametrize("at", range(32))
def test_a_damaged_head_is_an_error(store, at):
    path = log_folder(store) / "head"
    data = bytearray(path.read_bytes())
    data[at] ^= 1
    path.write_bytes(data)
    for call in (lambda: newest_version(store, 1), lambda: CommitLog(store, 1)):
        with pytest.raises(CorruptBlock, match=r"head: damaged; `gossamer repair`"):
            call()
    (fault,) = faults_of_log(store, 1)
    assert "head: damaged" in fault


@pytest.mark.parametrize("at", [0, 3, 4, 11, 12, 19, 20, 23, 24, 28, 29, 40, 60, 99_000])
def test_a_damaged_record_is_an_error_and_those_before_it_are_read(store, at):
    path = segment_file(store, 2)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x40
    path.write_bytes(data)
    broken = 2 if at < 29 else 3 if at < 53 else 4
    assert batches(store, 1, broken - 1) == list(enumerate(PAYLOADS, 2))[: broken - 2]
    with pytest.raises(CorruptBlock, match=f"record at byte .* damaged, versions from {broken} on"):
        batches(store)
    (fault,) = faults_of_log(store, 1)
    assert str(path) in fault
    assert f"versions from {broken} on" in fault
    before = path.read_bytes()
    CommitLog(store, 1).close()
    assert path.read_bytes() == before


@pytest.mark.parametrize("size", [0, 10, 60, 100_000])
def test_a_truncated_log_is_an_error_and_is_not_filled_up(store, size):
    path = segment_file(store, 2)
    path.write_bytes(path.read_bytes()[:size])
    for call in (lambda: batches(store), lambda: CommitLog(store, 1)):
        with pytest.raises(CorruptBlock, match="version"):
            call()
    assert path.stat().st_size == size
    assert len(faults_of_log(store, 1)) == 1


def test_a_missing_log_file_is_an_error_and_is_not_made_again(store):
    segment_file(store, 2).unlink()
    for call in (lambda: batches(store), lambda: CommitLog(store, 1)):
        with pytest.raises(CorruptBlock, match="5 was acknowledged"):
            call()
    assert segments(store) == []
    assert len(faults_of_log(store, 1)) == 1


def test_a_log_without_the_versions_that_follow_on_the_base_is_an_error(store):
    data = segment_file(store, 2).read_bytes()
    segment_file(store, 2).write_bytes(data[29:])
    with pytest.raises(CorruptBlock, match="version 3 found where 2 is due"):
        batches(store)


def test_files_begin_with_folds_and_go_when_nobody_needs_them(tmp_path):
    log = CommitLog(tmp_path, 1)
    log.append(b"two")
    log.rotate()
    log.rotate()  # nothing was written since
    log.append(b"three")
    log.append(b"four")
    log.rotate()
    assert segments(tmp_path) == [2, 3, 5]
    assert batches(tmp_path) == [(2, b"two"), (3, b"three"), (4, b"four")]
    log.drop(1)
    assert segments(tmp_path) == [2, 3, 5]
    log.drop(3)
    assert segments(tmp_path) == [3, 5]
    log.drop(4)
    assert segments(tmp_path) == [5]
    assert log.append(b"five") == 5
    log.close()
    log = CommitLog(tmp_path, 4)
    assert log.version == 5
    log.close()
    assert batches(tmp_path, 4) == [(5, b"five")]


@pytest.mark.parametrize("written", [0, 1])
def test_a_process_that_died_while_it_began_a_file_loses_nothing(tmp_path, written):
    log = CommitLog(tmp_path, 1)
    log.append(b"two")
    head = (log_folder(tmp_path) / "head").read_bytes()
    log.rotate()
    if written:
        log.append(b"three")
    log.close()
    (log_folder(tmp_path) / "head").write_bytes(head)
    assert newest_version(tmp_path, 1) == 2 + written
    log = CommitLog(tmp_path, 1)
    assert log.version == 2 + written
    assert log.append(b"next") == 3 + written
    log.close()
    expected = [b"two", b"three", b"next"] if written else [b"two", b"next"]
    assert batches(tmp_path) == list(enumerate(expected, 2))


@pytest.mark.parametrize("call", ["fdatasync", "_write_head"])
def test_a_batch_that_cannot_be_written_leaves_nothing_behind(store, call, monkeypatch):
    log = CommitLog(store, 1)
    before = segment_file(store, 2).read_bytes(), read_head(store)
    failing = OSError(28, "No space left on device")

    def fail(*args):
        raise failing

    with monkeypatch.context() as patch:
        patch.setattr(os if call == "fdatasync" else commit_log, call, fail)
        with pytest.raises(OSError, match="No space"):
            log.append(b"lost")
        assert log.version == 5
    assert (segment_file(store, 2).read_bytes(), read_head(store)) == before
    assert log.append(b"sixth") == 6
    log.close()
    assert batches(store) == list(enumerate([*PAYLOADS, b"sixth"], 2))


def test_a_log_on_a_full_disk_goes_on_when_there_is_room_again(tmp_path):
    """The limit of a file's size stands for a full disk: the write stops in the middle of a record."""
    script = f"""
import resource, signal
from pathlib import Path
from graph_store.commit_log import CommitLog
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
log = CommitLog(Path({str(tmp_path)!r}), 1)
log.append(b"a" * 5000)
resource.setrlimit(resource.RLIMIT_FSIZE, (8000, resource.RLIM_INFINITY))
try:
    log.append(b"b" * 5000)
except OSError as error:
    print(error.strerror)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(log.append(b"c" * 5000))
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == "File too large\n3\n"
    assert batches(tmp_path) == [(2, b"a" * 5000), (3, b"c" * 5000)]


@settings(deadline=None, max_examples=60)
@given(
    sizes=st.lists(st.integers(0, 60), min_size=1, max_size=6),
    rotations=st.sets(st.integers(0, 5)),
    cut=st.integers(0, 200),
    head_of=st.integers(0, 6),
)
def test_any_cut_of_the_last_file_leaves_the_whole_batches_before_it(tmp_path_factory, sizes, rotations, cut, head_of):
    """After a loss of power: the last file ends anywhere behind the head, the head is any earlier one."""
    store = tmp_path_factory.mktemp("log")
    log, heads = CommitLog(store, 1), []
    for number, size in enumerate(sizes):
        heads.append((log_folder(store) / "head").read_bytes())
        log.append(bytes([number]) * size)
        if number in rotations:
            log.rotate()
    heads.append((log_folder(store) / "head").read_bytes())
    log.close()
    (log_folder(store) / "head").write_bytes(heads[min(head_of, len(sizes))])
    head = read_head(store)
    path = segment_file(store, segments(store)[-1])
    least = head.end if head.segment == segments(store)[-1] else 0
    path.write_bytes(path.read_bytes()[: max(least, path.stat().st_size - cut)])
    version = newest_version(store, 1)
    assert version >= head.version
    expected = [(number + 2, bytes([number]) * size) for number, size in enumerate(sizes)]
    assert batches(store) == expected[: version - 1]
    log = CommitLog(store, 1)
    assert log.version == version
    assert log.append(b"more") == version + 1
    log.close()
    assert batches(store) == [*expected[: version - 1], (version + 1, b"more")]
    assert faults_of_log(store, 1) == []


def test_a_second_writer_is_told_who_holds_the_store(tmp_path):
    script = f"""
import sys
from pathlib import Path
from graph_store.writer_lock import WriterLock
lock = WriterLock(Path({str(tmp_path)!r}))
print("held", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        since = time.strftime("%Y-%m-%d")
        with pytest.raises(StoreBusy, match=rf"process {holder.pid} on \S+ since {since} .* is writing to it; wait"):
            WriterLock(tmp_path)
        holder.kill()
        holder.wait()
    WriterLock(tmp_path).release()
