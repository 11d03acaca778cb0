"""The exchange of a model: plans bring the owners' rows and return sums, on any number of ranks."""

import pytest


@pytest.mark.mpi
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_plans_fetch_the_owners_rows_and_give_back_sums_in_rank_order(on_ranks, num_ranks: int) -> None:
    done = on_ranks(num_ranks, "fetch_plans.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"good {rank}" for rank in range(num_ranks)]
