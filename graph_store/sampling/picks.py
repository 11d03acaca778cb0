"""Which places of a list are drawn."""

import numpy as np

from graph_store.blocks import HUB_EDGES
from graph_store.draws import draw, mixed
from graph_store.kernels import kernel, load_bits, mix64
from graph_store.packing import bit_mask
from graph_store.sampling.exclusions import is_excluded


@kernel
def floyd(unit_key, degree, fanout, picks, at):
    """Write `fanout` distinct positions below `degree` into `picks[at:]`, uniform over the subsets.

    Floyd's method (Bentley and Floyd, CACM 1987): `fanout` draws, whatever the degree.
    """
    if fanout <= 64:
        for d in range(fanout):
            top = degree - fanout + d
            value = draw(unit_key, d, top + 1)
            for i in range(d):
                if picks[at + i] == value:
                    value = top
                    break
            picks[at + d] = value
        return
    size = 1
    while size < 2 * fanout:
        size *= 2
    seen = np.full(size, -1, np.int64)
    for d in range(fanout):
        top = degree - fanout + d
        value = draw(unit_key, d, top + 1)
        slot = np.int64(mix64(np.uint64(value)) & np.uint64(size - 1))
        while seen[slot] >= 0 and seen[slot] != value:
            slot = (slot + 1) & (size - 1)
        if seen[slot] == value:
            value = top
            slot = np.int64(mix64(np.uint64(value)) & np.uint64(size - 1))
            while seen[slot] >= 0:
                slot = (slot + 1) & (size - 1)
        seen[slot] = value
        picks[at + d] = value


@kernel
def uniform_picks(unit_key, low, size, fanout, replace, picks, at):
    """Write places of `low … low + size − 1` into `picks[at:]`, uniformly; returns how many.

    All of them in order where the fanout is negative or, without replacement, not below the size.
    """
    if fanout < 0 or (not replace and size <= fanout):
        for i in range(size):
            picks[at + i] = low + i
        return size
    if size == 0:
        return 0
    if replace:
        for d in range(fanout):
            picks[at + d] = low + draw(unit_key, d, size)
    else:
        floyd(unit_key, size, fanout, picks, at)
        for d in range(fanout):
            picks[at + d] += low
    return fanout


@kernel
def is_barred(bars, place):
    """Say whether the neighbour at a place is excluded; `bars` are (words, bit, bits, targets, low, high)."""
    words, bit, bits, targets, low, high = bars
    if low == high:
        return False
    return is_excluded(targets, low, high, np.int64(load_bits(words, np.uint64(bit + place * bits)) & bit_mask(bits)))


@kernel
def _free_picks(bars, low, high, unit_key, fanout, replace, picks, at):
    """Pick among the places that are not barred, reading them all."""
    if fanout < 0:
        count = 0
        for place in range(low, high):
            if not is_barred(bars, place):
                picks[at + count] = place
                count += 1
        return count
    free, count = np.empty(high - low, np.int64), 0
    for place in range(low, high):
        if not is_barred(bars, place):
            free[count] = place
            count += 1
    count = uniform_picks(unit_key, 0, count, fanout, replace, picks, at)
    for d in range(count):
        picks[at + d] = free[picks[at + d]]
    return count


@kernel
def barred_picks(bars, low, high, unit_key, fanout, replace, picks, at):
    """Pick uniformly where some neighbours are excluded, as `uniform_picks` does.

    A long list is not read: places are drawn until enough are free and new, which is the same distribution. Where that
    takes long, since most places are barred, the list is read after all; that a pick came so late says nothing of which
    places it holds, so the distribution stays what it is.
    """
    size = high - low
    if fanout < 0 or size <= max(HUB_EDGES, 8 * fanout):
        return _free_picks(bars, low, high, unit_key, fanout, replace, picks, at)
    slots = 2
    while slots < 2 * fanout:
        slots *= 2
    seen, count = np.full(slots, -1, np.int64), 0
    tries = 4 * fanout + 64
    for d in range(tries):
        if count == fanout:
            return count
        place = low + draw(unit_key, d, size)
        if is_barred(bars, place):
            continue
        if not replace:
            slot = np.int64(mix64(np.uint64(place)) & np.uint64(slots - 1))
            while seen[slot] >= 0 and seen[slot] != place:
                slot = (slot + 1) & (slots - 1)
            if seen[slot] == place:
                continue
            seen[slot] = place
        picks[at + count] = place
        count += 1
    return _free_picks(bars, low, high, mixed(unit_key, np.uint64(tries)), fanout, replace, picks, at)


@kernel
def recent_picks(bars, low, high, fanout, picks, at):
    """Write the last `fanout` places that are not barred, ascending; returns how many."""
    count, place = 0, high
    while place > low and count != fanout:
        place -= 1
        if not is_barred(bars, place):
            picks[at + count] = place
            count += 1
    for d in range(count // 2):
        picks[at + d], picks[at + count - 1 - d] = picks[at + count - 1 - d], picks[at + d]
    return count


@kernel
def _is_lighter(weights, places, one, other):
    """Order items by weight; of equal ones the later place is the lighter."""
    if weights[one] != weights[other]:
        return weights[one] < weights[other]
    return places[one] > places[other]


@kernel
def _sift(weights, places, at, size):
    """Move an item down the heap whose root is the lightest."""
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _is_lighter(weights, places, child + 1, child):
            child += 1
        if not _is_lighter(weights, places, child, at):
            return
        weights[at], weights[child] = weights[child], weights[at]
        places[at], places[child] = places[child], places[at]
        at = child


@kernel
def top_picks(bars, floats, weight, low, high, fanout, picks, at):
    """Write the `fanout` places of the greatest weights, the heaviest first; in order where they are all there are.

    Weights are `floats[weight + place]`; NaN is never picked. Returns how many.
    """
    limit = high - low if fanout < 0 else min(fanout, high - low)
    if limit == 0:
        return 0
    weights, places = np.empty(limit, np.float32), picks[at : at + limit]
    count, full = 0, False
    for place in range(low, high):
        value = floats[weight + place]
        if np.isnan(value) or (full and value <= weights[0]) or is_barred(bars, place):
            continue
        if count < limit:
            weights[count], places[count] = value, place
            count += 1
            continue
        if not full:
            for i in range(limit // 2, -1, -1):
                _sift(weights, places, i, limit)
            full = True
        if value > weights[0]:
            weights[0], places[0] = value, place
            _sift(weights, places, 0, limit)
    if full:
        for last in range(limit - 1, 0, -1):
            weights[0], weights[last] = weights[last], weights[0]
            places[0], places[last] = places[last], places[0]
            _sift(weights, places, 0, last)
    return count
