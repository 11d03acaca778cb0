"""An ingest that is killed and resumed, at any moment and many times, makes the store that it would have made."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store import BadInput, Schema, checkpoints
from graph_store.workplace import rejects_path
from tests.graph_store.budgets import BUDGETS, content
from tests.graph_store.stores import leftovers

ROOT = Path(__file__).parents[2]
# What reaches the disk is counted; at the given number the process is killed, before it or after it.
PROGRAM = """
import os, signal, sys, threading
import graph_store
from graph_store import checkpoints
from graph_store.memory_budget import Budget

schema, target, seconds, moment, little, threads, resume = sys.argv[1:]
checkpoints.SECONDS_BETWEEN = float(seconds)
if little == "True":
    Budget.of = lambda memory, taken: Budget(waiting=20_000, ids=1, reading=1, work=60_000)
left, lock = int(moment), threading.Lock()

def counted(name):
    call = getattr(os, name)
    def counting(*args, **kwargs):
        global left
        with lock:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        result = call(*args, **kwargs)
        with lock:
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return result
    setattr(os, name, counting)

for name in ("fsync", "replace", "rename", "pwrite", "mkdir", "unlink", "truncate", "link", "rmdir"):
    counted(name)
report = graph_store.ingest(
    graph_store.Schema.from_toml(schema), target, num_shards=3, threads=int(threads), resume=resume == "True",
    overwrite=True,
)
print(report.counts, report.rows, int(moment) - left)
"""
SCHEMA = """
    [nodes.user]
    id_type = "string"
    files = ["users-1.csv", "users-2.csv"]
    bad_rows = "aside"
    [nodes.user.features.age]
    dtype = "int16"
    [nodes.user.features.word]
    kind = "category"
    [nodes.item]
    id_type = "unsigned"
    [edges."user:buys:item"]
    files = ["buys-1.parquet", "buys-2.parquet"]
    weight = "w"
    time = "t"
    reverse = true
    missing_nodes = "drop"
    duplicates = "all"
    [edges."item:near:item"]
    files = "near.csv"
    undirected = true
    self_loops = "drop"
    bad_rows = "aside"
    [edges."item:*:user"]
    files = "relations.parquet"
    relation = "relation"
    reverse = true
    [edges."item:*:user".features.vec]
    kind = "vector"
    dim = 2
    """


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return a folder with a schema that has a bit of everything."""
    folder, rng = tmp_path_factory.mktemp("sources"), np.random.default_rng(0)
    users = [f"u{number}" for number in range(300)]
    for number, part in enumerate((users[:200], users[150:]), 1):
        rows = [f"{user},{place if place % 7 else 'x'},w{place % 5}" for place, user in enumerate(part)]
        (folder / f"users-{number}.csv").write_text("id,age,word\n" + "\n".join(rows) + "\n")
    for number in (1, 2):
        size = 3000
        table = {
            "src": [f"u{each}" for each in rng.integers(0, 320, size)],
            "dst": rng.integers(0, 200, size).astype(np.uint64) * np.uint64(2**56 + 1),
            "w": rng.random(size, np.float32),
            "t": rng.integers(0, 9, size),
        }
        pq.write_table(pa.table(table), folder / f"buys-{number}.parquet", row_group_size=700)
    near = "".join(f"{a},{b}\n" for a, b in rng.integers(0, 90, (1500, 2)).tolist())
    (folder / "near.csv").write_text("a,b\n" + near + "7,x\n")
    relations = {
        "src": rng.integers(0, 90, 900).astype(np.uint64),
        "dst": [f"u{each}" for each in rng.integers(0, 300, 900)],
        "relation": [f"r{each}" for each in rng.integers(0, 5, 900)],
        "vec": pa.array(rng.random((900, 2)).tolist(), pa.list_(pa.float32(), 2)),
    }
    pq.write_table(pa.table(relations), folder / "relations.parquet", row_group_size=200)
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


@pytest.fixture(scope="module")
def undisturbed(sources, tmp_path_factory):
    """Return what the store holds that is made without a kill, and what was told and set aside."""
    path = tmp_path_factory.mktemp("undisturbed") / "store"
    told = run(sources, path, seconds=0).stdout.rsplit(" ", 1)
    return content(path), told[0], rejects_path(path).read_text(), int(told[1])


def run(sources, path, *, seconds, moment=10**9, little=True, threads=2, resume=True, check=True):
    arguments = [sources / "schema.toml", path, seconds, moment, little, threads, resume]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0 if check else done.returncode in (0, -signal.SIGKILL), done.stderr
    return done


def identity(path):
    """Return the uuid that a killed ingest would give its store, None where it left nothing."""
    states = [folder / "state.json" for folder in path.parent.glob(".store.ingest-*")]
    found = [json.loads(state.read_text())["identity"] for state in states if state.exists()]
    return found[0] if found else None


def kill_and_resume(sources, path, undisturbed, chances, moments, *, before=None):
    """Kill an ingest at moments, resuming it each time, and compare what it makes in the end."""
    given = None
    for moment in moments:
        options = {"seconds": chances.choice([0, 0, 0.02, 60]), "threads": chances.choice([1, 2])}
        done = run(sources, path, moment=moment, little=chances.random() < 0.8, check=False, **options)
        if done.returncode == 0:
            break
        found = identity(path)
        assert given is None or found in (None, given) or graph_store.info(path)["uuid"] == given
        given = found if given is None else given
        if found is None and path.exists() and graph_store.info(path)["uuid"] == given:
            break  # it had ended
        if before is not None and found is not None and graph_store.info(path)["uuid"] != given:
            assert content(path) == before
    else:
        run(sources, path, seconds=0)
    expected, _, rejected, _ = undisturbed
    assert content(path) == expected
    assert rejects_path(path).read_text() == rejected
    assert leftovers(path) == [] or done.returncode
    if given is not None:
        assert graph_store.info(path)["uuid"] == given


@pytest.mark.parametrize("seed", range(4))
def test_a_killed_ingest_goes_on_to_the_same_store(sources, tmp_path, undisturbed, seed):
    chances = random.Random(seed)
    moments = [chances.randrange(1, undisturbed[3]) for _ in range(2)]
    kill_and_resume(sources, tmp_path / "store", undisturbed, chances, moments)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(100, 150))
def test_an_ingest_killed_four_times_goes_on_to_the_same_store(sources, tmp_path, undisturbed, seed):
    chances = random.Random(seed)
    moments = [chances.randrange(1, undisturbed[3]) for _ in range(4)]
    kill_and_resume(sources, tmp_path / "store", undisturbed, chances, moments)


def test_a_store_that_is_replaced_stays_whole_until_a_resumed_ingest_is_done(
    sources, tmp_path, undisturbed, make_store
):
    path = make_store([(1, 2, None, None)], path=tmp_path / "store")
    before = content(path)
    last = undisturbed[3]
    for moment in (last // 2, last - 1, last - 3, last - 5):
        kill_and_resume(sources, path, undisturbed, random.Random(moment), [moment], before=before)
        make_store([(1, 2, None, None)], path=path, overwrite=True)


def test_without_resume_a_killed_ingest_is_begun_anew(sources, tmp_path, undisturbed):
    path = tmp_path / "store"
    run(sources, path, seconds=0, moment=undisturbed[3] * 2 // 3, check=False)
    given = identity(path)
    assert given is not None
    run(sources, path, seconds=60, resume=False)
    assert content(path) == undisturbed[0]
    assert graph_store.info(path)["uuid"] != given
    assert leftovers(path) == []


def test_resume_without_a_killed_ingest_begins_anew(tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n")
    schema = Schema.from_edges(tmp_path / "edges.csv", "a:r:b")
    graph_store.ingest(schema, tmp_path / "store", num_shards=2, resume=True)
    assert graph_store.info(tmp_path / "store")["edges"] == {"a:r:b": 1}
    with pytest.raises(BadInput, match="exists already"):
        graph_store.ingest(schema, tmp_path / "store", num_shards=2, resume=True)


@pytest.fixture
def killed(sources, tmp_path, undisturbed):
    """Return the place of a store whose ingest was killed."""
    path = tmp_path / "store"
    run(sources, path, seconds=0, moment=undisturbed[3] // 2, check=False)
    assert identity(path) is not None
    return path


def test_other_settings_are_refused_and_what_is_there_stays(sources, killed):
    schema = Schema.from_toml(sources / "schema.toml")
    given = identity(killed)
    with pytest.raises(
        BadInput, match="cannot be resumed: num_shards was 3 and is 4; make it as it was, or leave resume out"
    ):
        graph_store.ingest(schema, killed, num_shards=4, resume=True)
    (sources / "other.toml").write_text(SCHEMA.replace('duplicates = "all"', 'duplicates = "first"'))
    with pytest.raises(BadInput, match="cannot be resumed: the schema is another"):
        graph_store.ingest(Schema.from_toml(sources / "other.toml"), killed, num_shards=3, resume=True)
    status = (sources / "near.csv").stat()
    os.utime(sources / "near.csv", ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with pytest.raises(BadInput, match=r"cannot be resumed: .*near\.csv was changed since"):
        graph_store.ingest(schema, killed, num_shards=3, resume=True)
    os.utime(sources / "near.csv", ns=(status.st_atime_ns, status.st_mtime_ns))
    assert identity(killed) == given
    graph_store.ingest(schema, killed, num_shards=3, resume=True)
    assert graph_store.info(killed)["uuid"] == given


def test_tables_in_memory_cannot_be_resumed(tmp_path):
    schema = Schema.from_tables({"a:r:b": pa.table({"src": [1], "dst": [2]})})
    with pytest.raises(BadInput, match="an ingest of tables in memory cannot be resumed"):
        graph_store.ingest(schema, tmp_path / "store", resume=True)


def test_checkpoints_change_nothing_and_are_not_made_all_the_time(sources, tmp_path, undisturbed, monkeypatch, budget):
    saved = []
    save = checkpoints.Checkpoints.save
    monkeypatch.setattr(
        checkpoints.Checkpoints, "save", lambda self, *a, **k: (saved.append(a[0]), save(self, *a, **k))
    )
    budget(BUDGETS["nothing in memory"])
    schema = Schema.from_toml(sources / "schema.toml")
    graph_store.ingest(schema, tmp_path / "store", num_shards=3)
    assert saved == []
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0)
    graph_store.ingest(schema, tmp_path / "store", num_shards=3, overwrite=True)
    assert saved == sorted(saved)
    assert len(set(saved)) == 3
    assert content(tmp_path / "store") == undisturbed[0]
