"""Exclusions against sets of pairs."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.lists import draw_lists
from graph_store.sampling.rule import Rule

PAIRS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40)


def made(pairs):
    return Exclusions(*np.array(pairs, np.int64).reshape(-1, 2).T)


@settings(deadline=None)
@given(first=PAIRS, second=PAIRS)
def test_pairs_are_those_that_went_in(first, second):
    everything = [(src, dst) for src in range(11) for dst in range(11)]
    one, other, both = set(first), set(second), {*first, *second}
    cases = [
        (made(first), one),
        (made(first).union(made(second)), both),
        (made(first).with_few(made(second)), both),
        (made(first).with_few(made(second)).with_few(made(first[:3])), both),
        (made(first).reversed, {pair[::-1] for pair in one}),
        (made(first).with_few(made(second)).reversed, {pair[::-1] for pair in both}),
    ]
    for excluded, known in cases:
        assert (len(excluded), bool(excluded)) == (len(known), bool(known))
        assert list(zip(*(ends.tolist() for ends in excluded.pairs))) == sorted(known)
        has = excluded.has(*np.array(everything).T)
        assert [pair for pair, inside in zip(everything, has) if inside] == sorted(known)
    assert made(first).with_few(made(second)).has(*np.array([*other, (0, 99)]).T).tolist() == [True] * len(other) + [
        False
    ]


@settings(deadline=None, max_examples=30)
@given(first=PAIRS, second=PAIRS, seed=st.integers(0, 99))
def test_lists_are_drawn_around_few_and_many_as_around_all(make_adjacency, first, second, seed):
    adjacency = make_adjacency([list(range(10)) for _ in range(10)], bits=4)
    nodes = np.arange(10)
    for rule in (Rule(3), Rule(-1), Rule(4, replace=True)):
        few, union = (
            draw_lists(adjacency, nodes, rule, key=np.uint64(seed), exclude=exclude)
            for exclude in (made(first).with_few(made(second)), made([*first, *second]))
        )
        assert few.indptr.tolist() == union.indptr.tolist()
        assert few.neighbors.tolist() == union.neighbors.tolist()
        drawn = zip(np.repeat(nodes, np.diff(few.indptr)).tolist(), few.neighbors.tolist())
        assert not {*drawn} & {*first, *second}


def test_ends_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="as many dst as src are needed, got 1 and 2"):
        Exclusions(np.array([1, 2]), np.array([1]))
    with pytest.raises(TypeError, match="src must be integers, got float64"):
        Exclusions(np.array([1.5]), np.array([1]))
