"""What lies in the arena of a store: one file an edge type and a node type, written at ingest or from the shards."""

import errno
import struct
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np

from graph_store.arena import ArenaFile, ArenaWriter
from graph_store.arena_blocks import arena_words, check_addressable, fill_arena
from graph_store.blocks import (
    COLUMN_FLAGS,
    FLAG_EDGE_IDS,
    FLAG_TIMES,
    FLAG_WEIGHTS,
    GROUP_NODES,
    Encoded,
    first_bad_record,
)
from graph_store.errors import CorruptBlock, GraphStoreError
from graph_store.feature_records import EDGES, NODES, feature_file, tables_from_shards, write_tables
from graph_store.features import Sections
from graph_store.ids import CHECKED_LATER, IdMap
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType
from graph_store.open_shards import OpenShards
from graph_store.read_ahead import in_order
from graph_store.shard import open_piece, seal_piece
from graph_store.string_ids import StringMap

PIECE_IDS = 4096


def arena_folder(store: Path) -> Path:
    """Return the folder of a store's arena."""
    return store / "arena"


def edge_file(store: Path, generation: int, number: int) -> Path:
    """Return the arena file of an edge type."""
    return arena_folder(store) / f"gen-{generation}.edges-{number}"


def node_file(store: Path, generation: int, number: int) -> Path:
    """Return the arena file of a node type."""
    return arena_folder(store) / f"gen-{generation}.nodes-{number}"


def shard_folder(store: Path, generation: int, shard: int) -> Path:
    """Return the folder of a shard's database."""
    return store / f"gen-{generation}" / f"shard-{shard}"


def write_edges(path: Path, base: np.ndarray, pieces: Iterable[tuple[int, Encoded]]) -> None:
    """Write an edge type's arena file from the records of its shards, in order.

    Parameters
    ----------
    base : int64[num_shards + 1]
        Dense ranks of the source type's shards.
    pieces : iterable of (shard, Encoded)
    """
    counts = np.diff(base)
    group_base = np.zeros(base.size, np.int64)
    np.cumsum((counts + GROUP_NODES - 1) // GROUP_NODES, out=group_base[1:])
    directory = np.zeros(int(group_base[-1]), np.int64)
    tables, starts = [], np.zeros(base.size, np.int64)
    at, edges = 0, 0
    with ArenaWriter(path) as writer:
        writer.begin("words", np.uint64)
        for shard, encoded in pieces:
            target = np.zeros(int(arena_words(encoded.words, encoded.records)), np.uint64)
            blocks = np.empty((encoded.records.shape[0], 3), np.int64)
            used, edges = fill_arena(
                encoded.words, encoded.records, target, at, group_base[shard], directory, blocks, edges
            )
            writer.append(target)
            tables.append(blocks[:used].ravel())
            starts[shard + 1] += used
            at += target.size
            check_addressable(at)
        writer.add("directory", directory)
        writer.add("group_base", group_base)
        writer.add("blocks", np.concatenate(tables) if tables else np.empty(0, np.int64))
        writer.add("shard_starts", np.cumsum(starts))
        writer.add("counts", counts)
        writer.add("num_edges", np.array([edges], np.int64))


def write_nodes(path: Path, ids: IdMap) -> None:
    """Write a node type's arena file."""
    ids.check_all()
    with ArenaWriter(path) as writer:
        for name, section in ids.sections.items():
            writer.add(name, section)


def read_nodes(path: Path, name: str, id_type: str) -> IdMap:
    """Map a node type's arena file."""
    file = ArenaFile(path)
    file.check(larger=CHECKED_LATER)
    if id_type == "string":
        return StringMap(name, file.sections, file.checks)
    return IdMap(name, file.sections, id_type, file.checks)


def id_pieces(ids: IdMap, shard: int) -> list[tuple[int, bytes]]:
    """Return a shard's ids as (first local id, sealed bytes) pieces of at most 4096."""
    pieces = []
    low, high = int(ids.base[shard]), int(ids.base[shard + 1])
    for start in range(low, high, PIECE_IDS):
        stop = min(start + PIECE_IDS, high)
        if isinstance(ids, StringMap):
            offsets = ids.offsets[start : stop + 1]
            lengths = np.diff(offsets)
            data = ids.originals[offsets[0] : offsets[-1]]
            body = np.zeros(lengths.size + (data.size + 7) // 8, np.int64)
            body[: lengths.size] = lengths
            body[lengths.size :].view(np.uint8)[: data.size] = data
        else:
            body = ids.originals[start:stop]
        pieces.append((start - low, seal_piece(body, stop - start, start - low)))
    return pieces


def dead_key(number: int) -> bytes:
    """Return the key in `meta` of the deleted nodes of a node type."""
    return b"d" + struct.pack(">H", number)


def dead_piece(ids: IdMap, number: int, shard: int) -> list[tuple[bytes, bytes]]:
    """Return the key and the sealed local ids of a shard's deleted nodes; nothing where none are."""
    dead = ids.dead[ids.dead % ids.num_shards == shard] // ids.num_shards
    return [(dead_key(number), seal_piece(dead, dead.size, 0))] if dead.size else []


def ids_from_shards(manifest: Manifest, store: Path, number: int, shards: OpenShards | None = None) -> IdMap:
    """Rebuild a node type's map from the pieces in the shards.

    Raises
    ------
    CorruptBlock
        A piece is damaged, or their number is not what the manifest says.
    """
    node_type = manifest.node_types[number]
    base = np.concatenate([[0], np.cumsum(node_type.shard_counts)]).astype(np.int64)
    bodies: list[np.ndarray] = []
    lengths: list[np.ndarray] = []
    gone = [np.empty(0, np.int64)]
    opened = OpenShards(0) if shards is None else shards
    for shard in range(manifest.num_shards):
        path, count = shard_folder(store, manifest.generation, shard), 0
        with opened.get(path) as database:
            for piece in database.id_pieces(number):
                size, body = open_piece(piece, f"{path}: ids of {node_type.name!r} from {count}")
                if node_type.id_type == "string":
                    lengths.append(body[:size])
                    bodies.append(body[size:].view(np.uint8)[: int(body[:size].sum())])
                else:
                    bodies.append(body[:size])
                count += size
            for _, piece in database.items("meta", dead_key(number)):
                size, body = open_piece(piece, f"{path}: deleted nodes of {node_type.name!r}")
                gone.append(body[:size] * manifest.num_shards + shard)
        if count != node_type.shard_counts[shard]:
            raise CorruptBlock(
                f"{path}: {count} ids of {node_type.name!r}, the manifest says {node_type.shard_counts[shard]}"
            )
    dead = np.sort(np.concatenate(gone))
    if node_type.id_type == "string":
        offsets = np.zeros(int(base[-1]) + 1, np.int64)
        np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]), out=offsets[1:])
        data = np.concatenate(bodies) if offsets[-1] else np.zeros(1, np.uint8)
        return StringMap.restore_strings(node_type.name, offsets, data, base, dead=dead)
    ids = IdMap.restore(node_type.name, np.concatenate([*bodies, np.empty(0, np.int64)]), base, dead)
    ids.id_type = node_type.id_type
    return ids


def records_of_shard(manifest: Manifest, store: Path, number: int, shard: int, shards: OpenShards) -> Encoded:
    """Read the records of an edge type from one shard.

    Raises
    ------
    CorruptBlock
        One is damaged, or has other columns than the manifest says.
    """
    path, entry = shard_folder(store, manifest.generation, shard), manifest.edge_types[number]
    with shards.get(path) as database:
        encoded = database.records(number)
    bad = first_bad_record(encoded)
    if bad >= 0:
        raise CorruptBlock(
            f"{path}: block from local id {encoded.records[bad, 2]} of edge type {entry.name} fails its checksum; "
            "restore the store from its source"
        )
    flags = encoded.words[encoded.records[:, 0]] >> np.uint64(40)
    expected = FLAG_WEIGHTS * entry.weighted | FLAG_TIMES * entry.timed | FLAG_EDGE_IDS * entry.numbered
    other = np.flatnonzero(flags & np.uint64(COLUMN_FLAGS) != expected)
    if other.size:
        raise CorruptBlock(
            f"{path}: block from local id {encoded.records[other[0], 2]} of edge type {entry.name} has other columns "
            f"than the manifest says (weights {entry.weighted}, times {entry.timed}, edge ids {entry.numbered})"
        )
    return encoded


def records_of(
    manifest: Manifest, store: Path, number: int, shards: OpenShards | None = None
) -> Iterable[tuple[int, Encoded]]:
    """Yield (shard, records) of an edge type from the shards, each record checked; the next shard is read meanwhile."""
    with OpenShards() if shards is None else nullcontext(shards) as opened:
        calls = (
            partial(records_of_shard, manifest, store, number, shard, opened) for shard in range(manifest.num_shards)
        )
        yield from enumerate(in_order(calls, threads=1))


def rebuild(manifest: Manifest, store: Path) -> None:
    """Write those files of the arena that are absent, from the shards.

    Raises
    ------
    CorruptBlock
        What the shards hold is damaged.
    GraphStoreError
        The arena is absent and cannot be written.
    """
    try:
        _rebuild(manifest, store)
    except GraphStoreError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        remedy = "make room" if full else "open the store once from where it can"
        raise GraphStoreError(
            f"{arena_folder(store)}: the arena is absent and cannot be written: {error.strerror}; {remedy}"
        ) from error


def _rebuild(manifest: Manifest, store: Path) -> None:
    arena_folder(store).mkdir(exist_ok=True)
    with OpenShards() as shards:
        for number in range(len(manifest.node_types)):
            path = node_file(store, manifest.generation, number)
            if not path.exists():
                write_nodes(path, ids_from_shards(manifest, store, number, shards))
        for number, edge_type in enumerate(manifest.edge_types):
            path = edge_file(store, manifest.generation, number)
            if not path.exists():
                source = next(entry for entry in manifest.node_types if entry.name == edge_type.src)
                base = np.concatenate([[0], np.cumsum(source.shard_counts)]).astype(np.int64)
                write_edges(path, base, records_of(manifest, store, number, shards))
        for kind, number, _ in featured(manifest):
            path = feature_file(store, manifest.generation, kind, number)
            if not path.exists():
                write_tables(path, features_from_shards(manifest, store, kind, number, shards))


def featured(manifest: Manifest) -> Iterator[tuple[bytes, int, StoredNodeType | StoredEdgeType]]:
    """Yield (kind, number, type) of the types with features; a reverse type has those of the other."""
    for number, node_type in enumerate(manifest.node_types):
        if node_type.features:
            yield NODES, number, node_type
    for number, edge_type in enumerate(manifest.edge_types):
        if edge_type.features and manifest.forward(number) == number:
            yield EDGES, number, edge_type


def features_from_shards(
    manifest: Manifest, store: Path, kind: bytes, number: int, shards: OpenShards | None = None
) -> list[Sections]:
    """Put the tables of a type together again from the pieces in the shards.

    Raises
    ------
    CorruptBlock
        A piece is damaged or missing.
    """

    opened = OpenShards(0) if shards is None else shards

    def read(shard: int, family: str, key: bytes) -> list[tuple[bytes, bytes, str]]:
        path = shard_folder(store, manifest.generation, shard)
        with opened.get(path) as database:
            return [(at, piece, f"{path}: {family!r}, key {at.hex()}") for at, piece in database.items(family, key)]

    entry = manifest.node_types[number] if kind == NODES else manifest.edge_types[number]
    return tables_from_shards(entry, kind, number, manifest.num_shards, read)
