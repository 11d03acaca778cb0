"""Makes a damaged store whole again: keeps what is sound, and says what is lost."""

import os
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from graph_store.commit_log import CommitLog, cut_log, last_readable, read_batches, read_head
from graph_store.errors import CorruptBlock, StoreNotFound
from graph_store.feature_records import EDGES, NODES
from graph_store.fold import recover
from graph_store.generation import GenerationWriter, remove_generation
from graph_store.ids import IdMap
from graph_store.kernels import num_threads
from graph_store.manifest import NAME, Manifest, fsync_folder
from graph_store.ragged import starts_of
from graph_store.salvage import Salvage
from graph_store.salvage_features import salvage_tables
from graph_store.salvage_lists import ListSalvage, with_counts
from graph_store.salvage_nodes import salvage_ids
from graph_store.update_batch import DELETE_NODES, Operation, to_payload
from graph_store.verify import Findings, examine
from graph_store.write_errors import write_errors
from graph_store.writer_lock import WriterLock


@dataclass
class RepairReport:
    """What a repair found and did.

    Attributes
    ----------
    faults : list of str
        What `verify` found before; empty for a sound store, which is left as it is.
    done : list of str
        What was done about it.
    lost : list of str
        What could be read nowhere: ids, lists, features, batches of the log, older versions.
    left : list of str
        What `verify` finds afterwards.
    version : int
        The store's version now.
    kept : Path or None
        The folder where damaged files were put aside; it may be removed.
    """

    faults: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    version: int = 0
    kept: Path | None = None


def repair(path: str | os.PathLike[str], *, threads: int | None = None) -> RepairReport:
    """Make a store sound again with all of it that can be read.

    What one place has lost is looked for in the others: in the shards, in the arena, in the lists of the reverse type,
    in the copy of the manifest. What none has is left out, and said. A generation with damaged shards is written anew
    beside the old one and takes its place in one step; the log is cut behind its last whole batch; damaged files of
    the arena are removed, they are rebuilt. Damaged files that held data are put aside in the store's folder `damaged`.

    Parameters
    ----------
    path : path
    threads : int, optional
        All cores when None.

    Raises
    ------
    StoreNotFound
        There is no store.
    StoreBusy
        A process is writing to it.
    CorruptBlock
        Neither the manifest nor a copy of it can be read; nothing was changed.
    GraphStoreError
        What is kept cannot be written, the disk is full for instance; the store is as it was.
    """
    store = Path(path)
    if not store.is_dir() or not (any(store.glob(f"gen-*/{NAME}")) or (store / NAME).exists()):
        raise StoreNotFound(f"{store}: no store is here (no {NAME}); make one with `gossamer ingest`")
    lock = WriterLock(store)
    try:
        with write_errors(store, "repair it again when there is room"):
            return _Repair(store, num_threads(threads)).run()
    finally:
        lock.release()


class _Repair:
    """One repair, step by step; each leaves the store no worse than it was."""

    def __init__(self, store: Path, threads: int) -> None:
        self._store, self._threads = store, threads
        self.report = RepairReport()

    def run(self) -> RepairReport:
        """Repair and report."""
        manifest = self._manifest()
        findings = examine(self._store, manifest)
        self.report.faults += findings.all
        if self.report.faults:
            recover(self._store, manifest)
            self._older(manifest, findings)
            self._log(manifest)
            manifest = self._newest(manifest, findings)
            findings = examine(self._store, manifest)
            self.report.left = findings.all
        self.report.version = last_readable(self._store, manifest.version).version
        return self.report

    def _manifest(self) -> Manifest:
        """Return the manifest, from its newest sound copy where it is damaged."""
        try:
            return Manifest.load(self._store)
        except (CorruptBlock, StoreNotFound) as error:
            damage = error
        copies = []
        for copy in self._store.glob(f"gen-*/{NAME}"):
            try:
                copies.append(Manifest.load(copy.parent))
            except CorruptBlock:
                continue
        if not copies:
            raise CorruptBlock(f"{damage}; no copy of it can be read either: ingest again") from damage
        newest = max(copies, key=lambda manifest: manifest.generation)
        if (self._store / NAME).exists():
            self._put_aside(self._store / NAME)
        newest.save(self._store)
        self.report.faults.append(str(damage))
        self.report.done.append(f"{self._store / NAME}: written again from its copy in gen-{newest.generation}")
        return newest

    def _put_aside(self, path: Path) -> None:
        """Move a file or folder to the folder of damaged ones."""
        if self.report.kept is None:
            number = 1
            while (self._store / "damaged" / str(number)).exists():
                number += 1
            self.report.kept = self._store / "damaged" / str(number)
            self.report.kept.mkdir(parents=True)
        os.replace(path, self.report.kept / path.name)
        fsync_folder(self.report.kept)
        fsync_folder(path.parent)

    def _older(self, newest: Manifest, findings: Findings) -> None:
        """Write a damaged copy of the manifest again; put older generations aside that are damaged."""
        store = self._store
        for copy in findings.copies:
            if copy.parent.name == f"gen-{newest.generation}":
                newest.save(store)
                self.report.done.append(f"{copy}: written again")
            else:
                self._drop(copy.parent, "its manifest is damaged")
        for manifest, _ in findings.generations[:-1]:
            if findings.in_shards(manifest, store):
                folder = store / f"gen-{manifest.generation}"
                self._drop(folder, f"versions from {manifest.version} on, as they were then")

    def _newest(self, newest: Manifest, findings: Findings) -> Manifest:
        """Write the newest generation anew where it is damaged; remove damaged files of the arena."""
        store, anew = self._store, bool(findings.in_shards(newest, self._store))
        repaired = self._salvaged(newest) if anew else newest
        for manifest, _ in findings.generations:
            for path in findings.unsound(manifest, store):
                path.unlink(missing_ok=True)
                if not (anew and manifest == newest):
                    self.report.done.append(f"{path}: removed, it is rebuilt when the store is opened")
        if anew:
            self._put_aside(store / f"gen-{newest.generation}")
            remove_generation(store, newest.generation)
        return repaired

    def _drop(self, folder: Path, what: str) -> None:
        self._put_aside(folder)
        remove_generation(self._store, int(folder.name.removeprefix("gen-")))
        self.report.lost.append(f"{folder}: {what}")
        self.report.done.append(f"{folder}: an older generation, put aside")

    def _salvaged(self, manifest: Manifest) -> Manifest:
        """Write what can be read of a generation as the next one, and publish it."""
        generation = manifest.generation + 1
        remove_generation(self._store, generation)
        try:
            with Salvage(manifest, self._store) as salvage:
                repaired, nameless = _written(salvage, generation, self._threads)
                self._delete(manifest, nameless)
        except BaseException:
            remove_generation(self._store, generation)
            raise
        repaired.save(self._store)
        self.report.lost += salvage.lost
        self.report.done.append(
            f"{self._store}: gen-{generation} written from what can be read of gen-{manifest.generation}"
        )
        return repaired

    def _delete(self, manifest: Manifest, nodes: dict[int, np.ndarray]) -> None:
        """Let the log, where it has any batch, end with a deletion of nodes: batches may lead edges to them."""
        operations = [Operation(DELETE_NODES, number, {"nodes": each}) for number, each in nodes.items() if each.size]
        if not operations or last_readable(self._store, manifest.version).version == manifest.version:
            return
        log = CommitLog(self._store, manifest.version)
        try:
            version = log.append(to_payload(operations))
        finally:
            log.close()
        self.report.done.append(f"{self._store}: version {version} deletes the nodes whose ids are lost")

    def _log(self, manifest: Manifest) -> None:
        """Cut the log behind its last whole batch, and drop older generations that it does not lead on from."""
        store, base = self._store, manifest.version
        for older in sorted(store.glob("gen-*"), key=lambda folder: folder.name):
            if older.name == f"gen-{manifest.generation}" or not (older / NAME).exists():
                continue
            version = Manifest.load(older).version
            try:
                for _ in read_batches(store, version, base):
                    pass
            except CorruptBlock:
                self._drop(older, f"versions {version} to {base - 1}: the log behind it is damaged")
        try:
            head = read_head(store)
            acknowledged = base if head is None else head.version
        except CorruptBlock:
            acknowledged = None
        last = last_readable(store, base)
        moved = cut_log(store, last, oldest=min(self._kept_versions(manifest)), put_aside=self._put_aside)
        if not moved:
            return
        self.report.done.append(f"{store / 'log'}: ends with version {last.version} now")
        if acknowledged is None or acknowledged > last.version:
            until = f"to {acknowledged}" if acknowledged is not None else "on, if there were any"
            self.report.lost.append(f"{store / 'log'}: batches from version {last.version + 1} {until}")

    def _kept_versions(self, manifest: Manifest) -> list[int]:
        copies = [Manifest.load(copy.parent) for copy in self._store.glob(f"gen-*/{NAME}")]
        return [manifest.version, *(each.version for each in copies if each.generation < manifest.generation)]


def _written(salvage: Salvage, generation: int, threads: int) -> tuple[Manifest, dict[int, np.ndarray]]:
    """Write what can be read of a generation as another.

    Returns its manifest, of the same version, and the nodes of each type whose ids are lost.
    """
    manifest, store = salvage.manifest, salvage.store
    writer = GenerationWriter(store, generation, manifest.num_shards, threads=threads)
    node_types, edge_types, dead, nameless = [], [], {}, {}
    for number, node_type in enumerate(manifest.node_types):
        ids, nameless[number] = salvage_ids(salvage, number)
        tables = salvage_tables(salvage, NODES, number) if node_type.features else []
        writer.add_nodes(number, ids, node_type.feature_types, [_without(table, ids) for table in tables])
        dead[node_type.name] = ids.dead
        node_types.append(replace(node_type, count=ids.count - ids.dead.size))
    numbers = {entry.name: number for number, entry in enumerate(manifest.edge_types)}
    for number, entry in enumerate(manifest.edge_types):
        if entry.features and manifest.forward(number) == number:
            writer.add_edge_features(number, entry.feature_types, salvage_tables(salvage, EDGES, number))
        lists = ListSalvage(salvage, number, dead)
        nodes, given_back = lists.lost_nodes(), None
        if nodes.size and entry.reverse is not None:
            given_back = ListSalvage(salvage, numbers[entry.reverse], dead).rows_to(nodes)
        for shard in range(manifest.num_shards) if nodes.size and given_back is None else ():
            own = nodes[nodes % manifest.num_shards == shard] // manifest.num_shards
            salvage.lose(f"lists of {entry.name}, empty now", salvage.folder(shard), own, "local ids")
        writer.add_edges(number, starts_of(lists.counts), lists.encoded(given_back))
        edge_types.append(with_counts(entry, lists))
        if lists.entries < entry.num_entries:
            count = entry.num_entries - lists.entries
            salvage.lost.append(f"{entry.name}: {count} of {entry.num_entries} entries")
    files = writer.seal()
    written = replace(manifest, generation=generation, node_types=node_types, edge_types=edge_types, files=files)
    return written, nameless


def _without(table: dict[str, np.ndarray], ids: IdMap) -> dict[str, np.ndarray]:
    """Take the values of deleted nodes out of a table in dense order."""
    if ids.dead.size == 0:
        return table
    present = table["present"].copy()
    present[ids.base[ids.dead % ids.num_shards] + ids.dead // ids.num_shards] = 0
    return table | {"present": present}
