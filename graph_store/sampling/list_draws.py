"""The kernel that draws from many lists by any rule: by chance, weight or time, in time bounds, around exclusions."""

import numpy as np

from graph_store.adjacency import LOOK_AHEAD, directory_slot, locate, locate_extra, node_mark
from graph_store.blocks import BLOCK_SHIFT, HUB_EDGES
from graph_store.draws import mixed
from graph_store.edge_positions import first_position
from graph_store.kernels import kernel, load_bits, prefetch
from graph_store.packing import bit_mask, unpack
from graph_store.sampling.exclusions import excluded_span
from graph_store.sampling.hub_picks import hub_picks
from graph_store.sampling.picks import barred_picks, recent_picks, top_picks, uniform_picks
from graph_store.sampling.rule import RECENT, TOP, UNIFORM
from graph_store.sampling.weight_sums import tree_of
from graph_store.sampling.weighted_picks import weighted_picks

# What is known of each of the lists at hand, by column.
DEGREE, BIT, BITS, FIRST, ENTRY, MARK, SLOT, LOW, HIGH = range(9)
WEIGHT, TIME_BIT, TIME_BITS, TIME_BASE, ID_BIT, ID_BITS, ID_BASE, _COLUMNS = range(9, 17)
_EARLIEST = np.int64(np.iinfo(np.int64).min)


@kernel
def _find_lists(arrays, nodes, low, size, spots):
    """Locate lists, 64 at most, as far as their directory entries and marks go."""
    words, words32, directory, group_base = arrays
    for i in range(size):
        spots[i, SLOT] = directory_slot(nodes[low + i], group_base)
        prefetch(directory, spots[i, SLOT])
    for i in range(size):
        entry = directory[spots[i, SLOT]]
        spots[i, ENTRY], spots[i, MARK] = entry, node_mark(nodes[low + i], entry, group_base)
        prefetch(words32, spots[i, MARK])
        prefetch(words, entry >> BLOCK_SHIFT)
    for i in range(size):
        degree, bit, bits, first = locate(words, words32, spots[i, ENTRY], spots[i, MARK])
        spots[i, DEGREE], spots[i, BIT], spots[i, BITS], spots[i, FIRST] = degree, bit, bits, first
        spots[i, LOW], spots[i, HIGH] = 0, degree
        prefetch(words, bit >> 6)


@kernel
def _find_columns(arrays, size, spots):
    words, words32, _, _ = arrays
    for i in range(size):
        if spots[i, DEGREE]:
            weight, time_bit, time_bits, base, id_bit, id_bits, id_base = locate_extra(
                words, words32, spots[i, ENTRY], spots[i, DEGREE], spots[i, BIT], spots[i, BITS], spots[i, FIRST]
            )
            spots[i, WEIGHT], spots[i, TIME_BIT], spots[i, TIME_BITS] = weight, time_bit, time_bits
            spots[i, TIME_BASE], spots[i, ID_BIT], spots[i, ID_BITS], spots[i, ID_BASE] = base, id_bit, id_bits, id_base
            prefetch(words32, weight)
            prefetch(words, time_bit >> 6)


@kernel
def _time_at(words, spot, place):
    return spot[TIME_BASE] + np.int64(
        unpack(words, spot[TIME_BIT] + place * spot[TIME_BITS], bit_mask(spot[TIME_BITS]))
    )


@kernel
def _first_from(words, spot, high, time):
    """Return the first place below `high` whose time is not before the given one."""
    low = np.int64(0)
    while low < high:
        middle = (low + high) >> 1
        if _time_at(words, spot, middle) < time:
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _bound_list(words, spot, bound, strict, window):
    """Keep of a list that is ordered by time the places that a bound leaves."""
    degree = spot[DEGREE]
    if degree == 0:
        return
    # Times are whole, so up to a time is before the next one.
    if strict:
        spot[HIGH] = _first_from(words, spot, degree, bound)
    elif bound < np.iinfo(np.int64).max:
        spot[HIGH] = _first_from(words, spot, degree, bound + 1)
    if window >= 0 and bound >= _EARLIEST + window:
        spot[LOW] = _first_from(words, spot, spot[HIGH], bound - window)


@kernel
def _pick(words, floats, sums, spot, rule, unit_key, excluded, node, scratch, picks, at):
    fanout, replace, method, _, _ = rule
    sources, indptr, targets = excluded
    low, high = excluded_span(sources, indptr, node)
    bars = words, spot[BIT], spot[BITS], targets, low, high
    if method == UNIFORM:
        if low == high:
            return uniform_picks(unit_key, spot[LOW], spot[HIGH] - spot[LOW], fanout, replace, picks, at)
        return barred_picks(bars, spot[LOW], spot[HIGH], unit_key, fanout, replace, picks, at)
    if method == RECENT:
        return recent_picks(bars, spot[LOW], spot[HIGH], fanout, picks, at)
    if method == TOP:
        return top_picks(bars, floats, spot[WEIGHT], spot[LOW], spot[HIGH], fanout, picks, at)
    size = spot[HIGH] - spot[LOW]
    if size > HUB_EDGES and fanout >= 0:
        tree = tree_of(sums, spot[FIRST], spot[DEGREE])
        return hub_picks(
            bars,
            floats,
            spot[WEIGHT],
            tree,
            spot[DEGREE],
            spot[LOW],
            spot[HIGH],
            unit_key,
            fanout,
            replace,
            picks,
            at,
        )
    if size > HUB_EDGES:
        scratch = np.empty(size), np.empty(size)
    return weighted_picks(
        bars, floats, spot[WEIGHT], spot[LOW], spot[HIGH], unit_key, fanout, replace, scratch, picks, at
    )


@kernel
def _gather(words, floats, spot, out, columns, low, high, position):
    """Put into `out` the neighbours of the places that are there, and into the columns what goes with them."""
    weights, times, edge_ids = columns
    bit, bits, mask = spot[BIT], spot[BITS], bit_mask(spot[BITS])
    for j in range(low, high):
        place = out[j]
        out[j] = np.int64(load_bits(words, np.uint64(bit + place * bits)) & mask)
        if weights.size:
            weights[j] = floats[spot[WEIGHT] + place]
        if times.size:
            times[j] = _time_at(words, spot, place)
        if edge_ids.size:
            if position >= 0:
                edge_ids[j] = position + place
            else:
                value = unpack(words, spot[ID_BIT] + place * spot[ID_BITS], bit_mask(spot[ID_BITS]))
                edge_ids[j] = spot[ID_BASE] + np.int64(value)


@kernel
def draw_places(arrays, runs, sums, asked, rule, key, excluded, indptr, out, columns, start, stop):
    """Draw from the lists `start … stop − 1` by a rule; returns the number of neighbours written.

    Works 64 nodes at a time: find the lists, prefetching; bound them in time and pick places, prefetching what lies
    there; gather.

    Parameters
    ----------
    arrays : words, words32, directory, group_base
    runs : blocks, shard_starts, slots
        See `Adjacency.runs`; slots are empty where edge ids are not positions.
    sums : heads, starts, sums
        See `Adjacency.weight_sums`; not read but to draw by weight.
    asked : nodes int64[n], units uint64[n], bounds int64[n]
        Units are empty where they are the nodes, bounds where there is no bound.
    rule : fanout, replace, method, strict, window
        A window of -1 is none.
    key : uint64
    excluded : sources, indptr, targets
    indptr : int64[stop − start + 1]
        Gets the ends of the lists in `out`.
    out : int64[r]
        Gets the neighbours; has room for all that may be drawn.
    columns : weights float32, times int64, edge_ids int64
        Of r items each, or empty where they are not asked for.
    """
    words, words32, _, _ = arrays
    blocks, _, slots = runs
    nodes, units, bounds = asked
    _, _, method, strict, window = rule
    floats = words32.view(np.float32)
    weights, times, edge_ids = columns
    by_column = method != UNIFORM or bounds.size + weights.size + times.size + edge_ids.size > 0
    spots = np.zeros((LOOK_AHEAD, _COLUMNS), np.int64)
    scratch = np.empty(HUB_EDGES), np.empty(HUB_EDGES)
    count = 0
    indptr[0] = 0
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        _find_lists(arrays, nodes, low, size, spots)
        if by_column:
            _find_columns(arrays, size, spots)
        if bounds.size:
            for i in range(size):
                _bound_list(words, spots[i], bounds[low + i], strict, window)
        begin = count
        for i in range(size):
            spot, node = spots[i], nodes[low + i]
            unit_key = mixed(key, units[low + i] if units.size else np.uint64(node))
            picked = _pick(words, floats, sums, spot, rule, unit_key, excluded, node, scratch, out, count)
            for j in range(count, count + picked):
                prefetch(words, (spot[BIT] + out[j] * spot[BITS]) >> 6)
            count += picked
            indptr[low + i + 1 - start] = count
        for i in range(size):
            spot, end, position = spots[i], indptr[low + i + 1 - start], np.int64(-1)
            if slots.size and end > begin:
                position = first_position(words, words32, blocks, slots, spot[SLOT], spot[ENTRY], spot[MARK])
            _gather(words, floats, spot, out, columns, begin, end, position)
            begin = end
    return count
