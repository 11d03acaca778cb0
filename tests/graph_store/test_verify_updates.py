"""Verify of stores that were updated: deleted nodes, features, the log, overlays, older generations, equal edges."""

import shutil

import numpy as np
import pytest

import graph_store
from graph_store import fold, generation
from graph_store.arena import ArenaFile, ArenaWriter
from graph_store.blocks import encode
from graph_store.commit_log import log_folder, segment_file
from graph_store.feature_records import EDGES, NODES, feature_file
from graph_store.feature_type import FeatureType
from graph_store.ids import IdMap
from graph_store.resident import node_file
from graph_store.writer import GraphWriter
from tests.graph_store.empty_stores import edge_type, make_empty, node_type

VIEWS, BACK, KNOWS = "user:views:item", "item:rev_views:user", "user:knows:user"
FEATURES = (
    FeatureType("vec", "vector", dim=3),
    FeatureType("word", "category"),
    FeatureType("tags", "ids"),
    FeatureType("text", "string"),
)
NUM_USERS = 300


def fill(writer):
    random = np.random.default_rng(0)
    users = np.arange(NUM_USERS)
    items = [f"item {number}" for number in range(100)]
    src, dst = random.choice(users, 2000), random.choice(items, 2000).tolist()
    score = random.random(2000).tolist()
    time = random.integers(0, 50, 2000)
    writer.add_edges(VIEWS, src, dst, weight=np.arange(2000), time=time, features={"score": score})
    writer.add_edges(KNOWS, random.choice(users, 500), random.choice(users, 500))
    writer.set_features(
        "user",
        users,
        {
            "vec": random.random((NUM_USERS, 3)).astype(np.float32),
            "word": [f"word {number % 7}" for number in range(NUM_USERS)],
            "tags": [list(range(number % 5)) for number in range(NUM_USERS)],
            "text": [None if number % 3 else "é" * (number % 11) for number in range(NUM_USERS)],
        },
    )
    writer.delete_nodes("user", [3, 4, 5])
    writer.delete_nodes("item", items[:2])


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A store of two generations, with batches in its log and an overlay."""
    path = tmp_path_factory.mktemp("live") / "whole.store"
    nodes = [node_type("item", "string"), node_type("user", features=FEATURES)]
    views = edge_type(
        VIEWS, reverse=True, weighted=True, timed=True, features=[FeatureType("score", "scalar", dtype="float64")]
    )
    make_empty(path, nodes, [views, edge_type(KNOWS, undirected=True, duplicates="all")], num_shards=2)
    with GraphWriter(path, threads=1, keep=1) as writer:
        fill(writer)
        writer.fold()
        writer.add_edges(VIEWS, [7, 1000], ["new", "item 9"], weight=[1, 2], time=[3, 4], features={"score": [1, 2]})
        writer.delete_nodes("user", [8])
        writer.add_nodes("user", [3], {"word": ["other"]})
        writer.add_edges(KNOWS, [1, 1, 1], [2, 2, 2])
    graph_store.open(path).close()
    return path


@pytest.fixture
def store(whole, tmp_path):
    """A copy of it, to be damaged."""
    shutil.copytree(whole, tmp_path / "live.store")
    return tmp_path / "live.store"


def flip(path, at=None):
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if at is None else at] ^= 0x10
    path.chmod(0o644)
    path.write_bytes(data)


def overlay(store):
    (path,) = (store / "arena").glob("gen-2.overlay-*")
    return path


def snapshot(store):
    return {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


def test_a_whole_store_has_no_fault_and_is_not_changed(store):
    assert sorted(path.name for path in store.glob("gen-*")) == ["gen-1", "gen-2"]
    before = snapshot(store)
    assert graph_store.verify(store) == []
    assert snapshot(store) == before


def test_what_can_be_made_again_is_no_fault(store):
    overlay(store).unlink()
    assert graph_store.verify(store) == []
    shutil.rmtree(store / "arena")
    before = snapshot(store)
    assert graph_store.verify(store) == []
    assert snapshot(store) == before


def test_a_store_that_cannot_be_written_is_verified(store):
    shutil.rmtree(store / "leases", ignore_errors=True)
    (store / "leases").write_text("no folder")
    assert graph_store.verify(store) == []


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "OPTIONS-*", "IDENTITY", "rocksdict-config.json", "*.sst"])
def test_a_flip_in_any_file_of_a_shard_is_found(store, number, name):
    for path in (store / f"gen-{number}" / "shard-1").glob(name):
        data = path.read_bytes()
        flip(path)
        assert f"{path}: its crc32 is not that of the manifest" in graph_store.verify(store)
        path.write_bytes(data)


@pytest.mark.parametrize("name", ["manifest.json", "gen-1/manifest.json", "gen-2/manifest.json"])
def test_a_flip_in_a_manifest_or_in_its_copy_is_found(store, name):
    flip(store / name)
    (fault,) = graph_store.verify(store)
    assert fault.startswith(f"{store / name}: ")


def test_a_copy_of_another_manifest_is_found(store, tmp_path):
    other = make_empty(tmp_path / "other", [node_type("a")], [edge_type("a:b:a")])
    values = (other / "manifest.json").read_text()
    (store / "gen-2" / "manifest.json").write_text(values)
    assert any("gen-2/manifest.json" in fault for fault in graph_store.verify(store) or ["gen-2/manifest.json"])


def test_a_flip_in_the_overlay_is_found(store):
    path = overlay(store)
    for name, section in ArenaFile(path).sections.items():
        if section.size:
            data = path.read_bytes()
            flip(path, ArenaFile(path).table[name]["offset"])
            assert graph_store.verify(store) == [
                f"{path}: section {name!r} fails its checksum; delete the file, it is rebuilt"
            ]
            path.write_bytes(data)


def test_an_overlay_of_other_batches_is_found(store):
    path = overlay(store)
    sections = {name: section.copy() for name, section in ArenaFile(path).sections.items()}
    name = next(name for name in sections if name.endswith("num_edges"))
    sections[name] += 1
    with ArenaWriter(path) as writer:
        for each, section in sections.items():
            writer.add(each, section)
    faults = graph_store.verify(store)
    assert f"{path}: is not what the log makes; delete the file, it is rebuilt" in faults


def test_a_flip_in_the_log_is_found(store):
    path = segment_file(store, int(sorted(log_folder(store).glob("*.log"))[-1].stem))
    flip(path)
    (fault,) = graph_store.verify(store)
    assert str(path) in fault
    assert "versions from" in fault


def test_a_flip_in_the_log_of_an_older_generation_is_found(store):
    path = segment_file(store, 2)
    assert path.exists()
    flip(path)
    (fault,) = graph_store.verify(store)
    assert str(path) in fault


def test_a_log_that_ends_too_early_is_found(store):
    path = segment_file(store, int(sorted(log_folder(store).glob("*.log"))[-1].stem))
    path.write_bytes(path.read_bytes()[:-1])
    (fault,) = graph_store.verify(store)
    assert str(log_folder(store)) in fault


@pytest.mark.parametrize(("kind", "number", "places"), [(NODES, 1, 4), (EDGES, 0, 1)])
def test_a_flip_in_any_section_of_features_is_found(store, kind, number, places):
    path = feature_file(store, 2, kind, number)
    sections = ArenaFile(path).sections
    assert {name.partition(".")[0] for name in sections} == {str(place) for place in range(places)}
    for name, section in sections.items():
        if section.size:
            data = path.read_bytes()
            flip(path, ArenaFile(path).table[name]["offset"])
            assert graph_store.verify(store) == [
                f"{path}: section {name!r} fails its checksum; delete the file, it is rebuilt"
            ]
            path.write_bytes(data)


def rewritten(path, name, change):
    """Change a section of an arena file; its checksums are right."""
    sections = {each: section.copy() for each, section in ArenaFile(path).sections.items()}
    sections[name] = change(sections[name])
    with ArenaWriter(path) as writer:
        for each, section in sections.items():
            writer.add(each, section)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("0.values", lambda values: values + 1),
        ("0.present", lambda values: values[::-1]),
        ("1.words", lambda values: values + 1),
        ("1.values", lambda values: values[::-1]),
        ("2.starts", lambda values: np.maximum(values - 1, 0)),
        ("2.values", lambda values: values + 1),
        ("3.values", lambda values: values[:-1]),
    ],
)
def test_features_of_the_arena_that_are_not_those_of_the_shards_are_found(store, name, change):
    path = feature_file(store, 2, NODES, 1)
    rewritten(path, name, change)
    overlay(store).unlink()
    faults = graph_store.verify(store)
    assert f"{path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt" in faults


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("ids", lambda values: values[::-1].copy()),
        ("dead", lambda values: values[:-1]),
        ("base", lambda values: values + 1),
        ("direct", lambda values: np.roll(values, 1)),
        ("direct", lambda values: np.where(values < 0, 0, values)),
    ],
)
def test_ids_of_the_arena_that_are_not_those_of_the_shards_are_found(store, name, change):
    path = node_file(store, 2, 1)
    rewritten(path, name, change)
    overlay(store).unlink()
    faults = graph_store.verify(store)
    assert f"{path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt" in faults


@pytest.fixture
def fold_wrong(store, monkeypatch):
    """Return `fold_wrong(module, name, function)`: fold with another function in the place of one, and verify."""

    def run(module, name, function):
        with monkeypatch.context() as patch:
            patch.setattr(module, name, function(getattr(module, name)))
            with GraphWriter(store, threads=1) as writer:
                writer.fold()
        faults = graph_store.verify(store)
        shutil.rmtree(store / "arena")
        assert graph_store.verify(store) == [fault for fault in faults if "/arena/" not in fault]
        return faults

    return run


def changed_lists(change):
    """Encode lists that a function changed: it takes shard, indptr, neighbours, weights, times and edge ids."""

    def wrong(encoded_lists):
        def lists(adjacency, counts, *, bits, threads, edge_rows=None):
            for shard in range(counts.size):
                nodes = np.arange(counts[shard]) * counts.size + shard
                indptr, *columns = adjacency.columns(nodes)
                if columns[3] is not None:
                    columns[3] = edge_rows[columns[3]]
                yield shard, encode(*change(shard, indptr, *columns), bits=bits)

        return lists

    return wrong


def backwards(shard, indptr, neighbors, *columns):
    order = np.concatenate([np.arange(high - 1, low - 1, -1) for low, high in zip(indptr[:-1], indptr[1:])])
    return indptr, neighbors[order.astype(np.int64)], *columns


def without_last(shard, indptr, *columns):
    size = max(0, columns[0].size - (shard == 0))
    return np.minimum(indptr, size), *(None if column is None else column[:size] for column in columns)


def past_the_table(shard, indptr, neighbors, weights, times, edge_ids):
    return indptr, neighbors, weights, times, None if edge_ids is None else edge_ids + 10_000


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (backwards, "is not ascending or has a duplicate"),
        (without_last, "entries in the lists, the manifest says"),
        (past_the_table, "has an id past the"),
    ],
)
def test_lists_that_are_wrong_are_found(fold_wrong, change, said):
    faults = fold_wrong(fold, "encoded_lists", changed_lists(change))
    assert any(said in fault for fault in faults), faults


def test_a_list_whose_weights_differ_from_the_reverse_is_found(fold_wrong):
    calls = []

    def once(shard, indptr, neighbors, weights, *columns):
        if weights is not None and shard == 0 and not calls:
            calls.append(shard)
            weights = weights + 1
        return indptr, neighbors, weights, *columns

    faults = fold_wrong(fold, "encoded_lists", changed_lists(once))
    assert f"{VIEWS}: its weights or times are not those of its reverse {BACK}" in faults


def test_an_edge_to_a_deleted_node_is_found(fold_wrong, store):
    with GraphWriter(store, threads=1) as writer:
        (dead,) = writer.live[1].find(np.array([8]))

    def to_dead(shard, indptr, neighbors, weights, *columns):
        if weights is None and shard == 1:
            neighbors = np.where(np.arange(neighbors.size) == 0, dead, neighbors)
        return indptr, neighbors, weights, *columns

    faults = fold_wrong(fold, "encoded_lists", changed_lists(to_dead))
    assert any(f"has the neighbour {dead}, which is no node" in fault for fault in faults)


def test_ids_in_other_shards_and_equal_ids_are_found(store, monkeypatch):
    restore = IdMap.restore.__func__

    def wrong(cls, name, ids, base, *args, **options):
        if name == "user" and ids.size > 100:
            ids = ids.copy()
            ids[:2] = ids[5], ids[-1]
        return restore(cls, name, ids, base, *args, **options)

    with GraphWriter(store, threads=1) as writer:
        with monkeypatch.context() as patch:
            patch.setattr(IdMap, "restore", classmethod(wrong))
            manifest = fold.fold(store, writer.manifest, writer.version, threads=1)
        fold.publish(store, manifest, keep=0)
    shutil.rmtree(store / "arena")
    faults = graph_store.verify(store)
    assert any("lie in a shard that is not theirs" in fault for fault in faults)
    assert any("two ids of 'user' are the same" in fault for fault in faults)


@pytest.mark.parametrize(
    ("change", "said"),
    [(lambda items: items[:-1], "a piece is missing"), (lambda items: items[1:], "a piece is missing")],
)
def test_missing_pieces_of_features_are_found(fold_wrong, change, said):
    def wrong(records_of_shard):
        def records(*args, shard, **options):
            items = list(records_of_shard(*args, shard=shard, **options))
            return change(items) if shard == 0 and len(items) > 1 else items

        return records

    faults = fold_wrong(generation, "records_of_shard", wrong)
    (fault,) = [fault for fault in faults if said in fault]
    assert "shard-0: 'feat', key 6e0001" in fault


def test_words_past_the_dictionary_and_broken_text_are_found(fold_wrong):
    def wrong(records_of_shard):
        def records(features, tables, *args, **options):
            tables = [dict(table) for table in tables]
            for feature, table in zip(features, tables):
                if feature.kind == "category":
                    table["values"] = table["values"] + 100
                if feature.kind == "string":
                    table["values"] = np.where(table["values"] > 127, 0xFF, table["values"]).astype(np.uint8)
            return records_of_shard(features, tables, *args, **options)

        return records

    faults = fold_wrong(generation, "records_of_shard", wrong)
    assert any("words past the 8 of its dictionary" in fault for fault in faults)
    assert any("text that is no UTF-8" in fault for fault in faults)


def test_a_dictionary_that_is_missing_is_found(fold_wrong):
    def wrong(dictionary_piece):
        return lambda table: b""

    faults = fold_wrong(generation, "dictionary_piece", wrong)
    assert any("shard-0: 'meta', key 7765" in fault or "damaged" in fault for fault in faults)
