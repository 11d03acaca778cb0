"""Strings of one hash stay apart through all that is done to a store: updates, folds, new shards, files, repair."""

import shutil

import numpy as np
import pyarrow as pa
import pytest

import graph_store
from graph_store import GraphWriter, Schema, id_collector
from graph_store.reshard import reshard
from graph_store.string_ids import StringMap

KNOWS = "user:knows:user"


@pytest.fixture(params=[0, 1])
def mask(request, monkeypatch):
    """Let through so few bits of each hash that all strings have one of one or two."""
    collector = id_collector.IdCollector.__init__
    monkeypatch.setattr(
        id_collector.IdCollector,
        "__init__",
        lambda self, *args, **kwargs: collector(self, *args, **kwargs, hash_mask=request.param),
    )
    # Shards do not hold the mask, since it is one: a map that is made from them gets it here.
    restored = StringMap.restore_strings
    monkeypatch.setattr(
        StringMap,
        "restore_strings",
        lambda name, starts, data, base, hash_mask=request.param, dead=None: restored(
            name, starts, data, base, request.param, dead
        ),
    )
    return request.param


def name(number):
    """Some short, some longer than what is kept beside the hash."""
    return f"u{number}" if number % 3 else f"a rather long name of the user with the number {number}, née Müller"


def check(path, edges, nodes):
    with graph_store.open(path) as store:
        assert sorted(store.ids("user").tolist()) == sorted(nodes)
        named = sorted(nodes)
        assert store.to_ids("user", store.to_nodes("user", named)).tolist() == named
        lists = store.neighbors(named, KNOWS)
        found = {
            (src, dst)
            for i, src in enumerate(named)
            for dst in lists.ids[lists.indptr[i] : lists.indptr[i + 1]].tolist()
        }
        assert found == edges
        with pytest.raises(graph_store.UnknownId, match="u9999"):
            store.to_nodes("user", ["u9999"])
    assert graph_store.verify(path) == []


def test_strings_of_one_hash_stay_apart_through_everything(tmp_path, mask):
    random, path = np.random.default_rng(mask), tmp_path / "store"
    edges = {(name(src), name(dst)) for src, dst in random.integers(0, 40, (80, 2)).tolist()}
    table = pa.table({"src": [src for src, _ in edges], "dst": [dst for _, dst in edges]})
    schema = Schema.from_tables({KNOWS: {"table": table, "reverse": True}}, id_types={"user": "string"})
    graph_store.ingest(schema, path, num_shards=3)
    nodes = {end for edge in edges for end in edge}
    check(path, edges, nodes)
    with GraphWriter(path, fold_rows=0) as writer:
        more = [(name(src), name(dst)) for src, dst in random.integers(30, 70, (60, 2)).tolist()]
        writer.add_edges(KNOWS, [src for src, _ in more], [dst for _, dst in more])
        edges |= set(more)
        nodes |= {end for edge in more for end in edge}
        gone = sorted(nodes)[::7]
        writer.delete_nodes("user", gone)
        edges = {edge for edge in edges if not set(edge) & set(gone)}
        nodes -= set(gone)
        back, fresh = gone[0], "a new one, and another byte: \u00a0"
        writer.add_edges(KNOWS, [back, fresh], [fresh, back])
        edges |= {(back, fresh), (fresh, back)}
        nodes |= {back, fresh}
        check(path, edges, nodes)
        writer.fold()
    check(path, edges, nodes)
    reshard(path, tmp_path / "wide", num_shards=5)
    check(tmp_path / "wide", edges, nodes)
    with graph_store.open(path) as store:
        written = graph_store.export(store, tmp_path / "files")
    graph_store.ingest(Schema.from_toml(written), tmp_path / "again", num_shards=2)
    check(tmp_path / "again", edges, nodes)
    shutil.rmtree(path / "arena")
    check(path, edges, nodes)
    graph_store.repair(path)
    check(path, edges, nodes)
