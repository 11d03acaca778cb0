"""The arena of a store: deletable, rebuilt from the shards to the byte, refused when damaged."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import CorruptBlock, GraphStoreError
from graph_store.blocks import encode
from graph_store.ids import IdMap
from graph_store.manifest import Manifest
from graph_store.resident import (
    edge_file,
    id_pieces,
    ids_from_shards,
    node_file,
    read_nodes,
    rebuild,
    records_of,
    write_edges,
    write_nodes,
)
from graph_store.shard import id_key, open_piece, seal_piece
from graph_store.string_dictionary import HashedStrings
from tests.graph_store.stores import BACK, CLICKS, many_rows, snapshot
from tests.oracles import crc32c, lists_of

ROOT = Path(__file__).parents[2]


def string_rows():
    rows = [(f"user {i % 90}", f"ü{i * i % 70}", float(i), i % 5 - 2) for i in range(3000)]
    return [*rows, *(("hub", f"{i}", 1.0, 2**63 - 1 - i) for i in range(1025))]


KINDS = {
    "plain": {"rows": many_rows(3000, weighted=False), "num_shards": 7},
    "weighted, timed": {"rows": many_rows(3000, timed=True), "num_shards": 2},
    "strings": {"rows": string_rows(), "num_shards": 3, "id_type": "string"},
    "many ids": {"rows": [(i, 3 * i, None, None) for i in range(10_000)], "num_shards": 2},
    "empty": {"rows": [], "num_shards": 2},
}


@pytest.fixture(params=KINDS)
def path(request, make_store, tmp_path):
    options = dict(KINDS[request.param])
    return make_store(options.pop("rows"), path=tmp_path / "clicks.store", reverse=True, **options)


def answers(path):
    with graph_store.open(path) as store:
        seeds = store.ids("user")[:50]
        hops = store.sample(seeds, CLICKS, fanouts=[4, 3], seed=1).hops
        return (
            lists_of(store, CLICKS),
            lists_of(store, BACK),
            [(hop.src.tolist(), hop.dst.tolist()) for hop in hops],
            store.nodes("item").tolist(),
        )


def test_a_deleted_arena_is_rebuilt_to_the_byte_with_the_same_answers(path):
    before, expected = snapshot(path / "arena"), answers(path)
    assert len(before) == 4
    shutil.rmtree(path / "arena")
    assert answers(path) == expected
    assert snapshot(path / "arena") == before
    assert graph_store.verify(path) == []


@pytest.mark.parametrize("name", ["gen-1.nodes-0", "gen-1.nodes-1", "gen-1.edges-0", "gen-1.edges-1"])
def test_one_deleted_file_of_the_arena_is_rebuilt_alone(make_store, tmp_path, name):
    path = make_store(many_rows(2000), path=tmp_path / "clicks.store", reverse=True)
    before = snapshot(path / "arena")
    others = {entry.name: entry.stat().st_ino for entry in (path / "arena").iterdir() if entry.name != name}
    (path / "arena" / name).unlink()
    graph_store.open(path).close()
    assert snapshot(path / "arena") == before
    assert {entry.name: entry.stat().st_ino for entry in (path / "arena").iterdir() if entry.name != name} == others


def test_a_leftover_of_a_killed_rebuild_does_no_harm(make_store, tmp_path):
    path = make_store(many_rows(2000), path=tmp_path / "clicks.store", reverse=True)
    before = snapshot(path / "arena")
    edge_file(path, 1, 0).unlink()
    (path / "arena" / "gen-1.edges-0.partial").write_bytes(b"half")
    graph_store.open(path).close()
    after = snapshot(path / "arena")
    assert {name: after[name] for name in before} == before
    assert graph_store.verify(path) == []


def test_readers_in_several_processes_may_rebuild_one_arena_at_once(make_store, tmp_path):
    path = make_store(many_rows(30_000), path=tmp_path / "clicks.store", num_shards=2, reverse=True)
    before = snapshot(path / "arena")
    shutil.rmtree(path / "arena")
    program = "import sys, graph_store; print(graph_store.open(sys.argv[1]).degree([1003], 'user:clicks:item')[0])"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    readers = [
        subprocess.Popen([sys.executable, "-c", program, str(path)], env=environment, stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    for reader in readers:
        out, _ = reader.communicate(timeout=120)
        assert reader.returncode == 0
        assert out == b"1025\n"
    assert snapshot(path / "arena") == before


def test_a_damaged_shard_is_refused_when_the_arena_is_rebuilt(make_store, tmp_path):
    path = make_store(many_rows(3000), path=tmp_path / "clicks.store", num_shards=1, reverse=True)
    shutil.rmtree(path / "arena")
    for file in (path / "gen-1" / "shard-0").glob("*.sst"):
        data = bytearray(file.read_bytes())
        data[len(data) // 3] ^= 1
        file.chmod(0o644)
        file.write_bytes(data)
    with pytest.raises(CorruptBlock, match="shard-0"):
        graph_store.open(path)
    assert not node_file(path, 1, 0).exists()
    assert not list((path / "arena").glob("*.partial"))


def test_an_arena_that_cannot_be_written_says_so(make_store, tmp_path, monkeypatch):
    path = make_store([(1, 2, None, None)], path=tmp_path / "clicks.store", num_shards=1)

    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    edge_file(path, 1, 0).unlink()
    monkeypatch.setattr("graph_store.resident.ArenaWriter", refuse)
    with pytest.raises(GraphStoreError, match="arena: the arena is absent and cannot be written: Permission denied"):
        graph_store.open(path)


def test_pieces_of_ids_hold_4096_each_in_the_order_of_their_keys():
    ids = IdMap.build("user", np.arange(10_000) * 7 - 100, 1)
    pieces = id_pieces(ids, 0)
    assert [first for first, _ in pieces] == [0, 4096, 8192]
    opened = [open_piece(piece, "here") for _, piece in pieces]
    assert [count for count, _ in opened] == [4096, 4096, 1808]
    assert np.array_equal(np.concatenate([body for _, body in opened]), ids.originals)
    keys = [id_key(number, first) for number in (0, 1, 256) for first in (0, 1, 255, 256, 2**40)]
    assert keys == sorted(keys)
    assert id_pieces(IdMap.build("user", np.empty(0, np.int64), 3), 1) == []


def test_pieces_of_string_ids_hold_lengths_and_bytes():
    collected = HashedStrings("user")
    collected.add(["ü", "", "abcdefghi"])
    ids = collected.finish(1)[0]
    ((first, piece),) = id_pieces(ids, 0)
    count, body = open_piece(piece, "here")
    assert (first, count) == (0, 3)
    names = ids.to_ids(np.arange(3)).tolist()
    assert body[:3].tolist() == [len(name.encode()) for name in names]
    assert body[3:].tobytes().rstrip(b"\0") == "".join(names).encode()


def test_a_piece_is_sealed_by_the_crc32c_of_all_but_itself_and_any_flipped_bit_is_found():
    body = np.array([5, -1, 2**63 - 1], np.int64)
    piece = seal_piece(body, 3, 4096)
    words = np.frombuffer(piece, np.uint64)
    assert int(words[3]) == crc32c(piece[:24] + piece[32:])
    for bit in range(8 * len(piece)):
        damaged = bytearray(piece)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(CorruptBlock, match="here: damaged"):
            open_piece(bytes(damaged), "here")
    for damaged in (b"", piece[:-1], piece[:-8], piece[:24], piece + b"\0" * 8):
        with pytest.raises(CorruptBlock):
            open_piece(damaged, "here")


def test_lists_that_come_in_pieces_are_those_that_come_whole(tmp_path):
    """A shard larger than the budget is written in ranges of 16 nodes and more."""
    random = np.random.default_rng(0)
    degrees = random.integers(0, 40, 100)
    degrees[[3, 64, 65]] = 513, 600, 1025
    indptr = np.cumsum([0, *degrees])
    neighbors = np.concatenate([np.sort(random.permutation(5000)[:degree]) for degree in degrees])
    whole = encode(indptr, neighbors, bits=13)

    def piece(low, high):
        part = indptr[low : high + 1]
        return 0, encode(part - part[0], neighbors[part[0] : part[-1]], first=low, bits=13)

    base = np.array([0, 100])
    write_edges(tmp_path / "whole", base, [(0, whole)])
    write_edges(tmp_path / "pieces", base, [piece(0, 16), piece(16, 80), piece(80, 100)])
    nodes = np.arange(100)
    for path in (tmp_path / "whole", tmp_path / "pieces"):
        sections = graph_store.arena.ArenaFile(path).sections
        adjacency = graph_store.Adjacency(sections, weighted=False, timed=False, threads=1)
        assert np.array_equal(adjacency.neighbors(nodes)[0], indptr)
        assert np.array_equal(adjacency.neighbors(nodes)[1], neighbors)
        sources, targets = adjacency.edges_at(np.arange(neighbors.size))
        assert np.array_equal(sources, np.repeat(nodes, degrees))
        assert np.array_equal(targets, neighbors)


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), max_size=30))
def test_an_arena_of_strings_comes_back_byte_by_byte(make_store, names):
    path = make_store([(name, "x", None, None) for name in names], id_type="string", num_shards=2, reverse=True)
    before = snapshot(path / "arena")
    shutil.rmtree(path / "arena")
    graph_store.open(path).close()
    assert snapshot(path / "arena") == before


@pytest.fixture
def store(make_store, tmp_path):
    return make_store(many_rows(1500), path=tmp_path / "clicks.store", num_shards=2, reverse=True)


def test_a_rebuild_that_is_interrupted_leaves_no_part_of_a_file(store, monkeypatch):
    shutil.rmtree(store / "arena")
    module = sys.modules["graph_store.resident"]

    def fails(*args):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "fill_arena", fails)
    with pytest.raises(KeyboardInterrupt):
        graph_store.open(store)
    assert sorted(file.name for file in (store / "arena").iterdir()) == ["gen-1.nodes-0", "gen-1.nodes-1"]
    monkeypatch.undo()
    assert graph_store.open(store).degree([1000], CLICKS).tolist() == [512]


def test_a_shard_with_fewer_ids_than_the_manifest_says_is_refused(store):
    manifest = Manifest.load(store)
    manifest.node_types[0].shard_counts[0] += 1
    with pytest.raises(CorruptBlock, match="ids of 'item', the manifest says"):
        ids_from_shards(manifest, store, 0)


def test_records_of_other_columns_than_the_manifest_says_are_refused(store):
    manifest = Manifest.load(store)
    object.__setattr__(manifest.edge_types[0], "weighted", False)
    said = r"has other columns than the manifest says \(weights False, times False, edge ids False\)"
    with pytest.raises(CorruptBlock, match=said):
        list(records_of(manifest, store, 0))


def test_files_of_the_arena_are_those_of_their_types(store):
    manifest = Manifest.load(store)
    assert [entry.name for entry in manifest.edge_types] == [CLICKS, BACK]
    for number, entry in enumerate(manifest.node_types):
        ids = read_nodes(node_file(store, 1, number), entry.name, entry.id_type)
        assert ids.count == entry.count
        assert np.diff(ids.base).tolist() == entry.shard_counts
        again = node_file(store, 2, number)
        write_nodes(again, ids_from_shards(manifest, store, number))
        assert again.read_bytes() == node_file(store, 1, number).read_bytes()
    for number, entry in enumerate(manifest.edge_types):
        counts = next(item.shard_counts for item in manifest.node_types if item.name == entry.src)
        base = np.concatenate([[0], np.cumsum(counts)])
        again = edge_file(store, 2, number)
        write_edges(again, base, records_of(manifest, store, number))
        assert again.read_bytes() == edge_file(store, 1, number).read_bytes()
    rebuild(manifest, store)
