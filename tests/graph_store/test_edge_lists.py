"""Rows → sorted lists, against dicts: order, equal edges by every rule, extreme times, threads."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.edge_lists import Ends, EqualEdges, Lists, Rows, plain_lists
from graph_store.errors import BadInput
from graph_store.valued_lists import build_lists

EXTREMES = [-(2**63), -1, 0, 1, 2**63 - 1]
RULES = ["first", "all", "sum", "max"]


def expected_lists(rows, num_ranks, rule):
    """Return [(node, weight, time, edge id), …] of each rank, by the rule, in plain Python."""
    equal = defaultdict(list)
    for rank, node, weight, time, edge_id in rows:
        equal[rank, time, node].append((weight, edge_id))
    lists = [[] for _ in range(num_ranks)]
    for rank, time, node in sorted(equal, key=lambda key: (key[0], 0 if key[1] is None else key[1], key[2])):
        same = equal[rank, time, node]
        weights = [weight for weight, _ in same]
        if rule == "all":
            lists[rank] += [(node, weight, time, edge_id) for weight, edge_id in same]
            continue
        weight = weights[0]
        if weight is not None and rule in ("sum", "max"):
            weight = float(np.float32(sum(weights) if rule == "sum" else max(weights)))
        lists[rank].append((node, weight, time, same[0][1]))
    return lists


def rows_of(rows):
    """Return tuples as Rows."""
    ranks, nodes, weights, times, edge_ids = list(zip(*rows)) or [()] * 5
    given = [
        None if not values or values[0] is None else np.array(values, dtype)
        for values, dtype in ((weights, np.float32), (times, np.int64), (edge_ids, np.int64))
    ]
    return Rows(np.array(ranks, np.uint64), np.array(nodes, np.uint64), *given)


def lists_of(lists):
    columns = [None if column is None else column.tolist() for column in lists[1:]]
    none = [None] * len(columns[0])
    entries = list(zip(*(none if column is None else column for column in columns)))
    bounds = lists.indptr.tolist()
    return [entries[low:high] for low, high in zip(bounds, bounds[1:])]


def rows_strategy():
    def rows(kinds):
        weighted, timed, numbered = kinds
        weight = st.integers(-20, 20).map(float) if weighted else st.none()
        time = st.one_of(st.integers(-2, 2), st.sampled_from(EXTREMES)) if timed else st.none()
        edge_id = st.integers(0, 2**56 - 1) if numbered else st.none()
        return st.lists(
            st.tuples(st.integers(0, 9), st.integers(0, 2**57 - 1) | st.integers(0, 5), weight, time, edge_id),
            max_size=60,
        )

    return st.tuples(st.booleans(), st.booleans(), st.booleans()).flatmap(rows)


@settings(max_examples=100, deadline=None)
@given(rows_strategy(), st.sampled_from(RULES))
def test_lists_are_sorted_and_equal_edges_are_joined_by_the_rule(rows, rule):
    assert lists_of(build_lists(rows_of(rows), 10, rule=rule)) == expected_lists(rows, 10, rule)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("rule", RULES)
def test_long_lists_are_sorted_alike_by_any_number_of_threads(timed, rule):
    random = np.random.default_rng(3)
    ranks = (70 * random.random(200_000) ** 3).astype(np.uint64)
    nodes = random.integers(0, 3000, 200_000).astype(np.uint32)
    nodes[:50_000].sort()
    times = random.integers(-5, 6, 200_000) if timed else None
    rows = Rows(ranks, nodes, random.integers(0, 99, 200_000).astype(np.float32), times, np.arange(200_000))
    keys = [np.arange(200_000), nodes, *([] if times is None else [times]), ranks]
    order = np.lexsort(keys)
    first = np.ones(200_000, bool)
    first[1:] = np.logical_or.reduce([key[order][1:] != key[order][:-1] for key in keys[1:]])
    starts = np.flatnonzero(first) if rule != "all" else np.arange(200_000)
    weights = rows.weights[order]
    expected = {"first": weights[starts], "all": weights}
    expected["sum"] = np.add.reduceat(weights.astype(float), starts).astype(np.float32)
    expected["max"] = np.maximum.reduceat(weights, starts)
    for threads in (1, 3):
        lists = build_lists(rows, 70, rule=rule, threads=threads)
        assert np.array_equal(lists.neighbors, nodes[order][starts])
        assert np.array_equal(lists.edge_ids, order[starts])
        assert np.array_equal(lists.weights, expected[rule])
        assert np.array_equal(np.repeat(np.arange(70), np.diff(lists.indptr)), ranks[order][starts])
        assert timed is (lists.times is not None)
        assert not timed or np.array_equal(lists.times, times[order][starts])


# Uneven pieces of 200,000 rows, one of them empty.
PARTS = slice(0, 70_001), slice(70_001, 70_001), slice(70_001, 70_002), slice(70_002, None)


def ends_of(ranks, nodes):
    return [Ends(np.array(ranks, np.uint32), np.array(nodes, np.uint32), np.empty(0, np.uint16))]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=80),
    st.sampled_from(["first", "all"]),
    st.integers(1, 3),
)
def test_plain_rows_are_sorted_likewise(pairs, rule, threads):
    rows = [(*pair, None, None, None) for pair in pairs]
    ends = ends_of([rank for rank, _ in pairs], [node for _, node in pairs])
    assert lists_of(plain_lists(ends, 10, 5, rule=rule, threads=threads)) == expected_lists(rows, 10, rule)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 6), st.integers(0, 30)), max_size=30), max_size=4),
    st.integers(0, 6),
    st.integers(1, 3),
)
def test_ranks_count_through_the_edge_types(batches, low, threads):
    batches = [[row for row in batch if 16 * row[0] + row[1] >= low] for batch in batches]
    ends = [
        Ends(
            np.array([local for _, local, _ in batch], np.uint32),
            np.array([node for *_, node in batch], np.uint64),
            np.array([kind for kind, *_ in batch], np.uint16),
        )
        for batch in batches
        if batch
    ]
    rows = [(16 * kind + local - low, node, None, None, None) for batch in batches for kind, local, node in batch]
    lists = plain_lists(ends, 48 - low, 5, low=low, padded=16, rule="all", threads=threads)
    assert lists_of(lists) == expected_lists(rows, 48 - low, "all")


@pytest.mark.parametrize("num_ranks", [50, 3000, 100_000])
@pytest.mark.parametrize("rule", ["first", "all"])
def test_many_rows_are_sorted_alike_by_any_number_of_threads(num_ranks, rule):
    random = np.random.default_rng(num_ranks)
    # A Zipf-like spread: some buckets hold most rows.
    ranks = (num_ranks * random.random(200_000) ** 4).astype(np.int64)
    nodes = (num_ranks * random.random(200_000) ** 2).astype(np.int64)
    bits = num_ranks.bit_length()
    keys = (ranks << bits | nodes).astype(np.uint64)
    expected = np.sort(keys) if rule == "all" else np.unique(keys)
    for threads in (1, 2, 3):
        ends = [Ends(*(column[part] for column in ends_of(ranks, nodes)[0])) for part in PARTS]
        lists = plain_lists(ends, num_ranks, bits, rule=rule, threads=threads)
        assert lists.indptr[-1] == lists.neighbors.size == expected.size
        found = np.repeat(np.arange(num_ranks), np.diff(lists.indptr)) << bits | lists.neighbors
        assert np.array_equal(found.astype(np.uint64), expected)


def test_sums_are_made_in_double_precision_and_once_a_pair():
    weights = [2.0**24, 1.0, 1.0, -(2.0**24)]
    rows = [(0, 1, weight, None, None) for weight in weights]
    assert build_lists(rows_of(rows), 1, rule="sum").weights.tolist() == [2.0]
    assert build_lists(rows_of(rows), 1, rule="max").weights.tolist() == [2.0**24]
    assert build_lists(rows_of(rows), 1, rule="first").weights.tolist() == [2.0**24]
    assert build_lists(rows_of(rows), 1, rule="all").weights.tolist() == weights


def test_a_sum_past_float32_is_refused():
    rows = [(0, 1, 3e38, None, None), (0, 1, 3e38, None, None)]
    with pytest.raises(BadInput, match="add up to more than float32 holds"):
        build_lists(rows_of(rows), 1, rule="sum")


def test_equal_edges_are_named_where_they_are_an_error():
    rows = [(3, 7, 1.0, 5, None), (3, 7, 1.0, 4, None), (3, 8, 1.0, 5, None)]
    assert build_lists(rows_of(rows), 4, rule="error").indptr.tolist() == [0, 0, 0, 0, 3]
    with pytest.raises(EqualEdges) as caught:
        build_lists(rows_of([*rows, (3, 7, 2.0, 4, None)]), 4, rule="error")
    assert (caught.value.rank, caught.value.node) == (3, 7)
    assert plain_lists(ends_of([2, 0, 2], [9, 1, 8]), 3, 6, rule="error", threads=2).neighbors.tolist() == [1, 8, 9]
    with pytest.raises(EqualEdges) as caught:
        plain_lists(ends_of([2, 0, 2, 2], [9, 1, 8, 9]), 3, 6, rule="error", threads=2)
    assert (caught.value.rank, caught.value.node) == (2, 9)


def test_no_rows_are_empty_lists():
    assert plain_lists([], 5, 3, rule="first", threads=2).indptr.tolist() == [0] * 6
    assert plain_lists(ends_of([], []), 0, 3, rule="first", threads=1).indptr.tolist() == [0]
    empty = Rows(*np.empty((2, 0), np.uint64), np.empty(0, np.float32), np.empty(0, np.int64), np.empty(0, np.int64))
    for rule in (*RULES, "error"):
        lists = build_lists(empty, 3, rule=rule)
        assert lists.indptr.tolist() == [0] * 4
        assert all(column.size == 0 for column in lists[1:])


def test_a_part_of_lists():
    lists = Lists(np.array([0, 2, 2, 5]), np.arange(5), None, np.arange(5) * 10)
    part = lists.part(1, 3)
    assert part.indptr.tolist() == [0, 0, 3]
    assert part.neighbors.tolist() == [2, 3, 4]
    assert part.weights is None
    assert part.times.tolist() == [20, 30, 40]
