"""Reads a whole store and lists what is wrong with it."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from zlib import crc32

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.arena import ArenaFile
from graph_store.blocks import HEADER_WORDS, HUB_MARK, Encoded
from graph_store.errors import CorruptBlock, GraphStoreError
from graph_store.ids import shards_of
from graph_store.kernels import kernel
from graph_store.manifest import Manifest, StoredEdgeType
from graph_store.resident import (
    edge_file,
    ids_from_shards,
    node_file,
    records_of_shard,
    shard_folder,
    write_edges,
)
from graph_store.string_ids import StringMap

CHUNK_NODES = 1 << 16


def verify(path: str | os.PathLike[str]) -> list[str]:
    """Check checksums and invariants of everything in a store.

    Read are the sealed files against the manifest, each record and each piece of ids against its crc32c, the arena
    against its own checksums and against the shards; checked are counts, order, ranges, and that the lists of a reverse
    or undirected type are the transposed lists.

    Returns
    -------
    list of str
        One line a fault, naming the place; empty when there is none.

    Raises
    ------
    StoreNotFound
        There is no store.
    """
    store = Path(path)
    try:
        manifest = Manifest.load(store)
    except CorruptBlock as error:
        return [str(error)]
    faults = list(_files(manifest, store))
    for number in range(len(manifest.node_types)):
        faults += _ids(manifest, store, number)
    readable: dict[str, Adjacency] = {}
    for number, entry in enumerate(manifest.edge_types):
        adjacency = _rebuilt(manifest, store, number, faults)
        if adjacency is not None:
            faults += _lists(manifest, adjacency, entry)
            readable[entry.name] = adjacency
    for name, adjacency in readable.items():
        entry = next(item for item in manifest.edge_types if item.name == name)
        if entry.reverse in readable:
            faults += _transposed(manifest, entry, adjacency, readable[str(entry.reverse)])
    return faults


def _files(manifest: Manifest, store: Path) -> Iterator[str]:
    for name, expected in manifest.files.items():
        try:
            data = (store / name).read_bytes()
        except OSError as error:
            yield f"{store / name}: cannot read it: {error.strerror}"
            continue
        if len(data) != expected["bytes"]:
            yield f"{store / name}: {len(data)} bytes, the manifest says {expected['bytes']}"
        elif crc32(data) != expected["crc32"]:
            yield f"{store / name}: its crc32 is not that of the manifest"


def _damaged(path: Path) -> Iterator[str]:
    """Yield the faults of an arena file; one that is absent has none, it is rebuilt when the store is opened."""
    try:
        for section in ArenaFile(path).damaged_sections():
            yield f"{path}: section {section!r} fails its checksum; delete the file, it is rebuilt"
    except FileNotFoundError:
        return
    except CorruptBlock as error:
        yield str(error)


def _ids(manifest: Manifest, store: Path, number: int) -> Iterator[str]:
    """Yield the faults of a node type."""
    entry = manifest.node_types[number]
    path = node_file(store, manifest.generation, number)
    damaged = list(_damaged(path))
    yield from damaged
    try:
        ids = ids_from_shards(manifest, store, number)
    except (GraphStoreError, OSError) as error:
        yield str(error)
        return
    if not isinstance(ids, StringMap):
        shards = np.repeat(np.arange(manifest.num_shards), np.diff(ids.base))
        if not np.array_equal(shards_of(ids.originals, manifest.num_shards), shards):
            yield f"{store}: ids of {entry.name!r} lie in shards that are not theirs"
        if np.any((ids.originals[1:] <= ids.originals[:-1]) & (shards[1:] == shards[:-1])):
            yield f"{store}: ids of {entry.name!r} are not ascending within a shard"
    if not damaged and path.exists():
        yield from _differing(path, ids.sections)


def _differing(path: Path, expected: Mapping[str, np.ndarray]) -> Iterator[str]:
    """Yield the sections of an arena file that are not as the shards make them."""
    found = ArenaFile(path).sections
    for name in sorted(expected.keys() | found.keys()):
        if name not in found or name not in expected or not np.array_equal(found[name], expected[name]):
            yield f"{path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt"


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


def _check_covered(encoded: Encoded, count: int, where: str) -> None:
    """Raise CorruptBlock where records are missing or too many."""
    row = int(_first_gap(encoded.words, encoded.words.view(np.uint32), encoded.records, count))
    if row >= 0:
        found = f"block from local id {encoded.records[row, 2]}" if row < len(encoded.records) else "the end"
        raise CorruptBlock(f"{where}: {found} found where another record is due; restore the store from its source")


def _rebuilt(manifest: Manifest, store: Path, number: int, faults: list[str]) -> Adjacency | None:
    """Build an edge type's arena again beside the store's own, compare them, and return the lists; None if damaged."""
    import tempfile

    entry = manifest.edge_types[number]
    path = edge_file(store, manifest.generation, number)
    damaged = list(_damaged(path))
    faults += damaged
    counts = next(item for item in manifest.node_types if item.name == entry.src).shard_counts
    base = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    unreadable = 0

    def pieces() -> Iterator[tuple[int, Encoded]]:
        nonlocal unreadable
        for shard in range(manifest.num_shards):
            try:
                encoded = records_of_shard(manifest, store, number, shard)
                _check_covered(
                    encoded, counts[shard], f"{shard_folder(store, manifest.generation, shard)}: {entry.name}"
                )
            except (GraphStoreError, OSError) as error:
                unreadable += 1
                faults.append(str(error))
            else:
                yield shard, encoded

    with tempfile.TemporaryDirectory(prefix="gossamer-verify-") as folder:
        copy = Path(folder) / path.name
        write_edges(copy, base, pieces())
        sections = ArenaFile(copy).sections
    if unreadable:
        return None
    if path.exists() and not damaged:
        faults += _differing(path, sections)
    return Adjacency(sections, weighted=entry.weighted, timed=entry.timed, threads=None)


def _all_lists(
    adjacency: Adjacency,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]]:
    """Yield (nodes, indptr, neighbours, weights, times) over all sources, some at a time."""
    num_shards = adjacency.counts.size
    for shard, count in enumerate(adjacency.counts.tolist()):
        for low in range(0, count, CHUNK_NODES):
            nodes = np.arange(low, min(low + CHUNK_NODES, count)) * num_shards + shard
            yield nodes, *adjacency.lists(nodes, extras=True)


def _lists(manifest: Manifest, adjacency: Adjacency, entry: StoredEdgeType) -> Iterator[str]:
    counts = np.array(next(item for item in manifest.node_types if item.name == entry.dst).shard_counts)
    entries = loops = 0
    for nodes, indptr, neighbors, _, times in _all_lists(adjacency):
        entries += neighbors.size
        locals_, shards = np.divmod(neighbors, manifest.num_shards)
        outside = np.flatnonzero(locals_ >= counts[shards])
        sources = np.repeat(nodes, np.diff(indptr))
        if outside.size:
            where = int(outside[0])
            yield f"{entry.name}: node {sources[where]} has the neighbour {neighbors[where]}, which is no node"
        inner = np.diff(sources) == 0
        steps = np.diff(neighbors) <= 0
        if times is not None:
            steps = (times[1:] < times[:-1]) | ((times[1:] == times[:-1]) & steps)
        if np.any(inner & steps):
            where = int(np.flatnonzero(inner & steps)[0])
            yield f"{entry.name}: the list of node {sources[where]} is not ascending or has a duplicate"
        if entry.src == entry.dst:
            loops += int(np.count_nonzero(sources == neighbors))
    if entries != entry.num_entries or entries != adjacency.num_edges:
        yield f"{entry.name}: {entries} entries in the lists, the manifest says {entry.num_entries}"
    if loops != entry.self_loops:
        yield f"{entry.name}: {loops} self loops in the lists, the manifest says {entry.self_loops}"
    expected = (entries + loops) // 2 if entry.undirected else entries
    if expected != entry.num_edges:
        yield f"{entry.name}: {expected} edges in the lists, the manifest says {entry.num_edges}"


def _mixed(values: np.ndarray) -> np.ndarray:
    values = (values ^ values >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ values >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
    return values ^ values >> np.uint64(31)


def _digest(adjacency: Adjacency, *, swapped: bool) -> int:
    """Sum up a hash of each entry, both ends with weight and time, whatever their order."""
    total = 0
    for nodes, indptr, neighbors, weights, times in _all_lists(adjacency):
        ends = np.repeat(nodes, np.diff(indptr)), neighbors
        hashes = np.zeros(neighbors.size, np.uint64)
        columns = [*(ends[::-1] if swapped else ends), times]
        for column in columns:
            if column is not None:
                hashes = _mixed(hashes ^ column.view(np.uint64)) + np.uint64(0x9E3779B97F4A7C15)
        if weights is not None:
            hashes = _mixed(hashes ^ weights.view(np.uint32))
        total += int(hashes.sum(dtype=np.uint64))
    return total % 2**64


def _transposed(manifest: Manifest, entry: StoredEdgeType, adjacency: Adjacency, reverse: Adjacency) -> Iterator[str]:
    """Check that each entry has its opposite, with the same weight and time."""
    if adjacency.num_edges != reverse.num_edges:
        yield f"{entry.name}: {adjacency.num_edges} entries, its reverse {entry.reverse} has {reverse.num_edges}"
        return
    if _digest(adjacency, swapped=False) == _digest(reverse, swapped=True):
        return
    counts = np.array(next(item for item in manifest.node_types if item.name == entry.dst).shard_counts)
    for nodes, indptr, neighbors, _, _ in _all_lists(adjacency):
        sources = np.repeat(nodes, np.diff(indptr))
        locals_, shards = np.divmod(neighbors, manifest.num_shards)
        inside = locals_ < counts[shards]
        missing = np.flatnonzero(~reverse.has_edges(neighbors[inside], sources[inside]))
        if missing.size:
            where = np.flatnonzero(inside)[missing[0]]
            yield f"{entry.name}: {sources[where]} → {neighbors[where]} has no opposite in {entry.reverse}"
            return
    yield f"{entry.name}: its weights or times are not those of its reverse {entry.reverse}"
