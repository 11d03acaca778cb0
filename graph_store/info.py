"""What a store says of itself: counts of its newest version, features and rules, generations kept, bytes on disk."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graph_store.commit_log import newest_version
from graph_store.fold import kept_manifests
from graph_store.manifest import Manifest

_FEATURE_KEYS = ("name", "kind", "dtype", "dim", "scale")
# Beginnings of names in the folder `arena`, behind `gen-N.`, and the part of the store that they belong to.
_ARENA_PARTS = {"edges-": "adjacency", "nodes-": "ids", "node-features-": "features", "edge-features-": "features"}
_ARENA_PARTS |= {"overlay-": "overlay"}
PARTS = ("shards", "adjacency", "ids", "features", "overlay", "log", "other")


def info(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Return what `gossamer info` prints.

    Returns
    -------
    dict
        `format`, `uuid`, `version` (the newest), `num_shards`; `nodes`, `edges`, `duplicates` and `self_loops` by type
        at that version, `duplicates` being the rows dropped when the store was made; `bytes` on disk, `arena_bytes`
        those of the folder `arena`, `log_bytes` those of the commit log, `parts` all of them by what they hold (a file
        that two generations share counts once); `generation` and `generations` that are kept, each with the version
        from which on it is read; `id_types`, `features`, `time_units` and `rules` by type, `weighted`, the edge types
        that have weights, and `left_out`, the rows that a rule left out when the store was made.

    Raises
    ------
    StoreNotFound, CorruptBlock
        There is no store, or it is damaged.
    """
    folder = Path(path)
    manifest = newest_manifest(folder)
    parts = bytes_by_part(folder)
    node_types, edge_types = manifest.node_types, manifest.edge_types
    features = {entry.name: entry.features for entry in node_types}
    features |= {entry.name: entry.features for entry in edge_types}
    return {
        "format": manifest.format,
        "uuid": manifest.uuid,
        "version": manifest.version,
        "generation": manifest.generation,
        "num_shards": manifest.num_shards,
        "nodes": {entry.name: entry.count for entry in node_types},
        "edges": {entry.name: entry.num_edges for entry in edge_types},
        "duplicates": {entry.name: entry.duplicates for entry in edge_types},
        "self_loops": {entry.name: entry.self_loops for entry in edge_types},
        "left_out": manifest.left_out,
        "id_types": {entry.name: entry.id_type for entry in node_types},
        "features": {
            name: [{key: each.get(key) for key in _FEATURE_KEYS} for each in listed]
            for name, listed in features.items()
            if listed
        },
        "time_units": {entry.name: entry.time_unit for entry in edge_types if entry.timed},
        "weighted": [entry.name for entry in edge_types if entry.weighted],
        "rules": {entry.name: entry.rules for entry in edge_types if entry.rules},
        "generations": [{"generation": each.generation, "version": each.version} for each in kept_manifests(folder)],
        "bytes": sum(parts.values()),
        "arena_bytes": sum(parts[name] for name in set(_ARENA_PARTS.values())),
        "log_bytes": parts["log"],
        "parts": parts,
    }


def newest_manifest(store: Path) -> Manifest:
    """Return the manifest with the counts of the newest version.

    Raises
    ------
    StoreNotFound, CorruptBlock
        As of `graph_store.open`, which is asked where batches came after the last fold.
    """
    manifest = Manifest.load(store)
    if newest_version(store, manifest.version) == manifest.version:
        return manifest
    from graph_store.store import GraphStore

    with GraphStore(store) as opened:
        return opened.view.manifest


def bytes_by_part(store: Path) -> dict[str, int]:
    """Return the bytes of a store's files by `PARTS`; a file of several names counts once."""
    parts, seen = dict.fromkeys(PARTS, 0), set()
    for file, stat in _files(store):
        if (stat.st_dev, stat.st_ino) not in seen:
            seen.add((stat.st_dev, stat.st_ino))
            parts[_part(file.relative_to(store))] += stat.st_size
    return parts


def _files(store: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, _, names in os.walk(store):
        for name in names:
            file = Path(parent, name)
            try:
                yield file, file.stat()
            except FileNotFoundError:  # a writer took it away meanwhile
                continue


def _part(file: Path) -> str:
    """Return the part that a file belongs to."""
    if file.parts[0] == "log":
        return "log"
    if file.parts[0] == "arena":
        kind = file.name.partition(".")[2]
        return next((part for head, part in _ARENA_PARTS.items() if kind.startswith(head)), "other")
    return "shards" if file.parts[0].startswith("gen-") and len(file.parts) > 2 else "other"
