"""The most visited nodes against a count of the walks, and against the chances of walks with restart."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.errors import BadInput
from graph_store.sampling import pinsage
from graph_store.sampling.pinsage import visited_neighbors
from graph_store.sampling.walks import walk
from tests.oracles import chi_square


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 1000),
    num_neighbors=st.integers(1, 12),
    walks=st.integers(1, 9),
    length=st.integers(2, 9),
    sides=st.sampled_from([1, 2]),
    restart=st.sampled_from([0.0, 0.5]),
    part=st.sampled_from([1, 30, 1 << 22]),
)
def test_neighbours_are_what_a_counter_of_the_walks_finds(
    make_adjacency, seed, num_neighbors, walks, length, sides, restart, part
):
    random = np.random.default_rng(seed)
    lists = [[np.sort(random.integers(0, 20, random.integers(0, 5))).tolist() for _ in range(20)] for _ in range(sides)]
    chain = [make_adjacency(own) for own in lists]
    options = {"walks": walks, "length": length, "restart": restart, "seed": seed, "step": 2}
    starts = random.integers(0, 20, 15)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pinsage, "_PART_NODES", part)
        found = visited_neighbors(chain, starts, num_neighbors=num_neighbors, threads=2, **options)
    paths = walk(chain, starts, **options)
    assert found.indptr[0] == 0
    for i, start in enumerate(starts.tolist()):
        visits = Counter(paths[i * walks : (i + 1) * walks, sides::sides].ravel().tolist())
        known = sorted(((-count, node) for node, count in visits.items() if node not in (-1, start)))[:num_neighbors]
        span = slice(found.indptr[i], found.indptr[i + 1])
        assert list(zip((-found.counts[span]).tolist(), found.neighbors[span].tolist())) == known


def test_counts_are_in_proportion_to_the_chances_of_walks_with_restart(make_adjacency):
    lists = [[1, 2], [0, 2, 3], [0, 4], [4], [0, 1]]
    counted = visited_neighbors(
        [make_adjacency(lists)], np.zeros(1, np.int64), num_neighbors=9, walks=4000, length=12, restart=0.4, seed=3
    )
    steps = np.zeros((5, 5))
    for node, own in enumerate(lists):
        steps[node, own] = 1 / len(own)
    place, expected = np.eye(5)[0], np.zeros(5)
    for hop in range(12):
        place = (place if hop == 0 else 0.6 * place + 0.4 * np.eye(5)[0]) @ steps
        expected += 4000 * place
    counts = dict(zip(counted.neighbors.tolist(), counted.counts.tolist()))
    assert set(counts) == {1, 2, 3, 4}
    # Visits of one walk hang together, so their spread is some times that of independent ones.
    assert abs(chi_square([counts[node] for node in (1, 2, 3, 4)], expected[1:])) < 8
    assert counted.counts.tolist() == sorted(counts.values(), reverse=True)


def test_what_cannot_be_counted_is_refused(make_adjacency):
    one = make_adjacency([[0]])
    options = {"walks": 2, "length": 2, "seed": 0}
    with pytest.raises(BadInput, match="num_neighbors must be 1 or more, got 0"):
        visited_neighbors([one], np.array([0]), num_neighbors=0, **options)
    with pytest.raises(BadInput, match="length must be 2 or more, the hops of a round, got 1"):
        visited_neighbors([one, one], np.array([0]), num_neighbors=1, **{**options, "length": 1})
    with pytest.raises(BadInput, match="walks must be 1 or more, got 0"):
        visited_neighbors([one], np.array([0]), num_neighbors=1, **{**options, "walks": 0})


def test_a_node_with_no_way_out_has_no_neighbours(make_adjacency):
    found = visited_neighbors(
        [make_adjacency([[], [0]])], np.array([0, 1, 0]), num_neighbors=3, walks=5, length=4, restart=0, seed=1
    )
    assert found.indptr.tolist() == [0, 0, 1, 1]
    # From 1 to 0, and from there there is no way on.
    assert (found.neighbors.tolist(), found.counts.tolist()) == ([0], [5])
    empty = visited_neighbors([make_adjacency([[]])], np.empty(0, np.int64), num_neighbors=3, walks=5, length=4, seed=1)
    assert (empty.indptr.tolist(), empty.neighbors.size) == ([0], 0)
