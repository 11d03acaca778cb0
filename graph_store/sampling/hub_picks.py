"""Places of a hub drawn by their weights, without replacement or around exclusions, without reading the hub."""

import numpy as np

from graph_store.draws import fraction
from graph_store.kernels import kernel, mix64
from graph_store.sampling.picks import is_barred
from graph_store.sampling.weight_sums import drawable
from graph_store.sampling.weights import JUST_BELOW, MOST_PIECES, cut, piece_of, span_of, weights_of_pieces

# One table holds both the places that were taken, by even keys, and the nodes whose sums have changed, by odd ones.
_FREE = np.int64(-1)


@kernel
def _find(keys, key):
    mask = np.uint64(keys.size - 1)
    slot = np.int64(mix64(np.uint64(key)) & mask)
    while keys[slot] != _FREE and keys[slot] != key:
        slot = np.int64(np.uint64(slot + 1) & mask)
    return slot


@kernel
def _put(keys, values, used, key, value):
    """Put a value under a key; returns the table, which is a larger one where it became full, and its entries."""
    slot = _find(keys, key)
    if keys[slot] == _FREE:
        used += 1
        if 2 * used > keys.size:
            old_keys, old_values = keys, values
            keys, values = np.full(2 * old_keys.size, _FREE), np.empty(2 * old_keys.size)
            for i in range(old_keys.size):
                if old_keys[i] != _FREE:
                    slot = _find(keys, old_keys[i])
                    keys[slot], values[slot] = old_keys[i], old_values[i]
            slot = _find(keys, key)
    keys[slot], values[slot] = key, value
    return keys, values, used


@kernel
def _node_sum(keys, values, tree, node):
    sums, start, _ = tree
    slot = _find(keys, 2 * node + 1)
    return sums[start + node] if keys[slot] == _FREE else values[slot]


@kernel
def _weight_left(keys, floats, weight, place):
    own = drawable(floats[weight + place])
    return 0.0 if own > 0 and keys[_find(keys, 2 * place)] != _FREE else own


@kernel
def hub_picks(bars, floats, weight, tree, degree, low, high, unit_key, fanout, replace, picks, at):
    """Write places of `low … high − 1` of a hub into `picks[at:]`, drawn by weight; returns how many.

    Each draw is in proportion to the weight among what is left. A place that is taken, or turns out to be barred, is
    taken out of the sums above it, which are kept beside the tree: some 512 places are read a draw, however the weights
    are spread. Places are in the order drawn; ascending where they are all that can be drawn.
    """
    _, _, chunks = tree
    tops, pieces = np.empty(MOST_PIECES, np.int64), np.empty(MOST_PIECES)
    keys, values, used = np.full(16, _FREE), np.empty(16), 0
    num_pieces = cut(tree, degree, low, high, tops)
    total = weights_of_pieces(floats, weight, tree, degree, low, high, tops, pieces, num_pieces)
    count, number = 0, 0
    while total > 0.0 and count < fanout:
        chosen, target = piece_of(pieces, num_pieces, fraction(unit_key, number) * total)
        number += 1
        node = tops[chosen]
        while 0 <= node < chunks:
            left, right = _node_sum(keys, values, tree, 2 * node), _node_sum(keys, values, tree, 2 * node + 1)
            if target < left or right == 0.0:
                node, target = 2 * node, min(target, left * JUST_BELOW)
            else:
                node, target = 2 * node + 1, min(target - left, right * JUST_BELOW)
        begin, end = span_of(node, chunks, degree, low, high)
        place, before = begin, 0.0
        for j in range(begin, end):
            own = _weight_left(keys, floats, weight, j)
            if own > 0:
                place, before = j, before + own
                if before > target:
                    break
        barred = is_barred(bars, place)
        if not barred:
            picks[at + count] = place
            count += 1
        if replace and not barred:
            continue
        keys, values, used = _put(keys, values, used, 2 * place, 0.0)
        left_over = 0.0
        for j in range(begin, end):
            left_over += _weight_left(keys, floats, weight, j)
        if node >= 0:
            keys, values, used = _put(keys, values, used, 2 * node + 1, left_over)
            while node != tops[chosen]:
                node >>= 1
                left_over = _node_sum(keys, values, tree, 2 * node) + _node_sum(keys, values, tree, 2 * node + 1)
                keys, values, used = _put(keys, values, used, 2 * node + 1, left_over)
        pieces[chosen], total = left_over, 0.0
        for i in range(num_pieces):
            total += pieces[i]
    if total == 0.0 and not replace:
        picks[at : at + count].sort()
    return count
