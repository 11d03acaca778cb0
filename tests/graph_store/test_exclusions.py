"""Exclusions against sets of pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.sampling.exclusions import Exclusions

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40)


def made(pairs):
    return Exclusions(*np.array(pairs, np.int64).reshape(-1, 2).T)


@settings(deadline=None)
@given(first=PAIRS, second=PAIRS)
def test_pairs_are_those_that_went_in(first, second):
    found = made(first)
    everything = [(src, dst) for src in range(11) for dst in range(11)]
    for excluded, known in ((found, set(first)), (found.union(made(second)), {*first, *second})):
        assert len(excluded) == len(known)
        assert list(zip(*(ends.tolist() for ends in excluded.pairs))) == sorted(known)
        assert excluded.sources.tolist() == sorted({src for src, _ in known})
        has = excluded.has(*np.array(everything).T)
        assert [pair for pair, inside in zip(everything, has) if inside] == sorted(known)


def test_ends_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="as many dst as src are needed, got 1 and 2"):
        Exclusions(np.array([1, 2]), np.array([1]))
    with pytest.raises(TypeError, match="src must be integers, got float64"):
        Exclusions(np.array([1.5]), np.array([1]))
