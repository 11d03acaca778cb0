"""The local exchange fetches by node and gives back to the right rows."""

import numpy as np
import pytest

from models import LocalExchange


def test_a_plan_fetches_rows_by_node_and_gives_them_back() -> None:
    owned, needed = np.array([16, 0, 33, 17]), np.array([17, 16])
    plan = LocalExchange().plan(needed, owned, num_shards=16)
    assert plan.requested.tolist() == [0, 3]
    rows = owned[plan.requested, None].astype(np.float32)
    assert plan.fetch(rows)[:, 0].tolist() == [17, 16]
    assert plan.give_back(np.array([[1.0], [2.0]], np.float32))[:, 0].tolist() == [2, 1]


def test_a_plan_of_all_owned_rows_copies_nothing() -> None:
    owned = np.array([16, 0, 33])
    plan = LocalExchange().plan(owned, owned, num_shards=16)
    rows = np.ones((3, 2), np.float32)
    assert plan.requested.tolist() == [0, 1, 2]
    assert plan.fetch(rows) is rows


def test_an_empty_plan_fetches_nothing() -> None:
    empty = np.zeros(0, np.int64)
    for owned in (empty, np.array([4])):
        plan = LocalExchange().plan(empty, owned, num_shards=2)
        assert plan.fetch(np.zeros((0, 3), np.float32)).shape == (0, 3)
        assert plan.give_back(np.zeros((0, 3), np.float32)).shape == (0, 3)


@pytest.mark.parametrize("owned", [[1, 2], []])
def test_a_node_that_nobody_holds_is_named(owned: list[int]) -> None:
    with pytest.raises(ValueError, match="node 7 "):
        LocalExchange().plan(np.array([7]), np.array(owned, np.int64), num_shards=2)


def test_one_process_owns_all_shards_and_sums_alone() -> None:
    assert LocalExchange().owned(5) == range(5)
    assert LocalExchange().sum(np.array([1.5, 2])).tolist() == [1.5, 2.0]
