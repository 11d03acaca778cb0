"""Negative samples: strict, uniform, and the same for whoever draws them."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.sampling.negatives import sample_negatives
from tests.oracles import chi_square


def drawn(adjacency, source, candidates, *, count=1, **options):
    """Draw for one source at `count` positions; returns int64[count, num_negatives]."""
    return sample_negatives(adjacency, np.full(count, source), np.asarray(candidates), np.arange(count), **options)


@settings(max_examples=30, deadline=None)
@given(
    known=st.lists(st.sets(st.integers(0, 30)), min_size=1, max_size=6),
    candidates=st.lists(st.integers(0, 40), min_size=1, max_size=20),
    tries=st.sampled_from([0, 1, 32]),
    timed=st.booleans(),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_a_negative_is_a_candidate_without_an_edge_or_minus_one(make_adjacency, known, candidates, tries, timed, seed):
    if timed:
        lists = [[(node, None, -node) for node in sorted(nodes, reverse=True)] for nodes in known]
    else:
        lists = [sorted(nodes) for nodes in known]
    adjacency = make_adjacency(lists, timed=timed, bits=6)
    for source, nodes in enumerate(known):
        left = set(candidates) - nodes
        out = drawn(adjacency, source, candidates, count=5, num_negatives=3, seed=seed, tries=tries)
        assert out.shape == (5, 3)
        assert set(out.ravel().tolist()) <= (left or {-1})


def test_negatives_are_uniform_over_the_candidates_that_are_left(make_adjacency):
    adjacency = make_adjacency([[0, 2, 4, 6], list(range(600))])
    for source, candidates, tries in ((0, range(12), 32), (0, range(12), 0), (1, range(300, 620), 1)):
        out = drawn(adjacency, source, candidates, count=20_000, num_negatives=1, seed=5, tries=tries).ravel()
        left = sorted(set(candidates) - set(adjacency.neighbors(np.array([source]))[1].tolist()))
        counts = [np.count_nonzero(out == node) for node in left]
        assert sum(counts) == out.size
        assert abs(chi_square(counts)) < 4


def test_several_negatives_of_a_sample_are_independent(make_adjacency):
    out = drawn(make_adjacency([[0]]), 0, range(5), count=20_000, num_negatives=2, seed=1)
    pairs = [np.count_nonzero((out == pair).all(axis=1)) for pair in itertools.product(range(1, 5), repeat=2)]
    assert sum(pairs) == len(out)
    assert abs(chi_square(pairs)) < 4


def test_a_source_of_all_candidates_but_one_gets_that_one(make_adjacency):
    everything = [node for node in range(2000) if node != 777]
    adjacency = make_adjacency([everything])
    assert (drawn(adjacency, 0, range(2000), count=50, num_negatives=2, seed=0) == 777).all()


def test_a_source_of_all_candidates_gets_minus_one(make_adjacency):
    adjacency = make_adjacency([[1, 2, 3], [1, 2]])
    out = sample_negatives(adjacency, np.array([0, 1, 0]), np.array([1, 2, 3]), np.arange(3), seed=0)
    assert out.tolist() == [[-1], [3], [-1]]


def test_a_draw_depends_on_seed_epoch_and_position_only(make_adjacency):
    random = np.random.default_rng(0)
    adjacency = make_adjacency([np.unique(random.integers(0, 1000, 50)).tolist() for _ in range(40)])
    sources, positions = random.integers(0, 40, 30_000), random.permutation(30_000)
    candidates = np.arange(1000)
    whole = sample_negatives(adjacency, sources, candidates, positions, num_negatives=2, seed=3, epoch=1, threads=1)
    threads = sample_negatives(adjacency, sources, candidates, positions, num_negatives=2, seed=3, epoch=1, threads=3)
    assert np.array_equal(whole, threads)
    rows = random.permutation(30_000)[:100]
    part = sample_negatives(adjacency, sources[rows], candidates, positions[rows], num_negatives=1, seed=3, epoch=1)
    assert np.array_equal(part[:, 0], whole[rows, 0])
    for seed, epoch in ((4, 1), (3, 2)):
        other = sample_negatives(adjacency, sources, candidates, positions, num_negatives=2, seed=seed, epoch=epoch)
        # Two independent draws of about 950 candidates agree once in about 950.
        assert np.count_nonzero(other == whole) < 200


def test_no_candidates_or_too_few_positions_are_refused(make_adjacency):
    adjacency = make_adjacency([[1], [2]])
    with pytest.raises(ValueError, match="at least one node"):
        sample_negatives(adjacency, np.array([0]), np.empty(0, np.int64), np.array([0]), seed=0)
    with pytest.raises(ValueError, match="as many as sources, got 1 and 2"):
        sample_negatives(adjacency, np.array([0, 1]), np.array([1]), np.array([0]), seed=0)
    with pytest.raises(ValueError, match="node 2 at position 0"):
        sample_negatives(adjacency, np.array([2]), np.array([1]), np.array([0]), seed=0)


@pytest.mark.parametrize("tries", [0, 32])
def test_a_candidate_that_is_no_node_is_refused(make_adjacency, tries):
    with pytest.raises(ValueError, match="candidates must be nodes, got -5"):
        drawn(make_adjacency([[1]]), 0, [3, -5, 2], seed=0, tries=tries)


def test_candidates_and_positions_that_are_no_integers_are_refused(make_adjacency):
    adjacency, one = make_adjacency([[1]]), np.array([0])
    with pytest.raises(TypeError, match="candidates must be integers, got float64"):
        sample_negatives(adjacency, one, np.array([2.5]), one, seed=0)
    with pytest.raises(TypeError, match="positions must be integers, got float64"):
        sample_negatives(adjacency, one, one, np.array([0.5]), seed=0)
    with pytest.raises(ValueError, match="num_negatives must be 0 or more, got -1"):
        sample_negatives(adjacency, one, one, one, num_negatives=-1, seed=0)


def test_samples_of_the_same_source_at_other_positions_are_independent(make_adjacency):
    # Pairs of what neighbouring positions got: uniform over the 16 pairs of the four candidates left.
    out = drawn(make_adjacency([[0]]), 0, range(5), count=40_000, seed=2).ravel()
    pairs = np.bincount(4 * (out[::2] - 1) + out[1::2] - 1, minlength=16)
    assert pairs.size == 16
    assert abs(chi_square(pairs)) < 4


def test_a_candidate_given_twice_is_drawn_twice_as_often(make_adjacency):
    # 1 has an edge; of the rest 2 is given twice: 1/2 of 20,000, within 4 of the deviations (√5000 = 70.7).
    for tries in (0, 32):
        out = drawn(make_adjacency([[1]]), 0, [1, 2, 3, 2, 4], count=20_000, seed=3, tries=tries)
        assert abs(np.count_nonzero(out == 2) - 10_000) < 283


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7, 16])
def test_negatives_are_strict_for_nodes_of_every_shard(make_adjacency, num_shards):
    random = np.random.default_rng(num_shards)
    lists = [np.unique(random.integers(0, 900, degree)).tolist() for degree in [0, 3, 700, 5000] * 9]
    adjacency = make_adjacency(lists, num_shards=num_shards)
    sources = adjacency.edges_at(random.integers(0, adjacency.num_edges, 500))[0]
    out = sample_negatives(adjacency, sources, np.arange(900), np.arange(500), num_negatives=4, seed=1, tries=2)
    drawn_for = np.repeat(sources, 4)[out.ravel() >= 0]
    assert not adjacency.has_edges(drawn_for, out[out >= 0]).any()
    full = adjacency.degrees(sources) == 900
    assert np.array_equal(out == -1, np.repeat(full[:, None], 4, axis=1))


def test_no_samples_are_no_negatives(make_adjacency):
    none = np.empty(0, np.int64)
    assert sample_negatives(make_adjacency([[1]]), none, np.array([1]), none, num_negatives=4, seed=0).shape == (0, 4)
