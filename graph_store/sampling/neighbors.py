"""Neighbours of many nodes at once, drawn from the packed words of the arena."""

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.arena_blocks import BLOCK_SHIFT, DELTA_MASK, HUB_SHIFT, MARKS_SHIFT
from graph_store.blocks import GROUP_BITS, GROUP_NODES, HEADER_WORDS, HUB_EDGES
from graph_store.draws import NEIGHBORS, key_of, mixed
from graph_store.kernels import kernel, load_bits, prefetch, run_ranges
from graph_store.packed_lists import LOOK_AHEAD, locate
from graph_store.packing import bit_length, bit_mask
from graph_store.sampling.picks import floyd

MOST = 1 << 62  # a fanout above is the same, and has to fit the kernel's int64


@kernel
def sample_lists(arrays, nodes, fanout, key, indptr, out, start, stop):
    """Sample each list without replacement; a fanout below 0 takes all. Returns the number of neighbours written.

    Works 64 nodes at a time: find the blocks, prefetching; read degrees and draw positions, prefetching the words they
    lie in; gather. `indptr[i + 1 - start]` gets the end of node i's part of `out`, which must have room.
    """
    words, words32, directory, group_base = arrays
    num_shards = np.uint64(group_base.size - 1)
    # A power of two, the default of 16 among them, needs no division.
    shift = np.uint64(bit_length(np.int64(num_shards)) - 1)
    even = num_shards == np.uint64(1) << shift
    slots = np.empty(LOOK_AHEAD, np.int64)
    inside = np.empty(LOOK_AHEAD, np.int64)
    entries = np.empty(LOOK_AHEAD, np.int64)
    bit_at = np.empty(LOOK_AHEAD, np.int64)
    widths = np.empty(LOOK_AHEAD, np.int64)
    count = 0
    indptr[0] = 0
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        for i in range(size):
            node = np.uint64(nodes[low + i])
            local = node >> shift if even else node // num_shards
            shard = np.int64(node - local * num_shards)
            inside[i] = np.int64(local & np.uint64(GROUP_NODES - 1))
            slots[i] = group_base[shard] + np.int64(local >> np.uint64(GROUP_BITS))
            prefetch(directory, slots[i])
        for i in range(size):
            entry = directory[slots[i]]
            entries[i] = entry
            block = entry >> BLOCK_SHIFT
            slots[i] = (block + HEADER_WORDS) * 2 + ((entry & DELTA_MASK) << GROUP_BITS) + inside[i]
            prefetch(words32, slots[i])
            if (entry >> HUB_SHIFT) & 1:
                prefetch(words, block + HEADER_WORDS + ((entry >> MARKS_SHIFT) & 0x3FF))
        begin = count
        for i in range(size):
            degree, bit, bits, _ = locate(words, words32, entries[i], slots[i])
            bit_at[i], widths[i] = bit, bits
            if fanout < 0 or degree <= fanout:
                for j in range(degree):
                    out[count + j] = j
                prefetch(words, bit >> 6)
                count += degree
            else:
                floyd(mixed(key, np.uint64(nodes[low + i])), degree, fanout, out, count)
                for j in range(fanout):
                    prefetch(words, (bit + out[count + j] * bits) >> 6)
                count += fanout
            indptr[low + i + 1 - start] = count
        for i in range(size):
            bit, bits, mask = bit_at[i], widths[i], bit_mask(widths[i])
            end = indptr[low + i + 1 - start]
            for j in range(begin, end):
                out[j] = np.int64(load_bits(words, np.uint64(bit + out[j] * bits)) & mask)
            begin = end
    return count


def sample_neighbors(
    adjacency: Adjacency,
    nodes: np.ndarray,
    fanout: int,
    *,
    seed: int,
    step: int = 0,
    hop: int = 0,
    threads: int | None = 1,
) -> tuple[np.ndarray, np.ndarray]:
    """Draw up to `fanout` distinct neighbours of each node, uniformly; -1 takes all.

    Returns
    -------
    indptr : int64[n + 1]
    neighbors : int64[m]
        The same for any number of threads: a draw depends on (seed, step, hop, node).
    """
    return draw_neighbors(
        adjacency, adjacency.check_nodes(nodes), fanout, seed=seed, step=step, hop=hop, threads=threads
    )


def draw_neighbors(
    adjacency: Adjacency, nodes: np.ndarray, fanout: int, *, seed: int, step: int, hop: int, threads: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Do as `sample_neighbors` with nodes that are known to be source nodes."""
    adjacency.check_blocks(nodes, sweep=True)
    indptr, neighbors = draw_plainly(adjacency, nodes, fanout, key_of(seed, step, NEIGHBORS, hop), threads)
    return indptr, neighbors


def draw_plainly(
    adjacency: Adjacency, nodes: np.ndarray, fanout: int, key: np.uint64, threads: int | None
) -> list[np.ndarray]:
    """Draw uniformly without replacement of nodes whose blocks are checked; returns `indptr` and neighbours."""
    fanout = min(fanout, MOST)

    def part(start: int, stop: int) -> list[np.ndarray]:
        room = room_of(adjacency, nodes[start:stop], fanout)
        indptr, out = np.empty(stop - start + 1, np.int64), np.empty(room, np.int64)
        used = sample_lists(adjacency.arrays, nodes, fanout, key, indptr, out, start, stop)
        return [indptr, out[:used]]

    return joined(run_ranges(part, nodes.size, threads=threads, grain=1 << 12))


def room_of(adjacency: Adjacency, nodes: np.ndarray, fanout: int, *, replace: bool = False) -> int:
    """Return how many neighbours may be drawn at most."""
    if 0 <= fanout <= HUB_EDGES or (replace and fanout >= 0):
        return nodes.size * fanout
    # Few lists may be that long, so the room is what they need.
    degrees = adjacency.degrees(nodes)
    return int((degrees if fanout < 0 else np.minimum(degrees, fanout)).sum())


def joined(parts: list[list[np.ndarray]]) -> list[np.ndarray]:
    """Put what several threads drew, `indptr` and columns, one behind the other."""
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [part[1].size for part in parts])
    indptr = [parts[0][0][:1]] + [part[0][1:] + offset for part, offset in zip(parts, offsets)]
    return [np.concatenate(indptr), *(np.concatenate(columns) for columns in list(zip(*parts))[1:])]
