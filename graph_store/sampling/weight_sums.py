"""Sums of the weights of hubs, so that a pick from a long list does not read it.

Of each hub there is a binary tree in one array: node 1 is the root, the children of node i are 2i and 2i + 1, and leaf
c, the sum of the weights at places 512c … 512c + 511, is node C + c of a list of C such chunks. That is 1/32 byte an
edge. A node's sum is that of its children and nothing is ever subtracted, so a weight of 1 is there beside one of 1e30
as soon as the sum is asked for without that one. In the place of node 0 is the greatest weight of the list.
"""

from typing import NamedTuple

import numpy as np

from graph_store.adjacency import locate, locate_extra
from graph_store.blocks import FLAG_HUBS, HEADER_WORDS, HUB_EDGES, HUB_MARK, directory_entry
from graph_store.kernels import inlined, kernel, mix64

_HIGHEST = np.float64(np.finfo(np.float32).max)


class WeightSums(NamedTuple):
    """The trees of all hubs of an adjacency, found by where the arena has a hub's head.

    Attributes
    ----------
    heads : int64[s]
        A hash table by linear probing, s a power of two: the word of a head, -1 where a slot is free.
    starts : int64[s]
        Where the head's tree begins in `sums`.
    sums : float64[t]
    """

    heads: np.ndarray
    starts: np.ndarray
    sums: np.ndarray


@inlined
def drawable(weight):
    """Return a weight as float64: 0 for what is never drawn (zero, negative, NaN), infinity as the greatest float32."""
    value = np.float64(weight)
    positive = value if value > 0.0 else 0.0
    return positive if positive < _HIGHEST else _HIGHEST


@inlined
def eight_weights(floats, at):
    """Return the sum of the weights from `at`, a uint64, on: by pairs, since one chain of additions has to wait."""
    first = drawable(floats[at]) + drawable(floats[at + np.uint64(1)])
    second = drawable(floats[at + np.uint64(2)]) + drawable(floats[at + np.uint64(3)])
    third = drawable(floats[at + np.uint64(4)]) + drawable(floats[at + np.uint64(5)])
    fourth = drawable(floats[at + np.uint64(6)]) + drawable(floats[at + np.uint64(7)])
    return (first + second) + (third + fourth)


@kernel
def range_weight(floats, weight, low, high):
    """Return the sum of the weights at places `low … high − 1`, which are `floats[weight + place]`."""
    total, at, end = 0.0, np.uint64(weight + low), np.uint64(weight + high)
    while at + np.uint64(8) <= end:
        total += eight_weights(floats, at)
        at += np.uint64(8)
    while at < end:
        total += drawable(floats[at])
        at += np.uint64(1)
    return total


@kernel
def greatest_weight(floats, weight, degree):
    """Return the greatest of a list's weights, as float64."""
    greatest = 0.0
    for place in range(degree):
        greatest = max(greatest, drawable(floats[weight + place]))
    return greatest


@kernel
def _slot_of(heads, head):
    mask = np.uint64(heads.size - 1)
    slot = np.int64(mix64(np.uint64(head)) & mask)
    while heads[slot] >= 0 and heads[slot] != head:
        slot = np.int64(np.uint64(slot + 1) & mask)
    return slot


@kernel
def tree_of(table, first, degree):
    """Return the tree of a located list, (sums, where it begins, chunks): -1 and 0 for one that is no hub.

    `first` and `degree` are what `locate` says of it, `table` is a `WeightSums`.
    """
    heads, starts, sums = table
    if first >= 0:
        return sums, np.int64(-1), np.int64(0)
    slot = _slot_of(heads, -1 - first)
    if heads[slot] < 0:
        return sums, np.int64(-1), np.int64(0)
    return sums, starts[slot], (degree + HUB_EDGES - 1) // HUB_EDGES


@kernel
def _hub_blocks(words, blocks, found):
    """List the blocks that hold hubs; returns how many."""
    count = 0
    for row in range(blocks.size // 3):
        if (words[blocks[3 * row]] >> np.uint64(40)) & np.uint64(FLAG_HUBS):
            if count < found.size:
                found[count] = blocks[3 * row]
            count += 1
    return count


@kernel
def _sizes(words, words32, hub_blocks):
    """Return how many hubs and how many sums there are."""
    hubs, size = 0, 0
    for block in hub_blocks:
        num_nodes = np.int64(words32[block * 2 + 4])
        entry, marks = directory_entry(words[block], num_nodes, block), (block + HEADER_WORDS) * 2
        for mark in range(marks, marks + num_nodes):
            if words32[mark] & HUB_MARK:
                degree = locate(words, words32, entry, mark)[0]
                hubs, size = hubs + 1, size + 2 * ((degree + HUB_EDGES - 1) // HUB_EDGES)
    return hubs, size


@kernel
def _fill_peaks(words, words32, hub_blocks, heads, starts, peaks):
    floats = words32.view(np.float32)
    for block in hub_blocks:
        num_nodes = np.int64(words32[block * 2 + 4])
        entry, marks = directory_entry(words[block], num_nodes, block), (block + HEADER_WORDS) * 2
        for mark in range(marks, marks + num_nodes):
            if not words32[mark] & HUB_MARK:
                continue
            degree, bit, bits, first = locate(words, words32, entry, mark)
            weight = locate_extra(words, words32, entry, degree, bit, bits, first)[0]
            start = starts[_slot_of(heads, -1 - first)] // 2
            for low in range(0, degree, HUB_EDGES):
                peak = np.float32(-np.inf)
                for at in range(weight + low, weight + min(low + HUB_EDGES, degree)):
                    if floats[at] > peak:
                        peak = floats[at]
                peaks[start + low // HUB_EDGES] = peak


@kernel
def _fill(words, words32, hub_blocks, heads, starts, sums):
    floats, start = words32.view(np.float32), 0
    for block in hub_blocks:
        num_nodes = np.int64(words32[block * 2 + 4])
        entry, marks = directory_entry(words[block], num_nodes, block), (block + HEADER_WORDS) * 2
        for mark in range(marks, marks + num_nodes):
            if not words32[mark] & HUB_MARK:
                continue
            degree, bit, bits, first = locate(words, words32, entry, mark)
            weight = locate_extra(words, words32, entry, degree, bit, bits, first)[0]
            slot, chunks = _slot_of(heads, -1 - first), (degree + HUB_EDGES - 1) // HUB_EDGES
            heads[slot], starts[slot] = -1 - first, start
            for chunk in range(chunks):
                low = chunk * HUB_EDGES
                sums[start + chunks + chunk] = range_weight(floats, weight, low, min(low + HUB_EDGES, degree))
            sums[start] = greatest_weight(floats, weight, degree)
            for node in range(chunks - 1, 0, -1):
                sums[start + node] = sums[start + 2 * node] + sums[start + 2 * node + 1]
            start += 2 * chunks


def hub_blocks_of(words: np.ndarray, blocks: np.ndarray) -> np.ndarray:
    """Return int64[b], the word offsets of the blocks that hold hubs, from the table of blocks."""
    found = np.empty(_hub_blocks(words, blocks, np.empty(0, np.int64)), np.int64)
    _hub_blocks(words, blocks, found)
    return found


def sums_of(words: np.ndarray, hub_blocks: np.ndarray) -> WeightSums:
    """Add up the weights of the hubs in some blocks, reading them once."""
    words32 = words.view(np.uint32)
    hubs, size = _sizes(words, words32, hub_blocks)
    slots = 1 << int(2 * hubs).bit_length()
    table = WeightSums(np.full(slots, -1, np.int64), np.zeros(slots, np.int64), np.empty(size, np.float64))
    _fill(words, words32, hub_blocks, *table)
    return table


def peaks_of(words: np.ndarray, hub_blocks: np.ndarray, table: WeightSums) -> np.ndarray:
    """Return float32[t / 2], the greatest of each 512 weights of the hubs in some blocks, NaN aside.

    Those of a hub begin at half of where its tree begins.
    """
    peaks = np.empty(table.sums.size // 2, np.float32)
    _fill_peaks(words, words.view(np.uint32), hub_blocks, table.heads, table.starts, peaks)
    return peaks
