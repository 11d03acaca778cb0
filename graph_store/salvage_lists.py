"""What can be read of the lists of a damaged generation: from the shards, the arena, and the reverse type's lists."""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.block_check import BlockCheck
from graph_store.blocks import COLUMN_FLAGS, GROUP_NODES, HEADER_WORDS, HUB_MARK, Encoded, encode
from graph_store.edge_lists import sorted_order
from graph_store.errors import CorruptBlock
from graph_store.kernels import kernel
from graph_store.loose_shard import probes_from
from graph_store.manifest import StoredEdgeType
from graph_store.ragged import starts_of, take_spans
from graph_store.resident import edge_file
from graph_store.salvage import Salvage, arena_file, sound_section
from graph_store.verify_edges import adjacency_of, bad_rows, expected_flags, shard_sections

_ADJ = struct.Struct(">HQHI")
_TABLES = ("directory", "group_base", "blocks", "shard_starts", "counts")
Columns = list[np.ndarray | None]


class Lists(NamedTuple):
    """The lists of a shard.

    indptr : int64[count + 1]
    columns : neighbours, weights, times and edge ids, None where the type has none
    lost : int64[l], the local ids whose lists could not be read; they are empty
    """

    indptr: np.ndarray
    columns: Columns
    lost: np.ndarray


@kernel
def _mark_whole(words, words32, records, count, keep, spans):
    """Mark the records of blocks that have all chunks of their hubs; returns how many (first, nodes) `spans`."""
    row, found, free = 0, 0, np.int64(0)
    while row < records.shape[0]:
        begin, first = row, records[row, 2]
        row += 1
        if records[begin, 3] != 0:
            continue
        at = records[begin, 0]
        num_nodes = np.int64(words32[2 * at + 4])
        whole = first >= free and first + num_nodes <= count and num_nodes > 0
        marks, head, ordinal = 2 * (at + HEADER_WORDS), at + HEADER_WORDS + ((num_nodes + 2) >> 1), 0
        for mark in range(marks, marks + num_nodes):
            if whole and words32[mark] & HUB_MARK:
                left, chunk = np.int64(words[head + 4 * ordinal]), 0
                ordinal += 1
                while left > 0 and whole:
                    whole = row < records.shape[0] and records[row, 2] == first
                    whole = whole and records[row, 3] == ordinal and records[row, 4] == chunk
                    if whole:
                        left -= np.int64(words32[2 * records[row, 0] + 5])
                        chunk, row = chunk + 1, row + 1
        if whole:
            keep[begin:row] = True
            spans[found, 0], spans[found, 1] = first, num_nodes
            found, free = found + 1, first + num_nodes
    return found


def _of_shard(salvage: Salvage, number: int, shard: int, counts: np.ndarray) -> tuple[Adjacency, np.ndarray]:
    """Return the lists that a shard's sound records hold, and spans of local ids, int64[s, 2], that they cover."""
    entry, head = salvage.manifest.edge_types[number], struct.pack(">H", number)
    with salvage.shard(shard) as database:
        pairs = database.readable("adj", head, probes_from(head, int(counts[shard]), GROUP_NODES))
    pairs = [(key, value) for key, value in pairs if len(key) == _ADJ.size and value and len(value) % 8 == 0]
    sizes = np.array([len(value) // 8 for _, value in pairs], np.int64)
    words = np.frombuffer(b"".join(value for _, value in pairs), np.uint64)
    keys = np.array([_ADJ.unpack(key)[1:] for key, _ in pairs], np.int64).reshape(-1, 3)
    records = np.column_stack([starts_of(sizes)[:-1], sizes, keys])
    good = np.ones(sizes.size, bool)
    good[bad_rows(Encoded(words, records))] = False
    records = records[good]
    flags = words[records[:, 0]] >> np.uint64(40) & np.uint64(COLUMN_FLAGS)
    records = np.ascontiguousarray(records[flags == np.uint64(expected_flags(entry))])
    keep, spans = np.zeros(len(records), bool), np.empty((len(records), 2), np.int64)
    found = _mark_whole(words, words.view(np.uint32), records, int(counts[shard]), keep, spans)
    sections = shard_sections(Encoded(words, np.ascontiguousarray(records[keep])), counts, shard)
    return adjacency_of(sections, entry), spans[:found]


def _of_arena(salvage: Salvage, number: int, counts: np.ndarray) -> Adjacency | None:
    """Return the lists of the arena, which raise where a block is damaged; None where its tables are."""
    entry = salvage.manifest.edge_types[number]
    file = arena_file(edge_file(salvage.store, salvage.manifest.generation, number))
    if file is None or any(sound_section(file, name) is None for name in _TABLES):
        return None
    if not np.array_equal(file.sections["counts"], counts):
        return None
    check = BlockCheck(file.checks["words"], file.sections["blocks"], file.sections["words"].size)
    return Adjacency(
        file.sections,
        weighted=entry.weighted,
        timed=entry.timed,
        numbered=entry.numbered,
        threads=1,
        check=check,
    )


def _sound_parts(adjacency: Adjacency, shard: int, low: int, high: int) -> Iterator[tuple[int, np.ndarray, Columns]]:
    """Yield (first local id, indptr, columns) of those groups from `low` to `high` that the arena has sound."""
    nodes = np.arange(low, high) * adjacency.counts.size + shard
    try:
        indptr, *columns = adjacency.columns(nodes)
        yield low, indptr, columns
    except CorruptBlock:
        if high - low <= GROUP_NODES:
            return
        middle = low + (high - low) // 2 // GROUP_NODES * GROUP_NODES or low + GROUP_NODES
        middle = max(middle, low + GROUP_NODES)
        yield from _sound_parts(adjacency, shard, low, middle)
        if middle < high:
            yield from _sound_parts(adjacency, shard, middle, high)


class ListSalvage:
    """The lists of an edge type, shard by shard.

    Parameters
    ----------
    dead : mapping of str to int64[d]
        The deleted nodes of each node type, those whose id is lost among them: edges at them are left out.

    Attributes
    ----------
    entries, loops : int
        What `encoded` has yielded so far.
    """

    def __init__(self, salvage: Salvage, number: int, dead: Mapping[str, np.ndarray]) -> None:
        self._salvage, self._number = salvage, number
        self.entry = salvage.manifest.edge_types[number]
        source = next(item for item in salvage.manifest.node_types if item.name == self.entry.src)
        self.counts = np.array(source.shard_counts, np.int64)
        self._dead = dead
        self._arena = _of_arena(salvage, number, self.counts)
        self.entries = self.loops = 0

    def lists(self, shard: int) -> Lists:
        """Return the lists of a shard as far as the shard or the arena has them."""
        count, num_shards = int(self.counts[shard]), self.counts.size
        adjacency, spans = _of_shard(self._salvage, self._number, shard, self.counts)
        covered = np.zeros(count, bool)
        for first, size in spans.tolist():
            covered[first : first + size] = True
        own = np.flatnonzero(covered)
        degrees, firsts, behind = np.zeros(count, np.int64), np.zeros(count, np.int64), 0
        parts: list[Columns] = []

        def take(places: np.ndarray, indptr: np.ndarray, columns: Columns) -> None:
            nonlocal behind
            degrees[places], firsts[places] = np.diff(indptr), behind + indptr[:-1]
            behind += int(indptr[-1])
            parts.append(columns)

        indptr, *columns = adjacency.columns(own * num_shards + shard)
        take(own, indptr, columns)
        edges = np.flatnonzero(np.diff(np.concatenate([[1], covered, [1]])))
        for low, high in zip(edges[::2].tolist(), edges[1::2].tolist()):
            for first, indptr, columns in _sound_parts(self._arena, shard, low, high) if self._arena else ():
                places = np.arange(first, first + indptr.size - 1)
                take(places, indptr, columns)
                covered[places] = True
        starts = starts_of(degrees)
        joined = [
            None if column[0] is None else take_spans(np.concatenate(column), firsts, starts) for column in zip(*parts)
        ]
        return Lists(starts, joined, np.flatnonzero(~covered))

    def lost_nodes(self) -> np.ndarray:
        """Return all nodes whose lists could not be read."""
        num_shards = self.counts.size
        return np.concatenate([self.lists(shard).lost * num_shards + shard for shard in range(num_shards)])

    def encoded(self, given_back: list[np.ndarray] | None) -> Iterator[tuple[int, Encoded]]:
        """Yield (shard, records) of all lists; `given_back` are rows for those that are lost, from the reverse type."""
        for shard in range(self.counts.size):
            lists = self.lists(shard)
            if given_back is not None and lists.lost.size:
                lists = self._filled(lists, shard, given_back)
            indptr, columns = self._without_dead(lists, shard)
            neighbors, weights, times, edge_ids = columns
            assert neighbors is not None
            self.entries += neighbors.size
            if self.entry.src == self.entry.dst:
                sources = np.repeat(np.arange(indptr.size - 1) * self.counts.size + shard, np.diff(indptr))
                self.loops += int(np.count_nonzero(sources == neighbors))
            yield shard, encode(indptr, neighbors, weights, times, edge_ids, bits=self.entry.bits)

    def _filled(self, lists: Lists, shard: int, given_back: list[np.ndarray]) -> Lists:
        """Put rows (node, neighbour, weight, time, edge id) into the lists that are lost."""
        num_shards = self.counts.size
        own = given_back[0] % num_shards == shard
        places = given_back[0][own] // num_shards
        old = np.repeat(np.arange(lists.indptr.size - 1), np.diff(lists.indptr))
        rows = np.concatenate([old, places])
        columns = [
            None if column is None else np.concatenate([column, new[own].astype(column.dtype)])
            for column, new in zip(lists.columns, given_back[1:])
        ]
        neighbors, times = columns[0], columns[2]
        assert neighbors is not None
        keys = [rows.view(np.uint64), neighbors.view(np.uint64)]
        if times is not None:
            # Signed times in the order of unsigned ones.
            keys.insert(1, times.view(np.uint64) ^ np.uint64(1 << 63))
        order = sorted_order([(key, 64) for key in keys])
        indptr = starts_of(np.bincount(rows, minlength=lists.indptr.size - 1))
        return Lists(indptr, [None if column is None else column[order] for column in columns], lists.lost)

    def _without_dead(self, lists: Lists, shard: int) -> tuple[np.ndarray, Columns]:
        neighbors = lists.columns[0]
        assert neighbors is not None
        sources = np.arange(lists.indptr.size - 1) * self.counts.size + shard
        gone = np.isin(sources, self._dead[self.entry.src])
        rows = np.repeat(np.arange(sources.size), np.diff(lists.indptr))
        keep = ~gone[rows] & ~np.isin(neighbors, self._dead[self.entry.dst])
        if keep.all():
            return lists.indptr, lists.columns
        indptr = starts_of(np.bincount(rows[keep], minlength=sources.size))
        return indptr, [None if column is None else column[keep] for column in lists.columns]

    def rows_to(self, wanted: np.ndarray) -> list[np.ndarray]:
        """Return (neighbour, source, weight, time, edge id) of the entries whose neighbour is one of some nodes."""
        found: list[list[np.ndarray]] = []
        for shard in range(self.counts.size):
            lists = self.lists(shard)
            sources = np.repeat(np.arange(lists.indptr.size - 1) * self.counts.size + shard, np.diff(lists.indptr))
            neighbors = lists.columns[0]
            assert neighbors is not None
            chosen = np.isin(neighbors, wanted)
            zeros = np.zeros(neighbors.size, np.int64)
            rest = [zeros if column is None else column for column in lists.columns[1:]]
            found.append([column[chosen] for column in (neighbors, sources, *rest)])
        return [np.concatenate(column) for column in zip(*found)]


def with_counts(entry: StoredEdgeType, lists: ListSalvage) -> StoredEdgeType:
    """Return the entry of an edge type with the counts of what was written."""
    entries, loops = lists.entries, lists.loops
    edges = (entries + loops) // 2 if entry.undirected else entries
    return replace(entry, num_entries=entries, self_loops=loops, num_edges=edges)
