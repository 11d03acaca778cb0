"""Drawing from lists by any rule, against its plain twin and against exact probabilities."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.draws import NEIGHBORS, key_of
from graph_store.errors import BadInput
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.lists import COLUMNS, draw_lists
from graph_store.sampling.neighbors import sample_neighbors
from graph_store.sampling.rule import METHODS, Rule
from tests.graph_store.list_twin import mixed, pick, visible
from tests.graph_store.test_adjacency import nodes_of
from tests.oracles import chi_square

WEIGHTS = st.sampled_from([0.0, -2.0, math.nan, math.inf, 1.0, 1.0, 0.25, 3.0, 1e-45, 1e30, 3.4e38])
RULES = [
    ("uniform", False),
    ("uniform", True),
    ("weighted", False),
    ("weighted", True),
    ("top", False),
    ("recent", False),
]
KEY = key_of(5, 3, NEIGHBORS, 1)


@st.composite
def list_sets(draw):
    """Lists with parallel edges, equal times and weights of all kinds."""
    lists = []
    for size in draw(st.lists(st.integers(0, 12), min_size=1, max_size=80)):
        random = np.random.default_rng(draw(st.integers(0, 99)))
        rows = zip(random.integers(0, 9, size).tolist(), random.integers(-3, 6, size).tolist(), range(100, 100 + size))
        rows = [(time, neighbor, edge) for neighbor, time, edge in rows]
        lists.append([
            (neighbor, float(np.float32(draw(WEIGHTS))), time, edge) for time, neighbor, edge in sorted(rows)
        ])  # fmt: skip
    return lists


def check(adjacency, lists, num_shards, rule, *, bounds=None, excluded=(), units=None, columns=COLUMNS, numbered=True):
    """Compare what is drawn of all lists with the twin; returns the places drawn."""
    nodes = nodes_of(len(lists), num_shards)
    pairs = [(int(node), target) for node in nodes for target in excluded]
    exclude = Exclusions(*np.array(pairs, np.int64).reshape(-1, 2).T) if pairs else None
    drawn = draw_lists(adjacency, nodes, rule, key=KEY, units=units, bounds=bounds, exclude=exclude, columns=columns)
    starts = np.cumsum([0] + [len(entries) for entries in lists]).tolist()
    all_places = []
    for i, entries in enumerate(lists):
        unit = int(nodes[i]) if units is None else int(units[i])
        bound = None if bounds is None else int(bounds[i])
        places = pick(entries, rule, int(mixed(int(KEY), unit)), bound=bound, excluded=excluded)
        span = slice(drawn.indptr[i], drawn.indptr[i + 1])
        if rule.method == "weighted" and rule.fanout >= 0 and len(seen_places(entries, rule, bound)) > 512:
            # Picked by sums of 512 weights: see test_weights.
            check_weighted_hub(entries, rule, places, drawn.edge_ids[span] - starts[i], bound, excluded)
            places = (drawn.edge_ids[span] - starts[i]).tolist()
        assert drawn.neighbors[span].tolist() == [entries[place][0] for place in places]
        if "weights" in columns and drawn.weights is not None:
            expected = np.array([entries[place][1] for place in places], np.float32)
            assert np.array_equal(drawn.weights[span], expected, equal_nan=True)
        if "times" in columns and drawn.times is not None:
            assert drawn.times[span].tolist() == [entries[place][2] for place in places]
        if "edge_ids" in columns:
            ids = [entries[place][3] if numbered else starts[i] + place for place in places]
            assert drawn.edge_ids[span].tolist() == ids
        all_places.append(places)
    return all_places


def seen_places(entries, rule, bound):
    return visible([entry[2] for entry in entries], bound, strict=rule.strict, window=rule.window)


def check_weighted_hub(entries, rule, places, drawn, bound, excluded):
    assert len(drawn) == len(places)
    assert rule.replace or len(set(drawn.tolist())) == len(drawn)
    assert set(drawn.tolist()) <= set(seen_places(entries, rule, bound))
    for place in drawn.tolist():
        assert entries[place][0] not in excluded
        assert entries[place][1] > 0


@settings(max_examples=120, deadline=None)
@given(
    lists=list_sets(),
    num_shards=st.sampled_from([1, 2, 3, 16]),
    method=st.sampled_from(RULES),
    fanout=st.sampled_from([-1, 0, 1, 2, 3, 5, 20]),
    time=st.one_of(st.none(), st.tuples(st.booleans(), st.sampled_from([None, 0, 1, 3, 2**63 - 1]))),
    excluded=st.sets(st.integers(0, 8), max_size=3),
    numbered=st.booleans(),
    own_units=st.booleans(),
    seed=st.integers(0, 99),
)
def test_lists_are_drawn_from_as_by_the_twin(
    make_adjacency, lists, num_shards, method, fanout, time, excluded, numbered, own_units, seed
):
    columns = {"weighted": True, "timed": True, "numbered": numbered}
    rows = [entries if numbered else [entry[:3] for entry in entries] for entries in lists]
    adjacency = make_adjacency(rows, num_shards=num_shards, **columns)
    random = np.random.default_rng(seed)
    strict, window = time or (False, None)
    bounds = None if time is None else random.integers(-4, 7, len(lists))
    units = random.integers(0, 2**64, len(lists), np.uint64, endpoint=False) if own_units else None
    rule = Rule(fanout, method[1], method[0], strict, window)
    check(adjacency, lists, num_shards, rule, bounds=bounds, excluded=excluded, units=units, numbered=numbered)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([0, 1, 511, 512, 513, 700, 1500, 3100]), min_size=1, max_size=20),
    method=st.sampled_from(RULES),
    spread=st.sampled_from(["heavy tails", "few values", "rising", "absent"]),
    fanout=st.sampled_from([-1, 1, 10, 64, 65, 100, 600, 2000]),
    bounded=st.booleans(),
    excluded=st.sampled_from([set(), {3}, set(range(40)), set(range(100))]),
    seed=st.integers(0, 99),
)
def test_hubs_are_drawn_from_as_by_the_twin(make_adjacency, sizes, method, spread, fanout, bounded, excluded, seed):
    random, lists, edge = np.random.default_rng(seed), [], 0
    for size in sizes:
        weights = {
            "heavy tails": random.pareto(0.8, size),
            "few values": random.integers(-1, 3, size),
            "rising": np.arange(size),
            "absent": np.where(random.random(size) < 0.5, np.nan, 1.0),
        }[spread]
        weights = weights.astype(np.float32).tolist()
        times, neighbors = np.sort(random.integers(0, 500, size)).tolist(), random.integers(0, 101, size).tolist()
        rows = sorted(zip(times, neighbors), key=lambda row: row)
        lists.append([(row[1], weight, row[0], edge + i) for i, (row, weight) in enumerate(zip(rows, weights))])
        edge += size
    adjacency = make_adjacency(
        [[entry[:3] for entry in entries] for entries in lists], num_shards=2, weighted=True, timed=True
    )
    bounds = random.integers(0, 500, len(lists)) if bounded else None
    rule = Rule(fanout, method[1], method[0], window=100 if bounded else None)
    check(adjacency, lists, 2, rule, bounds=bounds, excluded=excluded, numbered=False)


@settings(max_examples=40, deadline=None)
@given(
    degrees=st.lists(st.sampled_from([0, 1, 5, 30, 600]), min_size=1, max_size=90),
    fanout=st.sampled_from([-1, 0, 2, 10, 100]),
    num_shards=st.sampled_from([1, 3]),
)
def test_without_columns_or_bounds_the_draws_are_those_of_the_plain_path(make_adjacency, degrees, fanout, num_shards):
    lists = [list(range(0, 3 * degree, 3)) for degree in degrees]
    adjacency = make_adjacency(lists, num_shards=num_shards)
    nodes = nodes_of(len(lists), num_shards)
    plain = sample_neighbors(adjacency, nodes, fanout, seed=5, step=3, hop=1)
    for columns in ((), ("edge_ids",)):
        drawn = draw_lists(adjacency, nodes, Rule(fanout), key=KEY, columns=columns)
        assert np.array_equal(drawn.indptr, plain[0])
        assert np.array_equal(drawn.neighbors, plain[1])
    sources, targets = adjacency.edges_at(drawn.edge_ids)
    assert np.array_equal(sources, np.repeat(nodes, np.diff(drawn.indptr)))
    assert np.array_equal(targets, drawn.neighbors)


@pytest.mark.parametrize("method", RULES)
def test_draws_do_not_depend_on_threads(make_adjacency, method):
    random, lists = np.random.default_rng(1), []
    for size in random.integers(0, 40, 1000):
        times, neighbors = np.sort(random.integers(0, 50, size)), random.integers(0, 99, size)
        lists.append(list(zip(neighbors.tolist(), random.random(size).tolist(), times.tolist())))
    adjacency = make_adjacency(lists, num_shards=5, weighted=True, timed=True)
    nodes = np.tile(np.arange(1000), 20)
    options = {
        "key": KEY,
        "bounds": random.integers(0, 50, nodes.size),
        "exclude": Exclusions(nodes[:500], nodes[:500] % 99),
        "units": np.arange(nodes.size, dtype=np.uint64),
        "columns": COLUMNS,
    }
    rule = Rule(4, method[1], method[0])
    one = draw_lists(adjacency, nodes, rule, threads=1, **options)
    for threads in (2, 4):
        many = draw_lists(adjacency, nodes, rule, threads=threads, **options)
        assert all(np.array_equal(first, second) for first, second in zip(one, many))


def sequences(weights, count):
    """Return {sequence of places: its probability} of drawing without replacement by weight, one by one."""
    exact = {}
    for sequence in itertools.permutations(range(len(weights)), count):
        chance, left = 1.0, sum(weights)
        for place in sequence:
            chance *= weights[place] / left if left > 0 else 0.0
            left -= weights[place]
        if chance > 0:
            exact[sequence] = chance
    return exact


@pytest.mark.parametrize(
    "weights", [[1, 2, 3, 4], [5, 1, 1, 1, 1], [1e-3, 1, 1, 1000], [1, 1, 1, 1, 1], [0, 2, 1, -5, 3], [0.5, 8, 0.5]]
)
@pytest.mark.parametrize("fanout", [1, 2, 3])
def test_sequences_by_weight_without_replacement_have_their_exact_probabilities(make_adjacency, weights, fanout):
    copies = 40_000
    adjacency = make_adjacency(
        [[(node, float(weight), None) for node, weight in enumerate(weights)]] * copies, weighted=True
    )
    drawn = draw_lists(adjacency, np.arange(copies), Rule(fanout, method="weighted"), key=KEY)
    size = min(fanout, sum(weight > 0 for weight in weights))
    found = drawn.neighbors.reshape(copies, size)
    exact = sequences([max(weight, 0) for weight in weights], size)
    if size == sum(weight > 0 for weight in weights):  # all are taken, in the order of the list
        exact = {tuple(place for place, weight in enumerate(weights) if weight > 0): 1.0}
    counts = dict.fromkeys(exact, 0)
    for row in map(tuple, found.tolist()):
        counts[row] += 1
    assert sum(exact.values()) == pytest.approx(1)
    check_counts(list(counts.values()), [copies * chance for chance in exact.values()])


def check_counts(counts, expected):
    """Compare counts with what is expected, cells of less than 10 put together."""
    counts, expected = np.array(counts, float), np.array(expected, float)
    few = expected < 10
    if few.any():
        counts = np.append(counts[~few], counts[few].sum())
        expected = np.append(expected[~few], expected[few].sum())
    if counts.size > 1:
        assert chi_square(counts, expected) < 4
    else:
        assert counts.tolist() == expected.tolist()


@pytest.mark.parametrize("excluded", [(), (2,)])
@pytest.mark.parametrize("window", [None, 2])
def test_by_weight_in_time_and_around_exclusions_at_once_inclusion_is_exact(make_adjacency, excluded, window):
    # Times 0 … 6, one neighbour each; seen at 5 are those of 0 … 5, with the window of 2 those of 3 … 5.
    weights, copies = [1.0, 4.0, 2.0, 3.0, 1.0, 2.0, 9.0], 40_000
    entries = [(node, weight, node) for node, weight in enumerate(weights)]
    adjacency = make_adjacency([entries] * copies, weighted=True, timed=True, num_shards=2)
    nodes = nodes_of(copies, 2)
    excluded = (4,) if window is not None and excluded else excluded
    exclude = Exclusions(np.repeat(nodes, len(excluded)), np.tile(np.array(excluded, np.int64), copies))
    rule = Rule(2, method="weighted", window=window)
    drawn = draw_lists(adjacency, nodes, rule, key=KEY, bounds=np.full(copies, 5), exclude=exclude)
    low = 0 if window is None else 3
    seen = [weight if low <= node <= 5 and node not in excluded else 0.0 for node, weight in enumerate(weights)]
    if sum(weight > 0 for weight in seen) == 2:
        assert drawn.neighbors.tolist() == [node for node, weight in enumerate(seen) if weight > 0] * copies
        return
    exact = sequences(seen, 2)
    found = list(map(tuple, drawn.neighbors.reshape(copies, 2).tolist()))
    assert set(found) == set(exact)
    check_counts([found.count(row) for row in exact], [copies * chance for chance in exact.values()])


def test_by_weight_in_time_and_around_exclusions_a_hub_is_drawn_from_exactly(make_adjacency):
    # Of 2,000 edges at times 0 … 1999 the window leaves 700 … 1700; six of them have a weight, one is excluded.
    weights = dict.fromkeys(range(2000), 0.0) | {
        10: 5.0,
        700: 1.0,
        701: 2.0,
        1300: 4.0,
        1500: 9.0,
        1699: 3.0,
        1700: 1.0,
    }
    copies = 400
    adjacency = make_adjacency(
        [[(time, weight, time) for time, weight in weights.items()]] * copies, weighted=True, timed=True
    )
    nodes = np.arange(copies)
    exclude = Exclusions(nodes, np.full(copies, 1500))
    exact = sequences([1.0, 2.0, 4.0, 3.0, 1.0], 2)
    counts = dict.fromkeys(exact, 0)
    for step in range(30):
        drawn = draw_lists(
            adjacency,
            nodes,
            Rule(2, method="weighted", window=1000),
            key=key_of(4, step, NEIGHBORS),
            bounds=np.full(copies, 1700),
            exclude=exclude,
        )
        for pair in drawn.neighbors.reshape(copies, 2).tolist():
            counts[tuple([700, 701, 1300, 1699, 1700].index(node) for node in pair)] += 1
    check_counts(list(counts.values()), [30 * copies * chance for chance in exact.values()])


@pytest.mark.parametrize("method", ["uniform", "weighted"])
@pytest.mark.parametrize("size", [5, 700])
def test_with_replacement_each_draw_is_independent(make_adjacency, method, size):
    copies = 30_000 if size == 5 else 400
    weights = [float(1 + node % 3) if method == "weighted" else 1.0 for node in range(size)]
    adjacency = make_adjacency([[(node, weight, None) for node, weight in enumerate(weights)]] * copies, weighted=True)
    drawn = draw_lists(adjacency, np.arange(copies), Rule(200 if size > 5 else 2, True, method), key=KEY)
    share = np.array(weights) / sum(weights)
    if size > 5:
        check_counts(np.bincount(drawn.neighbors, minlength=size), share * drawn.neighbors.size)
        return
    pairs = np.bincount(drawn.neighbors[::2] * size + drawn.neighbors[1::2], minlength=size * size)
    check_counts(pairs, copies * np.outer(share, share).ravel())


def test_uniform_draws_around_exclusions_on_a_hub_are_uniform(make_adjacency):
    # Of 1,000 places 900 are barred, then 20, then 999: read after all, drawn until free, and one place left.
    copies = 300
    for barred, fanout in ((900, 5), (20, 5), (999, 3)):
        entries = [(0, None, time) if time < barred else (time, None, time) for time in range(1, 1001)]
        adjacency = make_adjacency([entries] * copies, timed=True)
        exclude = Exclusions(np.arange(copies), np.zeros(copies, np.int64))
        counts = np.zeros(1001)
        for step in range(20):
            drawn = draw_lists(
                adjacency, np.arange(copies), Rule(fanout), key=key_of(1, step, NEIGHBORS), exclude=exclude
            )
            free = 1001 - barred
            assert (np.diff(drawn.indptr) == min(fanout, free)).all()
            if free > fanout:
                rows = np.sort(drawn.neighbors.reshape(copies, fanout), axis=1)
                assert (np.diff(rows, axis=1) > 0).all()
            counts += np.bincount(drawn.neighbors, minlength=1001)
        assert not counts[:barred].any()
        assert chi_square(counts[barred:]) < 4


@pytest.mark.parametrize("replace", [False, True])
def test_a_hub_whose_edges_are_nearly_all_excluded_is_drawn_from_exactly(make_adjacency, replace):
    # 4,000 copies of an excluded edge, heavier than the three others.
    weights = {500: 1.0, 1500: 2.0, 3900: 5.0}
    entries = [(place, weights[place], place) if place in weights else (7, 10.0, place) for place in range(4003)]
    adjacency = make_adjacency([entries] * 4, weighted=True, timed=True)
    exclude = Exclusions(np.arange(4), np.full(4, 7))
    counts = dict.fromkeys(itertools.product(weights, weights) if replace else itertools.permutations(weights, 2), 0)
    for step in range(1500):
        rule = Rule(2, replace, "weighted")
        drawn = draw_lists(adjacency, np.arange(4), rule, key=key_of(2, step, NEIGHBORS), exclude=exclude)
        for pair in drawn.neighbors.reshape(4, 2).tolist():
            counts[tuple(pair)] += 1
    exact = {
        pair: weights[pair[0]] / 8 * weights[pair[1]] / (8 if replace else 8 - weights[pair[0]]) for pair in counts
    }
    check_counts(list(counts.values()), [6000 * chance for chance in exact.values()])
    everything = draw_lists(adjacency, np.arange(4), Rule(3, method="weighted"), key=KEY, exclude=exclude)
    assert everything.neighbors.tolist() == [500, 1500, 3900] * 4


def test_an_enormous_weight_leaves_the_others_drawable(make_adjacency):
    for size in (6, 700):
        weights = [1.0] * size
        weights[size // 2] = 1e30
        adjacency = make_adjacency(
            [[(node, weight, None) for node, weight in enumerate(weights)]] * 3000, weighted=True
        )
        nodes = np.arange(3000) if size < 512 else np.arange(300)
        drawn = draw_lists(adjacency, nodes, Rule(3, method="weighted"), key=KEY).neighbors.reshape(nodes.size, 3)
        assert (drawn[:, 0] == size // 2).all()
        counts = np.delete(np.bincount(drawn[:, 1:].ravel(), minlength=size), size // 2)
        assert chi_square(counts) < 4
        alone = draw_lists(adjacency, nodes, Rule(3, True, "weighted"), key=KEY).neighbors
        assert (alone == size // 2).all()


def test_equal_weights_and_times_are_told_apart_by_place(make_adjacency):
    entries = [(node, 1.0, 7) for node in range(9)]
    adjacency = make_adjacency([entries], weighted=True, timed=True)
    draws = {
        method: draw_lists(adjacency, np.array([0]), Rule(3, method=method), key=KEY).neighbors.tolist()
        for method in ("top", "recent")
    }
    assert draws == {"top": [0, 1, 2], "recent": [6, 7, 8]}


def test_a_list_without_an_edge_gives_none_with_replacement_too(make_adjacency):
    adjacency = make_adjacency([[], [(1, 0.0, 5)], []], weighted=True, timed=True)
    for method, replace in RULES:
        rule = Rule(4, replace, method)
        drawn = draw_lists(adjacency, np.array([0, 2, 0]), rule, key=KEY, columns=COLUMNS)
        assert drawn.indptr.tolist() == [0, 0, 0, 0]
        later = draw_lists(adjacency, np.array([1]), rule, key=KEY, bounds=np.array([4]))
        assert later.indptr.tolist() == [0, 0]
    for replace in (False, True):
        assert draw_lists(adjacency, np.array([1]), Rule(4, replace, "weighted"), key=KEY).indptr.tolist() == [0, 0]


def test_a_bound_at_the_ends_of_time_holds(make_adjacency):
    least, most = -(2**63), 2**63 - 1
    adjacency = make_adjacency([[(1, None, least), (2, None, 0), (3, None, most)]], timed=True)

    def seen(bound, **rule):
        drawn = draw_lists(adjacency, np.array([0]), Rule(-1, **rule), key=KEY, bounds=np.array([bound]))
        return drawn.neighbors.tolist()

    assert seen(most) == [1, 2, 3]
    assert seen(most, strict=True) == [1, 2]
    assert seen(least) == [1]
    assert seen(least, strict=True) == []
    assert seen(least, window=0) == [1]
    assert seen(0, window=most) == [2]
    assert seen(-1, window=most) == [1]
    assert seen(most, window=0) == [3]


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ({"fanout": -2}, "fanouts must be numbers from -1"),
        ({"fanout": 1, "method": "best"}, "method must be one of uniform, weighted, top, recent, got 'best'"),
        ({"fanout": 1, "method": "top", "replace": True}, "'top' takes each neighbour once"),
        ({"fanout": 2**40, "replace": True}, "with replacement must be at most"),
        ({"fanout": 1, "window": -1}, "window must be a time span"),
    ],
)
def test_rules_that_cannot_be_are_refused(rule, message):
    with pytest.raises(BadInput, match=message):
        Rule(**rule)


def test_what_a_method_looks_at_has_to_be_there():
    for method in METHODS:
        Rule(1, method=method).check_columns("a:r:b", weighted=True, timed=True)
    for method, what in (("weighted", "weights"), ("top", "weights"), ("recent", "times")):
        with pytest.raises(BadInput, match=f"'{method}' needs {what}, but edges of a:r:b have none"):
            Rule(1, method=method).check_columns("a:r:b", weighted=False, timed=False)
