"""Blocks in the arena: the chunks of a hub are one run, and a directory says where each group of 16 nodes is."""

import numpy as np

from graph_store.blocks import FLAG_HUBS, FLAG_WEIGHTS, GROUP_BITS, GROUP_NODES, HEADER_WORDS, HUB_EDGES, run_words
from graph_store.errors import GraphStoreError
from graph_store.kernels import kernel
from graph_store.packing import words_of

# A directory entry, from the top: the block's word offset (40 bits), the words of its `indptr` (10), bits a neighbour
# (6), whether it holds a hub (1), the group's number within the block (6). So a list is found without a look at the
# block's header, which would be one more line of memory.
BLOCK_SHIFT, MARKS_SHIFT, BITS_SHIFT, HUB_SHIFT = 23, 13, 7, 6
DELTA_MASK = (1 << HUB_SHIFT) - 1
_MAX_WORDS = 1 << 40


@kernel
def arena_words(words: np.ndarray, records: np.ndarray) -> int:
    """Return the words that the records fill in the arena."""
    total, row = 0, 0
    while row < records.shape[0]:
        total += records[row, 1]
        at = records[row, 0]
        header = words[at]
        row += 1
        if (header >> np.uint64(40)) & np.uint64(FLAG_HUBS):
            bits = np.int64((header >> np.uint64(48)) & np.uint64(0xFF))
            weighted = (header >> np.uint64(40)) & np.uint64(FLAG_WEIGHTS) != 0
            num_nodes = np.int64(words[at + 2] & np.uint64(0xFFFFFFFF))
            head, seen = at + HEADER_WORDS + ((num_nodes + 2) >> 1), 0
            while row < records.shape[0] and records[row, 3] > 0:
                if records[row, 3] > seen:
                    seen = records[row, 3]
                    widths = np.int64(words[head + 2])
                    total += run_words(np.int64(words[head]), bits, weighted, widths & 0xFF, widths >> 8)
                    head += 4
                row += 1
    return total


@kernel
def directory_entry(header: np.uint64, num_nodes: int, at: int) -> np.int64:
    """Return the directory entry of the first group of a block, from word 0 of its header, its nodes and its place."""
    bits = np.int64((header >> np.uint64(48)) & np.uint64(0xFF))
    hub = np.int64((header >> np.uint64(42)) & np.uint64(1))
    marks = np.int64((num_nodes + 2) >> 1)
    return np.int64(at) << BLOCK_SHIFT | marks << MARKS_SHIFT | bits << BITS_SHIFT | hub << HUB_SHIFT


def check_addressable(words: int) -> None:
    """Raise GraphStoreError where an edge type's lists have more words than a directory entry can point to."""
    if words > _MAX_WORDS:
        raise GraphStoreError(
            f"the lists of one edge type take {8 * words:,} bytes, at most {8 * _MAX_WORDS:,} can be; split the edge "
            "type into several"
        )


@kernel
def fill_arena(words, records, target, base, group_base, directory, blocks, first_edge):
    """Copy records into the arena's `target` words and fill the directory and the table of blocks.

    `base` is where `target` starts within the arena, `group_base` the shard's first directory entry, `blocks`
    int64[b, 3] gets of each block the word offset, the position of its first edge, and how many of its edges come
    before that one (0 here). Returns (blocks, edges behind the last).
    """
    at, row, count, edge = 0, 0, 0, first_edge
    while row < records.shape[0]:
        source, length, first = records[row, 0], records[row, 1], records[row, 2]
        target[at : at + length] = words[source : source + length]
        num_nodes = np.int64(words[source + 2] & np.uint64(0xFFFFFFFF))
        entry = directory_entry(words[source], num_nodes, base + at)
        for delta in range((num_nodes + GROUP_NODES - 1) >> GROUP_BITS):
            directory[group_base + (first >> GROUP_BITS) + delta] = entry | delta
        blocks[count, 0], blocks[count, 1], blocks[count, 2] = base + at, edge, 0
        edge += np.int64(words[source + 2] >> np.uint64(32))
        origin, head = at, source + HEADER_WORDS + ((num_nodes + 2) >> 1)
        at, count, row = at + length, count + 1, row + 1
        header = words[source]
        bits = np.int64((header >> np.uint64(48)) & np.uint64(0xFF))
        weighted = (header >> np.uint64(40)) & np.uint64(FLAG_WEIGHTS) != 0
        while row < records.shape[0] and records[row, 3] > 0:
            source, length = records[row, 0], records[row, 1]
            size = np.int64(words[source + 2] >> np.uint64(32))
            chunk = records[row, 4]
            if chunk == 0:
                degree, widths = np.int64(words[head]), np.int64(words[head + 2])
                time_bits, id_bits = widths & 0xFF, widths >> 8
                run = origin + np.int64(words[head + 1])
                weight_at = run + words_of(degree, bits) + 1
                time_at = weight_at + ((degree + 1) >> 1 if weighted else 0)
                id_at = time_at + (words_of(degree, time_bits) + 1 if time_bits else 0)
                at = run + run_words(degree, bits, weighted, time_bits, id_bits)
                target[run:at] = np.uint64(0)
                head, edge = head + 4, edge + degree
            body = source + HEADER_WORDS
            part = words_of(size, bits)
            to = run + chunk * HUB_EDGES * bits // 64
            target[to : to + part] = words[body : body + part]
            body += part
            if weighted:
                part = (size + 1) >> 1
                to = weight_at + chunk * HUB_EDGES // 2
                target[to : to + part] = words[body : body + part]
                body += part
            if time_bits:
                part = words_of(size, time_bits)
                to = time_at + chunk * HUB_EDGES * time_bits // 64
                target[to : to + part] = words[body + 1 : body + 1 + part]
                body += 1 + part
            if id_bits:
                part = words_of(size, id_bits)
                to = id_at + 1 + chunk * HUB_EDGES * id_bits // 64
                target[id_at] = words[body]
                target[to : to + part] = words[body + 1 : body + 1 + part]
            row += 1
    return count, edge
