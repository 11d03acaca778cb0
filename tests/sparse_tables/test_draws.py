"""Initial values."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparse_tables import LocalTable, TableConfig
from sparse_tables.draws import table_key
from tests.sparse_tables.oracle import initial_row

IDS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=40, deadline=None)
@given(
    id=IDS,
    seed=st.integers(0, 2**64 - 1),
    dim=st.integers(1, 9),
    initial=st.sampled_from(["normal", "uniform", "zeros", "constant"]),
)
def test_a_new_row_is_the_one_the_oracle_draws(id, seed, dim, initial):
    config = TableConfig("user", dim, seed=seed, initial=initial, scale=0.25)
    row = LocalTable(config, threads=1).pull([id])[0]
    np.testing.assert_allclose(row, initial_row(table_key("user", seed), id, dim, initial, 0.25), atol=1e-6)


def test_normal_rows_have_mean_0_and_the_stated_deviation():
    rows = LocalTable(TableConfig("t", 32, scale=0.1)).pull(np.arange(20_000))
    # 640,000 draws: the mean's standard error is 0.1 / 800, the deviation's 0.1 / 1131.
    assert abs(rows.mean()) < 5 * 0.1 / 800
    assert abs(rows.std() - 0.1) < 5 * 0.1 / 1131
    assert np.abs(np.corrcoef(rows[:, :8], rowvar=False) - np.eye(8)).max() < 5 / np.sqrt(20_000)


def test_uniform_rows_fill_their_range():
    rows = LocalTable(TableConfig("t", 32, initial="uniform", scale=0.5)).pull(np.arange(20_000))
    assert rows.min() >= -0.5
    assert rows.max() < 0.5
    assert abs(rows.std() - 0.5 / np.sqrt(3)) < 0.002


@pytest.mark.parametrize("other", [{"seed": 1}, {"name": "item"}])
def test_another_seed_or_name_draws_other_rows(other):
    ids = np.arange(100)
    one = LocalTable(TableConfig(name="user", dim=4, seed=0)).pull(ids)
    two = LocalTable(TableConfig(**{"name": "user", "dim": 4, "seed": 0, **other})).pull(ids)
    assert not np.isclose(one, two).any(axis=1).all()
    assert abs(np.corrcoef(one.ravel(), two.ravel())[0, 1]) < 0.2


def test_rows_start_the_same_whatever_the_shards_and_the_order():
    ids = np.random.default_rng(0).permutation(5000)
    one = LocalTable(TableConfig("t", 4, num_shards=1)).pull(ids)
    many = LocalTable(TableConfig("t", 4, num_shards=7, placement="mix")).pull(ids[::-1])
    np.testing.assert_array_equal(one, many[::-1])
