"""Folding: a generation and the batches since → the next generation; and which generations are kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.errors import CorruptBlock, UnknownVersion
from graph_store.features import Sections
from graph_store.generation import GenerationWriter, encoded_lists, remove_generation
from graph_store.ids import IdMap, dense_ranks, nodes_of_ranks
from graph_store.kernels import num_threads
from graph_store.manifest import NAME, Manifest
from graph_store.open_shards import OpenShards
from graph_store.overlay_nodes import OverlayIds
from graph_store.progress import Progress
from graph_store.resident import arena_folder, records_of
from graph_store.view import View, view_at
from graph_store.write_errors import write_errors
from graph_store.writer_lock import leased_generations


def fold(store: Path, manifest: Manifest, version: int, *, threads: int | None, progress: bool = False) -> Manifest:
    """Write the generation after `manifest`'s with everything up to `version`; returns its manifest, not yet published.

    Raises
    ------
    CorruptBlock
        What is folded is damaged.
    GraphStoreError
        The disk is full, or files cannot be written; nothing is left behind.
    """
    generation = manifest.generation + 1
    remove_generation(store, generation)
    try:
        view = view_at(manifest, store, version, threads=threads)
        with write_errors(store, "it is as it was"), Progress(progress) as bar:
            files, edge_rows = _write(store, manifest, view, generation, num_threads(threads), bar)
    except BaseException:
        remove_generation(store, generation)
        raise
    edge_types = [replace(entry, edge_rows=rows) for entry, rows in zip(view.manifest.edge_types, edge_rows)]
    return replace(view.manifest, generation=generation, version=version, files=files, edge_types=edge_types)


def _write(
    store: Path, manifest: Manifest, view: View, generation: int, threads: int, bar: Progress
) -> tuple[dict[str, dict[str, int]], list[int]]:
    """Write all types of a view; returns the sealed files and the edge ids each edge type has now."""
    writer = GenerationWriter(store, generation, manifest.num_shards, threads=threads)
    for number, node_type in enumerate(view.manifest.node_types):
        ids = view.ids[node_type.name]
        whole = ids.materialised() if isinstance(ids, OverlayIds) else ids
        tables = view.node_features[node_type.name]
        nodes = nodes_of_ranks(whole.base)
        sections = [_without_dead(tables.sections(name, nodes), whole) for name in tables.names]
        writer.add_nodes(number, whole, tables.features, sections)
    bar.phase("folding", sum(entry.num_entries for entry in view.manifest.edge_types), unit="edge")
    rows = [0] * len(view.manifest.edge_types)
    renumbered: dict[int, np.ndarray] = {}
    with OpenShards() as shards:
        for number, entry in enumerate(view.manifest.edge_types):
            source = next(item for item in view.manifest.node_types if item.name == entry.src)
            counts = np.array(source.shard_counts, np.int64)
            forward = manifest.forward(number)
            adjacency = view.adjacencies[entry.name]
            if entry.features and forward == number:
                live = live_edge_rows(adjacency, entry.edge_rows)
                renumbered[number] = np.cumsum(live) - 1
                tables = view.edge_features[entry.name]
                kept = np.flatnonzero(live)
                writer.add_edge_features(
                    number, tables.features, [tables.sections(name, kept) for name in tables.names]
                )
            if entry.features:
                rows[number] = int(renumbered[forward][-1]) + 1 if renumbered[forward].size else 0
            base = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            if not entry.features and adjacency.words is view.files[entry.name].sections["words"]:
                writer.link_edges(number, manifest.generation, records_of(manifest, store, number, shards))
            else:
                pieces = encoded_lists(
                    adjacency, counts, bits=entry.bits, threads=threads, edge_rows=renumbered.get(forward)
                )
                writer.add_edges(number, base, pieces)
            bar.advance(entry.num_entries)
    return writer.seal(), rows


def _without_dead(table: Sections, ids: IdMap) -> Sections:
    """Take the values of deleted nodes out of a table in dense order."""
    if ids.dead.size == 0:
        return table
    present = table["present"].copy()
    present[dense_ranks(ids.dead, ids.base)] = 0
    return table | {"present": present}


def live_edge_rows(adjacency: Adjacency, edge_rows: int) -> np.ndarray:
    """Return bool[edge_rows], which edge ids an entry has."""
    live = np.zeros(edge_rows, bool)
    nodes = nodes_of_ranks(np.concatenate([[0], np.cumsum(adjacency.counts)]).astype(np.int64))
    for low in range(0, nodes.size, 1 << 16):
        edge_ids = adjacency.columns(nodes[low : low + (1 << 16)], weights=False, times=False)[4]
        assert edge_ids is not None
        live[edge_ids] = True
    return live


def kept_manifests(store: Path) -> list[Manifest]:
    """Return the manifests of all generations that a store keeps, the newest last."""
    found = [Manifest.load(store)]
    for path in store.glob(f"gen-*/{NAME}"):
        if 0 < _number(path.parent.name) < found[0].generation:
            found.append(Manifest.load(path.parent))
    return sorted(found, key=lambda manifest: manifest.generation)


def manifest_of(store: Path, version: int) -> Manifest:
    """Return the manifest of the newest generation that a version is made from.

    Raises
    ------
    UnknownVersion
        The store does not keep it.
    """
    manifests = kept_manifests(store)
    fitting = [manifest for manifest in manifests if manifest.version <= version]
    if not fitting:
        raise UnknownVersion(
            f"{store}: version {version} is not kept, the oldest is {manifests[0].version}; "
            "fold with --keep to keep more"
        )
    return fitting[-1]


def publish(store: Path, manifest: Manifest, *, keep: int) -> None:
    """Make a written generation the store's, and remove those that nobody needs."""
    old = Manifest.load(store)
    old.save(store / f"gen-{old.generation}")
    manifest.save(store)
    drop_generations(store, manifest, keep=keep)


def drop_generations(store: Path, manifest: Manifest, *, keep: int) -> None:
    """Remove the generations that are neither among the last `keep` before the newest nor held by a reader."""
    leased = leased_generations(store)
    for folder in store.glob("gen-*"):
        number = _number(folder.name)
        if 0 < number < manifest.generation - keep and number not in leased:
            remove_generation(store, number)


def oldest_version(store: Path) -> int:
    """Return the version of the oldest generation that is kept; 0, before all, where a manifest is damaged."""
    try:
        return kept_manifests(store)[0].version
    except CorruptBlock:
        return 0


def recover(store: Path, manifest: Manifest) -> None:
    """Remove what a fold that was killed left: generations that no manifest speaks of, and files of such."""
    for folder in store.glob("gen-*"):
        number = _number(folder.name)
        if number > manifest.generation or (0 < number < manifest.generation and not (folder / NAME).exists()):
            remove_generation(store, number)
    for path in arena_folder(store).glob("gen-*.*"):
        if not (store / path.name.partition(".")[0]).exists() or _is_abandoned(path):
            path.unlink(missing_ok=True)


def _is_abandoned(path: Path) -> bool:
    """Say whether a file was being written by a process of this machine that is gone."""
    if path.suffix != ".partial":
        return False
    process = path.stem.rpartition(".")[2].partition("-")[0]
    return process.isdigit() and not Path(f"/proc/{process}").exists()


def _number(name: str) -> int:
    """Return N of `gen-N`, 0 of any other name."""
    number = name.removeprefix("gen-")
    return int(number) if number.isdigit() else 0
