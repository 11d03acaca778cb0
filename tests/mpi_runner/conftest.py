"""Starting programs and commands on several ranks."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mpi_runner import launch

PROGRAMS = Path(__file__).parent / "programs"
ROOT = Path(__file__).parents[2]

Start = Callable[..., subprocess.CompletedProcess[str]]


def environment(num_ranks: int) -> dict[str, str]:
    """Return an environment in which the packages of this checkout are found, wherever a program lies."""
    return {**launch.rank_environment(num_ranks), "PYTHONPATH": str(ROOT), "PYTHONFAULTHANDLER": "1"}


@pytest.fixture(scope="session")
def on_ranks() -> Start:
    """Return `start(num_ranks, program, *arguments)`, which runs a file of `programs/` under mpiexec."""
    try:
        mpiexec = launch.find_mpiexec()
    except launch.RunError as error:
        pytest.skip(str(error))

    def start(num_ranks: int, program: str, *arguments: object, seconds: float = 120):  # type: ignore[no-untyped-def]
        command = [mpiexec, "-n", str(num_ranks), sys.executable, str(PROGRAMS / program), *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=seconds, env=environment(num_ranks), check=False
        )

    return start


@pytest.fixture(scope="session")
def gossamer() -> Start:
    """Return `start(*arguments)`, which runs the `gossamer` command as a process of its own."""

    def start(*arguments: object, seconds: float = 120, **variables: str):  # type: ignore[no-untyped-def]
        command = [sys.executable, "-m", "mpi_runner", *map(str, arguments)]
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=seconds,
            env={**environment(1), **variables},
            check=False,
            stdin=subprocess.DEVNULL,
        )

    assert os.environ.get("PMI_SIZE") is None
    return start
