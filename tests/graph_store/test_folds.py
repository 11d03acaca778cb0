"""Folds while readers in other processes read: they are undisturbed, and see whole versions only."""

import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest

import graph_store
from graph_store import GraphWriter, Schema

READER = textwrap.dedent(
    """
    import sys
    import numpy as np
    import graph_store

    path, base, step, last = sys.argv[1], *map(int, sys.argv[2:])
    pinned = graph_store.open(path)
    first = pinned.version
    expected = pinned.adjacency("a:r:b").neighbors(pinned.nodes("a"))
    store, versions = graph_store.open(path), set()
    print("ready", flush=True)
    while store.version < last:
        version = store.refresh()
        versions.add(version)
        edges = base + step * (version - 1)
        forward, back = store.adjacency("a:r:b"), store.adjacency("b:rev_r:a")
        assert store.edge_types["a:r:b"].num_edges == forward.num_edges == back.num_edges == edges
        assert forward.degrees(store.nodes("a")).sum() == edges
        assert back.degrees(store.nodes("b")).sum() == edges
        sampler = store.sampler("a:r:b", [3, 3])
        for number in range(5):
            seeds = store.nodes("a")[number::7]
            labels, layers, nodes = sampler.sample(seeds, seed=version, step=number)
            src = np.repeat(seeds, np.diff(layers[0].indptr)) if len(set(seeds)) == len(seeds) else None
            assert forward.has_edges(src, nodes["b"][layers[0].neighbors]).all()
        again = pinned.adjacency("a:r:b").neighbors(pinned.nodes("a"))
        assert all(np.array_equal(one, other) for one, other in zip(again, expected))
    assert pinned.version == first
    print("versions", len(versions))
    """
)


def run_folds(tmp_path, *, folds, readers):
    random = np.random.default_rng(3)
    rows = np.unique(random.integers(0, 3000, (20_000, 2)), axis=0)
    np.savetxt(tmp_path / "edges.csv", rows, fmt="%d", delimiter=",")
    path, step = tmp_path / "store", 400
    graph_store.ingest(Schema.from_edges(tmp_path / "edges.csv", "a:r:b", reverse=True), path, num_shards=4)
    last = 1 + 3 * folds
    arguments = [sys.executable, "-c", READER, str(path), *map(str, (len(rows), step, last))]
    children = [subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) for _ in range(readers)]
    assert all(child.stdout.readline() == "ready\n" for child in children)
    with GraphWriter(path) as writer:
        for fold in range(folds):
            for batch in range(3):
                # Edges that were not there: each batch has sources of its own.
                first = 10_000 + 1000 * (3 * fold + batch)
                writer.add_edges("a:r:b", first + np.arange(step), random.integers(0, 3000, step))
            assert writer.fold() == writer.version
        assert writer.manifest.generation == 1 + folds
    for child in children:
        out, _ = child.communicate(timeout=120)
        assert child.returncode == 0
        assert int(out.split()[-1]) >= 2
    assert graph_store.verify(path) == []
    with GraphWriter(path) as writer:
        writer.add_nodes("a", [-1])
        writer.fold()
    assert sorted(entry.name for entry in path.glob("gen-*")) == [f"gen-{folds + 2}"]


@pytest.mark.long
def test_readers_in_other_processes_sample_through_ten_folds(tmp_path):
    run_folds(tmp_path, folds=10, readers=3)


def test_a_reader_in_another_process_samples_through_three_folds(tmp_path):
    run_folds(tmp_path, folds=3, readers=1)


def test_batches_are_committed_while_a_fold_runs_in_the_background(tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n3,4\n")
    path = tmp_path / "store"
    graph_store.ingest(Schema.from_edges(tmp_path / "edges.csv", "a:r:b", reverse=True), path, num_shards=2)
    expected = {(1, 2), (3, 4)}
    with GraphWriter(path, fold_rows=200) as writer:
        for batch in range(60):
            src, dst = np.arange(50) + 100 * batch, np.arange(50)
            writer.add_edges("a:r:b", src, dst)
            expected |= set(zip(src.tolist(), dst.tolist()))
        writer.wait()
        assert writer.manifest.generation > 1
    assert "gossamer-fold" not in {thread.name for thread in threading.enumerate()}
    with graph_store.open(path) as store:
        assert store.version == 61
        found = store.neighbors(store.ids("a"), "a:r:b")
        sources = np.repeat(store.ids("a"), np.diff(found.indptr))
        assert set(zip(sources.tolist(), found.ids.tolist())) == expected
    assert graph_store.verify(path) == []
