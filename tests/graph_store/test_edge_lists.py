"""Rows → sorted lists, against dicts: order, duplicates, the first weight, extreme times, ranges, threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.edge_lists import Columns, Finder, build_lists, map_rows
from graph_store.ids import IdMap, nodes_of_ranks
from tests.oracles import Twin

EXTREMES = [-(2**63), -1, 0, 1, 2**63 - 1]


def columns(rows):
    """Return rows of (src, dst, weight, time) as Columns."""
    src, dst, weight, time = list(zip(*rows)) or [()] * 4
    return Columns(
        np.array(src, np.int64),
        np.array(dst, np.int64),
        np.array(weight, np.float32) if rows and weight[0] is not None else None,
        np.array(time, np.int64) if rows and time[0] is not None else None,
    )


def finder(ids_map):
    return Finder(ids_map.direct, ids_map.low, ids_map.index, ids_map.base)


def built(chunks, source, target, *, ranks=None, threads=1, bits=None):
    ranks = (0, source.count) if ranks is None else ranks
    highest = int(np.diff(target.base).max(initial=1)) * target.num_shards - 1
    bits = max(1, highest.bit_length()) if bits is None else bits
    return build_lists(chunks, finder(source), finder(target), ranks=ranks, bits=bits, threads=threads)


def check(lists, rows, source, target, ranks=None):
    """Compare lists with the twin's, in nodes."""
    low, high = (0, source.count) if ranks is None else ranks
    expected = Twin(rows).lists
    assert lists.indptr.size == high - low + 1
    assert lists.indptr[0] == 0
    for rank, original in enumerate(source.originals[low:high].tolist()):
        entries = expected.get(original, [])
        nodes = target.to_nodes([entry[0] for entry in entries]).tolist()
        wanted = [(node, weight, time) for node, (_, weight, time) in zip(nodes, entries)]
        wanted.sort(key=lambda entry: (0 if entry[2] is None else entry[2], entry[0]))
        span = slice(lists.indptr[rank], lists.indptr[rank + 1])
        assert lists.neighbors[span].tolist() == [entry[0] for entry in wanted]
        if lists.weights is not None:
            assert lists.weights[span].tolist() == [entry[1] for entry in wanted]
        if lists.times is not None:
            assert lists.times[span].tolist() == [entry[2] for entry in wanted]


def rows_strategy(weighted, timed):
    ends = st.one_of(st.integers(0, 8), st.integers(0, 8), st.sampled_from(EXTREMES))
    weight = st.floats(-10, 10, width=32) if weighted else st.none()
    time = st.one_of(st.integers(-2, 2), st.sampled_from(EXTREMES)) if timed else st.none()
    return st.lists(st.tuples(ends, ends, weight, time), max_size=60)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.booleans(), st.booleans(), st.sampled_from([1, 2, 3, 7, 16]))
def test_lists_are_sorted_and_of_duplicates_the_first_stays(data, weighted, timed, num_shards):
    rows = data.draw(rows_strategy(weighted, timed))
    source = IdMap.build("user", np.array(sorted({row[0] for row in rows} | {100}), np.int64), num_shards)
    target = IdMap.build("item", np.array(sorted({row[1] for row in rows}), np.int64), num_shards)
    cut = data.draw(st.integers(0, len(rows)))
    chunks = [columns(part) for part in (rows[:cut], rows[cut:]) if part]
    lists = built(chunks, source, target)
    check(lists, rows, source, target)
    assert (lists.weights is not None) == (weighted and bool(rows))
    assert (lists.times is not None) == (timed and bool(rows))


@pytest.mark.parametrize("num_ids", [50, 3000, 100_000])
@pytest.mark.parametrize("weighted", [False, True])
def test_many_rows_are_sorted_alike_by_any_number_of_threads(num_ids, weighted):
    random = np.random.default_rng(num_ids)
    ids = IdMap.build("page", np.arange(num_ids) * 3, 7)
    # A Zipf-like spread: some buckets hold most rows.
    src = (num_ids * random.random(200_000) ** 4).astype(np.int64) * 3
    dst = (num_ids * random.random(200_000) ** 2).astype(np.int64) * 3
    weight = np.arange(200_000, dtype=np.float32) if weighted else None
    chunks = [Columns(*part) for part in zip(np.split(src, [70_000]), np.split(dst, [70_000]), [None] * 2)]
    if weighted:
        chunks = [chunk._replace(weight=part) for chunk, part in zip(chunks, np.split(weight, [70_000]))]
    lists = built(chunks, ids, ids)
    pairs, first = np.unique(np.stack([ids.to_nodes(src) % 7, ids.to_nodes(src), ids.to_nodes(dst)]), axis=1,
                             return_index=True)  # fmt: skip
    assert np.array_equal(np.repeat(nodes_of_ranks(ids.base), np.diff(lists.indptr)), pairs[1])
    assert np.array_equal(lists.neighbors, pairs[2])
    if weighted:
        assert np.array_equal(lists.weights, weight[first])
    for threads in (2, 3):
        other = built(chunks, ids, ids, threads=threads)
        assert np.array_equal(lists.indptr, other.indptr)
        assert np.array_equal(lists.neighbors, other.neighbors)


@pytest.mark.parametrize("weighted", [False, True])
def test_a_range_of_ranks_is_built_alone(weighted):
    random = np.random.default_rng(0)
    rows = [
        (int(src), int(dst), float(i) if weighted else None, None)
        for i, (src, dst) in enumerate(random.integers(0, 200, (3000, 2)))
    ]
    ids = IdMap.build("page", np.arange(200), 4)
    rank = {original: i for i, original in enumerate(ids.originals.tolist())}
    for low, high in ((0, 64), (64, 65), (65, 200), (70, 70)):
        part = [row for row in rows if low <= rank[row[0]] < high]
        check(built([columns(part)] if part else [], ids, ids, ranks=(low, high)), part, ids, ids, (low, high))


def test_targets_of_many_bits_take_the_way_of_the_index():
    ids = IdMap.build("page", np.arange(5000), 2)
    rows = [(i % 5000, (7 * i) % 5000, None, None) for i in range(0, 40_000, 3)]
    check(built([columns(rows)], ids, ids, bits=57), rows, ids, ids)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("bits", [13, 40, 51, 52, 57])
def test_keys_of_any_width_give_the_same_lists_at_any_number_of_threads(bits, weighted):
    # 5000 ranks take 13 bits: with targets of 51 a key has 64 bits, with more the rows are sorted by their index.
    random, ids = np.random.default_rng(bits), IdMap.build("page", np.arange(5000), 2)
    src, dst = random.integers(0, 5000, (2, 150_000))
    weight = np.arange(150_000, dtype=np.float32) if weighted else None
    chunk = Columns(src, dst, weight)
    expected = built([chunk], ids, ids, bits=13)
    for threads in (1, 2, 3):
        lists = built([chunk], ids, ids, bits=bits, threads=threads)
        for one, other in zip(lists, expected):
            assert (one is None and other is None) or np.array_equal(one, other)
    assert expected.indptr[-1] == np.unique(src * 5000 + dst).size


def test_a_pair_listed_both_ways_has_the_first_rows_weight_in_both_lists():
    ids = IdMap.build("page", np.arange(4), 2)
    rows = [(0, 1, 0.5, None), (2, 2, 7.0, None), (1, 0, 9.0, None), (2, 2, 8.0, None), (3, 0, 1.5, None)]
    chunks = [columns(part).both_ways() for part in (rows[:2], rows[2:4], rows[4:])]
    lists = built(chunks, ids, ids)
    found = {
        (original, int(ids.to_ids([node])[0])): weight
        for rank, original in enumerate(ids.originals.tolist())
        for node, weight in zip(
            lists.neighbors[lists.indptr[rank] : lists.indptr[rank + 1]].tolist(),
            lists.weights[lists.indptr[rank] : lists.indptr[rank + 1]].tolist(),
        )
    }
    assert found == {(0, 1): 0.5, (1, 0): 0.5, (2, 2): 7.0, (3, 0): 1.5, (0, 3): 1.5}


@settings(max_examples=40, deadline=None)
@given(rows_strategy(True, True) | rows_strategy(True, False), st.integers(1, 3))
def test_lists_of_both_ways_are_their_own_transpose(rows, threads):
    ids = IdMap.build("page", np.array(sorted({row[end] for row in rows for end in (0, 1)}), np.int64), 3)
    lists = built([columns(rows).both_ways()], ids, ids, threads=threads)
    sources = np.repeat(nodes_of_ranks(ids.base), np.diff(lists.indptr)).tolist()
    none = [None] * len(sources)
    weights, times = (none if part is None else part.tolist() for part in (lists.weights, lists.times))
    edges = set(zip(sources, lists.neighbors.tolist(), weights, times))
    assert len(edges) == len(sources)
    assert {(dst, src, weight, time) for src, dst, weight, time in edges} == edges


def test_rows_of_other_times_are_other_edges():
    ids = IdMap.build("page", np.arange(2), 1)
    rows = [(0, 1, 1.0, 5), (0, 1, 2.0, 4), (0, 1, 3.0, 5), (0, 0, 4.0, 4)]
    lists = built([columns(rows)], ids, ids)
    # By time, then node; of the two at time 5 the first row stays.
    assert lists.indptr.tolist() == [0, 3, 3]
    assert lists.neighbors.tolist() == [0, 1, 1]
    assert lists.times.tolist() == [4, 4, 5]
    assert lists.weights.tolist() == [4.0, 2.0, 1.0]


def test_no_rows_are_empty_lists():
    ids, none = IdMap.build("page", np.arange(5), 2), IdMap.build("page", np.empty(0, np.int64), 2)
    assert built([], ids, ids).indptr.tolist() == [0] * 6
    assert built([], none, none).indptr.tolist() == [0]
    assert built([columns([])], none, none).neighbors.size == 0


def test_map_rows_gives_the_rank_of_the_source_before_the_node_of_the_target():
    source, target = (IdMap.build("page", np.array(ids), 3) for ids in ([-5, 0, 9, 2**62], [7, 8]))
    chunk = Columns(np.array([9, -5, 2**62, 9]), np.array([8, 7, 8, 7]))
    ranks = [source.originals.tolist().index(value) for value in chunk.src]
    nodes = target.to_nodes(chunk.dst).tolist()
    keys = map_rows([chunk, chunk], finder(source), finder(target), bits=4, ranks_low=0, threads=2)
    assert keys.tolist() == [rank << 4 | node for rank, node in zip(ranks, nodes)] * 2
    alone = map_rows([chunk], finder(source), finder(target), bits=0, ranks_low=0, threads=1)
    assert alone.tolist() == ranks


@settings(max_examples=40, deadline=None)
@given(rows_strategy(True, True))
def test_swapped_and_both_ways(rows):
    given = columns(rows)
    swapped, both = given.swapped(), given.both_ways()
    assert list(zip(swapped.src.tolist(), swapped.dst.tolist())) == [(dst, src) for src, dst, _, _ in rows]
    expected = []
    for src, dst, weight, time in rows:
        expected.append((src, dst, weight, time))
        if src != dst:
            expected.append((dst, src, weight, time))
    none = [None] * len(expected)
    weights, times = (none if part is None else part.tolist() for part in (both.weight, both.time))
    assert list(zip(both.src.tolist(), both.dst.tolist(), weights, times)) == expected
    if rows:
        assert swapped.weight is given.weight
        mask = np.arange(len(rows)) % 2 == 0
        assert given.take(mask).time.tolist() == [row[3] for row in rows[::2]]
        assert given.num_bytes == 28 * len(rows)
