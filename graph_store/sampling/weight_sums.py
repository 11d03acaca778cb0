"""Sums of the weights of hubs, so that a pick from a long list does not read it.

Of each hub there is a binary tree in one array: node 1 is the root, the children of node i are 2i and 2i + 1, and leaf
c, the sum of the weights at places 512c … 512c + 511, is node C + c of a list of C such chunks. That is 1/32 byte an
edge. A node's sum is that of its children and nothing is ever subtracted, so a weight of 1 is there beside one of 1e30
as soon as the sum is asked for without that one. In the place of node 0 is the greatest weight of the list.
"""

from typing import NamedTuple

import numpy as np

from graph_store.arena_blocks import directory_entry
from graph_store.blocks import FLAG_HUBS, HEADER_WORDS, HUB_EDGES, HUB_MARK
from graph_store.kernels import inlined, kernel
from graph_store.packed_lists import locate, locate_extra
from graph_store.sampling.probing import FREE, slot_of

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
def tree_of(table, first, degree):
    """Return the tree of a located list, (sums, where it begins, chunks): -1 and 0 for one that is no hub.

    `first` and `degree` are what `locate` says of it, `table` is a `WeightSums`.
    """
    heads, starts, sums = table
    if first >= 0:
        return sums, np.int64(-1), np.int64(0)
    slot = slot_of(heads, -1 - first)
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
def _hub_lists(words, words32, hub_blocks, hubs):
    """List the hubs of some blocks, as (word of its head, degree, word of its first weight); returns how many."""
    count = 0
    for block in hub_blocks:
        num_nodes = np.int64(words32[block * 2 + 4])
        entry, marks = directory_entry(words[block], num_nodes, block), (block + HEADER_WORDS) * 2
        for mark in range(marks, marks + num_nodes):
            if not words32[mark] & HUB_MARK:
                continue
            if count < hubs.shape[0]:
                degree, bit, bits, first = locate(words, words32, entry, mark)
                weight = locate_extra(words, words32, entry, degree, bit, bits, first)[0]
                hubs[count, 0], hubs[count, 1], hubs[count, 2] = -1 - first, degree, weight
            count += 1
    return count


@kernel
def _fill_peaks(floats, hubs, peaks):
    at = 0
    for i in range(hubs.shape[0]):
        degree, weight = hubs[i, 1], hubs[i, 2]
        for low in range(0, degree, HUB_EDGES):
            peak = np.float32(-np.inf)
            for place in range(weight + low, weight + min(low + HUB_EDGES, degree)):
                if floats[place] > peak:
                    peak = floats[place]
            peaks[at] = peak
            at += 1


@kernel
def _fill(floats, hubs, heads, starts, sums):
    start = 0
    for i in range(hubs.shape[0]):
        head, degree, weight = hubs[i, 0], hubs[i, 1], hubs[i, 2]
        slot, chunks = slot_of(heads, head), (degree + HUB_EDGES - 1) // HUB_EDGES
        heads[slot], starts[slot] = head, start
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


def _hubs_of(words: np.ndarray, hub_blocks: np.ndarray) -> tuple[np.ndarray, int]:
    """Return int64[h, 3], the hubs of some blocks in their order, and how many chunks of 512 weights they have."""
    words32 = words.view(np.uint32)
    hubs = np.empty((_hub_lists(words, words32, hub_blocks, np.empty((0, 3), np.int64)), 3), np.int64)
    _hub_lists(words, words32, hub_blocks, hubs)
    return hubs, int((-(-hubs[:, 1] // HUB_EDGES)).sum())


def sums_of(words: np.ndarray, hub_blocks: np.ndarray) -> WeightSums:
    """Add up the weights of the hubs in some blocks, reading them once."""
    hubs, chunks = _hubs_of(words, hub_blocks)
    slots = 1 << (2 * len(hubs)).bit_length()
    table = WeightSums(np.full(slots, FREE), np.zeros(slots, np.int64), np.empty(2 * chunks, np.float64))
    _fill(words.view(np.float32), hubs, *table)
    return table


def peaks_of(words: np.ndarray, hub_blocks: np.ndarray) -> np.ndarray:
    """Return float32[t / 2], the greatest of each 512 weights of the hubs in some blocks, NaN aside.

    Those of a hub begin at half of where its tree begins.
    """
    hubs, chunks = _hubs_of(words, hub_blocks)
    peaks = np.empty(chunks, np.float32)
    _fill_peaks(words.view(np.float32), hubs, peaks)
    return peaks
