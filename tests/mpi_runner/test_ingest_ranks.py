"""Ingest by several ranks: the same bytes as by one, one message for an error, nothing left behind."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from mpi_runner import launch

pytestmark = pytest.mark.mpi

SCHEMA = """
[nodes.user]
id_type = "string"
files = "users.jsonl"
id = "name"
[nodes.user.features.age]
dtype = "int32"
[nodes.user.features.city]
kind = "category"
[nodes.item]
[edges."user:buys:item"]
sources = [{ files = "buys-*.parquet", src = "user", dst = "item" }]
weight = "weight"
time = "day"
time_unit = "s"
reverse = true
duplicates = "sum"
self_loops = "keep"
[edges."user:buys:item".features.note]
kind = "string"
[edges."item:like:item"]
files = "like.csv"
undirected = true
bad_rows = "aside"
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    random = np.random.default_rng(5)
    with open(folder / "users.jsonl", "w", encoding="utf-8") as file:
        for number in range(300):
            file.write(
                json.dumps({"name": f"ü{number}", "age": number % 90, "city": ["Wien", "Łódź"][number % 2]}) + "\n"
            )
    for number in range(3):
        rows = 5000
        table = pa.table(
            {
                "user": [f"ü{value}" for value in random.integers(0, 320, rows)],
                "item": random.integers(0, 2**60, 500)[random.integers(0, 500, rows)],
                "weight": random.random(rows, np.float32),
                "day": random.integers(0, 50, rows),
                "note": [f"note {value}" if value % 3 else None for value in range(rows)],
            }
        )
        pq.write_table(table, folder / f"buys-{number}.parquet", row_group_size=700)
    pairs = random.integers(0, 400, (3000, 2))
    lines = [f"{src},{dst}\n" for src, dst in pairs.tolist()]
    lines[70] = "7,seven\n"
    (folder / "like.csv").write_text("".join(lines))
    (folder / "schema.toml").write_text(SCHEMA)
    return folder


def run(num_ranks, *arguments, **options):
    command = (
        launch.rank_command(num_ranks, arguments) if num_ranks > 1 else [sys.executable, "-m", "mpi_runner", *arguments]
    )
    environment = launch.rank_environment(num_ranks)
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False, **options)


def content(store):
    """Return what the arena holds, byte by byte, and the manifest but for what is the store's own."""
    files = {path.name: path.read_bytes() for path in sorted((store / "arena").iterdir())}
    manifest = json.loads((store / "manifest.json").read_text())
    return files, {key: value for key, value in manifest.items() if key not in ("uuid", "files", "crc32")}


def test_any_number_of_ranks_makes_the_same_store(inputs, tmp_path):
    first = run(1, "ingest", str(inputs / "schema.toml"), str(tmp_path / "one"), "--shards", "5")
    assert first.returncode == 0, first.stderr
    assert graph_store.verify(tmp_path / "one") == []
    expected = content(tmp_path / "one")
    for num_ranks in (2, 3, 4):
        path = tmp_path / str(num_ranks)
        done = run(num_ranks, "ingest", str(inputs / "schema.toml"), str(path), "--shards", "5", "--json")
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["rows"] == 3 * 5000 + 2999
        assert content(path) == expected
        assert graph_store.verify(path) == []
        rejected = [json.loads(line) for line in Path(f"{path}.rejected.jsonl").read_text().splitlines()]
        assert [row["place"] for row in rejected] == ["line 71"]


def test_ranks_without_a_shard_or_a_file_have_nothing_to_do(inputs, tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n")
    done = run(3, "ingest", "--edges", "edges.csv", "--edge-type", "a:r:b", "store", "--shards", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert graph_store.open(tmp_path / "store").degree([1]).tolist() == [1]


def test_an_error_of_one_rank_is_told_once_and_leaves_nothing(inputs, tmp_path):
    (tmp_path / "good.csv").write_text("1,2\n" * 1000)
    (tmp_path / "bad.csv").write_text("1,2\n" * 999 + "1,x\n")
    edges = ["--edges", "good.csv", "--edges", "bad.csv", "--edge-type", "a:r:b"]
    done = run(2, "ingest", *edges, "store", cwd=tmp_path)
    assert done.returncode == 1
    lines = [line for line in done.stderr.splitlines() if "gossamer" in line]
    assert len(lines) == 1, done.stderr
    assert "bad.csv: line 1000, column 1 (dst): 'x' is no whole number" in lines[0]
    assert sorted(os.listdir(tmp_path)) == ["bad.csv", "good.csv"]


def test_a_killed_rank_ends_the_job_and_the_next_ingest_clears_up(inputs, tmp_path):
    schema, path = str(inputs / "schema.toml"), tmp_path / "store"
    command = launch.rank_command(2, ["ingest", schema, str(path), "--shards", "5"])
    job = subprocess.Popen(command, env=launch.rank_environment(2), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    folder, deadline = tmp_path / ".store.ingest-1", time.monotonic() + 60
    while not (folder / "work").exists() and time.monotonic() < deadline and job.poll() is None:
        time.sleep(0.01)
    victims = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is_rank(int(pid), str(path))]
    assert victims
    os.kill(max(victims), signal.SIGKILL)
    job.communicate(timeout=60)
    assert job.returncode != 0
    assert not path.exists()
    assert run(1, "ingest", schema, str(path), "--shards", "5").returncode == 0
    assert not folder.exists()
    assert graph_store.verify(path) == []


@pytest.mark.parametrize("phase", ["state-1-", "state-2-"])
def test_an_ingest_of_several_ranks_that_was_killed_is_resumed(inputs, tmp_path, phase):
    schema, path = str(inputs / "schema.toml"), tmp_path / "store"
    command = launch.rank_command(3, ["ingest", schema, str(path), "--shards", "5"])
    job = subprocess.Popen(command, env=launch.rank_environment(3), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    folder, deadline = tmp_path / ".store.ingest-1", time.monotonic() + 60
    while not folder.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    victims = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and _is_rank(int(pid), str(path))]
    while not list((folder / "work").glob(f"{phase}*.json")) and time.monotonic() < deadline:
        time.sleep(0.001)
    for victim in victims:
        os.kill(victim, signal.SIGKILL)
    job.communicate(timeout=60)
    assert job.returncode != 0
    state = json.loads((folder / "state.json").read_text())
    refused = run(2, "ingest", schema, str(path), "--shards", "5", "--resume")
    assert "cannot be resumed: the number of ranks was 3 and is 2" in refused.stderr
    done = run(3, "ingest", schema, str(path), "--shards", "5", "--resume")
    assert done.returncode == 0, done.stderr
    assert graph_store.info(path)["uuid"] == state["identity"]
    assert not folder.exists()
    undisturbed = tmp_path / "undisturbed"
    assert run(1, "ingest", schema, str(undisturbed), "--shards", "5").returncode == 0
    assert content(path) == content(undisturbed)
    assert graph_store.verify(path) == []


def _is_rank(pid, path):
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"mpi_runner" in words and path.encode() in words and b"mpiexec" not in words[0] and b"hydra" not in words[0]
