"""A view: everything of one version, mapped: the base of a generation and, for later versions, the overlay on it."""

import contextlib
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from graph_store import overlay_edges, overlay_nodes
from graph_store.adjacency import Adjacency
from graph_store.arena import ArenaFile, ArenaWriter, behind_in_words, mapped_together
from graph_store.block_check import BlockCheck
from graph_store.commit_log import read_batches
from graph_store.delta import Delta, EdgeDelta
from graph_store.errors import CorruptBlock
from graph_store.feature_records import EDGES, NODES, feature_file, read_tables
from graph_store.feature_table import FeatureTables
from graph_store.ids import IdMap
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType
from graph_store.overlay_nodes import OverlayIds, split_sections
from graph_store.resident import arena_folder, edge_file, node_file, read_nodes, rebuild

# An overlay below so many bytes is built on, however large the base is.
_LARGEST_REUSED = 64 << 20


@dataclass
class View:
    """One version of a store.

    Attributes
    ----------
    manifest : Manifest
        With the counts of this version.
    files : dict of str to ArenaFile
        The base's arena file of each edge type.
    ids : dict of str to IdMap
    adjacencies : dict of str to Adjacency
    node_features, edge_features : dict of str to FeatureTables
    checks : dict of str to BlockCheck
        What compares the base's blocks of each edge type with their checksums.
    overlay : ArenaFile or None
        Of a version later than the base's.
    base : View or None
        What the overlay lies on.
    """

    manifest: Manifest
    files: dict[str, ArenaFile] = field(default_factory=dict)
    ids: dict[str, IdMap] = field(default_factory=dict)
    adjacencies: dict[str, Adjacency] = field(default_factory=dict)
    node_features: dict[str, FeatureTables] = field(default_factory=dict)
    edge_features: dict[str, FeatureTables] = field(default_factory=dict)
    checks: dict[str, BlockCheck] = field(default_factory=dict)
    overlay: ArenaFile | None = None
    base: "View | None" = None


def base_view(manifest: Manifest, store: Path, *, threads: int | None) -> View:
    """Map a generation; absent files of the arena are written again from the shards.

    Raises
    ------
    CorruptBlock, OSError
        A file is damaged or cannot be read.
    """
    rebuild(manifest, store)
    view, generation = View(manifest), manifest.generation
    for number, node_type in enumerate(manifest.node_types):
        ids = read_nodes(node_file(store, generation, number), node_type.name, node_type.id_type)
        view.ids[node_type.name] = ids
        view.node_features[node_type.name] = _tables(
            node_type, feature_file(store, generation, NODES, number), _node_rows(ids.base)
        )
    for number, edge_type in enumerate(manifest.edge_types):
        file = ArenaFile(edge_file(store, generation, number))
        file.check(larger=("words",))
        _check_entries(file.path, file.sections, edge_type)
        view.files[edge_type.name] = file
        words = file.sections["words"]
        check = view.checks[edge_type.name] = BlockCheck(file.checks["words"], file.sections["blocks"], words.size)
        view.adjacencies[edge_type.name] = _adjacency(file.sections, edge_type, threads, check)
        path = feature_file(store, generation, EDGES, manifest.forward(number))
        view.edge_features[edge_type.name] = _tables(edge_type, path, _below(edge_type.edge_rows))
    return view


def _tables(
    entry: StoredNodeType | StoredEdgeType, path: Path, rows_of: Callable[[np.ndarray], np.ndarray]
) -> FeatureTables:
    features = entry.feature_types
    tables, checks = read_tables(path, len(features)) if features else ([], [])
    return FeatureTables(entry.name, features, tables, rows_of, checks=checks)


def _check_entries(path: Path, sections: Mapping[str, np.ndarray], entry: StoredEdgeType) -> None:
    if int(sections["num_edges"][0]) != entry.num_entries:
        raise CorruptBlock(
            f"{path}: holds {int(sections['num_edges'][0])} entries of {entry.name}, the manifest says "
            f"{entry.num_entries}; delete the folder arena, it is rebuilt"
        )


def _adjacency(
    sections: Mapping[str, np.ndarray], entry: StoredEdgeType, threads: int | None, check: BlockCheck
) -> Adjacency:
    return Adjacency(
        sections,
        weighted=entry.weighted,
        timed=entry.timed,
        numbered=entry.numbered,
        # Parallel edges are those of different times, or kept by the type's rule.
        distinct=not entry.timed and entry.rules.get("duplicates", "all") != "all",
        threads=threads,
        check=check,
    )


def _node_rows(base: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """Return what gives the base's row of a node: its dense rank there, -1 for a node that came later."""

    def rows(nodes: np.ndarray) -> np.ndarray:
        locals_, shards = np.divmod(nodes, base.size - 1)
        return np.where(locals_ < np.diff(base)[shards], base[shards] + locals_, -1)

    return rows


def overlay_file(store: Path, manifest: Manifest, version: int) -> Path:
    """Return the arena file of the overlay of a version."""
    return arena_folder(store) / f"gen-{manifest.generation}.overlay-{version}"


def view_at(manifest: Manifest, store: Path, version: int, *, threads: int | None, known: View | None = None) -> View:
    """Map a version of a generation: its base and the overlay, which is built where nobody has yet.

    Parameters
    ----------
    known : View, optional
        An earlier view; where it is of the same generation, its base is taken over with all that was checked of it.

    Raises
    ------
    CorruptBlock, OSError
        A file is damaged or cannot be read or written.
    """
    base = None if known is None else known.base or known
    if base is None or (base.manifest.uuid, base.manifest.generation) != (manifest.uuid, manifest.generation):
        base = base_view(manifest, store, threads=threads)
    if version == manifest.version:
        return base
    path = overlay_file(store, manifest, version)
    try:
        return composed(base, ArenaFile(path, keep_open=True), version, threads=threads)
    except FileNotFoundError:
        view = _latest_before(base, store, version, threads)
    delta = Delta(view.manifest, view.ids)
    delta.extend(payload for _, payload in read_batches(store, view.manifest.version, version))
    overlay = _written(path, build_overlay(base, view, delta))
    return composed(base, overlay, version, threads=threads)


def _latest_before(base: View, store: Path, version: int, threads: int | None) -> View:
    """Return the newest version up to one asked for whose overlay is there and worth to build on, or the base."""
    stem = overlay_file(store, base.manifest, 0).name[:-1]
    found = [path for path in arena_folder(store).glob(f"{stem}*") if path.name.removeprefix(stem).isdigit()]
    versions = sorted((int(path.name.removeprefix(stem)) for path in found), reverse=True)
    for earlier in versions:
        if earlier <= version:
            with contextlib.suppress(FileNotFoundError, CorruptBlock):
                overlay = ArenaFile(overlay_file(store, base.manifest, earlier), keep_open=True)
                # Blocks that were replaced again stay in the file, until it is built from the base once more.
                if overlay.num_bytes < max(_LARGEST_REUSED, sum(file.num_bytes for file in base.files.values())):
                    return composed(base, overlay, earlier, threads=threads)
    return base


def _written(path: Path, sections: Mapping[str, np.ndarray]) -> ArenaFile:
    """Write an overlay and map it; other versions' go, and it may go itself while it is being mapped."""
    try:
        _write(path, sections)
        overlay = ArenaFile(path, keep_open=True)
    except OSError:
        # Where the store cannot be written, the overlay lives as long as it is mapped.
        with tempfile.TemporaryDirectory(prefix="gossamer-overlay-") as folder:
            place = Path(folder) / path.name
            _write(place, sections)
            return ArenaFile(place, keep_open=True)
    _drop_other_overlays(path)
    return overlay


def _write(path: Path, sections: Mapping[str, np.ndarray]) -> None:
    with ArenaWriter(path) as writer:
        for name, section in sections.items():
            writer.add(name, section)


def _drop_other_overlays(path: Path) -> None:
    """Remove overlays of other versions; who has one mapped keeps it."""
    stem = path.name.rpartition("-")[0]
    for other in path.parent.glob(f"{stem}-*"):
        if other.name != path.name and not other.name.endswith(".partial"):
            other.unlink(missing_ok=True)


def build_overlay(base: View, view: View, delta: Delta) -> dict[str, np.ndarray]:
    """Return the sections of an overlay: those of node type 3 are named `n3.…`, those of edge type 2 `e2.…`.

    Parameters
    ----------
    base : View
    view : View
        The base, or a later version of it: what is in its overlay is taken over.
    delta : Delta
        What happened since `view`.
    """
    manifest = view.manifest
    sections = dict(view.overlay.sections) if view.overlay is not None else {}
    for number, node_type in enumerate(manifest.node_types):
        changes, head = delta.nodes[number], f"n{number}."
        if changes.nodes or changes.alive or changes.features:
            before, ids = _part(sections, head), base.ids[node_type.name]
            _put(sections, head, overlay_nodes.build(ids, changes, node_type.feature_types, before))
    for number, edge_type in enumerate(manifest.edge_types):
        own, head = delta.edges[manifest.forward(number)], f"e{number}."
        change = edge_change(view, delta, number)
        if not change.any_nodes and not own.src and not own.expired:
            continue
        before = _part(sections, head)
        built = overlay_edges.build(change, *operations(manifest, delta, number))
        built["words"] = np.concatenate([before.get("words", built["words"][:0]), built["words"]])
        if number == manifest.forward(number) and edge_type.features:
            built |= _new_edge_features(edge_type, own, before)
        _put(sections, head, built)
    return sections


def _put(sections: dict[str, np.ndarray], head: str, built: Mapping[str, np.ndarray]) -> None:
    """Put the sections of one type in the place of those that were there."""
    for name in [name for name in sections if name.startswith(head)]:
        del sections[name]
    sections |= {f"{head}{name}": section for name, section in built.items()}


def edge_change(view: View, delta: Delta, number: int) -> overlay_edges.EdgeChange:
    """Return what is to be known of an edge type to merge what happened to it since a view."""
    manifest, entry = view.manifest, view.manifest.edge_types[number]
    place = {node_type.name: at for at, node_type in enumerate(manifest.node_types)}
    source, target = delta.nodes[place[entry.src]], delta.nodes[place[entry.dst]]
    adjacency, base_words = view.adjacencies[entry.name], view.files[entry.name].sections["words"]
    return overlay_edges.EdgeChange(
        adjacency,
        None if entry.reverse is None else view.adjacencies[entry.reverse],
        max(adjacency.words.size, behind_in_words(base_words)),
        source.counts,
        target.counts,
        source.deaths,
        target.deaths,
        entry.bits,
        entry.self_loops,
        entry.src == entry.dst,
        entry.rules.get("duplicates", "first"),
    )


def operations(manifest: Manifest, delta: Delta, number: int) -> tuple[overlay_edges.Rows, np.ndarray]:
    """Return the operations on an edge type as rows by its sources, and its expiries."""
    forward, entry = manifest.forward(number), manifest.edge_types[number]
    own = delta.edges[forward]
    rows = overlay_edges.oriented(own, swapped=number != forward, both=entry.undirected)
    return rows, np.array(own.expired, np.int64).reshape(-1, 2)


def _new_edge_features(
    entry: StoredEdgeType, delta: EdgeDelta, before: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the tables of the edges that came since the base, by ascending edge id."""
    found: dict[str, np.ndarray] = {"edge_rows": np.array([delta.edge_rows], np.int64)}
    for place, feature in enumerate(entry.feature_types):
        known = split_sections(before, place)
        changes = [(known["nodes"], known)] if known else []
        changes += [(rows, split_sections(arrays, place)) for rows, arrays in delta.features]
        table = overlay_nodes.latest(feature, [(rows, part) for rows, part in changes if part])
        if table is not None:
            found |= {f"{place}.{name}": section for name, section in table.items()}
    return found


def composed(base: View, overlay: ArenaFile, version: int, *, threads: int | None) -> View:
    """Put an overlay on a base; CorruptBlock where it is damaged."""
    overlay.check()
    manifest = base.manifest
    view = replace(base, ids=dict(base.ids), adjacencies=dict(base.adjacencies), overlay=overlay, base=base)
    view.node_features, view.edge_features = dict(base.node_features), dict(base.edge_features)
    node_types, edge_types = list(manifest.node_types), list(manifest.edge_types)
    for number, node_type in enumerate(manifest.node_types):
        sections = _part(overlay.sections, f"n{number}.")
        if sections:
            ids = OverlayIds(base.ids[node_type.name], sections)
            view.ids[node_type.name] = ids
            counts = sections["counts"]
            node_types[number] = replace(
                node_type, count=int(counts.sum()) - ids.dead.size, shard_counts=counts.tolist()
            )
            tables = base.node_features[node_type.name]
            changed = _changed(sections, len(tables.features))
            rows = _node_rows(base.ids[node_type.name].base)
            view.node_features[node_type.name] = tables.with_changes(rows, changed)
    for number, edge_type in enumerate(manifest.edge_types):
        sections = _part(overlay.sections, f"e{number}.")
        if sections:
            words = mapped_together(base.files[edge_type.name], overlay, f"e{number}.words")
            view.adjacencies[edge_type.name] = _adjacency(
                {**sections, "words": words}, edge_type, threads, base.checks[edge_type.name]
            )
            edge_types[number] = _counted(edge_type, sections)
        first = _part(overlay.sections, f"e{manifest.forward(number)}.")
        if "edge_rows" in first:
            edge_types[number] = replace(edge_types[number], edge_rows=int(first["edge_rows"][0]))
            tables, limit = base.edge_features[edge_type.name], edge_type.edge_rows
            changed = _changed(first, len(tables.features))
            view.edge_features[edge_type.name] = tables.with_changes(_below(limit), changed)
    view.manifest = replace(manifest, version=version, node_types=node_types, edge_types=edge_types)
    return view


def _below(limit: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda edge_ids: np.where(edge_ids < limit, edge_ids, -1)


def _part(sections: Mapping[str, np.ndarray], head: str) -> dict[str, np.ndarray]:
    return {name[len(head) :]: section for name, section in sections.items() if name.startswith(head)}


def _changed(sections: Mapping[str, np.ndarray], count: int) -> dict[int, dict[str, np.ndarray]]:
    found = {place: split_sections(sections, place) for place in range(count)}
    return {place: table for place, table in found.items() if table}


def _counted(entry: StoredEdgeType, sections: Mapping[str, np.ndarray]) -> StoredEdgeType:
    entries, loops = int(sections["num_edges"][0]), int(sections["loops"][0])
    return replace(
        entry,
        bits=int(sections["bits"][0]),
        num_entries=entries,
        self_loops=loops,
        num_edges=(entries + loops) // 2 if entry.undirected else entries,
    )
