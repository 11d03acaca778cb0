"""Checks the edges of a type: the records in the shards, one shard at a time, and the arena file of all of them."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.arena import ArenaFile
from graph_store.arena_blocks import BLOCK_SHIFT, arena_words, fill_arena
from graph_store.blocks import (
    COLUMN_FLAGS,
    FLAG_EDGE_IDS,
    FLAG_TIMES,
    FLAG_WEIGHTS,
    GROUP_NODES,
    HEADER_WORDS,
    HUB_MARK,
    Encoded,
    check_records,
)
from graph_store.errors import CorruptBlock
from graph_store.kernels import kernel
from graph_store.manifest import Manifest, StoredEdgeType
from graph_store.packing import CRC_TABLES
from graph_store.ragged import starts_of
from graph_store.resident import shard_folder
from graph_store.shard import Shard, record_key
from graph_store.verify_lists import ListCheck, list_faults

# So many damaged records of a shard are listed one by one.
_LISTED = 20


@kernel
def _first_gap(words, words32, records, count):
    """Return the row of the first record that does not follow on the one before, -1 when they cover all local ids."""
    row, node = 0, np.int64(0)
    while row < records.shape[0]:
        at, first = records[row, 0], records[row, 2]
        if records[row, 3] != 0 or first != node:
            return row
        num_nodes = np.int64(words32[2 * at + 4])
        marks, head = 2 * (at + HEADER_WORDS), at + HEADER_WORDS + ((num_nodes + 2) >> 1)
        node, row, ordinal = node + num_nodes, row + 1, 0
        for mark in range(marks, marks + num_nodes):
            if words32[mark] & HUB_MARK:
                left, chunk = np.int64(words[head + 4 * ordinal]), 0
                ordinal += 1
                while left > 0:
                    if row == records.shape[0] or records[row, 2] != first:
                        return row
                    if records[row, 3] != ordinal or records[row, 4] != chunk:
                        return row
                    left -= np.int64(words32[2 * records[row, 0] + 5])
                    chunk, row = chunk + 1, row + 1
    return -1 if node == count else row


def bad_rows(encoded: Encoded) -> list[int]:
    """Return the rows of all damaged records."""
    found: list[int] = []
    row = 0
    while True:
        bad = int(check_records(encoded.words, encoded.records[row:], CRC_TABLES))
        if bad < 0:
            return found
        found.append(row + bad)
        row += bad + 1


def expected_flags(entry: StoredEdgeType) -> int:
    """Return which columns the records of an edge type have."""
    return FLAG_WEIGHTS * entry.weighted | FLAG_TIMES * entry.timed | FLAG_EDGE_IDS * entry.numbered


def shard_sections(encoded: Encoded, counts: np.ndarray, shard: int) -> dict[str, np.ndarray]:
    """Return the sections of an arena that holds one shard of an edge type only."""
    num_shards, groups = counts.size, int(counts[shard] + GROUP_NODES - 1) // GROUP_NODES
    words = np.zeros(int(arena_words(encoded.words, encoded.records)), np.uint64)
    blocks, directory = np.empty((encoded.records.shape[0], 3), np.int64), np.zeros(groups, np.int64)
    used, edges = fill_arena(encoded.words, encoded.records, words, 0, 0, directory, blocks, 0)
    shards = np.arange(num_shards)
    return {
        "words": words,
        "directory": directory,
        "group_base": np.zeros(num_shards + 1, np.int64),
        "blocks": blocks[:used].ravel(),
        "shard_starts": np.where(np.arange(num_shards + 1) > shard, used, 0),
        "counts": np.where(shards == shard, counts, 0),
        "num_edges": np.array([edges], np.int64),
    }


def adjacency_of(sections: Mapping[str, np.ndarray], entry: StoredEdgeType) -> Adjacency:
    """Return the lists of one shard."""
    return Adjacency(sections, weighted=entry.weighted, timed=entry.timed, numbered=entry.numbered, threads=1)


class EdgeCheck:
    """Takes the shards one after the other, and then sums up.

    Parameters
    ----------
    file : ArenaFile or None
        The type's, None where it is absent or damaged.
    dead : mapping of str to int64[d]
        The deleted nodes of each node type.

    Attributes
    ----------
    complete : bool
        False once a shard could not be read whole.
    lists : ListCheck
    """

    def __init__(
        self, manifest: Manifest, store: Path, number: int, file: ArenaFile | None, dead: Mapping[str, np.ndarray]
    ) -> None:
        self.manifest, self._store, self._number, self._file = manifest, store, number, file
        self.entry = manifest.edge_types[number]
        source = next(item for item in manifest.node_types if item.name == self.entry.src)
        self._counts = np.array(source.shard_counts, np.int64)
        self.lists, self.complete = ListCheck(manifest, self.entry, dead), True
        self._words = self._edges = self._blocks = 0
        self._group_base = starts_of((self._counts + GROUP_NODES - 1) // GROUP_NODES)

    def shard(self, database: Shard, shard: int) -> Iterator[str]:
        """Yield the faults of a shard."""
        try:
            encoded = database.records(self._number)
        except CorruptBlock as error:
            self.complete = False
            yield str(error)
            return
        faults = list(self._record_faults(encoded, shard))
        yield from faults
        if faults:
            self.complete = False
            return
        sections = shard_sections(encoded, self._counts, shard)
        if self.complete and self._file is not None:
            yield from self._differing(sections, shard)
        self._words += sections["words"].size
        self._edges += int(sections["num_edges"][0])
        self._blocks += sections["blocks"].size // 3
        yield from list_faults(self.lists, adjacency_of(sections, self.entry), range(shard, shard + 1))

    def _record_faults(self, encoded: Encoded, shard: int) -> Iterator[str]:
        path = f"{shard_folder(self._store, self.manifest.generation, shard)}: 'adj'"
        name, rows = self.entry.name, bad_rows(encoded)
        for row in rows[:_LISTED]:
            key, first = record_key(self._number, *encoded.records[row, 2:].tolist()), encoded.records[row, 2]
            yield f"{path}, key {key.hex()}: block from local id {first} of edge type {name} fails its checksum"
        if len(rows) > _LISTED:
            yield f"{path}: {len(rows) - _LISTED} more blocks of edge type {name} fail their checksums"
        if rows:
            return
        flags = encoded.words[encoded.records[:, 0]] >> np.uint64(40)
        other = np.flatnonzero(flags & np.uint64(COLUMN_FLAGS) != expected_flags(self.entry))
        if other.size:
            yield (
                f"{path}: block from local id {encoded.records[other[0], 2]} of edge type {name} has other columns "
                f"than the manifest says (weights {self.entry.weighted}, times {self.entry.timed}, edge ids "
                f"{self.entry.numbered})"
            )
            return
        gap = int(_first_gap(encoded.words, encoded.words.view(np.uint32), encoded.records, self._counts[shard]))
        if gap >= 0:
            found = f"block from local id {encoded.records[gap, 2]}" if gap < len(encoded.records) else "the end"
            yield f"{path}: {name}: {found} found where another record is due; restore the store from its source"

    def _differing(self, sections: Mapping[str, np.ndarray], shard: int) -> Iterator[str]:
        """Yield the sections of the arena that are not as a shard makes them."""
        assert self._file is not None
        found = self._file.sections
        words, groups = sections["words"], slice(int(self._group_base[shard]), int(self._group_base[shard + 1]))
        blocks = sections["blocks"].reshape(-1, 3) + np.array([self._words, self._edges, 0])
        parts = {
            "words": (slice(self._words, self._words + words.size), words),
            "directory": (groups, sections["directory"] + (self._words << BLOCK_SHIFT)),
            "blocks": (slice(3 * self._blocks, 3 * (self._blocks + len(blocks))), blocks.ravel()),
            "shard_starts": (slice(shard + 1, shard + 2), np.array([self._blocks + len(blocks)])),
            "group_base": (slice(shard + 1, shard + 2), self._group_base[shard + 1 : shard + 2]),
            "counts": (slice(shard, shard + 1), self._counts[shard : shard + 1]),
        }
        for name, (span, expected) in parts.items():
            if name not in found or not np.array_equal(found[name][span], expected):
                yield f"{self._file.path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt"
                self._file = None
                return

    def finish(self) -> Iterator[str]:
        """Yield where the sums are not those of the manifest, and what the arena has besides."""
        if not self.complete:
            return
        yield from self.lists.finish()
        if self._file is None:
            return
        sizes = {"words": self._words, "directory": int(self._group_base[-1]), "blocks": 3 * self._blocks}
        for name, size in sizes.items():
            if self._file.sections[name].size != size:
                yield f"{self._file.path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt"
        if int(self._file.sections["num_edges"][0]) != self._edges:
            yield f"{self._file.path}: section 'num_edges' is not what the shards hold; delete the file, it is rebuilt"
