"""Repair: what any place still has is kept, what none has is said; a sound store is left as it is."""

import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from zlib import crc32

import numpy as np
import pytest

import graph_store
from graph_store import generation
from graph_store.commit_log import log_folder, segment_file, segments
from graph_store.errors import GraphStoreError, StoreBusy
from graph_store.feature_type import FeatureType
from graph_store.manifest import Manifest
from graph_store.repair import repair
from graph_store.writer import GraphWriter
from tests.graph_store.empty_stores import edge_type, make_empty, node_type

VIEWS, BACK, KNOWS, RATES = "user:views:item", "item:rev_views:user", "user:knows:user", "user:rates:item"
FEATURES = (
    FeatureType("vec", "vector", dim=64),
    FeatureType("word", "category"),
    FeatureType("tags", "ids"),
    FeatureType("text", "string"),
)
NUM_USERS = 6000


def deleted_users():
    return np.random.default_rng(0).integers(0, 2**60, NUM_USERS)[3:9].tolist()


def fill(writer):
    random = np.random.default_rng(0)
    users = random.integers(0, 2**60, NUM_USERS)
    items = [f"item {number}" for number in range(3000)]
    src, dst = random.choice(users, 20_000), random.choice(items, 20_000).tolist()
    with writer.batch() as batch:
        batch.add_nodes(
            "user",
            users,
            {
                "vec": random.random((NUM_USERS, 64)).astype(np.float32),
                "word": [f"word {number % 7}" for number in range(NUM_USERS)],
                "tags": [list(range(number % 5)) for number in range(NUM_USERS)],
                "text": [None if number % 3 else "é" * (number % 11) for number in range(NUM_USERS)],
            },
        )
        batch.add_nodes("item", items)
        score = random.random(20_000).tolist()
        batch.add_edges(
            VIEWS, src, dst, weight=np.arange(20_000), time=np.arange(20_000) - 500, features={"score": score}
        )
        batch.add_edges(KNOWS, random.choice(users, 8000), random.choice(users, 8000))
        batch.add_edges(KNOWS, np.full(1500, users[0]), users[1:1501])
        batch.add_edges(RATES, random.choice(users, 8000), random.choice(items, 8000).tolist())
    writer.delete_nodes("user", users[3:9])
    return users


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store of one generation besides the empty one, with two batches in its log and no overlay."""
    path = tmp_path_factory.mktemp("repair") / "whole.store"
    nodes = [node_type("item", "string"), node_type("user", features=FEATURES)]
    views = edge_type(
        VIEWS, reverse=True, weighted=True, timed=True, features=[FeatureType("score", "scalar", dtype="float64")]
    )
    make_empty(path, nodes, [views, edge_type(KNOWS, undirected=True), edge_type(RATES)], num_shards=2)
    with GraphWriter(path, threads=1, fold_rows=0) as writer:
        users = fill(writer)
        writer.fold()
        writer.add_edges(VIEWS, users[:3], ["new", "new", "item 9"], weight=[1, 2, 3], time=[3, 4, 5])
        writer.delete_nodes("user", users[10:12])
    return path


@pytest.fixture
def store(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "repaired.store")
    return tmp_path / "repaired.store"


def content(path, as_of=None):
    """Return everything of a store: ids with features, edges with all that they have."""
    found = {}
    with graph_store.open(path, threads=1, as_of=as_of) as store:
        for name, entry in store.node_types.items():
            ids = store.ids(name).tolist()
            found[name] = dict.fromkeys(ids)
            names = [feature["name"] for feature in entry.features]
            columns = [values_of(store.features(ids, name, [feature])[feature], len(ids)) for feature in names]
            if columns:
                found[name] = dict(zip(ids, zip(*columns)))
        for name, entry in store.edge_types.items():
            adjacency, nodes = store.adjacency(name), store.nodes(entry.src)
            indptr, neighbors, weights, times, edge_ids = adjacency.columns(nodes)
            none = [None] * neighbors.size
            sources = np.repeat(store.to_ids(entry.src, nodes), np.diff(indptr)).tolist()
            scores = none
            if entry.features:
                scores = values_of(store.edge_features(name).values("score", edge_ids), neighbors.size)
            rest = (none if column is None else column.tolist() for column in (weights, times))
            found[name] = Counter(zip(sources, store.to_ids(entry.dst, neighbors).tolist(), *rest, scores))
        found["version"] = store.version
    return found


def values_of(values, size):
    if values.indptr is not None:
        return [tuple(values.values[low:high].tolist()) for low, high in zip(values.indptr[:-1], values.indptr[1:])]
    rows = values.values.tolist()
    return [
        (tuple(row) if isinstance(row, list) else row) if there else None for row, there in zip(rows, values.present)
    ]


@pytest.fixture(scope="module")
def truth(whole, tmp_path_factory):
    copy = shutil.copytree(whole, tmp_path_factory.mktemp("truth") / "copy.store")
    return content(copy)


def flip(path, at=None, size=1):
    data = bytearray(path.read_bytes())
    at = len(data) // 2 if at is None else at
    for place in range(at, min(at + size, len(data))):
        data[place] ^= 0x55
    path.chmod(0o644)
    path.write_bytes(data)


def ssts(store, shard, number=2):
    return sorted((store / f"gen-{number}" / f"shard-{shard}").glob("*.sst"))


def snapshot(store):
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file() and path.name != "writer.lock"}


def test_a_sound_store_is_left_as_it_is(store):
    before = snapshot(store)
    report = repair(store)
    assert (report.faults, report.done, report.lost, report.left, report.kept) == ([], [], [], [], None)
    assert report.version == 5
    assert snapshot(store) == before
    assert graph_store.repair is repair


def test_no_store_and_a_store_in_use_are_errors(store, tmp_path):
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(graph_store.StoreNotFound, match="no store is here"):
            repair(path)
    assert list(tmp_path.iterdir()) == [store]
    with GraphWriter(store, threads=1), pytest.raises(StoreBusy, match="is writing to it"):
        repair(store)


def repaired(store, truth):
    """Repair a store whose content is all in one place or another."""
    report = repair(store)
    assert report.faults
    assert report.done
    assert (report.lost, report.left) == ([], [])
    assert content(store) == truth
    assert graph_store.verify(store) == []
    with GraphWriter(store, threads=1) as writer:
        writer.add_nodes("user", [-5])
        writer.fold()
    assert graph_store.verify(store) == []
    return report


def test_a_damaged_manifest_comes_back_from_its_copy(store, truth):
    flip(store / "manifest.json")
    report = repaired(store, truth)
    assert (report.kept / "manifest.json").exists()


def test_a_missing_manifest_comes_back_from_its_copy(store, truth):
    (store / "manifest.json").unlink()
    repaired(store, truth)


def test_a_damaged_copy_is_written_again(store, truth):
    flip(store / "gen-2" / "manifest.json")
    repaired(store, truth)


def test_no_manifest_at_all_cannot_be_helped(store):
    flip(store / "manifest.json")
    flip(store / "gen-2" / "manifest.json")
    before = snapshot(store)
    with pytest.raises(graph_store.CorruptBlock, match="no copy of it can be read either: ingest again"):
        repair(store)
    assert snapshot(store) == before


def test_damaged_files_of_the_arena_are_removed(store, truth):
    graph_store.open(store).close()
    for path in sorted((store / "arena").iterdir()):
        flip(path)
        flip(path, 0)
    report = repaired(store, truth)
    assert report.kept is None


@pytest.mark.parametrize("shard", [0, 1])
@pytest.mark.parametrize("part", range(6))
def test_a_damaged_file_of_a_shard_is_made_up_for_from_the_arena(store, truth, shard, part):
    """Of each family one block, the first, the last, and the middle, or the end with the index; six places a file."""
    for path in ssts(store, shard):
        flip(path, path.stat().st_size * part // 6 + 10, 40)
    report = repaired(store, truth)
    assert (report.kept / "gen-2").exists()


@pytest.mark.parametrize("what", ["*.sst", "CURRENT", "MANIFEST-*", "."])
def test_a_missing_part_of_a_shard_is_made_up_for(store, truth, what):
    folder = store / "gen-2" / "shard-1"
    if what == ".":
        shutil.rmtree(folder)
    for path in folder.glob(what) if what != "." else ():
        path.unlink()
    repaired(store, truth)


@pytest.mark.parametrize("what", ["CURRENT", "MANIFEST-*", "OPTIONS-*", "IDENTITY", "rocksdict-config.json"])
def test_a_database_that_cannot_be_opened_is_read_file_by_file(store, truth, what):
    shutil.rmtree(store / "arena")
    for shard in (0, 1):
        for path in (store / "gen-2" / f"shard-{shard}").glob(what):
            flip(path, 0, 10_000)
    repaired(store, truth)


def is_subset(found, truth, back=frozenset()):
    """Say whether all that is there was there before, or is one of the nodes that came back."""
    for name, before in truth.items():
        if isinstance(before, Counter):
            assert not found[name] - before
        elif isinstance(before, dict):
            assert set(found[name]) <= set(before) | back
    return True


@pytest.mark.parametrize("part", range(1, 9))
def test_lists_that_are_lost_come_back_from_the_reverse_type(store, truth, part):
    """Without the arena one block is damaged; views are there twice, rates once, knows twice but in one type."""
    shutil.rmtree(store / "arena")
    path = lists_file(store, 1)
    flip(path, path.stat().st_size * part // 9, 30)
    report = repair(store)
    assert report.left == []
    found = content(store)
    assert is_subset(found, truth)
    assert [line for line in report.lost if "lists of" in line and RATES not in line] == []
    for name in ("user", "item", VIEWS, BACK):
        assert found[name] == truth[name]
    for name in (KNOWS, RATES):
        gone = sum((truth[name] - found[name]).values())
        said = [line for line in report.lost if line.startswith(f"{name}: ")]
        assert bool(gone) == bool(said), (name, gone, report.lost)
        assert gone < sum(truth[name].values()) // 2


def test_of_lists_that_both_directions_have_lost_the_edges_between_them_are_lost(store, truth):
    shutil.rmtree(store / "arena")
    path = lists_file(store, 1)
    for part in range(1, 8):
        flip(path, path.stat().st_size * part // 9, 30)
    report = repair(store)
    assert report.left == []
    found = content(store)
    assert is_subset(found, truth)
    assert found[VIEWS] == Counter({(src, dst, *rest): count for (dst, src, *rest), count in found[BACK].items()})
    gone = sum((truth[VIEWS] - found[VIEWS]).values())
    assert f"{VIEWS}: {gone} of 20000 entries" in report.lost or any(f"{VIEWS}: " in line for line in report.lost)
    assert 0 < gone < 10_000


def lists_file(store, shard):
    """Return the file of a shard that has the lists: no other has a record's magic."""
    (path,) = [path for path in ssts(store, shard) if b"GSAB" in path.read_bytes()]
    return path


def test_ids_and_features_that_are_lost_are_said_and_the_others_stay(store, truth):
    shutil.rmtree(store / "arena")
    for path in ssts(store, 0):
        flip(path, path.stat().st_size // 3, 5)
    report = repair(store)
    assert report.left == []
    assert graph_store.verify(store) == []
    found = content(store)
    lost = " ".join(report.lost)
    back = set(found["user"]) - set(truth["user"])
    assert not back or "which 'user' of it were deleted; they are there again" in lost
    assert back <= set(deleted_users())
    assert is_subset(found, truth, back)
    for name in ("user", "item"):
        missing = set(truth[name]) - set(found[name])
        assert bool(missing) == (f"ids of {name!r}" in lost)
    both = [each for each in truth["user"] if each in found["user"]]
    assert len(both) > NUM_USERS // 3
    changed = [each for each in both if found["user"][each] != truth["user"][each]]
    assert bool(changed) == ("absent now" in lost)
    for each in changed:
        for before, after in zip(truth["user"][each], found["user"][each]):
            assert after in (before, None, ())
    with GraphWriter(store, threads=1) as writer:
        # A user whose id was lost comes as a new one.
        gone = sorted(set(truth["user"]) - set(found["user"]))[:3]
        if gone:
            assert writer.add_nodes("user", gone).new_nodes == {"user": len(gone)}
        writer.fold()
    assert graph_store.verify(store) == []


def test_the_arena_is_a_second_copy_of_what_it_has_sound(store, truth):
    """Both have damage, at different places: what is lost is only what both have lost."""
    for shard in (0, 1):
        for path in ssts(store, shard):
            flip(path, path.stat().st_size // 2, 3)
    for path in (store / "arena").iterdir():
        flip(path, 5000)
    report = repair(store)
    assert report.left == []
    found = content(store)
    assert is_subset(found, truth)
    assert sum(found[VIEWS].values()) > 0.7 * sum(truth[VIEWS].values())


def log_cut(store, at):
    first = segments(store)[-1]
    flip(segment_file(store, first), at)


def test_a_damaged_batch_is_cut_off_with_those_behind_it(store, truth):
    log_cut(store, 40)
    report = repair(store)
    assert report.left == []
    assert report.version == 3
    assert report.lost == [f"{log_folder(store)}: batches from version 4 to 5"]
    found = content(store)
    assert found["version"] == 3
    assert found["user"].keys() > truth["user"].keys()
    assert list(report.kept.iterdir()) != []
    with GraphWriter(store, threads=1) as writer:
        assert writer.add_nodes("user", [77]).version == 4
    assert graph_store.verify(store) == []


def test_the_last_batch_alone_may_be_lost(store):
    log_cut(store, -5)
    report = repair(store)
    assert report.version == 4
    assert report.lost == [f"{log_folder(store)}: batches from version 5 to 5"]
    assert report.left == []


@pytest.mark.parametrize("what", ["damaged", "missing"])
def test_the_head_is_written_again(store, truth, what):
    path = log_folder(store) / "head"
    path.unlink() if what == "missing" else flip(path)
    report = repair(store)
    assert report.left == []
    assert content(store) == truth
    if what == "missing":
        assert report.lost == []
    else:
        assert report.lost == [f"{log_folder(store)}: batches from version 6 on, if there were any"]


def test_a_missing_log_file_leaves_the_generation(store):
    segment_file(store, segments(store)[-1]).unlink()
    report = repair(store)
    assert (report.version, report.left) == (3, [])
    assert report.lost == [f"{log_folder(store)}: batches from version 4 to 5"]
    with GraphWriter(store, threads=1) as writer:
        assert writer.add_nodes("user", [77]).version == 4


@pytest.fixture
def with_older(tmp_path):
    """A store with two older generations."""
    path = make_empty(tmp_path / "older.store", [node_type("user")], [edge_type(KNOWS, undirected=True)])
    with GraphWriter(path, threads=1, fold_rows=0, keep=2) as writer:
        for number in range(6):
            writer.add_edges(KNOWS, [number], [number + 1])
            if number in (1, 3):
                writer.fold()
    assert sorted(each.name for each in path.glob("gen-*")) == ["gen-1", "gen-2", "gen-3"]
    return path


@pytest.mark.parametrize("what", ["shard", "manifest", "log"])
def test_a_damaged_older_generation_is_put_aside(with_older, what):
    newest = content_of_knows(with_older)
    if what == "shard":
        for path in (with_older / "gen-2" / "shard-0").glob("MANIFEST-*"):
            flip(path)
    elif what == "manifest":
        flip(with_older / "gen-2" / "manifest.json")
    else:
        flip(segment_file(with_older, 4))
    report = repair(with_older)
    assert report.left == []
    assert content_of_knows(with_older) == newest
    # The log from version 4 on leads on from the first generation as well.
    gone = ["gen-1", "gen-2"] if what == "log" else ["gen-2"]
    assert sorted(each.name for each in report.kept.glob("gen-*")) == gone
    assert len(report.lost) == len(gone)
    with graph_store.open(with_older, as_of=5, threads=1) as store:
        assert store.edge_types[KNOWS].num_edges == 4


def content_of_knows(path):
    with graph_store.open(path, threads=1) as store:
        return store.neighbors(store.ids("user"), KNOWS).ids.tolist()


def test_a_repair_that_cannot_write_changes_nothing(store, monkeypatch, truth):
    for path in ssts(store, 1):
        flip(path)
    before = snapshot(store)

    def full(*args):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(generation.GenerationWriter, "seal", full)
        with pytest.raises(GraphStoreError, match="no space left on the disk; repair it again when there is room"):
            repair(store)
    assert snapshot(store) == before
    repaired(store, truth)


KILLED = """
import os, signal, sys
from pathlib import Path
import graph_store
module = sys.modules["graph_store.repair"]
store, step = Path(sys.argv[1]), int(sys.argv[2])
calls = 0
for owner, name in ((module.Manifest, "save"), (module._Repair, "_put_aside"), (module, "remove_generation"),
                    (module.GenerationWriter, "seal"), (module, "cut_log")):
    def wrapped(*args, real=getattr(owner, name), **options):
        global calls
        calls += 1
        if calls == step:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*args, **options)
    setattr(owner, name, wrapped)
module.repair(store)
print("done", calls)
"""


@pytest.mark.parametrize("step", range(1, 8))
def test_a_repair_that_is_killed_can_be_done_again(store, step):
    before = content(store, as_of=4)
    for path in ssts(store, 1):
        flip(path)
    log_cut(store, -5)
    said = subprocess.run([sys.executable, "-c", KILLED, str(store), str(step)], capture_output=True, text=True)
    assert said.returncode == -9 or said.stdout.startswith("done")
    report = repair(store)
    assert report.left == []
    assert graph_store.verify(store) == []
    assert content(store) == before


def test_a_manifest_with_wrong_counts_is_put_right(store, truth):
    values = json.loads((store / "manifest.json").read_text())
    del values["crc32"]
    values["edge_types"][0]["num_edges"] += 1
    values["node_types"][1]["count"] -= 1
    body = json.dumps(values, indent=1)
    text = f'{body[:-2]},\n "crc32": "{crc32(body.encode()):08x}"\n}}'
    for path in (store / "manifest.json", store / "gen-2" / "manifest.json"):
        path.write_text(text)
    assert graph_store.verify(store) != []
    report = repair(store)
    assert (report.lost, report.left) == ([], [])
    assert content(store) == truth
    assert Manifest.load(store).generation == 3
    assert os.path.exists(report.kept / "gen-2")
