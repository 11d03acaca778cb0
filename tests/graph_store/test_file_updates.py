"""Updates from files: pieces of any size, resumed at any row, and what is said when one stops."""

import errno

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store import BadInput, EdgeSource, FeatureType, GraphStoreError, GraphWriter, NodeSource
from graph_store.file_updates import EdgeFile, FileUpdates, NodeFile
from graph_store.progress import Progress
from tests.graph_store.empty_stores import edge_type, make_empty, node_type

LIKES = "a:likes:b"


@pytest.fixture
def store(tmp_path):
    """An empty store whose edges are all kept, duplicates too."""
    price = FeatureType("price", dtype="float64")
    edges = [edge_type(LIKES, duplicates="all", features=(FeatureType("word", kind="string"),))]
    return make_empty(tmp_path / "store", [node_type("a"), node_type("b", features=(price,))], edges)


def updates(writer, batch_rows=3, skip_rows=0, progress=None):
    return FileUpdates(writer, batch_rows=batch_rows, skip_rows=skip_rows, progress=progress or Progress(False))


def edges_of(store):
    """Return (source, destination, word) of every edge, sorted."""
    with graph_store.open(store) as opened:
        sources = opened.ids("a")
        indptr, nodes, _, _, edge_ids = opened.adjacency(LIKES).columns(opened.to_nodes("a", sources))
        words = opened.edge_features(LIKES).values("word", edge_ids).values.tolist()
        ends = np.repeat(sources, np.diff(indptr)).tolist(), opened.to_ids("b", nodes).tolist()
        return sorted(zip(*ends, words))


ROWS = [(row % 4, row % 3, f"w{row}") for row in range(11)]


def write(path, rows):
    if path.suffix == ".parquet":
        columns = list(zip(*rows))
        pq.write_table(pa.table({"s": columns[0], "d": columns[1], "word": columns[2]}), path)
    else:
        path.write_text("s,d,word\n" + "".join(f"{src},{dst},{word}\n" for src, dst, word in rows))
    return path


@pytest.mark.parametrize("name", ["e.csv", "e.parquet"])
@pytest.mark.parametrize("batch_rows", [1, 3, 100])
def test_an_update_resumed_at_any_row_gives_each_row_once(tmp_path, store, name, batch_rows):
    path = write(tmp_path / name, ROWS)
    made = 0
    for stop in (0, 1, 5, 10, 11):
        part = write(tmp_path / f"part-{name}", ROWS[:stop]) if stop else None
        with GraphWriter(store, fold_rows=0) as writer:
            if part is not None:
                work = updates(writer, batch_rows, made)
                work.run(EdgeFile.of_store(writer, LIKES, EdgeSource(part)), delete=False)
                assert (work.rows_in, work.report.rows) == (stop, stop - made)
        made = stop
    assert edges_of(store) == sorted(ROWS)
    with GraphWriter(store, fold_rows=0) as writer:
        work = updates(writer, batch_rows, 11)
        work.run(EdgeFile.of_store(writer, LIKES, EdgeSource(path)), delete=False)
        work.finish()
        assert (work.report.rows, work.num_batches) == (0, 0)


def test_commits_have_about_as_many_rows_as_asked(tmp_path, store):
    path = write(tmp_path / "e.parquet", ROWS * 10)
    for batch_rows, commits in ((10, 11), (100, 2), (60, 2), (1000, 1)):
        with GraphWriter(store, fold_rows=0) as writer:
            work = updates(writer, batch_rows)
            work.run(EdgeFile.of_store(writer, LIKES, EdgeSource(path)), delete=False)
            assert (work.num_batches, work.report.rows) == (commits, 110)


def test_nodes_keep_features_of_columns_that_a_file_lacks(tmp_path, store):
    (tmp_path / "n.csv").write_text("id,price\n1,0.1\n2,\n3,7\n")
    (tmp_path / "ids.csv").write_text("id,colour\n1,red\n9,red\n")
    with GraphWriter(store, fold_rows=0) as writer:
        work = updates(writer, 2)
        for name in ("n.csv", "ids.csv"):
            work.run(NodeFile.of_store(writer, "b", NodeSource(tmp_path / name)), delete=False)
        assert (work.report.rows, work.report.new_nodes) == (5, {"b": 4})
    with graph_store.open(store) as opened:
        price = opened.features([1, 2, 3, 9], "b")["price"]
        assert price.present.tolist() == [True, False, True, False]
        assert price.values[[0, 2]].tolist() == [0.1, 7]


def test_nodes_alone_on_a_line_of_an_adjacency_come_whatever_the_pieces(tmp_path):
    store = make_empty(tmp_path / "store", [node_type("a"), node_type("b")], [edge_type(LIKES)])
    (tmp_path / "adjacency.txt").write_text("1 1 2 3 4 5\n7\n2 1 2 3 4 5 6\n8\n")
    for skip, batch_rows in ((0, 2), (0, 100), (4, 2), (11, 100)):
        with GraphWriter(store, fold_rows=0) as writer:
            work = updates(writer, batch_rows, skip)
            work.run(EdgeFile.of_store(writer, LIKES, EdgeSource(tmp_path / "adjacency.txt")), delete=False)
            assert work.rows_in == 11
        with graph_store.open(store) as opened:
            assert sorted(opened.ids("a").tolist()) == [1, 2, 7, 8]
            assert opened.degree([1, 2, 7, 8]).tolist() == [5, 6, 0, 0]


class _Stopping(Progress):
    """A bar that interrupts the work after some calls."""

    def __init__(self, after):
        super().__init__(False)
        self.left = after

    def advance(self, amount, *, rows=0):
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


def test_an_interrupt_says_how_many_rows_are_in(tmp_path, store):
    path = write(tmp_path / "e.parquet", ROWS)
    with GraphWriter(store, fold_rows=0) as writer:
        work = updates(writer, 3, progress=_Stopping(1))
        with pytest.raises(GraphStoreError, match=r"^interrupted; the 6 rows before are in \(version 3\); .* 6$"):
            work.run(EdgeFile.of_store(writer, LIKES, EdgeSource(path)), delete=False)
    assert edges_of(store) == sorted(ROWS[:6])


def test_a_full_disk_says_how_many_rows_are_in(tmp_path, store, monkeypatch):
    path = write(tmp_path / "e.csv", ROWS)
    with GraphWriter(store, fold_rows=0) as writer:
        work, append = updates(writer, 4), writer._log.append

        def full(payload):
            if writer.version == 3:
                raise OSError(errno.ENOSPC, "No space left on device")
            return append(payload)

        monkeypatch.setattr(writer._log, "append", full)
        with pytest.raises(GraphStoreError, match=r"No space left.*; the \d rows before are in \(version 3\)"):
            work.run(EdgeFile.of_store(writer, LIKES, EdgeSource(path)), delete=False)
        assert work.rows_in == len(edges_of(store))
    assert edges_of(store) == sorted(ROWS[: work.rows_in])


def test_more_rows_to_skip_than_there_are_is_an_error(tmp_path, store):
    path = write(tmp_path / "e.csv", ROWS)
    with GraphWriter(store, fold_rows=0) as writer:
        work = updates(writer, 4, 12)
        work.run(EdgeFile.of_store(writer, LIKES, EdgeSource(path)), delete=False)
        with pytest.raises(BadInput, match="12 rows were to be skipped, the files hold 11"):
            work.finish()


def test_what_a_file_names_is_deleted(tmp_path, store):
    with GraphWriter(store, fold_rows=0) as writer:
        file = EdgeFile.of_store(writer, LIKES, EdgeSource(write(tmp_path / "e.csv", ROWS)))
        updates(writer).run(file, delete=False)
        wrong = EdgeFile.of_store(
            writer, LIKES, EdgeSource(write(tmp_path / "d.parquet", ROWS[:2] + [(77, 0, "")])), ends_only=True
        )
        work = updates(writer)
        work.run(wrong, delete=True)
        assert (work.report.rows, work.report.dropped) == (2, {"unknown_nodes": 1})
        left = [row for row in ROWS if row[:2] not in {(0, 0), (1, 1)}]
        assert edges_of(store) == sorted(left)
        (tmp_path / "gone.csv").write_text("2\n")
        work.run(NodeFile.of_store(writer, "b", NodeSource(tmp_path / "gone.csv"), ids_only=True), delete=True)
    assert edges_of(store) == sorted(row for row in left if row[1] != 2)
