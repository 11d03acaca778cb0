"""The command line: statuses, one line for a mistake, nothing heavy before it is needed."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from mpi_runner import launch


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], "did you mean train?"),
        (["train"], "Missing argument 'CONFIG'"),
        (["train", "c.toml", "-n", "0"], "'-n'"),
        (["train", "c.toml", "--speed"], "--speed"),
        (["train", "absent.toml"], "no configuration file at absent.toml"),
        (["train", "absent.toml", "-n", "2"], "no configuration file at absent.toml"),
        (["recommend", "run"], "--ids"),
        (["recommend", "run", "--ids", "1", "-k", "0"], "-k"),
        (["evaluate"], "Missing argument 'RUN'"),
    ],
)
def test_wrong_use_is_one_line_and_status_2(gossamer, arguments: list[str], words: str) -> None:
    done = gossamer(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_help_names_every_command(gossamer) -> None:
    done = gossamer("--help")
    assert done.returncode == 0
    for command in (
        "ingest",
        "info",
        "verify",
        "query",
        "update",
        "changes",
        "compact",
        "reshard",
        "repair",
        "export",
        "train",
        "evaluate",
        "recommend",
        "demo",
    ):
        assert command in done.stdout
        assert "xample" in gossamer(command, "--help").stdout or command == "query"


def test_no_command_shows_the_help_with_status_2(gossamer) -> None:
    done = gossamer()
    assert done.returncode == 2
    assert "Commands:" in done.stderr


def test_a_configuration_mistake_under_mpiexec_is_told_once(on_ranks, tmp_path: Path) -> None:
    command = [launch.find_mpiexec(), "-n", "3", sys.executable, "-m", "mpi_runner", "train", "absent.toml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines()[0] == "gossamer: no configuration file at absent.toml"
    assert done.stderr.count("absent.toml") == 1


@pytest.mark.mpi
@pytest.mark.parametrize("way", ["configuration", "import"])
def test_a_failure_of_one_rank_before_mpi_starts_ends_all(on_ranks, tmp_path: Path, way: str) -> None:
    started = time.monotonic()
    done = on_ranks(3, "early_failure.py", way, tmp_path)
    assert time.monotonic() - started < 10
    assert done.returncode != 0
    assert {"configuration": "rank 1: ", "import": "rank 1: ModuleNotFoundError: "}[way] in done.stderr


def test_the_command_imports_neither_numpy_nor_mpi_before_a_command_needs_them() -> None:
    code = "import sys, mpi_runner.cli; print(*{'numpy', 'numba', 'mpi4py', 'pyarrow', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "\n"


def test_ranks_share_the_cores_of_their_node(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(8)))
    assert launch.num_threads() == 8
    monkeypatch.setenv("PMI_SIZE", "6")
    monkeypatch.setenv("MPI_LOCALNRANKS", "3")
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "7")
    launch.limit_threads()
    assert (launch.os.environ["OMP_NUM_THREADS"], launch.os.environ["OPENBLAS_NUM_THREADS"]) == ("2", "7")


def test_ranks_beyond_the_cores_yield(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: {0, 1})
    assert "MPIR_CVAR_ENABLE_HEAVY_YIELD" not in launch.rank_environment(2)
    assert launch.rank_environment(3)["MPIR_CVAR_ENABLE_HEAVY_YIELD"] == "1"


def test_without_an_mpiexec_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(launch.RunError, match=r"pip install 'gossamer\[mpi\]'"):
        launch.find_mpiexec()
