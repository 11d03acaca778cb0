"""Kernels of node2vec walks, whose next node depends on the one before (Grover and Leskovec, KDD 2016).

From node v, reached from t, an edge to x is taken in proportion to its weight times 1 / p where x is t, 1 where t has
an edge to x, and 1 / q where it has none. Rejection sampling (Yang et al., KnightKing, SOSP 2019) needs no table of
these chances: an edge of v is drawn by its weight alone and accepted with its factor over the greatest of the three.
Most are accepted or refused before one looks for x among the neighbours of t. Where the way back has the greatest
factor by far, what it has above the others is a chance of its own, so that they are not refused for its sake.
"""

import numpy as np

from graph_store.blocks import GROUP_NODES
from graph_store.draws import draw, fraction
from graph_store.kernels import inlined, kernel, load_bits, prefetch
from graph_store.packed_lists import list_has, locate_extra
from graph_store.packing import bit_mask
from graph_store.sampling.located import BIT, BITS, DEGREE, ENTRY, FIRST, NUM_ROWS, find_lists
from graph_store.sampling.walk_kernels import PREFETCHED, neighbor_at, number_of, starts_again
from graph_store.sampling.weight_sums import drawable, tree_of
from graph_store.sampling.weights import draw_one

# A walker's list is read whole once it was refused so often and as often as the list is long.
_LEAST_TRIES = 16
# Walkers that go together: of few that are left after some tries the memory is not kept busy.
_TOGETHER = 128


@kernel
def _guess(degree, target, num_nodes):
    """Return the place at which a sorted list has a target if its nodes are spread evenly."""
    return np.int64(min(np.float64(target) * degree / num_nodes, degree - 1.0))


@kernel
def _value(words, bit, width, mask, place):
    return np.int64(load_bits(words, np.uint64(bit + place * width)) & mask)


@kernel
def first_not_below(words, bit, width, degree, target, num_nodes):
    """Return the first place of a sorted list whose node is not below the target: a guess, then ever larger steps."""
    low, high, mask = np.int64(0), np.int64(degree), bit_mask(width)
    if degree > 16:
        at = _guess(degree, target, num_nodes)
        value = _value(words, bit, width, mask, at)
        # How far off the guess is in nodes says how far off it is in places.
        nearer = at + np.float64(target - value) * degree / num_nodes
        at = np.int64(max(0.0, min(nearer, degree - 1.0)))
        step = 2
        if _value(words, bit, width, mask, at) < target:
            low = at + 1
            while low < high:
                at = min(low + step, high) - 1
                if _value(words, bit, width, mask, at) >= target:
                    high = at
                    break
                low, step = at + 1, 2 * step
        else:
            high = at
            while low < high:
                at = max(high - step, low)
                if _value(words, bit, width, mask, at) < target:
                    low = at + 1
                    break
                high, step = at, 2 * step
    while low < high:
        middle = (low + high) >> 1
        if _value(words, bit, width, mask, middle) < target:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def copies_of(words, bit, width, degree, target, num_nodes):
    """Return where a sorted list begins to have a target, and how often it has it."""
    first, mask = first_not_below(words, bit, width, degree, target, num_nodes), bit_mask(width)
    copies = np.int64(0)
    while first + copies < degree and _value(words, bit, width, mask, first + copies) == target:
        copies += 1
    return first, copies


@kernel
def _draw_place(floats, table, weight, lists, i, unit_key, number):
    """Draw a place of the i-th list by its weights alone, -1 where none has one; uniformly where there are none."""
    degree = lists[DEGREE, i]
    if weight < 0:
        return draw(unit_key, number, degree)
    tree = tree_of(table, lists[FIRST, i], degree)
    return draw_one(floats, weight, tree, degree, np.int64(0), degree, unit_key, number)


@kernel
def _draw_among_all(words, floats, weight, lists, before, i, previous, by_time, back, away, part):
    """Draw a place of the i-th list by the chances of all its places; -1 where none has any."""
    degree, bit, width = lists[DEGREE, i], lists[BIT, i], lists[BITS, i]
    sums, total = np.empty(degree), 0.0
    for place in range(degree):
        own = drawable(floats[weight + place]) if weight >= 0 else 1.0
        node = neighbor_at(words, bit + place * width, width)
        if node == previous:
            own *= back
        elif own > 0.0 and not list_has(words, before[DEGREE, i], before[BIT, i], before[BITS, i], node, by_time):
            own *= away
        total += own
        sums[place] = total
    return np.int64(np.searchsorted(sums, part * total, side="right")) if total > 0.0 else np.int64(-1)


@kernel
def _move_on(paths, keys, hop, restart, lists, block, before):
    """Keep the walkers of a block that have not ended; returns how many, with where they are and were before."""
    walkers, origins, previous, count = block
    kept = 0
    for k in range(count):
        i = walkers[k]
        if paths[i, hop] < 0:
            continue
        for row in (DEGREE, BIT, BITS):
            before[row, kept] = lists[row, k]
        again = starts_again(hop, 1, keys[i], restart)
        walkers[kept], previous[kept] = i, -1 if again or hop == 0 else origins[k]
        origins[kept] = paths[i, 0] if again else paths[i, hop]
        kept += 1
    return kept


@kernel
def _find_weights(words, words32, floats, lists, count, weights):
    """Find the first weight of each list that has any, and ask the memory for some."""
    for i in range(count):
        if lists[DEGREE, i]:
            weights[i] = locate_extra(
                words, words32, lists[ENTRY, i], lists[DEGREE, i], lists[BIT, i], lists[BITS, i], lists[FIRST, i]
            )[0]
            for place in range(0, min(lists[DEGREE, i], PREFETCHED), 16):
                prefetch(floats, weights[i] + place)


@kernel
def _line_up(words, lists, count, previous, chances, waiting, tops):
    """Let the walkers whose lists are not empty wait for a draw; returns how many.

    Each gets in `tops` the sum of the chance that what it draws is measured by and, where that is `apart`, of what the
    way back has above.
    """
    apart, distinct, limit, back, num_nodes = chances
    left = 0
    for i in range(count):
        degree, bit, width = lists[DEGREE, i], lists[BIT, i], lists[BITS, i]
        if degree == 0:
            continue
        waiting[left], tops[i] = i, max(limit, back)
        left += 1
        if apart and previous[i] >= 0:
            # One is assumed, and refused later where it is none, which saves most hops the search.
            copies = 1
            if not distinct:
                copies = copies_of(words, bit, width, degree, previous[i], num_nodes)[1]
            tops[i] = limit + (back - limit) * copies / degree
    return left


@inlined
def _is_near(words, before, i, node, by_time, num_nodes):
    """Say whether the node where the i-th walker was before has an edge to a node."""
    degree, bit, width = before[DEGREE, i], before[BIT, i], before[BITS, i]
    if by_time:
        return list_has(words, degree, bit, width, node, True)
    return copies_of(words, bit, width, degree, node, num_nodes)[1] > 0


@kernel
def node2vec_hops(arrays, table, keys, paths, rule, hops, restart, start, stop):
    """Take some hops; what is not said is as of `uniform_hops`.

    Parameters
    ----------
    table : heads, starts, sums
        See `Adjacency.weight_sums`.
    rule : weighted, by_time, distinct, 1 / p, 1 / q
        Whether edges have weights that count, whether lists are in order of times, and whether none has a node twice.
    """
    words, words32, directory, _ = arrays
    weighted, by_time, distinct, back, away = rule
    floats, num_nodes = words32.view(np.float32), np.float64(directory.size * GROUP_NODES)
    # The greatest and the least factor but for the way back.
    limit, least = max(1.0, away), min(1.0, away)
    apart = back > limit and not weighted and not by_time
    lists, before = np.zeros((NUM_ROWS, _TOGETHER), np.int64), np.zeros((NUM_ROWS, _TOGETHER), np.int64)
    walkers, origins = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64)
    previous, weights = np.empty(_TOGETHER, np.int64), np.full(_TOGETHER, -1)
    places, nodes = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64)
    waiting, tested = np.empty(_TOGETHER, np.int64), np.empty(_TOGETHER, np.int64)
    tops, scores = np.empty(_TOGETHER), np.empty(_TOGETHER)
    for low in range(start, stop, _TOGETHER):
        count = min(_TOGETHER, stop - low)
        for k in range(count):
            walkers[k], origins[k] = low + k, 0
        if hops[0] > 0:
            for k in range(count):
                again = starts_again(hops[0] - 1, 1, keys[low + k], restart)
                # Of a walk that has ended its start stands in and is not asked.
                since = paths[low + k, 0 if again else hops[0] - 1]
                origins[k] = since if since >= 0 else paths[low + k, 0]
            find_lists(arrays, origins, 0, count, lists)
        for hop in range(hops[0], hops[1]):
            paths[low : min(low + _TOGETHER, stop), hop + 1] = -1
            count = _move_on(paths, keys, hop, restart, lists, (walkers, origins, previous, count), before)
            find_lists(arrays, origins, 0, count, lists)
            if weighted:
                _find_weights(words, words32, floats, lists, count, weights)
            if apart and not distinct:
                for i in range(count):
                    place = _guess(lists[DEGREE, i], previous[i], num_nodes)
                    prefetch(words, (lists[BIT, i] + place * lists[BITS, i]) >> 6)
            chances = apart, distinct, limit, back, num_nodes
            attempt, left = 0, _line_up(words, lists, count, previous, chances, waiting, tops)
            while left:
                number, num_tested, still, drawn = number_of(hop) + 1 + 2 * attempt, 0, 0, 0
                for k in range(left):
                    i = waiting[k]
                    key, degree = keys[walkers[i]], lists[DEGREE, i]
                    scores[i] = -1.0  # whatever is drawn is taken
                    if previous[i] >= 0 and attempt >= max(_LEAST_TRIES, degree):
                        part = fraction(key, number)
                        places[i] = _draw_among_all(
                            words, floats, weights[i], lists, before, i, previous[i], by_time, back, away, part
                        )
                    else:
                        if previous[i] >= 0:
                            scores[i] = tops[i] * fraction(key, number + 1)
                            if apart and scores[i] >= limit:
                                places[i] = -1
                                bit, width = lists[BIT, i], lists[BITS, i]
                                if copies_of(words, bit, width, degree, previous[i], num_nodes)[1]:
                                    paths[walkers[i], hop + 1] = previous[i]
                                else:
                                    waiting[drawn] = i
                                    drawn += 1
                                continue
                        places[i] = _draw_place(floats, table, weights[i], lists, i, key, number)
                    if places[i] >= 0:
                        prefetch(words, (lists[BIT, i] + places[i] * lists[BITS, i]) >> 6)
                        waiting[drawn] = i
                        drawn += 1
                for k in range(drawn):
                    i = waiting[k]
                    if places[i] < 0:
                        waiting[still] = i
                        still += 1
                        continue
                    width = lists[BITS, i]
                    node = neighbor_at(words, lists[BIT, i] + places[i] * width, width)
                    if scores[i] < (back if node == previous[i] else least):
                        paths[walkers[i], hop + 1] = node
                    elif node == previous[i] or scores[i] >= limit:
                        waiting[still] = i
                        still += 1
                    else:
                        nodes[i], tested[num_tested] = node, i
                        num_tested += 1
                        place = _guess(before[DEGREE, i], node, num_nodes)
                        prefetch(words, (before[BIT, i] + place * before[BITS, i]) >> 6)
                for k in range(num_tested):
                    i = tested[k]
                    if scores[i] < (1.0 if _is_near(words, before, i, nodes[i], by_time, num_nodes) else away):
                        paths[walkers[i], hop + 1] = nodes[i]
                    else:
                        waiting[still] = i
                        still += 1
                left, attempt = still, attempt + 1
