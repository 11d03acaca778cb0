"""Verify: each kind of damage is found, its place is named, and nothing is raised."""

import json
import shutil
from zlib import crc32

import pytest

import graph_store
from graph_store.arena import ArenaFile
from graph_store.resident import edge_file, node_file
from tests.graph_store.stores import BACK, CLICKS, many_rows


@pytest.fixture(scope="module")
def whole(make_store):
    """A store with weights, hubs, a reverse type, in 2 shards."""
    return make_store(many_rows(3000), num_shards=2, reverse=True)


@pytest.fixture
def store(whole, tmp_path):
    """A copy of it, to be damaged."""
    shutil.copytree(whole, tmp_path / "clicks.store")
    return tmp_path / "clicks.store"


def flip(path, at):
    path.chmod(0o644)
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def edit(store, change):
    """Change the manifest, and its copy, by a function of its values; its crc32 is right."""
    values = json.loads((store / "manifest.json").read_text())
    del values["crc32"]
    change(values)
    body = json.dumps(values, indent=1)
    text = f'{body[:-2]},\n "crc32": "{crc32(body.encode()):08x}"\n}}'
    for path in (store / "manifest.json", store / "gen-1" / "manifest.json"):
        path.write_text(text)


def sealed(store, shard):
    return sorted((store / "gen-1" / f"shard-{shard}").glob("*.sst"))


def test_a_whole_store_has_no_fault(store):
    assert graph_store.verify(store) == []
    assert graph_store.verify(str(store)) == []


def test_no_store_is_no_fault_but_an_error(tmp_path):
    with pytest.raises(graph_store.StoreNotFound, match="no store is here"):
        graph_store.verify(tmp_path)
    with pytest.raises(graph_store.StoreNotFound, match="no store is here"):
        graph_store.verify(tmp_path / "none")


@pytest.mark.parametrize("fraction", [0.0, 0.1, 0.5, 0.9, 0.999])
@pytest.mark.parametrize("number", [0, 1])
def test_a_flipped_byte_of_a_sealed_file_is_found(store, fraction, number):
    path = sealed(store, 1)[number]
    flip(path, int(path.stat().st_size * fraction))
    faults = graph_store.verify(store)
    assert f"{path}: its crc32 is not that of the manifest" in faults


def test_a_flipped_byte_of_a_record_is_found_by_its_own_checksum_too(store):
    # As if the file had been damaged before it was sealed.
    def forget(values):
        values["files"] = {}

    edit(store, forget)
    for shard in (0, 1):
        for path in sealed(store, shard):
            flip(path, path.stat().st_size // 3)
    faults = graph_store.verify(store)
    assert any("shard-0" in fault for fault in faults)
    assert any("shard-1" in fault for fault in faults)


@pytest.mark.parametrize("number", [0, 1])
@pytest.mark.parametrize("kind", ["nodes", "edges"])
def test_a_flipped_byte_of_any_section_of_the_arena_is_found(store, kind, number):
    path = (node_file if kind == "nodes" else edge_file)(store, 1, number)
    data = path.read_bytes()
    sections = {name: section for name, section in ArenaFile(path).sections.items() if section.size}
    assert len(sections) >= 4
    for name, section in sections.items():
        at = len(data) - 24 - int.from_bytes(data[-24:-16], "little")
        table = json.loads(data[at:-24])
        flip(path, table[name]["offset"] + section.nbytes // 2)
        assert graph_store.verify(store) == [
            f"{path}: section {name!r} fails its checksum; delete the file, it is rebuilt"
        ]
        path.write_bytes(data)
    assert graph_store.verify(store) == []


def test_an_arena_of_another_store_is_found(store, make_store):
    other = make_store([*many_rows(3000)[:-1], (1003, 7, 1.0, None)], num_shards=2, reverse=True)
    for path in sorted((other / "arena").iterdir()):
        shutil.copy(path, store / "arena" / path.name)
    faults = graph_store.verify(store)
    for path in (edge_file(store, 1, 0), edge_file(store, 1, 1), node_file(store, 1, 0)):
        assert any(fault.startswith(f"{path}: section ") and "not what the shards hold" in fault for fault in faults)


@pytest.mark.parametrize("at", [-1, -10, -20, -30, -200])
def test_a_flipped_byte_of_the_table_of_the_arena_is_found(store, at):
    for path in (node_file(store, 1, 0), edge_file(store, 1, 1)):
        flip(path, path.stat().st_size + at)
    faults = graph_store.verify(store)
    assert [fault.partition(":")[0] for fault in faults] == [str(node_file(store, 1, 0)), str(edge_file(store, 1, 1))]
    with pytest.raises(graph_store.CorruptBlock, match="gen-1"):
        graph_store.open(store)


@pytest.mark.parametrize("size", [0, 10, 24, 5000])
def test_a_truncated_file_of_the_arena_is_found(store, size):
    path = edge_file(store, 1, 0)
    path.write_bytes(path.read_bytes()[:size])
    (fault,) = graph_store.verify(store)
    assert fault.startswith(f"{path}: ")
    assert "delete it, it is rebuilt" in fault


def test_an_arena_that_was_deleted_is_no_fault(store):
    shutil.rmtree(store / "arena")
    assert graph_store.verify(store) == []


@pytest.mark.parametrize("what", ["missing", "empty", "truncated", "a folder"])
def test_a_sealed_file_that_is_gone_is_found(store, what):
    path = sealed(store, 0)[0]
    data = path.read_bytes()
    path.unlink()
    if what == "a folder":
        path.mkdir()
    elif what != "missing":
        path.write_bytes(b"" if what == "empty" else data[: len(data) // 2])
    faults = graph_store.verify(store)
    assert faults[0].startswith(f"{path}: ")


@pytest.mark.parametrize("name", ["CURRENT", "MANIFEST-*", "."])
@pytest.mark.parametrize("what", ["missing", "damaged"])
def test_a_database_that_cannot_be_opened_is_found(store, name, what):
    folder = store / "gen-1" / "shard-1"
    for path in folder.glob(name) if name != "." else [folder]:
        if what == "missing":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif path.is_file():
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        else:
            shutil.rmtree(path)
            path.write_text("no folder")
    faults = graph_store.verify(store)
    assert any("shard-1" in fault for fault in faults)
    assert not folder.is_file() or folder.read_text() == "no folder"


def test_a_store_is_not_changed_by_verify(store):
    before = {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}
    flip(sealed(store, 0)[0], 100)
    before[sealed(store, 0)[0]] = sealed(store, 0)[0].read_bytes()
    assert graph_store.verify(store) != []
    assert before == {path: path.read_bytes() for path in store.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("key", "said"),
    [("num_edges", "edges in the lists"), ("num_entries", "entries in the lists"), ("self_loops", "self loops")],
)
def test_changed_counts_of_edges_are_found(store, key, said):
    def change(values):
        values["edge_types"][1][key] += 1

    edit(store, change)
    faults = graph_store.verify(store)
    assert [fault for fault in faults if fault.startswith(f"{BACK}: ") and said in fault]
    assert any("the manifest says" in fault for fault in faults)


def test_changed_counts_of_nodes_are_found(store):
    def move(values):
        counts = values["node_types"][0]["shard_counts"]
        counts[0], counts[1] = counts[0] + 20, counts[1] - 20

    edit(store, move)
    faults = graph_store.verify(store)
    assert any("ids of 'item', the manifest says" in fault for fault in faults)
    assert any("another record is due" in fault for fault in faults)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda values: values["node_types"][0].update(count=9999), "9999 of 1956 nodes in all shards"),
        (lambda values: values["node_types"][0]["shard_counts"].append(0), "counts of 3 shards, not of 2"),
        (lambda values: values["node_types"][0].update(id_type="float"), "id_type 'float'"),
        (lambda values: values["node_types"].pop(), "its ends are no node types"),
        (lambda values: values["edge_types"].append(values["edge_types"][0]), "two types of one name"),
        (lambda values: values["edge_types"][0].update(reverse="a:b:c"), "reverse 'a:b:c'"),
        (lambda values: values["edge_types"][0].update(undirected=True), "undirected, but its reverse is"),
        (lambda values: values["edge_types"][0].update(duplicates=-1), "a negative count"),
        (lambda values: values["edge_types"][0].pop("weighted"), "weighted"),
        (lambda values: values["edge_types"][0].update(num_entries="many"), "damaged manifest"),
        (lambda values: values.update(num_shards=3), "counts of 2 shards, not of 3"),
        (lambda values: values.update(num_shards="2"), "num_shards is '2'"),
        (lambda values: values.update(format=3), "store format 3, this version reads 2; it was made by a newer"),
        (lambda values: values.update(format=1), "store format 1, this version reads 2; ingest again"),
        (lambda values: values.update(files={"gen-1/shard-0/x.sst": {}}), "damaged manifest"),
        (lambda values: values.update(node_types=7), "damaged manifest"),
        (lambda values: values.clear(), "damaged manifest"),
    ],
)
def test_a_manifest_that_contradicts_itself_is_found(store, change, said):
    edit(store, change)
    (fault,) = graph_store.verify(store)
    assert fault.startswith(f"{store / 'manifest.json'}: ")
    assert said in fault
    for opened in (graph_store.open, graph_store.info):
        with pytest.raises(graph_store.CorruptBlock, match=r"manifest\.json"):
            opened(store)


@pytest.mark.parametrize("size", [0, 1, 50, 300])
def test_a_truncated_or_binary_manifest_is_found(store, size):
    path = store / "manifest.json"
    data = path.read_bytes()
    for damaged in (data[:size], data[:size] + b"\xff\xfe" + data[size:], b"[" * 100_000, b"null", b"[]"):
        path.write_bytes(damaged)
        (fault,) = graph_store.verify(store)
        assert fault.startswith(f"{path}: damaged manifest")


@pytest.mark.parametrize("key", ["weighted", "timed"])
def test_columns_that_the_manifest_does_not_have_are_found(store, key):
    def change(values):
        values["edge_types"][0][key] ^= True

    edit(store, change)
    faults = graph_store.verify(store)
    assert sum("has other columns than the manifest says" in fault for fault in faults) == 2


@pytest.fixture
def two_types(tmp_path, write_rows):
    """Return `make(rows, back)`: a store of two types that says one is the reverse of the other."""

    def make(rows, back):
        timed = rows[0][3] is not None
        tables = {CLICKS: write_rows(rows), BACK: write_rows(back)}
        columns = {"weight": "weight", "time": "time" if timed else None}
        edge_types = {
            name: graph_store.EdgeType(name, (graph_store.EdgeSource(path, **columns),))
            for name, path in tables.items()
        }
        node_types = {name: graph_store.NodeType(name) for name in ("user", "item")}
        graph_store.ingest(graph_store.Schema(node_types, edge_types), tmp_path / "two.store", num_shards=2)

        def change(values):
            for entry, other in zip(values["edge_types"], (BACK, CLICKS)):
                entry["reverse"] = other

        edit(tmp_path / "two.store", change)
        return tmp_path / "two.store"

    return make


EDGES = [(1, 10, 0.5, None), (1, 20, 1.5, None), (2, 10, 2.5, None), (3, 30, 1.0, None)]
TIMED = [(1, 10, 0.5, 7), (1, 10, 0.5, 8), (2, 20, 0.5, 7), (2, 20, 0.5, 9)]


def swapped(rows):
    return [(dst, src, weight, time) for src, dst, weight, time in rows]


@pytest.mark.parametrize("rows", [EDGES, TIMED])
def test_a_reverse_type_with_the_same_edges_has_no_fault(two_types, rows):
    assert graph_store.verify(two_types(rows, swapped(rows)[::-1])) == []


@pytest.mark.parametrize(
    ("rows", "back", "said"),
    [
        (EDGES, swapped(EDGES)[1:] + [(10, 3, 1.0, None)], "opposite in"),
        (EDGES, swapped(EDGES) + [(10, 3, 1.0, None)], "4 entries, its reverse item:rev_clicks:user has 5"),
        (EDGES, swapped(EDGES)[1:] + [(10, 1, 0.25, None)], "its weights or times are not those of its reverse"),
        (TIMED, swapped(TIMED)[1:] + [(10, 1, 0.5, 9)], "its weights or times are not those of its reverse"),
        (TIMED, swapped(TIMED)[1:] + [(20, 2, 0.5, 0)], "its weights or times are not those of its reverse"),
    ],
)
def test_a_reverse_type_with_other_edges_is_found(two_types, rows, back, said):
    faults = graph_store.verify(two_types(rows, back))
    assert len(faults) == 2
    assert faults[0].startswith(f"{CLICKS}: ")
    assert said in faults[0]
    assert faults[1].startswith(f"{BACK}: ")
