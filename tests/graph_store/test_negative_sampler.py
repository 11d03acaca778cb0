"""NegativeSampler: by degree, in the batch, by time, of training only; against a twin in plain Python."""

import itertools
import time
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, GraphWriter
from graph_store.draws import NEGATIVES, key_of, mixed
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.negatives import NegativeSampler, popularity, sample_negatives
from tests import oracles
from tests.oracles import chi_square

CLICKS, BACK = "user:clicks:item", "item:rev_clicks:user"


def nodes(values):
    return np.array(list(values), np.int64)


def pairs(values):
    """Exclusions of (src, dst) pairs."""
    return Exclusions(*nodes(itertools.chain(*values)).reshape(-1, 2).T.copy())


def drawn(sampler, source, *, count=1, **options):
    """Draw for one source at `count` positions."""
    return sampler.sample(np.full(count, source), np.arange(count), **{"seed": 0} | options)


def pick(unit, attempt, weights):
    """One place by its weight, by hand."""
    if weights is None:
        return None
    sums = list(itertools.accumulate(weights))
    return bisect_right(sums, oracles.draw(unit, attempt, 2**53) / 2**53 * sums[-1])


def twin(edges, asked, candidates, weights, *, bounds, targets, held_out, taken, fallback, tries, seed, k):
    """Negatives one by one, with sets; `edges` are (src, dst, time)."""
    out = []
    for position, source in enumerate(asked):
        bound = None if bounds is None else bounds[position]
        forbidden = {
            dst
            for src, dst, time in edges
            if src == source and (src, dst) not in held_out and (bound is None or time is None or time <= bound)
        }
        forbidden |= {dst for src, dst in taken if src == source}
        if targets is not None:
            forbidden.add(targets[position])
        unit = int(mixed(key_of(seed, 0, NEGATIVES), np.uint64(position)))
        for number in range(k):
            unit = int(mixed(np.uint64(unit), np.uint64(number)))

            def one(attempt, places, unit=unit):
                if weights is None:
                    return candidates[places[oracles.draw(unit, attempt, len(places))]]
                return candidates[places[pick(unit, attempt, [weights[place] for place in places])]]

            everywhere = list(range(len(candidates)))
            found = next((node for node in (one(i, everywhere) for i in range(tries)) if node not in forbidden), None)
            free = [
                place
                for place in everywhere
                if candidates[place] not in forbidden and (weights is None or weights[place])
            ]
            if found is None and free:
                found = one(tries, free)
            unmet = found is None
            if unmet and fallback == "any":
                found = one(tries + 1, everywhere)
                others = [place for place in everywhere if targets and candidates[place] != targets[position]
                          and (weights is None or weights[place])]  # fmt: skip
                if targets and found == targets[position] and others:
                    found = one(tries + 2, others)
            out.append((-1 if found is None else found, unmet))
    return out


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_every_negative_is_that_of_the_twin(make_adjacency, data):
    timed = data.draw(st.booleans())
    ends = st.tuples(st.integers(0, 4), st.integers(0, 7))
    edges = data.draw(st.lists(st.tuples(ends, st.integers(0, 9)), max_size=40))
    edges = [(*pair, time if timed else None) for pair, time in edges]
    if not timed:
        edges = sorted(set(edges))
    lists = [
        sorted(
            ((dst, None, time) for src, dst, time in edges if src == source), key=lambda edge: (edge[2] or 0, edge[0])
        )
        for source in range(5)
    ]
    adjacency = make_adjacency(lists, timed=timed, bits=3)
    candidates = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=12))
    weights = data.draw(
        st.none() | st.lists(st.sampled_from([0, 1, 2, 5]), min_size=len(candidates), max_size=len(candidates))
    )
    weights = weights if weights and any(weights) else None
    asked = data.draw(st.lists(st.integers(0, 4), max_size=8))
    columns = st.none() | st.lists(st.integers(0, 9), min_size=len(asked), max_size=len(asked))
    bounds, targets = data.draw(columns), data.draw(columns)
    held_out, taken = (data.draw(st.sets(ends, max_size=10)) for _ in range(2))
    options = {
        "fallback": data.draw(st.sampled_from(["mark", "any"])),
        "tries": data.draw(st.sampled_from([0, 1, 3, 32])),
    }
    seed, k = data.draw(st.integers(0, 1000)), data.draw(st.integers(0, 3))
    sampler = NegativeSampler(
        nodes(candidates),
        known=[adjacency],
        weights=weights,
        held_out=pairs(held_out) if held_out else None,
        taken=pairs(taken) if taken else None,
        **options,
    )
    found = sampler.sample(nodes(asked), np.arange(len(asked)), num_negatives=k, seed=seed,
                           targets=None if targets is None else nodes(targets),
                           times=None if bounds is None else nodes(bounds))  # fmt: skip
    expected = twin(
        edges,
        asked,
        candidates,
        weights,
        bounds=bounds,
        targets=targets,
        held_out=held_out,
        taken=taken,
        seed=seed,
        k=k,
        **options,
    )
    assert list(zip(found.nodes.ravel().tolist(), found.unmet.ravel().tolist())) == expected
    assert found.nodes.shape == (len(asked), k)
    assert found.num_unmet == sum(unmet for _, unmet in expected)


@pytest.mark.parametrize("tries", [0, 1, 32])
@pytest.mark.parametrize("alpha", [0.75, 1.0, -0.5])
def test_by_degree_negatives_come_in_proportion_to_a_power_of_it(make_store, tries, alpha):
    # Items 0 … 7 have 1, 2, 4, 8, 1, 3, 9, 0 clicks of others; user 99 has items 2 and 6.
    degrees = {0: 1, 1: 2, 2: 4, 3: 8, 4: 1, 5: 3, 6: 9}
    rows = [(user, item, None, None) for item, size in degrees.items() for user in range(size)]
    rows += [(99, 2, None, None), (99, 6, None, None)]
    with graph_store.open(make_store(rows)) as store:
        sampler = NegativeSampler.of_type(store, CLICKS, method="degree", alpha=alpha, tries=tries)
        found = drawn(sampler, store.to_nodes("user", [99])[0], count=20_000, num_negatives=2, seed=5)
        items = store.to_ids("item", found.nodes.ravel())
    left = {item: size**alpha for item, size in degrees.items() if item not in (2, 6)}
    counts = [np.count_nonzero(items == item) for item in left]
    assert sum(counts) == 40_000
    assert abs(chi_square(counts, 40_000 * np.array(list(left.values())) / sum(left.values()))) < 4


@pytest.mark.parametrize("reverse", [False, True])
def test_popularity_counts_edges_of_training(make_store, reverse):
    rows = [(1, 10, None, None), (2, 10, None, None), (3, 10, None, None), (1, 11, None, None), (2, 12, None, None)]
    with graph_store.open(make_store(rows, reverse=reverse)) as store:
        ids = store.ids("item").tolist()
        assert dict(zip(ids, popularity(store, CLICKS).tolist())) == {10: 3, 11: 1, 12: 1}
        held_out = Exclusions(store.to_nodes("user", [3, 2]), store.to_nodes("item", [10, 12]))
        assert dict(zip(ids, popularity(store, CLICKS, held_out=held_out).tolist())) == {10: 2, 11: 1, 12: 0}
        sampler = NegativeSampler.of_type(store, CLICKS, method="degree", held_out=held_out)
        users = store.to_nodes("user", [3])
        found = sampler.sample(np.repeat(users, 500), np.arange(500), seed=1).nodes
        # 12 is left no edge in training; 10, which user 3 has held out, counts as none of its own.
        assert set(store.to_ids("item", found.ravel()).tolist()) == {10, 11}


def test_a_negative_has_no_edge_up_to_its_time(make_adjacency):
    adjacency = make_adjacency([[(4, None, 10), (5, None, 20), (4, None, 30)]], timed=True)
    sampler = NegativeSampler(nodes([4, 5]), known=[adjacency])
    for bound, left in ((9, {4, 5}), (10, {5}), (19, {5}), (20, {-1}), (99, {-1})):
        assert set(drawn(sampler, 0, count=60, times=np.full(60, bound)).nodes.ravel().tolist()) == left
    assert set(drawn(sampler, 0, count=60).nodes.ravel().tolist()) == {-1}


def test_held_out_edges_may_be_negatives_but_not_of_their_own(make_adjacency):
    adjacency = make_adjacency([[1, 2, 3]])
    sampler = NegativeSampler(nodes([1, 2, 3]), known=[adjacency], held_out=pairs([(0, 2), (0, 3)]))
    assert set(drawn(sampler, 0, count=60).nodes.ravel().tolist()) == {2, 3}
    assert set(drawn(sampler, 0, count=60, targets=np.full(60, 3)).nodes.ravel().tolist()) == {2}


def test_what_is_taken_is_no_negative(make_adjacency):
    sampler = NegativeSampler(np.arange(6), known=[make_adjacency([[1, 2], []])], taken=pairs([(0, 0), (0, 5)]))
    assert set(drawn(sampler, 0, count=60).nodes.ravel().tolist()) == {3, 4}
    assert set(drawn(sampler, 1, count=90).nodes.ravel().tolist()) == set(range(6))


def test_negatives_are_strict_against_every_adjacency(make_adjacency):
    clicks, buys = make_adjacency([[1, 2]]), make_adjacency([[(3, None, 7)]], timed=True)
    sampler = NegativeSampler(np.arange(1, 5), known=[clicks, buys])
    assert set(drawn(sampler, 0, count=60).nodes.ravel().tolist()) == {4}
    assert set(drawn(sampler, 0, count=60, times=np.full(60, 6)).nodes.ravel().tolist()) == {3, 4}


def test_in_the_batch_others_targets_are_drawn_as_often_as_they_are_there(make_adjacency):
    # User 0 has 1; of the six targets of the step 1 is its own, 2 there twice, and 3, 4, 5 once.
    sampler = NegativeSampler(None, known=[make_adjacency([[1], [2], [3]])])
    found = drawn(sampler, 0, count=20_000, candidates=nodes([1, 2, 3, 2, 4, 5])).nodes.ravel()
    counts = [np.count_nonzero(found == node) for node in (2, 3, 4, 5)]
    assert sum(counts) == 20_000
    assert abs(chi_square(counts, np.array([8000, 4000, 4000, 4000]))) < 4


@pytest.mark.parametrize("method", ["uniform", "degree"])
@pytest.mark.parametrize("strict", [True, False])
def test_several_negatives_of_a_positive_are_independent(make_store, method, strict):
    rows = [(user, item, None, None) for item in range(5) for user in range(2 * item + 1)] + [(99, 0, None, None)]
    with graph_store.open(make_store(rows)) as store:
        sampler = NegativeSampler.of_type(store, CLICKS, method=method, alpha=1, strict=strict)
        found = drawn(sampler, store.to_nodes("user", [99])[0], count=30_000, num_negatives=3, seed=2).nodes
        items = store.to_ids("item", found)
    weight = {item: (2 * item + 1 + (item == 0) if method == "degree" else 1) for item in range(5)}
    left = [item for item in weight if item or not strict]
    total = sum(weight[item] for item in left)
    # The joint frequency of the first and the second, and of the first and the third, is the product of both.
    for second in (1, 2):
        counts, expected = [], []
        for pair in itertools.product(left, repeat=2):
            counts.append(np.count_nonzero((items[:, [0, second]] == pair).all(axis=1)))
            expected.append(30_000 * weight[pair[0]] * weight[pair[1]] / total**2)
        assert sum(counts) == 30_000
        assert abs(chi_square(counts, np.array(expected))) < 4


def test_other_positions_draw_other_negatives(make_adjacency):
    # 10,000 draws of a million: about 50 repeats (10,000² / 2 / 1,000,000) among all, and none of a whole row.
    sampler = NegativeSampler(np.arange(1_000_000), known=[make_adjacency([[1]])])
    found = drawn(sampler, 0, count=2000, num_negatives=5, seed=3).nodes
    assert np.unique(found).size >= 9900
    assert len({tuple(row) for row in found.tolist()}) == 2000


def test_draws_depend_on_the_position_alone(make_adjacency):
    random = np.random.default_rng(4)
    adjacency = make_adjacency(
        [
            [(int(node), None, time) for time, node in enumerate(random.integers(0, 60, size))]
            for size in (0, 5, 40, 700)
        ],
        timed=True,
    )
    sampler = NegativeSampler(np.arange(60), known=[adjacency], weights=np.arange(60))
    sources, bounds = random.integers(0, 4, 500), random.integers(0, 700, 500)
    whole = sampler.sample(sources, np.arange(500), num_negatives=2, seed=8, times=bounds)
    parts = [
        sampler.sample(sources[rank::3], np.arange(500)[rank::3], num_negatives=2, seed=8, times=bounds[rank::3])
        for rank in range(3)
    ]
    for rank, part in enumerate(parts):
        assert np.array_equal(part.nodes, whole.nodes[rank::3])
    other = sampler.sample(sources, np.arange(500), num_negatives=2, seed=9, times=bounds)
    assert not np.array_equal(other.nodes, whole.nodes)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
def test_strict_negatives_end_where_all_items_are_a_users_positives(make_adjacency, timed, weighted):
    items = [(node, None, node) if timed else node for node in range(20_000)]
    adjacency = make_adjacency([items, []], timed=timed)
    weights = np.ones(20_000) if weighted else None
    start = time.process_time()
    for fallback, low in (("mark", -1), ("any", 0)):
        sampler = NegativeSampler(np.arange(20_000), known=[adjacency], weights=weights, fallback=fallback)
        found = sampler.sample(nodes([0, 1] * 250), np.arange(500), num_negatives=5, seed=0)
        assert found.unmet[::2].all()
        assert not found.unmet[1::2].any()
        assert found.num_unmet == 1250
        assert (found.nodes[::2] >= low).all()
        assert (found.nodes[::2] == -1).all() == (fallback == "mark")
        assert (found.nodes[1::2] >= 0).all()
    assert time.process_time() - start < 60


def test_any_spares_the_own_target_where_there_is_another(make_adjacency):
    adjacency = make_adjacency([[1, 2], [3]])
    sampler = NegativeSampler(nodes([1, 2]), known=[adjacency], fallback="any")
    found = drawn(sampler, 0, count=50, targets=np.full(50, 1))
    assert (found.nodes == 2).all()
    assert found.num_unmet == 50
    alone = NegativeSampler(nodes([1]), known=[adjacency], fallback="any")
    found = drawn(alone, 0, targets=nodes([1]))
    assert (found.nodes.tolist(), found.unmet.tolist()) == ([[1]], [[True]])


def test_each_type_has_negatives_of_its_own_destinations(make_store):
    path = make_store([(user, user % 7 + 100, None, None) for user in range(40)], reverse=True)
    with GraphWriter(path) as writer:
        writer.delete_nodes("item", [103])
    with graph_store.open(path) as store:
        items, users = (NegativeSampler.of_type(store, name, strict=False) for name in (CLICKS, BACK))
        found = drawn(items, store.to_nodes("user", [3])[0], count=200).nodes.ravel()
        assert set(store.to_ids("item", found).tolist()) == {100, 101, 102, 104, 105, 106}
        found = drawn(users, store.to_nodes("item", [100])[0], count=2000).nodes.ravel()
        assert set(store.to_ids("user", found).tolist()) == set(range(40))


def test_one_pass_and_rounds_draw_the_same(make_adjacency):
    random = np.random.default_rng(6)
    lists = [np.unique(random.integers(0, 300, size)).tolist() for size in (0, 3, 100, 900, 5000)]
    adjacency, sources = make_adjacency(lists), random.integers(0, 5, 800)
    plain = sample_negatives(adjacency, sources, np.arange(300), np.arange(800), num_negatives=3, seed=1, tries=4)
    sampler = NegativeSampler(np.arange(300), known=[adjacency], taken=pairs([(0, 999)]), tries=4)
    rounds = sampler.sample(sources, np.arange(800), num_negatives=3, seed=1)
    assert np.array_equal(rounds.nodes, plain)
    assert rounds.unmet.any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fallback": "none"}, "fallback must be one of mark, any, got 'none'"),
        ({"tries": -1}, "tries must be 0 or more, got -1"),
        ({"weights": [1.0]}, r"weights must be one for each of 2 candidates, got shape \(1,\)"),
        ({"weights": [0.0, 0.0]}, "weights must be finite, 0 or more and not all 0"),
        ({"weights": [1.0, -1.0]}, "not all 0, got -1.0 … 1.0"),
        ({"weights": [1.0, float("nan")]}, "weights must be finite"),
        ({"weights": [1.0, float("inf")]}, "weights must be finite"),
        ({"candidates": None, "weights": [1.0]}, "weights need candidates"),
    ],
)
def test_a_sampler_that_cannot_be_is_refused(options, message):
    with pytest.raises(BadInput, match=message):
        NegativeSampler(**{"candidates": nodes([1, 2])} | options)


def test_a_request_that_does_not_fit_is_refused(make_adjacency, make_store):
    known = [make_adjacency([[1]])]
    sampler, batch = NegativeSampler(nodes([1, 2]), known=known), NegativeSampler(None, known=known)
    for name in ("targets", "times"):
        with pytest.raises(ValueError, match=f"{name} must be as many as sources, got 2 and 1"):
            drawn(sampler, 0, **{name: nodes([1, 2])})
    for wrong, options in ((sampler, {"candidates": nodes([1])}), (batch, {})):
        with pytest.raises(ValueError, match="candidates are needed once"):
            drawn(wrong, 0, **options)
    with pytest.raises(ValueError, match="node 5 at position 0 is no source node"):
        drawn(sampler, 5)
    with graph_store.open(make_store([(1, 2, None, None)])) as store:
        with pytest.raises(BadInput, match="method must be one of uniform, degree, in_batch, got 'popular'"):
            NegativeSampler.of_type(store, CLICKS, method="popular")
        with pytest.raises(graph_store.UnknownEdgeType):
            NegativeSampler.of_type(store, "user:buys:item")


@pytest.mark.parametrize("id_type", ["integer", "string", "unsigned"])
def test_a_store_gives_negatives_by_original_ids(make_store, id_type):
    name = (lambda value: f"n{value}") if id_type == "string" else (lambda value: value)
    rows = [(name(user), name(item), None, None) for user, item in [(1, 5), (1, 6), (2, 5), (2, 6), (2, 7)]]
    with graph_store.open(make_store(rows, id_type=id_type)) as store:
        found = store.negatives([name(1), name(2)], CLICKS, num_negatives=3, seed=4)
        none = {"integer": -1, "string": None, "unsigned": 2**64 - 1}[id_type]
        assert found.ids.tolist() == [[name(7)] * 3, [none] * 3]
        assert found.unmet.tolist() == [[False] * 3, [True] * 3]
        some = store.negatives([name(2)], num_negatives=8, fallback="any", method="degree", seed=4)
        assert set(some.ids.ravel().tolist()) <= {name(5), name(6), name(7)}
        with pytest.raises(graph_store.UnknownId):
            store.negatives([name(9)], seed=0)
