"""Lists in original ids, against the rows they were made from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store.id_lists import id_lists
from tests.graph_store.stores import CLICKS, many_rows


@pytest.fixture(scope="module", params=["bare", "weights", "times", "both", "unsigned"])
def kept(request, make_store):
    """A store of one kind, and the list of each id by the definition: (neighbour, weight, time), in their order."""
    kind = request.param
    rows = many_rows(3000, weighted=kind in ("weights", "both"), timed=kind in ("times", "both"), seed=3)
    if kind == "unsigned":
        rows = [(src + 50, dst, *rest) for src, dst, *rest in rows]
    kept = {}
    for src, dst, weight, time in rows:  # the first of equal edges stays
        kept.setdefault(src, {}).setdefault((dst, time), weight)
    lists = {
        src: sorted(
            ((dst, weight, time) for (dst, time), weight in edges.items()), key=lambda edge: (edge[2] or 0, edge[0])
        )
        for src, edges in kept.items()
    }
    path = make_store(rows, id_type="unsigned" if kind == "unsigned" else "integer", num_shards=4)
    with graph_store.open(path) as store:
        yield store, lists


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 99), size=st.integers(0, 300))
def test_lists_are_those_of_the_rows_by_ids(kept, seed, size):
    store, lists = kept
    ids = store.ids("item")
    assert store.id_map("item").is_checked
    asked = np.random.default_rng(seed).choice(store.ids("user"), size)
    indptr, found, weights, times = id_lists(
        store.adjacency(CLICKS), store.id_map("item"), store.to_nodes("user", asked)
    )
    expected = [edge for node in asked.tolist() for edge in lists[node]]
    assert np.diff(indptr).tolist() == [len(lists[node]) for node in asked.tolist()]
    assert found.dtype == ids.dtype
    # Equal times are in the order of nodes, not of ids.
    pairs = [(i, edge[2], edge[0]) for i, node in enumerate(asked.tolist()) for edge in lists[node]]
    rows = np.repeat(np.arange(asked.size), np.diff(indptr)).tolist()
    got = list(zip(rows, [None] * len(rows) if times is None else times.tolist(), found.tolist()))
    if times is None:
        assert got == pairs
        assert weights is None or weights.tolist() == [edge[1] for edge in expected]
    else:
        assert [row[:2] for row in got] == [row[:2] for row in pairs]
        assert sorted(got) == sorted(pairs)
    answer = store.neighbors(asked)
    for one, other in zip(answer, (indptr, found, weights, times)):
        assert (one is None) == (other is None)
        assert one is None or np.array_equal(one, other)
