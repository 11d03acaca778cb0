"""Kernels that advance walks along one adjacency: uniformly, by weight, in time.

They work in blocks of 64 walkers. Of a block all walkers take a hop together: find where their lists lie, draw a place,
read the neighbour there, each a pass that asks the memory for what the next one reads. Draws are numbered within a walk
by `number_of(hop)`: the first decides whether it starts again, those behind it where it goes.
"""

import numpy as np

from graph_store.draws import draw, fraction, mixed
from graph_store.kernels import kernel, load_bits, prefetch
from graph_store.packed_lists import LOOK_AHEAD, locate_extra
from graph_store.packing import bit_mask, unpack
from graph_store.sampling.located import BIT, BITS, DEGREE, ENTRY, FIRST, NUM_ROWS, find_lists
from graph_store.sampling.weight_sums import tree_of
from graph_store.sampling.weights import draw_one

# Of a list's weights so many are asked for in advance; what lies behind them the processor foresees.
PREFETCHED = 128
_LATEST = np.int64(np.iinfo(np.int64).max)


@kernel
def unit_keys(key, positions, walks, keys):
    """Fill in the key of the draws of each walk: walk w from a start is number `position · walks + w` of the step."""
    for i in range(positions.size):
        for j in range(walks):
            keys[i * walks + j] = mixed(key, np.uint64(positions[i]) * np.uint64(walks) + np.uint64(j))


@kernel
def number_of(hop):
    """Return the number of the first draw of a hop."""
    return np.int64(hop) << 32


@kernel
def starts_again(hop, period, unit_key, restart):
    """Say whether a walk goes back to its start before a hop: at each beginning of a round of `period` hops it may."""
    return restart > 0.0 and hop > 0 and hop % period == 0 and fraction(unit_key, number_of(hop)) < restart


@kernel
def _who_goes_on(paths, keys, clocks, times, when, low, size, origins, walkers):
    """List the walkers of a block that have not ended, and from where each takes its hop; returns how many.

    `when` is (hop, period, restart); who starts again has its clock, if any, set back. Column hop + 1 gets -1 for all.
    """
    hop, period, restart = when
    count = 0
    for i in range(low, low + size):
        paths[i, hop + 1] = -1
        if paths[i, hop] >= 0:
            again = starts_again(hop, period, keys[i], restart)
            if again and clocks.size:
                clocks[i] = times[i]
            origins[count], walkers[count] = paths[i, 0] if again else paths[i, hop], i
            count += 1
    return count


@kernel
def neighbor_at(words, bit, width):
    """Return the neighbour at a bit."""
    return np.int64(load_bits(words, np.uint64(bit)) & bit_mask(width))


@kernel
def uniform_hops(arrays, keys, paths, hops, period, restart, start, stop):
    """Take some hops, each to a neighbour drawn uniformly.

    A walk that has ended at a dead end does not start again.

    Parameters
    ----------
    arrays : words, words32, directory, group_base
    keys : uint64[n]
        See `unit_keys`.
    paths : int64[n, length + 1]
        Nodes so far; of hop h column h + 1 is filled in, with -1 behind a dead end.
    hops : first, last
    period, restart
        See `starts_again`.
    """
    words = arrays[0]
    lists = np.empty((NUM_ROWS, LOOK_AHEAD), np.int64)
    origins, walkers = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    bits, no_clocks = np.empty(LOOK_AHEAD, np.int64), np.empty(0, np.int64)
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        for hop in range(hops[0], hops[1]):
            count = _who_goes_on(paths, keys, no_clocks, no_clocks, (hop, period, restart), low, size, origins, walkers)
            find_lists(arrays, origins, 0, count, lists)
            for i in range(count):
                bits[i] = -1
                if lists[DEGREE, i]:
                    place = draw(keys[walkers[i]], number_of(hop) + 1, lists[DEGREE, i])
                    bits[i] = lists[BIT, i] + place * lists[BITS, i]
                    prefetch(words, bits[i] >> 6)
            for i in range(count):
                if bits[i] >= 0:
                    paths[walkers[i], hop + 1] = neighbor_at(words, bits[i], lists[BITS, i])


@kernel
def _time_at(words, column, place):
    bit, bits, base = column
    return base + np.int64(unpack(words, bit + place * bits, bit_mask(bits)))


@kernel
def _first_after(words, column, low, high, time):
    """Return the first of the places `low … high − 1` whose time is later than the given one; `high` where none is."""
    while low < high:
        middle = (low + high) >> 1
        if _time_at(words, column, middle) > time:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def _places_in_time(words, column, degree, clock, strict, window):
    """Return where the places begin and end whose times do not go back behind a clock, nor past its window."""
    low = np.int64(0)
    if strict or clock > np.iinfo(np.int64).min:
        low = _first_after(words, column, low, degree, clock if strict else clock - 1)
    high = degree
    if window >= 0 and clock <= _LATEST - window:
        high = _first_after(words, column, low, degree, clock + window)
    return low, high


@kernel
def valued_hops(arrays, table, keys, paths, clocks, times, rule, hops, period, restart, start, stop):
    """Take some hops by weight, in time, or both; what is not said is as of `uniform_hops`.

    Parameters
    ----------
    table : heads, starts, sums
        See `Adjacency.weight_sums`.
    clocks : int64[n]
        The time of the last edge of each walk, or that of its start; empty where edges have no times.
    times : int64[n]
        Those of the starts.
    rule : weighted, strict, window
        A window of -1 is none.
    """
    words, words32, _, _ = arrays
    weighted, strict, window = rule
    floats = words32.view(np.float32)
    lists = np.empty((NUM_ROWS, LOOK_AHEAD), np.int64)
    columns = np.empty((4, LOOK_AHEAD), np.int64)
    origins, walkers = np.empty(LOOK_AHEAD, np.int64), np.empty(LOOK_AHEAD, np.int64)
    places = np.empty(LOOK_AHEAD, np.int64)
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        for hop in range(hops[0], hops[1]):
            count = _who_goes_on(paths, keys, clocks, times, (hop, period, restart), low, size, origins, walkers)
            find_lists(arrays, origins, 0, count, lists)
            for i in range(count):
                degree = lists[DEGREE, i]
                if degree:
                    weight, time_bit, time_bits, base, _, _, _ = locate_extra(
                        words, words32, lists[ENTRY, i], degree, lists[BIT, i], lists[BITS, i], lists[FIRST, i]
                    )
                    columns[0, i], columns[1, i], columns[2, i], columns[3, i] = weight, time_bit, time_bits, base
                    if weighted:
                        for place in range(0, min(degree, PREFETCHED), 16):
                            prefetch(floats, weight + place)
                    if clocks.size:
                        prefetch(words, (time_bit + (degree >> 1) * time_bits) >> 6)
            for i in range(count):
                degree, walker = lists[DEGREE, i], walkers[i]
                places[i] = -1
                begin, end = np.int64(0), degree
                if clocks.size and degree:
                    column = columns[1, i], columns[2, i], columns[3, i]
                    begin, end = _places_in_time(words, column, degree, clocks[walker], strict, window)
                if begin == end:
                    continue
                if weighted:
                    tree = tree_of(table, lists[FIRST, i], degree)
                    number = number_of(hop) + 1
                    places[i] = draw_one(floats, columns[0, i], tree, degree, begin, end, keys[walker], number)
                else:
                    places[i] = begin + draw(keys[walker], number_of(hop) + 1, end - begin)
                prefetch(words, (lists[BIT, i] + places[i] * lists[BITS, i]) >> 6)
            for i in range(count):
                if places[i] >= 0:
                    bit = lists[BIT, i] + places[i] * lists[BITS, i]
                    paths[walkers[i], hop + 1] = neighbor_at(words, bit, lists[BITS, i])
                    if clocks.size:
                        column = columns[1, i], columns[2, i], columns[3, i]
                        clocks[walkers[i]] = _time_at(words, column, places[i])
