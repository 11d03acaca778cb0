"""Sampled neighbourhoods: distinct neighbours, as many as asked, uniform, and the same at any number of threads."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.draws import NEIGHBORS, key_of, mixed
from graph_store.sampling.neighbors import sample_neighbors
from graph_store.sampling.picks import floyd
from graph_store.sampling.relabel import Relabeller
from graph_store.sampling.sampler import Sampler
from tests import oracles
from tests.oracles import chi_square

FANOUTS = [-1, 0, 1, 2, 5, 64, 65, 200, 1000]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**64 - 1), st.integers(0, 3000), st.integers(0, 300))
def test_floyd_picks_what_its_set_based_twin_picks(key, degree, fanout):
    fanout = min(fanout, degree)
    picks = np.full(fanout + 4, -7)
    floyd(np.uint64(key), degree, fanout, picks, 2)
    assert picks[2 : 2 + fanout].tolist() == oracles.floyd(key, degree, fanout)
    assert len(set(picks[2 : 2 + fanout].tolist())) == fanout
    assert picks[[0, 1, -2, -1]].tolist() == [-7] * 4


def test_floyd_picks_every_subset_alike():
    for fanout in (1, 2, 3, 5):
        counts = dict.fromkeys(itertools.combinations(range(6), fanout), 0)
        for unit in range(12_000):
            picks = np.empty(fanout, np.int64)
            floyd(np.uint64(mixed(key_of(1, 0, NEIGHBORS), np.uint64(unit))), 6, fanout, picks, 0)
            counts[tuple(sorted(picks.tolist()))] += 1
        assert abs(chi_square(list(counts.values()))) < 4


def lists_of_degrees(degrees, seed=0):
    random = np.random.default_rng(seed)
    return [np.sort(random.permutation(4096)[:degree]).tolist() for degree in degrees]


@settings(max_examples=30, deadline=None)
@given(
    degrees=st.lists(st.one_of(st.integers(0, 12), st.sampled_from([64, 65, 512, 513, 1025])), min_size=1, max_size=90),
    num_shards=st.sampled_from([1, 2, 7, 16]),
    fanout=st.sampled_from(FANOUTS),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_a_sample_is_distinct_neighbours_min_of_degree_and_fanout(make_adjacency, degrees, num_shards, fanout, seed):
    lists = lists_of_degrees(degrees)
    adjacency = make_adjacency(lists, num_shards=num_shards)
    base = np.array([len(lists) * shard // num_shards for shard in range(num_shards + 1)])
    nodes = [local * num_shards + shard for shard in range(num_shards) for local in range(np.diff(base)[shard])]
    indptr, neighbors = sample_neighbors(adjacency, np.array(nodes), fanout, seed=seed, hop=1)
    assert indptr[0] == 0
    assert indptr[-1] == neighbors.size
    for i, known in enumerate(lists):
        drawn = neighbors[indptr[i] : indptr[i + 1]].tolist()
        if fanout < 0 or len(known) <= fanout:
            assert drawn == known
        else:
            key = int(mixed(key_of(seed, 0, NEIGHBORS, 1), np.uint64(nodes[i])))
            assert drawn == [known[place] for place in oracles.floyd(key, len(known), fanout)]


def test_each_neighbour_of_small_lists_and_of_hubs_is_drawn_alike(make_adjacency):
    lists = lists_of_degrees([10, 700, 3])
    adjacency = make_adjacency(lists)
    for node, fanout in ((0, 3), (1, 70), (1, 5)):
        counts = dict.fromkeys(lists[node], 0)
        for step in range(1500):
            for drawn in sample_neighbors(adjacency, np.array([node]), fanout, seed=2, step=step)[1].tolist():
                counts[drawn] += 1
        # Drawing without replacement spreads less than chi-square allows for, hence one side only.
        assert chi_square(list(counts.values())) < 4
        assert min(counts.values()) > 0


def test_every_pair_of_a_list_is_drawn_alike(make_adjacency):
    # Ten pairs of five neighbours, 12,000 nodes of the same list.
    adjacency = make_adjacency([[3, 4, 8, 9, 20]] * 12_000, num_shards=3)
    _, drawn = sample_neighbors(adjacency, np.arange(12_000), 2, seed=11)
    pairs = np.sort(drawn.reshape(-1, 2), axis=1)
    counts = [np.count_nonzero((pairs == pair).all(axis=1)) for pair in itertools.combinations([3, 4, 8, 9, 20], 2)]
    assert sum(counts) == 12_000
    assert abs(chi_square(counts)) < 4


@pytest.mark.parametrize("num_shards", [1, 2, 3, 7, 16])
def test_lists_around_the_size_of_a_hub_are_drawn_from_whole(make_adjacency, num_shards):
    lists = lists_of_degrees([512, 513, 1024, 1025] * 8, seed=num_shards)
    adjacency = make_adjacency(lists, num_shards=num_shards)
    nodes = np.array([shard + local * num_shards for shard in range(num_shards)
                      for local in range(32 * (shard + 1) // num_shards - 32 * shard // num_shards)])  # fmt: skip
    for node, known in zip(nodes.tolist(), lists):
        seen = set()
        for step in range(40):
            drawn = sample_neighbors(adjacency, np.array([node]), 300, seed=step)[1].tolist()
            assert len(set(drawn)) == 300
            seen.update(drawn)
        # 40 samples of 300 out of 1025 miss a given neighbour with (725 / 1025)^40 = 1e-6; the seeds are fixed.
        assert seen == set(known)


@pytest.mark.parametrize("fanout", [701, 10**6, 10**15, 2**63 - 1, 10**30])
def test_a_fanout_past_every_degree_takes_all_in_the_room_of_what_is_there(make_adjacency, fanout):
    lists = lists_of_degrees([3, 0, 700] * 50)
    indptr, neighbors = sample_neighbors(make_adjacency(lists), np.arange(150), fanout, seed=0)
    assert indptr.tolist() == np.cumsum([0] + [len(known) for known in lists]).tolist()
    assert neighbors.tolist() == [node for known in lists for node in known]


@pytest.mark.parametrize("fanout", [65, 100, 512, 699])
def test_a_large_sample_includes_each_neighbour_alike(make_adjacency, fanout):
    known = list(range(0, 2100, 3))
    adjacency = make_adjacency([known] * 400)
    _, drawn = sample_neighbors(adjacency, np.arange(400), fanout, seed=fanout)
    drawn = drawn.reshape(400, fanout)
    assert (np.diff(np.sort(drawn, axis=1), axis=1) > 0).all()
    counts = np.bincount(drawn.ravel() // 3, minlength=700)
    # Each count is binomial (400, p), so chi-square is to be scaled by 1 − p.
    share = fanout / 700
    statistic = ((counts - 400 * share) ** 2 / (400 * share * (1 - share))).sum()
    assert abs(statistic - 699) / np.sqrt(2 * 699) < 4


def test_samples_differ_by_seed_step_hop_and_node(make_adjacency):
    adjacency = make_adjacency([list(range(4000))] * 2)
    draws = [
        tuple(sample_neighbors(adjacency, np.array([node]), 20, seed=seed, step=step, hop=hop)[1].tolist())
        for node, seed, step, hop in [(0, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)]
    ]
    assert len(set(draws)) == 5


def test_samples_do_not_depend_on_threads_or_on_who_is_asked_beside(make_adjacency):
    random = np.random.default_rng(1)
    adjacency = make_adjacency(lists_of_degrees(random.integers(0, 40, 1000)), num_shards=5)
    nodes = np.tile(np.arange(1000), 30)
    one = sample_neighbors(adjacency, nodes, 10, seed=6, threads=1)
    three = sample_neighbors(adjacency, nodes, 10, seed=6, threads=3)
    assert np.array_equal(one[0], three[0])
    assert np.array_equal(one[1], three[1])
    alone = sample_neighbors(adjacency, nodes[77:78], 10, seed=6)[1]
    assert np.array_equal(alone, one[1][one[0][77] : one[0][78]])


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 20)), max_size=6))
def test_labels_count_up_in_the_order_of_first_sight(batches):
    relabeller = Relabeller()
    for _ in range(2):
        relabeller.clear()
        known = {}
        for batch in batches:
            expected = [known.setdefault(value, len(known)) for value in batch]
            assert relabeller.labels(np.array(batch, np.int64)).tolist() == expected
            assert relabeller.nodes.tolist() == list(known)


def test_a_new_relabeller_knows_no_label():
    relabeller = Relabeller()
    assert relabeller.nodes.size == 0
    assert relabeller.labels(np.array([0])).tolist() == [0]
    assert relabeller.nodes.tolist() == [0]


def test_labels_are_forgotten_by_every_clear_and_after_growth():
    relabeller, random = Relabeller(), np.random.default_rng(4)
    for size in [3, 2000, 10, 5000, 0, 40_000, 10, 100]:
        relabeller.clear()
        assert relabeller.num_nodes == 0
        values = random.integers(0, 3 * size + 1, size)
        labels = relabeller.labels(values)
        first = dict.fromkeys(values.tolist())
        assert relabeller.nodes.tolist() == list(first)
        assert relabeller.nodes[labels].tolist() == values.tolist()


def test_labels_survive_growth():
    relabeller = Relabeller()
    relabeller.clear()
    values = np.random.default_rng(2).integers(0, 50_000, 100_000)
    out = np.concatenate([relabeller.labels(part) for part in np.array_split(values, 7)])
    assert np.array_equal(relabeller.nodes[out], values)
    assert relabeller.num_nodes == np.unique(values).size


def expand(lists, seeds, fanouts, seed, types):
    """Sample with dicts: each hop expands what the one before found first. Returns the hops' (src, dst) pairs."""
    known = {name: dict.fromkeys([]) for name in types}
    known[types[0]] = dict.fromkeys(seeds)
    frontier, hops = list(known[types[0]]), []
    for hop, fanout in enumerate(fanouts):
        here = lists[types[hop % len(types)]]
        dst = known[types[(hop + 1) % len(types)]]
        pairs, found = [], []
        for node in frontier:
            around = here[node]
            places = range(len(around))
            if 0 <= fanout < len(around):
                key = int(mixed(key_of(seed, 0, NEIGHBORS, hop), np.uint64(node)))
                places = oracles.floyd(key, len(around), fanout)
            for place in places:
                pairs.append((node, around[place]))
                if around[place] not in dst:
                    dst[around[place]] = None
                    found.append(around[place])
        hops.append(pairs)
        frontier = found
    return hops, known


@settings(max_examples=30, deadline=None)
@given(
    seeds=st.lists(st.integers(0, 59), max_size=8),
    fanouts=st.lists(st.sampled_from([-1, 0, 1, 3]), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    one_type=st.booleans(),
)
def test_a_subgraph_expands_each_node_once_and_in_order(make_adjacency, seeds, fanouts, seed, one_type):
    random = np.random.default_rng(3)
    types = ["page"] if one_type else ["user", "item"]
    lists, adjacencies = {}, {}
    for name in types:
        lists[name] = [np.unique(random.integers(0, 60, random.integers(0, 8))).tolist() for _ in range(60)]
        adjacencies[name] = make_adjacency(lists[name])
    chain = [
        (types[hop % len(types)], types[(hop + 1) % len(types)], adjacencies[types[hop % len(types)]])
        for hop in range(len(fanouts))
    ]
    sampler = Sampler(chain, fanouts)
    hops, known = expand(lists, seeds, fanouts, seed, types)
    for _ in range(2):  # the workspace is used again
        seed_labels, layers, nodes = sampler.sample(np.array(seeds, np.int64), seed=seed)
        assert nodes.keys() == {name for step in chain for name in step[:2]}
        for name, found in nodes.items():
            assert found.tolist() == list(known[name])
        assert nodes[types[0]][seed_labels].tolist() == seeds
        for (src, dst, _), layer, pairs in zip(chain, layers, hops):
            labels = np.repeat(np.arange(layer.indptr.size - 1) + layer.first, np.diff(layer.indptr))
            drawn = zip(nodes[src][labels].tolist(), nodes[dst][layer.neighbors].tolist())
            assert list(drawn) == pairs


def test_a_sampler_wants_a_fanout_a_hop(make_adjacency):
    with pytest.raises(ValueError, match="2 fanouts for 1 hops"):
        Sampler([("user", "item", make_adjacency([[1]]))], [1, 2])


def test_a_seed_that_is_no_node_is_refused(make_adjacency):
    sampler = Sampler([("user", "user", make_adjacency([[0]]))], [1])
    with pytest.raises(ValueError, match="node 9 at position 1"):
        sampler.sample(np.array([0, 9]), seed=0)
    with pytest.raises(ValueError, match="node 9 at position 0"):
        sample_neighbors(make_adjacency([[0]]), np.array([9]), 1, seed=0)
