"""Processes are killed at any moment: nothing acknowledged is lost, batches are whole, verify finds nothing."""

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graph_store
from graph_store.manifest import Manifest
from graph_store.writer import GraphWriter
from tests.graph_store import crash_batches, live_model
from tests.graph_store.empty_stores import make_empty

ROOT = Path(__file__).parents[2]


class Twin:
    """The model at any version, in turn."""

    def __init__(self):
        self.version, self.model = 1, live_model.Model(*crash_batches.CONFIG)

    def at(self, version):
        assert version >= self.version
        while self.version < version:
            self.version += 1
            crash_batches.apply(self.version, None, self.model)
        return self.model


def killed_after(path, seconds, fold_rows):
    """Let a process commit for so long, kill it, and return the last version that it acknowledged."""
    arguments = [sys.executable, "-m", "tests.graph_store.crash_batches", str(path), str(fold_rows)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        # Kernels may have to be compiled before the first batch: the time counts from there.
        first = int(child.stdout.readline())
        try:
            child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
        said = child.stdout.read().split("\n")
        child.wait()
    assert child.returncode == -9, said
    # The last line may be cut.
    return max((int(line) for line in said[:-1]), default=first)


def kill_and_look(path, twin, seconds, fold_rows, *, verify=True):
    acknowledged = killed_after(path, seconds, fold_rows)
    # First a reader, before any writer has recovered.
    with graph_store.open(path, threads=1) as store:
        assert acknowledged <= store.version
        seen = store.version
        model = twin.at(store.version)
        live_model.check(store, model)
    if verify:
        assert graph_store.verify(path) == []
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        assert writer.version == seen
        kept = {f"gen-{writer.manifest.generation}", *(f"gen-{each.generation}" for each in older(path))}
        assert {folder.name for folder in path.glob("gen-*")} == kept
    live_model.check_path(path, model)
    return acknowledged


def older(path):
    newest = Manifest.load(path)
    found = [Manifest.load(copy.parent) for copy in path.glob("gen-*/manifest.json")]
    return [manifest for manifest in found if manifest.generation < newest.generation]


@pytest.mark.parametrize("fold_rows", [0, 150])
def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path, fold_rows):
    path, twin = make_empty(tmp_path / "killed.store", *crash_batches.CONFIG), Twin()
    random = np.random.default_rng(fold_rows)
    for _ in range(3):
        kill_and_look(path, twin, random.uniform(0.2, 1.5), fold_rows)
    # Each of the three committed one batch at least, however slow the machine.
    assert twin.version > 3


@pytest.mark.long
@pytest.mark.parametrize("fold_rows", [0, 150, 1000])
def test_a_writer_killed_200_times_loses_nothing_that_it_acknowledged(tmp_path, fold_rows):
    path, twin = make_empty(tmp_path / "killed.store", *crash_batches.CONFIG), Twin()
    random = np.random.default_rng(100 + fold_rows)
    for number in range(67):
        kill_and_look(path, twin, random.uniform(0.0, 1.5), fold_rows, verify=number % 5 == 0)
    assert graph_store.verify(path) == []


def test_verify_and_readers_find_nothing_wrong_while_a_process_writes_and_folds(tmp_path):
    path, twin = make_empty(tmp_path / "live.store", *crash_batches.CONFIG), Twin()
    arguments = [sys.executable, "-m", "tests.graph_store.crash_batches", str(path), "100"]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        with graph_store.open(path, threads=1) as reader:
            for _ in range(8):
                assert graph_store.verify(path) == []
                reader.refresh()
                live_model.check(reader, twin.at(reader.version))
        assert child.poll() is None
        child.kill()
        child.stdout.read()
    assert twin.version > 8


INGEST = """
import sys
import graph_store
from graph_store.schema import Schema
files, path, overwrite = sys.argv[1], sys.argv[2], sys.argv[3] == "over"
print("ready", flush=True)
graph_store.ingest(
    Schema.from_edges(files, "user:views:item", reverse=True, weight="weight", time="time"),
    path, num_shards=4, memory_bytes=128 << 20, threads=2, overwrite=overwrite,
)
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def rows(write_rows):
    random = np.random.default_rng(6)
    ends = random.integers(0, 40_000, (150_000, 2)).tolist()
    return write_rows([(src, dst, float(row), row % 1000) for row, (src, dst) in enumerate(ends)])


def killed_ingest(rows, path, seconds, how):
    """Start an ingest and kill it after so long; says whether it was done."""
    arguments = [sys.executable, "-c", INGEST, str(rows), str(path), how]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, cwd=ROOT, text=True) as child:
        assert child.stdout.readline() == "ready\n"
        try:
            child.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            child.kill()
        said = child.stdout.read()
        child.wait()
    return said == "done\n"


def kill_ingests(rows, folder, random, count):
    """Kill ingests, some of which replace a store: at the path is the whole old store, the whole new one, or none."""
    path, old = folder / "ingested.store", folder / "old.store"
    make_empty(old, *crash_batches.CONFIG)
    for number in range(count):
        over = number % 2
        shutil.rmtree(path, ignore_errors=True)
        if over:
            shutil.copytree(old, path)
        done = killed_ingest(rows, path, random.uniform(0.1, 4.0), "over" if over else "new")
        assert path.exists() or not (over or done)
        if path.exists():
            info = graph_store.info(path)
            assert info["uuid"] == graph_store.info(old)["uuid"] or info["edges"]["user:views:item"] > 149_000
            assert not done or info["edges"]["user:views:item"] > 149_000
            assert graph_store.verify(path) == []
    shutil.rmtree(path, ignore_errors=True)
    assert killed_ingest(rows, path, 600, "new")
    # What the killed ones left is removed by the next.
    assert {each.name for each in folder.iterdir()} == {path.name, old.name}


def test_a_killed_ingest_leaves_a_whole_store_or_none(rows, tmp_path):
    kill_ingests(rows, tmp_path, np.random.default_rng(1), 4)


@pytest.mark.long
def test_an_ingest_killed_60_times_leaves_a_whole_store_or_none(rows, tmp_path):
    kill_ingests(rows, tmp_path, np.random.default_rng(2), 60)
