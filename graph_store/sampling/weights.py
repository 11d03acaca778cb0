"""Places of a list picked in proportion to their weights; those of hubs without reading the list.

A weight that is zero, negative or NaN is never picked. What is picked is found by inverting the cumulated weights,
which are always added up and never subtracted from: a place of weight 1 beside one of 1e30 is picked in its turn once
the other is taken.
"""

import numpy as np

from graph_store.blocks import HUB_EDGES
from graph_store.draws import draw, fraction, mixed
from graph_store.kernels import kernel
from graph_store.sampling.weight_sums import drawable, eight_weights, range_weight

# The tree of a list of 2^31 edges is cut into no more pieces than that, two ends included.
MOST_PIECES = 64
# What a piece is when it is no node of the tree.
_FIRST_PLACES, _LAST_PLACES = -1, -2
_TRIES = 12
JUST_BELOW = 1.0 - 2.0**-53


@kernel
def place_of(floats, weight, low, high, target):
    """Return the first place of `low … high − 1` up to which the weights exceed `target`, which is below their sum.

    They are added up as `range_weight` does; -1 where none has a weight.
    """
    total, at, end, found = 0.0, np.uint64(weight + low), np.uint64(weight + high), np.int64(-1)
    while at + np.uint64(8) <= end:
        more = eight_weights(floats, at)
        if total + more > target:
            end = at + np.uint64(8)
            break
        total += more
        at += np.uint64(8)
    while at < end:
        own = drawable(floats[at])
        if own > 0.0:
            total, found = total + own, np.int64(at) - weight
            if total > target:
                break
        at += np.uint64(1)
    return found


@kernel
def cut(tree, degree, low, high, tops):
    """Cut the places `low … high − 1` of a hub into nodes of its tree and two ends; returns how many pieces."""
    _, _, chunks = tree
    if low == 0 and high == degree:
        tops[0] = 1
        return 1
    count = 0
    left = (low + HUB_EDGES - 1) // HUB_EDGES
    right = chunks if high == degree else high // HUB_EDGES
    if left * HUB_EDGES > low:
        tops[count] = _FIRST_PLACES
        count += 1
    if right * HUB_EDGES < high:
        tops[count] = _LAST_PLACES
        count += 1
    left, right = left + chunks, right + chunks
    while left < right:
        if left & 1:
            tops[count] = left
            left, count = left + 1, count + 1
        if right & 1:
            right -= 1
            tops[count] = right
            count += 1
        left, right = left >> 1, right >> 1
    return count


@kernel
def span_of(top, chunks, degree, low, high):
    """Return where the places of a piece without children begin and end."""
    if top == _FIRST_PLACES:
        return low, (low + HUB_EDGES - 1) // HUB_EDGES * HUB_EDGES
    if top == _LAST_PLACES:
        return high // HUB_EDGES * HUB_EDGES, high
    begin = (top - chunks) * HUB_EDGES
    return begin, min(begin + HUB_EDGES, degree)


@kernel
def weights_of_pieces(floats, weight, tree, degree, low, high, tops, pieces, count):
    """Fill in the weight of each piece and return that of all."""
    sums, start, chunks = tree
    total = 0.0
    for i in range(count):
        if tops[i] < 0:
            begin, end = span_of(tops[i], chunks, degree, low, high)
            pieces[i] = range_weight(floats, weight, begin, end)
        else:
            pieces[i] = sums[start + tops[i]]
        total += pieces[i]
    return total


@kernel
def piece_of(pieces, count, target):
    """Return the piece in which a target falls, and the target within it."""
    chosen = 0
    for i in range(count):
        if pieces[i] > 0:
            chosen = i
            if target < pieces[i]:
                break
            target -= pieces[i]
    # By rounding a target may be past what the last piece holds.
    return chosen, min(max(target, 0.0), pieces[chosen] * JUST_BELOW)


@kernel
def pick_one(floats, weight, tree, degree, low, high, part):
    """Return the place of `low … high − 1` at a fraction, in [0, 1), of their weights; -1 where none has a weight.

    Weights are `floats[weight + place]`, `tree` is that of the whole list (see `tree_of`), which has `degree` places.
    A long range takes a walk down the tree and a look at 512 places.
    """
    sums, start, chunks = tree
    if start < 0 or high - low <= HUB_EDGES:
        total = range_weight(floats, weight, low, high)
        return place_of(floats, weight, low, high, part * total)
    tops, pieces = np.empty(MOST_PIECES, np.int64), np.empty(MOST_PIECES)
    count = cut(tree, degree, low, high, tops)
    total = weights_of_pieces(floats, weight, tree, degree, low, high, tops, pieces, count)
    if total == 0.0:
        return np.int64(-1)
    chosen, target = piece_of(pieces, count, part * total)
    node = tops[chosen]
    while 0 <= node < chunks:
        left, right = sums[start + 2 * node], sums[start + 2 * node + 1]
        if target < left or right == 0.0:
            node, target = 2 * node, min(target, left * JUST_BELOW)
        else:
            node, target = 2 * node + 1, min(target - left, right * JUST_BELOW)
    begin, end = span_of(node, chunks, degree, low, high)
    return place_of(floats, weight, begin, end, target)


@kernel
def draw_one(floats, weight, tree, degree, low, high, unit_key, number):
    """Return a place of `low … high − 1` drawn by weight, -1 where none has one; the rest is as of `pick_one`.

    From a long range it is tried by rejection: a place at random is kept with the chance that its weight is of the
    greatest of the list, which reads one place a try. Where all tries are in vain the sums decide. Whether they were
    says nothing of the place, so each has its exact chance.
    """
    sums, start, _ = tree
    if start >= 0 and high - low > HUB_EDGES:
        own_key, greatest = mixed(unit_key, np.uint64(number)), sums[start]
        for attempt in range(_TRIES):
            place = low + draw(own_key, 2 * attempt, high - low)
            if fraction(own_key, 2 * attempt + 1) * greatest < drawable(floats[weight + place]):
                return place
    return pick_one(floats, weight, tree, degree, low, high, fraction(unit_key, number))
