"""Which places of a list are drawn."""

import numpy as np

from graph_store.blocks import HUB_EDGES
from graph_store.draws import draw, mixed
from graph_store.kernels import kernel, load_bits, mix64, prefetch
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
    count = uniform_picks(unit_key, np.int64(0), count, fanout, replace, picks, at)
    for d in range(count):
        picks[at + d] = free[picks[at + d]]
    return count


@kernel
def barred_picks(bars, low, high, unit_key, fanout, replace, picks, at):
    """Pick uniformly where some neighbours are excluded, as `uniform_picks` does.

    A list of more than four times as many is not read: places are drawn until enough are free and new, which is the
    same distribution. Where that takes long, since most places are barred, the list is read after all; that a pick came
    so late says nothing of which places it holds, so the distribution stays what it is.
    """
    size = high - low
    if fanout < 0 or size <= 4 * fanout:
        return _free_picks(bars, low, high, unit_key, fanout, replace, picks, at)
    slots = 2
    while slots < 2 * fanout:
        slots *= 2
    seen, count = np.full(slots, -1, np.int64), 0
    words, bit, bits, _, _, _ = bars
    tries, first = 4 * fanout + 64, 0
    while first < tries and count < fanout:
        last = min(tries, first + fanout - count)
        for d in range(first, last):
            prefetch(words, (bit + (low + draw(unit_key, d, size)) * bits) >> 6)
        for d in range(first, last):
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
        first = last
    if count == fanout:
        return count
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
def _offer(bars, floats, weight, low, high, heap, state):
    """Let places compete for those of a heap; `state` is how many it holds, and whether it is one yet."""
    weights, places = heap
    count, full = state
    limit = weights.size
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
    return count, full


@kernel
def _in_order(heap, state):
    """Put a heap's places heaviest first, or leave them ascending where nothing was left out; returns how many."""
    weights, places = heap
    count, full = state
    if full:
        for last in range(count - 1, 0, -1):
            weights[0], weights[last] = weights[last], weights[0]
            places[0], places[last] = places[last], places[0]
            _sift(weights, places, 0, last)
    return count


@kernel
def top_picks(bars, floats, weight, low, high, fanout, picks, at):
    """Write the `fanout` places of the greatest weights, the heaviest first; in order where they are all there are.

    Weights are `floats[weight + place]`; NaN is never picked. Returns how many.
    """
    limit = high - low if fanout < 0 else min(fanout, high - low)
    if limit == 0:
        return 0
    heap = np.empty(limit, np.float32), picks[at : at + limit]
    return _in_order(heap, _offer(bars, floats, weight, low, high, heap, (np.int64(0), False)))


@kernel
def _least_of_greatest(peaks, limit):
    """Return the limit-th greatest of some peaks; there are as many."""
    weights, places = peaks[:limit].copy(), np.zeros(limit, np.int64)
    for i in range(limit // 2, -1, -1):
        _sift(weights, places, i, limit)
    for i in range(limit, peaks.size):
        if peaks[i] > weights[0]:
            weights[0] = peaks[i]
            _sift(weights, places, 0, limit)
    return weights[0]


@kernel
def top_hub_picks(bars, floats, weight, peaks, low, high, fanout, picks, at):
    """Do as `top_picks` on a hub whose places 512c … 512c + 511 have the greatest weight `peaks[c]`.

    If each of k chunks has a place of a weight or more, a lighter one is none of the k heaviest; so few chunks are read
    besides the peaks.
    """
    limit = min(fanout, high - low)
    if limit == 0:
        return 0
    heap, state = (np.empty(limit, np.float32), picks[at : at + limit]), (np.int64(0), False)
    left, right = (low + HUB_EDGES - 1) // HUB_EDGES, high // HUB_EDGES
    if left >= right:
        return _in_order(heap, _offer(bars, floats, weight, low, high, heap, state))
    least = np.float32(-np.inf)
    if bars[4] == bars[5] and right - left >= limit:
        least = _least_of_greatest(peaks[left:right], limit)
    state = _offer(bars, floats, weight, low, left * HUB_EDGES, heap, state)
    for chunk in range(left, right):
        if peaks[chunk] >= least and (not state[1] or peaks[chunk] > heap[0][0]):
            state = _offer(bars, floats, weight, chunk * HUB_EDGES, (chunk + 1) * HUB_EDGES, heap, state)
    return _in_order(heap, _offer(bars, floats, weight, right * HUB_EDGES, high, heap, state))
