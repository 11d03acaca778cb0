"""The arena: what ingest wrote and what is rebuilt from the shards are the same bytes."""

import shutil
import sys

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import graph_store
from graph_store.errors import CorruptBlock
from graph_store.manifest import Manifest
from graph_store.resident import (
    PIECE_IDS,
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
from graph_store.shard import open_id_piece
from tests.graph_store.stores import BACK, CLICKS, check, many_rows


def arena(path):
    return {file.name: file.read_bytes() for file in (path / "arena").iterdir()}


@pytest.mark.parametrize("kinds", [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("num_shards", [1, 5])
def test_an_arena_that_was_deleted_comes_back_byte_by_byte(make_store, kinds, num_shards):
    rows = many_rows(2000, weighted=kinds[0], timed=kinds[1])
    path = make_store(rows, num_shards=num_shards, reverse=True)
    before = arena(path)
    assert len(before) == 4
    shutil.rmtree(path / "arena")
    graph_store.open(path).close()
    assert arena(path) == before
    check(path, rows, reverse=True)


@settings(max_examples=6, deadline=None, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(names=st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1), max_size=30))
def test_an_arena_of_strings_comes_back_byte_by_byte(make_store, names):
    path = make_store([(name, "x", None, None) for name in names], id_type="string", num_shards=2, reverse=True)
    before = arena(path)
    shutil.rmtree(path / "arena")
    graph_store.open(path).close()
    assert arena(path) == before


@pytest.fixture(scope="module")
def whole(make_store):
    return make_store(many_rows(1500), num_shards=2, reverse=True)


@pytest.fixture
def store(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "clicks.store")
    return tmp_path / "clicks.store"


def test_only_what_is_absent_is_written(store):
    before = arena(store)
    for name in before:
        (store / "arena" / name).unlink()
        kept = {file: file.stat().st_mtime_ns for file in (store / "arena").iterdir()}
        graph_store.open(store).close()
        assert arena(store) == before
        assert {file: file.stat().st_mtime_ns for file in kept} == kept


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


@pytest.mark.parametrize("edges", [True, False])
def test_an_arena_is_not_rebuilt_from_a_damaged_shard(store, edges):
    sealed = sorted((store / "gen-1" / "shard-1").glob("*.sst"))
    for path in sealed:
        path.chmod(0o644)
        data = bytearray(path.read_bytes())
        data[len(data) // 3] ^= 1
        path.write_bytes(data)
    (edge_file if edges else node_file)(store, 1, 0).unlink()
    with pytest.raises(CorruptBlock, match="shard-1"):
        graph_store.open(store)
    assert not (edge_file if edges else node_file)(store, 1, 0).exists()
    assert not list((store / "arena").glob("*.partial"))


def test_a_shard_with_fewer_ids_than_the_manifest_says_is_refused(store):
    manifest = Manifest.load(store)
    manifest.node_types[0].shard_counts[0] += 1
    with pytest.raises(CorruptBlock, match="ids of 'item', the manifest says"):
        ids_from_shards(manifest, store, 0)


def test_records_of_other_columns_than_the_manifest_says_are_refused(store):
    manifest = Manifest.load(store)
    object.__setattr__(manifest.edge_types[0], "weighted", False)
    with pytest.raises(CorruptBlock, match=r"has other columns than the manifest says \(weights False, times False\)"):
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


@pytest.mark.parametrize("strings", [False, True])
def test_ids_are_cut_into_pieces_of_at_most_4096(make_store, strings):
    assert PIECE_IDS == 4096
    num_ids = 2 * PIECE_IDS + 1
    rows = [(f"é{i}" if strings else i * 2**40, "x" if strings else 0, None, None) for i in range(num_ids)]
    path = make_store(rows, id_type="string" if strings else "integer", num_shards=1)
    ids = graph_store.open(path).id_map("user")
    pieces = id_pieces(ids, 0)
    assert [first for first, _ in pieces] == [0, PIECE_IDS, 2 * PIECE_IDS]
    assert [open_id_piece(piece, "piece")[0] for _, piece in pieces] == [PIECE_IDS, PIECE_IDS, 1]
    shutil.rmtree(path / "arena")
    with graph_store.open(path) as store:
        assert sorted(store.ids("user").tolist()) == sorted(row[0] for row in rows)
    assert graph_store.verify(path) == []
