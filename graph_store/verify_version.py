"""Checks the newest version of a store: what the batches since the generation make of it, and its overlay."""

import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from graph_store.errors import GraphStoreError
from graph_store.feature_table import FeatureTables
from graph_store.ids import nodes_of_ranks
from graph_store.manifest import Manifest
from graph_store.resident import arena_folder
from graph_store.verify_features import table_faults
from graph_store.verify_lists import ListCheck, difference, entries_between, list_faults
from graph_store.view import View, overlay_file, view_at

_STEP = 1 << 16


@contextmanager
def beside(store: Path, sound: Iterable[Path]) -> Iterator[Path]:
    """Give a folder that stands for a store, with those arena files only; what is made in it is not in the store."""
    with tempfile.TemporaryDirectory(prefix="gossamer-verify-") as name:
        folder = Path(name)
        for entry in store.iterdir():
            if entry.name.startswith("gen-") or entry.name in ("log", "manifest.json"):
                os.symlink(entry.resolve(), folder / entry.name)
        arena_folder(folder).mkdir()
        for path in sound:
            os.symlink(path.resolve(), arena_folder(folder) / path.name)
        yield folder


def version_faults(manifest: Manifest, store: Path, version: int, sound: Iterable[Path]) -> list[str]:
    """Return the faults of a version later than its generation.

    Parameters
    ----------
    sound : paths
        The arena files of the generation that are there and not damaged, its overlays too; others are made again
        elsewhere.
    """
    kept = overlay_file(store, manifest, version)
    sound = list(sound)
    base = [path for path in sound if ".overlay-" not in path.name]
    try:
        with beside(store, base) as folder:
            view = view_at(manifest, folder, version, threads=None)
            checks, faults = view_faults(view)
            if kept in sound:
                faults += _kept_faults(manifest, store, folder, version, checks)
            return faults
    except (GraphStoreError, OSError) as error:
        return [f"{store}: version {version} cannot be made: {error}"]


def _kept_faults(
    manifest: Manifest, store: Path, folder: Path, version: int, checks: dict[str, ListCheck]
) -> list[str]:
    """Compare the overlay that is there with the one made anew."""
    kept, made = overlay_file(store, manifest, version), overlay_file(folder, manifest, version)
    made.unlink()
    os.symlink(kept.resolve(), made)
    other, found = view_faults(view_at(manifest, folder, version, threads=None))
    same = all(np.array_equal(other[name].plain, check.plain) for name, check in checks.items())
    if same and not found:
        return []
    return [f"{kept}: is not what the log makes; delete the file, it is rebuilt"]


def view_faults(view: View) -> tuple[dict[str, ListCheck], list[str]]:
    """Return the checks of all lists of a view, and what is wrong with it."""
    faults: list[str] = []
    for name, ids in view.ids.items():
        nodes = nodes_of_ranks(ids.base)
        live = nodes[~np.isin(nodes, ids.dead)]
        for low in range(0, live.size, _STEP):
            part = live[low : low + _STEP]
            if not np.array_equal(ids.find(ids.to_ids(part)), part):
                faults.append(f"{name}: ids of version {view.manifest.version} are not found again")
                break
        faults += _feature_faults(view.node_features[name], nodes, f"{name}: version {view.manifest.version}")
    dead = {name: ids.dead for name, ids in view.ids.items()}
    checks: dict[str, ListCheck] = {}
    for entry in view.manifest.edge_types:
        check, adjacency = ListCheck(view.manifest, entry, dead), view.adjacencies[entry.name]
        faults += list_faults(check, adjacency, range(view.manifest.num_shards))
        faults += check.finish()
        checks[entry.name] = check
        rows = np.arange(entry.edge_rows)
        faults += _feature_faults(
            view.edge_features[entry.name], rows, f"{entry.name}: version {view.manifest.version}"
        )
    for entry in view.manifest.edge_types:
        if entry.reverse is None:
            continue
        cells = np.argwhere(checks[entry.name].plain != checks[entry.reverse].swapped.T)
        if len(cells):
            one, other = cells[0].tolist()
            own = entries_between(view.adjacencies[entry.name], one, other, view.manifest.num_shards)
            back = entries_between(view.adjacencies[entry.reverse], other, one, view.manifest.num_shards)
            faults.append(difference(entry, own, back))
    return checks, faults


def _feature_faults(tables: FeatureTables, keys: np.ndarray, where: str) -> Iterator[str]:
    for feature in tables.features:
        for low in range(0, keys.size, _STEP):
            table = tables.sections(feature.name, keys[low : low + _STEP])
            words = table["word_starts"].size - 1 if feature.kind == "category" else None
            for fault in table_faults(feature, table, words):
                yield f"{where}: feature {feature.name!r}: {fault}"
