"""Counted draws and permutations: published values, uniformity, bijections."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.draws import GOLDEN, PERMUTATION, draw, key_of, mixed, permute
from graph_store.kernels import mix64
from tests import oracles
from tests.oracles import chi_square

UINT64 = st.integers(0, 2**64 - 1)


def test_splitmix64_gives_its_published_outputs():
    # The reference generator from seed 1234567 (rosettacode.org/wiki/Pseudo-random_numbers/Splitmix64) and from 0.
    published = [
        6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821,
    ]  # fmt: skip
    for number, value in enumerate(published):
        state = np.uint64((1234567 + (number + 1) * int(GOLDEN)) % 2**64)
        assert int(mix64(state)) == value == oracles.splitmix64(1234567, number)
    assert [oracles.splitmix64(0, number) for number in range(3)] == [
        0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F,
    ]  # fmt: skip
    # The high word of output × bound: 6457827717110365317 · 10 / 2^64 = 3.5…, 3203168211198807973 · 10 / 2^64 = 1.7…
    assert [int(draw(np.uint64(1234567), number, 10)) for number in range(2)] == [3, 1]


@settings(max_examples=200, deadline=None)
@given(UINT64, st.integers(0, 2**40), st.one_of(st.integers(1, 2**63 - 1), st.sampled_from([1, 2**32 - 1, 2**32])))
def test_a_draw_is_the_high_word_of_output_times_bound(key, number, bound):
    assert int(draw(np.uint64(key), number, bound)) == oracles.draw(key, number, bound)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(-(2**63), 2**64 - 1), min_size=4, max_size=4))
def test_a_key_is_mixed_from_its_parts_in_order(parts):
    key = np.uint64(0)
    for part in parts:
        key = np.uint64(mixed(key, np.uint64(part % 2**64)))
    assert int(key_of(*parts)) == int(key)


def test_keys_differ_with_each_part():
    parts = [(0, 0, 1, 0), (1, 0, 1, 0), (0, 1, 1, 0), (0, 0, 2, 0), (0, 0, 1, 1), (-1, 0, 1, 0)]
    assert len({int(key_of(*values)) for values in parts}) == len(parts)


def test_draws_are_uniform_over_their_bound_and_over_neighbouring_units():
    key = key_of(3, 0, 1)
    for bound in (2, 7, 100):
        by_number = [int(draw(key, number, bound)) for number in range(20000)]
        by_unit = [int(draw(np.uint64(mixed(key, np.uint64(unit))), 0, bound)) for unit in range(20000)]
        assert abs(chi_square(np.bincount(by_number, minlength=bound))) < 4
        assert abs(chi_square(np.bincount(by_unit, minlength=bound))) < 4


def test_permute_is_a_bijection():
    for length in [*range(1, 301), 1000, 4095, 4096, 4097, 65_537, 300_007]:
        for epoch in (0, 2**63 - 1):
            out = permute(np.arange(length), length, seed=9, epoch=epoch)
            assert np.array_equal(np.sort(out), np.arange(length)), length


def permuted(position, length, seed, epoch):
    """Walk four rounds of Feistel on the next even number of bits until the value is in the range."""
    half = max(1, ((length - 1).bit_length() + 1) // 2)
    key = int(key_of(seed, epoch, PERMUTATION))
    keys = [int(mixed(np.uint64(key), np.uint64(turn))) for turn in range(4)]
    while True:
        left, right = divmod(position, 2**half)
        for turn_key in keys:
            left, right = right, left ^ oracles.mix64((right + turn_key) % 2**64) % 2**half
        position = left << half | right
        if position < length:
            return position


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 100) | st.integers(1, 2**63 - 1),
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-5, 5),
    st.integers(0, 2**63),
)
def test_permute_is_its_twin_of_four_rounds(length, seed, epoch, position):
    position %= length
    assert permute([position], length, seed=seed, epoch=epoch).tolist() == [permuted(position, length, seed, epoch)]


def test_permute_differs_by_epoch_and_by_seed_and_repeats_itself():
    positions = np.arange(5000)
    first = permute(positions, 5000, seed=1, epoch=0)
    assert np.array_equal(first, permute(positions, 5000, seed=1, epoch=0))
    for other in (
        permute(positions, 5000, seed=1, epoch=1),
        permute(positions, 5000, seed=2, epoch=0),
        permute(positions, 5000, seed=-1, epoch=0),
        positions,
    ):
        # Of two independent permutations about one place agrees.
        assert np.count_nonzero(first == other) < 10


def test_permute_answers_for_any_part_of_the_positions_and_any_number_of_threads():
    length = 10**6
    whole = permute(np.arange(length), length, seed=4, epoch=2, threads=3)
    part = np.array([999_999, 0, 5, 5, 123_456])
    assert np.array_equal(permute(part, length, seed=4, epoch=2, threads=1), whole[part])
    assert np.array_equal(permute(np.arange(length), length, seed=4, epoch=2, threads=1), whole)


def test_permute_sends_a_position_everywhere_alike():
    where = [permute(np.array([0, 9]), 10, seed=seed).tolist() for seed in range(4000)]
    for column in zip(*where):
        assert abs(chi_square(np.bincount(column, minlength=10))) < 4


def test_permute_works_at_the_largest_length():
    length = 2**62
    positions = np.array([0, 1, length - 1])
    out = permute(positions, length, seed=0)
    assert len(set(out.tolist())) == 3
    assert ((out >= 0) & (out < length)).all()


@pytest.mark.parametrize(("position", "length"), [(5, 5), (-1, 5), (0, 0)])
def test_a_position_outside_is_refused(position, length):
    with pytest.raises(ValueError, match="positions must be in"):
        permute(np.array([position]), length, seed=0)


def test_positions_that_are_no_integers_are_refused():
    with pytest.raises(TypeError, match="positions must be integers, got float64"):
        permute([0.5], 3, seed=0)


def test_permute_of_five_reaches_all_orders():
    orders = {tuple(permute(np.arange(5), 5, seed=seed).tolist()) for seed in range(4000)}
    assert len(orders) == 120


def test_a_bound_past_32_bits_is_drawn_evenly():
    bound = 3 << 40
    thirds = [int(draw(np.uint64(17), number, bound)) >> 40 for number in range(30_000)]
    low_bits = [int(draw(np.uint64(18), number, bound)) & 7 for number in range(30_000)]
    assert abs(chi_square(np.bincount(thirds, minlength=3))) < 4
    assert abs(chi_square(np.bincount(low_bits, minlength=8))) < 4


def test_no_positions_are_no_positions():
    assert permute(np.empty(0, np.int64), 0, seed=0).size == 0
