"""The kernel that draws from many lists by any rule: by chance, weight or time, in time bounds, around exclusions."""

import numpy as np

from graph_store.arena_blocks import BLOCK_SHIFT
from graph_store.blocks import FLAG_WEIGHTS, HUB_EDGES
from graph_store.draws import mixed
from graph_store.edge_positions import first_position
from graph_store.kernels import kernel, load_bits, prefetch
from graph_store.packed_lists import LOOK_AHEAD, locate_extra
from graph_store.packing import bit_mask, unpack, words_of
from graph_store.sampling.exclusions import excluded_span
from graph_store.sampling.hub_picks import hub_picks
from graph_store.sampling.located import BIT, BITS, DEGREE, ENTRY, FIRST, MARK, NUM_ROWS, SLOT, find_lists
from graph_store.sampling.picks import barred_picks, recent_picks, top_hub_picks, top_picks, uniform_picks
from graph_store.sampling.rule import TOP, UNIFORM
from graph_store.sampling.weight_sums import tree_of
from graph_store.sampling.weighted_picks import weighted_picks

# What else is known of each of the lists at hand: the places that may be drawn, and where their columns lie.
LOW, HIGH = range(NUM_ROWS, NUM_ROWS + 2)
WEIGHT, TIME_BIT, TIME_BITS, TIME_BASE, ID_BIT, ID_BITS, ID_BASE, _ROWS = range(NUM_ROWS + 2, NUM_ROWS + 10)
_EARLIEST, _LATEST = np.int64(np.iinfo(np.int64).min), np.int64(np.iinfo(np.int64).max)


@kernel
def _find_lists(arrays, nodes, low, size, spots):
    """Locate lists, 64 at most, of which all places are there."""
    words = arrays[0]
    find_lists(arrays, nodes, low, size, spots)
    for i in range(size):
        spots[LOW, i], spots[HIGH, i] = 0, spots[DEGREE, i]
        prefetch(words, spots[ENTRY, i] >> BLOCK_SHIFT)
        prefetch(words, spots[BIT, i] >> 6)


@kernel
def _find_columns(arrays, size, spots):
    words, words32, _, _ = arrays
    for i in range(size):
        # Behind neighbours and weights is the first time, which is looked at next.
        block, first, bits = spots[ENTRY, i] >> BLOCK_SHIFT, spots[FIRST, i], spots[BITS, i]
        stored, begin = spots[DEGREE, i], spots[BIT, i]
        if first >= 0:
            stored, begin = np.int64(words32[block * 2 + 5]), begin - first * bits
        section = (begin >> 6) + words_of(stored, bits) + 1
        prefetch(
            words, section + (stored + 1) // 2 * np.int64((words[block] >> np.uint64(40)) & np.uint64(FLAG_WEIGHTS))
        )
    for i in range(size):
        if spots[DEGREE, i]:
            weight, time_bit, time_bits, base, id_bit, id_bits, id_base = locate_extra(
                words, words32, spots[ENTRY, i], spots[DEGREE, i], spots[BIT, i], spots[BITS, i], spots[FIRST, i]
            )
            spots[WEIGHT, i], spots[TIME_BIT, i], spots[TIME_BITS, i] = weight, time_bit, time_bits
            spots[TIME_BASE, i] = base
            spots[ID_BIT, i], spots[ID_BITS, i], spots[ID_BASE, i] = id_bit, id_bits, id_base
            prefetch(words32, weight)


@kernel
def _first_from(words, spots, size, ends, limits, found):
    """Find in each list the first place below its end whose time is not before its limit.

    All lists are searched at once, a step each in turn, so that they wait for memory together.
    """
    at_work, starts, stops = np.empty(LOOK_AHEAD, np.int64), np.zeros(LOOK_AHEAD, np.int64), ends[:size].copy()
    count = 0
    for i in range(size):
        if stops[i]:
            at_work[count] = i
            count += 1
            prefetch(words, (spots[TIME_BIT, i] + (stops[i] >> 1) * spots[TIME_BITS, i]) >> 6)
    while count:
        left = 0
        for k in range(count):
            i = at_work[k]
            bit, bits, low, high = spots[TIME_BIT, i], spots[TIME_BITS, i], starts[i], stops[i]
            middle = (low + high) >> 1
            time = spots[TIME_BASE, i] + np.int64(unpack(words, bit + middle * bits, bit_mask(bits)))
            before = time < limits[i]
            low = middle + 1 if before else low
            high = high if before else middle
            starts[i], stops[i] = low, high
            prefetch(words, (bit + ((low + high) >> 1) * bits) >> 6)
            at_work[left] = i
            left += 1 if low < high else 0
        count = left
    found[:size] = starts[:size]


@kernel
def _bound_lists(words, spots, size, bounds, at, strict, window):
    """Keep of lists that are ordered by time the places that their bounds leave."""
    limits = np.empty(LOOK_AHEAD, np.int64)
    for i in range(size):
        # Times are whole, so up to a time is before the next one; up to the last there is all.
        limits[i] = bounds[at + i] + np.int64(not strict and bounds[at + i] < _LATEST)
    _first_from(words, spots, size, spots[DEGREE], limits, spots[HIGH])
    for i in range(size):
        if not strict and bounds[at + i] == _LATEST:
            spots[HIGH, i] = spots[DEGREE, i]
    if window >= 0:
        for i in range(size):
            limits[i] = max(bounds[at + i], _EARLIEST + window) - window
        _first_from(words, spots, size, spots[HIGH], limits, spots[LOW])


@kernel
def _pick_by_weight(words, floats, hubs, spots, i, rule, unit_key, bars, scratch, picks, at):
    """Pick places of a list by weight, or the heaviest."""
    sums, peaks = hubs
    fanout, replace, method, _, _ = rule
    low, high, weight, degree = spots[LOW, i], spots[HIGH, i], spots[WEIGHT, i], spots[DEGREE, i]
    if method == TOP and high - low > HUB_EDGES and fanout >= 0:
        _, start, chunks = tree_of(sums, spots[FIRST, i], degree)
        own = peaks[start // 2 : start // 2 + chunks]
        return top_hub_picks(bars, floats, weight, own, low, high, fanout, picks, at)
    if method == TOP:
        return top_picks(bars, floats, weight, low, high, fanout, picks, at)
    if high - low > HUB_EDGES and fanout >= 0:
        tree = tree_of(sums, spots[FIRST, i], degree)
        return hub_picks(bars, floats, weight, tree, degree, low, high, unit_key, fanout, replace, picks, at)
    if high - low > HUB_EDGES:
        scratch = np.empty(high - low), np.empty(high - low)
    return weighted_picks(bars, floats, weight, low, high, unit_key, fanout, replace, scratch, picks, at)


@kernel
def _barred(excluded, node):
    """Return whether the targets of a node are among the few, and where they begin and end there or among the many."""
    few, few_ends, _, many, many_ends, _ = excluded
    if few.size:
        first, last = excluded_span(few, few_ends, node)
        if first < last:
            return True, first, last
    if many.size:
        first, last = excluded_span(many, many_ends, node)
        return False, first, last
    return False, np.int64(0), np.int64(0)


@kernel
def _prefetch_places(words, words32, spots, i, wanted, picks, low, high):
    """Ask for what is to be gathered of a list."""
    bit, bits = spots[BIT, i], spots[BITS, i]
    weights, times, edge_ids = wanted
    for j in range(low, high):
        prefetch(words, (bit + picks[j] * bits) >> 6)
    if weights:
        for j in range(low, high):
            prefetch(words32, spots[WEIGHT, i] + picks[j])
    if times:
        for j in range(low, high):
            prefetch(words, (spots[TIME_BIT, i] + picks[j] * spots[TIME_BITS, i]) >> 6)
    if edge_ids:
        for j in range(low, high):
            prefetch(words, (spots[ID_BIT, i] + picks[j] * spots[ID_BITS, i]) >> 6)


@kernel
def _gather(words, floats, spots, i, out, columns, low, high, position):
    """Put into `out` the neighbours of the places that are there, and into the columns what goes with them."""
    weights, times, edge_ids = columns
    if weights.size:
        weight = spots[WEIGHT, i]
        for j in range(low, high):
            weights[j] = floats[weight + out[j]]
    if times.size:
        bit, bits, base = spots[TIME_BIT, i], spots[TIME_BITS, i], spots[TIME_BASE, i]
        mask = bit_mask(bits)
        for j in range(low, high):
            times[j] = base + np.int64(unpack(words, bit + out[j] * bits, mask))
    if edge_ids.size and position >= 0:
        for j in range(low, high):
            edge_ids[j] = position + out[j]
    elif edge_ids.size:
        bit, bits, base = spots[ID_BIT, i], spots[ID_BITS, i], spots[ID_BASE, i]
        mask = bit_mask(bits)
        for j in range(low, high):
            edge_ids[j] = base + np.int64(unpack(words, bit + out[j] * bits, mask))
    bit, bits, mask = spots[BIT, i], spots[BITS, i], bit_mask(spots[BITS, i])
    for j in range(low, high):
        out[j] = np.int64(load_bits(words, np.uint64(bit + out[j] * bits)) & mask)


@kernel
def gather_places(arrays, groups, nodes, indptr, out, columns, start, stop):
    """Put in the place of places `indptr[i] … indptr[i + 1] − 1` of list i the neighbours, and what goes with them."""
    words, words32, _, _ = arrays
    weights, times, edge_ids = columns
    wanted = weights.size > 0, times.size > 0, edge_ids.size > 0 and groups.size == 0
    spots = np.zeros((_ROWS, LOOK_AHEAD), np.int64)
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        _find_lists(arrays, nodes, low, size, spots)
        if wanted[0] or wanted[1] or wanted[2]:
            _find_columns(arrays, size, spots)
        for i in range(size):
            begin, end, position = indptr[low + i], indptr[low + i + 1], np.int64(-1)
            _prefetch_places(words, words32, spots, i, wanted, out, begin, end)
            if groups.size and end > begin:
                position = first_position(words, words32, groups, spots[SLOT, i], spots[ENTRY, i], spots[MARK, i])
            _gather(words, words32.view(np.float32), spots, i, out, columns, begin, end, position)


@kernel
def _prepare(arrays, asked, low, size, spots, by_column, rule):
    """Find 64 lists at most, from node `low` on, and bound them in time."""
    nodes, _, bounds = asked
    _find_lists(arrays, nodes, low, size, spots)
    if by_column:
        _find_columns(arrays, size, spots)
    if bounds.size:
        _bound_lists(arrays[0], spots, size, bounds, low, rule[3], rule[4])


@kernel
def _gather_lists(arrays, groups, spots, size, ends, at, begin, out, columns):
    """Gather what was picked of lists; `ends[at + i]` is where the picks of list i end in `out`."""
    words, words32, _, _ = arrays
    for i in range(size):
        end, position = ends[at + i], np.int64(-1)
        if groups.size and end > begin:
            position = first_position(words, words32, groups, spots[SLOT, i], spots[ENTRY, i], spots[MARK, i])
        _gather(words, words32.view(np.float32), spots, i, out, columns, begin, end, position)
        begin = end


@kernel
def draw_places(arrays, groups, asked, rule, key, excluded, indptr, out, columns, start, stop):
    """Draw from the lists `start … stop − 1`, uniformly or the latest; returns the number of neighbours written.

    Works 64 nodes at a time: find the lists, prefetching; bound them in time and pick places, prefetching what lies
    there; gather.

    Parameters
    ----------
    arrays : words, words32, directory, group_base
    groups : int64[g]
        See `Adjacency.group_positions`; empty where edge ids are not positions.
    asked : nodes int64[n], units uint64[n], bounds int64[n]
        Units are empty where they are the nodes, bounds where there is no bound.
    rule : fanout, replace, method, strict, window
        A window of -1 is none.
    key : uint64
    excluded : see `Exclusions.arrays`
    indptr : int64[stop − start + 1]
        Gets the ends of the lists in `out`.
    out : int64[r]
        Gets the neighbours; has room for all that may be drawn.
    columns : weights float32, times int64, edge_ids int64
        Of r items each, or empty where they are not asked for.
    """
    words, words32, _, _ = arrays
    nodes, units, bounds = asked
    fanout, replace, method, _, _ = rule
    _, _, few, _, _, many = excluded
    weights, times, edge_ids = columns
    wanted = weights.size > 0, times.size > 0, edge_ids.size > 0 and groups.size == 0
    by_column = bounds.size > 0 or wanted[0] or wanted[1] or wanted[2]
    spots = np.zeros((_ROWS, LOOK_AHEAD), np.int64)
    # As int64 from the beginning: of a literal 0 what is called here would be compiled once more.
    count = np.int64(0)
    indptr[0] = 0
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        _prepare(arrays, asked, low, size, spots, by_column, rule)
        begin = count
        for i in range(size):
            unit_key = mixed(key, units[low + i] if units.size else np.uint64(nodes[low + i]))
            in_few, first, last = False, np.int64(0), np.int64(0)
            if few.size + many.size:
                in_few, first, last = _barred(excluded, nodes[low + i])
            from_, to, bit, bits = spots[LOW, i], spots[HIGH, i], spots[BIT, i], spots[BITS, i]
            if method == UNIFORM and first == last:
                picked = uniform_picks(unit_key, from_, to - from_, fanout, replace, out, count)
            else:
                bars = words, bit, bits, few if in_few else many, first, last
                if method == UNIFORM:
                    picked = barred_picks(bars, from_, to, unit_key, fanout, replace, out, count)
                else:
                    picked = recent_picks(bars, from_, to, fanout, out, count)
            _prefetch_places(words, words32, spots, i, wanted, out, count, count + picked)
            count += picked
            indptr[low + i + 1 - start] = count
        _gather_lists(arrays, groups, spots, size, indptr, low + 1 - start, begin, out, columns)
    return count


@kernel
def draw_places_by_weight(arrays, groups, hubs, asked, rule, key, excluded, indptr, out, columns, start, stop):
    """Do as `draw_places` by weight, or with the heaviest; `hubs` are their weights' sums and peaks.

    See `Adjacency.weight_sums` and `Adjacency.weight_peaks`; the peaks are empty where a rule does not look at them.
    It is a kernel of its own since it takes longest to compile.
    """
    words, words32, _, _ = arrays
    nodes, units, _ = asked
    _, _, few, _, _, many = excluded
    weights, times, edge_ids = columns
    floats = words32.view(np.float32)
    wanted = weights.size > 0, times.size > 0, edge_ids.size > 0 and groups.size == 0
    spots = np.zeros((_ROWS, LOOK_AHEAD), np.int64)
    scratch = np.empty(HUB_EDGES), np.empty(HUB_EDGES)
    no_bars = words, np.int64(0), np.int64(1), few, np.int64(0), np.int64(0)
    count = np.int64(0)
    indptr[0] = 0
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        _prepare(arrays, asked, low, size, spots, True, rule)
        begin = count
        for i in range(size):
            unit_key = mixed(key, units[low + i] if units.size else np.uint64(nodes[low + i]))
            in_few, first, last = False, np.int64(0), np.int64(0)
            if few.size + many.size:
                in_few, first, last = _barred(excluded, nodes[low + i])
            bars = no_bars
            if first < last:
                bars = words, spots[BIT, i], spots[BITS, i], few if in_few else many, first, last
            picked = _pick_by_weight(words, floats, hubs, spots, i, rule, unit_key, bars, scratch, out, count)
            _prefetch_places(words, words32, spots, i, wanted, out, count, count + picked)
            count += picked
            indptr[low + i + 1 - start] = count
        _gather_lists(arrays, groups, spots, size, indptr, low + 1 - start, begin, out, columns)
    return count
