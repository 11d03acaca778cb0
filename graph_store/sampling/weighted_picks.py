"""Places of a list drawn in proportion to their weights.

Without replacement the scheme is the sequential one: each draw is in proportion to the weight among what is left. What
was drawn stays in the sums for a while and is drawn again in vain, which changes nothing of the distribution of what
comes next; once it makes up half of the sum, the sum is made again without it. So an enormous weight costs one more
pass, and nothing is ever subtracted: a weight of 1 beside one of 1e30 is drawn in its turn.
"""

import numpy as np

from graph_store.draws import fraction
from graph_store.kernels import kernel
from graph_store.sampling.picks import is_barred
from graph_store.sampling.weight_sums import drawable


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
def weighted_picks(bars, floats, weight, low, high, unit_key, fanout, replace, scratch, picks, at):
    """Write places of `low … high − 1` into `picks[at:]`, drawn by weight; returns how many.

    Weights are `floats[weight + place]`. Where all that can be drawn are taken, they are in order. `scratch` is two
    float64[s], s not below `high − low`.
    """
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
    total, taken = _add_up(own, sums, size), 0.0
    count, number = 0, 0
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
