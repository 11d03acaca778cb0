"""Where the packed words of the arena have a list and what goes with it: what every kernel that reads lists calls."""

import numpy as np

from graph_store.arena_blocks import BITS_SHIFT, BLOCK_SHIFT, DELTA_MASK, HUB_SHIFT, MARKS_SHIFT, directory_entry
from graph_store.blocks import (
    DEGREE_MASK,
    FLAG_EDGE_IDS,
    FLAG_WEIGHTS,
    GROUP_BITS,
    GROUP_NODES,
    HEADER_WORDS,
    HUB_MARK,
    MAX_EDGE_ID,
)
from graph_store.kernels import inlined, kernel
from graph_store.packing import bit_mask, unpack, words_of

# Lists that a kernel finds before it reads them, so that they wait for memory together.
LOOK_AHEAD = 64


@kernel
def directory_slot(node: int, group_base: np.ndarray) -> np.int64:
    """Return where the directory has the group of a node."""
    num_shards = np.uint64(group_base.size - 1)
    local = np.uint64(node) // num_shards
    shard = np.int64(np.uint64(node) - local * num_shards)
    return group_base[shard] + np.int64(local >> np.uint64(GROUP_BITS))


@kernel
def node_mark(node: int, entry: int, group_base: np.ndarray) -> np.int64:
    """Return which 32-bit word of the arena holds the node's `indptr` mark, from its directory entry."""
    local = np.int64(np.uint64(node) // np.uint64(group_base.size - 1))
    inside = ((entry & DELTA_MASK) << GROUP_BITS) | (local & (GROUP_NODES - 1))
    return ((entry >> BLOCK_SHIFT) + HEADER_WORDS) * 2 + inside


@inlined
def _hubs_among(words32, low, high):
    """Count the hubs among some marks; places that are known to be positive are read without a look at their sign."""
    count = np.uint32(0)
    for i in range(np.uint64(low), np.uint64(high)):
        count += words32[i] >> np.uint32(31)
    return np.int64(count)


@kernel
def locate(words, words32, entry, mark):
    """Find a list: (degree, bit of its first neighbour, bits a neighbour, edge within the block or -1 at a hub)."""
    block, bits = entry >> BLOCK_SHIFT, (entry >> BITS_SHIFT) & 0x3F
    low, high = words32[mark], words32[mark + 1]
    heads = block + HEADER_WORDS + ((entry >> MARKS_SHIFT) & 0x3FF)
    if low & HUB_MARK:
        head = heads + 4 * _hubs_among(words32, (block + HEADER_WORDS) * 2, mark)
        return np.int64(words[head]), (block + np.int64(words[head + 1])) << 6, bits, -1 - head
    if (entry >> HUB_SHIFT) & 1:  # a block with hubs: count its heads
        marks, num_nodes = (block + HEADER_WORDS) * 2, np.int64(words32[block * 2 + 4])
        heads += 4 * _hubs_among(words32, marks, marks + num_nodes)
    start = np.int64(low)
    return np.int64(high & DEGREE_MASK) - start, (heads << 6) + start * bits, bits, start


@kernel
def locate_extra(words, words32, entry, degree, bit, bits, start):
    """Find what goes with a located list.

    Returns (word of the first weight, bit of the first time, bits a time, base of times, bit of the first edge id, bits
    an edge id, base of edge ids).
    """
    block = entry >> BLOCK_SHIFT
    flags = words[block] >> np.uint64(40)
    if start < 0:
        head = -1 - start
        section = (bit >> 6) + words_of(degree, bits) + 1
        stored, first, widths = np.int64(degree), np.int64(0), np.int64(words[head + 2])
        time_bits, base, time_at = widths & np.int64(0xFF), np.int64(words[head + 3]), 0
    else:
        section = ((bit - start * bits) >> 6) + words_of(np.int64(words32[block * 2 + 5]), bits) + 1
        stored, first = np.int64(words32[block * 2 + 5]), start
        time_bits, base, time_at = np.int64(words[block] >> np.uint64(56)), np.int64(0), 1
    weight = section * 2 + first
    if flags & np.uint64(FLAG_WEIGHTS):
        section += (stored + 1) >> 1
    time_bit = 0
    if time_bits:
        if time_at:
            base = np.int64(words[section])
        time_bit = ((section + time_at) << 6) + first * time_bits
        section += time_at + words_of(stored, time_bits) + 1
    id_bit, id_bits, id_base = np.int64(0), np.int64(0), np.int64(0)
    if flags & np.uint64(FLAG_EDGE_IDS) and stored:
        id_bits = np.int64(words[section] >> np.uint64(56))
        id_base = np.int64(words[section] & np.uint64(MAX_EDGE_ID))
        id_bit = ((section + 1) << 6) + first * id_bits
    return weight, time_bit, time_bits, base, id_bit, id_bits, id_base


@kernel
def entry_of(node: int, directory: np.ndarray, group_base: np.ndarray) -> int:
    """Return the directory entry of a node."""
    return directory[directory_slot(node, group_base)]


@kernel
def list_has(words, degree, bit, bits, target, by_time):
    """Say whether a located list holds the node `target`; its order is by node, or by time (`by_time`)."""
    value_mask = bit_mask(bits)
    wanted = np.uint64(target)
    if by_time:
        for j in range(degree):
            if unpack(words, bit + j * bits, value_mask) == wanted:
                return True
        return False
    low, high = 0, degree
    while low < high:
        middle = (low + high) >> 1
        value = unpack(words, bit + middle * bits, value_mask)
        if value == wanted:
            return True
        if value < wanted:
            low = middle + 1
        else:
            high = middle
    return False


@inlined
def find_entry(words, words32, blocks, shard_starts, position):
    """Find the entry at a position: (node, directory entry and mark of the node, place of the entry in its list)."""
    num_shards, num_blocks = shard_starts.size - 1, blocks.size // 3
    low, high = 0, num_blocks
    while high - low > 1:  # the last block whose first edge is not behind the position
        middle = (low + high) >> 1
        if blocks[3 * middle + 1] <= position:
            low = middle
        else:
            high = middle
    shard = np.searchsorted(shard_starts, low, side="right") - 1
    block, left = blocks[3 * low], position - blocks[3 * low + 1] + blocks[3 * low + 2]
    num_nodes = np.int64(words32[block * 2 + 4])
    entry = directory_entry(words[block], num_nodes, block)
    marks = (block + HEADER_WORDS) * 2
    node = np.int64(0)
    if (words[block] >> np.uint64(40)) & np.uint64(4):
        while True:
            degree = locate(words, words32, entry, marks + node)[0]
            if left < degree:
                break
            left, node = left - degree, node + 1
    else:
        behind = num_nodes
        while behind - node > 1:
            middle = (node + behind) >> 1
            if np.int64(words32[marks + middle]) <= left:
                node = middle
            else:
                behind = middle
        left -= np.int64(words32[marks + node])
    return (np.int64(words[block + 1]) + node) * num_shards + shard, entry, marks + node, left
