"""Neighbour sampling: seeds → fanned-out subgraphs, drawn from the packed words of the arena."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from graph_store.adjacency import LOOK_AHEAD, Adjacency, locate
from graph_store.blocks import DELTA_BITS, GROUP_BITS, GROUP_NODES, HEADER_WORDS, HUB_EDGES
from graph_store.draws import NEIGHBORS, draw, key_of, mixed
from graph_store.kernels import kernel, load_bits, mix64, prefetch, run_ranges
from graph_store.packing import bit_length, bit_mask


@kernel
def floyd(unit_key, degree, fanout, picks, at):
    """Write `fanout` distinct positions below `degree` into `picks[at:]`, uniform over the subsets.

    Floyd's method (Bentley and Floyd, CACM 1987): `fanout` draws, whatever the degree.
    """
    if fanout <= 64:
        for d in range(fanout):
            top = degree - fanout + d
            value = draw(unit_key, d, top + 1)
            for i in range(d):
                if picks[at + i] == value:
                    value = top
                    break
            picks[at + d] = value
        return
    size = 1
    while size < 2 * fanout:
        size *= 2
    seen = np.full(size, -1, np.int64)
    for d in range(fanout):
        top = degree - fanout + d
        value = draw(unit_key, d, top + 1)
        slot = np.int64(mix64(np.uint64(value)) & np.uint64(size - 1))
        while seen[slot] >= 0 and seen[slot] != value:
            slot = (slot + 1) & (size - 1)
        if seen[slot] == value:
            value = top
            slot = np.int64(mix64(np.uint64(value)) & np.uint64(size - 1))
            while seen[slot] >= 0:
                slot = (slot + 1) & (size - 1)
        seen[slot] = value
        picks[at + d] = value


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
            block = entry >> DELTA_BITS
            slots[i] = (block + HEADER_WORDS) * 2 + ((entry & ((1 << DELTA_BITS) - 1)) << GROUP_BITS) + inside[i]
            prefetch(words, block)
            prefetch(words32, slots[i])
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
    key = key_of(seed, step, NEIGHBORS, hop)
    fanout = min(fanout, 1 << 62)  # more is the same, and has to fit the kernel's int64

    def part(start: int, stop: int) -> tuple[np.ndarray, np.ndarray]:
        if 0 <= fanout <= HUB_EDGES:
            room = (stop - start) * fanout
        else:  # few lists may be that long, so the room is what they need
            degrees = adjacency.degrees(nodes[start:stop])
            room = int((degrees if fanout < 0 else np.minimum(degrees, fanout)).sum())
        indptr, out = np.empty(stop - start + 1, np.int64), np.empty(room, np.int64)
        used = sample_lists(adjacency.arrays, nodes, fanout, key, indptr, out, start, stop)
        return indptr, out[:used]

    parts = run_ranges(part, nodes.size, threads=threads, grain=1 << 12)
    if len(parts) == 1:
        return parts[0]
    offsets = np.cumsum([0] + [part[1].size for part in parts])
    joined = [parts[0][0][:1]] + [part[0][1:] + offset for part, offset in zip(parts, offsets)]
    return np.concatenate(joined), np.concatenate([part[1] for part in parts])


@kernel
def _relabel(values, table, stamp, nodes, num_nodes, out):
    """Give each value its label, new ones in order of appearance; the table has room. Returns the labels used."""
    mask = np.uint64(table.size // 2 - 1)
    slots = np.empty(LOOK_AHEAD, np.int64)
    for low in range(0, values.size, LOOK_AHEAD):
        size = min(LOOK_AHEAD, values.size - low)
        for i in range(size):
            slots[i] = np.int64(mix64(np.uint64(values[low + i])) & mask)
            prefetch(table, 2 * slots[i])
        for i in range(size):
            value, slot = values[low + i], slots[i]
            while True:
                tag = table[2 * slot + 1]
                if tag >> 32 != stamp:
                    table[2 * slot], table[2 * slot + 1] = value, stamp << 32 | num_nodes
                    nodes[num_nodes] = value
                    out[low + i] = num_nodes
                    num_nodes += 1
                    break
                if table[2 * slot] == value:
                    out[low + i] = tag & 0xFFFFFFFF
                    break
                slot = np.int64(np.uint64(slot + 1) & mask)
    return num_nodes


class Relabeller:
    """Labels 0, 1, 2 … for node ids in the order they are first seen, cleared by counting up a stamp.

    Holds 16 bytes a slot and two slots or more a node; not for two threads at once.
    """

    def __init__(self) -> None:
        self._table = np.zeros(2 << 12, np.int64)
        self._stamp = 1  # that of no slot yet
        self._nodes = np.empty(1 << 11, np.int64)
        self.num_nodes = 0

    def clear(self) -> None:
        """Forget all labels, in constant time."""
        self._stamp += 1
        self.num_nodes = 0

    @property
    def nodes(self) -> np.ndarray:
        """int64[num_nodes], the node of each label; a view until the next `clear`."""
        return self._nodes[: self.num_nodes]

    def _reserve(self, count: int) -> None:
        size = self._nodes.size
        if count <= size:
            return
        while size < count:
            size *= 2
        known = self.nodes.copy()
        self._nodes = np.empty(size, np.int64)
        self._table = np.zeros(4 * size, np.int64)
        self._stamp, self.num_nodes = 1, 0
        _relabel(known, self._table, self._stamp, self._nodes, 0, np.empty(known.size, np.int64))
        self.num_nodes = known.size

    def labels(self, values: np.ndarray) -> np.ndarray:
        """Return int64[n], the label of each value, int64[n]; unseen ones get the next labels."""
        self._reserve(self.num_nodes + values.size)
        out = np.empty(values.size, np.int64)
        self.num_nodes = int(_relabel(values, self._table, self._stamp, self._nodes, self.num_nodes, out))
        return out


@dataclass(frozen=True)
class Hop:
    """What one hop drew: nodes `first … first + f − 1` of the source type, each with its sampled neighbours.

    Attributes
    ----------
    edge_type, src_type, dst_type : str
    first : int
        The label of the first node expanded.
    indptr : int64[f + 1]
    neighbors : int64[m]
        Labels of the destination type.
    src_ids, dst_ids
        Original ids by label, of either type.
    """

    edge_type: str
    src_type: str
    dst_type: str
    first: int
    indptr: np.ndarray
    neighbors: np.ndarray
    src_ids: np.ndarray = field(repr=False)
    dst_ids: np.ndarray = field(repr=False)

    @property
    def src_labels(self) -> np.ndarray:
        """int64[m], the label of the node expanded, for each neighbour drawn."""
        return np.repeat(np.arange(self.first, self.first + self.indptr.size - 1), np.diff(self.indptr))

    @property
    def src(self) -> np.ndarray:
        """The original id of the node expanded, for each neighbour drawn."""
        return self.src_ids[self.src_labels]

    @property
    def dst(self) -> np.ndarray:
        """The original id of each neighbour drawn."""
        return self.dst_ids[self.neighbors]


@dataclass(frozen=True)
class Subgraph:
    """Sampled neighbourhoods, each node once however often it was drawn.

    Attributes
    ----------
    seeds
        Original ids, as given.
    seed_labels : int64[b]
        The label of each seed.
    nodes, ids : dict
        By node type: the node of each label, int64[n], and its original id; the seeds come first.
    hops : tuple of Hop
    """

    seeds: np.ndarray
    seed_labels: np.ndarray
    nodes: dict[str, np.ndarray]
    ids: dict[str, np.ndarray]
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class Layer:
    """One hop in labels, before ids: see `Hop`."""

    first: int
    indptr: np.ndarray
    neighbors: np.ndarray


class Sampler:
    """Samples merged subgraphs over a chain of adjacencies, reusing its workspace; one a thread.

    Parameters
    ----------
    chain : sequence of (src_type, dst_type, Adjacency)
        What each hop walks along; the source type of a hop is the destination type of the one before.
    fanouts : sequence of int
        Neighbours a node and hop; -1 takes all, 0 none.
    """

    def __init__(self, chain: Sequence[tuple[str, str, Adjacency]], fanouts: Sequence[int]) -> None:
        if len(chain) != len(fanouts):
            raise ValueError(f"{len(fanouts)} fanouts for {len(chain)} hops")
        self.chain, self.fanouts = tuple(chain), tuple(fanouts)
        self._labels = {name: Relabeller() for src, dst, _ in chain for name in (src, dst)}

    # What draws a hop: a benchmark puts another layout's kernel in its place.
    _draw = staticmethod(draw_neighbors)

    def sample(
        self, seeds: np.ndarray, *, seed: int, step: int = 0, threads: int | None = 1
    ) -> tuple[np.ndarray, list[Layer], dict[str, np.ndarray]]:
        """Expand seed nodes, int64[b], hop by hop; each hop expands what the one before found first.

        Returns
        -------
        seed_labels : int64[b]
        layers : list of Layer
        nodes : dict of str to int64[n]
            The node of each label, by node type.
        """
        for labels in self._labels.values():
            labels.clear()
        origin = self._labels[self.chain[0][0]]
        seed_labels = origin.labels(self.chain[0][2].check_nodes(seeds))
        first, layers = 0, []
        for hop, ((src_type, dst_type, adjacency), fanout) in enumerate(zip(self.chain, self.fanouts)):
            frontier = self._labels[src_type].nodes[first:].copy()
            known = self._labels[dst_type].num_nodes
            indptr, drawn = self._draw(adjacency, frontier, fanout, seed=seed, step=step, hop=hop, threads=threads)
            layers.append(Layer(first, indptr, self._labels[dst_type].labels(drawn)))
            first = known
        return seed_labels, layers, {name: labels.nodes.copy() for name, labels in self._labels.items()}
