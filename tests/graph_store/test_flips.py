"""A byte is flipped anywhere in a store: verify reports it, or it does no harm; a reader says so or answers right."""

import hashlib
import os
import pickle
import shutil

import numpy as np
import pytest

import graph_store
from graph_store import arena
from graph_store.feature_type import FeatureType
from graph_store.resident import edge_file, node_file
from graph_store.writer import GraphWriter
from tests.graph_store.empty_stores import edge_type, make_empty, node_type

VIEWS, BACK, KNOWS = "user:views:item", "item:rev_views:user", "user:knows:user"
NODE_FEATURES = (
    FeatureType("vec", "vector", dtype="float16", dim=4),
    FeatureType("small", "vector", dtype="int8", dim=2, scale=0.5),
    FeatureType("age", "scalar", dtype="int32"),
    FeatureType("word", "category"),
    FeatureType("tags", "ids"),
    FeatureType("text", "string"),
)
EDGE_FEATURES = (FeatureType("score", "scalar", dtype="float64"), FeatureType("note", "string"))


def add_edges(writer, random, users, items, count):
    writer.add_edges(
        VIEWS,
        random.choice(users, count),
        random.choice(items, count).tolist(),
        weight=random.random(count),
        time=random.integers(-50, 50, count),
        features={"score": random.random(count).tolist(), "note": [f"note {number}" for number in range(count)]},
    )
    writer.add_edges(KNOWS, random.choice(users, count), random.choice(users, count))


def set_features(writer, random, users):
    size = len(users)
    values = {
        "vec": random.random((size, 4)).astype(np.float16),
        "small": random.integers(-20, 20, (size, 2)) * 0.5,
        "age": [None if number % 4 == 0 else number for number in range(size)],
        "word": [f"word {number % 9}" for number in range(size)],
        "tags": [list(range(number % 4)) for number in range(size)],
        "text": [None if number % 3 else "ä" * (number % 7) for number in range(size)],
    }
    writer.set_features("user", users, values)


@pytest.fixture(scope="module", autouse=True)
def unsynced():
    """Nothing here is about loss of power, so nothing waits for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("fsync", "fdatasync"):
            patch.setattr(os, name, lambda handle: None)
        yield


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Two generations, hubs, strings, times, weights, a reverse type, features, batches in the log, an overlay."""
    path = tmp_path_factory.mktemp("flips") / "whole.store"
    nodes = [node_type("item", "string"), node_type("user", features=NODE_FEATURES)]
    views = edge_type(VIEWS, reverse=True, weighted=True, timed=True, features=EDGE_FEATURES)
    make_empty(path, nodes, [views, edge_type(KNOWS, undirected=True)], num_shards=2)
    random = np.random.default_rng(1)
    # Ids that are spread wide, so that there is an index; a few of them, so that files are small.
    users, items = random.integers(0, 2**62, 400), [f"item {number}" for number in range(900)]
    with GraphWriter(path, threads=1, keep=1) as writer:
        add_edges(writer, random, users, items, 1500)
        writer.add_edges(KNOWS, np.full(700, users[0]), random.integers(0, 2**62, 700))
        set_features(writer, random, np.unique(users))
        writer.delete_nodes("user", users[1:4])
        writer.fold()
        add_edges(writer, random, users[:50], items[:20], 60)
        writer.fold()
        add_edges(writer, random, users[:30], items[:30], 40)
        set_features(writer, random, np.unique(users[10:20]))
        writer.delete_nodes("item", items[:3])
        writer.add_nodes("user", users[2:3])
    graph_store.open(path).close()
    assert graph_store.verify(path) == []
    return path


@pytest.fixture
def store(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "flipped.store")
    return tmp_path / "flipped.store"


def digest_of(values):
    return hashlib.sha256(pickle.dumps(values)).hexdigest()


def questions(store):
    """Yield everything that can be asked of a store, as (name, call)."""
    for name, entry in sorted(store.node_types.items()):
        yield f"ids {name}", lambda name=name: store.ids(name).tolist()
        yield f"nodes {name}", lambda name=name: store.to_nodes(name, store.ids(name)).tolist()
        for feature in entry.features:
            feature = feature["name"]
            yield (
                f"{name} {feature}",
                lambda name=name, feature=feature: [
                    None if column is None else column.tolist()
                    for column in store.features(store.ids(name), name, [feature])[feature]
                ],
            )
    for name, entry in sorted(store.edge_types.items()):
        adjacency, nodes = store.adjacency(name), store.nodes(entry.src)
        yield (
            f"columns {name}",
            lambda a=adjacency, n=nodes: [each.tolist() for each in a.columns(n) if each is not None],
        )
        yield f"degrees {name}", lambda a=adjacency, n=nodes: a.degrees(n).tolist()
        yield f"edges {name}", lambda a=adjacency: [each.tolist() for each in a.edges_at(np.arange(a.num_edges))]
        yield (
            f"has {name}",
            lambda a=adjacency, n=nodes: a.has_edges(np.repeat(n, 5), np.tile(np.arange(5), n.size)).tolist(),
        )
        yield f"sample {name}", lambda name=name, n=nodes: sampled(store, name, n)
        for feature in entry.features:
            feature = feature["name"]
            yield (
                f"{name} {feature}",
                lambda name=name, feature=feature, rows=entry.edge_rows: [
                    None if column is None else column.tolist()
                    for column in store.edge_features(name).values(feature, np.arange(rows))
                ],
            )


def sampled(store, name, nodes):
    labels, layers, found = store.sampler(name, [3, 2]).sample(nodes, seed=5)
    return [
        labels.tolist(),
        *(layer.neighbors.tolist() for layer in layers),
        *(each.tolist() for each in found.values()),
    ]


def answers(path, **options):
    with graph_store.open(path, threads=1, **options) as store:
        return {name: digest_of(call()) for name, call in questions(store)}


def versions(path):
    """Ask all versions that a store keeps, without its arena: what its shards and its log hold."""
    shutil.rmtree(path / "arena")
    oldest = min(int(each["version"]) for each in graph_store.info(path)["generations"])
    newest = graph_store.info(path)["version"]
    return {version: answers(path, as_of=version) for version in range(oldest, newest + 1)}


@pytest.fixture(scope="module")
def truth(whole, tmp_path_factory):
    """The answers of the whole store at every version, and the newest alone."""
    copy = shutil.copytree(whole, tmp_path_factory.mktemp("truth") / "copy.store")
    newest = answers(copy)
    known = versions(copy)
    assert known[max(known)] == newest
    return known


def files_of(path):
    return sorted(each for each in path.rglob("*") if each.is_file() and each.stat().st_size)


def flip(path, at, bit):
    data = bytearray(path.read_bytes())
    data[at] ^= 1 << bit
    path.chmod(0o644)
    path.write_bytes(data)


def flip_and_verify(whole, folder, truth, random):
    """Flip a bit of a file, each file being as likely; a flip that verify does not report must do no harm."""
    path = shutil.copytree(whole, folder / "flipped.store")
    file = files_of(path)[random.integers(len(files_of(path)))]
    at, bit = int(random.integers(file.stat().st_size)), int(random.integers(8))
    flip(file, at, bit)
    place = f"byte {at} bit {bit} of {file.relative_to(path)}"
    faults = graph_store.verify(path)
    if not faults:
        assert versions(path) == truth, place
    shutil.rmtree(path)
    return file.relative_to(path), bool(faults)


def test_each_of_a_few_flips_is_reported_or_does_no_harm(whole, truth, tmp_path):
    random = np.random.default_rng(7)
    found = [flip_and_verify(whole, tmp_path, truth, random) for _ in range(30)]
    assert sum(reported for _, reported in found) > 12


@pytest.mark.long
def test_each_of_2000_flips_is_reported_or_does_no_harm(whole, truth, tmp_path):
    random = np.random.default_rng(8)
    for _ in range(2000):
        flip_and_verify(whole, tmp_path, truth, random)


def flip_and_repair(whole, folder, truth, random):
    """Flip a bit, repair: the store is sound, and has its newest version or an earlier one, as it was or with less."""
    path = shutil.copytree(whole, folder / "flipped.store")
    file = files_of(path)[random.integers(len(files_of(path)))]
    at, bit = int(random.integers(file.stat().st_size)), int(random.integers(8))
    flip(file, at, bit)
    place = f"byte {at} bit {bit} of {file.relative_to(path)}"
    report = graph_store.repair(path, threads=1)
    assert report.left == [], place
    assert graph_store.verify(path) == [], place
    if not report.lost or file.name == "head":
        assert answers(path) == truth[max(truth)], place
    else:  # of the log, or of an older generation, which is put aside
        assert answers(path) == truth[report.version if file.suffix == ".log" else max(truth)], place
    assert bool(report.faults) == bool(report.done)
    shutil.rmtree(path)


def test_a_store_is_sound_after_a_flip_and_a_repair(whole, truth, tmp_path):
    random = np.random.default_rng(11)
    for _ in range(20):
        flip_and_repair(whole, tmp_path, truth, random)


@pytest.mark.long
def test_a_store_is_sound_after_any_of_1000_flips_and_a_repair(whole, truth, tmp_path):
    random = np.random.default_rng(12)
    for _ in range(1000):
        flip_and_repair(whole, tmp_path, truth, random)


HARMLESS = ("LOG", "writer.lock")


def test_a_flip_in_each_file_is_reported_unless_nobody_reads_it(whole, tmp_path):
    for file in files_of(whole):
        path = shutil.copytree(whole, tmp_path / "flipped.store")
        # Between the sections of an arena file there is nothing.
        sections = arena.ArenaFile(file).table.values() if file.parent.name == "arena" else ()
        largest = max(sections, key=lambda entry: entry["length"], default={"offset": file.stat().st_size // 2})
        flip(path / file.relative_to(whole), largest["offset"], 3)
        faults = graph_store.verify(path)
        reported = bool(faults)
        assert reported != file.name.startswith(HARMLESS), (file.relative_to(whole), faults)
        shutil.rmtree(path)


@pytest.fixture(params=["checked at once", "checked later"])
def when_checked(request, monkeypatch):
    """Let sections be checked when a file is opened, as small ones are, or when they are read, as large ones are."""
    if request.param == "checked later":
        monkeypatch.setattr(arena, "CHECKED_AT_ONCE", 0)
    return request.param


def flip_and_ask(path, file, at, bit, right):
    """Flip a bit of a file of the arena and ask everything; returns what was refused."""
    data = file.read_bytes()
    flip(file, at, bit)
    refused = {}
    try:
        with graph_store.open(path, threads=1) as store:
            for name, call in questions(store):
                try:
                    assert digest_of(call()) == right[name], (file.name, at, bit, name)
                except graph_store.CorruptBlock as error:
                    refused[name] = str(error)
    except graph_store.CorruptBlock as error:
        refused["open"] = str(error)
    assert all(str(file) in said for said in refused.values())
    file.write_bytes(data)
    return refused


def ask_after_flips(store, right, random, count):
    files = sorted(path for path in (store / "arena").iterdir() if path.name.startswith("gen-3."))
    assert len(files) == 8
    refused = []
    for _ in range(count):
        file = files[random.integers(len(files))]
        # Only bytes of sections: between them there is nothing.
        sections = [entry for entry in arena.ArenaFile(file).table.values() if entry["length"]]
        entry = sections[random.integers(len(sections))]
        size = entry["length"] * np.dtype(entry["dtype"]).itemsize
        at, bit = entry["offset"] + int(random.integers(size)), int(random.integers(8))
        refused.append(flip_and_ask(store, file, at, bit, right))
    assert all(refused)
    return refused


def test_a_reader_of_a_damaged_arena_says_so_and_never_answers_wrong(store, truth, when_checked):
    refused = ask_after_flips(store, truth[max(truth)], np.random.default_rng(9), 40)
    if when_checked == "checked later":
        assert any("open" not in names for names in refused)
    # With what was flipped back nothing is left of it.
    assert answers(store) == truth[max(truth)]


@pytest.mark.long
def test_a_reader_of_an_arena_with_any_of_2000_flips_never_answers_wrong(store, truth, when_checked):
    ask_after_flips(store, truth[max(truth)], np.random.default_rng(10), 2000)


def test_only_what_lies_in_the_damaged_part_is_refused(tmp_path, make_store, monkeypatch):
    """1.5 MB of lists in parts of 64 KiB: of 20,000 nodes a few are lost, with any way to ask for them."""
    monkeypatch.setattr(arena, "CHECKED_AT_ONCE", 0)
    random = np.random.default_rng(2)
    rows = [(int(src), int(dst), 1.5, None) for src, dst in random.integers(0, 20_000, (200_000, 2))]
    path = make_store(rows, path=tmp_path / "large.store", num_shards=2)
    file = edge_file(path, 1, 0)
    with graph_store.open(path) as store:
        adjacency = store.adjacency("user:clicks:item")
        nodes = store.nodes("user")
        right = [adjacency.neighbors(nodes[place : place + 1])[1].tolist() for place in range(0, nodes.size, 50)]
    flip(file, arena.ArenaFile(file).table["words"]["offset"] + 700_000, 0)
    with graph_store.open(path) as store:
        adjacency, refused = store.adjacency("user:clicks:item"), []
        for number, place in enumerate(range(0, nodes.size, 50)):
            one = nodes[place : place + 1]
            try:
                assert adjacency.neighbors(one)[1].tolist() == right[number]
            except graph_store.CorruptBlock as error:
                refused.append(str(error))
                for call in (adjacency.degrees, lambda n: adjacency.has_edges(n, n), lambda n: adjacency.columns(n)):
                    with pytest.raises(graph_store.CorruptBlock):
                        call(one)
                with pytest.raises(graph_store.CorruptBlock):
                    store.sampler("user:clicks:item", [2]).sample(one, seed=1)
        assert 0 < len(refused) < len(right) // 5
        assert all("section 'words' is damaged in bytes 655360 to 720895" in said for said in refused)
        with pytest.raises(graph_store.CorruptBlock):
            adjacency.edges_at(np.arange(adjacency.num_edges))


def test_ids_in_a_damaged_part_are_refused_and_the_others_found(tmp_path, make_store, monkeypatch):
    monkeypatch.setattr(arena, "CHECKED_AT_ONCE", 0)
    random = np.random.default_rng(3)
    for id_type in ("integer", "string"):
        ids = np.unique(random.integers(0, 2**60, 20_000))
        rows = [(f"user {each}" if id_type == "string" else int(each), 5, None, None) for each in ids]
        rows = [(src, "x" if id_type == "string" else dst, *rest) for src, dst, *rest in rows]
        path = make_store(rows, path=tmp_path / f"{id_type}.store", num_shards=2, id_type=id_type)
        file = node_file(path, 1, 1)
        for section in ("index", "ids", *(["offsets"] if id_type == "string" else [])):
            data = file.read_bytes()
            entry = arena.ArenaFile(file).table[section]
            flip(file, entry["offset"] + 70_000, 4)
            with graph_store.open(path) as store:
                found, refused = 0, set()
                for src, *_ in rows[::50]:
                    try:
                        (node,) = store.to_nodes("user", [src])
                        assert store.to_ids("user", [node]).tolist() == [src]
                        found += 1
                    except graph_store.CorruptBlock as error:
                        refused.add(str(error))
                assert len(refused) == 1
                assert f"section {section!r} is damaged" in refused.pop()
                assert 0 < found < len(rows[::50])
            file.write_bytes(data)


def test_a_sampler_checks_all_parts_in_the_course_of_its_calls(tmp_path, make_store, monkeypatch):
    monkeypatch.setattr(arena, "CHECKED_AT_ONCE", 0)
    random = np.random.default_rng(2)
    rows = [(int(src), int(dst), 1.5, None) for src, dst in random.integers(0, 20_000, (200_000, 2))]
    path = make_store(rows, path=tmp_path / "large.store", num_shards=2)
    with graph_store.open(path) as store:
        check = store.view.checks["user:clicks:item"]
        seeds = store.nodes("user")[:1]
        calls = 0
        while not check.complete:
            store.sampler("user:clicks:item", [2]).sample(seeds, seed=calls)
            calls += 1
        assert 1 < calls < 5


def test_a_fold_does_not_take_damage_over(store):
    """What a fold reads is checked like what a reader reads, so that it is not sealed again with new checksums."""
    for file in sorted((store / "arena").glob("gen-3.*")):
        if "overlay" in file.name:
            continue
        data = file.read_bytes()
        entry = max(arena.ArenaFile(file).table.values(), key=lambda entry: entry["length"])
        flip(file, entry["offset"] + 8, 0)
        with pytest.raises(graph_store.CorruptBlock, match=file.name), GraphWriter(store, threads=1) as writer:
            writer.fold()
        file.write_bytes(data)
        assert not (store / "gen-4").exists()
    assert graph_store.verify(store) == []
