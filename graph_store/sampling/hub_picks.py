"""Places of a hub drawn by their weights, without replacement or around exclusions, without reading the hub."""

import numpy as np

from graph_store.blocks import HUB_EDGES
from graph_store.draws import fraction
from graph_store.kernels import kernel
from graph_store.sampling.picks import is_barred
from graph_store.sampling.probing import FREE, slot_of
from graph_store.sampling.weight_sums import drawable
from graph_store.sampling.weighted_picks import MOST_TRIED, summed_picks, tried_picks
from graph_store.sampling.weights import JUST_BELOW, MOST_PIECES, cut, piece_of, span_of, weights_of_pieces


@kernel
def _put(keys, values, used, key, value):
    """Put a value under a key; returns the table, which is a larger one where it became full, and its entries.

    It holds both the places that were taken, by even keys, and the nodes whose sums have changed, by odd ones.
    """
    slot = slot_of(keys, key)
    if keys[slot] == FREE:
        used += 1
        if 2 * used > keys.size:
            old_keys, old_values = keys, values
            keys, values = np.full(2 * old_keys.size, FREE), np.empty(2 * old_keys.size)
            for i in range(old_keys.size):
                if old_keys[i] != FREE:
                    slot = slot_of(keys, old_keys[i])
                    keys[slot], values[slot] = old_keys[i], old_values[i]
            slot = slot_of(keys, key)
    keys[slot], values[slot] = key, value
    return keys, values, used


@kernel
def _node_sum(keys, values, tree, node):
    sums, start, _ = tree
    slot = slot_of(keys, 2 * node + 1)
    return sums[start + node] if keys[slot] == FREE else values[slot]


@kernel
def _left_of(keys, floats, weight, begin, end):
    """Return the weight of what is not taken of some places."""
    total = 0.0
    for place in range(begin, end):
        own = drawable(floats[weight + place])
        if own > 0 and keys[slot_of(keys, 2 * place)] == FREE:
            total += own
    return total


@kernel
def _place_left(keys, floats, weight, begin, end, target):
    """Return the first place that is not taken up to which the weights of those exceed a target, or the last."""
    total, last = 0.0, begin
    for place in range(begin, end):
        own = drawable(floats[weight + place])
        if own > 0 and keys[slot_of(keys, 2 * place)] == FREE:
            total, last = total + own, place
            if total > target:
                break
    return last


@kernel
def _drop(keys, values, used, floats, weight, tree, span, top, node, place):
    """Take a place out of the sums above it; returns the table and what is left of the piece, whose top is given."""
    degree, low, high = span
    chunks = tree[2]
    keys, values, used = _put(keys, values, used, 2 * place, 0.0)
    begin, end = span_of(node, chunks, degree, low, high)
    left = _left_of(keys, floats, weight, begin, end)
    if node >= 0:
        keys, values, used = _put(keys, values, used, 2 * node + 1, left)
        while node != top:
            node >>= 1
            left = _node_sum(keys, values, tree, 2 * node) + _node_sum(keys, values, tree, 2 * node + 1)
            keys, values, used = _put(keys, values, used, 2 * node + 1, left)
    return keys, values, used, left


@kernel
def _piece_with(tops, count, tree, span, place):
    """Return which piece holds a place, and its leaf (or the piece itself where it is no node)."""
    degree, low, high = span
    chunks = tree[2]
    for i in range(count):
        if tops[i] < 0:
            begin, end = span_of(tops[i], chunks, degree, low, high)
            if begin <= place < end:
                return i, tops[i]
    leaf = chunks + place // HUB_EDGES
    for i in range(count):
        node = leaf
        while node > tops[i] > 0:
            node >>= 1
        if node == tops[i]:
            return i, leaf
    return -1, leaf


@kernel
def _tree_picks(bars, floats, weight, tree, span, unit_key, number, fanout, replace, picks, at, count):
    """Go on drawing from draw `number` on, `count` picks being there, by a walk down the tree each time.

    A place that is taken, or turns out to be barred, is taken out of the sums above it, which are kept beside the tree:
    some 512 places are read a draw, however the weights are spread. Where many turn out to be barred it gives up.
    Returns the picks, the number of the next draw, and whether it gave up.
    """
    degree, low, high = span
    _, _, chunks = tree
    tops, pieces = np.empty(MOST_PIECES, np.int64), np.empty(MOST_PIECES)
    keys, values, used = np.full(64, FREE), np.empty(64), np.int64(0)
    num_pieces = cut(tree, degree, low, high, tops)
    total = weights_of_pieces(floats, weight, tree, degree, low, high, tops, pieces, num_pieces)
    for i in range(0 if replace else count):
        place = picks[at + i]
        piece, node = _piece_with(tops, num_pieces, tree, span, place)
        keys, values, used, pieces[piece] = _drop(
            keys, values, used, floats, weight, tree, span, tops[piece], node, place
        )
    total, patience = pieces[:num_pieces].sum(), 4 * fanout + 64
    while total > 0.0 and count < fanout:
        piece, target = piece_of(pieces, num_pieces, fraction(unit_key, number) * total)
        number += 1
        node = tops[piece]
        while 0 <= node < chunks:
            left, right = _node_sum(keys, values, tree, 2 * node), _node_sum(keys, values, tree, 2 * node + 1)
            if target < left or right == 0.0:
                node, target = 2 * node, min(target, left * JUST_BELOW)
            else:
                node, target = 2 * node + 1, min(target - left, right * JUST_BELOW)
        begin, end = span_of(node, chunks, degree, low, high)
        place = _place_left(keys, floats, weight, begin, end, target)
        barred = is_barred(bars, place)
        if not barred:
            picks[at + count] = place
            count += 1
        elif patience == 0:
            return count, number, True
        else:
            patience -= 1
        if barred or not replace:
            keys, values, used, pieces[piece] = _drop(
                keys, values, used, floats, weight, tree, span, tops[piece], node, place
            )
            total = pieces[:num_pieces].sum()
    if count < fanout and not replace:
        picks[at : at + count].sort()
    return count, number, False


@kernel
def hub_picks(bars, floats, weight, tree, degree, low, high, unit_key, fanout, replace, picks, at):
    """Write places of `low … high − 1` of a hub into `picks[at:]`, drawn by weight; returns how many.

    Each draw is in proportion to the weight among what is left: by rejection against the greatest weight of the list,
    and once that is in vain by the sums. Places are in the order drawn; ascending where they are fewer than the fanout.
    """
    sums, start, _ = tree
    span, count, number = (degree, low, high), np.int64(0), np.int64(0)
    if fanout <= MOST_TRIED:
        count, number = tried_picks(bars, floats, weight, low, high, sums[start], unit_key, fanout, replace, picks, at)
        if count == fanout:
            return count
    count, number, gave_up = _tree_picks(
        bars, floats, weight, tree, span, unit_key, number, fanout, replace, picks, at, count
    )
    if not gave_up:
        return count
    # Nearly all of its weight is excluded: the hub is read after all.
    scratch = np.empty(high - low), np.empty(high - low)
    return summed_picks(bars, floats, weight, low, high, unit_key, number, fanout, replace, scratch, picks, at, count)
