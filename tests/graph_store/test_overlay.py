"""Overlays: the same whether built at once or step by step, as a fold makes it, and small."""

import shutil

import numpy as np
import pytest

import graph_store
from graph_store.arena import ArenaFile, ArenaWriter
from graph_store.sampling.neighbors import sample_neighbors
from graph_store.view import overlay_file
from graph_store.writer import GraphWriter
from tests.graph_store import live_model
from tests.graph_store.empty_stores import edge_type, make_empty, node_type

VIEWS, BACK, KNOWS = "user:views:item", "item:rev_views:user", "user:knows:user"


@pytest.fixture
def store(tmp_path):
    """Return `store(**rules)`: an empty store of users and items."""

    def make(num_shards=2, **options):
        nodes = [node_type("item"), node_type("user")]
        views = edge_type(VIEWS, reverse=True, **options)
        return make_empty(
            tmp_path / "live.store", nodes, [views, edge_type(KNOWS, undirected=True)], num_shards=num_shards
        )

    return make


def everything(path):
    """Ask for all lists, by every way, and for a sample of each."""
    found = {}
    with graph_store.open(path, threads=1) as store:
        for name, entry in store.edge_types.items():
            adjacency, nodes = store.adjacency(name), store.nodes(entry.src)
            columns = [column.tolist() for column in adjacency.columns(nodes) if column is not None]
            edges = [column.tolist() for column in adjacency.edges_at(np.arange(adjacency.num_edges))]
            sample = [column.tolist() for column in sample_neighbors(adjacency, nodes, 3, seed=4)]
            found[name] = columns, edges, sample, adjacency.degrees(nodes).tolist(), entry.num_edges
        found["ids"] = {name: store.ids(name).tolist() for name in store.node_types}
    return found


def overlays(path):
    return sorted(each.name for each in (path / "arena").glob("*.overlay-*"))


def grow(writer, random, step):
    users, items = random.integers(0, 30 + 40 * step, 200), random.integers(0, 30 + 70 * step, 200)
    with writer.batch() as batch:
        batch.add_edges(VIEWS, users, items, weight=random.integers(1, 9, 200), time=random.integers(0, 9, 200))
        batch.add_edges(KNOWS, users[:50], users[50:100])
        batch.delete_edges(VIEWS, users[:20], items[:20])
        if step % 2:
            batch.delete_nodes("item", np.unique(items[20:23]))
            batch.delete_nodes("user", np.unique(users[20:22]))
            batch.expire(VIEWS, step // 2)


@pytest.mark.parametrize("duplicates", ["first", "all", "sum", "max"])
def test_an_overlay_is_the_same_step_by_step_at_once_and_folded(store, duplicates):
    path = store(weighted=True, timed=True, duplicates=duplicates)
    random = np.random.default_rng(1)
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        grow(writer, random, 0)
        writer.fold()
        for step in range(1, 6):
            grow(writer, random, step)
            by_steps = everything(path)
            assert overlays(path) == [overlay_file(path, writer.manifest, writer.version).name]
        shutil.rmtree(path / "arena")
        assert everything(path) == by_steps
        writer.fold()
        assert everything(path) == by_steps
    assert overlays(path) == []
    assert graph_store.verify(path) == []


def test_an_overlay_holds_the_changed_groups_only(store):
    path = store(num_shards=1)
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        users = np.repeat(np.arange(20_000), 10)
        writer.add_edges(VIEWS, users, np.arange(200_000) % 1009)
        writer.fold()
        writer.add_edges(VIEWS, [17], [5000])
    graph_store.open(path).close()
    (name,) = overlays(path)
    words = ArenaFile(path / "arena" / name).sections["e0.words"]
    base = ArenaFile(path / "arena" / "gen-2.edges-0").sections["words"]
    assert 0 < words.size < 100
    assert base.size > 20_000


@pytest.mark.parametrize("size", [511, 512, 513, 1024, 1025, 1537])
@pytest.mark.parametrize("columns", [{}, {"weighted": True, "timed": True}])
def test_a_node_becomes_a_hub_and_ceases_to_be_one(store, size, columns):
    path = store(**columns)

    def given(ids):
        values = {"weight": ids.astype(np.float32), "time": ids // 3}
        return {key: values[key] for key in ("weight", "time") if columns}

    def expected(*parts):
        ids = np.concatenate(parts)
        weights, times = (ids.astype(float).tolist(), (ids // 3).tolist()) if columns else ([None] * ids.size,) * 2
        return sorted(zip(ids.tolist(), weights, times))

    def lists():
        with graph_store.open(path, threads=1) as reader:
            found = reader.neighbors([7, 8], VIEWS)
            none = [None] * found.ids.size
            rows = zip(*(none if each is None else each.tolist() for each in (found.ids, found.weights, found.times)))
            rows = list(rows)
            assert reader.degree([7, 8], VIEWS).tolist() == np.diff(found.indptr).tolist()
            return sorted(rows[: found.indptr[1]]), sorted(rows[found.indptr[1] :])

    some, few = np.arange(500), np.arange(3)
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        writer.add_edges(VIEWS, np.full(500, 7), some, **given(some))
        writer.add_edges(VIEWS, [8, 8, 8], few, **given(few))
        writer.fold()
        more = np.arange(500, size)
        writer.add_edges(VIEWS, np.full(more.size, 7), more, **given(more))
        assert lists() == (expected(some, more), expected(few))
        writer.fold()
        assert lists() == (expected(some, more), expected(few))
        gone = np.arange(100, size)
        writer.delete_edges(VIEWS, np.full(gone.size, 7), gone)
        assert lists() == (expected(some[:100]), expected(few))
        writer.fold()
        assert lists() == (expected(some[:100]), expected(few))
    assert graph_store.verify(path) == []


def test_neighbours_need_more_bits_than_those_of_the_base(store):
    path = store()
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        writer.add_edges(VIEWS, [1, 2, 3], [1, 2, 3])
        writer.fold()
        bits = writer.manifest.edge_types[0].bits
        writer.add_edges(VIEWS, np.arange(3000) % 5, np.arange(3000))
        with graph_store.open(path, threads=1) as reader:
            assert reader.edge_types[VIEWS].bits > bits + 5
            assert sorted(reader.neighbors([3], VIEWS).ids.tolist()) == list(range(3, 3000, 5))
            assert reader.neighbors([2999], BACK).ids.tolist() == [4]
        writer.fold()
        assert writer.manifest.edge_types[0].bits > bits + 5
    assert graph_store.verify(path) == []


def test_a_damaged_overlay_is_refused_and_is_not_built_upon(store):
    path = store()
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        writer.add_edges(VIEWS, [1, 2, 3], [1, 2, 3])
        right = everything(path)
        (name,) = overlays(path)
        file = path / "arena" / name
        data = bytearray(file.read_bytes())
        data[ArenaFile(file).table["e0.words"]["offset"] + 40] ^= 1
        file.write_bytes(data)
        with pytest.raises(graph_store.CorruptBlock, match=r"overlay-2: section 'e0.words' .* delete the file"):
            graph_store.open(path)
        file.unlink()
        assert everything(path) == right
        file.write_bytes(data)
        writer.add_edges(VIEWS, [4], [4])
        assert len(everything(path)["ids"]["user"]) == 4
        assert overlays(path) == [name.replace("-2", "-3")]


def test_an_overlay_that_is_being_written_or_abandoned_is_no_overlay(store):
    path = store()
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        writer.add_edges(VIEWS, [1, 2, 3], [1, 2, 3])
        left = path / "arena" / "gen-1.overlay-2.999999999-1.partial"
        left.write_bytes(b"cut")
        right = everything(path)
        assert left.exists()
        assert graph_store.verify(path) == []
    GraphWriter(path, threads=1).close()
    assert not left.exists()
    assert everything(path) == right


def test_readers_of_one_version_keep_it_while_later_ones_come(store):
    path = store(weighted=True, timed=True)
    random = np.random.default_rng(3)
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        grow(writer, random, 0)
        with graph_store.open(path, threads=1) as old:
            nodes = old.nodes("user")
            before = [column.tolist() for column in old.adjacency(VIEWS).columns(nodes) if column is not None]
            for step in range(1, 4):
                grow(writer, random, step)
                everything(path)
                writer.fold()
            shutil.rmtree(path / "arena")
            after = [column.tolist() for column in old.adjacency(VIEWS).columns(nodes) if column is not None]
            assert after == before


def test_the_model_agrees_at_each_of_many_steps(store):
    path = store(weighted=True, timed=True, duplicates="sum")
    nodes = [node_type("item"), node_type("user")]
    model = live_model.Model(
        nodes,
        [
            edge_type(VIEWS, reverse=True, weighted=True, timed=True, duplicates="sum"),
            edge_type(KNOWS, undirected=True),
        ],
    )
    random = np.random.default_rng(5)
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        for step in range(12):
            users, items = random.integers(0, 20, 30), random.integers(0, 200, 30)
            weights, times = random.integers(1, 5, 30).astype(float), random.integers(0, 4, 30)
            writer.add_edges(VIEWS, users, items, weight=weights, time=times)
            rows = zip(users.tolist(), items.tolist(), weights.tolist(), times.tolist(), [()] * 30)
            model.add_edges(VIEWS, list(rows))
            if step % 3 == 2:
                writer.delete_nodes("item", np.unique(items[:4]))
                model.delete_nodes("item", items[:4].tolist())
            if step == 7:
                writer.fold()
            live_model.check_path(path, model)
    assert graph_store.verify(path) == []


def test_sections_of_an_overlay_are_checked_though_they_are_small(store):
    path = store()
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        writer.add_edges(VIEWS, [1, 2, 3], [1, 2, 3])
    graph_store.open(path).close()
    (name,) = overlays(path)
    sections = {key: value.copy() for key, value in ArenaFile(path / "arena" / name).sections.items()}
    for key in sections:
        if sections[key].size == 0:
            continue
        with ArenaWriter(path / "arena" / name) as file:
            for each, section in sections.items():
                file.add(each, section)
        data = bytearray((path / "arena" / name).read_bytes())
        data[ArenaFile(path / "arena" / name).table[key]["offset"]] ^= 1
        (path / "arena" / name).write_bytes(data)
        with pytest.raises(graph_store.CorruptBlock, match=key):
            graph_store.open(path)
