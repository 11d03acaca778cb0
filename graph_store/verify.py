"""Reads a whole store and lists what is wrong with it."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from graph_store.arena import ArenaFile
from graph_store.commit_log import faults_of_log, newest_version
from graph_store.errors import CorruptBlock, StoreNotFound
from graph_store.feature_records import feature_file
from graph_store.manifest import NAME, Manifest
from graph_store.resident import edge_file, featured, node_file, shard_folder
from graph_store.shard import Shard
from graph_store.verify_edges import EdgeCheck, adjacency_of, shard_sections
from graph_store.verify_features import FeatureCheck
from graph_store.verify_files import base_files, overlay_files, sealed_faults, sound_file
from graph_store.verify_lists import difference, entries_between
from graph_store.verify_nodes import NodeCheck
from graph_store.verify_version import version_faults
from graph_store.writer_lock import Lease


def verify(path: str | os.PathLike[str]) -> list[str]:
    """Check checksums and invariants of everything in a store.

    Of each generation that is kept: the sealed files against the manifest; each record of edges, each piece of ids and
    of features against its own crc32c; the arena against its checksums and against the shards; counts, order, ranges,
    and that the lists of a reverse or undirected type are the transposed lists. Then the log, and that the newest
    version can be made of it. One shard of one type is in memory at a time, but for the newest version, which takes
    what a reader of it takes. Nothing in the store is changed; what has to be made lies in the folder for temporary
    files.

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
    while True:
        try:
            newest = Manifest.load(store)
        except CorruptBlock as error:
            return [str(error)]
        faults = examine(store, newest).all
        # A fold may have removed what was being read before it was known to be needed.
        if not faults or (store / f"gen-{newest.generation}").exists() or _is_newest(store, newest):
            return faults


def _is_newest(store: Path, manifest: Manifest) -> bool:
    try:
        return Manifest.load(store) == manifest
    except CorruptBlock:
        return False


@dataclass
class Findings:
    """What is wrong with a store, by where.

    Attributes
    ----------
    generations : list of (Manifest, list of str)
        Of each generation, the newest last, its faults.
    copies : dict of Path to str
        Manifests of older generations, and copies of the newest, that cannot be read or are others.
    log, version : list of str
        Faults of the log, and of what it makes of the newest generation.
    """

    generations: list[tuple[Manifest, list[str]]] = field(default_factory=list)
    copies: dict[Path, str] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    version: list[str] = field(default_factory=list)

    @property
    def all(self) -> list[str]:
        """All faults."""
        found = list(self.copies.values())
        for _, faults in self.generations:
            found += faults
        return found + self.log + self.version

    def unsound(self, manifest: Manifest, store: Path) -> list[Path]:
        """Return the arena files of a generation that a fault speaks of: they can be made again."""
        files = [*base_files(manifest, store), *overlay_files(manifest, store)]
        said = [*self.version, *(fault for each, faults in self.generations if each == manifest for fault in faults)]
        return [path for path in files if any(fault.startswith(f"{path}: ") for fault in said)]

    def in_shards(self, manifest: Manifest, store: Path) -> list[str]:
        """Return the faults of a generation that are not those of arena files."""
        heads = tuple(f"{path}: " for path in self.unsound(manifest, store))
        return [
            fault
            for each, faults in self.generations
            if each == manifest
            for fault in faults
            if not fault.startswith(heads)
        ]


def examine(store: Path, newest: Manifest) -> Findings:
    """Do as `verify` with a store whose manifest is sound."""
    findings = Findings()
    manifests = [*_older(store, newest, findings.copies), newest]
    leases = [Lease(store, manifest.generation) for manifest in manifests]
    try:
        for manifest in manifests:
            faults = _Generation(manifest, store).faults()
            if manifest == newest or (store / f"gen-{manifest.generation}" / NAME).exists():
                findings.generations.append((manifest, faults))
        findings.log = faults_of_log(store, findings.generations[0][0].version)
        if findings.log or findings.in_shards(newest, store):
            return findings
        version = newest_version(store, newest.version)
        if version > newest.version:
            unsound = findings.unsound(newest, store)
            files = [*base_files(newest, store), *overlay_files(newest, store)]
            sound = [path for path in files if path.exists() and path not in unsound]
            findings.version = version_faults(newest, store, version, sound)
    finally:
        for lease in leases:
            lease.release()
    return findings


def _older(store: Path, newest: Manifest, faults: dict[Path, str]) -> list[Manifest]:
    """Return the manifests of older generations, by version; a damaged one is a fault, as is a damaged copy."""
    found = []
    for copy in sorted(store.glob(f"gen-*/{NAME}")):
        try:
            manifest = Manifest.load(copy.parent)
        except StoreNotFound:
            continue
        except CorruptBlock as error:
            faults[copy] = str(error)
            continue
        if manifest.generation < newest.generation and copy.parent.name == f"gen-{manifest.generation}":
            found.append(manifest)
        elif copy.parent.name == f"gen-{newest.generation}" and manifest != newest:
            faults[copy] = f"{copy}: is no copy of {store / NAME}"
    return sorted(found, key=lambda manifest: manifest.generation)


class _Generation:
    """Checks one generation, shard by shard."""

    def __init__(self, manifest: Manifest, store: Path) -> None:
        self._manifest, self._store = manifest, store
        self._faults: list[str] = []
        generation = manifest.generation
        self._nodes = [
            NodeCheck(manifest, store, number, self._file(node_file(store, generation, number)))
            for number in range(len(manifest.node_types))
        ]
        self._features = [
            FeatureCheck(manifest, store, kind, number, self._file(feature_file(store, generation, kind, number)))
            for kind, number, _ in featured(manifest)
        ]
        self._edge_files = [
            self._file(edge_file(store, generation, number)) for number in range(len(manifest.edge_types))
        ]
        for path in overlay_files(manifest, store):
            self._file(path)

    def _file(self, path: Path) -> ArenaFile | None:
        return sound_file(path, self._faults)

    def faults(self) -> list[str]:
        """Return all faults of the generation."""
        faults, manifest, store = (
            [*sealed_faults(self._manifest, self._store), *self._faults],
            self._manifest,
            self._store,
        )
        for nodes in self._nodes:
            faults += nodes.begin()
        readable = [
            shard for shard in range(manifest.num_shards) if self._each(shard, faults, [*self._nodes, *self._features])
        ]
        for nodes in self._nodes:
            faults += nodes.finish()
        dead = {nodes.entry.name: nodes.dead for nodes in self._nodes}
        edges = [EdgeCheck(manifest, store, number, file, dead) for number, file in enumerate(self._edge_files)]
        for shard in range(manifest.num_shards):
            if shard in readable:
                self._each(shard, faults, edges)
            else:
                for check in edges:
                    check.complete = False
        for check in edges:
            faults += check.finish()
        faults += self._transposed({check.entry.name: check for check in edges if check.complete})
        return faults

    def _each(self, shard: int, faults: list[str], checks: list) -> bool:
        """Let checks take a shard; False where its database cannot be opened."""
        try:
            with Shard(shard_folder(self._store, self._manifest.generation, shard)) as database:
                for check in checks:
                    try:
                        faults += check.shard(database, shard)
                    except CorruptBlock as error:
                        faults.append(str(error))
        except (CorruptBlock, OSError) as error:
            faults.append(str(error))
            return False
        return True

    def _transposed(self, checks: dict[str, EdgeCheck]) -> Iterator[str]:
        """Check that each entry has its opposite, with the same weight, time and edge id."""
        for name, check in checks.items():
            reverse = check.entry.reverse
            if reverse not in checks:
                continue
            if check.lists.entries != checks[reverse].lists.entries:
                yield (
                    f"{name}: {check.lists.entries} entries, its reverse {reverse} has {checks[reverse].lists.entries}"
                )
                continue
            cells = np.argwhere(check.lists.plain != checks[reverse].lists.swapped.T)
            if len(cells):
                one, other = cells[0].tolist()
                own, back = self._entries(name, one, other), self._entries(reverse, other, one)
                yield difference(check.entry, own, back)

    def _entries(self, name: str, shard: int, other: int) -> np.ndarray:
        manifest = self._manifest
        number = [entry.name for entry in manifest.edge_types].index(name)
        entry = manifest.edge_types[number]
        counts = next(item.shard_counts for item in manifest.node_types if item.name == entry.src)
        with Shard(shard_folder(self._store, manifest.generation, shard)) as database:
            sections = shard_sections(database.records(number), np.array(counts, np.int64), shard)
        return entries_between(adjacency_of(sections, entry), shard, other, manifest.num_shards)
