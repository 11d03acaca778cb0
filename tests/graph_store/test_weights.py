"""Picks by weight: each place as often as it weighs, none that weighs nothing, hubs without a look at all of them."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.draws import WALKS, fraction, key_of, mixed
from graph_store.packed_lists import entry_of, locate, locate_extra, node_mark
from graph_store.sampling.hub_picks import hub_picks
from graph_store.sampling.weight_sums import tree_of
from graph_store.sampling.weighted_picks import MOST_TRIED, TRIES
from graph_store.sampling.weights import pick_one
from tests import oracles
from tests.oracles import chi_square

NO_BARS = np.empty(0, np.uint64), 0, 1, np.empty(0, np.int64), 0, 0


def weighted_lists(make_adjacency, weights, **options):
    """An adjacency whose list i has neighbours 0, 2, 4, … of those weights."""
    return make_adjacency(
        [[(2 * place, weight, None) for place, weight in enumerate(own)] for own in weights], weighted=True, **options
    )


def found(adjacency, node):
    """What the kernels know of a list: (floats, word of the first weight, tree, degree), and its bars' first part."""
    words, words32, directory, group_base = adjacency.arrays
    entry = entry_of(node, directory, group_base)
    degree, bit, bits, first = locate(words, words32, entry, node_mark(node, entry, group_base))
    weight = locate_extra(words, words32, entry, degree, bit, bits, first)[0]
    tree = tree_of(adjacency.weight_sums, first, degree)
    return (words32.view(np.float32), weight, tree, degree), (words, bit, bits)


def drawable(weights):
    return [min(weight, float(np.finfo(np.float32).max)) if weight > 0 else 0.0 for weight in weights]


def test_a_fraction_is_the_high_bits_of_splitmix64():
    for key, number in ((0, 0), (5, 3), (2**64 - 1, 17)):
        assert fraction(np.uint64(key), number) == (oracles.splitmix64(key, number) >> 11) / 2**53


WEIGHT = st.one_of(
    st.sampled_from([0.0, -1.0, math.nan, math.inf, 1e30, 1.0, 2.0, 1e-30]), st.floats(0.125, 8, width=32)
)


@settings(max_examples=60, deadline=None)
@given(
    degree=st.sampled_from([1, 2, 3, 40, 511, 512, 513, 1024, 1025, 1700, 2561]),
    some=st.lists(WEIGHT, min_size=1, max_size=9),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_a_place_takes_as_much_of_0_to_1_as_it_weighs(make_adjacency, degree, some, ends):
    weights = np.float32([some[place * place % len(some)] for place in range(degree)])
    low, high = sorted(round(end * degree) for end in ends)
    arguments, _ = found(weighted_lists(make_adjacency, [weights.tolist(), [1.0]]), 0)
    assert (arguments[2][1] >= 0) == (degree > 512)
    shares = np.array(drawable(weights[low:high].tolist()))
    total = shares.sum()
    if total == 0:
        assert pick_one(*arguments, low, high, 0.5) == -1
        return
    parts = 4000
    counts = np.zeros(high - low)
    for part in range(parts):
        place = pick_one(*arguments, low, high, (part + 0.5) / parts)
        assert low <= place < high
        counts[place - low] += 1
    # The parts that lead to a place are one interval as long as its share: so many of the grid's points, but for one.
    assert np.abs(counts - parts * shares / total).max() < 1 + 1e-6
    assert (counts[shares == 0] == 0).all()
    last = pick_one(*arguments, low, high, 1 - 2**-53)
    assert shares[last - low] > 0


@pytest.mark.parametrize("num_shards", [1, 3])
def test_sums_are_those_of_each_512_weights(make_adjacency, num_shards):
    random = np.random.default_rng(1)
    degrees = [600, 3, 513, 1024, 0, 512, 5000, 1025] * 6
    weights = [random.random(degree, np.float32).tolist() for degree in degrees]
    adjacency = weighted_lists(make_adjacency, weights, num_shards=num_shards)
    base = np.array([len(degrees) * shard // num_shards for shard in range(num_shards + 1)])
    for rank, own in enumerate(weights):
        shard = int(np.searchsorted(base, rank, side="right")) - 1
        (_, _, (sums, start, chunks), degree), _ = found(adjacency, (rank - base[shard]) * num_shards + shard)
        assert degree == len(own)
        if degree <= 512:
            assert (start, chunks) == (-1, 0)
            continue
        assert chunks == math.ceil(degree / 512)
        leaves = [math.fsum(own[low : low + 512]) for low in range(0, degree, 512)]
        assert np.allclose(sums[start + chunks : start + 2 * chunks], leaves, rtol=1e-12)
        assert sums[start + 1] == pytest.approx(math.fsum(own), rel=1e-12)


def order_of(chunks):
    """The leaves of a tree from left to right."""
    todo, leaves = [1], []
    while todo:
        node = todo.pop()
        if node >= chunks:
            leaves.append(node - chunks)
        else:
            todo += [2 * node + 1, 2 * node]
    return leaves


def twin_picks(weights, key, fanout, barred, replace):
    """Try each draw by rejection; once that is in vain draw from all that is left, added up anew each time."""
    left, greatest = drawable(weights), max(drawable(weights))
    drawn, number = [], 0
    while len(drawn) < fanout <= MOST_TRIED:
        for _ in range(TRIES):
            place, share = oracles.draw(key, number, len(left)), (oracles.splitmix64(key, number + 1) >> 11) / 2**53
            number += 2
            if share * greatest < left[place] and place not in barred:
                break
        else:
            break
        drawn.append(place)
        if not replace:
            left[place] = 0
    places = [
        place
        for chunk in order_of(math.ceil(len(weights) / 512))
        for place in range(512 * chunk, min(512 * chunk + 512, len(weights)))
    ]
    while sum(left) > 0 and len(drawn) < fanout:
        target = (oracles.splitmix64(key, number) >> 11) / 2**53 * sum(left)
        number += 1
        for place in places:
            if target < left[place]:
                break
            target -= left[place]
        if place not in barred:
            drawn.append(place)
        if place in barred or not replace:
            left[place] = 0
    return sorted(drawn) if len(drawn) < fanout and not replace else drawn


@settings(max_examples=60, deadline=None)
@given(
    degree=st.integers(513, 3000),
    positive=st.lists(st.tuples(st.integers(0, 2999), st.integers(1, 1 << 12)), max_size=30),
    common=st.sampled_from([0, 1, 7]),
    fanout=st.integers(0, 40),
    barred=st.sets(st.integers(0, 2999), max_size=20),
    key=st.integers(0, 2**64 - 1),
    replace=st.booleans(),
)
def test_picks_of_a_hub_are_those_of_its_twin(make_adjacency, degree, positive, common, fanout, barred, key, replace):
    weights = [float(common)] * degree
    for place, weight in positive:
        weights[place % degree] = float(weight)
    arguments, list_at = found(weighted_lists(make_adjacency, [weights]), 0)
    targets = np.array(sorted(2 * place for place in barred), np.int64)
    bars = (*list_at, targets, 0, targets.size)
    picks = np.full(fanout + 2, -7)
    count = hub_picks(bars, *arguments, 0, degree, np.uint64(key), fanout, replace, picks, 1)
    assert picks[1 : 1 + count].tolist() == twin_picks(weights, key, fanout, barred, replace)
    assert picks[0] == picks[1 + count] == -7


SETS = {
    "like": {5: 1.0, 600: 1.0, 601: 1.0, 1500: 1.0, 1699: 1.0},
    "unlike": {0: 1.0, 511: 2.0, 512: 3.0, 1023: 4.0, 1024: 8.0},
    "one enormous": {5: 1.0, 600: 1e30, 601: 2.0, 1500: 3.0, 1699: 1.0},
}


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("span", [(0, 1700), (3, 1700), (0, 1650), (5, 1650)])
def test_each_order_of_three_comes_as_often_as_drawing_in_turn_says(make_adjacency, name, span):
    low, high = span
    weights = np.zeros(1700)
    for place, weight in SETS[name].items():
        weights[place] = weight
    arguments, _ = found(weighted_lists(make_adjacency, [weights.tolist()]), 0)
    there = {place: weight for place, weight in SETS[name].items() if low <= place < high}
    expected = {}
    for order in itertools.permutations(there, 3):
        left, chance = dict(there), 1.0
        for place in order:
            chance *= left[place] / sum(left.values())
            del left[place]
        if chance > 1e-20:
            expected[order] = chance
    counts, rounds, key = dict.fromkeys(expected, 0), 12_000, key_of(3, 0, WALKS)
    picks = np.empty(3, np.int64)
    for unit in range(rounds):
        unit_key = np.uint64(mixed(key, np.uint64(unit)))
        assert hub_picks(NO_BARS, *arguments, *span, unit_key, 3, False, picks, 0) == 3
        counts[tuple(picks.tolist())] += 1
    assert abs(chi_square(list(counts.values()), rounds * np.array(list(expected.values())))) < 4
