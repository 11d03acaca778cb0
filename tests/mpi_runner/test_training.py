"""Training: N ranks give what one gives, the run folder is whole, and failures end the job."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mpi_runner import checkpoint, launch
from mpi_runner.run_folder import RunFolder
from sparse_tables import LocalTable
from tests.mpi_runner.planted import make_store, write_config

MODELS = [
    pytest.param({"model__name": "bpr"}, id="bpr"),
    pytest.param({"model__name": "lightgcn"}, id="lightgcn"),
    pytest.param({"model__name": "lightgcn", "train__loss": "softmax"}, id="lightgcn-softmax", marks=pytest.mark.long),
    pytest.param({"model__name": "bpr", "train__optimizer": "row_adagrad"}, id="bpr-adagrad", marks=pytest.mark.long),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    make_store(folder)
    return folder


def rows_of(run: Path) -> dict[str, np.ndarray]:
    tables, _ = checkpoint.load(RunFolder(run))
    return {side: table.pull(table.ids(), insert=False) for side, table in tables.items()}


def train(gossamer, path: Path, num_ranks: int) -> list[dict[str, Any]]:
    done = gossamer("train", path, "-n", num_ranks, "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["ranks"] == num_ranks
    return RunFolder(result["run"]).metrics()


@pytest.mark.mpi
@pytest.mark.parametrize("keys", MODELS)
def test_any_number_of_ranks_gives_the_metrics_and_rows_of_one(gossamer, data: Path, tmp_path: Path, keys) -> None:
    runs = {n: tmp_path / f"run-{n}" for n in (1, 2, 3, 4)}
    lines = {n: train(gossamer, write_config(tmp_path / "c.toml", runs[n], data, **keys), n) for n in runs}
    alone, alone_rows = lines[1], rows_of(runs[1])
    assert alone[-1]["recall@20"] > 0.3  # Chance is 20 of 111 items.
    for num_ranks in (2, 3, 4):
        for line, expected in zip(lines[num_ranks], alone, strict=True):
            assert line["loss"] == pytest.approx(expected["loss"], rel=1e-4)
            assert line["samples"] == expected["samples"]
        for metric in ("recall@20", "ndcg@20", "hit_rate@20", "mrr@20"):
            assert lines[num_ranks][-1][metric] == pytest.approx(alone[-1][metric], abs=5e-3)
        for side, rows in rows_of(runs[num_ranks]).items():
            np.testing.assert_allclose(rows, alone_rows[side], atol=2e-3)


@pytest.mark.mpi
def test_a_repeated_run_on_as_many_ranks_gives_the_same_bits(gossamer, data: Path, tmp_path: Path) -> None:
    found = []
    for name in ("first", "second"):
        path = write_config(tmp_path / "c.toml", tmp_path / name, data, model__name="lightgcn")
        lines = train(gossamer, path, 3)
        found.append((rows_of(tmp_path / name), [line["loss"] for line in lines]))
    assert found[0][1] == found[1][1]
    for side, rows in found[0][0].items():
        np.testing.assert_array_equal(rows, found[1][0][side])


@pytest.mark.mpi
def test_a_run_folder_holds_what_the_page_says(gossamer, data: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    path = write_config(tmp_path / "c.toml", run, data, train__evaluate_every=2, train__epochs=3)
    lines = train(gossamer, path, 2)
    assert [line["epoch"] for line in lines] == [1, 2, 3]
    assert ["recall@20" in line for line in lines] == [False, True, True]
    for line in lines:
        assert line["samples"] == 120 * 9
        assert {"sample", "pull", "compute", "push", "evaluate"} <= line["seconds"].keys()
        assert min(line[key] for key in ("samples_per_second", "pull_rows_per_second", "push_rows_per_second")) > 0
    ranks = json.loads((run / "ranks.json").read_text())
    assert [rank["rank"] for rank in ranks] == [0, 1]
    assert len({rank["pid"] for rank in ranks}) == 2
    current = checkpoint.read(RunFolder(run))
    assert (current["epoch"], current["finished"], current["tables"]) == (3, True, ["item", "user"])
    assert {entry.name for entry in (run / "checkpoint").iterdir()} == {"current.json", "epoch-0003"}
    again = gossamer("train", run / "config.toml", "--json")
    assert again.returncode == 0, again.stderr
    assert f"the run that was in {run} is now in {run}.1" in again.stderr
    assert RunFolder(f"{run}.1").metrics() == lines
    assert checkpoint.read(RunFolder(f"{run}.1")) == current


def start_training(path: Path, num_ranks: int, run: Path) -> tuple["subprocess.Popen[str]", list[dict[str, Any]]]:
    """Start `gossamer train` on ranks; return it and ranks.json once there is a checkpoint."""
    command = [sys.executable, "-m", "mpi_runner", "train", str(path), "-n", str(num_ranks)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not (run / "checkpoint" / "current.json").exists():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return process, json.loads((run / "ranks.json").read_text())


@pytest.mark.mpi
@pytest.mark.parametrize(("num_ranks", "victim"), [(2, 0), (3, 2)])
def test_killing_a_rank_ends_the_training_within_ten_seconds(
    data: Path, tmp_path: Path, num_ranks: int, victim: int
) -> None:
    run = tmp_path / "run"
    path = write_config(tmp_path / "c.toml", run, data, train__epochs=100_000, run__checkpoint_every=1)
    process, ranks = start_training(path, num_ranks, run)
    os.kill(ranks[victim]["pid"], signal.SIGKILL)
    killed = time.monotonic()
    process.communicate(timeout=30)
    assert time.monotonic() - killed < 10
    assert process.returncode != 0
    for rank in ranks:
        with pytest.raises(ProcessLookupError):
            os.kill(rank["pid"], 0)
    tables, current = checkpoint.load(RunFolder(run))
    assert current["epoch"] >= 1
    assert len(tables["user"]) == 120


@pytest.mark.mpi
@pytest.mark.parametrize("num_ranks", [2, 4])
def test_an_exception_in_one_rank_ends_a_training_under_plain_mpiexec(
    on_ranks, data: Path, tmp_path: Path, num_ranks: int
) -> None:
    path = write_config(tmp_path / "c.toml", tmp_path / "run", data, train__epochs=100)
    started = time.monotonic()
    done = on_ranks(num_ranks, "train_failing.py", "train", path)
    assert time.monotonic() - started < 30
    assert done.returncode != 0
    assert "rank 1: Traceback (most recent call last):" in done.stderr
    assert "rank 1: FloatingPointError: the loss is not finite" in done.stderr


@pytest.mark.mpi
def test_plain_mpiexec_uses_the_ranks_it_has(data: Path, tmp_path: Path) -> None:
    path = write_config(tmp_path / "c.toml", tmp_path / "run", data, train__epochs=1)
    command = [launch.find_mpiexec(), "-n", "2", sys.executable, "-m", "mpi_runner", "train", str(path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout)["ranks"] == 2


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("num_ranks", "keys", "status", "words"),
    [
        (1, {"data__store": "/nowhere.store"}, 1, "/nowhere.store"),
        (3, {"data__store": "/nowhere.store"}, 1, "/nowhere.store"),
        (2, {"data__edge_type": "user:buys:item"}, 1, "user:buys:item"),
        (2, {"data__test": "/nowhere.csv"}, 1, "/nowhere.csv"),
        (1, {"data__test": "user:buys:item"}, 1, "user:buys:item"),
        (2, {"train__similarity": "cosine"}, 2, "similarity"),
    ],
)
def test_a_users_mistake_is_one_line_whatever_the_ranks(
    gossamer, data: Path, tmp_path: Path, num_ranks: int, keys: dict[str, Any], status: int, words: str
) -> None:
    done = gossamer("train", write_config(tmp_path / "c.toml", tmp_path / "run", data, **keys), "-n", num_ranks)
    assert done.returncode == status, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "run").exists()


@pytest.mark.mpi
def test_ranks_that_find_no_arena_make_it_once(gossamer, tmp_path: Path) -> None:
    shutil.rmtree(make_store(tmp_path) / "arena")
    assert len(train(gossamer, write_config(tmp_path / "c.toml", tmp_path / "run", tmp_path), 3)) == 3


def test_training_without_held_out_edges_gives_no_scores(gossamer, data: Path, tmp_path: Path) -> None:
    path = write_config(tmp_path / "c.toml", tmp_path / "run", data, train__epochs=1)
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith("test")))
    assert not any("@" in key for key in train(gossamer, path, 1)[0])


def test_held_out_edges_that_cannot_count_are_counted_and_said(gossamer, data: Path, tmp_path: Path) -> None:
    lines = (data / "held_out.csv").read_text().splitlines()
    clicked = (data / "clicks.csv").read_text().splitlines()[1]
    user, item = lines[1].split(",")
    lines += [lines[1], clicked, f"5,{item}", f"{user},5"]
    (tmp_path / "odd.csv").write_text("\n".join(lines) + "\n")
    path = write_config(tmp_path / "c.toml", tmp_path / "run", data, data__test=str(tmp_path / "odd.csv"))
    done = gossamer("train", path)
    assert done.returncode == 0, done.stderr
    words = "held-out edges left out: 1 unknown user, 1 unknown item, 1 duplicate, 1 in train"
    assert words in done.stderr


def test_no_epoch_saves_the_initial_rows(gossamer, data: Path, tmp_path: Path) -> None:
    done = gossamer("train", write_config(tmp_path / "c.toml", tmp_path / "run", data, train__epochs=0))
    assert done.returncode == 0, done.stderr
    tables, current = checkpoint.load(RunFolder(tmp_path / "run"))
    assert current["epoch"] == 0
    assert isinstance(tables["user"], LocalTable)


@pytest.mark.mpi
@pytest.mark.parametrize("num_ranks", [1, 2])
def test_a_training_that_runs_away_says_so_in_one_line(gossamer, data: Path, tmp_path: Path, num_ranks: int) -> None:
    keys = {"model__name": "bpr", "train__optimizer": "sgd", "train__learning_rate": 1e30}
    done = gossamer("train", write_config(tmp_path / "c.toml", tmp_path / "run", data, **keys), "-n", num_ranks)
    assert done.returncode == 1
    message = [line for line in done.stderr.splitlines() if line.startswith("gossamer: ")]
    assert len(message) == 1
    assert "no longer finite; train.learning_rate 1e+30 is too high" in message[0]
    assert "Traceback" not in done.stderr
