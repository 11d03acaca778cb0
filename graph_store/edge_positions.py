"""Edge positions: which entry of an edge type, in the order of its lists, an edge is, whichever end it is read at."""

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.arena_blocks import BLOCK_SHIFT, DELTA_MASK, HUB_SHIFT
from graph_store.blocks import GROUP_BITS, HEADER_WORDS
from graph_store.kernels import int64_array, kernel, run_ranges
from graph_store.packed_lists import directory_slot, find_entry, locate, locate_extra, node_mark
from graph_store.packing import bit_mask, unpack


@kernel
def first_position(words, words32, positions, slot, entry, mark):
    """Return the position of the first entry of a list, from its node's directory slot, directory entry and mark."""
    group = ((entry >> BLOCK_SHIFT) + HEADER_WORDS) * 2 + ((entry & DELTA_MASK) << GROUP_BITS)
    if (entry >> HUB_SHIFT) & 1:
        position = positions[slot]
        for other in range(group, mark):
            position += locate(words, words32, entry, other)[0]
        return position
    return positions[slot] + np.int64(words32[mark]) - np.int64(words32[group])


@kernel
def _edge_at(words, spot, place):
    """Return the time (0 where there are none) and the neighbour at a place of a list."""
    bit, bits, time_bit, time_bits, base = spot
    time = np.int64(0)
    if time_bits:
        time = base + np.int64(unpack(words, time_bit + place * time_bits, bit_mask(time_bits)))
    return time, np.int64(unpack(words, bit + place * bits, bit_mask(bits)))


@kernel
def _first_place(words, spot, degree, time, neighbor):
    """Return the first place of a list whose (time, neighbour) is not before the given one."""
    low, high = np.int64(0), np.int64(degree)
    while low < high:
        middle = (low + high) >> 1
        own_time, own_neighbor = _edge_at(words, spot, middle)
        if own_time < time or (own_time == time and own_neighbor < neighbor):
            low = middle + 1
        else:
            high = middle
    return low


@kernel
def _spot(words, words32, entry, mark):
    degree, bit, bits, first = locate(words, words32, entry, mark)
    time_bit, time_bits, base = np.int64(0), np.int64(0), np.int64(0)
    if degree:
        _, time_bit, time_bits, base, _, _, _ = locate_extra(words, words32, entry, degree, bit, bits, first)
    return degree, (bit, bits, time_bit, time_bits, base)


@kernel
def _opposite(arrays, table, other_arrays, groups, positions, out, start, stop):
    words, words32, _, _ = arrays
    other_words, other_words32, directory, group_base = other_arrays
    blocks, shard_starts = table
    for i in range(start, stop):
        node, entry, mark, place = find_entry(words, words32, blocks, shard_starts, positions[i])
        degree, spot = _spot(words, words32, entry, mark)
        time, neighbor = _edge_at(words, spot, place)
        copy = place - _first_place(words, spot, degree, time, neighbor)
        slot = directory_slot(neighbor, group_base)
        entry = directory[slot]
        mark = node_mark(neighbor, entry, group_base)
        degree, spot = _spot(other_words, other_words32, entry, mark)
        first = first_position(other_words, other_words32, groups, slot, entry, mark)
        out[i] = first + _first_place(other_words, spot, degree, time, node) + copy


def opposite_positions(drawn: Adjacency, stored: Adjacency, positions: np.ndarray) -> np.ndarray:
    """Return where the edges at positions of one adjacency are in the one that holds the same edges the other way.

    Of an undirected type both are the same adjacency. Parallel edges of one time are in the same order at both ends:
    the i-th here is the i-th there.

    Parameters
    ----------
    drawn, stored : Adjacency
    positions : int64[n]
        Of `drawn`.

    Returns
    -------
    int64[n]
    """
    positions, out = int64_array(positions, "edge positions"), np.empty(positions.size, np.int64)
    groups = stored.group_positions
    run_ranges(
        lambda start, stop: _opposite(
            drawn.arrays, drawn.block_table, stored.arrays, groups, positions, out, start, stop
        ),
        positions.size,
        threads=drawn.threads,
    )
    return out
