"""Lists in the order of their ids, against Python's sort."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.list_order import sort_lists


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 200), max_size=6),
    seed=st.integers(0, 99),
    spread=st.sampled_from([2, 1000, 2**62]),
    weighted=st.booleans(),
    unsigned=st.booleans(),
    nearly=st.booleans(),
)
def test_each_list_is_sorted_by_itself_and_its_weights_move_with_it(sizes, seed, spread, weighted, unsigned, nearly):
    random = np.random.default_rng(seed)
    indptr = np.cumsum([0, *sizes]).astype(np.int64)
    keys = random.integers(-spread, spread, indptr[-1]).astype(np.uint64 if unsigned else np.int64)
    if nearly:
        keys = np.concatenate([np.sort(keys[low:high]) for low, high in zip(indptr, indptr[1:])] + [keys[:0]])
        keys[1:-1:7], keys[2::7] = keys[2::7][: keys[1:-1:7].size], keys[1:-1:7][: keys[2::7].size].copy()
    weights = np.arange(indptr[-1]).astype(np.float32) if weighted else None
    parts = zip(indptr, indptr[1:])
    pairs = [sorted(zip(keys[low:high].tolist(), range(low, high)), key=lambda pair: pair[0]) for low, high in parts]
    expected = [pair for part in pairs for pair in part]
    sort_lists(indptr, keys, weights, threads=1)
    assert keys.tolist() == [key for key, _ in expected]
    if weighted:
        assert weights.tolist() == [place for _, place in expected]
