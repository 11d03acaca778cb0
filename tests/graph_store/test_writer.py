"""The writer: what it takes and refuses, what a batch reports, and that a batch is whole or not at all."""

import errno
import os
import subprocess
import sys
import threading

import numpy as np
import pytest

import graph_store
from graph_store.errors import (
    BadInput,
    GraphStoreError,
    StoreBusy,
    StoreClosed,
    StoreNotFound,
    UnknownEdgeType,
    UnknownNodeType,
)
from graph_store.feature_type import FeatureType
from graph_store.writer import GraphWriter
from tests.graph_store import live_model
from tests.graph_store.empty_stores import edge_type, make_empty, node_type

VIEWS, BACK, KNOWS, LIKES = "user:views:item", "item:rev_views:user", "user:knows:user", "user:likes:item"
FEATURES = (
    FeatureType("vec", "vector", dim=2),
    FeatureType("age", "scalar", dtype="int16"),
    FeatureType("word", "category"),
)


@pytest.fixture
def path(tmp_path):
    """An empty store: views with times and weights, their reverse; undirected knows; likes with strict rules."""
    return make_empty(
        tmp_path / "live.store",
        [node_type("item", "string"), node_type("user", "unsigned", FEATURES)],
        [
            edge_type(VIEWS, reverse=True, weighted=True, timed=True, features=[FeatureType("score", "scalar")]),
            edge_type(KNOWS, undirected=True, self_loops="drop"),
            edge_type(LIKES, weighted=True, missing_nodes="error", duplicates="error", negative_weights="drop"),
        ],
    )


@pytest.fixture
def writer(path):
    with GraphWriter(path, threads=1, fold_rows=0) as opened:
        yield opened


def edges(path, name):
    with graph_store.open(path, threads=1) as store:
        src, _, _ = name.split(":")
        found = store.neighbors(store.ids(src), name)
        return sorted(zip(np.repeat(store.ids(src), np.diff(found.indptr)).tolist(), found.ids.tolist()))


def test_a_batch_reports_what_it_did(path, writer):
    with writer.batch() as batch:
        batch.add_edges(VIEWS, [1, 2, 2], ["a", "a", "b"], weight=[1, 2, 3], time=[5, 6, 7])
        batch.add_edges(KNOWS, [1, 2, 3], [2, 2, 4])
        batch.add_nodes("item", ["b", "c", "c"])
        batch.delete_nodes("user", [4, 99])
        batch.delete_edges(VIEWS, [1, 77], ["a", "a"])
    report = batch.report
    assert report.version == writer.version == 2
    assert report.rows == 3 + 2 + 3 + 1 + 1
    assert report.new_nodes == {"user": 4, "item": 3}
    assert report.dropped == {"self_loops": 1, "unknown_nodes": 2}
    assert edges(path, VIEWS) == [(2, "a"), (2, "b")]
    assert edges(path, KNOWS) == [(1, 2), (2, 1)]


def test_each_call_of_the_writer_is_a_batch_of_its_own(path, writer):
    assert writer.add_edges(VIEWS, [1], ["a"], weight=[1], time=[5], features={"score": [0.5]}).version == 2
    assert writer.add_nodes("user", [9], {"age": [30]}).new_nodes == {"user": 1}
    assert writer.set_features("user", [9, 1], {"age": [31, None], "word": ["x", "y"]}).rows == 2
    assert writer.delete_edges(VIEWS, [1], ["a"], time=[4]).version == 5
    assert writer.expire(VIEWS, 5).version == 6
    assert edges(path, VIEWS) == [(1, "a")]
    assert writer.delete_edges(VIEWS, [1], ["a"], time=[5]).version == 7
    assert edges(path, VIEWS) == []
    assert writer.delete_nodes("user", [9]).version == 8
    with graph_store.open(path, threads=1) as store:
        assert store.ids("user").tolist() == [1]
        assert store.features([1], "user", ["word"])["word"].values.tolist() == ["y"]


def test_an_empty_batch_makes_no_version(writer):
    with writer.batch() as batch:
        pass
    assert batch.report.version == writer.version == 1


def test_edges_of_a_reverse_type_are_those_of_the_type(path, writer):
    writer.add_edges(BACK, ["a", "b"], [1, 2], weight=[1, 2], time=[3, 4])
    writer.delete_edges(BACK, ["b"], [2])
    assert edges(path, VIEWS) == [(1, "a")]
    assert edges(path, BACK) == [("a", 1)]


def test_a_deleted_node_comes_back_under_its_number_without_what_it_had(path, writer):
    writer.add_edges(VIEWS, [1, 2], ["a", "a"], weight=[1, 2], time=[3, 4])
    writer.set_features("user", [1], {"age": [50]})
    (number,) = writer.live[1].find(np.array([1], np.uint64))
    for fold in (False, True):
        writer.delete_nodes("user", [1])
        if fold:
            writer.fold()
        assert edges(path, VIEWS) == [(2, "a")]
        assert writer.add_nodes("user", [1]).new_nodes == {"user": 1}
        with graph_store.open(path, threads=1) as store:
            assert store.to_nodes("user", [1]).tolist() == [number]
            assert not store.features([1], "user", ["age"])["age"].present.any()
        writer.set_features("user", [1], {"age": [50]})
    assert edges(path, VIEWS) == [(2, "a")]


GOOD = {"weight": [1.0, 2.0], "time": [1, 2]}


@pytest.mark.parametrize(
    ("call", "kind", "said"),
    [
        (lambda b: b.add_edges("user:seen:item", [1], ["a"]), UnknownEdgeType, "no edge type 'user:seen:item'; it has"),
        (lambda b: b.add_nodes("person", [1]), UnknownNodeType, "no node type 'person'; it has item, user"),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a"], **GOOD), BadInput, "2 sources and 1 destinations"),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", "b"], time=[1, 2]), BadInput, "no weight; the edge type has"),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", "b"], weight=[1, 2]), BadInput, "no time; the edge type has"),
        (lambda b: b.add_edges(KNOWS, [1], [2], time=[1]), BadInput, "got a time, but the edge type was made without"),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", "b"], weight=[1], time=[1, 2]), BadInput, "weight must be 2"),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", "b"], weight=[1, 2], time=[1.5, 2]), BadInput, "must be 2 int"),
        (
            lambda b: b.add_edges(VIEWS, [1, 2], ["a", "b"], weight=[1, np.nan], time=[1, 2]),
            BadInput,
            r"row 1 \(.*2.* to 'b'\) has a weight that is not finite",
        ),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", ""], **GOOD), BadInput, "row 1: id '' of item: expected a string"),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", 5], **GOOD), BadInput, "row 1: id 5 of item: expected a string"),
        (lambda b: b.add_edges(VIEWS, [1, 2], "ab", **GOOD), BadInput, "must be a sequence of strings, got one string"),
        (lambda b: b.add_edges(VIEWS, [1, -2], ["a", "b"], **GOOD), BadInput, "ids of user are uint64, got -2 to 1"),
        (lambda b: b.add_edges(VIEWS, [1.0, 2.0], ["a", "b"], **GOOD), BadInput, "are integers, got float64"),
        (lambda b: b.add_edges(VIEWS, [[1, 2]], ["a", "b"], **GOOD), BadInput, "one dimension"),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", "b"], **GOOD, features={"scor": [1, 2]}), BadInput, "mean .score."),
        (lambda b: b.add_edges(VIEWS, [1, 2], ["a", "b"], **GOOD, features={"score": [1]}), BadInput, "'score'"),
        (lambda b: b.add_edges(LIKES, [1], ["zzz"], weight=[1]), BadInput, "row 0: no item has the id 'zzz'"),
        (lambda b: b.delete_edges(VIEWS, [1], ["a", "b"]), BadInput, "1 sources and 2 destinations"),
        (lambda b: b.delete_edges(KNOWS, [1], [2], time=[3]), BadInput, "has no times; leave time out"),
        (lambda b: b.delete_edges(VIEWS, [1], ["a"], time=[3, 4]), BadInput, "time must be 1 integers"),
        (lambda b: b.expire(KNOWS, 3), BadInput, "has no times; delete edges by their ends"),
        (lambda b: b.expire(VIEWS, 1.5), BadInput, "expire: before is 1.5; expected an integer"),
        (lambda b: b.expire(VIEWS, "5"), BadInput, "expire: before is '5'; expected an integer"),
        (lambda b: b.expire(VIEWS, True), BadInput, "expire: before is True; expected an integer"),
        (lambda b: b.expire(VIEWS, 2**63), BadInput, "9223372036854775808, out of the range of int64"),
        (lambda b: b.delete_edges(VIEWS, [1], ["a"], time=np.array([2**63], np.uint64)), BadInput, "below 2.63, got"),
        (lambda b: b.add_nodes("item", ["a", "\udcff"]), BadInput, r"row 1: id '.udcff' of item holds half a char"),
        (lambda b: b.set_features("user", [1], None), BadInput, "features must be values by name, got NoneType"),
        (lambda b: b.set_features("user", [1, 55], {"age": [1, 2]}), BadInput, "row 1: no user has the id .*55"),
        (lambda b: b.set_features("user", [1], {"agee": [1]}), BadInput, "no feature 'agee'; did you mean 'age'"),
        (lambda b: b.set_features("user", [1], {"age": [10**6]}), BadInput, "1000000 is no int16"),
        (lambda b: b.set_features("user", [1], {"vec": [[1, 2, 3]]}), BadInput, "'vec': expected numbers of shape"),
        (lambda b: b.add_nodes("user", [7], {"word": [3]}), BadInput, "feature 'word'"),
    ],
)  # fmt: skip
def test_what_cannot_be_taken_is_refused_by_name_and_nothing_is_committed(path, writer, call, kind, said):
    writer.add_edges(VIEWS, [1], ["a"], weight=[1], time=[5])
    before = edges(path, VIEWS)

    def refused():
        with writer.batch() as batch:
            batch.add_edges(VIEWS, [7], ["new"], weight=[1], time=[5])
            call(batch)

    with pytest.raises(kind, match=said):
        refused()
    assert writer.version == 2
    assert edges(path, VIEWS) == before
    # Ids that the batch gave out are forgotten: the next batch gives them again, and a reader agrees.
    writer.add_edges(VIEWS, [8, 7], ["other", "new"], weight=[1, 1], time=[5, 5])
    assert edges(path, VIEWS) == [(1, "a"), (7, "new"), (8, "other")]
    assert graph_store.verify(path) == []


def test_rules_of_an_edge_type_hold_for_updates(path, writer):
    writer.add_nodes("user", [1, 2])
    writer.add_nodes("item", ["a", "b"])
    report = writer.add_edges(LIKES, [1, 2], ["a", "b"], weight=[1, -1])
    assert report.dropped == {"negative_weights": 1}
    for src, dst in (([1], ["a"]), ([2, 2], ["a", "a"])):
        with pytest.raises(BadInput, match="is there already"):
            writer.add_edges(LIKES, src, dst, weight=[1] * len(src))
    with writer.batch() as batch:
        batch.delete_nodes("item", ["b"])
        batch.set_features("user", [1], {"age": [4]})
    assert writer.add_nodes("item", ["b"]).new_nodes == {"item": 1}
    with writer.batch() as batch:
        batch.set_features("user", [1], {"age": [5]})
        batch.add_edges(LIKES, [1], ["b"], weight=[2])
    assert edges(path, LIKES) == [(1, "a"), (1, "b")]

    def twice():
        with writer.batch() as batch:
            batch.add_edges(LIKES, [2], ["a"], weight=[2])
            batch.add_edges(LIKES, [2], ["b"], weight=[2])

    with pytest.raises(BadInput, match="nothing earlier in the batch may change its edges"):
        twice()


def test_a_batch_within_a_batch_is_refused(path, writer):
    """It would be committed first, and the nodes of the outer one would get other numbers than it gave out."""

    def nested():
        with writer.batch() as batch:
            batch.add_nodes("user", [1, 2, 3])
            writer.add_nodes("user", [4])

    with pytest.raises(GraphStoreError, match="a batch is open"):
        nested()
    with writer.batch() as batch:
        batch.add_nodes("user", [5])
    assert writer.version == 2
    with graph_store.open(path, threads=1) as store:
        assert store.ids("user").tolist() == [5]


def test_a_batch_that_has_ended_takes_no_more(path, writer):
    """It would give out nodes that no commit holds, and the next batch would lead edges to them."""
    with writer.batch() as batch:
        batch.add_nodes("user", [1])
    for call in (
        lambda: batch.add_nodes("user", [2]),
        lambda: batch.add_edges(VIEWS, [2], ["a"], weight=[1], time=[1]),
        lambda: batch.delete_nodes("user", [1]),
        lambda: batch.set_features("user", [1], {"age": [1]}),
        lambda: batch.delete_edges(VIEWS, [2], ["a"]),
        lambda: batch.expire(VIEWS, 1),
    ):
        with pytest.raises(StoreClosed, match="the batch has ended and takes no more"):
            call()
    writer.add_edges(VIEWS, [2], ["a"], weight=[1], time=[1])
    assert edges(path, VIEWS) == [(2, "a")]
    assert graph_store.verify(path) == []


def test_batches_of_several_threads_come_one_after_the_other(path, writer):
    def work(number):
        for step in range(10):
            with writer.batch() as batch:
                batch.add_edges(KNOWS, [100 * number + step] * 3, [1000, 1001, 1002 + number])

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert writer.version == 41
    assert len(edges(path, KNOWS)) == 2 * 4 * 10 * 3
    assert graph_store.verify(path) == []


def test_a_second_writer_is_told_who_writes(path, writer):
    with pytest.raises(StoreBusy, match=rf"process {os.getpid()} on .* is writing to it"):
        GraphWriter(path)
    script = f"from graph_store.writer import GraphWriter; GraphWriter({str(path)!r})"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert f"StoreBusy: {path}: process {os.getpid()} on" in said.stderr
    writer.close()
    GraphWriter(path).close()


def test_a_closed_writer_and_no_store_are_errors(path, writer, tmp_path):
    writer.close()
    writer.close()
    for call in (writer.fold, lambda: writer.add_nodes("user", [1])):
        with pytest.raises(StoreClosed, match="the writer was closed"):
            call()
    with pytest.raises(StoreNotFound):
        GraphWriter(tmp_path / "none")
    assert not (tmp_path / "none").exists()


def test_a_store_of_a_newer_format_is_refused(path):
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text.replace('"format": 2', '"format": 3'))
    for call in (GraphWriter, graph_store.open, graph_store.info):
        with pytest.raises(
            graph_store.CorruptBlock, match=r"store format 3, this version reads 2; it was made by a newer"
        ):
            call(path)
    (fault,) = graph_store.verify(path)
    assert "made by a newer gossamer; upgrade this one" in fault


def test_a_batch_that_cannot_be_written_is_not_committed_and_the_next_one_can_be(path, writer, monkeypatch):
    writer.add_edges(KNOWS, [1], [2])

    def full(handle):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", full)
        with pytest.raises(GraphStoreError, match="not committed, cannot write the log: No space left on device"):
            writer.add_edges(KNOWS, [3], [4])
    assert writer.version == 2
    writer.add_edges(KNOWS, [5], [6])
    assert edges(path, KNOWS) == [(1, 2), (2, 1), (5, 6), (6, 5)]
    assert graph_store.verify(path) == []


@pytest.mark.parametrize("call", ["seal", "add_edges", "add_nodes"])
def test_a_fold_that_fails_leaves_the_store_as_it_was(path, writer, monkeypatch, call):
    from graph_store.generation import GenerationWriter

    writer.add_edges(KNOWS, [1], [2])

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(GenerationWriter, call, full)
        with pytest.raises(GraphStoreError, match="no space left on the disk"):
            writer.fold()
    assert sorted(each.name for each in path.glob("gen-*")) == ["gen-1"]
    assert list((path / "arena").glob("gen-2.*")) == []
    writer.add_edges(KNOWS, [3], [4])
    assert edges(path, KNOWS) == [(1, 2), (2, 1), (3, 4), (4, 3)]
    assert writer.fold() == 3
    assert edges(path, KNOWS) == [(1, 2), (2, 1), (3, 4), (4, 3)]
    assert graph_store.verify(path) == []


def test_a_fold_that_cannot_be_published_leaves_the_writer_where_it_was(path, writer, monkeypatch):
    from graph_store import writer as module

    writer.add_edges(KNOWS, [1], [2])

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(module, "publish", full)
        with pytest.raises(GraphStoreError, match="no space left on the disk; it is as it was"):
            writer.fold()
    assert writer.manifest.generation == 1
    writer.add_edges(KNOWS, [3], [4])
    assert writer.fold() == 3
    assert writer.manifest.generation == 2
    assert edges(path, KNOWS) == [(1, 2), (2, 1), (3, 4), (4, 3)]
    assert graph_store.verify(path) == []


def test_a_fold_that_is_asked_for_while_one_runs_comes_after_it(path):
    """Batches of other threads start folds behind; all give one generation after the other."""
    with GraphWriter(path, threads=1, fold_rows=20) as writer:
        errors = []

        def work(first):
            try:
                for step in range(12):
                    writer.add_edges(
                        KNOWS, range(first + step, first + step + 15), range(first + step + 1, first + step + 16)
                    )
                    if step % 4 == 0:
                        writer.fold()
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert errors == []
        writer.wait()
        assert writer.version == 37
    assert len(edges(path, KNOWS)) == 2 * 3 * 26
    assert graph_store.verify(path) == []


def test_a_fold_in_the_background_that_fails_is_told_at_the_next_call(path, monkeypatch):
    from graph_store import writer as module

    def fail(*args, **options):
        raise GraphStoreError("no space")

    monkeypatch.setattr(module, "fold", fail)
    writer = GraphWriter(path, threads=1, fold_rows=5)
    writer.add_edges(KNOWS, range(10), range(1, 11))
    writer._folding.join()
    with pytest.raises(GraphStoreError, match="a fold in the background failed: no space"):
        writer.add_edges(KNOWS, [3], [4])
    assert writer.version == 2
    writer.close()


def test_versions_that_are_kept_can_be_read_and_others_are_unknown(path):
    with GraphWriter(path, threads=1, fold_rows=0, keep=1) as writer:
        for number in range(6):
            writer.add_edges(KNOWS, [number], [number + 1])
            if number % 2:
                writer.fold()
        assert sorted(each.name for each in path.glob("gen-*")) == ["gen-3", "gen-4"]
    for version in range(5, 8):
        with graph_store.open(path, as_of=version, threads=1) as store:
            assert store.version == version
            assert store.edge_types[KNOWS].num_edges == version - 1
    with pytest.raises(graph_store.UnknownVersion, match="version 4 is not kept, the oldest is 5"):
        graph_store.open(path, as_of=4)
    with pytest.raises(graph_store.UnknownVersion, match="version 8 is not there yet, the newest is 7"):
        graph_store.open(path, as_of=8)
    assert graph_store.verify(path) == []


def test_a_generation_that_a_reader_holds_stays_until_the_reader_lets_go(path, writer):
    writer.add_edges(KNOWS, [1], [2])
    with graph_store.open(path, threads=1):
        writer.fold()
        writer.add_edges(KNOWS, [3], [4])
        writer.fold()
        assert sorted(each.name for each in path.glob("gen-*")) == ["gen-1", "gen-3"]
        assert graph_store.verify(path) == []
    writer.add_edges(KNOWS, [5], [6])
    writer.fold()
    assert sorted(each.name for each in path.glob("gen-*")) == ["gen-4"]
    assert list((path / "leases").iterdir()) == []


def test_what_a_killed_fold_left_is_removed(path):
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        writer.add_edges(KNOWS, [1], [2])
    (path / "gen-2" / "shard-0").mkdir(parents=True)
    (path / "gen-2" / "shard-0" / "000001.sst").write_bytes(b"cut")
    (path / "arena" / "gen-2.nodes-0").write_bytes(b"cut")
    assert edges(path, KNOWS) == [(1, 2), (2, 1)]
    assert graph_store.verify(path) == []
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        assert sorted(each.name for each in path.glob("gen-*")) == ["gen-1"]
        assert list((path / "arena").glob("gen-2.*")) == []
        writer.fold()
    assert edges(path, KNOWS) == [(1, 2), (2, 1)]


def test_the_ends_of_ids_and_times_come_back(path, writer):
    nodes = [node_type("item", "string"), node_type("user", "unsigned", FEATURES)]
    model = live_model.Model(
        nodes,
        [
            edge_type(VIEWS, reverse=True, weighted=True, timed=True, features=[FeatureType("score", "scalar")]),
            edge_type(KNOWS, undirected=True),
            edge_type(LIKES, weighted=True),
        ],
    )
    with writer.batch() as batch:
        batch.add_edges(VIEWS, [2**64 - 1], ["x"], weight=[1], time=[-(2**63)], features={"score": [0.5]})
        model.add_edges(VIEWS, [(2**64 - 1, "x", 1.0, -(2**63), (0.5,))])
        batch.delete_nodes("item", ["x"])
        model.delete_nodes("item", ["x"])
        batch.add_edges(VIEWS, [2**64 - 1], ["x"], weight=[2], time=[2**63 - 1])
        model.add_edges(VIEWS, [(2**64 - 1, "x", 2.0, 2**63 - 1, (None,))])
    live_model.check_path(path, model)
    writer.fold()
    live_model.check_path(path, model)


def test_what_a_numpy_mask_hides_is_no_id_no_weight_and_no_time(writer):
    hidden = np.ma.array([1, 2, 3], mask=[False, True, False])
    plain = np.array([1, 2, 3])
    words = ["a", "b", "c"]
    for src, weight, time, what in (
        (hidden, plain, plain, "ids of user"),
        (plain, hidden, plain, "weight"),
        (plain, plain, hidden, "time"),
    ):
        with pytest.raises(BadInput, match=f"{what}: the value at position 1 is masked"):
            writer.add_edges(VIEWS, src, words, weight=weight, time=time)
    with pytest.raises(BadInput, match="position 1 is masked"):
        writer.add_nodes("user", hidden)
    with pytest.raises(BadInput, match="delete_edges: time: the value at position 1 is masked"):
        writer.delete_edges(VIEWS, plain, words, time=hidden)
    assert writer.version == 1
    writer.add_nodes("user", np.ma.array([1, 2, 3]))  # nothing is hidden
    store = graph_store.open(writer.path)
    with store, pytest.raises(ValueError, match="ids of user: the value at position 1 is masked"):
        store.to_nodes("user", hidden)


def test_a_masked_value_of_a_feature_is_absent(writer):
    ages = np.ma.array([30, 40, 50], mask=[False, True, False])
    vectors = np.ma.array([[1, 2], [3, 4], [5, 6]], mask=[[False, False], [True, True], [False, False]])
    writer.add_nodes("user", [1, 2, 3], {"age": ages, "vec": vectors})
    with graph_store.open(writer.path) as store:
        found = store.features([1, 2, 3], "user")
        assert found["age"].present.tolist() == found["vec"].present.tolist() == [True, False, True]
        assert found["age"].values.tolist() == [30, 0, 50]
        assert found["vec"].values.tolist() == [[1, 2], [0, 0], [5, 6]]
    vectors.mask[1] = [True, False]
    with pytest.raises(BadInput, match="'vec': row 1 is masked in part"):
        writer.set_features("user", [1, 2, 3], {"vec": vectors})


def test_a_store_that_cannot_be_written_to_says_so(path, monkeypatch):
    def refused(*_):
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(GraphStoreError, match=r"live\.store: cannot be written to: Read-only file system; "):
        GraphWriter(path)
