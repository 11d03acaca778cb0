"""Losses agree with float64 twins, and their gradients with differences of those."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import losses
from models.batch import Batch, UniqueRows, unique_rows
from tests.models import oracles

SMALL = settings(max_examples=15, deadline=None)


def make_rows(seed: int, num_samples: int, num_negatives: int, *, shared: bool) -> tuple[UniqueRows, Batch]:
    draws = np.random.default_rng(seed)
    shape = (num_negatives,) if shared else (num_samples, num_negatives)
    negatives = draws.permutation(9)[:num_negatives] if shared else draws.integers(0, 9, shape)
    batch = Batch(
        draws.integers(0, 5, num_samples) * 7, draws.integers(0, 9, num_samples) * 5, negatives * 5, num_samples
    )
    return unique_rows(batch), batch


def rows_of(seed: int, rows: UniqueRows, dim: int) -> tuple[np.ndarray, np.ndarray]:
    draws = np.random.default_rng(seed + 1)
    return tuple(draws.standard_normal((size, dim)).astype(np.float32) for size in (rows.users.size, rows.items.size))  # type: ignore[return-value]


@SMALL
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 3))
def test_bpr_equals_its_twin(seed: int, num_samples: int, num_negatives: int) -> None:
    rows, _ = make_rows(seed, num_samples, num_negatives, shared=False)
    users, items = rows_of(seed, rows, 3)
    found = losses.bpr(users, items, rows, scale=0.5)
    slots = rows.user_slots, rows.positive_slots, rows.negative_slots
    wide = users.astype(np.float64), items.astype(np.float64)
    assert found.loss == pytest.approx(oracles.bpr_loss(*wide, *slots), rel=1e-5)
    for gradient, expected in (
        (found.users, oracles.gradient(lambda at: oracles.bpr_loss(at, wide[1], *slots), wide[0])),
        (found.items, oracles.gradient(lambda at: oracles.bpr_loss(wide[0], at, *slots), wide[1])),
    ):
        np.testing.assert_allclose(gradient, 0.5 * expected, rtol=1e-3, atol=1e-4)
    assert found.user_counts.sum() == pytest.approx(0.5 * num_samples, rel=1e-5)
    assert found.item_counts.sum() == pytest.approx(0.5 * 2 * num_samples, rel=1e-5)


@SMALL
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 9), st.booleans())
def test_softmax_equals_its_twin(seed: int, num_samples: int, num_negatives: int, cosine: bool) -> None:
    rows, batch = make_rows(seed, num_samples, num_negatives, shared=True)
    users, items = rows_of(seed, rows, 3)
    draws = np.random.default_rng(seed + 2)
    lists = [
        np.unique(
            np.concatenate([batch.positives[batch.users == user], 5 * draws.integers(0, 9, draws.integers(0, 6))])
        )
        for user in rows.users
    ]
    seen = np.cumsum([0, *map(len, lists)]), np.concatenate([np.zeros(0, np.int64), *lists]).astype(np.int64)
    mask = np.array([np.isin(rows.items[rows.negative_slots], own) for own in lists])
    found = losses.softmax(users, items, rows, seen=seen, temperature=0.5, cosine=cosine, scale=0.25, threads=1)
    slots = rows.user_slots, rows.positive_slots, rows.negative_slots, mask, 0.5, cosine
    wide = users.astype(np.float64), items.astype(np.float64)
    assert found.loss == pytest.approx(oracles.softmax_loss(*wide, *slots), rel=1e-4, abs=1e-5)
    for gradient, expected in (
        (found.users, oracles.gradient(lambda at: oracles.softmax_loss(at, wide[1], *slots), wide[0])),
        (found.items, oracles.gradient(lambda at: oracles.softmax_loss(wide[0], at, *slots), wide[1])),
    ):
        np.testing.assert_allclose(gradient, 0.25 * expected, rtol=2e-3, atol=2e-4)
    assert found.item_counts.sum() == pytest.approx(0.25 * num_samples, rel=1e-5)


def test_softmax_by_hand() -> None:
    # One user, one positive, two negatives of which one is seen: −ln(e² / (e² + e¹)).
    rows = UniqueRows(np.array([0]), np.array([10, 20, 30]), np.array([0]), np.array([0]), np.array([1, 2]))
    users, items = np.array([[1.0]], np.float32), np.array([[2.0], [1.0], [5.0]], np.float32)
    seen = np.array([0, 2]), np.array([10, 30])
    found = losses.softmax(users, items, rows, seen=seen, temperature=1.0, cosine=False, scale=1.0)
    assert found.loss == pytest.approx(np.log1p(np.exp(-1.0)), rel=1e-6)
    other = 1 / (1 + np.e)
    np.testing.assert_allclose(found.items[:, 0], [-other, other, 0.0], rtol=1e-5)
    np.testing.assert_allclose(found.users[0, 0], -2.0 * other + 1.0 * other, rtol=1e-5)


def test_softmax_of_several_blocks_equals_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, _ = make_rows(4, 50, 6, shared=True)
    users, items = rows_of(4, rows, 8)
    seen = np.zeros(rows.users.size + 1, np.int64), np.zeros(0, np.int64)
    whole = losses.softmax(users, items, rows, seen=seen, temperature=1.0, cosine=False, scale=1.0)
    monkeypatch.setattr(losses, "BLOCK_SCORES", 6 * 7)
    parts = losses.softmax(users, items, rows, seen=seen, temperature=1.0, cosine=False, scale=1.0)
    assert parts.loss == pytest.approx(whole.loss, rel=1e-5)
    np.testing.assert_allclose(parts.items, whole.items, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(parts.users, whole.users, rtol=1e-4, atol=1e-5)


def test_bpr_stays_finite_on_far_rows() -> None:
    rows = UniqueRows(np.array([0]), np.array([0, 1]), np.array([0]), np.array([0]), np.array([[1]]))
    for sign, loss in ((1.0, 0.0), (-1.0, 2e6)):
        users, items = np.array([[1e3]], np.float32), np.array([[sign * 1e3], [-sign * 1e3]], np.float32)
        found = losses.bpr(users, items, rows, scale=1.0)
        assert found.loss == pytest.approx(loss)
        assert np.isfinite(found.items).all()


def test_a_missing_negative_costs_nothing() -> None:
    batch = Batch(np.array([3, 3]), np.array([5, 6]), np.array([[-1], [5]]), 2)
    rows = unique_rows(batch)
    assert rows.items.tolist() == [5, 6]
    assert rows.positive_slots.tolist() == [0, 1]
    assert rows.negative_slots.tolist() == [[-1], [0]]
    users, items = np.ones((1, 2), np.float32), np.zeros((2, 2), np.float32)
    found = losses.bpr(users, items, rows, scale=0.5)
    assert found.loss == pytest.approx(np.log(2))
    assert found.item_counts.tolist() == [1.0, 0.5]
