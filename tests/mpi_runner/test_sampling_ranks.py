"""What is sampled is the same on 1 to 4 ranks, at any number of threads and depth, and after a compaction."""

import json

import numpy as np
import pytest

import graph_store
from graph_store import GraphWriter, Schema
from tests.graph_store.shop import CLICKS, tables


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A store with updates that are not folded."""
    path = tmp_path_factory.mktemp("ranks") / "shop.store"
    graph_store.ingest(Schema.from_tables(tables()), path, num_shards=3)
    random = np.random.default_rng(1)
    with GraphWriter(path) as writer:
        added = {"weight": random.random(80).astype(np.float32), "time": random.integers(0, 12, 80)}
        writer.add_edges(CLICKS, random.integers(0, 40, 80), random.integers(0, 30, 80), **added)
        writer.delete_edges(CLICKS, [1, 2, 3], [1, 2, 3])
    return path


def test_batches_are_the_same_on_any_ranks_and_after_a_compaction(on_ranks, path):
    def sampled(ranks, threads, depth):
        done = on_ranks(ranks, "sampled_batches.py", path, threads, depth)
        return json.loads(done.stdout.splitlines()[-1])

    expected = sampled(1, 0, 0)
    assert {name: len(set(hashes)) for name, hashes in expected.items()} == {
        "uniform": 5,
        "timed": 5,
        "links": len(expected["links"]),
        "walks": 1,
        "merged": 1,
    }
    assert len(expected["links"]) > 4
    assert sampled(2, 1, 2) == expected
    assert sampled(3, 2, 1) == expected
    with GraphWriter(path) as writer:
        writer.fold()
    assert sampled(4, 1, 5) == expected
