"""Ingest that fails: a malformed row, a kill, a full disk, a race; the store is there whole, or as it was."""

import contextlib
import errno
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import graph_store
from graph_store import BadInput, GraphStoreError, Schema
from graph_store.memory_budget import Budget
from tests.graph_store.stores import CLICKS, check, leftovers, many_rows, snapshot

INGEST, OUTPUT = sys.modules["graph_store.ingest"], sys.modules["graph_store.store_output"]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def little_memory(monkeypatch):
    """Let a budget of one byte mean that everything waits on disk and comes in pieces."""
    share_out = Budget.of
    tiny = Budget(waiting=0, ids=1, reading=1, work=100_000)
    monkeypatch.setattr(INGEST, "MIN_MEMORY", 0)
    monkeypatch.setattr(Budget, "of", lambda memory, taken: tiny if memory == 1 else share_out(memory, taken))


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("last", ["3,x", "3", "3,4.5", "3,", "9223372036854775808,1"])
def test_a_malformed_row_leaves_the_target_as_it_was(tmp_path, make_store, before, last):
    path = tmp_path / "clicks.store"
    if before:
        make_store([(1, 2, None, None)], path=path, num_shards=1)
        old = snapshot(path)
    (tmp_path / "edges.csv").write_text("user,item\n1,2\n" + "5,6\n" * 1000 + last + "\n")
    with pytest.raises(BadInput, match=r"edges\.csv: line 1003"):
        graph_store.ingest(Schema.from_edges(tmp_path / "edges.csv", CLICKS), path, overwrite=True)
    assert leftovers(path) == []
    if before:
        assert snapshot(path) == old
    else:
        assert not path.exists()


def test_what_is_there_is_replaced_only_when_asked(tmp_path, make_store):
    path = tmp_path / "clicks.store"
    make_store([(1, 2, None, None)], path=path, num_shards=1)
    old = snapshot(path)
    with pytest.raises(BadInput, match="exists already; choose another path, remove it, or pass --overwrite"):
        make_store([(3, 4, None, None)], path=path)
    assert snapshot(path) == old
    with graph_store.open(path) as store:
        adjacency = store.adjacency(CLICKS)
        make_store([(3, 4, None, None), (3, 5, None, None)], path=path, overwrite=True)
        assert store.uuid != graph_store.open(path).uuid
        # Who had the old one open still reads it.
        assert adjacency.num_edges == 1
        assert store.neighbors([1]).ids.tolist() == [2]
    check(path, [(3, 4, None, None), (3, 5, None, None)])
    assert leftovers(path) == []


@pytest.mark.parametrize("kind", ["file", "folder", "manifest"])
def test_what_is_no_store_is_never_overwritten(tmp_path, make_store, kind):
    path = tmp_path / "mine"
    if kind == "file":
        path.write_text("precious")
    else:
        path.mkdir()
        (path / "thesis.txt").write_text("precious")
    if kind == "manifest":  # a web application has one, and so has a table of embeddings
        (path / "manifest.json").write_text('{"name": "mine"}')
    with pytest.raises(BadInput, match="is no store, so it is not overwritten"):
        make_store([(1, 2, None, None)], path=path, overwrite=True)
    assert (path if kind == "file" else path / "thesis.txt").read_text() == "precious"


def test_an_empty_folder_may_be_overwritten_and_parents_are_made(tmp_path, make_store):
    (tmp_path / "empty").mkdir()
    check(make_store([(1, 2, None, None)], path=tmp_path / "empty", overwrite=True), [(1, 2, None, None)])
    check(make_store([(1, 2, None, None)], path=tmp_path / "a" / "b" / "c"), [(1, 2, None, None)])


# Each kills the process when the named function is entered for the n-th time.
KILLED_AT = {
    "reading": ("graph_store.intake.Intake._take", 1),
    "ids": ("graph_store.ingest_run.IngestRun._merge_ids", 1),
    "writing": ("graph_store.shard_writer.ShardWriter.write", 2),
    "sealing": ("graph_store.store_output.StoreOutput._seal_shard", 2),
    "manifest": ("graph_store.manifest.os.replace", 5),
    "moving": ("graph_store.workplace._move", 1),
    "cleaning": ("graph_store.workplace.shutil.rmtree", 1),
}
KILLED = """
import errno, importlib, os, signal, sys
import graph_store
place, times, source, target = sys.argv[1:]
module, _, name = place.rpartition(".")
holder = sys.modules.get(module)
if holder is None:
    parent, _, attribute = module.rpartition(".")
    holder = getattr(sys.modules[parent], attribute)
original, left = getattr(holder, name), int(times)
def entered(*args, **kwargs):
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*args, **kwargs)
setattr(holder, name, entered)
if place == "graph_store.workplace.os.rename":
    def exchange(one, other):
        raise OSError(errno.EINVAL, "this file system exchanges nothing")
    sys.modules["graph_store.workplace"]._exchange = exchange
schema = graph_store.Schema.from_edges(source, "user:clicks:item", reverse=True)
graph_store.ingest(schema, target, num_shards=2, overwrite=True, threads=1)
"""


def start(program, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, arguments)], env=environment, stderr=subprocess.PIPE
    )


def kill(place, times, source, path):
    process = start(KILLED, place, times, source, path)
    _, err = process.communicate(timeout=120)
    assert process.returncode == -signal.SIGKILL, err.decode()


@pytest.mark.parametrize(
    ("moment", "before"),
    [("ids", False), ("manifest", False), ("moving", False), ("moving", True), ("cleaning", True)]
    + [pytest.param(moment, True, marks=pytest.mark.long) for moment in ("reading", "writing", "sealing")],
)
def test_a_killed_ingest_leaves_the_target_as_it_was_or_new(tmp_path, make_store, write_rows, moment, before):
    path, old, new = tmp_path / "clicks.store", [(1, 2, None, None)], [(3, 4, None, None), (5, 6, None, None)]
    if before:
        make_store(old, path=path, num_shards=1, reverse=True)
        bytes_before = snapshot(path)
    kill(*KILLED_AT[moment], write_rows(new), path)
    if moment == "cleaning":
        check(path, new, reverse=True)
    elif before:
        assert snapshot(path) == bytes_before
        check(path, old, reverse=True)
    else:
        assert not path.exists()
        with pytest.raises(graph_store.StoreNotFound):
            graph_store.open(path)
    assert leftovers(path) != []
    make_store(new, path=path, overwrite=True, num_shards=1, reverse=True)
    check(path, new, reverse=True)
    assert leftovers(path) == []


def test_where_folders_cannot_be_exchanged_a_killed_replacement_is_undone_by_the_next_ingest(
    tmp_path, make_store, write_rows
):
    path, old = tmp_path / "clicks.store", [(1, 2, None, None)]
    make_store(old, path=path, num_shards=1)
    kill("graph_store.workplace.os.rename", 2, write_rows([(3, 4, None, None)]), path)
    with pytest.raises(BadInput, match="exists already"):
        make_store([(5, 6, None, None)], path=path)
    check(path, old)
    assert leftovers(path) == []


@pytest.mark.long
@pytest.mark.parametrize("seconds", [0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4])
def test_an_ingest_killed_at_any_time_leaves_the_target_absent_or_whole(tmp_path, make_store, write_rows, seconds):
    path, rows = tmp_path / "clicks.store", many_rows(30_000, weighted=False)
    process = start(KILLED, "graph_store.intake.Intake._take", 10**9, write_rows(rows), path)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(seconds)
    process.kill()
    process.communicate()
    if path.exists():
        check(path, rows, reverse=True)
    make_store(rows[:9], path=path, overwrite=True, num_shards=1)
    assert leftovers(path) == []
    check(path, rows[:9])


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 3 MiB, or a skip where none can be mounted."""
    folder = tmp_path / "small"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)], capture_output=True)
    if done.returncode:
        pytest.skip("no small file system can be mounted here")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


@pytest.mark.parametrize(("memory", "num_shards"), [(1, 2), (2 << 30, 2), (2 << 30, 16)])
def test_a_full_disk_is_one_clear_error_that_leaves_nothing(make_store, small_disk, little_memory, memory, num_shards):
    random = np.random.default_rng(0)
    ends = random.integers(-(2**63), 2**63, (60_000, 2)).tolist()
    rows = [(src, dst, None, None) for src, dst in ends]
    with pytest.raises(GraphStoreError, match=r"clicks\.store: no space left on the disk; nothing was stored"):
        make_store(rows, path=small_disk / "clicks.store", memory_bytes=memory, num_shards=num_shards)
    assert list(small_disk.iterdir()) == []


@pytest.mark.parametrize("kibibytes", [1, 20, 60, 200, 600, 1000, 1500, 2000, 2500, 2900])
def test_a_disk_that_fills_at_any_point_is_the_same_clear_error(make_store, small_disk, kibibytes):
    (small_disk / "other").write_bytes(bytes((3 * 1024 - kibibytes) * 1024))
    rows = [(i * 2**40, i * 3**20, float(i), i) for i in range(40_000)]
    with pytest.raises(GraphStoreError, match="no space left on the disk; nothing was stored"):
        make_store(rows, path=small_disk / "clicks.store", num_shards=2, reverse=True)
    assert [entry.name for entry in small_disk.iterdir()] == ["other"]


@pytest.mark.parametrize("memory", [1, 2 << 30])
def test_a_file_size_limit_is_one_clear_error(tmp_path, make_store, little_memory, memory):
    rows = [(i * 2**40, i * 3**20, None, None) for i in range(40_000)]
    schema_first = make_store(rows[:5], num_shards=1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = tmp_path / "clicks.store"
    schema = Schema.from_edges(_source(tmp_path, rows), CLICKS)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100 << 10, limits[1]))
    try:
        with pytest.raises(GraphStoreError, match=r"clicks\.store: "):
            graph_store.ingest(schema, path, num_shards=1, memory_bytes=memory)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert not path.exists()
    assert leftovers(path) == []
    assert graph_store.verify(schema_first) == []


def _source(folder, rows):
    path = folder / "edges.csv"
    path.write_text("".join(f"{row[0]},{row[1]}\n" for row in rows))
    return path


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize(
    ("module", "place"),
    [
        ("edge_file", "write_part"),
        ("store_output", "write_node_file"),
        ("store_output", "sealed_files"),
        ("store_output", "fsync_folder"),
    ],
)
def test_an_exhausted_disk_or_quota_is_told_wherever_it_shows(tmp_path, make_store, monkeypatch, module, place, number):
    def full(*args, **kwargs):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(sys.modules[f"graph_store.{module}"], place, full)
    with pytest.raises(GraphStoreError, match="no space left on the disk"):
        make_store([(1, 2, None, None)], path=tmp_path / "store", num_shards=1)
    assert list(tmp_path.iterdir()) == []


def test_a_sorted_file_that_cannot_be_finished_is_an_error(tmp_path, make_store, monkeypatch):
    def fails(self):
        if "adj" in self.path.name:
            raise Exception("IO error: No space left on device")  # as RocksDB does
        return finish(self)

    finish = OUTPUT.SortedFile.finish
    monkeypatch.setattr(OUTPUT.SortedFile, "finish", fails)
    with pytest.raises(GraphStoreError, match="no space left on the disk"):
        make_store([(1, 2, None, None)], path=tmp_path / "store", num_shards=1)
    assert list(tmp_path.iterdir()) == []


def test_an_interrupt_leaves_nothing(tmp_path, make_store, monkeypatch):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr(OUTPUT, "write_node_file", interrupt)
    with pytest.raises(KeyboardInterrupt):
        make_store([(1, 2, None, None)], path=tmp_path / "store")
    assert list(tmp_path.iterdir()) == []


def held(monkeypatch):
    """Make the first ingest wait before its manifest until told to go on."""
    waiting, go_on = threading.Event(), threading.Event()
    seal = OUTPUT.StoreOutput._seal_shard

    def slow(*args):
        if not waiting.is_set():
            waiting.set()
            assert go_on.wait(60)
        return seal(*args)

    monkeypatch.setattr(OUTPUT.StoreOutput, "_seal_shard", slow)
    return waiting, go_on


@pytest.mark.parametrize("overwrite", [False, True])
def test_of_two_ingests_into_one_place_the_last_replaces_whole_or_is_refused(
    tmp_path, make_store, monkeypatch, overwrite
):
    path, first, second = tmp_path / "clicks.store", [(1, 2, None, None)], [(3, 4, None, None)]
    waiting, go_on = held(monkeypatch)
    errors = []

    def run():
        try:
            make_store(first, path=path, num_shards=1, overwrite=overwrite)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert waiting.wait(60)
        make_store(second, path=path, num_shards=1, overwrite=overwrite)
        check(path, second)
    finally:
        go_on.set()
        thread.join(60)
    if overwrite:
        assert errors == []
        check(path, first)
    else:
        assert [type(error) for error in errors] == [BadInput]
        assert "exists already" in str(errors[0])
        check(path, second)
    assert leftovers(path) == []


RACER = """
import sys
import graph_store
source, target, overwrite = sys.argv[1:]
schema = graph_store.Schema.from_edges(source, "user:clicks:item")
for _ in range(3):
    try:
        graph_store.ingest(schema, target, num_shards=2, overwrite=overwrite == "True")
    except graph_store.BadInput as error:
        assert "exists already" in str(error), error
"""


@pytest.mark.parametrize("overwrite", [pytest.param(False, marks=pytest.mark.long), True])
def test_processes_that_ingest_into_one_place_at_once_leave_one_whole_store(tmp_path, write_rows, overwrite):
    path, graphs = tmp_path / "clicks.store", [[(i, j, None, None) for j in range(i + 1)] for i in range(3)]
    racers = [start(RACER, write_rows(rows), path, overwrite) for rows in graphs]
    for racer in racers:
        _, err = racer.communicate(timeout=120)
        assert racer.returncode == 0, err.decode()
    check(path, graphs[graph_store.info(path)["edges"][CLICKS] - 1])
    assert leftovers(path) == []


def test_a_store_may_be_replaced_through_a_link_and_has_a_name_with_brackets(tmp_path, make_store):
    real, link = tmp_path / "real [1]*.store", tmp_path / "link.store"
    (tmp_path / ".real [1]*.store.ingest-1-left").mkdir()
    make_store([(1, 2, None, None)], path=real, num_shards=1)
    link.symlink_to(real)
    make_store([(3, 4, None, None)], path=link, num_shards=1, overwrite=True)
    assert link.is_symlink()
    check(real, [(3, 4, None, None)])
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["link.store", "real [1]*.store"]


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path, make_store, small_disk):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="file is no folder"):
        make_store([(1, 2, None, None)], path=tmp_path / "file" / "clicks.store")
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(GraphStoreError, match=r"clicks\.store: cannot write: .*Read-only file system"):
        make_store([(1, 2, None, None)], path=small_disk / "clicks.store")
