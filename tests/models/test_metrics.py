"""Metrics agree with the ten-line oracle to 1e-6, and with values worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import RankingSums, ranking_sums
from tests.models import oracles


def flatten(lists: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.cumsum([0, *map(len, lists)]), np.array([item for part in lists for item in part], np.int64)


def test_metrics_by_hand() -> None:
    # Held out {7, 9, 4}, ranked 3, 7, 4, 1: hits at ranks 2 and 3.
    found = ranking_sums(np.array([[3, 7, 4, 1]]), flatten([[7, 9, 4]]), ks=(1, 2, 4)).means()
    discounts = {rank: 1 / np.log2(rank + 1) for rank in range(1, 5)}
    assert found["recall@1"] == found["ndcg@1"] == found["hit_rate@1"] == found["mrr@1"] == 0
    assert found["recall@2"] == pytest.approx(1 / 3)
    assert found["ndcg@2"] == pytest.approx(discounts[2] / (discounts[1] + discounts[2]))
    assert found["recall@4"] == pytest.approx(2 / 3)
    assert found["ndcg@4"] == pytest.approx((discounts[2] + discounts[3]) / sum(discounts[r] for r in (1, 2, 3)))
    assert found["hit_rate@4"] == 1
    assert found["mrr@4"] == pytest.approx(1 / 2)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), num_users=st.integers(1, 30), k=st.integers(1, 6), num_items=st.integers(1, 30))
def test_metrics_equal_the_oracle(seed: int, num_users: int, k: int, num_items: int) -> None:
    draws = np.random.default_rng(seed)
    top = np.full((num_users, 6), -1, np.int64)
    truths = []
    for user in range(num_users):
        length = draws.integers(0, min(6, num_items) + 1)
        top[user, :length] = draws.permutation(num_items)[:length]
        truths.append(draws.permutation(num_items)[: draws.integers(0, 5)].tolist())
    sums = ranking_sums(top, flatten(truths), ks=(k,))
    if any(truths):
        ranked = [[*row.tolist()] for row in top]
        assert sums.means() == pytest.approx(oracles.metrics(ranked, truths, k), abs=1e-6)
    else:
        assert set(sums.means().values()) == {0.0}
    assert sums.num_users == sum(bool(truth) for truth in truths)


def test_parts_add_up_to_the_whole() -> None:
    draws = np.random.default_rng(1)
    top = np.array([draws.permutation(20)[:5] for _ in range(30)])
    truths = [draws.permutation(20)[:3].tolist() for _ in range(30)]
    whole = ranking_sums(top, flatten(truths), ks=(2, 5))
    parts = [ranking_sums(top[a:b], flatten(truths[a:b]), ks=(2, 5)).vector() for a, b in ((0, 11), (11, 30))]
    assert RankingSums.from_vector(parts[0] + parts[1], (2, 5)).means() == pytest.approx(whole.means(), abs=1e-12)


def test_a_cutoff_beyond_the_ranking_is_refused() -> None:
    with pytest.raises(ValueError, match="k must be in 1 … 4"):
        ranking_sums(np.zeros((1, 4), np.int64), flatten([[1]]), ks=(5,))
