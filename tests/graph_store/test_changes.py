"""What came and went between versions, against two graphs of sets; versions that are kept and that are not."""

import collections

import numpy as np
import pytest

import graph_store
from graph_store import BadInput, GraphStoreError, GraphWriter, Schema, StoreBusy, UnknownVersion


def ingested(folder, rows, **options):
    text = "".join(",".join(map(str, row)) + "\n" for row in rows)
    (folder / "edges.csv").write_text(text)
    columns = {"weight": 2} if "weight" in options else {}
    columns |= {"time": 2} if "time" in options else {}
    options = {key: value for key, value in options.items() if key not in ("weight", "time")}
    edge_type = "a:r:a" if options.get("undirected") else "a:r:b"
    schema = Schema.from_edges(folder / "edges.csv", edge_type, **columns, **options)
    graph_store.ingest(schema, folder / "store", num_shards=3)
    return folder / "store"


def pairs(edges):
    return collections.Counter(zip(edges.src.tolist(), edges.dst.tolist()))


def test_changes_list_what_came_and_what_went(tmp_path):
    path = ingested(tmp_path, [(1, 10), (1, 11), (2, 10), (3, 12)], reverse=True)
    with GraphWriter(path) as writer:
        since = writer.version
        writer.add_edges("a:r:b", [1, 4], [12, 13])
        writer.add_edges("a:r:b", [1], [10])  # is there already
        writer.delete_edges("b:rev_r:a", [11], [1])
        writer.delete_nodes("a", [3])
        writer.add_edges("a:r:b", [5], [10])
        writer.delete_edges("a:r:b", [5], [10])
    found = graph_store.changes(path, since)
    assert (found.since, found.until) == (1, 7)
    assert pairs(found.added["a:r:b"]) == {(1, 12): 1, (4, 13): 1}
    assert pairs(found.removed["a:r:b"]) == {(1, 11): 1, (3, 12): 1}
    assert list(found.added) == ["a:r:b"]
    assert sorted(found.new_nodes["a"].tolist()) == [4, 5]
    assert found.new_nodes["b"].tolist() == [13]
    assert found.gone_nodes["a"].tolist() == [3]
    assert found.gone_nodes["b"].tolist() == []
    part = graph_store.changes(path, 4, 6)
    assert pairs(part.added["a:r:b"]) == {(5, 10): 1}
    assert pairs(part.removed["a:r:b"]) == {(3, 12): 1}


def test_an_undirected_edge_is_listed_once(tmp_path):
    path = ingested(tmp_path, [(1, 2), (3, 1)], undirected=True)
    with GraphWriter(path) as writer:
        writer.add_edges("a:r:a", [2, 4], [3, 4])
        writer.delete_edges("a:r:a", [2], [1])
    found = graph_store.changes(path, 1)

    def ends(edges):
        return [set(pair) for pair in pairs(edges).elements()]

    added = ends(found.added["a:r:a"])
    assert {2, 3} in added
    assert {4} in added
    assert len(added) == 2
    assert ends(found.removed["a:r:a"]) == [{1, 2}]


def test_an_edge_whose_weight_changed_went_and_came(tmp_path):
    path = ingested(tmp_path, [(1, 2, 0.5), (1, 3, 1.0)], weight=True, duplicates="sum")
    with GraphWriter(path) as writer:
        writer.add_edges("a:r:b", [1], [2], weight=[2.0])
    found = graph_store.changes(path, 1)
    assert found.removed["a:r:b"].weights.tolist() == [0.5]
    assert found.added["a:r:b"].weights.tolist() == [2.5]


def test_of_equal_edges_as_many_are_listed_as_came(tmp_path):
    path = ingested(tmp_path, [(1, 2, 7), (1, 2, 7)], time=True, duplicates="all")
    with GraphWriter(path) as writer:
        writer.add_edges("a:r:b", [1, 1], [2, 2], time=[7, 8])
    found = graph_store.changes(path, 1)
    assert found.added["a:r:b"].times.tolist() == [7, 8]
    assert len(found.removed["a:r:b"]) == 0


def test_versions_are_kept_while_a_reader_holds_one_or_as_asked(tmp_path):
    path = ingested(tmp_path, [(1, 10), (2, 11)])
    held = graph_store.open(path)
    with GraphWriter(path, keep=0) as writer:
        writer.add_edges("a:r:b", [3], [10])
        assert writer.fold() == 2
        assert graph_store.open(path, as_of=1).degree([1, 2]).tolist() == [1, 1]
        held.close()
        writer.add_edges("a:r:b", [4], [10])
        assert writer.fold() == 3
    with pytest.raises(UnknownVersion, match="version 1 is not kept, the oldest is 3; fold with --keep to keep more"):
        graph_store.open(path, as_of=1)
    with pytest.raises(UnknownVersion, match="version 9 is not there yet, the newest is 3"):
        graph_store.open(path, as_of=9)
    with GraphWriter(path, keep=1) as writer:
        writer.add_edges("a:r:b", [5], [10])
        assert writer.fold() == 4
    assert graph_store.open(path, as_of=3).id_map("a").count == 4
    assert graph_store.open(path, as_of=4).id_map("a").count == 5


def test_a_reader_stays_at_its_version_until_it_asks(tmp_path):
    path = ingested(tmp_path, [(1, 10), (2, 11)], reverse=True)
    with graph_store.open(path) as store, GraphWriter(path) as writer:
        before = store.adjacency("a:r:b").neighbors(store.nodes("a"))[1]
        writer.add_edges("a:r:b", [1], [11])
        writer.fold()
        writer.delete_edges("a:r:b", [2], [11])
        assert store.version == 1
        assert store.degree([1, 2], "a:r:b").tolist() == [1, 1]
        assert store.refresh() == writer.version == 3
        assert store.degree([1, 2], "a:r:b").tolist() == [2, 0]
        assert store.degree([10, 11], "b:rev_r:a").tolist() == [1, 1]
        assert before.size == 2


def test_a_node_that_comes_back_has_its_number_again(tmp_path):
    path = ingested(tmp_path, [(1, 10), (2, 11)], reverse=True)
    with GraphWriter(path) as writer:
        for fold in (False, True):
            with graph_store.open(path) as store:
                node = store.to_nodes("a", [2])[0]
            writer.delete_nodes("a", [2])
            if fold:
                writer.fold()
            with graph_store.open(path) as store:
                assert store.id_map("a").find([2]).tolist() == [-1]
                assert store.node_types["a"].count == 1
                assert store.nodes("a").size == 1
                assert store.degree([11], "b:rev_r:a").tolist() == [0]
            report = writer.add_edges("a:r:b", [2], [11])
            assert report.new_nodes == {"a": 1}
            with graph_store.open(path) as store:
                assert store.to_nodes("a", [2])[0] == node
                assert store.degree([2], "a:r:b").tolist() == [1]


def test_a_store_that_is_being_written_to_is_not_replaced(tmp_path):
    path = ingested(tmp_path, [(1, 10)])
    schema = Schema.from_edges(tmp_path / "edges.csv", "a:r:b")
    with GraphWriter(path) as writer:
        with pytest.raises(StoreBusy, match=r"store: process \d+ on .* since .* is writing to it"):
            graph_store.ingest(schema, path, overwrite=True)
        assert writer.add_edges("a:r:b", [2], [10]).version == 2
    assert graph_store.open(path).version == 2
    graph_store.ingest(schema, path, overwrite=True)
    assert graph_store.open(path).version == 1


def test_space_of_what_was_deleted_is_given_back(tmp_path):
    random = np.random.default_rng(1)
    rows = np.unique(random.integers(0, 2000, (40_000, 2)), axis=0)
    path = ingested(tmp_path, rows.tolist())

    def size():
        return sum(file.stat().st_size for file in path.glob("arena/gen-*.edges-*"))

    before = size()
    with GraphWriter(path) as writer:
        writer.delete_edges("a:r:b", rows[::2, 0], rows[::2, 1])
        writer.delete_edges("a:r:b", rows[1::4, 0], rows[1::4, 1])
        writer.fold()
    assert size() < 0.6 * before
    assert graph_store.verify(path) == []


def test_a_batch_in_which_a_call_failed_is_not_committed_even_if_the_error_was_caught(tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n")
    schema = Schema.from_edges(tmp_path / "edges.csv", "a:r:a", self_loops="error")
    graph_store.ingest(schema, tmp_path / "store", num_shards=2)

    def swallow(writer):
        with writer.batch() as batch:
            batch.add_nodes("a", [7])
            with pytest.raises(BadInput):
                batch.add_edges("a:r:a", [4, 5], [6, 5])

    with GraphWriter(tmp_path / "store") as writer:
        with pytest.raises(
            GraphStoreError, match=r"not committed, a call in it failed: .*row 1 .5 to 5. is a self loop"
        ):
            swallow(writer)
        assert writer.version == 1
        assert writer.add_nodes("a", [7]).new_nodes == {"a": 1}
    assert sorted(graph_store.open(tmp_path / "store").ids("a").tolist()) == [1, 2, 7]


def test_a_row_that_a_rule_leaves_out_makes_no_node(tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n")
    schema = Schema.from_edges(tmp_path / "edges.csv", "a:r:a", self_loops="drop")
    graph_store.ingest(schema, tmp_path / "store", num_shards=2)
    with GraphWriter(tmp_path / "store") as writer:
        report = writer.add_edges("a:r:a", [3, 9], [4, 9])
    assert report.dropped == {"self_loops": 1}
    assert sorted(graph_store.open(tmp_path / "store").ids("a").tolist()) == [1, 2, 3, 4]


def test_expire_says_how_many_edges_it_took(tmp_path):
    rows = [(1, 2, 5), (1, 3, 6), (2, 2, 4), (4, 1, 9)]
    path = ingested(tmp_path, rows, time=True, undirected=True)
    with GraphWriter(path) as writer:
        writer.add_edges("a:r:a", [5], [6], time=[-3])
        assert writer.expire("a:r:a", 6).rows == 3  # 1-2, the loop and 5-6, each once
        assert writer.expire("a:r:a", 6).rows == 0
    assert graph_store.open(path).edge_types["a:r:a"].num_edges == 2
