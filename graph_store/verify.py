"""Reads a whole store and lists what is wrong with it."""

import os
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.arena import ArenaFile
from graph_store.errors import CorruptBlock, GraphStoreError
from graph_store.ids import shards_of
from graph_store.manifest import Manifest, StoredEdgeType
from graph_store.resident import edge_file, ids_from_shards, node_file, read_nodes, records_of, write_edges
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
    faults += _ids(manifest, store)
    readable: dict[str, Adjacency] = {}
    for number, entry in enumerate(manifest.edge_types):
        try:
            adjacency = _rebuilt(manifest, store, number, faults)
        except (GraphStoreError, OSError) as error:
            faults.append(str(error))
            continue
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


def _ids(manifest: Manifest, store: Path) -> list[str]:
    faults: list[str] = []
    for number, entry in enumerate(manifest.node_types):
        path = node_file(store, manifest.generation, number)
        faults += _damaged(path)
        try:
            ids = ids_from_shards(manifest, store, number)
        except (GraphStoreError, OSError) as error:
            faults.append(str(error))
            continue
        if not isinstance(ids, StringMap):
            shards = np.repeat(np.arange(manifest.num_shards), np.diff(ids.base))
            if not np.array_equal(shards_of(ids.originals, manifest.num_shards), shards):
                faults.append(f"{store}: ids of {entry.name!r} lie in shards that are not theirs")
            if np.any((ids.originals[1:] <= ids.originals[:-1]) & (shards[1:] == shards[:-1])):
                faults.append(f"{store}: ids of {entry.name!r} are not ascending within a shard")
        if not faults and path.exists():
            mapped = read_nodes(path, entry.name, entry.id_type)
            for name, section in ids.sections.items():
                if not np.array_equal(section, mapped.sections[name]):
                    faults.append(
                        f"{path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt"
                    )
    return faults


def _rebuilt(manifest: Manifest, store: Path, number: int, faults: list[str]) -> Adjacency:
    """Build an edge type's arena again beside the store's own, compare them, and return the lists."""
    import tempfile

    entry = manifest.edge_types[number]
    path = edge_file(store, manifest.generation, number)
    faults += _damaged(path)
    counts = next(item for item in manifest.node_types if item.name == entry.src).shard_counts
    base = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    with tempfile.TemporaryDirectory(prefix="gossamer-verify-") as folder:
        copy = Path(folder) / path.name
        write_edges(copy, base, records_of(manifest, store, number))
        sections = ArenaFile(copy).sections
    if path.exists() and not any(str(path) in fault for fault in faults):
        for name, section in ArenaFile(path).sections.items():
            if not np.array_equal(section, sections[name]):
                faults.append(f"{path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt")
    return Adjacency(sections, weighted=entry.weighted, timed=entry.timed, threads=None)


def _all_lists(
    adjacency: Adjacency,
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray | None]]:
    """Yield (nodes, indptr, neighbours, times) over all sources, some at a time."""
    num_shards = adjacency.counts.size
    for shard, count in enumerate(adjacency.counts.tolist()):
        for low in range(0, count, CHUNK_NODES):
            nodes = np.arange(low, min(low + CHUNK_NODES, count)) * num_shards + shard
            indptr, neighbors, _, times = adjacency.lists(nodes, extras=True)
            yield nodes, indptr, neighbors, times


def _lists(manifest: Manifest, adjacency: Adjacency, entry: StoredEdgeType) -> Iterator[str]:
    counts = np.array(next(item for item in manifest.node_types if item.name == entry.dst).shard_counts)
    entries = loops = 0
    for nodes, indptr, neighbors, times in _all_lists(adjacency):
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


def _transposed(manifest: Manifest, entry: StoredEdgeType, adjacency: Adjacency, reverse: Adjacency) -> Iterator[str]:
    """Check that each entry has its opposite; with equal counts and no duplicates that makes the transpose."""
    if adjacency.num_edges != reverse.num_edges:
        yield f"{entry.name}: {adjacency.num_edges} entries, its reverse {entry.reverse} has {reverse.num_edges}"
        return
    counts = np.array(next(item for item in manifest.node_types if item.name == entry.dst).shard_counts)
    for nodes, indptr, neighbors, _ in _all_lists(adjacency):
        sources = np.repeat(nodes, np.diff(indptr))
        locals_, shards = np.divmod(neighbors, manifest.num_shards)
        inside = locals_ < counts[shards]
        missing = np.flatnonzero(~reverse.has_edges(neighbors[inside], sources[inside]))
        if missing.size:
            where = np.flatnonzero(inside)[missing[0]]
            yield f"{entry.name}: {sources[where]} → {neighbors[where]} has no opposite in {entry.reverse}"
            return
