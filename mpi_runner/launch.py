"""Starting ranks: the `mpiexec` of this environment, and what a rank is told by its surroundings."""

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from mpi_runner.errors import RunError

_SIZE_VARIABLES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "MV2_COMM_WORLD_SIZE")
_RANK_VARIABLES = ("PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "MV2_COMM_WORLD_RANK")
_LOCAL_SIZE_VARIABLES = ("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE")
_LOCAL_RANK_VARIABLES = ("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK")
_THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS")


def _variable(names: Sequence[str], default: int) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), default)


def world_size() -> int:
    """Return the number of ranks that `mpiexec` started, or 0 outside `mpiexec`. Imports no MPI."""
    return _variable(_SIZE_VARIABLES, 0)


def world_rank() -> int:
    """Return this process's rank, or 0 outside `mpiexec`. Imports no MPI."""
    return _variable(_RANK_VARIABLES, 0)


def local_rank() -> int:
    """Return this process's number among the ranks of its node, or 0 outside `mpiexec`."""
    return _variable(_LOCAL_RANK_VARIABLES, 0)


def num_threads() -> int:
    """Return the cores of this process divided by the ranks of its node, at least 1."""
    local_ranks = max(1, _variable(_LOCAL_SIZE_VARIABLES, 1))
    return max(1, len(os.sched_getaffinity(0)) // local_ranks)


def limit_threads() -> None:
    """Keep the math libraries of a rank to its share of the cores, unless the user has set a number.

    Must run before numpy is imported. Does nothing outside `mpiexec`.
    """
    if world_size() > 1:
        for name in _THREAD_VARIABLES:
            os.environ.setdefault(name, str(num_threads()))


def find_mpiexec() -> str:
    """Return the path of the `mpiexec` beside this Python, or else of the one on the search path.

    Raises
    ------
    RunError
        If there is none.
    """
    beside = Path(sys.executable).parent / "mpiexec"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("mpiexec")
    if found is None:
        raise RunError(
            "no mpiexec beside this Python nor on the PATH; more than one rank needs one: pip install 'gossamer[mpi]'"
        )
    return found


def rank_command(num_ranks: int, arguments: Sequence[str]) -> list[str]:
    """Return the command line that runs `gossamer ARGUMENTS` on `num_ranks` ranks.

    Raises
    ------
    RunError
        If there is no `mpiexec`.
    """
    # -P keeps the working folder off the import path: a user's `models/` must not hide ours.
    return [find_mpiexec(), "-n", str(num_ranks), sys.executable, "-P", "-m", "mpi_runner", *arguments]


def rank_environment(num_ranks: int) -> dict[str, str]:
    """Return the environment for `mpiexec`: this one, and what MPI needs where ranks outnumber cores."""
    environment = dict(os.environ)
    if num_ranks > len(os.sched_getaffinity(0)):
        environment.setdefault("MPIR_CVAR_ENABLE_HEAVY_YIELD", "1")
        environment.setdefault("MPIR_CVAR_POLLS_BEFORE_YIELD", "10")
        environment.setdefault("OMPI_MCA_rmaps_base_oversubscribe", "1")
        environment.setdefault("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
    return environment


def replace_process(num_ranks: int, arguments: Sequence[str]) -> None:
    """Become `mpiexec` running `gossamer ARGUMENTS` on `num_ranks` ranks; never returns.

    Its signals and its exit status are then the job's own.

    Raises
    ------
    RunError
        If there is no `mpiexec`.
    """
    command = rank_command(num_ranks, arguments)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execve(command[0], command, rank_environment(num_ranks))
