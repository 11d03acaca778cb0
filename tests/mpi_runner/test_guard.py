"""Failures: whatever happens to one rank, all ranks end within seconds, with its words and a non-zero status."""

import time

import pytest

pytestmark = pytest.mark.mpi


def end(on_ranks, num_ranks: int, way: str):  # type: ignore[no-untyped-def]
    started = time.monotonic()
    done = on_ranks(num_ranks, "failing.py", way)
    assert time.monotonic() - started < 10
    return done


@pytest.mark.parametrize("num_ranks", [2, 3, 4])
def test_an_exception_ends_all_ranks_with_its_traceback_and_rank(on_ranks, num_ranks: int) -> None:
    done = end(on_ranks, num_ranks, "exception")
    assert done.returncode != 0
    name = f"rank {num_ranks - 1}: "
    lines = [line for line in done.stderr.splitlines() if line.startswith(name)]
    assert lines[0] == f"{name}Traceback (most recent call last):"
    assert lines[-1] == f"{name}ZeroDivisionError: one rank divided by zero"
    assert any("failing.py" in line for line in lines)


@pytest.mark.parametrize("num_ranks", [2, 4])
def test_a_killed_rank_ends_the_others(on_ranks, num_ranks: int) -> None:
    assert end(on_ranks, num_ranks, "kill").returncode != 0


def test_a_stopped_rank_is_named_and_ends_the_others(on_ranks) -> None:
    done = end(on_ranks, 3, "stop")
    assert done.returncode != 0
    assert "for rank 2, receiving ids of table 'item' at step 20" in done.stderr


def test_an_exit_in_one_rank_ends_the_others(on_ranks) -> None:
    done = end(on_ranks, 2, "exit")
    assert done.returncode != 0
    assert "rank 1: SystemExit: 3" in done.stderr


def test_a_users_error_in_one_rank_is_one_line(on_ranks) -> None:
    done = end(on_ranks, 2, "user error")
    assert done.returncode != 0
    assert "gossamer: rank 1: the disk of this rank is full" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_failure_that_ranks_agree_on_is_told_once_by_rank_0(on_ranks) -> None:
    done = end(on_ranks, 3, "agreed")
    assert done.returncode == 2
    assert done.stderr == "gossamer: rank 1: no such thing; rank 2: no such thing\n"


def test_a_single_process_reports_its_error_and_status(on_ranks) -> None:
    done = end(on_ranks, 1, "exception")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == "ZeroDivisionError: one rank divided by zero"
