"""Lists read straight from packed words, against the lists that went in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SHARDS = [1, 2, 3, 7, 16]


def random_lists(degrees, *, bits, seed, weighted=False, timed=False, numbered=False):
    """Return ascending lists without repeats (by time where there are times), as the store keeps them."""
    random = np.random.default_rng(seed)
    lists = []
    for degree in degrees:
        if 2**bits < 4 * degree:
            neighbors = np.sort(random.permutation(2**bits)[:degree])
        else:
            neighbors = np.unique(random.integers(0, 2**bits, degree))
        size = neighbors.size
        times = np.sort(random.integers(-(2**63), 2**63 - 1, size, endpoint=True)).tolist() if timed else [None] * size
        weights = random.standard_normal(size).astype(np.float32).tolist() if weighted else [None] * size
        if timed:
            random.shuffle(neighbors)
        columns = [neighbors.tolist(), weights, times]
        if numbered:
            columns.append(random.integers(0, 2**56, size).tolist())
        lists.append(list(zip(*columns)))
    return lists


def nodes_of(num_lists, num_shards):
    """Return the node of each list, by the definition `local * num_shards + shard`."""
    base = [num_lists * shard // num_shards for shard in range(num_shards + 1)]
    return np.array(
        [
            local * num_shards + shard
            for shard in range(num_shards)
            for local in range(base[shard + 1] - base[shard])
        ],
        np.int64,
    )  # fmt: skip


def check(adjacency, lists, num_shards, *, weighted=False, timed=False, numbered=False, seed=0):
    """Compare every answer with the lists."""
    nodes = nodes_of(len(lists), num_shards)
    flat = [entry for entries in lists for entry in entries]
    assert adjacency.num_edges == len(flat)
    order = np.random.default_rng(seed).permutation(len(lists))
    asked = nodes[order]
    assert adjacency.degrees(asked).tolist() == [len(lists[i]) for i in order]
    indptr, neighbors, weights, times = adjacency.lists(asked, extras=True)
    assert indptr.tolist() == np.cumsum([0] + [len(lists[i]) for i in order]).tolist()
    expected = [entry for i in order for entry in lists[i]]
    assert neighbors.tolist() == [entry[0] for entry in expected]
    assert (weights is not None, times is not None) == (weighted, timed)
    if weighted:
        assert weights.tolist() == [entry[1] for entry in expected]
    if timed:
        assert times.tolist() == [entry[2] for entry in expected]
    edge_ids = adjacency.columns(asked)[4]
    assert (edge_ids is not None) == numbered
    if numbered:
        assert edge_ids.tolist() == [entry[3] for entry in expected]
        assert np.array_equal(adjacency.columns(asked, weights=False, times=False)[4], edge_ids)
    again = adjacency.neighbors(asked)
    assert np.array_equal(again[0], indptr)
    assert np.array_equal(again[1], neighbors)
    positions = np.arange(len(flat))[::-1]
    sources, targets = adjacency.edges_at(positions)
    by_position = [(node, entry[0]) for node, entries in zip(nodes.tolist(), lists) for entry in entries]
    assert list(zip(sources.tolist(), targets.tolist())) == by_position[::-1]
    if timed:
        assert adjacency.times_at(positions).tolist() == [entry[2] for entry in flat[::-1]]
    if flat:
        assert adjacency.has_edges(sources, targets).all()


@settings(max_examples=30, deadline=None)
@given(
    degrees=st.lists(st.one_of(st.integers(0, 30), st.sampled_from([0, 0, 512, 513, 1025])), max_size=70),
    num_shards=st.sampled_from(SHARDS),
    bits=st.integers(11, 57),
    columns=st.tuples(*[st.booleans()] * 3),
)
def test_lists_degrees_and_edges_are_those_that_went_in(make_adjacency, degrees, num_shards, bits, columns):
    kinds = dict(zip(("weighted", "timed", "numbered"), columns))
    lists = random_lists(degrees, bits=bits, seed=len(degrees), **kinds)
    check(make_adjacency(lists, num_shards=num_shards, bits=bits, **kinds), lists, num_shards, **kinds)


@pytest.mark.parametrize("bits", [1, 2, 3, 9, 10, 31, 32, 33, 57])
def test_any_width_of_a_neighbour_is_read(make_adjacency, bits):
    degrees = [min(2**bits, degree) for degree in (3, 0, 700, 1, 1024, 2, 513, 512)]
    lists = random_lists(degrees, bits=bits, seed=bits, weighted=True, timed=True)
    check(make_adjacency(lists, bits=bits, weighted=True, timed=True), lists, 1, weighted=True, timed=True)


def test_hubs_alone_together_and_between_empty_groups(make_adjacency):
    degrees = [0] * 40 + [513] + [0] * 31 + [1024, 1025, 512, 4000, 0, 513] + [0] * 10 + [1] * 5 + [0] * 100 + [600]
    lists = random_lists(degrees, bits=20, seed=5)
    check(make_adjacency(lists), lists, 1)


@pytest.mark.parametrize("num_shards", SHARDS)
@pytest.mark.parametrize("timed", [False, True])
def test_hubs_at_the_ends_of_shards_and_groups(make_adjacency, num_shards, timed):
    degrees = ([513] + [0] * 14 + [512] + [1024, 1] + [2] * 13 + [1025]) * 3 + [0, 0, 600]
    lists = random_lists(degrees, bits=21, seed=num_shards, weighted=True, timed=timed)
    adjacency = make_adjacency(lists, num_shards=num_shards, weighted=True, timed=timed)
    check(adjacency, lists, num_shards, weighted=True, timed=timed)


def test_nodes_around_a_hub_of_all_equal_times(make_adjacency):
    same = [(node, 1.0, -5) for node in range(700)]
    lists = [same[:3], same, [], same[:512], same[:513]]
    check(make_adjacency(lists, weighted=True, timed=True), lists, 1, weighted=True, timed=True)


def test_a_group_of_sixteen_hubs(make_adjacency):
    lists = random_lists([513 + i for i in range(16)] + [2], bits=12, seed=6, weighted=True, timed=True)
    check(make_adjacency(lists, weighted=True, timed=True), lists, 1, weighted=True, timed=True)


def test_extreme_times_come_back(make_adjacency):
    ends = [-(2**63), -1, 0, 2**63 - 1]
    lists = [[(i, 0.5, time) for i, time in enumerate(ends)], [(7, 1.0, 2**63 - 1)] * 3, [], [(1, 2.0, -(2**63))]]
    check(make_adjacency(lists, weighted=True, timed=True), lists, 1, weighted=True, timed=True)


def test_unusual_weights_keep_their_bits(make_adjacency):
    values = np.array([-0.0, np.inf, -np.inf, np.float32(1e-45), np.nan, 3.4028235e38], np.float32)
    adjacency = make_adjacency([[(i, value, None) for i, value in enumerate(values)]], weighted=True)
    weights = adjacency.lists(np.array([0]), extras=True)[2]
    assert weights.tobytes() == values.tobytes()


def test_has_edges_finds_all_that_are_there_and_nothing_else(make_adjacency):
    for timed in (False, True):
        lists = random_lists([5, 0, 600, 64, 1, 512, 513], bits=11, seed=8, timed=timed)
        adjacency = make_adjacency(lists, bits=11, timed=timed)
        known = [{entry[0] for entry in entries} for entries in lists]
        for node, neighbors in enumerate(known):
            targets = np.arange(-3, 2**11 + 3)
            found = adjacency.has_edges(np.full(targets.size, node), targets)
            assert set(targets[found].tolist()) == neighbors


def test_has_edges_refuses_targets_of_another_length(make_adjacency):
    with pytest.raises(ValueError, match="as many"):
        make_adjacency([[1]]).has_edges(np.array([0, 0]), np.array([1]))


def test_a_repeated_node_is_answered_again_and_no_nodes_get_no_lists(make_adjacency):
    adjacency = make_adjacency([[4, 9], [], [2]])
    indptr, neighbors = adjacency.neighbors(np.array([2, 0, 0, 1, 2]))
    assert (indptr.tolist(), neighbors.tolist()) == ([0, 1, 3, 5, 5, 6], [2, 4, 9, 4, 9, 2])
    indptr, neighbors = adjacency.neighbors(np.empty(0, np.int64))
    assert (indptr.tolist(), neighbors.tolist()) == ([0], [])
    assert adjacency.degrees([]).tolist() == []
    assert [part.tolist() for part in adjacency.edges_at([])] == [[], []]


@pytest.mark.parametrize("num_shards", SHARDS)
def test_no_nodes_and_nodes_without_edges(make_adjacency, num_shards):
    for lists in ([], [[]], [[]] * 2000):
        check(make_adjacency(lists, num_shards=num_shards), lists, num_shards)


@pytest.mark.parametrize("node", [-1, -(2**63), 2**63 - 1, 12, 13, 14, 8])
def test_a_node_that_is_none_is_refused_by_value_and_place(make_adjacency, node):
    # Shards of 2, 2 and 3 nodes: the nodes 0, 3 | 1, 4 | 2, 5, 8 → 6, 7 and 9 on are none.
    adjacency = make_adjacency([[1]] * 7, num_shards=3)
    node = 6 if node == 8 else node
    for ask in (adjacency.degrees, adjacency.neighbors, lambda nodes: adjacency.has_edges(nodes, nodes)):
        with pytest.raises(ValueError, match=f"node {node} at position 2 is no source node"):
            ask(np.array([0, 8, node]))


@pytest.mark.parametrize("position", [-1, 3])
def test_an_edge_position_outside_is_refused(make_adjacency, position):
    with pytest.raises(ValueError, match="must be in 0 … 2"):
        make_adjacency([[1, 2], [3]]).edges_at(np.array([position]))


@pytest.mark.parametrize("nodes", [[0.0], ["0"], [True], [None], np.array([0], "datetime64[s]")])
def test_nodes_of_another_kind_are_refused(make_adjacency, nodes):
    adjacency = make_adjacency([[1]])
    for ask in (
        adjacency.degrees,
        adjacency.neighbors,
        lambda nodes: adjacency.has_edges(nodes, [0]),
        lambda nodes: adjacency.has_edges([0], nodes),
        adjacency.edges_at,
    ):
        with pytest.raises(TypeError, match="must be integers, got"):
            ask(nodes)


def test_nodes_of_two_dimensions_or_past_int64_are_refused(make_adjacency):
    adjacency = make_adjacency([[1]] * 4)
    with pytest.raises(ValueError, match=r"nodes must have one dimension, got shape \(2, 2\)"):
        adjacency.degrees([[0, 1], [2, 3]])
    with pytest.raises(ValueError, match="targets must be below 2\\^63, got 18446744073709551615"):
        adjacency.has_edges([0], np.array([2**64 - 1], np.uint64))


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.uint64])
def test_nodes_of_every_integer_type_and_one_alone_are_taken(make_adjacency, dtype):
    adjacency = make_adjacency([[1], [2, 3]])
    assert adjacency.degrees(np.array([1, 0, 1], dtype)[::2]).tolist() == [2, 2]
    assert adjacency.degrees(dtype(0)).tolist() == [1]


def test_answers_do_not_depend_on_the_number_of_threads(make_adjacency):
    lists = random_lists(np.random.default_rng(0).integers(0, 20, 3000), bits=24, seed=9, weighted=True)
    answers = []
    for threads in (1, 3):
        adjacency = make_adjacency(lists, num_shards=7, weighted=True, threads=threads)
        random = np.random.default_rng(1)
        asked = random.permutation(np.tile(nodes_of(3000, 7), 20))
        answers.append(
            [
                adjacency.degrees(asked),
                *adjacency.lists(asked, extras=True)[:3],
                *adjacency.edges_at(random.integers(0, adjacency.num_edges, 100_000)),
                adjacency.has_edges(asked, random.integers(0, 2**24, asked.size)),
            ]
        )
    for one, three in zip(*answers):
        assert np.array_equal(one, three)
