"""Loaders: every example once an epoch, the same batches for any ranks, threads and depth, and from any step on."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store import BadInput, permute
from graph_store.sampling.loader import Loader, Plan


def echo(share):
    return share.epoch, share.step, share.positions.tolist(), share.examples.tolist()


@settings(max_examples=80, deadline=None)
@given(
    length=st.integers(0, 60),
    batch_size=st.integers(1, 20),
    size=st.integers(1, 4),
    epoch=st.integers(0, 3),
    shuffle=st.booleans(),
)
def test_the_shares_of_the_ranks_make_the_epoch(length, batch_size, size, epoch, shuffle):
    plans = [Plan(length, batch_size, shuffle=shuffle, seed=5, rank=rank, size=size) for rank in range(size)]
    steps = -(-length // batch_size)
    assert {plan.num_steps for plan in plans} == {steps}
    seen = []
    for step in range(steps):
        shares = [plan.share(epoch, step) for plan in plans]
        joined = np.concatenate([share.examples for share in shares])
        assert joined.size == min(batch_size, length - step * batch_size)
        sizes = [share.examples.size for share in shares]
        assert max(sizes) - min(sizes) <= 1
        positions = np.concatenate([share.positions for share in shares])
        assert positions.tolist() == list(range(step * batch_size, step * batch_size + joined.size))
        seen += joined.tolist()
    expected = np.arange(length)
    if shuffle and length:
        expected = permute(expected, length, seed=5, epoch=epoch)
    assert seen == expected.tolist()
    assert sorted(seen) == list(range(length))


def test_a_rank_with_fewer_examples_than_steps_gets_empty_batches():
    loaders = [Loader(Plan(3, 2, rank=rank, size=4, shuffle=False), lambda: echo, threads=0) for rank in range(4)]
    batches = [list(loader) for loader in loaders]
    assert {len(each) for each in batches} == {2}
    assert [[len(batch[2]) for batch in each] for each in batches] == [[0, 0], [1, 0], [0, 0], [1, 1]]


def test_drop_last_leaves_out_a_step_that_is_not_full():
    assert Plan(10, 4, drop_last=True).num_steps == 2
    assert Plan(8, 4, drop_last=True).num_steps == 2
    assert len(list(Loader(Plan(10, 4, drop_last=True), lambda: echo))) == 2


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
@pytest.mark.parametrize("depth", [0, 1, 7])
def test_batches_do_not_depend_on_threads_or_depth(threads, depth):
    plan = Plan(50, 8, seed=3)
    expected = [echo(plan.share(epoch, step)) for epoch in range(2) for step in range(7)]
    loader = Loader(plan, lambda: echo, threads=threads, depth=depth)
    assert len(loader) == 7
    assert list(loader) + list(loader) == expected
    assert loader.batch(1, 6) == expected[-1]
    assert list(loader.batches(1, 5)) == expected[12:]


def test_an_iteration_that_stops_goes_on_where_it_was():
    loader = Loader(Plan(50, 8, seed=3), lambda: echo, threads=2, depth=3)
    whole = [*Loader(Plan(50, 8, seed=3), lambda: echo)]
    iterator = iter(loader)
    first = [next(iterator) for _ in range(3)]
    del iterator
    # The third batch was handed over; what was made ahead was not.
    state = loader.state_dict()
    assert (state["epoch"], state["step"]) == (0, 3)
    other = Loader(Plan(50, 8, seed=3), lambda: echo, threads=0)
    other.load_state_dict(state)
    assert first + list(other) == whole
    assert (other.epoch, other.step) == (1, 0)


@pytest.mark.parametrize(("change", "said"), [({"batch_size": 9}, "batch_size is 8"), ({"length": 49}, "length is 50")])
def test_a_state_of_other_steps_is_refused(change, said):
    state = Loader(Plan(50, 8), lambda: echo).state_dict()
    loader = Loader(Plan(**{"length": 50, "batch_size": 8} | change), lambda: echo)
    with pytest.raises(BadInput, match=said):
        loader.load_state_dict(state)


def test_what_is_no_state_is_refused():
    with pytest.raises(BadInput, match="no state of a loader: step, length, batch_size, shuffle, seed, drop_last are"):
        Loader(Plan(5, 2), lambda: echo).load_state_dict({"epoch": 1})


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: Plan(5, 0), "batch_size must be at least 1, got 0"),
        (lambda: Plan(-1, 1), "length must be 0 or more"),
        (lambda: Plan(5, 1, rank=2, size=2), "got rank 2 of 2"),
        (lambda: Plan(5, 2).share(0, 3), "step must be in 0 … 2, got 3"),
        (lambda: Loader(Plan(5, 2), lambda: echo, threads=-1), "threads and depth"),
        (lambda: Loader(Plan(5, 2), lambda: echo).batches(0, 4), "first step must be in 0 … 3, got 4"),
    ],
)
def test_wrong_numbers_are_refused(make, said):
    with pytest.raises(BadInput, match=said):
        make()
