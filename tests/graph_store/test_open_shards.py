"""Shards that stay open while types are read."""

import shutil

import pytest

import graph_store
from graph_store import open_shards
from graph_store.errors import CorruptBlock
from graph_store.open_shards import OpenShards
from graph_store.resident import shard_folder
from graph_store.shard import Shard
from tests.graph_store.stores import many_rows, snapshot


@pytest.fixture(scope="module")
def store(make_store):
    return make_store(many_rows(), num_shards=5, reverse=True)


@pytest.mark.parametrize("most", [0, 2, 5])
def test_an_arena_is_rebuilt_to_the_byte_however_many_shards_stay_open(store, monkeypatch, most):
    monkeypatch.setattr(open_shards, "MAX_OPEN", most)
    before = snapshot(store / "arena")
    shutil.rmtree(store / "arena")
    graph_store.open(store).close()
    assert snapshot(store / "arena") == before


def test_a_shard_is_opened_once_while_there_is_room(store, monkeypatch):
    opened = []
    monkeypatch.setattr(open_shards, "MAX_OPEN", 2)
    monkeypatch.setattr(open_shards, "Shard", lambda path: opened.append(path.name) or Shard(path))
    with OpenShards() as shards:
        for _ in range(2):
            for number in range(3):
                with shards.get(shard_folder(store, 1, number)) as shard:
                    assert shard.path.name == f"shard-{number}"
    assert opened == ["shard-0", "shard-1", "shard-2", "shard-2"]


def test_a_shard_that_is_not_there_is_refused(store):
    with OpenShards() as shards, pytest.raises((CorruptBlock, OSError), match="shard-9"):
        shards.get(shard_folder(store, 1, 9))
