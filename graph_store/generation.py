"""Writes a generation: the shards and the arena files of one version, type by type, into the folder of a store."""

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.blocks import GROUP_NODES, Encoded, encode
from graph_store.feature_records import (
    EDGES,
    NODES,
    dictionary_piece,
    feature_file,
    prefix,
    records_of_shard,
    write_tables,
)
from graph_store.feature_type import FeatureType
from graph_store.ids import IdMap
from graph_store.manifest import fsync_folder, sealed_entry
from graph_store.ragged import starts_of
from graph_store.read_ahead import in_order
from graph_store.resident import (
    arena_folder,
    dead_piece,
    edge_file,
    id_pieces,
    node_file,
    shard_folder,
    write_edges,
    write_nodes,
)
from graph_store.shard import Shard, SortedFile, id_key

# Shards are sealed side by side, more than there are cores: each mostly waits for the disk.
SEALED_AT_ONCE = 8
_CHUNK_EDGES = 1 << 20


class GenerationWriter:
    """Takes the node types, then the edge types, each in the order of their numbers, and seals what it was given.

    Parameters
    ----------
    folder : Path
        Of the store; `gen-N` in it must not exist.
    generation : int
    num_shards : int
    threads : int
    """

    def __init__(self, folder: Path, generation: int, num_shards: int, *, threads: int) -> None:
        self.folder, self.generation, self.num_shards, self.threads = folder, generation, num_shards, threads
        self._work = folder / f"gen-{generation}"
        self._work.mkdir()
        arena_folder(folder).mkdir(exist_ok=True)
        names = ("ids", "meta", "adj", "feat")
        self._files = {
            name: [SortedFile(self._work / f"{name}-{shard}.sst") for shard in range(num_shards)] for name in names
        }
        self._tables: dict[tuple[bytes, int], tuple[list[FeatureType], list, np.ndarray | int]] = {}

    def add_nodes(
        self, number: int, ids: IdMap, features: Sequence[FeatureType] = (), tables: Sequence[Mapping] = ()
    ) -> None:
        """Write the ids and features of a node type; tables have a row a dense rank."""
        write_nodes(node_file(self.folder, self.generation, number), ids)
        for shard in range(self.num_shards):
            for first, piece in id_pieces(ids, shard):
                self._files["ids"][shard].put(id_key(number, first), piece)
            for key, piece in dead_piece(ids, number, shard):
                self._files["meta"][shard].put(key, piece)
        if features:
            self._tables[NODES, number] = list(features), list(tables), ids.base
            write_tables(feature_file(self.folder, self.generation, NODES, number), tables)

    def add_edge_features(self, number: int, features: Sequence[FeatureType], tables: Sequence[Mapping]) -> None:
        """Write the features of an edge type; tables have a row an edge id."""
        self._tables[EDGES, number] = list(features), list(tables), self.num_shards
        write_tables(feature_file(self.folder, self.generation, EDGES, number), tables)

    def add_edges(self, number: int, base: np.ndarray, pieces: Iterable[tuple[int, Encoded]]) -> None:
        """Write the records of an edge type, given shard by shard; `base` is of the source type's dense ranks."""

        def kept() -> Iterator[tuple[int, Encoded]]:
            for shard, encoded in pieces:
                self._files["adj"][shard].put_records(number, encoded)
                yield shard, encoded

        write_edges(edge_file(self.folder, self.generation, number), base, kept())

    def link_edges(self, number: int, generation: int, pieces: Iterable[tuple[int, Encoded]]) -> None:
        """Take an edge type over from another generation: its records as they are, its arena file by a link."""
        for shard, encoded in pieces:
            self._files["adj"][shard].put_records(number, encoded)
        os.link(edge_file(self.folder, generation, number), edge_file(self.folder, self.generation, number))

    def _feature_files(self) -> None:
        for (kind, number), (features, tables, base) in sorted(self._tables.items(), key=lambda item: item[0]):
            for shard in range(self.num_shards):
                for key, piece in records_of_shard(features, tables, kind, number, shard=shard, base=base):
                    self._files["feat"][shard].put(key, piece)
            for place, (feature, table) in enumerate(zip(features, tables)):
                if feature.kind == "category":
                    key = b"w" + prefix(kind, number, place) + bytes(8)
                    self._files["meta"][0].put(key, dictionary_piece(table))

    def seal(self) -> dict[str, dict[str, int]]:
        """Make the shards' databases durable; returns bytes and crc32 of each of their files by path."""
        self._feature_files()
        sealed: dict[str, dict[str, int]] = {}
        with ThreadPoolExecutor(SEALED_AT_ONCE) as pool:
            for part in pool.map(self._seal_shard, range(self.num_shards)):
                sealed |= part
        fsync_folder(arena_folder(self.folder))
        fsync_folder(self._work)
        return sealed

    def _seal_shard(self, shard: int) -> dict[str, dict[str, int]]:
        folder = shard_folder(self.folder, self.generation, shard)
        with Shard(folder, read_only=False) as database:
            for family, files in self._files.items():
                if files[shard].finish():
                    database.ingest(family, [files[shard].path])
        return sealed_files(self.folder, folder)


def sealed_files(store: Path, folder: Path) -> dict[str, dict[str, int]]:
    """Make the files of a closed shard durable and return bytes and crc32 of each but its diary and its lock."""
    names = sorted(path for path in folder.iterdir() if not path.name.startswith(("LOG", "LOCK")))
    sealed = {str(path.relative_to(store)): sealed_entry(path) for path in names}
    # RocksDB has synced its own files.
    with open(folder / "rocksdict-config.json", "rb") as config:
        os.fsync(config.fileno())
    fsync_folder(folder)
    return sealed


def encoded_lists(
    adjacency: Adjacency, counts: np.ndarray, *, bits: int, threads: int, edge_rows: np.ndarray | None = None
) -> Iterator[tuple[int, Encoded]]:
    """Yield (shard, records) of all lists of an adjacency, encoded anew, some nodes at a time.

    Parameters
    ----------
    counts : int64[num_shards]
        Node numbers of the source type.
    edge_rows : int64[r], optional
        The new edge id of each old one.
    """
    base = starts_of(counts)
    num_shards = counts.size
    per_node = max(1, adjacency.num_edges // max(1, int(base[-1])))
    chunk = max(GROUP_NODES, _CHUNK_EDGES // per_node // GROUP_NODES * GROUP_NODES)

    def pack(shard: int, low: int, high: int) -> tuple[int, Encoded]:
        indptr, neighbors, weights, times, edge_ids = adjacency.columns(np.arange(low, high) * num_shards + shard)
        if edge_ids is not None and edge_rows is not None:
            edge_ids = edge_rows[edge_ids]
        return shard, encode(indptr, neighbors, weights, times, edge_ids, first=low, bits=bits)

    spans = (
        partial(pack, shard, low, min(low + chunk, int(counts[shard])))
        for shard in range(num_shards)
        for low in range(0, int(counts[shard]), chunk)
    )
    return in_order(spans, threads=threads)


def remove_generation(store: Path, generation: int) -> None:
    """Remove the files of a generation; who has them mapped keeps them."""
    import shutil

    for path in arena_folder(store).glob(f"gen-{generation}.*"):
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
    shutil.rmtree(store / f"gen-{generation}", ignore_errors=True)
