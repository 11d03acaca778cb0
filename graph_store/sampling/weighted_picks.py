"""Places of a list drawn in proportion to their weights.

A draw is tried a few times by rejection against the greatest weight, which reads what it tries; where that is in vain,
since few places have most of the weight, it and those that follow go by sums of all weights.

Without replacement the scheme is the sequential one: each draw is in proportion to the weight among what is left. What
was drawn stays in the sums for a while and is drawn again in vain, which changes nothing of the distribution of what
comes next; once it makes up half of the sum, the sum is made again without it. So an enormous weight costs one more
pass, and nothing is ever subtracted: a weight of 1 beside one of 1e30 is drawn in its turn.
"""

import numpy as np

from graph_store.draws import draw, fraction
from graph_store.kernels import kernel
from graph_store.sampling.picks import is_barred
from graph_store.sampling.weight_sums import drawable

_HIGHEST_BITS = np.int32(0x7F7FFFFF)
# Tries of a draw by rejection; fanouts for which what is taken is looked through from one end to the other; how many
# times the fanout there have to be.
TRIES, MOST_TRIED, LEAST_SHARE = 16, 64, 4


@kernel
def _add_up(own, sums, size):
    total = 0.0
    for j in range(size):
        total += own[j]
        sums[j] = total
    return total


@kernel
def _place_of(sums, size, target):
    """Return the first place whose sum is above the target; the last that has a weight where rounding leaves none."""
    low, high = 0, size - 1
    target = min(target, np.nextafter(sums[size - 1], 0.0))
    while low < high:
        middle = (low + high) >> 1
        if sums[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _survey(bits):
    """Return how many weights are above zero, and the bits of the greatest: as integers they are ordered as they are.

    NaN and infinity are above every number, and below zero is below every positive number. Two plain loops over int32,
    which the processor goes through eight at a time.
    """
    greatest, count = np.int32(0), np.int32(0)
    for j in range(bits.size):
        greatest = max(greatest, bits[j])
    for j in range(bits.size):
        count += np.int32(bits[j] > 0)
    return count, greatest


@kernel
def tried_picks(bars, floats, weight, low, high, greatest, unit_key, fanout, replace, picks, at):
    """Draw by weight by rejection, until a draw is tried in vain; returns the picks and the number of the next draw.

    A place at random is kept with the chance that its weight is of the `greatest`, if it is neither taken nor barred.
    What is kept has its exact chance among what is left, and so has what is drawn in another way once this gave up.
    """
    count, number = np.int64(0), np.int64(0)
    while count < fanout:
        found = np.int64(-1)
        for _ in range(TRIES):
            place = low + draw(unit_key, number, high - low)
            kept = fraction(unit_key, number + 1) * greatest < drawable(floats[weight + place])
            number += 2
            if kept and (replace or not _is_picked(picks, at, count, place)) and not is_barred(bars, place):
                found = place
                break
        if found < 0:
            break
        picks[at + count] = found
        count += 1
    return count, number


@kernel
def _is_picked(picks, at, count, place):
    for i in range(at, at + count):
        if picks[i] == place:
            return True
    return False


@kernel
def weighted_picks(bars, floats, weight, low, high, unit_key, fanout, replace, scratch, picks, at):
    """Write places of `low … high − 1` into `picks[at:]`, drawn by weight; returns how many.

    Weights are `floats[weight + place]`. Where all that can be drawn are taken, they are in order. `scratch` is two
    float64[s], s not below `high − low`.
    """
    there, greatest = _survey(floats.view(np.int32)[weight + low : weight + high])
    count, number = np.int64(0), np.int64(0)
    if LEAST_SHARE * fanout <= there and 0 <= fanout <= MOST_TRIED and greatest <= _HIGHEST_BITS:
        limit = np.float64(np.int32(greatest).view(np.float32))
        count, number = tried_picks(bars, floats, weight, low, high, limit, unit_key, fanout, replace, picks, at)
        if count == fanout:
            return count
    return summed_picks(bars, floats, weight, low, high, unit_key, number, fanout, replace, scratch, picks, at, count)


@kernel
def summed_picks(bars, floats, weight, low, high, unit_key, number, fanout, replace, scratch, picks, at, count):
    """Go on drawing from draw `number` on, `count` picks being there, by sums of all weights."""
    own, sums = scratch
    size, there = high - low, 0
    for j in range(size):
        value = drawable(floats[weight + low + j])
        if value > 0 and is_barred(bars, low + j):
            value = 0.0
        own[j] = value
        there += value > 0
    if fanout < 0 or (not replace and there <= fanout):
        count = 0
        for j in range(size):
            if own[j] > 0:
                picks[at + count] = low + j
                count += 1
        return count
    if there == 0:
        return 0
    if not replace:
        for i in range(at, at + count):
            own[picks[i] - low] = 0.0
    total, taken = _add_up(own, sums, size), 0.0
    while count < fanout:
        place = _place_of(sums, size, fraction(unit_key, number) * total)
        number += 1
        if not replace:
            if own[place] == 0:
                continue
            taken += own[place]
            own[place] = 0.0
        picks[at + count] = low + place
        count += 1
        if taken > 0.5 * total and count < fanout:
            total, taken = _add_up(own, sums, size), 0.0
    return count
