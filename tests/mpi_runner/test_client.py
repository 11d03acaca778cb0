"""The remote table: on any number of ranks it is one local table."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mpi_runner.client import RemoteTable, shards_of
from mpi_runner.routing import Route, first_seen, sum_rows
from mpi_runner.transport import Transport
from sparse_tables import ForeignId, LocalTable, TableConfig

small_ids = arrays.arrays(np.int64, st.integers(0, 60), elements=st.integers(-8, 8))


@pytest.mark.mpi
@pytest.mark.parametrize("num_ranks", [1, 2, 3, 4])
def test_remote_tables_equal_one_local_table_given_all_ids(on_ranks, num_ranks: int) -> None:
    done = on_ranks(num_ranks, "remote_table.py")
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"good {rank}" for rank in range(num_ranks)]


def test_a_local_table_of_other_shards_is_refused() -> None:
    table = LocalTable(TableConfig("rows", 2, num_shards=4), shards=[1, 2])
    with pytest.raises(ValueError, match=r"owns shards \[0, 1, 2, 3\] .* got a table with shards \[1, 2\]"):
        RemoteTable(table, Transport())


@pytest.mark.parametrize("bad", [np.zeros(2), np.zeros((2, 2), np.int64)])
def test_ids_of_another_kind_or_shape_are_refused(bad: np.ndarray) -> None:
    remote = RemoteTable(LocalTable(TableConfig("rows", 2)), Transport())
    with pytest.raises((TypeError, ValueError), match=r"ids must be (integers|one-dimensional)"):
        remote.pull(bad)
    with pytest.raises(ValueError, match=r"gradients must have shape \(1, 2\)"):
        remote.push(np.array([1]), np.zeros((2, 2)))


@settings(max_examples=30, deadline=None)
@given(small_ids)
def test_first_seen_keeps_each_id_once_in_order(ids: np.ndarray) -> None:
    unique, inverse = first_seen(ids)
    assert unique.tolist() == list(dict.fromkeys(ids.tolist()))
    if inverse is None:
        assert len(set(ids.tolist())) == ids.size
    else:
        np.testing.assert_array_equal(unique[inverse], ids)


@settings(max_examples=30, deadline=None)
@given(small_ids)
def test_sum_rows_equals_adding_at(ids: np.ndarray) -> None:
    unique, inverse = first_seen(ids)
    inverse = np.arange(ids.size) if inverse is None else inverse
    rows = np.arange(ids.size * 3, dtype=np.float32).reshape(-1, 3)
    expected = np.zeros((unique.size, 3), np.float32)
    np.add.at(expected, inverse, rows)
    np.testing.assert_array_equal(sum_rows(rows, inverse, unique.size), expected)


@settings(max_examples=50, deadline=None)
@given(arrays.arrays(np.int64, st.integers(0, 40), elements=st.integers(0, 3)))
def test_a_route_groups_by_owner_and_back(owners: np.ndarray) -> None:
    route = Route.to_owners(owners, 4)
    values = np.arange(owners.size)
    for rank, part in enumerate(route.split(route.group(values))):
        np.testing.assert_array_equal(part, np.flatnonzero(owners == rank))
    np.testing.assert_array_equal(route.ungroup(route.group(values)), values)


@pytest.mark.parametrize("placement", ["modulo", "mix"])
@pytest.mark.parametrize("num_shards", [1, 7, 16])
def test_shards_are_those_of_the_local_table(placement: str, num_shards: int) -> None:
    config = TableConfig("rows", 1, placement=placement, num_shards=num_shards)
    ids = np.array([0, 1, 5, -1, -8, 1 << 62, -(1 << 63), (1 << 63) - 1], np.int64)
    for id, shard in zip(ids, shards_of(ids, config)):
        LocalTable(config, shards=[shard]).pull([id])
        if num_shards > 1:
            with pytest.raises(ForeignId):
                LocalTable(config, shards=[(shard + 1) % num_shards]).pull([id])
