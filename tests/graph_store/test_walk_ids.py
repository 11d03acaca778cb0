"""Walks of a store by original ids: along types and metapaths, over updates and folds."""

import hashlib
import re
from pathlib import Path

import numpy as np
import pytest

import graph_store
from graph_store import BadInput, GraphWriter, UnknownEdgeType, UnknownId, arena
from graph_store.resident import edge_file
from tests.graph_store.empty_stores import edge_type, make_empty, node_type
from tests.graph_store.stores import BACK, CLICKS, many_rows

LINKS = "node:links:node"


def neighbors_of(store, edge_type):
    entry = store.edge_types[edge_type]
    ids = store.ids(entry.src).tolist()
    found = store.neighbors(ids, edge_type)
    return {one: set(found.ids[found.indptr[i] : found.indptr[i + 1]].tolist()) for i, one in enumerate(ids)}


def test_walks_go_along_edges_to_and_back(make_store):
    rows = many_rows(3000, weighted=False)
    with graph_store.open(make_store(rows, reverse=True)) as store:
        ids = store.ids("user")[:200]
        found = store.walk(ids, CLICKS, length=5, walks=3, seed=7)
        ways = [neighbors_of(store, name) for name in (CLICKS, BACK)]
    assert found.ids.dtype == np.int64
    assert found.ids.shape == (600, 6)
    assert found.ids[:, 0].tolist() == np.repeat(ids, 3).tolist()
    assert (found.lengths == 6).all()
    for path in found.lists():
        for hop, (one, other) in enumerate(zip(path, path[1:])):
            assert other in ways[hop % 2][one]


def test_walks_end_where_there_is_no_way_on_and_mix_ids_of_all_kinds(tmp_path):
    nodes = [node_type("user", "string"), node_type("item", "unsigned"), node_type("firm")]
    make_empty(tmp_path / "s", nodes, [edge_type("user:buys:item", reverse=True), edge_type("item:made_by:firm")])
    with GraphWriter(tmp_path / "s") as writer:
        writer.add_edges("user:buys:item", ["ann", "bob"], np.array([2**64 - 1, 6], np.uint64))
        writer.add_edges("item:made_by:firm", np.array([2**64 - 1], np.uint64), [-3])
    with graph_store.open(tmp_path / "s") as store:
        found = store.walk(["bob", "ann"], metapath=["user:buys:item", "item:made_by:firm"], length=2, seed=0)
        back = store.walk(["bob"], "user:buys:item", length=3, seed=0)
        only = store.walk(np.array([6, 2**64 - 1], np.uint64), metapath=["item:rev_buys:user"], length=1, seed=0)
        items = store.visited_neighbors(
            ["ann"], metapath=["user:buys:item"], num_neighbors=2, length=1, walks=3, seed=0
        )
    assert found.lists() == [["bob", 6], ["ann", 2**64 - 1, -3]]
    assert found.lengths.tolist() == [2, 3]
    assert found.ids.tolist() == [["bob", 6, None], ["ann", 2**64 - 1, -3]]
    assert back.lists() == [["bob", 6, "bob", 6]]
    assert only.lists() == [[6, "bob"], [2**64 - 1, "ann"]]
    assert (items.ids.dtype, items.ids.tolist(), items.counts.tolist()) == (np.uint64, [2**64 - 1], [3])


def test_the_same_walks_before_and_after_a_fold_at_any_number_of_threads(make_store):
    rows = [(src % 300, dst % 300, weight + 0.5, None) for src, dst, weight, _ in many_rows(4000, seed=3)]
    path = make_store(rows, edge_type=LINKS, undirected=True, duplicates="all")
    random = np.random.default_rng(4)
    with GraphWriter(path, fold_rows=0) as writer:
        new = random.integers(0, 400, (2, 700))
        writer.add_edges(LINKS, *new, weight=random.random(700))
        # A list that becomes a hub, and nodes that go.
        writer.add_edges(LINKS, np.full(900, 5), np.arange(900), weight=np.arange(900) / 7)
        writer.delete_nodes("node", [7, 8])

    def digests(**options):
        found = []
        with graph_store.open(path, **options) as store:
            ids = np.repeat([one for one in store.ids("node").tolist() if one < 400], 20)
            ids.sort()
            for how in (
                {},
                {"method": "weighted", "restart": 0.2},
                {"p": 0.5, "q": 4.0},
                {"method": "weighted", "q": 0.25},
            ):
                walks = store.walk(ids, LINKS, length=6, seed=9, **how)
                assert (walks.lengths > 1).all()
                assert not np.isin(walks.ids, [7, 8]).any()
                found.append(hashlib.sha256(walks.ids.tobytes()).hexdigest())
            visited = store.visited_neighbors(ids[::20], LINKS, num_neighbors=5, length=6, walks=9, seed=9)
            found.append(hashlib.sha256(visited.ids.tobytes() + visited.counts.tobytes()).hexdigest())
        return found

    before = digests(threads=1)
    assert digests(threads=2) == digests(threads=4) == before
    with GraphWriter(path) as writer:
        writer.fold()
    assert digests(threads=1) == digests(threads=2) == before
    assert graph_store.verify(path) == []


def test_it_is_known_of_a_type_whether_a_neighbour_may_be_there_twice(make_store):
    rows = [(1, 10, 1.0, None), (1, 10, 2.0, None), (2, 10, 1.0, None)]
    timed = [(1, 10, None, 1), (1, 10, None, 2), (2, 10, None, 1)]
    for given, options, distinct in (
        (rows, {}, True),
        (rows, {"duplicates": "sum"}, True),
        (rows, {"duplicates": "all"}, False),
        (timed, {}, False),
    ):
        with graph_store.open(make_store(given, reverse=True, **options)) as store:
            assert [store.adjacency(name).distinct for name in (CLICKS, BACK)] == [distinct] * 2
            assert (store.degree([1], CLICKS)[0] == 1) == distinct


def test_times_go_up_along_a_walk(make_store):
    rows = many_rows(3000, timed=True, weighted=False)
    with graph_store.open(make_store(rows, reverse=True)) as store:
        ids = store.ids("user")[:300]
        options = {"length": 6, "seed": 1, "times": np.full(300, -3)}
        found = store.walk(ids, CLICKS, strict=True, **options)
        looser = store.walk(ids, CLICKS, **options)
    # Times are -3 … 2: five are later than the first, one after the other.
    assert found.lengths.max() <= 6
    assert looser.lengths.max() == 7
    known = {}
    for src, dst, _, time in rows:
        known.setdefault((src, dst), set()).add(time)
    for path in found.lists():
        clock = -3
        for hop, ends in enumerate(zip(path, path[1:])):
            clock = min(time for time in known[ends if hop % 2 == 0 else ends[::-1]] if time > clock)


def test_most_visited_nodes_are_of_the_type_of_the_starts(make_store):
    rows = [(user, 100 + item, None, None) for user in range(30) for item in range(user, user + 3)]
    with graph_store.open(make_store(rows, reverse=True)) as store:
        found = store.visited_neighbors([10, 0], CLICKS, num_neighbors=4, length=2, walks=3000, restart=1.0, seed=2)
    # A user shares two items with one next to it, and one with one two away.
    assert set(found.ids[:4].tolist()) == {8, 9, 11, 12}
    assert set(found.ids[:2].tolist()) == {9, 11}
    assert found.ids[found.indptr[1] :].tolist() == [1, 2]
    # From 10: item 110 has users 8, 9, 10; 111 9, 10, 11; 112 10, 11, 12. So 9 by 2/9 of 3000.
    assert abs(found.counts[0] - 3000 * 2 / 9) < 120


def test_what_cannot_be_walked_is_refused(make_store):
    path = make_store([(1, 10, None, None), (2, 11, None, None)])
    with graph_store.open(path) as store:

        def refused(error, message, *given, **options):
            with pytest.raises(error, match=message):
                store.walk([1], *given, **{"length": 2, "seed": 0, **options})

        refused(BadInput, "2 hops along user:clicks:item need its reverse", CLICKS)
        refused(UnknownEdgeType, "no edge type 'a:b:c'", "a:b:c")
        refused(UnknownEdgeType, "no edge type 'a:b:c'", metapath=["a:b:c"])
        refused(BadInput, "a metapath names its edge types", CLICKS, metapath=[CLICKS])
        refused(BadInput, "metapath must name one edge type or more", metapath=[])
        refused(
            BadInput, "user:clicks:item leads to nodes of item, user:clicks:item goes on from user", metapath=[CLICKS]
        )
        refused(BadInput, "length and walks must be 1 or more, got 0 and 1", CLICKS, length=0)
        with pytest.raises(UnknownId, match="3"):
            store.walk([3], CLICKS, length=1, seed=0)
        assert store.walk([1], length=1, walks=2, seed=0).lists() == [[1, 10], [1, 10]]


def test_a_damaged_block_on_the_way_is_an_error_and_whole_ones_are_walked_alike(tmp_path, make_store, monkeypatch):
    monkeypatch.setattr(arena, "CHECKED_AT_ONCE", 0)
    random = np.random.default_rng(2)
    rows = [(int(src), int(dst), 1.5, None) for src, dst in random.integers(0, 20_000, (200_000, 2))]
    path = make_store(rows, path=tmp_path / "large.store", edge_type=LINKS)
    ids = np.arange(500)
    for options in ({}, {"method": "weighted"}, {"p": 0.5}, {"q": 0.25, "restart": 0.3}):
        with graph_store.open(path) as store:
            adjacency = store.adjacency(LINKS)
            first = store.walk(ids, LINKS, length=4, walks=50, seed=1, threads=2, **options)
            adjacency.check_blocks()
            assert adjacency.is_checked
            again = store.walk(ids, LINKS, length=4, walks=50, seed=1, **options)
        assert np.array_equal(first.ids, again.ids)
    file = edge_file(path, 1, 0)
    at = arena.ArenaFile(file).table["words"]["offset"] + 700_000
    with open(file, "r+b") as damaged:
        damaged.seek(at)
        byte = damaged.read(1)[0]
        damaged.seek(at)
        damaged.write(bytes([byte ^ 1]))
    with graph_store.open(path) as store:
        adjacency, nodes = store.adjacency(LINKS), store.nodes("node")
        sound = []
        for node in nodes[:400].tolist():
            try:
                adjacency.check_nodes(np.array([node]))
                sound.append(node)
            except graph_store.CorruptBlock:
                pass
        with pytest.raises(graph_store.CorruptBlock, match="section 'words' is damaged in bytes 655360 to 720895"):
            store.walk(store.to_ids("node", np.array(sound)), LINKS, length=20, seed=1)


def test_the_examples_of_the_page_on_walks_work_as_they_are_written(tmp_path, make_store, monkeypatch, capsys):
    make_store([(1, 10, None, None), (1, 11, None, None), (2, 10, None, None), (3, 12, None, None)],
               path=tmp_path / "clicks.store", reverse=True)  # fmt: skip
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs" / "walks.md").read_text(encoding="utf-8")
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "walks.md", "exec"), {})
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith("[3, 12, 3, 12, 3], [3, 12, 3, 12, 3]]")
    assert said[1] == "(4, 5) [5 5 5 5]"
    assert said[2].startswith("[2] [")
    assert said[3] == "(4, 5) int64"
