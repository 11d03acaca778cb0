"""Merging of lists with operations, against events replayed one by one."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from graph_store.delta import ADDED, DELETED, DELETED_AT
from graph_store.merge import Kills, Rows, merge

RULES = ("first", "all", "sum", "max", "error")


def combine(entries, rule, new):
    """Take an edge (neighbour, weight, time, edge id) into a list by the rule."""
    equal = [entry for entry in entries if (entry[0], entry[2]) == (new[0], new[2])]
    if not equal or rule == "all":
        entries.append(list(new))
    elif rule == "sum":
        equal[0][1] += new[1]
    elif rule == "max":
        equal[0][1] = max(equal[0][1], new[1])


def replay(lists, nodes, events, rule):
    """Do events one after the other: (kind, list, neighbour, weight, time, edge id)."""
    lists = {place: [list(entry) for entry in entries] for place, entries in enumerate(lists)}
    for kind, row, neighbor, weight, time, edge_id in events:
        if kind == "add":
            combine(lists[row], rule, (neighbor, weight, time, edge_id))
        elif kind == "delete":
            lists[row] = [entry for entry in lists[row] if entry[0] != neighbor]
        elif kind == "delete at":
            lists[row] = [entry for entry in lists[row] if (entry[0], entry[2]) != (neighbor, time)]
        elif kind == "row dies":
            lists[row] = []
        elif kind == "neighbour dies":
            lists = {place: [entry for entry in each if entry[0] != neighbor] for place, each in lists.items()}
        else:
            lists = {place: [entry for entry in each if entry[2] >= time] for place, each in lists.items()}
    return [sorted(lists[place], key=lambda entry: (entry[2], entry[0])) for place in range(len(nodes))]


def columns_of(lists, *, weighted, timed, numbered):
    flat = [entry for entries in lists for entry in entries]
    given = list(zip(*flat)) or [(), (), (), ()]
    indptr = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    columns = [
        np.array(given[0], np.int64),
        np.array(given[1], np.float32) if weighted else None,
        np.array(given[2], np.int64) if timed else None,
        np.array(given[3], np.int64) if numbered else None,
    ]
    return indptr, columns


def rows_of(events):
    kinds = {"add": ADDED, "delete": DELETED, "delete at": DELETED_AT}
    chosen = [(order, event) for order, event in enumerate(events) if event[0] in kinds]

    def column(place, dtype):
        return np.array([event[place] for _, event in chosen], dtype)

    return Rows(
        column(1, np.int64),
        column(2, np.int64),
        column(3, np.float32),
        column(4, np.int64),
        column(5, np.int64),
        np.array([kinds[event[0]] for _, event in chosen], np.int64),
        np.array([order for order, _ in chosen], np.int64),
    )


def kills_of(events, num_lists):
    rows, dead, expired = np.full(num_lists, -1, np.int64), {}, []
    for order, (kind, row, neighbor, _, time, _) in enumerate(events):
        if kind == "row dies":
            rows[row] = order
        elif kind == "neighbour dies":
            dead[neighbor] = order
        elif kind == "expire":
            expired.append((order, time))
    nodes = sorted(dead)
    orders = [dead[node] for node in nodes]
    return Kills(
        rows, np.array(nodes, np.int64), np.array(orders, np.int64), np.array(expired, np.int64).reshape(-1, 2)
    )


@st.composite
def cases(draw):
    rule, timed = draw(st.sampled_from(RULES)), draw(st.booleans())
    weighted = rule in ("sum", "max") or draw(st.booleans())
    numbered = draw(st.booleans())
    num_lists = draw(st.integers(1, 4))
    neighbors, times = st.integers(0, 5), st.integers(-2, 2) if timed else st.just(0)
    entry = st.tuples(neighbors, st.integers(-3, 5).map(float), times, st.integers(0, 99))
    lists = []
    for _ in range(num_lists):
        entries = []
        for each in draw(st.lists(entry, max_size=6)):
            combine(entries, "all" if rule == "all" else "first", each)
        lists.append(sorted(map(tuple, entries), key=lambda each: (each[2], each[0])))
    kinds = ["add", "add", "add", "delete", "row dies", "neighbour dies"] + ["delete at", "expire"] * timed
    event = st.tuples(
        st.sampled_from(kinds), st.integers(0, num_lists - 1), neighbors, st.integers(-3, 5).map(float), times,
        st.integers(100, 199),
    )  # fmt: skip
    return rule, timed, weighted, numbered, lists, draw(st.lists(event, max_size=14))


def merged(case, threads=1):
    rule, timed, weighted, numbered, lists, events = case
    rows, kills = rows_of(events), kills_of(events, len(lists))
    nodes = np.arange(len(lists)) + 2
    dirty = np.zeros(len(lists), bool)
    dirty[rows.row] = True
    dirty |= kills.rows >= 0
    for place, entries in enumerate(lists):
        dead = set(kills.nodes.tolist()) & {entry[0] for entry in entries}
        expired = any(entry[2] < time for entry in entries for _, time in kills.expired.tolist())
        dirty[place] |= bool(dead) or expired
    old = columns_of(lists, weighted=weighted, timed=timed, numbered=numbered)
    found = merge(nodes, dirty, old, rows, kills, timed=timed, rule=rule, loops=True, threads=threads)
    expected = replay(lists, nodes, events, rule)
    loops = [sum(entry[0] == node for entry in entries) for node, entries in zip(nodes, expected)]
    before = [sum(entry[0] == node for entry in entries) for node, entries in zip(nodes, lists)]
    return found, expected, sum(loops) - sum(before)


@settings(deadline=None, max_examples=400)
@given(case=cases())
def test_merged_lists_are_what_events_one_by_one_make(case):
    _, timed, weighted, numbered, *_ = case
    found, expected, more_loops = merged(case)
    indptr, columns = columns_of(expected, weighted=weighted, timed=timed, numbered=numbered)
    assert found.indptr.tolist() == indptr.tolist()
    for ours, theirs in zip(found.columns, columns):
        assert (ours is None) == (theirs is None)
        assert ours is None or ours.tolist() == theirs.tolist()
    assert found.more_loops == more_loops


@pytest.mark.long
@settings(deadline=None, max_examples=20_000)
@given(case=cases())
def test_merged_lists_are_what_many_events_one_by_one_make(case):
    found, expected, _ = merged(case)
    assert np.diff(found.indptr).tolist() == [len(entries) for entries in expected]
    flat = [entry for entries in expected for entry in entries]
    for place, column in enumerate(found.columns):
        assert column is None or column.tolist() == [entry[place] for entry in flat]


def test_lists_that_are_not_dirty_are_copied():
    lists = [[(1, 0.5, 0, 3), (4, 1.5, 0, 4)], [(2, 2.5, 0, 5)]]
    old = columns_of(lists, weighted=True, timed=False, numbered=True)
    found = merge(
        np.arange(2), np.zeros(2, bool), old, rows_of([]), kills_of([], 2), timed=False, rule="first", loops=False
    )
    assert found.indptr.tolist() == [0, 2, 3]
    assert [column.tolist() if column is not None else None for column in found.columns] == [
        [1, 4, 2], [0.5, 1.5, 2.5], None, [3, 4, 5],
    ]  # fmt: skip


def test_long_lists_and_many_lists_are_merged_the_same_by_any_number_of_threads():
    random = np.random.default_rng(0)
    lists = [
        sorted({(int(neighbor), 1.0, 0, 7) for neighbor in random.integers(0, 3000, size)})
        for size in random.integers(0, 60, 20_000)
    ]
    lists[5] = [(neighbor, 1.0, 0, 7) for neighbor in range(0, 5000, 2)]
    events = [
        ("add" if number % 3 else "delete", int(row), int(neighbor), 2.0, 0, 100 + number)
        for number, (row, neighbor) in enumerate(zip(random.integers(0, 20_000, 5000), random.integers(0, 3000, 5000)))
    ]
    case = "sum", False, True, True, lists, events
    (one, expected, _), (two, *_) = merged(case), merged(case, threads=3)
    assert np.diff(one.indptr).tolist() == [len(entries) for entries in expected]
    for first, second, place in zip(one.columns, two.columns, range(4)):
        if first is not None:
            assert first.tolist() == second.tolist()
            assert first.tolist() == [entry[place] for entries in expected for entry in entries]
