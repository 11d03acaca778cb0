"""Hubs: lists of millions of neighbours are stored, read, sampled, changed and folded like others."""

import numpy as np
import pyarrow as pa
import pytest

import graph_store
from graph_store import GraphWriter, Schema


def star(folder, size):
    """Make a store of one node with `size` neighbours and some small lists."""
    table = pa.table({"src": np.zeros(size, np.int64), "dst": np.arange(size)})
    small = pa.table({"src": np.arange(1, 100), "dst": np.arange(1, 100)})
    schema = Schema.from_tables({"a:r:b": {"table": pa.concat_tables([table, small]), "reverse": True}})
    graph_store.ingest(schema, folder / "store", num_shards=2)
    return folder / "store"


@pytest.mark.parametrize("size", [20_000, pytest.param(3_000_000, marks=pytest.mark.long)])
def test_a_hub_is_sampled_changed_and_folded(tmp_path, size):
    path = star(tmp_path, size)
    with GraphWriter(path) as writer, graph_store.open(path) as store:
        for fold in (False, True):
            first = size + 10 * fold
            writer.add_edges("a:r:b", np.zeros(10, np.int64), np.arange(first, first + 10))
            writer.delete_edges("a:r:b", [0, 0], [5 + fold, 70 + fold])
            if fold:
                writer.fold()
            store.refresh()
            degree = size + 8 * (1 + fold)
            assert store.degree([0, 1], "a:r:b").tolist() == [degree, 1]
            assert store.contains([0, 0, 0], [first + 9, 5 + fold, 6 + 2 * fold], "a:r:b").tolist() == [
                True,
                False,
                True,
            ]
            assert store.neighbors([0], "a:r:b", limit=3).ids.tolist() == [0, 1, 2]
            sampled = store.sample([0], "a:r:b", fanouts=[50, 2], seed=1)
            drawn = sampled.hops[0].dst
            assert len(set(drawn.tolist())) == 50
            assert drawn.min() >= 0
            assert drawn.max() < first + 10
            assert 0.2 < np.mean(drawn) / size < 0.8
        writer.delete_nodes("a", [0])
        store.refresh()
        assert store.adjacency("a:r:b").num_edges == store.adjacency("b:rev_r:a").num_edges == 99
        assert store.degree([9], "b:rev_r:a").tolist() == [1]
    assert graph_store.verify(path) == []
