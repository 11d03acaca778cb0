"""Cora and Citeseer by examples/planetoid.py: the published counts, words, labels and split back unchanged."""

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import graph_store

ROOT = Path(__file__).parents[2]
CITES = "paper:cites:paper"

# A pickle runs code when it is loaded, so what it holds is put into plain arrays by a process of its own.
UNPICKLE = """
import pickle, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
folder, name, target = sys.argv[1:]
parts = {part: pickle.load(open(f"{folder}/ind.{name}.{part}", "rb"), encoding="latin1") for part in
         ("y", "tx", "ty", "allx", "ally", "graph")}
parts["allx"], parts["tx"] = parts["allx"].toarray(), parts["tx"].toarray()
parts["graph"] = [(src, dst) for src, found in parts["graph"].items() for dst in found]
np.savez(target, **parts)
"""

# Nodes, adjacency entries, distinct ones, pairs without and with self loops, words, classes, nodes to train on.
SETS = {
    "cora": (2708, 10858, 10556, 5278, 5278, 1433, 7, 140),
    "citeseer": (3327, 9464, 9228, 4552, 4676, 3703, 6, 120),
}


def run(*arguments):
    subprocess.run([sys.executable, *map(str, arguments)], check=True, env=os.environ | {"PYTHONPATH": str(ROOT)})


@pytest.fixture(scope="session", params=SETS)
def planetoid(request, tmp_path_factory, real):
    """Return the counts of a set, its arrays, and the path of its store."""
    data, folder = real(f"planetoid/ind.{request.param}.graph").parent, tmp_path_factory.mktemp(request.param)
    run("-c", UNPICKLE, data, request.param, folder / "parts.npz")
    with np.load(folder / "parts.npz") as arrays:
        parts = dict(arrays) | {"test": np.loadtxt(data / f"ind.{request.param}.test.index", dtype=np.int64)}
    run(ROOT / "examples" / "planetoid.py", request.param, data, folder / "store")
    assert graph_store.verify(folder / "store") == []
    return SETS[request.param], parts, folder / "store"


def test_citations_are_counted_once_a_pair(planetoid):
    (num_nodes, num_entries, num_distinct, num_pairs, *_), parts, path = planetoid
    info = graph_store.info(path)
    assert (info["nodes"], info["edges"], info["self_loops"]) == ({"paper": num_nodes}, {CITES: num_pairs}, {CITES: 0})
    pairs = {(src, dst) for src, dst in parts["graph"].tolist()}
    assert (len(parts["graph"]), len(pairs)) == (num_entries, num_distinct)
    with graph_store.open(path) as store:
        src, dst = (column.to_numpy() for column in store.scan(both=True).read_all().columns)
        assert set(zip(src.tolist(), dst.tolist())) == {pair for pair in pairs if pair[0] != pair[1]}
        assert src.size == 2 * num_pairs


def test_self_loops_are_kept_where_nothing_is_said_of_them(planetoid, tmp_path):
    (_, _, _, num_pairs, with_loops, *_), parts, _ = planetoid
    src, dst = parts["graph"].T
    edges = {CITES: {"table": pa.table({"src": src, "dst": dst}), "undirected": True}}
    info = graph_store.ingest(graph_store.Schema.from_tables(edges), tmp_path / "store", num_shards=2).info
    assert (info["edges"], info["self_loops"]) == ({CITES: with_loops}, {CITES: with_loops - num_pairs})
    assert graph_store.verify(tmp_path / "store") == []


def test_words_come_back_and_papers_that_nothing_describes_have_zeros(planetoid):
    (num_nodes, *_, num_words, _, _), parts, path = planetoid
    known = len(parts["allx"])
    with graph_store.open(path) as store:
        words = store.features(range(num_nodes), "paper", ["words"])["words"]
        assert (words.values.shape, words.values.dtype) == ((num_nodes, num_words), np.float32)
        assert words.present.all()
        np.testing.assert_array_equal(words.values[:known], parts["allx"])
        np.testing.assert_array_equal(words.values[parts["test"]], parts["tx"])
        missing = np.setdiff1d(np.arange(known, num_nodes), parts["test"])
        assert missing.size == num_nodes - known - parts["test"].size
        assert not words.values[missing].any()


def test_labels_and_the_standard_split_come_back(planetoid):
    (num_nodes, *_, num_classes, num_train), parts, path = planetoid
    known = len(parts["ally"])
    with graph_store.open(path) as store:
        found = store.features(range(num_nodes), "paper", ["label", "split"])
        label = found["label"]
        np.testing.assert_array_equal(label.values[:known], parts["ally"].argmax(1))
        np.testing.assert_array_equal(label.values[parts["test"]], parts["ty"].argmax(1))
        assert np.unique(label.values[label.present]).tolist() == list(range(num_classes))
        assert np.count_nonzero(~label.present) == num_nodes - known - 1000
        split = found["split"].values
        assert Counter(split.tolist()) == {
            "train": num_train, "val": 500, "test": 1000, None: num_nodes - num_train - 1500
        }  # fmt: skip
        assert set(split[:num_train]) == {"train"}
        assert set(split[parts["test"]]) == {"test"}


def test_fifteen_papers_of_citeseer_are_described_nowhere_but_cited(planetoid):
    (num_nodes, *_), parts, path = planetoid
    known = len(parts["allx"])
    missing = np.setdiff1d(np.arange(known, num_nodes), parts["test"])
    with graph_store.open(path) as store:
        degrees = store.degree(np.arange(num_nodes))
        isolated = np.flatnonzero(degrees == 0)
        if num_nodes == 2708:
            assert (missing.size, isolated.size) == (0, 0)
        else:
            assert (missing.size, isolated.size, degrees[missing].min() > 0) == (15, 48, True)
            assert (np.count_nonzero(isolated < 2312), np.isin(isolated, parts["test"]).sum()) == (36, 12)
