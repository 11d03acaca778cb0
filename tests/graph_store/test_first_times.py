"""The earliest time of an edge, against a search through the list."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.sampling.first_times import ALWAYS, NEVER, first_times


@settings(max_examples=40, deadline=None)
@given(
    lists=st.lists(st.lists(st.tuples(st.integers(0, 12), st.integers(-5, 2**60))), min_size=1, max_size=8),
    asked=st.lists(st.tuples(st.integers(0, 7), st.integers(0, 14)), max_size=60),
    num_shards=st.sampled_from([1, 2, 3]),
)
def test_the_first_of_parallel_edges_counts(make_adjacency, lists, asked, num_shards):
    lists = [sorted(((node, None, time) for node, time in each), key=lambda edge: (edge[2], edge[0])) for each in lists]
    base = [len(lists) * shard // num_shards for shard in range(num_shards + 1)]
    nodes = [k * num_shards + shard for shard in range(num_shards) for k in range(base[shard + 1] - base[shard])]
    asked = [(place % len(lists), target) for place, target in asked]
    sources = np.array([nodes[place] for place, _ in asked], np.int64)
    targets = np.array([target for _, target in asked], np.int64)
    found = first_times(make_adjacency(lists, num_shards=num_shards, timed=True), sources, targets)
    expected = [
        min([time for node, _, time in lists[place] if node == target], default=NEVER) for place, target in asked
    ]
    assert found.tolist() == expected


def test_hubs_are_read_whole_by_any_number_of_threads(make_adjacency):
    random = np.random.default_rng(1)
    hub = [(int(node), None, time) for time, node in enumerate(random.permutation(40_000))]
    expected = {node: time for node, _, time in hub}
    targets = random.integers(0, 50_000, 40_000)
    for threads in (1, 3):
        adjacency = make_adjacency([[], hub], timed=True, threads=threads)
        found = first_times(adjacency, np.ones(40_000, np.int64), targets)
        assert found.tolist() == [expected.get(target, NEVER) for target in targets.tolist()]


def test_a_type_without_times_has_its_edges_always(make_adjacency):
    found = first_times(make_adjacency([[3, 5]]), np.zeros(3, np.int64), np.array([3, 4, 5]))
    assert found.tolist() == [ALWAYS, NEVER, ALWAYS]


def test_what_does_not_fit_is_refused(make_adjacency):
    adjacency = make_adjacency([[(1, None, 2)]], timed=True)
    with pytest.raises(ValueError, match="targets must be as many as sources, got 1 and 2"):
        first_times(adjacency, np.zeros(2, np.int64), np.array([1]))
    with pytest.raises(ValueError, match="node 4 at position 0"):
        first_times(adjacency, np.array([4]), np.array([1]))
