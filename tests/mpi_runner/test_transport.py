"""Messages: every call gives what it says on any number of ranks, and a silent rank is named in time."""

import re
import time

import numpy as np
import pytest

from mpi_runner.transport import Transport

pytestmark = pytest.mark.mpi
RANKS = (1, 2, 3, 4)


@pytest.mark.parametrize("num_ranks", RANKS)
def test_every_call_gives_what_it_says(on_ranks, num_ranks: int) -> None:
    done = on_ranks(num_ranks, "swaps.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"good {rank}" for rank in range(num_ranks)]


@pytest.mark.parametrize("num_ranks", [2, 4])
@pytest.mark.parametrize("way", ["absent", "out of order"])
def test_a_silent_rank_is_named_with_table_and_step_before_long(on_ranks, num_ranks: int, way: str) -> None:
    started = time.monotonic()
    done = on_ranks(num_ranks, "silence.py", way)
    assert time.monotonic() - started < 12
    assert done.returncode != 0
    message = (
        rf"gossamer: rank \d waited 1\.\d s for rank {num_ranks - 1}, receiving ids of table 'item' at epoch 3, step 17"
    )
    assert re.search(message, done.stderr), done.stderr


def test_a_single_process_answers_itself_and_imports_no_mpi() -> None:
    transport = Transport()
    own = np.arange(3)
    assert transport.swap([own], what="numbers")[0] is own
    np.testing.assert_array_equal(transport.sum([1, 2]), [1, 2])
    assert transport.gather(b"x", what="x") == [b"x"]
    assert transport.agree("no", what="x") == [(0, "no")]
    transport.barrier("x")
