"""node2vec's steps against the chances of Grover and Leskovec, KDD 2016, section 3.2.2."""

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.packed_lists import entry_of, locate, node_mark
from graph_store.sampling.node2vec import copies_of
from graph_store.sampling.walks import walk
from tests.oracles import chi_square

SETTINGS = [(0.5, 2.0), (4.0, 0.25), (0.25, 4.0), (2.0, 2.0), (1.0, 0.5), (0.01, 1.0), (100.0, 0.01)]


def chances(lists, before, node, p, q):
    """The chance of each neighbour of a node reached from another, from the formula."""
    known = {end for end, _ in lists[before]}
    found = {}
    for end, weight in lists[node]:
        factor = 1 / p if end == before else 1.0 if end in known else 1 / q
        found[end] = found.get(end, 0) + factor * weight
    total = sum(found.values())
    return {end: chance / total for end, chance in found.items()}


def statistic(found, lists, p, q):
    """Compare the third node of walks with the chances given the first two; standardised chi-square of all."""
    pairs = {}
    for before, node, end in found.tolist():
        pairs.setdefault((before, node), []).append(end)
    counts, expected = [], []
    for (before, node), ends in pairs.items():
        own = chances(lists, before, node, p, q)
        assert set(ends) <= set(own)
        if len(own) == 1:
            continue
        likely = np.array(list(own.values())) * len(ends)
        there = np.array([ends.count(end) for end in own])
        few = likely < 5
        counts += [*there[~few].tolist(), int(there[few].sum())]
        expected += [*likely[~few].tolist(), float(likely[few].sum())]
    counts, expected = np.array(counts), np.array(expected)
    return chi_square(counts[expected >= 1], expected[expected >= 1])


def adjacency_of(make_adjacency, lists, *, weighted):
    adjacency = make_adjacency([[(*entry, None) for entry in own] for own in lists], weighted=weighted)
    adjacency.distinct = all(len({end for end, _ in own}) == len(own) for own in lists)
    return adjacency


def karate(*, weighted):
    graph = nx.karate_club_graph()
    return [[(end, float(graph[node][end]["weight"] if weighted else 1)) for end in sorted(graph[node])]
            for node in range(graph.number_of_nodes())]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), SETTINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_of_the_karate_club_come_as_the_formula_says(make_adjacency, p, q, weighted):
    lists = karate(weighted=weighted)
    adjacency = adjacency_of(make_adjacency, lists, weighted=weighted)
    method = "weighted" if weighted else "uniform"
    found = walk([adjacency], np.arange(34), length=2, walks=3000, p=p, q=q, method=method, seed=4)
    # Cells of a pair add up to what was given, so there are fewer degrees of freedom than cells: one side only.
    assert -8 < statistic(found, lists, p, q) < 4


@pytest.mark.parametrize(("p", "q"), SETTINGS)
@pytest.mark.parametrize("weighted", [False, True])
def test_steps_over_a_hub_come_as_the_formula_says(make_adjacency, p, q, weighted):
    random = np.random.default_rng(1)
    weights = np.float32(random.integers(1, 9, 700) if weighted else np.ones(700)).tolist()
    # Node 0 has an edge to each, in both directions; nodes 1 to 600 are a ring, 601 to 700 are not.
    lists = [[(node, weights[node - 1]) for node in range(1, 701)]]
    for node in range(1, 701):
        ring = [] if node > 600 else [(node % 600 + 1, 1.0 + weighted), ((node - 2) % 600 + 1, 1.0)]
        lists.append(sorted([(0, weights[node - 1]), *ring]))
    adjacency = adjacency_of(make_adjacency, lists, weighted=weighted)
    starts = np.repeat([5, 700], 40_000)
    method = "weighted" if weighted else "uniform"
    found = walk([adjacency], starts, length=2, p=p, q=q, method=method, seed=2)
    assert np.count_nonzero(found[:, 1] == 0) > 40_000
    assert -8 < statistic(found, lists, p, q) < 4


def test_an_edge_counts_as_near_where_the_node_before_has_it_and_not_the_other_way(make_adjacency):
    # 0 → 1 → {2, 3}; 0 → 2, but 3 → 0.
    lists = [[(1, 1.0), (2, 1.0)], [(2, 1.0), (3, 1.0)], [], [(0, 1.0)]]
    found = walk(
        [adjacency_of(make_adjacency, lists, weighted=False)], np.zeros(40_000, np.int64), length=2, q=4.0, seed=1
    )
    ends = found[found[:, 1] == 1][:, 2]
    assert abs(chi_square(np.bincount(ends, minlength=4)[2:], ends.size * np.array([0.8, 0.2]))) < 4


@settings(max_examples=80, deadline=None)
@given(
    degree=st.one_of(st.integers(0, 40), st.integers(41, 3000)),
    spread=st.sampled_from([1.0, 3.0, 20.0]),
    most=st.sampled_from([3, 1000, 1 << 40]),
    seed=st.integers(0, 1 << 32),
)
def test_a_search_finds_what_numpy_finds_however_nodes_are_spread(make_adjacency, degree, spread, most, seed):
    random = np.random.default_rng(seed)
    known = np.sort((most * random.random(degree) ** spread).astype(np.int64))
    bits = int(most).bit_length()
    adjacency = make_adjacency([[*known.tolist()], [0]], bits=bits)
    words, words32, directory, group_base = adjacency.arrays
    entry = entry_of(0, directory, group_base)
    _, bit, width, _ = locate(words, words32, entry, node_mark(0, entry, group_base))
    targets = [0, most, *random.integers(0, most + 1, 30).tolist(), *random.permutation(known)[:30].tolist()]
    for target in targets:
        for num_nodes in (16.0, float(most), 1e15):
            first, copies = copies_of(words, bit, width, degree, target, num_nodes)
            assert first == np.searchsorted(known, target)
            assert copies == np.count_nonzero(known == target)


def test_parallel_edges_and_loops_count_each_by_itself(make_adjacency):
    # Twice 0 – 1, a loop at 1 and one way out: 1/p each for two ways back, 1 for the loop, 1/q for node 2.
    lists = [[(1, 1.0), (1, 1.0)], [(0, 1.0), (0, 1.0), (1, 1.0), (2, 1.0)], [(1, 1.0)]]
    adjacency = adjacency_of(make_adjacency, lists, weighted=False)
    found = walk([adjacency], np.zeros(60_000, np.int64), length=2, p=0.5, q=0.25, seed=3)
    assert (found[:, 1] == 1).all()
    # 2 · 2 + 1 + 4 = 9.
    assert abs(chi_square(np.bincount(found[:, 2]), 60_000 * np.array([4, 1, 4]) / 9)) < 4


def test_a_walk_comes_to_an_end_whatever_p_and_q(make_adjacency):
    # A clique, in which every candidate but the way back is near: q says nothing, 10^-9 of the tries would be taken.
    lists = [[(end, 1.0) for end in range(40) if end != node] for node in range(40)]
    adjacency = adjacency_of(make_adjacency, lists, weighted=False)
    found = walk([adjacency], np.arange(40), length=20, p=1e9, q=1e-9, seed=1)
    assert (found >= 0).all()
    assert (found[:, 2:] != found[:, :-2]).all()
