"""Walks against a twin in plain Python, and against the chances of their steps."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.draws import WALKS, key_of, mixed
from graph_store.errors import BadInput
from graph_store.sampling.walks import walk
from tests import oracles
from tests.oracles import chi_square

HIGHEST = float(np.finfo(np.float32).max)


def drawable(weight):
    return min(weight, HIGHEST) if weight > 0 else 0.0


def fraction(key, number):
    return (oracles.splitmix64(key, number) >> 11) / 2**53


def pick(entries, places, key, number, method):
    """One of the places of a list; None where there is none."""
    if method == "uniform":
        return places[oracles.draw(key, number, len(places))] if places else None
    weights = [drawable(entries[place][1]) for place in places]
    total = 0.0
    for weight in weights:
        total += weight
    target, before = fraction(key, number) * total, 0.0
    for place, weight in zip(places, weights):
        before += weight
        if before > target:
            return place
    return None


def twin_walk(chain, start, key, *, length, method="uniform", restart=0.0, time=None, strict=False, window=None,
              p=1.0, q=1.0, distinct=False):  # fmt: skip
    """Walk through dicts of lists of (neighbour, weight, time)."""
    path, clock, before = [start], time, None
    for hop in range(length):
        node = path[-1]
        if node < 0:
            path.append(-1)
            continue
        if restart > 0 and hop > 0 and hop % len(chain) == 0 and fraction(key, hop << 32) < restart:
            node, clock, before = start, time, None
        entries = chain[hop % len(chain)].get(node, [])
        places = list(range(len(entries)))
        if time is not None:
            places = [place for place in places if (entries[place][2] > clock if strict else entries[place][2] >= clock)
                      and (window is None or entries[place][2] <= clock + window)]  # fmt: skip
        if before is None or (p == 1 and q == 1):
            place = pick(entries, places, key, (hop << 32) + 1, method)
        else:
            known = {entry[0] for entry in chain[0].get(before, [])}
            place = twin_second(entries, places, known, before, key, hop, method, p, q, distinct)
        path.append(-1 if place is None else entries[place][0])
        before = node
        clock = None if time is None or place is None else entries[place][2]
    return path


def twin_second(entries, places, known, before, key, hop, method, p, q, distinct):
    """Reject as node2vec's kernel does; read the list whole in the end."""
    limit, attempt = max(1, 1 / q), 0
    apart = 1 / p > limit and method == "uniform" and not any(entry[2] is not None for entry in entries)
    copies = 1 if distinct else sum(entry[0] == before for entry in entries)
    highest = limit + (1 / p - limit) * copies / max(1, len(entries)) if apart else max(limit, 1 / p)
    while True:
        number = (hop << 32) + 1 + 2 * attempt
        if attempt >= max(16, len(entries)):
            sums, total = [], 0.0
            for neighbor, weight, _ in entries:
                factor = 1 / p if neighbor == before else 1.0 if neighbor in known else 1 / q
                total += factor * (1.0 if method == "uniform" else drawable(weight))
                sums.append(total)
            return next((place for place, sum_ in enumerate(sums) if sum_ > fraction(key, number) * total), None)
        score = highest * fraction(key, number + 1)
        if entries and apart and score >= limit:
            attempt += 1
            back = [place for place, entry in enumerate(entries) if entry[0] == before]
            if back:
                return back[0]
            continue
        place = pick(entries, places, key, number, method)
        if place is None:
            return None
        neighbor = entries[place][0]
        if score < (1 / p if neighbor == before else 1.0 if neighbor in known else 1 / q):
            return place
        attempt += 1


def unit_key(seed, unit, step=0):
    return int(mixed(key_of(seed, step, WALKS), np.uint64(unit)))


def dense_nodes(num_nodes, num_shards):
    """The nodes in dense order: shard by shard."""
    base = [num_nodes * shard // num_shards for shard in range(num_shards + 1)]
    return [local * num_shards + shard for shard in range(num_shards) for local in range(base[shard + 1] - base[shard])]


@st.composite
def graphs(draw, *, timed):
    """Lists of the nodes in dense order, sorted as a store has them, and how many shards."""
    num_shards = draw(st.sampled_from([1, 2, 3, 16]))
    num_nodes = draw(st.integers(1, 100))
    nodes = dense_nodes(num_nodes, num_shards)
    random = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    hub = draw(st.integers(0, num_nodes - 1))
    lists = []
    for rank in range(num_nodes):
        degree = 700 if rank == hub else int(random.integers(0, 6))
        ends = random.choice(nodes, degree).tolist()
        # Whole weights, so that their sums are the same in any order; some are never drawn.
        weights = random.choice([0.0, -2.0, math.nan, 1.0, 2.0, 5.0], degree).tolist()
        times = random.integers(-5, 9, degree).tolist() if timed else [None] * degree
        entries = sorted(zip(ends, weights, times), key=lambda entry: (entry[2] or 0, entry[0]))
        lists.append(entries)
    return lists, nodes, num_shards


COMMON = {
    "length": st.integers(1, 7),
    "walks": st.integers(1, 3),
    "seed": st.integers(-(2**63), 2**63 - 1),
    "restart": st.sampled_from([0.0, 0.3, 1.0]),
    "threads": st.sampled_from([1, 2]),
}


def check_walks(make_adjacency, graph, arguments, *, weighted, timed, times=None):
    lists, nodes, num_shards = graph
    adjacency = make_adjacency(lists, num_shards=num_shards, weighted=weighted, timed=timed)
    adjacency.distinct = arguments.get("distinct", False)
    known = dict(zip(nodes, lists))
    options = {name: value for name, value in arguments.items() if name != "distinct"}
    found = walk([adjacency], np.array(nodes), times=None if times is None else np.array(times), **options)
    walks, seed = arguments.pop("walks"), arguments.pop("seed")
    arguments.pop("threads")
    assert found.shape == (len(nodes) * walks, arguments["length"] + 1)
    for row, path in enumerate(found.tolist()):
        time = None if times is None else times[row // walks]
        expected = twin_walk([known], nodes[row // walks], unit_key(seed, row), time=time, **arguments)
        assert path == expected


@settings(max_examples=40, deadline=None)
@given(graph=graphs(timed=False), **COMMON)
def test_uniform_walks_are_those_of_the_twin(make_adjacency, graph, **arguments):
    check_walks(make_adjacency, graph, arguments, weighted=False, timed=False)


def without_hub(graph):
    """The tree of a hub has its places in an order of its own: see test_weights."""
    lists, nodes, num_shards = graph
    return [entries[:500] for entries in lists], nodes, num_shards


@settings(max_examples=40, deadline=None)
@given(graph=graphs(timed=False), **COMMON)
def test_weighted_walks_are_those_of_the_twin(make_adjacency, graph, **arguments):
    check_walks(make_adjacency, without_hub(graph), {**arguments, "method": "weighted"}, weighted=True, timed=False)


@settings(max_examples=60, deadline=None)
@given(
    graph=graphs(timed=True),
    method=st.sampled_from(["uniform", "weighted"]),
    strict=st.booleans(),
    window=st.sampled_from([None, 0, 1, 4, 2**63 - 1]),
    begin=st.sampled_from([-(2**63), -6, 0, 3, 8, 9, 2**63 - 1]),
    **COMMON,
)
def test_walks_in_time_are_those_of_the_twin(make_adjacency, graph, method, strict, window, begin, **arguments):
    graph = without_hub(graph) if method == "weighted" else graph
    times = [begin if begin > 2**40 or begin < -(2**40) else begin + rank % 3 for rank in range(len(graph[1]))]
    arguments |= {"method": method, "strict": strict, "window": window}
    check_walks(make_adjacency, graph, arguments, weighted=method == "weighted", timed=True, times=times)


@settings(max_examples=60, deadline=None)
@given(
    graph=st.one_of(graphs(timed=False), graphs(timed=True)),
    method=st.sampled_from(["uniform", "weighted"]),
    p=st.sampled_from([0.01, 0.5, 1.0, 4.0, 1000.0]),
    q=st.sampled_from([0.01, 0.5, 1.0, 4.0, 1000.0]),
    distinct=st.booleans(),
    **COMMON,
)
def test_node2vec_walks_are_those_of_the_twin(make_adjacency, graph, method, p, q, distinct, **arguments):
    timed = any(entries and entries[0][2] is not None for entries in graph[0])
    graph = without_hub(graph) if method == "weighted" else graph
    if distinct and not timed:
        graph = [list({entry[0]: entry for entry in own}.values()) for own in graph[0]], *graph[1:]
    arguments |= {"method": method, "p": p, "q": q, "distinct": distinct and not timed}
    check_walks(make_adjacency, graph, arguments, weighted=method == "weighted", timed=timed)


def test_hops_alternate_between_a_type_and_its_reverse(make_adjacency):
    users = [[0, 1], [1], [0, 2, 3], []]
    items = [[user for user, own in enumerate(users) if item in own] for item in range(4)]
    chain = [make_adjacency(users), make_adjacency(items)]
    for restart in (0.0, 0.4):
        found = walk(chain, np.arange(4), length=7, walks=50, restart=restart, seed=3)
        lists = [{node: [(end, None, None) for end in own] for node, own in enumerate(side)} for side in (users, items)]
        for row, path in enumerate(found.tolist()):
            assert path == twin_walk(lists, row // 50, unit_key(3, row), length=7, restart=restart)
        assert (found[150:, 1:] == -1).all()


def test_a_step_leads_to_each_neighbour_as_often_as_its_weight_says(make_adjacency):
    random = np.random.default_rng(2)
    small = [(node, float(node % 5), None) for node in range(1, 9)]
    # Each hub's weights are far from alike, and lie in several chunks.
    large = [(node, float(np.float32(random.pareto(1.0))), None) for node in range(0, 1400, 2)]
    adjacency = make_adjacency([small, large, *[[]] * 1400], weighted=True)
    for node, entries in ((0, small), (1, large)):
        ends = walk([adjacency], np.full(60_000, node), length=1, method="weighted", seed=8)[:, 1]
        weights = np.array([entry[1] for entry in entries])
        counts = np.array([np.count_nonzero(ends == entry[0]) for entry in entries])
        assert counts.sum() == 60_000
        assert (counts[weights == 0] == 0).all()
        expected = 60_000 * weights / weights.sum()
        many = expected >= 5
        counts, expected = (
            np.append(counts[many], counts[~many].sum()),
            np.append(expected[many], expected[~many].sum()),
        )
        assert abs(chi_square(counts[expected > 0], expected[expected > 0])) < 4


def test_walks_of_weight_nothing_end(make_adjacency):
    adjacency = make_adjacency(
        [[(0, 0.0, None), (1, -1.0, None), (1, math.nan, None)], [(0, 1.0, None)]], weighted=True
    )
    found = walk([adjacency], np.array([0, 1]), length=3, method="weighted", seed=1)
    assert found.tolist() == [[0, -1, -1, -1], [1, 0, -1, -1]]


def test_one_enormous_weight_takes_all_and_leaves_the_others_where_it_is_out_of_the_window(make_adjacency):
    entries = [(1, 1.0, 1), (2, 3.0, 1), (3, 1e30, 2), *((4, 1.0, 3) for _ in range(700)), (5, 2.0, 4)]
    adjacency = make_adjacency([entries, *[[]] * 5], weighted=True, timed=True)
    nodes, first = np.zeros(4000, np.int64), np.full(4000, -9)
    options = {"length": 1, "method": "weighted", "seed": 1}
    assert (walk([adjacency], nodes, times=first, **options)[:, 1] == 3).all()
    early = walk([adjacency], nodes, times=first + 9, window=1, **options)[:, 1]
    assert abs(chi_square(np.bincount(early, minlength=3)[1:], np.array([1000, 3000]))) < 4
    late = walk([adjacency], nodes, times=first + 12, **options)[:, 1]
    assert abs(chi_square(np.bincount(late, minlength=6)[4:], 4000 * np.array([700, 2]) / 702)) < 4


def test_a_walk_starts_again_with_its_probability(make_adjacency):
    # A line 0 → 1 → … → 200 and on: from a start again the next node is 1, otherwise the next of the line.
    adjacency = make_adjacency([[node + 1] for node in range(200)] + [[0]])
    found = walk([adjacency], np.zeros(20_000, np.int64), length=30, restart=0.3, seed=5)
    again = (found[:, 2:] == 1).mean(axis=0)
    # 29 columns of 20,000: each within four standard deviations.
    assert np.abs(again - 0.3).max() < 4 * math.sqrt(0.21 / 20_000)
    assert (found[:, 1] == 1).all()
    assert ((found[:, 2:] == 1) | (found[:, 2:] == found[:, 1:-1] + 1)).all()
    # How far it comes without one: 0.7 to the power of it.
    lengths = np.bincount(found[:, 30], minlength=31)[1:31]
    expected = np.append(0.3 * 0.7 ** np.arange(29), 0.7**29) * 20_000
    many = expected >= 5
    counts = np.append(lengths[many], lengths[~many].sum())
    assert abs(chi_square(counts, np.append(expected[many], expected[~many].sum()))) < 4


def test_a_walk_never_goes_back_in_time(make_adjacency):
    random = np.random.default_rng(1)
    times = {}
    lists = []
    for node in range(300):
        ends = random.integers(0, 300, 12).tolist()
        own = sorted(zip(random.integers(0, 40, 12).tolist(), ends))
        for time, end in own:
            times.setdefault((node, end), set()).add(time)
        lists.append([(end, None, time) for time, end in own])
    adjacency = make_adjacency(lists, timed=True, num_shards=3)
    nodes = np.repeat(dense_nodes(300, 3), 4)
    known = dict(zip(dense_nodes(300, 3), range(300)))
    for strict, window in ((False, None), (True, None), (False, 3), (True, 5)):
        begins = random.integers(0, 30, nodes.size)
        found = walk([adjacency], nodes, length=6, times=begins, strict=strict, window=window, seed=4)
        assert (found[:, 1] >= 0).mean() > 0.3
        for path, begin in zip(found.tolist(), begins.tolist()):
            # Some choice of times along the path is in order: keep all clocks that are possible.
            clocks = {begin}
            for node, end in zip(path, path[1:]):
                if end < 0:
                    break
                clocks = {
                    time
                    for time in times[known[node], end]
                    for clock in clocks
                    if (time > clock if strict else time >= clock) and (window is None or time <= clock + window)
                }
                assert clocks


def test_walks_of_one_node_are_independent(make_adjacency):
    # Two walks from one start, their first two nodes: joint frequencies are the product of the marginals.
    lists = [[1, 2, 3, 4], [5, 6, 7], [5, 6, 7], [6, 7], [7], [0], [0], [0]]
    rounds = 12_000
    for method in ({}, {"p": 0.25, "q": 4.0}, {"restart": 0.2}):
        found = walk([make_adjacency(lists)], np.zeros(rounds, np.int64), length=3, walks=3, seed=6, **method)
        found = found.reshape(rounds, 3, 4)
        outcomes, label = np.unique(found[:, :, 1] * 8 + found[:, :, 3], return_inverse=True)
        label = label.reshape(rounds, 3)
        for one, other in ((0, 1), (0, 2), (1, 2)):
            joint = np.zeros((outcomes.size, outcomes.size))
            np.add.at(joint, (label[:, one], label[:, other]), 1)
            expected = np.outer(joint.sum(axis=1), joint.sum(axis=0)) / rounds
            many = expected > 5
            cells, likely = np.append(joint[many], joint[~many].sum()), np.append(expected[many], expected[~many].sum())
            keep = likely > 0
            # Marginals that are taken from the table cost it 2 · (outcomes − 1) degrees of freedom of several hundred.
            assert abs(chi_square(cells[keep], likely[keep])) < 4


def test_walks_that_meet_part_again(make_adjacency):
    # Both ends lead to node 2, and from there the ways are many.
    lists = [[2], [2], list(range(3, 1003)), *[[2]] * 1000]
    found = walk([make_adjacency(lists)], np.array([0, 1] * 500), length=2, seed=1)
    assert (found[:, 1] == 2).all()
    assert (found[::2, 2] == found[1::2, 2]).mean() < 0.02
    assert np.unique(found[:, 2]).size > 550  # 1000 · (1 − e⁻¹) = 632 of 1000 draws


def test_the_same_walks_at_any_number_of_threads_and_for_any_cut_of_the_starts(make_adjacency):
    random = np.random.default_rng(3)
    lists = [
        sorted((int(end), float(random.random()), None) for end in random.integers(0, 900, random.integers(0, 30)))
        for _ in range(900)
    ]
    adjacency = make_adjacency(lists, num_shards=4, weighted=True)
    nodes = random.integers(0, 900, 20_000)
    for options in ({}, {"method": "weighted", "restart": 0.2}, {"p": 0.5, "q": 2.0}):
        whole = walk([adjacency], nodes, length=8, walks=2, seed=5, step=3, **options)
        for threads in (2, 4):
            again = walk([adjacency], nodes, length=8, walks=2, seed=5, step=3, threads=threads, **options)
            assert np.array_equal(again, whole)
        parts = [
            walk(
                [adjacency], nodes[own], length=8, walks=2, seed=5, step=3, positions=np.arange(20_000)[own], **options
            )
            for own in (slice(0, 7777), slice(7777, None))
        ]
        assert np.array_equal(np.concatenate(parts), whole)
        assert not np.array_equal(walk([adjacency], nodes, length=8, walks=2, seed=5, step=4, **options), whole)


def test_what_cannot_be_walked_is_refused_in_one_line(make_adjacency):
    plain = make_adjacency([[1], [0]])
    timed = make_adjacency([[(1, None, 3)], [(0, None, 3)]], timed=True)
    nodes = np.array([0, 1])

    def refused(message, adjacency=plain, chain=None, error=BadInput, **options):
        with pytest.raises(error, match=message) as caught:
            walk(chain or [adjacency], options.pop("starts", nodes), **{"length": 2, "seed": 0, **options})
        assert "\n" not in str(caught.value)

    refused("method must be one of uniform, weighted, got 'best'", method="best")
    refused("method 'weighted' needs weights, but edges of hop 1 have none", method="weighted")
    refused("times need edges with times, but those of hop 1 have none", times=[1, 2])
    refused("strict and window need times", timed, strict=True)
    refused("strict and window need times", timed, window=3)
    refused("window must be a time span from 0 on, got -1", timed, times=[1, 2], window=-1)
    refused("restart must be a probability, 0 to 1, got 1.5", restart=1.5)
    refused("restart must be a probability", restart=math.nan)
    for value in (0, -1, math.nan, math.inf):
        refused("p must be a number above 0", p=value)
        refused("q must be a number above 0", q=value)
    refused("p and q need one edge type between nodes of one type, got 2 in turn", chain=[plain, plain], p=2)
    refused("p and q do not go with times", timed, q=2, times=[1, 2])
    refused("length and walks must be 1 or more, got 0 and 1", length=0)
    refused("length and walks must be 1 or more, got 2 and -1", walks=-1)
    refused("times must be as many as starts, got 1 and 2", timed, times=[1], error=ValueError)
    refused("positions must be as many as starts, got 3 and 2", positions=[1, 2, 3], error=ValueError)
    refused("times must be integers, got float64", timed, times=[1.5, 2.5], error=TypeError)
    refused("node 2 at position 0 is no source node", starts=np.array([2]), error=ValueError)


def test_no_start_gives_no_walk(make_adjacency):
    assert walk([make_adjacency([[0]])], np.empty(0, np.int64), length=3, walks=2, seed=0).shape == (0, 4)
