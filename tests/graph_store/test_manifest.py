"""The manifest: written whole or not at all, read back as it was, refused when it contradicts itself."""

import contextlib
import dataclasses
import json
import os
from zlib import crc32

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.errors import CorruptBlock, StoreNotFound
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType

LINKS = StoredEdgeType(
    name="page:links:page",
    undirected=True,
    reverse="page:links:page",
    weighted=True,
    timed=False,
    bits=5,
    num_edges=3,
    num_entries=5,
    duplicates=2,
    self_loops=1,
)
PAGES = StoredNodeType("page", "string", 7, [3, 0, 4])
MANIFEST = Manifest(
    uuid="6a9c",
    num_shards=3,
    node_types=[PAGES],
    edge_types=[LINKS],
    files={"gen-1/shard-0/1.sst": {"bytes": 10, "crc32": 2**32 - 1}},
)


def test_a_manifest_comes_back_as_it_was(tmp_path):
    MANIFEST.save(tmp_path)
    assert Manifest.load(tmp_path) == MANIFEST
    assert os.listdir(tmp_path) == ["manifest.json"]
    assert json.loads((tmp_path / "manifest.json").read_text())["format"] == 2
    assert (LINKS.src, LINKS.relation, LINKS.dst) == ("page", "links", "page")


def test_a_name_in_any_script_comes_back(tmp_path):
    named = dataclasses.replace(
        MANIFEST,
        node_types=[dataclasses.replace(PAGES, name="страница")],
        edge_types=[dataclasses.replace(LINKS, name="страница:到:страница", reverse="страница:到:страница")],
    )
    named.save(tmp_path)
    assert Manifest.load(tmp_path) == named


def test_a_manifest_that_cannot_be_written_leaves_the_old_one(tmp_path, monkeypatch):
    MANIFEST.save(tmp_path)

    def full(number):
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        dataclasses.replace(MANIFEST, uuid="other").save(tmp_path)
    assert Manifest.load(tmp_path) == MANIFEST


def test_where_no_manifest_is_there_is_no_store(tmp_path):
    for place in (tmp_path, tmp_path / "none", tmp_path / "none" / "deeper"):
        with pytest.raises(StoreNotFound, match=r"no store is here .*; make one with `gossamer ingest`"):
            Manifest.load(place)
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreNotFound):
        Manifest.load(tmp_path / "file")


def test_another_format_is_named(tmp_path):
    dataclasses.replace(MANIFEST, format=9).save(tmp_path)
    with pytest.raises(
        CorruptBlock, match="store format 9, this version reads 2; it was made by a newer gossamer; upgrade"
    ):
        Manifest.load(tmp_path)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("manifest")
    MANIFEST.save(folder)
    return folder, (folder / "manifest.json").read_bytes()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_cut_manifest_and_a_changed_byte_are_refused(saved, data):
    folder, text = saved
    size = data.draw(st.integers(0, len(text) - 2))
    (folder / "manifest.json").write_bytes(text[:size])
    with pytest.raises(CorruptBlock, match=r"manifest\.json: damaged manifest"):
        Manifest.load(folder)
    changed = bytearray(text)
    changed[size] = data.draw(st.integers(0, 255).filter(lambda byte: byte != text[size]))
    (folder / "manifest.json").write_bytes(changed)
    with pytest.raises(CorruptBlock):
        Manifest.load(folder)


@pytest.mark.parametrize("value", [None, True, -1, 1.5, "x", [], {}, [None], 2**70])
@pytest.mark.parametrize("where", ["manifest", "node type", "edge type"])
def test_a_value_of_another_kind_never_raises_anything_else(tmp_path, where, value):
    holders = {"manifest": MANIFEST, "node type": PAGES, "edge type": LINKS}
    for key in dataclasses.asdict(holders[where]):
        values = dataclasses.asdict(MANIFEST)
        holder = {"manifest": values, "node type": values["node_types"][0], "edge type": values["edge_types"][0]}[where]
        holder[key] = value
        body = json.dumps(values, indent=1)
        sealed = f'{body[:-2]},\n "crc32": "{crc32(body.encode()):08x}"\n}}'
        (tmp_path / "manifest.json").write_text(sealed)
        alike = type(value) is type(getattr(holders[where], key))
        with contextlib.suppress(CorruptBlock) if alike else pytest.raises(CorruptBlock):
            Manifest.load(tmp_path)
