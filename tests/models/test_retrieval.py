"""The exact top k agrees with a full sort, over any blocks and threads."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models import retrieval, top_k
from tests.models import oracles


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    num_queries=st.integers(0, 9),
    num_items=st.integers(0, 40),
    k=st.integers(1, 12),
    blocks=st.tuples(st.integers(1, 5), st.integers(1, 17)),
    threads=st.integers(1, 2),
)
def test_top_k_equals_a_full_sort(seed, num_queries, num_items, k, blocks, threads) -> None:  # type: ignore[no-untyped-def]
    draws = np.random.default_rng(seed)
    # Small integers: products are exact and ties frequent.
    queries = draws.integers(-2, 3, (num_queries, 3)).astype(np.float32)
    items = draws.integers(-2, 3, (num_items, 3)).astype(np.float32)
    lists = [draws.integers(0, num_items, draws.integers(0, 8)) if num_items else [] for _ in range(num_queries)]
    indptr = np.cumsum([0, *map(len, lists)])
    indices = np.concatenate([np.zeros(0, np.int64), *lists]).astype(np.int64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrieval, "QUERY_BLOCK", blocks[0])
        patch.setattr(retrieval, "ITEM_BLOCK", blocks[1])
        found = top_k(queries, items, k, exclude=(indptr, indices), threads=threads)
    assert found.indices.shape == found.scores.shape == (num_queries, k)
    for row in range(num_queries):
        scores = items @ queries[row]
        expected = oracles.ranking(scores, k, list(map(int, lists[row])))
        assert found.indices[row].tolist() == expected + [-1] * (k - len(expected))
        assert found.scores[row].tolist() == [float(scores[i]) for i in expected] + [-np.inf] * (k - len(expected))


def test_many_rows_in_threads_equal_one_thread() -> None:
    draws = np.random.default_rng(0)
    queries, items = (draws.standard_normal((size, 16)).astype(np.float32) for size in (700, 9000))
    one, two = (top_k(queries, items, 10, threads=threads) for threads in (1, 2))
    assert (one.indices == two.indices).all()
    expected = np.argsort(-(queries[:5] @ items.T), axis=1)[:, :10]
    assert (one.indices[:5] == expected).all()


def test_bad_input_is_named() -> None:
    rows = np.ones((2, 3), np.float32)
    with pytest.raises(ValueError, match="k must be at least 1, got 0"):
        top_k(rows, rows, 0)
    with pytest.raises(ValueError, match=r"\(2, 3\) and \(2, 2\)"):
        top_k(rows, rows[:, :2], 1)
    with pytest.raises(ValueError, match="indptr"):
        top_k(rows, rows, 1, exclude=(np.zeros(2, np.int64), np.zeros(0, np.int64)))
    broken = rows.copy()
    broken[1, 2] = np.nan
    with pytest.raises(ValueError, match="items row 1"):
        top_k(rows, broken, 1)
