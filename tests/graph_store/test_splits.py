"""Splits: parts that share no pair of nodes, of the sizes asked for, the same for the same seed."""

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, GraphWriter
from graph_store.sampling.negatives import NegativeSampler
from graph_store.sampling.splits import RULES, split_edges
from tests.oracles import chi_square

CLICKS, LINKS = "user:clicks:item", "page:links:page"
KINDS = {
    "two types": {"edge_type": CLICKS, "reverse": True},
    "two types, parallel edges": {"edge_type": CLICKS, "duplicates": "all"},
    "one type": {"edge_type": LINKS, "duplicates": "all"},
    "undirected": {"edge_type": LINKS, "undirected": True, "duplicates": "all"},
}


@pytest.fixture(scope="module")
def stores(make_store):
    """Stores of the kinds, with times and without: {(kind, timed): store}."""
    random = np.random.default_rng(0)
    found = {}
    for kind, timed in itertools.product(KINDS, (False, True)):
        times = random.integers(0, 40, 500).tolist() if timed else [None] * 500
        rows = [(*ends, None, time) for ends, time in zip(random.integers(0, 25, (500, 2)).tolist(), times)]
        found[kind, timed] = graph_store.open(make_store(rows, **KINDS[kind]))
    yield found
    for store in found.values():
        store.close()


def edges(part):
    """The (src, dst, time) of a part, by original ids."""
    times = [None] * len(part) if part.times is None else part.times.tolist()
    return list(zip(part.src_ids.tolist(), part.dst_ids.tolist(), times))


def pairs(part, *, one_type):
    return {tuple(sorted(edge[:2])) if one_type else edge[:2] for edge in edges(part)}


def split(store, **options):
    return split_edges(store, next(iter(store.edge_types)), **options)


def parts_of(found):
    return [found.train, found.valid, found.test]


@settings(max_examples=120, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    timed=st.booleans(),
    by=st.sampled_from(RULES),
    valid=st.sampled_from([0, 0.1, 0.25, 0.5]),
    test=st.sampled_from([0, 0.1, 0.5]),
    latest=st.booleans(),
    seed=st.integers(-(2**63), 2**63 - 1),
)
def test_parts_have_every_edge_once_and_no_pair_is_in_two(stores, kind, timed, by, valid, test, latest, seed):
    store, options = stores[kind, timed or by == "time"], {}
    if by in ("leave_one_out", "each_user"):
        options["latest"] = latest and timed
    if by == "leave_one_out":
        valid, test = int(valid > 0), int(test > 0)
    found = split(store, by=by, valid=valid, test=test, seed=seed, **options)
    entry = next(iter(store.edge_types.values()))
    parts = parts_of(found)
    positions = np.concatenate([part.positions for part in parts])
    assert np.unique(positions).size == positions.size
    assert positions.size + found.left_out == entry.num_edges
    assert found.left_out == 0 or by == "time"
    each = [pairs(part, one_type=entry.src == entry.dst) for part in parts]
    assert [first & second for first, second in itertools.combinations(each, 2)] == [set()] * 3
    for part, share in zip(parts, (1 - valid - test, valid, test)):
        assert share or not len(part) or by == "leave_one_out"
        assert (np.diff(part.positions) > 0).all()
        if entry.undirected:
            assert (part.src <= part.dst).all()
    again = split(store, by=by, valid=valid, test=test, seed=seed, **options)
    assert [part.positions.tolist() for part in parts] == [part.positions.tolist() for part in parts_of(again)]


@pytest.mark.parametrize(("valid", "test"), [(0, 0), (0.1, 0), (0, 0.1), (0.25, 0.5), (0.5, 0.5), (1, 0), (0, 1)])
def test_shares_of_distinct_pairs_are_met_to_the_edge(stores, valid, test):
    store = stores["two types", False]
    total = store.edge_types[CLICKS].num_edges
    found = split(store, valid=valid, test=test)
    assert len(found.test) == int(total * test + 0.5)
    assert len(found.valid) == min(total - len(found.test), int(total * valid + 0.5))
    assert len(found.train) == total - len(found.valid) - len(found.test)


@pytest.mark.parametrize("by", ["edge", "each_user", "user"])
@pytest.mark.parametrize("kind", ["two types", "undirected"])
def test_a_share_of_nothing_leaves_the_other_part_as_it_was(stores, kind, by):
    store = stores[kind, False]
    both = split(store, by=by, valid=0.2, test=0.2, seed=4)
    no_test = split(store, by=by, valid=0.2, test=0, seed=4)
    no_valid = split(store, by=by, valid=0, test=0.2, seed=4)
    assert len(both.valid)
    assert len(both.test)
    assert len(no_test.test) == len(no_valid.valid) == 0
    assert np.array_equal(no_valid.test.positions, both.test.positions)
    if kind == "two types":
        assert np.array_equal(no_test.valid.positions, both.valid.positions)
    else:  # a pair that one end gives to validation and the other to test is the test's
        assert set(no_test.valid.positions) >= set(both.valid.positions)
    everything = split(store, by=by, valid=0, test=0)
    assert len(everything.train) == store.edge_types[both.edge_type].num_edges


def test_with_no_validation_by_time_the_test_stays_as_it_was(stores):
    store = stores["two types", True]
    both, no_valid = (split(store, by="time", valid=valid, test=0.2) for valid in (0.2, 0))
    assert np.array_equal(no_valid.test.positions, both.test.positions)
    assert len(no_valid.valid) == 0


@pytest.fixture(scope="module")
def timeline(make_store):
    """User 1 comes back to item 10 at time 6; two edges share time 4."""
    rows = [(1, 10, None, 1), (1, 11, None, 2), (2, 10, None, 3), (2, 11, None, 4), (3, 12, None, 4), (3, 10, None, 5),
            (1, 10, None, 6), (2, 12, None, 7)]  # fmt: skip
    with graph_store.open(make_store(rows)) as store:
        yield store


def test_by_time_the_latest_are_held_out_and_pairs_seen_before_are_left_out(timeline):
    found = split(timeline, by="time", valid=0.25, test=0.25)
    # The last two of eight are at 6 and 7, the two before at 4 and 5: the other edge of time 4 is earlier.
    assert sorted(edges(found.test)) == [(2, 12, 7)]
    assert sorted(edges(found.valid)) == [(3, 10, 5)]
    assert found.left_out == 1
    assert len(found.train) == 5


def test_cuts_begin_validation_and_test(timeline):
    found = split(timeline, by="time", cuts=(4, 7))
    assert sorted(edges(found.train)) == [(1, 10, 1), (1, 11, 2), (2, 10, 3)]
    assert sorted(edges(found.valid)) == [(2, 11, 4), (3, 10, 5), (3, 12, 4)]
    assert sorted(edges(found.test)) == [(2, 12, 7)]
    assert found.left_out == 1


def test_each_source_leaves_out_its_last_pair_and_the_one_before(timeline):
    found = split(timeline, by="leave_one_out")
    assert sorted(edges(found.test)) == [(1, 10, 1), (1, 10, 6), (2, 12, 7), (3, 10, 5)]
    # Users 1 and 3 have two pairs, one of which they keep.
    assert sorted(edges(found.valid)) == [(2, 11, 4)]
    assert sorted(edges(found.train)) == [(1, 11, 2), (2, 10, 3), (3, 12, 4)]
    found = split(timeline, by="leave_one_out", test=0)
    assert sorted(edges(found.valid)) == [(1, 10, 1), (1, 10, 6), (2, 12, 7), (3, 10, 5)]
    assert len(found.test) == 0


def test_of_each_user_the_latest_share_is_held_out(make_store):
    # Ten and five edges, times in the order of the items: 20 % of ten are two, of five one.
    rows = [(user, item, None, item) for user, size in ((1, 10), (2, 5)) for item in range(size)]
    with graph_store.open(make_store(rows)) as store:
        found = split(store, by="each_user", valid=0.1, test=0.2, latest=True)
    assert sorted(edges(found.test)) == [(1, 8, 8), (1, 9, 9), (2, 4, 4)]
    # 10 % of five are a half, which rounds up.
    assert sorted(edges(found.valid)) == [(1, 7, 7), (2, 3, 3)]


def test_of_a_source_every_edge_is_left_out_alike(make_store):
    rows = [(user, item, None, None) for user in range(2000) for item in range(5)]
    with graph_store.open(make_store(rows)) as store:
        found = split(store, by="leave_one_out", latest=False, seed=3)
    held = dict(zip(found.test.src_ids.tolist(), found.test.dst_ids.tolist()))
    second = dict(zip(found.valid.src_ids.tolist(), found.valid.dst_ids.tolist()))
    assert held.keys() == second.keys() == set(range(2000))
    counts = Counter((held[user], second[user]) for user in held)
    assert counts.keys() == set(itertools.permutations(range(5), 2))
    assert abs(chi_square(list(counts.values()))) < 4


def test_every_edge_is_held_out_alike_over_the_seeds(make_store):
    rows = [(user, item, None, None) for user in range(5) for item in range(4)]
    counts = np.zeros((3, 20))
    with graph_store.open(make_store(rows)) as store:
        for seed in range(600):
            for number, part in enumerate(parts_of(split(store, valid=0.1, test=0.25, seed=seed))):
                counts[number, part.positions] += 1
    assert (counts.sum(axis=1) == [13 * 600, 2 * 600, 5 * 600]).all()
    # Exactly 2, or 5, of 20 each time: the variance of a count is 600 · p (1 − p).
    for row, share in zip(counts, (13 / 20, 2 / 20, 5 / 20)):
        statistic = ((row - 600 * share) ** 2 / (600 * share * (1 - share))).sum() * 19 / 20
        assert abs(statistic - 19) / np.sqrt(2 * 19) < 4


def test_by_user_all_that_a_source_has_is_in_one_part(stores):
    store = stores["two types, parallel edges", False]
    found = split(store, by="user", valid=0.2, test=0.4, seed=1)
    users = [set(part.src_ids.tolist()) for part in parts_of(found)]
    assert [len(each) for each in users] == [10, 5, 10]  # of 25
    assert len(set.union(*users)) == 25


def test_between_nodes_of_one_type_a_user_of_the_test_takes_all_its_edges_along(stores):
    for kind in ("one type", "undirected"):
        found = split(stores[kind, False], by="user", valid=0.2, test=0.2, seed=5)
        ends = 1 if kind == "one type" else 2
        tested, others = (
            {end for part in parts for edge in edges(part) for end in edge[:ends]}
            for parts in ([found.test], [found.train, found.valid])
        )
        # A fifth of 25 nodes; edges from others to them, or back, are the test's too.
        assert len(tested - others) == 5


def test_loops_and_a_pair_in_both_directions_are_one_pair(make_store):
    rows = [(1, 2, None, None), (2, 1, None, None), (1, 1, None, None), (3, 3, None, None)]
    with graph_store.open(make_store(rows, edge_type=LINKS)) as store:
        for seed in range(20):
            found = split(store, valid=0.25, test=0.25, seed=seed)
            for part in parts_of(found):
                ends = {edge[:2] for edge in edges(part)}
                assert ((1, 2) in ends) == ((2, 1) in ends)


def test_the_split_of_a_store_stays_when_it_is_folded(make_store):
    path = make_store([(user, item, None, None) for user in range(30) for item in range(10)], num_shards=2)
    with GraphWriter(path) as writer:
        writer.add_edges(CLICKS, [40, 2, 7], [3, 77, 78])
        with graph_store.open(path) as store:
            before = split(store, by="each_user", seed=2)
            found = [edges(part) for part in parts_of(before)]
        writer.fold()
    with graph_store.open(path) as store:
        assert [edges(part) for part in parts_of(split(store, by="each_user", seed=2))] == found


def test_seeds_give_other_parts(stores):
    store = stores["two types", False]
    first, second = (split(store, seed=seed).test.positions.tolist() for seed in (0, 1))
    assert first != second


def test_an_edge_type_without_edges_has_empty_parts(make_store):
    path = make_store([(1, 2, None, 5)])
    with GraphWriter(path) as writer:
        writer.delete_edges(CLICKS, [1], [2])
    with graph_store.open(path) as store:
        for by in RULES:
            assert [len(part) for part in parts_of(split(store, by=by))] == [0, 0, 0]


def test_a_part_gives_the_edges_at_its_places(stores):
    part = split(stores["two types", True], seed=9).train
    taken = part.take(np.array([5, 0, 5]))
    assert taken.src.tolist() == part.src[[5, 0, 5]].tolist()
    assert taken.dst.tolist() == part.dst[[5, 0, 5]].tolist()
    assert taken.times.tolist() == part.times[[5, 0, 5]].tolist()
    assert split(stores["two types", False]).train.take(np.array([1])).times is None
    with pytest.raises(IndexError):
        part.take(np.array([len(part)]))


def test_what_is_held_out_while_a_part_is_learned_are_the_parts_behind_it(stores):
    for kind, by in itertools.product(KINDS, ("edge", "each_user")):
        found = split(stores[kind, False], by=by, seed=6)
        one_type = found.edge_type == LINKS
        for part, behind in (
            ("train", [found.valid, found.test]),
            ("valid", [found.valid, found.test]),
            ("test", [found.test]),
        ):
            ends = {end for each in behind for end in zip(each.src.tolist(), each.dst.tolist())}
            ends |= {end[::-1] for end in ends} if one_type else set()
            assert set(zip(*(end.tolist() for end in found.held_out(part).pairs))) == ends
    with pytest.raises(BadInput, match="part must be one of train, valid, test, got 'all'"):
        found.held_out("all")


@pytest.mark.parametrize("kind", KINDS)
def test_negatives_of_the_parts_are_edges_of_none_and_have_no_pair_in_common(make_store, kind):
    ends = np.random.default_rng(1).integers(0, 60, (400, 2)).tolist()
    store = graph_store.open(make_store([(*pair, None, None) for pair in ends], **KINDS[kind]))
    entry, adjacency = next(iter(store.edge_types.values())), store.adjacency(next(iter(store.edge_types)))
    found = split(store, valid=0.2, test=0.2, seed=7)
    negatives = found.negatives(store, 2, seed=3)
    pairs = []
    for part, drawn in ((found.valid, negatives.valid), (found.test, negatives.test)):
        assert drawn.nodes.shape == (len(part), 2)
        assert not drawn.unmet.any()
        src, dst = np.repeat(part.src, 2), drawn.nodes.ravel()
        assert not adjacency.has_edges(src, dst).any()
        assert negatives.taken.has(src, dst).all()
        one_type = entry.src == entry.dst
        pairs.append({tuple(sorted(pair)) if one_type else pair for pair in zip(src.tolist(), dst.tolist())})
    assert not pairs[0] & pairs[1]
    training = NegativeSampler.of_type(store, entry.name, taken=negatives.taken)
    drawn = training.sample(found.train.src, np.arange(len(found.train)), num_negatives=20, seed=1)
    sources = np.repeat(found.train.src, 20)[~drawn.unmet.ravel()]
    assert not negatives.taken.has(sources, drawn.nodes[~drawn.unmet]).any()
    again = split(store, valid=0, test=0.2, seed=7).negatives(store, 2, seed=3)
    assert np.array_equal(again.test.nodes, negatives.test.nodes)
    assert again.valid.nodes.shape == (0, 2)
    store.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "edges"}, "by must be one of edge, time, leave_one_out, each_user, user, got 'edges'"),
        ({"valid": 0.6, "test": 0.5}, "together at most 1, got 0.6 and 0.5"),
        ({"valid": -0.1}, "shares from 0 to 1, together at most 1, got -0.1 and 0.1"),
        ({"test": float("nan")}, "got 0.1 and nan"),
        ({"by": "leave_one_out", "test": 0.5}, "valid and test must be 0 or 1, got 1 and 0.5"),
        ({"by": "time"}, "no times to split by; ingest it with a time column"),
        ({"by": "leave_one_out", "latest": True}, "no times to split by"),
        ({"latest": True}, "latest is for by='leave_one_out' and 'each_user', got by='edge'"),
        ({"cuts": (1, 2)}, "cuts are for by='time'"),
        ({"by": "time", "cuts": (2, 1)}, "the earlier first, got \\[2, 1\\]"),
        ({"by": "time", "cuts": (2,)}, "cuts must be two times"),
        ({"by": "time", "cuts": (1, 2), "test": 0.1}, "in the place of valid and test"),
    ],
)
def test_what_cannot_be_is_refused_in_a_line(stores, options, message):
    with pytest.raises(BadInput, match=f"split of {CLICKS}: .*{message}") as caught:
        split(stores["two types", False], **options)
    assert "\n" not in str(caught.value)


def test_an_edge_type_that_there_is_not_is_named(stores):
    with pytest.raises(graph_store.UnknownEdgeType, match="no edge type 'user:buys:item'"):
        split_edges(stores["two types", False], "user:buys:item")


def test_a_store_splits_its_only_edge_type(make_store):
    with graph_store.open(make_store([(1, item, None, item) for item in range(10)])) as store:
        found = store.split_edges(by="time", valid=0.2, test=0.1)
        assert (found.test.dst_ids.tolist(), found.valid.dst_ids.tolist()) == ([9], [7, 8])
        assert found.train.positions.size == 7
