"""The store that an ingest makes, once the rows of each shard are together: lists, ids, features, shards, manifest."""

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from graph_store.arena_layout import Sums
from graph_store.checkpoints import MAPPED
from graph_store.edge_file import EdgeFile, PartSizes, PartSums
from graph_store.edge_groups import Group
from graph_store.edge_lists import PLAIN_ROW_BYTES, ROW_BYTES
from graph_store.edge_type import POLICIES
from graph_store.feature_records import EDGES, NODES, feature_file
from graph_store.feature_type import FeatureType
from graph_store.feature_writer import dictionaries, feature_pieces, stored_features
from graph_store.generation import SEALED_AT_ONCE, sealed_files
from graph_store.id_file import write_id_pieces, write_node_file
from graph_store.ingest_run import IngestRun
from graph_store.ingest_state import mapped_values
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType, fsync_folder
from graph_store.read_ahead import in_order
from graph_store.resident import arena_folder, edge_file, node_file, shard_folder
from graph_store.shard import Shard, SortedFile
from graph_store.shard_writer import Records, ShardWriter
from graph_store.spool import Spool

# Memory that the packed records of a row take while they wait for their turn.
_PACKED_ROW_BYTES = 24


class StoreOutput:
    """Writes what `IngestRun` prepared.

    Attributes
    ----------
    entries, loops : int64[edge types]
        Entries of lists, and self loops among them.
    """

    def __init__(self, run: IngestRun) -> None:
        self.run, self.context = run, run.context
        self._names = [name for group in run.groups for name in group.names]
        self.entries, self.loops = np.zeros(len(self._names), np.int64), np.zeros(len(self._names), np.int64)

    def write(self, identity: str) -> None:
        """Write everything; `identity` is the store's uuid."""
        context = self.context
        self._write_lists()
        context.together(self._write_nodes)
        sealed: dict[str, dict[str, int]] = {}
        context.progress.phase("sealing shards", len(context.shards), unit="shard")
        for each in context.exchange(context.together(self._seal)):
            sealed |= each
        if context.ranks.rank == 0:
            fsync_folder(arena_folder(context.store))
            fsync_folder(context.store / "gen-1")
            self.manifest(identity, sealed).save(context.store)

    # Lists

    def _write_lists(self) -> None:
        """Write the records and the arena files of all edge types: each rank for its shards."""
        context, run = self.context, self.run
        spool = context.spool("tables")
        first, files = self._restored(spool)
        writer = ShardWriter(run.groups, run.nodes, run.blocks, schema=context.schema, folder=context.work)
        rows = [writer.rows_of(shard) for shard in context.shards]
        context.progress.phase("sorting and packing", sum(rows), unit="edge")
        context.progress.advance(sum(rows[: first - context.shards.start]))

        def write() -> list[PartSizes]:
            for shard, found in self._shards(writer, range(first, context.shards.stop), max(rows, default=0)):
                for records in found:
                    self.entries[records.number] += records.entries
                    self.loops[records.number] += records.loops
                    if records.encoded.records.size:
                        files[records.number].add(shard, records.encoded)
                    context.progress.advance(records.entries)
                for file in files:
                    file.close_shard(shard)
                if context.checkpoints.due:
                    self._save(shard + 1, files, spool)
            sizes = [file.end() for file in files]
            if self._has_saved:
                self._save(context.shards.stop, files, spool)
            return sizes

        own = context.together(write)
        # Other ranks read this one's rows until here.
        run.close_rows()
        told = context.exchange([own, [file.shard_blocks for file in files], self.entries, self.loops])
        self.entries = np.sum([each[2] for each in told], axis=0)
        self.loops = np.sum([each[3] for each in told], axis=0)
        sizes = [[PartSizes(*each[0][number]) for each in told] for number in range(len(files))]
        blocks = [np.sum([each[1][number] for each in told], axis=0) for number in range(len(files))]
        self._seal_files(files, sizes, blocks)
        spool.clear()

    def _restored(self, spool: Spool) -> tuple[int, list[EdgeFile]]:
        """Return the first shard whose lists are to be written, and the arena files so far."""
        context = self.context
        places = [(group, number) for group in self.run.groups for number in self._numbers(group)]
        saved = context.checkpoints.value("lists")
        self._has_saved = saved is not None
        first, states = context.shards.start, [None] * len(places)
        if saved is not None:
            first, self.entries, self.loops, states, _ = saved
        return first, [self._edge_file(*place, spool, state) for place, state in zip(places, states)]

    def _save(self, first: int, files: Sequence[EdgeFile], spool: Spool) -> None:
        """Save the lists of the shards before `first`."""
        checkpoints, run = self.context.checkpoints, self.run
        all_made = first == self.context.shards.stop
        lists = [first, self.entries, self.loops, [file.state for file in files], all_made]
        fsync_folder(self.context.work)
        fsync_folder(arena_folder(self.context.store))
        values = {**mapped_values(run), "lists": (lists, spool)}
        spools = {**run.mapped_spools, "tables": spool}
        checkpoints.save(MAPPED, values, spools=spools, alone=checkpoints.phase == MAPPED)
        self._has_saved = True

    def _seal_files(
        self, files: Sequence[EdgeFile], sizes: Sequence[Sequence[PartSizes]], blocks: Sequence[np.ndarray]
    ) -> None:
        """Put the parts of the arena files together, but of those that were before a kill."""
        context = self.context
        numbers = [number for number, file in enumerate(files) if not file.sealed]

        def in_threads(call: Callable[[int], Any]) -> list[Any]:
            with ThreadPoolExecutor(context.budget.sealed_at_once(SEALED_AT_ONCE)) as pool:
                return list(pool.map(call, numbers))

        def write_part(number: int) -> PartSums:
            return files[number].write_part(sizes[number], blocks[number])

        sums = context.exchange(context.together(partial(in_threads, write_part)))
        place = {number: place for place, number in enumerate(numbers)}

        def seal(number: int) -> None:
            parts = [PartSums(*(Sums(*section) for section in each[place[number]])) for each in sums]
            files[number].seal(sizes[number], blocks[number], parts)

        context.together(lambda: in_threads(seal) if context.ranks.rank == 0 else [])
        for file in files:
            file.drop()

    def _numbers(self, group: Group) -> range:
        return range(group.first, group.first + len(group.names))

    def _edge_file(self, group: Group, number: int, spool: Spool, state: Any) -> EdgeFile:
        context = self.context
        counts = np.diff(self.run.nodes[group.src].base)
        path = edge_file(context.store, 1, number)
        return EdgeFile(path, counts, context.shards, spool, rank=context.ranks.rank, state=state)

    def _shards(self, writer: ShardWriter, shards: range, most_rows: int) -> Iterator[tuple[int, Iterable[Records]]]:
        """Yield the records of each shard; several shards are made side by side where there is memory for it."""
        context = self.context
        room, threads = context.budget.work, context.threads
        valued = any(group.edge_type.weighted or group.edge_type.timed or group.numbered for group in self.run.groups)
        sorting = ROW_BYTES if valued else PLAIN_ROW_BYTES
        needed = most_rows * (sorting * threads + _PACKED_ROW_BYTES * (threads + 1))
        if threads == 1 or needed > room:
            for shard in shards:
                yield shard, writer.write(shard, room=room, threads=threads)
            return

        def written(shard: int) -> list[Records]:
            return list(writer.write(shard, room=room // threads, threads=1))

        calls: list[Callable[[], list[Records]]] = [partial(written, shard) for shard in shards]
        yield from zip(shards, in_order(calls, threads=threads))

    # Ids and features

    def _write_nodes(self) -> None:
        """Write the arena files of node types: each rank some of them."""
        context = self.context
        types = list(enumerate(self.run.nodes.values()))[context.ranks.rank :: context.ranks.size]
        context.progress.phase("writing ids", len(types), unit="type")
        for number, ids in types:
            write_node_file(node_file(context.store, 1, number), ids, room=context.budget.work)
            context.progress.advance(1)

    def _featured(self) -> Iterator[tuple[bytes, int, tuple[FeatureType, ...]]]:
        """Yield (kind, number, features) of all types with features, in the order of their keys."""
        for group in self.run.groups:
            if group.forward and group.numbered:
                for number in self._numbers(group):
                    yield EDGES, number, group.edge_type.features
        for number, ids in enumerate(self.run.nodes.values()):
            if ids.node_type.features:
                yield NODES, number, ids.node_type.features

    def _sst_files(self, shard: int) -> dict[str, Path]:
        """Write the ids and features of a shard; returns the file of each column family, where there is one."""
        context, work = self.context, self.context.work
        files = {name: SortedFile(work / f"{name}-{shard}.sst") for name in ("ids", "feat", "meta")}
        for number, ids in enumerate(self.run.nodes.values()):
            write_id_pieces(files["ids"], number, ids, shard)
        for kind, number, features in self._featured():
            path = feature_file(context.store, 1, kind, number)
            base = context.num_shards if kind == EDGES else list(self.run.nodes.values())[number].base
            for key, piece in feature_pieces(path, features, kind, number, shard=shard, base=base):
                files["feat"].put(key, piece)
            if shard == 0:
                for key, piece in dictionaries(path, features, kind, number):
                    files["meta"].put(key, piece)
        found = {name: file.path for name, file in files.items() if file.finish()}
        lists = work / f"adj-{shard}.sst"
        if not lists.exists():
            return found
        return found | {"adj": self._kept(lists) if context.checkpoints.has_state else lists}

    def _kept(self, path: Path) -> Path:
        """Return a second name for a file: RocksDB takes one away, and after a kill the file is needed again."""
        other = path.with_name("again-" + path.name)
        other.unlink(missing_ok=True)
        try:
            os.link(path, other)
        except OSError:
            shutil.copyfile(path, other)
        return other

    # Shards

    def _seal(self) -> dict[str, dict[str, int]]:
        """Make the databases of this rank's shards; returns their files' sizes and checksums."""
        sealed: dict[str, dict[str, int]] = {}
        with ThreadPoolExecutor(self.context.budget.sealed_at_once(SEALED_AT_ONCE)) as pool:
            for part in pool.map(self._seal_shard, self.context.shards):
                sealed |= part
                self.context.progress.advance(1)
        return sealed

    def _seal_shard(self, shard: int) -> dict[str, dict[str, int]]:
        folder = shard_folder(self.context.store, 1, shard)
        folder.parent.mkdir(parents=True, exist_ok=True)
        files = self._sst_files(shard)
        with Shard(folder, read_only=False) as database:
            for family, path in files.items():
                database.ingest(family, [path])
        return sealed_files(self.context.store, folder)

    # Manifest

    def manifest(self, identity: str, sealed: dict[str, dict[str, int]]) -> Manifest:
        """Return the manifest of the store."""
        context, run = self.context, self.run
        return Manifest(
            uuid=identity,
            num_shards=context.num_shards,
            node_types=[
                StoredNodeType(
                    name,
                    ids.node_type.id_type,
                    ids.count,
                    np.diff(ids.base).tolist(),
                    stored_features(ids.node_type.features),
                )
                for name, ids in run.nodes.items()
            ],
            edge_types=[self._entry(group, place) for group in run.groups for place in range(len(group.names))],
            left_out={name: counts for name, counts in run.counts.items() if counts},
            files=sealed,
        )

    def _entry(self, group: Group, place: int) -> StoredEdgeType:
        run, edge_type, number = self.run, group.edge_type, group.first + place
        entries, loops = int(self.entries[number]), int(self.loops[number])
        counted = (entries + loops) // 2 if edge_type.undirected else entries
        opposite = next(
            (each for each in run.groups if each.declared == group.declared and each.forward != group.forward), None
        )
        relation = sorted(run.edge_rows[group.declared])[place]
        return StoredEdgeType(
            name=group.names[place],
            undirected=edge_type.undirected,
            reverse=group.names[place] if edge_type.undirected else opposite.names[place] if opposite else None,
            weighted=edge_type.weighted,
            timed=edge_type.timed,
            bits=run.nodes[group.dst].highest.bit_length(),
            num_edges=counted,
            num_entries=entries,
            duplicates=int(run.rows[group.declared][place]) - counted,
            self_loops=loops,
            edge_rows=run.edge_rows[group.declared][relation] if group.numbered else 0,
            features=stored_features(edge_type.features),
            time_unit=edge_type.time_unit,
            rules={rule: getattr(edge_type, rule) for rule in POLICIES},
        )
