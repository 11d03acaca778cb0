"""Checkpoints: they come back bit for bit, and a damaged one is refused by the name of its file."""

import hashlib
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparse_tables import CheckpointNotFound, CorruptCheckpoint, LocalTable, TableConfig
from sparse_tables.checkpoint import read_manifest, save_table, write_manifest, write_shard
from tests.sparse_tables.table_contract import OPTIMIZERS

IDS = np.random.default_rng(0).integers(-(2**63), 2**63 - 1, 3000)


def trained(optimizer="adam", num_shards=8, shards=None, ids=IDS):
    config = TableConfig("user", 5, optimizer=optimizer, num_shards=num_shards, placement="modulo", l2=1e-3)
    table = LocalTable(config, shards=shards)
    gradients = np.random.default_rng(1).normal(size=(len(ids), 5)).astype(np.float32)
    for every in (1, 2):
        some, slopes = ids[::every], gradients[::every]
        here = np.isin(some % num_shards, table.shards)
        table.push(some[here], slopes[here])
    return table


def assert_same(one, two, shards=None):
    for shard in one.shards if shards is None else shards:
        for what in ("ids", "rows", "state", "steps"):
            np.testing.assert_array_equal(getattr(one.shard(shard), what), getattr(two.shard(shard), what), strict=True)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_loaded_table_is_the_saved_one_and_goes_on_like_it(optimizer, tmp_path):
    table = trained(optimizer)
    table.save(tmp_path / "user")
    loaded = LocalTable.load(tmp_path / "user")
    assert loaded.config == table.config
    assert_same(table, loaded)
    for each in (table, loaded):
        each.push(np.arange(2000), np.ones((2000, 5)))
        each.push(IDS, np.ones((3000, 5)))
    assert_same(table, loaded)


@pytest.mark.parametrize("shards", [[0], [3, 5], [1, 2, 4, 6, 7], []])
def test_any_shards_load_by_themselves(shards, tmp_path):
    table = trained()
    table.save(tmp_path / "user")
    loaded = LocalTable.load(tmp_path / "user", shards=shards)
    assert loaded.shards == tuple(shards)
    assert_same(table, loaded, shards)
    np.testing.assert_array_equal(loaded.ids(), np.unique(IDS[np.isin(IDS % 8, shards)]))


def test_an_empty_table_comes_back_empty(tmp_path):
    table = LocalTable(TableConfig("user", 3, num_shards=2))
    table.save(tmp_path / "user")
    assert len(LocalTable.load(tmp_path / "user")) == 0


def test_ranks_that_write_their_shards_into_one_folder_make_one_checkpoint(tmp_path):
    ranks = [trained(shards=range(3)), trained(shards=range(3, 8))]
    entries = [write_shard(rank, shard, tmp_path) for rank in ranks for shard in rank.shards]
    with pytest.raises(CheckpointNotFound):
        LocalTable.load(tmp_path)
    write_manifest(tmp_path, ranks[0].config, reversed(entries), {"epoch": 3, "store": "a-b"})
    loaded = LocalTable.load(tmp_path)
    assert_same(loaded, trained())
    assert read_manifest(tmp_path).extra == {"epoch": 3, "store": "a-b"}


def test_a_manifest_without_all_shards_is_refused(tmp_path):
    table = trained()
    entries = [write_shard(table, shard, tmp_path) for shard in (0, 1, 1)]
    with pytest.raises(ValueError, match=r"each of the 8 shards once, got \[0, 1, 1\]"):
        write_manifest(tmp_path, table.config, entries)


def test_a_table_of_some_shards_does_not_pass_for_a_whole_one(tmp_path):
    with pytest.raises(ValueError, match="3 of its 8 shards"):
        save_table(trained(shards=range(3)), tmp_path)


def test_saving_again_replaces_the_old_and_leaves_no_other_file(tmp_path):
    trained().save(tmp_path / "user")
    table = trained(ids=IDS[:100])
    table.save(tmp_path / "user")
    assert_same(LocalTable.load(tmp_path / "user"), table)
    listed = {entry.file for entry in read_manifest(tmp_path / "user").entries}
    assert {path.name for path in (tmp_path / "user").iterdir()} == listed | {"manifest.json"}


def test_the_files_are_arrow_that_others_can_read(tmp_path):
    table = trained("row_adagrad")
    table.save(tmp_path)
    entry = read_manifest(tmp_path).entries[3]
    with pa.ipc.open_file(tmp_path / entry.file) as reader:
        content = reader.read_all()
    assert content.column_names == ["id", "row", "state", "steps"]
    assert content["id"].to_pylist() == table.shard(3).ids.tolist()
    np.testing.assert_array_equal(np.array(content["row"].to_pylist(), np.float32), table.shard(3).rows)


def files_of(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("which", ["manifest.json", "shard"])
def test_a_flipped_bit_anywhere_is_noticed(which, tmp_path):
    trained(num_shards=2, ids=IDS[:200]).save(tmp_path)
    path = next(tmp_path / name for name in files_of(tmp_path) if name.startswith(which))
    whole = path.read_bytes()
    text = json.loads((tmp_path / "manifest.json").read_text())
    for position in np.random.default_rng(2).integers(0, len(whole), 150):
        bit = 1 << int(position % 8)
        path.write_bytes(whole[:position] + bytes([whole[position] ^ bit]) + whole[position + 1 :])
        fault = None
        try:
            LocalTable.load(tmp_path)
        except CorruptCheckpoint as error:
            fault = str(error)
        # Only white space between the manifest's values may change unseen.
        assert path.name in fault if fault else json.loads(path.read_text()) == text
    path.write_bytes(whole)
    LocalTable.load(tmp_path)


@pytest.mark.parametrize("which", ["manifest.json", "shard"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.99])
def test_a_truncated_file_is_named(which, share, tmp_path):
    trained().save(tmp_path)
    path = next(tmp_path / name for name in files_of(tmp_path) if name.startswith(which))
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(CorruptCheckpoint, match=path.name):
        LocalTable.load(tmp_path)


def test_a_missing_shard_file_is_named(tmp_path):
    trained().save(tmp_path)
    gone = read_manifest(tmp_path).entries[5].file
    (tmp_path / gone).unlink()
    with pytest.raises(CorruptCheckpoint, match=gone):
        LocalTable.load(tmp_path)
    LocalTable.load(tmp_path, shards=[4])


def test_an_arrow_file_of_other_columns_is_refused(tmp_path):
    table = trained("sgd", num_shards=1)
    entry = write_shard(table, 0, tmp_path)
    labels = {"table": "user", "shard": "0", "format": "1"}
    schema = pa.schema([pa.field("id", pa.int32()), pa.field("vector", pa.list_(pa.float32(), 5))], metadata=labels)
    with pa.ipc.new_file(tmp_path / entry.file, schema):
        pass
    whole = (tmp_path / entry.file).read_bytes()
    sums = {"rows": 0, "bytes": len(whole), "sha256": hashlib.sha256(whole).hexdigest()}
    write_manifest(tmp_path, table.config, [replace(entry, **sums)])
    with pytest.raises(CorruptCheckpoint, match=rf"{entry.file}: its columns are not those of a table"):
        LocalTable.load(tmp_path)


@pytest.mark.parametrize(
    "contents", [b"", b"[]", b"null", b"3", b"{}", b'{"sha256": 1}', b"\xff\xfe", b'{"format": 2, "sha256": ""}']
)
def test_a_manifest_that_is_none_is_refused(contents, tmp_path):
    (tmp_path / "manifest.json").write_bytes(contents)
    with pytest.raises(CorruptCheckpoint, match=r"manifest\.json"):
        LocalTable.load(tmp_path)


def test_no_checkpoint_is_said_so(tmp_path):
    (tmp_path / "file").write_text("x")
    for path in (tmp_path, tmp_path / "absent", tmp_path / "file"):
        with pytest.raises(CheckpointNotFound, match="no table checkpoint"):
            LocalTable.load(path)


def test_a_shard_the_checkpoint_does_not_have_is_named(tmp_path):
    trained().save(tmp_path)
    with pytest.raises(ValueError, match=r"shards must be in 0\.\.7, got 8"):
        LocalTable.load(tmp_path, shards=[8])


SAVER = """
import sys, numpy as np
from sparse_tables import LocalTable, TableConfig
table = LocalTable(TableConfig("user", 16, optimizer="adam", num_shards=4))
print("ready", flush=True)
for round in range(1000):
    table.push(np.arange(20_000), np.ones((20_000, 16)))
    table.save(sys.argv[1])
    print(round, flush=True)
"""


def test_a_saver_killed_at_any_moment_leaves_a_whole_checkpoint(tmp_path):
    for delay in (0.0, 0.013, 0.029, 0.047):
        with subprocess.Popen([sys.executable, "-c", SAVER, str(tmp_path)], stdout=subprocess.PIPE) as saver:
            assert saver.stdout.readline() == b"ready\n"
            assert saver.stdout.readline() == b"0\n"
            time.sleep(delay)
            saver.kill()
        table = LocalTable.load(tmp_path)
        steps = np.concatenate([table.shard(shard).steps for shard in table.shards])
        # One cut: every row has had the same number of pushes.
        assert len(table) == 20_000
        assert len(np.unique(steps)) == 1
    assert os.path.exists(Path(tmp_path) / "manifest.json")


@pytest.mark.parametrize("failing", [0, 3, 7, "manifest"])
def test_a_save_that_fails_leaves_the_old_checkpoint(failing, tmp_path, monkeypatch):
    old = trained()
    old.save(tmp_path)
    calls = []
    fsync = os.fsync

    def full(descriptor):
        # A save syncs its eight shard files in order, then the manifest.
        calls.append(descriptor)
        if len(calls) == (9 if failing == "manifest" else failing + 1):
            raise OSError(28, "No space left on device")
        fsync(descriptor)

    table = trained(ids=IDS[:100])
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        table.save(tmp_path)
    monkeypatch.undo()
    assert_same(LocalTable.load(tmp_path), old)
    table.save(tmp_path)
    assert_same(LocalTable.load(tmp_path), table)
    listed = {entry.file for entry in read_manifest(tmp_path).entries}
    assert {path.name for path in tmp_path.iterdir()} == listed | {"manifest.json"}


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"dim": 6}, r"column row holds 6 numbers a row, table 'user' of dim 5 and optimizer 'adam' needs 5"),
        ({"optimizer": "adagrad"}, r"column state holds 5 numbers a row, table 'user' .* 'adam' needs 10"),
        ({"name": "item"}, r"it is of table 'item', not 'user'"),
    ],
)
def test_a_shard_file_of_another_table_says_what_is_other(fields, fault, tmp_path):
    config = TableConfig("user", 5, optimizer="adam", num_shards=1)
    other = LocalTable(TableConfig(**{**config.to_dict(), "eps": None, **fields}))
    other.push([0], np.ones((1, other.config.dim)))
    write_manifest(tmp_path, config, [write_shard(other, 0, tmp_path)])
    with pytest.raises(CorruptCheckpoint, match=fault):
        LocalTable.load(tmp_path)


def test_a_shard_file_of_another_number_is_named(tmp_path):
    table = trained("sgd", num_shards=2)
    one, two = (write_shard(table, shard, tmp_path) for shard in (0, 1))
    swapped = [replace(two, shard=0), replace(one, shard=1)]
    write_manifest(tmp_path, table.config, swapped)
    with pytest.raises(CorruptCheckpoint, match=rf"{two.file}: it is shard 1, not 0"):
        LocalTable.load(tmp_path)
