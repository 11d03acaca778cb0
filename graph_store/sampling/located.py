"""Where the lists of some nodes lie: found for all at once, so that they wait for memory together."""

import numpy as np

from graph_store.arena_blocks import BLOCK_SHIFT, DELTA_MASK, HUB_SHIFT, MARKS_SHIFT
from graph_store.blocks import GROUP_BITS, GROUP_NODES, HEADER_WORDS
from graph_store.kernels import kernel, prefetch
from graph_store.packed_lists import locate
from graph_store.packing import bit_length

# What is known of each list, by row: see `adjacency.locate`, and its node's directory entry, mark and directory slot.
DEGREE, BIT, BITS, FIRST, ENTRY, MARK, SLOT, NUM_ROWS = range(8)


@kernel
def find_lists(arrays, nodes, low, size, lists):
    """Locate the lists of `nodes[low … low + size − 1]`, some dozens.

    Parameters
    ----------
    arrays : words, words32, directory, group_base
    nodes : int64[n]
    lists : int64[NUM_ROWS or more, size or more]
        Gets in column i what is known of the i-th list.
    """
    words, words32, directory, group_base = arrays
    num_shards = np.uint64(group_base.size - 1)
    # A power of two, the default of 16 among them, needs no division.
    shift = np.uint64(bit_length(np.int64(num_shards)) - 1)
    even = num_shards == np.uint64(1) << shift
    for i in range(size):
        node = np.uint64(nodes[low + i])
        local = node >> shift if even else node // num_shards
        shard = np.int64(node - local * num_shards)
        lists[MARK, i] = np.int64(local & np.uint64(GROUP_NODES - 1))
        lists[SLOT, i] = group_base[shard] + np.int64(local >> np.uint64(GROUP_BITS))
        prefetch(directory, lists[SLOT, i])
    for i in range(size):
        entry = directory[lists[SLOT, i]]
        block = entry >> BLOCK_SHIFT
        lists[ENTRY, i] = entry
        lists[MARK, i] += (block + HEADER_WORDS) * 2 + ((entry & DELTA_MASK) << GROUP_BITS)
        prefetch(words32, lists[MARK, i])
        if (entry >> HUB_SHIFT) & 1:
            prefetch(words, block + HEADER_WORDS + ((entry >> MARKS_SHIFT) & 0x3FF))
    for i in range(size):
        degree, bit, bits, first = locate(words, words32, lists[ENTRY, i], lists[MARK, i])
        lists[DEGREE, i], lists[BIT, i], lists[BITS, i], lists[FIRST, i] = degree, bit, bits, first
