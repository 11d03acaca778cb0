"""Adjacency: one edge type's lists, read straight from the packed words of the arena."""

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from graph_store.arena_blocks import BLOCK_SHIFT, DELTA_MASK
from graph_store.block_check import BlockCheck
from graph_store.blocks import (
    DEGREE_MASK,
    GROUP_BITS,
    HEADER_WORDS,
    HUB_MARK,
)
from graph_store.kernels import int64_array, kernel, load_bits, prefetch, run_ranges
from graph_store.packed_lists import (
    LOOK_AHEAD,
    directory_slot,
    entry_of,
    find_entry,
    list_has,
    locate,
    locate_extra,
    node_mark,
)
from graph_store.packing import bit_mask, unpack

if TYPE_CHECKING:
    from graph_store.sampling.weight_sums import WeightSums

_LINE_WORDS = 8
_LINES_AHEAD = 4


@kernel
def first_bad_node(nodes: np.ndarray, counts: np.ndarray) -> int:
    """Return the place of the first that is no node, from the nodes of each shard; -1 where there is none."""
    num_shards = np.uint64(counts.size)
    for i in range(nodes.size):
        local = np.uint64(nodes[i]) // num_shards
        shard = np.int64(np.uint64(nodes[i]) - local * num_shards)
        if nodes[i] < 0 or local >= np.uint64(counts[shard]):
            return i
    return -1


@kernel
def _degrees(words, words32, directory, group_base, nodes, degrees, start, stop):
    entries = np.empty(LOOK_AHEAD, np.int64)
    for low in range(start, stop, LOOK_AHEAD):
        size = min(LOOK_AHEAD, stop - low)
        for i in range(size):
            prefetch(directory, directory_slot(nodes[low + i], group_base))
        for i in range(size):
            entries[i] = entry_of(nodes[low + i], directory, group_base)
            prefetch(words32, node_mark(nodes[low + i], entries[i], group_base))
        for i in range(size):
            mark = node_mark(nodes[low + i], entries[i], group_base)
            low_mark, high_mark = words32[mark], words32[mark + 1]
            if low_mark & HUB_MARK:
                degrees[low + i] = locate(words, words32, entries[i], mark)[0]
            else:
                degrees[low + i] = np.int64(high_mark & DEGREE_MASK) - np.int64(low_mark)


@kernel
def read_lists(words, words32, directory, group_base, nodes, indptr, out, columns, start, stop):
    """Fill in lists `start … stop − 1` as far as `indptr` has room, with those of the columns that are not empty."""
    weights, times, edge_ids = columns
    floats = words32.view(np.float32)
    for i in range(start, stop):
        if (i - start) % LOOK_AHEAD == 0:  # degrees were read just before: directory and blocks are near
            for j in range(i, min(i + LOOK_AHEAD, stop)):
                entry = entry_of(nodes[j], directory, group_base)
                degree, bit, bits, _ = locate(words, words32, entry, node_mark(nodes[j], entry, group_base))
                # Behind some lines the processor sees by itself that the next ones are wanted.
                last = min((bit + degree * bits) >> 6, (bit >> 6) + _LINES_AHEAD * _LINE_WORDS - 1)
                for word in range(bit >> 6, last + 1, _LINE_WORDS):
                    prefetch(words, word)
        entry = entry_of(nodes[i], directory, group_base)
        degree, bit, bits, first = locate(words, words32, entry, node_mark(nodes[i], entry, group_base))
        to, mask = indptr[i], bit_mask(bits)
        size = min(degree, indptr[i + 1] - to)
        at = np.uint64(bit)
        for j in range(to, to + size):
            out[j] = np.int64(load_bits(words, at) & mask)
            at += np.uint64(bits)
        if weights.size or times.size or edge_ids.size:
            weight, time_bit, time_bits, base, id_bit, id_bits, id_base = locate_extra(
                words, words32, entry, degree, bit, bits, first
            )
            time_mask, id_mask = bit_mask(max(time_bits, 1)), bit_mask(max(id_bits, 1))
            for j in range(size):
                if weights.size:
                    weights[to + j] = floats[weight + j]
                if times.size:
                    times[to + j] = base + np.int64(unpack(words, time_bit + j * time_bits, time_mask))
                if edge_ids.size:
                    edge_ids[to + j] = id_base + np.int64(unpack(words, id_bit + j * id_bits, id_mask))


@kernel
def _has_edges(words, words32, directory, group_base, sources, targets, by_time, out, start, stop):
    for i in range(start, stop):
        entry = entry_of(sources[i], directory, group_base)
        degree, bit, bits, _ = locate(words, words32, entry, node_mark(sources[i], entry, group_base))
        out[i] = targets[i] >= 0 and list_has(words, degree, bit, bits, targets[i], by_time)


@kernel
def _group_positions(words32, blocks, directory, positions):
    """Fill in the position of the first edge of each group; returns the runs of groups that lie in one block."""
    row, block, delta = -1, np.int64(-1), np.int64(-1)
    for slot in range(directory.size):
        before_block, before_delta = block, delta
        block, delta = directory[slot] >> BLOCK_SHIFT, directory[slot] & DELTA_MASK
        if block != before_block or delta != before_delta + 1:
            row += 1
        if row * 3 < blocks.size:
            # A block with a hub holds one group, whose first mark may be that of a hub.
            first = words32[(block + HEADER_WORDS) * 2 + (delta << GROUP_BITS)] if delta else np.uint32(0)
            positions[slot] = blocks[3 * row + 1] - blocks[3 * row + 2] + np.int64(first)
    return row + 1


@kernel
def _edges_at(words, words32, blocks, shard_starts, positions, sources, targets, start, stop):
    for i in range(start, stop):
        sources[i], entry, mark, place = find_entry(words, words32, blocks, shard_starts, positions[i])
        _, bit, bits, _ = locate(words, words32, entry, mark)
        targets[i] = np.int64(unpack(words, bit + place * bits, bit_mask(bits)))


@kernel
def _times_at(words, words32, blocks, shard_starts, positions, times, start, stop):
    for i in range(start, stop):
        _, entry, mark, place = find_entry(words, words32, blocks, shard_starts, positions[i])
        degree, bit, bits, first = locate(words, words32, entry, mark)
        _, time_bit, time_bits, base, _, _, _ = locate_extra(words, words32, entry, degree, bit, bits, first)
        times[i] = base + np.int64(unpack(words, time_bit + place * time_bits, bit_mask(time_bits)))


class Adjacency:
    """The lists of one edge type, by node ids; safe to read from many threads.

    Attributes
    ----------
    num_edges : int
        Stored entries; an undirected edge between two nodes is stored at both.
    weighted, timed, numbered : bool
        Whether each edge has a weight, a time, an edge id.
    distinct : bool
        Whether it is known that no list has a neighbour twice.
    """

    def __init__(
        self,
        sections: Mapping[str, np.ndarray],
        *,
        weighted: bool,
        timed: bool,
        threads: int | None,
        numbered: bool = False,
        distinct: bool = False,
        check: BlockCheck | None = None,
    ) -> None:
        self.words = sections["words"]
        self.words32 = self.words.view(np.uint32)
        self.directory = sections["directory"]
        self.group_base = sections["group_base"]
        self._blocks = sections["blocks"]
        self._shard_starts = sections["shard_starts"]
        self.counts = sections["counts"]
        self.num_edges = int(sections["num_edges"][0])
        self.weighted, self.timed, self.numbered, self.distinct = weighted, timed, numbered, distinct
        self._threads, self._check = threads, check

    @property
    def threads(self) -> int | None:
        """Threads that answer a call; all cores when None."""
        return self._threads

    @property
    def arrays(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """`words`, `words32`, `directory` and `group_base`, as the kernels take them."""
        return self.words, self.words32, self.directory, self.group_base

    @property
    def block_table(self) -> tuple[np.ndarray, np.ndarray]:
        """Of each run of groups in one block (word offset, position of its first edge, edges of the block before it).

        With int64[num_shards + 1], the first row of each shard.
        """
        return self._blocks, self._shard_starts

    @cached_property
    def group_positions(self) -> np.ndarray:
        """int64[g], the position of the first edge of each group of 16 nodes, by directory slot.

        They are found when they are first asked for, by one pass over directory and blocks: half a byte a node.
        """
        positions = np.empty(self.directory.size, np.int64)
        count = _group_positions(self.words32, self._blocks, self.directory, positions)
        assert count == self._blocks.size // 3, f"{count} runs of groups, {self._blocks.size // 3} rows of blocks"
        return positions

    @property
    def is_checked(self) -> bool:
        """True when every block was compared with its checksum, or there are none to compare with."""
        return self._check is None or self._check.complete

    @cached_property
    def weight_sums(self) -> "WeightSums":
        """Sums of each 512 weights of a hub, and of those: see `sampling.weight_sums.WeightSums`.

        They are made when they are first asked for, by reading the weights of all hubs once: 1/32 byte an edge.

        Raises
        ------
        CorruptBlock
            A block with a hub is damaged.
        """
        from graph_store.sampling.weight_sums import sums_of

        return sums_of(self.words, self._hub_blocks)

    @cached_property
    def weight_peaks(self) -> np.ndarray:
        """The greatest of each 512 weights of a hub: see `sampling.weight_sums.peaks_of`; 1/128 byte an edge."""
        from graph_store.sampling.weight_sums import peaks_of

        return peaks_of(self.words, self._hub_blocks)

    @cached_property
    def _hub_blocks(self) -> np.ndarray:
        """int64[b], the word offsets of the blocks whose hubs have weights, compared with their checksums."""
        from graph_store.sampling.weight_sums import hub_blocks_of

        found = hub_blocks_of(self.words, self._blocks) if self.weighted else np.empty(0, np.int64)
        if self._check is not None:
            self._check.words(found)
        return found

    def check_blocks(self, nodes: np.ndarray | None = None, *, sweep: bool = False) -> None:
        """Compare the blocks of source nodes, int64[n], or of all, with their checksums, each once.

        With `sweep` a few others are checked as well, so that after many calls there are none left.

        Raises
        ------
        CorruptBlock
            One is damaged.
        """
        if self._check is None:
            return
        if nodes is None:
            self._check.all(self._threads)
        else:
            self._check.nodes(nodes, self.directory, self.group_base, sweep=sweep)

    def check_nodes(self, nodes: np.ndarray) -> np.ndarray:
        """Return nodes as int64[n] and check their blocks.

        Raises
        ------
        TypeError
            They are no integers.
        ValueError
            One is no source node; the message names it.
        CorruptBlock
            A block of one is damaged.
        """
        nodes = int64_array(nodes, "nodes")
        bad = int(first_bad_node(nodes, self.counts))
        if bad >= 0:
            raise ValueError(f"node {nodes[bad]} at position {bad} is no source node of this edge type")
        self.check_blocks(nodes)
        return nodes

    def degrees(self, nodes: np.ndarray) -> np.ndarray:
        """Return int64[n], the number of stored entries of each node."""
        nodes = self.check_nodes(nodes)
        degrees = np.empty(nodes.size, np.int64)
        run_ranges(
            lambda start, stop: _degrees(*self.arrays, nodes, degrees, start, stop),
            nodes.size,
            threads=self._threads,
        )
        return degrees

    def neighbors(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return `indptr` int64[n + 1] and the neighbour nodes int64[m] of each node, in stored order.

        The order is by node id, or by time and then node id where the edge type has times.
        """
        indptr, neighbors, _, _ = self.lists(nodes)
        return indptr, neighbors

    def lists(
        self, nodes: np.ndarray, *, extras: bool = False
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Return `indptr`, neighbours and, with `extras`, weights float32[m] and times int64[m] (None where none)."""
        return self.columns(nodes, weights=extras, times=extras)[:4]

    def columns(
        self, nodes: np.ndarray, *, weights: bool = True, times: bool = True, edge_ids: bool = True
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None, np.ndarray | None]:
        """Return `indptr` int64[n + 1], neighbour nodes int64[m], weights float32[m], times and edge ids int64[m].

        A column that is not asked for, or that the edge type has not, is None.
        """
        nodes = self.check_nodes(nodes)
        indptr = np.zeros(nodes.size + 1, np.int64)
        np.cumsum(self.degrees(nodes), out=indptr[1:])
        size = int(indptr[-1])
        neighbors = np.empty(size, np.int64)
        wanted = weights and self.weighted, times and self.timed, edge_ids and self.numbered
        kinds = np.float32, np.int64, np.int64
        found = tuple(np.empty(size if want else 0, kind) for want, kind in zip(wanted, kinds))
        run_ranges(
            lambda start, stop: read_lists(*self.arrays, nodes, indptr, neighbors, found, start, stop),
            nodes.size,
            threads=self._threads,
            grain=1 << 10,
        )
        first, second, third = (column if want else None for column, want in zip(found, wanted))
        return indptr, neighbors, first, second, third

    def has_edges(self, sources: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Return bool[n], whether each edge `sources[i]` → `targets[i]` (int64 nodes) is stored."""
        sources = self.check_nodes(sources)
        targets = int64_array(targets, "targets")
        if targets.size != sources.size:
            raise ValueError(f"targets must be as many as sources, got {targets.size} and {sources.size}")
        found = np.empty(sources.size, np.bool_)
        run_ranges(
            lambda start, stop: _has_edges(*self.arrays, sources, targets, self.timed, found, start, stop),
            sources.size,
            threads=self._threads,
        )
        return found

    def edges_at(self, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return source and target nodes (int64[n] each) of the entries at positions 0 … num_edges − 1.

        Positions run through the sources in dense order, shard by shard.
        """
        positions = self._check_positions(positions)
        sources, targets = np.empty(positions.size, np.int64), np.empty(positions.size, np.int64)
        run_ranges(
            lambda start, stop: _edges_at(
                self.words,
                self.words32,
                self._blocks,
                self._shard_starts,
                positions,
                sources,
                targets,
                start,
                stop,
            ),
            positions.size,
            threads=self._threads,
        )
        return sources, targets

    def times_at(self, positions: np.ndarray) -> np.ndarray:
        """Return int64[n], the times of the entries at positions, of an edge type that is `timed`."""
        positions = self._check_positions(positions)
        times = np.empty(positions.size, np.int64)
        run_ranges(
            lambda start, stop: _times_at(
                self.words, self.words32, self._blocks, self._shard_starts, positions, times, start, stop
            ),
            positions.size,
            threads=self._threads,
        )
        return times

    def _check_positions(self, positions: np.ndarray) -> np.ndarray:
        positions = int64_array(positions, "edge positions")
        if positions.size and (positions.min() < 0 or positions.max() >= self.num_edges):
            raise ValueError(f"edge positions must be in 0 … {self.num_edges - 1}")
        if self._check is not None and not self._check.complete:
            table = self._blocks.reshape(-1, 3)
            self._check.words(table[np.searchsorted(table[:, 1], positions, side="right") - 1, 0])
        return positions
