"""Kernels of node2vec walks, whose next node depends on the one before (Grover and Leskovec, KDD 2016).

From node v, reached from t, an edge to x is taken in proportion to its weight times 1 / p where x is t, 1 where t has
an edge to x, and 1 / q where it has none. Rejection sampling (Yang et al., KnightKing, SOSP 2019) needs no table of
these chances: an edge of v is drawn by its weight alone and accepted with its factor over the greatest of the three.
Most are accepted or refused before one looks for x among the neighbours of t.
"""

import numpy as np

from graph_store.adjacency import LOOK_AHEAD, list_has, locate_extra
from graph_store.draws import draw, fraction
from graph_store.kernels import kernel, load_bits, prefetch
from graph_store.packing import bit_mask
from graph_store.sampling.walk_kernels import (
    BIT,
    DEGREE,
    ENTRY,
    FIRST,
    NUM_ROWS,
    PREFETCHED,
    WIDTH,
    find_lists,
    neighbor_at,
    number_of,
    starts_again,
)
from graph_store.sampling.weight_sums import drawable, tree_of
from graph_store.sampling.weights import draw_one

# A walker's list is read whole once it was refused so often and as often as the list is long.
_LEAST_TRIES = 16


@kernel
def _draw_place(floats, table, weighted, weight, lists, i, unit_key, number):
    """Draw a place of the i-th list by its weights alone; -1 where there is none."""
    degree = lists[DEGREE, i]
    if degree == 0:
        return np.int64(-1)
    if not weighted:
        return draw(unit_key, number, degree)
    tree = tree_of(table, lists[FIRST, i], degree)
    return draw_one(floats, weight, tree, degree, np.int64(0), degree, unit_key, number)


@kernel
def _factor(words, before, i, previous, node, by_time, back, away):
    if node == previous:
        return back
    return 1.0 if list_has(words, before[DEGREE, i], before[BIT, i], before[WIDTH, i], node, by_time) else away


@kernel
def _draw_among_all(words, floats, weighted, weight, lists, before, i, previous, by_time, factors, part):
    """Draw a place of the i-th list by the chances of all its places."""
    back, away = factors
    degree, bit, width = lists[DEGREE, i], lists[BIT, i], lists[WIDTH, i]
    sums, total = np.empty(degree), 0.0
    for place in range(degree):
        own = drawable(floats[weight + place]) if weighted else 1.0
        if own > 0.0:
            node = neighbor_at(words, bit + place * width, width)
            own *= _factor(words, before, i, previous, node, by_time, back, away)
        total += own
        sums[place] = total
    return np.int64(np.searchsorted(sums, part * total, side="right")) if total > 0.0 else np.int64(-1)


@kernel
def _search_together(words, before, tested, count, targets, is_there):
    """Say of some walkers whether the list before, in order of nodes, has their target: a look at each in turn."""
    lows, highs = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    open_, left = np.empty(LOOK_AHEAD, np.int64), count
    for k in range(count):
        i = tested[k]
        lows[i], highs[i], is_there[i], open_[k] = 0, before[DEGREE, i], False, i
        prefetch(words, (before[BIT, i] + (before[DEGREE, i] >> 1) * before[WIDTH, i]) >> 6)
    while left:
        still = 0
        for k in range(left):
            i = open_[k]
            low, high = lows[i], highs[i]
            if low >= high:
                continue
            middle = (low + high) >> 1
            width = before[WIDTH, i]
            value = np.int64(load_bits(words, np.uint64(before[BIT, i] + middle * width)) & bit_mask(width))
            if value == targets[i]:
                is_there[i] = True
                continue
            if value < targets[i]:
                low = middle + 1
            else:
                high = middle
            lows[i], highs[i] = low, high
            prefetch(words, (before[BIT, i] + ((low + high) >> 1) * width) >> 6)
            open_[still] = i
            still += 1
        left = still


@kernel
def node2vec_hops(arrays, table, keys, paths, rule, hops, restart, start, stop):
    """Take some hops; what is not said is as of `uniform_hops`.

    Parameters
    ----------
    table : heads, starts, sums
        See `Adjacency.weight_sums`.
    rule : weighted, by_time, 1 / p, 1 / q
        Whether edges have weights that count, and whether lists are in order of times.
    """
    words, words32, _, _ = arrays
    weighted, by_time, back, away = rule
    floats = words32.view(np.float32)
    highest, lowest = max(1.0, back, away), min(1.0, away)
    limit = max(1.0, away)  # of all but the way back
    lists, before = np.empty((NUM_ROWS, LOOK_AHEAD), np.int64), np.empty((NUM_ROWS, LOOK_AHEAD), np.int64)
    origins, walkers = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    previous, weights = np.empty(LOOK_AHEAD, np.int64), np.zeros(LOOK_AHEAD, np.int64)
    places, targets = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    waiting, tested = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    scores, is_there = np.empty(LOOK_AHEAD), np.empty(LOOK_AHEAD, np.bool_)
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        for hop in range(hops[0], hops[1]):
            count, first_number = 0, number_of(hop) + 1
            for i in range(low, low + size):
                paths[i, hop + 1] = -1
                if paths[i, hop] >= 0:
                    again = starts_again(hop, 1, keys[i], restart)
                    origins[count], walkers[count] = paths[i, 0] if again else paths[i, hop], i
                    previous[count] = -1
                    if hop > 0 and not again:
                        since = starts_again(hop - 1, 1, keys[i], restart)
                        previous[count] = paths[i, 0] if since else paths[i, hop - 1]
                    count += 1
            # Where there is none before, its own list stands in and is not asked.
            for i in range(count):
                targets[i] = previous[i] if previous[i] >= 0 else origins[i]
            find_lists(arrays, targets, count, before)
            find_lists(arrays, origins, count, lists)
            for i in range(count):
                waiting[i] = i
                if weighted and lists[DEGREE, i]:
                    weights[i] = locate_extra(
                        words,
                        words32,
                        lists[ENTRY, i],
                        lists[DEGREE, i],
                        lists[BIT, i],
                        lists[WIDTH, i],
                        lists[FIRST, i],
                    )[0]
                    for place in range(0, min(lists[DEGREE, i], PREFETCHED), 16):
                        prefetch(floats, weights[i] + place)
            left, attempt = count, 0
            while left:
                number, num_tested, still = first_number + 2 * attempt, 0, 0
                for k in range(left):
                    i = waiting[k]
                    key = keys[walkers[i]]
                    if attempt >= max(_LEAST_TRIES, lists[DEGREE, i]):
                        factors, part = (back, away), fraction(key, number)
                        places[i] = _draw_among_all(
                            words, floats, weighted, weights[i], lists, before, i, previous[i], by_time, factors, part
                        )
                    else:
                        places[i] = _draw_place(floats, table, weighted, weights[i], lists, i, key, number)
                    prefetch(words, (lists[BIT, i] + places[i] * lists[WIDTH, i]) >> 6)
                for k in range(left):
                    i = waiting[k]
                    if places[i] < 0:
                        continue
                    walker, width = walkers[i], lists[WIDTH, i]
                    targets[i] = neighbor_at(words, lists[BIT, i] + places[i] * width, width)
                    if previous[i] < 0 or attempt >= max(_LEAST_TRIES, lists[DEGREE, i]):
                        paths[walker, hop + 1] = targets[i]
                        continue
                    score = highest * fraction(keys[walker], number + 1)
                    if score < (back if targets[i] == previous[i] else lowest):
                        paths[walker, hop + 1] = targets[i]
                    elif targets[i] == previous[i] or score >= limit:
                        waiting[still] = i
                        still += 1
                    else:
                        scores[i] = score
                        tested[num_tested] = i
                        num_tested += 1
                if by_time:
                    for k in range(num_tested):
                        i = tested[k]
                        degree, bit, width = before[DEGREE, i], before[BIT, i], before[WIDTH, i]
                        is_there[i] = list_has(words, degree, bit, width, targets[i], True)
                else:
                    _search_together(words, before, tested, num_tested, targets, is_there)
                for k in range(num_tested):
                    i = tested[k]
                    if scores[i] < (1.0 if is_there[i] else away):
                        paths[walkers[i], hop + 1] = targets[i]
                    else:
                        waiting[still] = i
                        still += 1
                left, attempt = still, attempt + 1
