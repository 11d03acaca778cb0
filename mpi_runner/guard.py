"""What a failure in one rank does to the job: its message, and the end of every rank."""

import sys
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from mpi_runner.errors import ConfigError, RankTimeout, RunError
from mpi_runner.transport import Transport

# Between the last word of a failed rank and the end of the job.
ABORT_SECONDS = 0.5


class AgreedFailure(RunError):
    """A failure that all ranks know of: rank 0 reports it and every rank ends by itself."""

    def __init__(self, problems: list[tuple[int, str]], num_ranks: int, status: int = 1) -> None:
        self.problems = problems
        self.status = status
        ranks = [rank for rank, _ in problems]
        texts = {text for _, text in problems}
        # What all ranks met, or rank 0 did for all, is no matter of ranks.
        shared = len(texts) == 1 and (len(ranks) == num_ranks or ranks == [0])
        named = [f"rank {rank}: {text}" for rank, text in problems]
        super().__init__("; ".join(texts if shared else named))


def expected_errors() -> tuple[type[Exception], ...]:
    """Return the errors that a user can cause, whose message is all that is shown: no traceback."""
    from graph_store.errors import GraphStoreError
    from sparse_tables.errors import TableError

    return RunError, GraphStoreError, TableError, OSError


def together(transport: Transport, call: Callable[[], Any], *, what: str) -> Any:
    """Call `call` on every rank; if it fails for a user's reason on any rank, fail on all. Collective.

    Parameters
    ----------
    transport : Transport
    call : callable
        Must not use the transport: ranks that fail leave it early.
    what : str
        Named in a timeout's message, such as "opening the store".

    Returns
    -------
    object
        What `call` returned.

    Raises
    ------
    AgreedFailure
        If it failed on some rank with one of `expected_errors`. Any other error passes through.
    """
    result, problem = None, None
    try:
        result = call()
    except expected_errors() as error:
        problem = f"{status_of(error)} {one_line(error)}"
    problems = transport.agree(problem, what=what)
    if problems:
        status = max(int(text[0]) for _, text in problems)
        raise AgreedFailure([(rank, text[2:]) for rank, text in problems], transport.size, status)
    return result


def run(transport: Transport, call: Callable[[], int]) -> int:
    """Return the status of `call` on this rank, after ending every other rank if this one failed.

    A failure that the ranks agreed on is reported by rank 0 alone. Any other one, even an interrupt or an
    exit, is reported here, with its traceback unless it is a user's error, and then the whole job is aborted:
    the other ranks may be waiting for this one.
    """
    try:
        status = call()
        transport.barrier("the end of the run")
        return status
    except AgreedFailure as failure:
        if transport.rank == 0:
            say(str(failure))
        return failure.status
    except BaseException as error:
        report(error, transport)
        # mpiexec drops what it has not yet read of a rank's stderr when the job is aborted.
        time.sleep(ABORT_SECONDS if transport.size > 1 else 0.0)
        transport.abort(1)
        return status_of(error)


def status_of(error: BaseException) -> int:
    """Return the exit status for an error: 2 where the command was used wrongly, 1 for everything else."""
    return 2 if isinstance(error, ConfigError) else 1


def report(error: BaseException, transport: Transport) -> None:
    """Print what went wrong on this rank to stderr: a line for a user's error, a traceback for the rest."""
    name = f"rank {transport.rank}: " if transport.size > 1 else ""
    if isinstance(error, KeyboardInterrupt):
        say(f"{name}interrupted")
        return
    if isinstance(error, expected_errors()):
        say(one_line(error) if isinstance(error, RankTimeout) else name + one_line(error))
        return
    lines = "".join(traceback.format_exception(error)).rstrip().splitlines()
    # One write, so that the ranks' tracebacks do not mix.
    sys.stderr.write("".join(f"{name}{line}\n" for line in lines))
    sys.stderr.flush()


def say(text: str) -> None:
    """Print one line to stderr, with the name of the program."""
    sys.stderr.write(f"gossamer: {text}\n")
    sys.stderr.flush()


def one_line(error: BaseException) -> str:
    """Return an error's message on one line."""
    return " ".join(str(error).split()) or type(error).__name__


def check_equal(facts: list[Mapping[str, Any]], key: str, message: str) -> None:
    """Raise `RunError` if the ranks' facts (a mapping a rank, in rank order) differ in `key`.

    Raises
    ------
    RunError
        Naming the first rank that differs from rank 0, and both values.
    """
    for rank, fact in enumerate(facts):
        if fact[key] != facts[0][key]:
            raise RunError(f"{message}: rank 0 has {facts[0][key]!r}, rank {rank} has {fact[key]!r}")
