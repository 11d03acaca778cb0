"""Resharding: a store → another with the same ids, edges and features in another number of shards."""

import os
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.blocks import GROUP_NODES, Encoded, encode
from graph_store.edge_lists import sorted_order
from graph_store.errors import BadInput
from graph_store.fold import live_edge_rows
from graph_store.generation import GenerationWriter
from graph_store.ids import IdMap, dense_ranks
from graph_store.info import info
from graph_store.kernels import num_threads
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.progress import Progress
from graph_store.read_ahead import in_order
from graph_store.store import GraphStore
from graph_store.string_dictionary import HashedStrings
from graph_store.workplace import workplace
from graph_store.write_errors import write_errors

_CHUNK_EDGES = 1 << 20
_CHUNK_IDS = 1 << 18


class _Moved(NamedTuple):
    """Where the nodes of a type went.

    ids : IdMap, of the new store; base : int64[s + 1], of the old one
    new_nodes : int64[slots], the new node of each old dense rank, -1 of a deleted one
    old_nodes : int64[n], the old node of each new dense rank
    """

    ids: IdMap
    base: np.ndarray
    new_nodes: np.ndarray
    old_nodes: np.ndarray


def reshard(
    path: str | os.PathLike[str],
    out: str | os.PathLike[str],
    *,
    num_shards: int,
    threads: int | None = None,
    overwrite: bool = False,
    progress: bool = False,
) -> dict:
    """Make a store of the newest version of another, in another number of shards.

    Edges are read and written some at a time; in memory are the ids, two numbers a node, and one feature at a time.

    Parameters
    ----------
    path, out : path
        The store and where the new one will be; it appears whole or not at all.
    num_shards : int
        1 to 65,536.
    overwrite : bool
        Replace a store at `out` at the very end.

    Returns
    -------
    dict
        `seconds` and what `graph_store.info` says of the new store.

    Raises
    ------
    BadInput
        A setting that cannot be, or something is at `out`.
    """
    if not 1 <= num_shards <= 1 << 16:
        raise BadInput(f"num_shards must be 1 to 65536, got {num_shards}")
    start, target = time.monotonic(), Path(out)
    with (
        GraphStore(path, threads=threads) as store,
        write_errors(target),
        workplace(target, overwrite=overwrite) as folder,
        Progress(progress) as bar,
    ):
        _write(store, folder, num_shards, num_threads(threads), bar)
    return {"seconds": time.monotonic() - start, **info(target)}


def _write(store: GraphStore, folder: Path, num_shards: int, threads: int, bar: Progress) -> None:
    writer = GenerationWriter(folder, 1, num_shards, threads=threads)
    moved: dict[str, _Moved] = {}
    node_types: list[StoredNodeType] = []
    bar.phase("moving nodes", sum(entry.count for entry in store.node_types.values()), unit="node")
    for number, (name, entry) in enumerate(store.node_types.items()):
        moved[name] = _move(store, name, num_shards)
        ids, tables = moved[name].ids, store.node_features(name)
        sections = [tables.sections(feature, moved[name].old_nodes) for feature in tables.names]
        writer.add_nodes(number, ids, tables.features, sections)
        node_types.append(replace(entry, count=ids.count, shard_counts=np.diff(ids.base).tolist()))
        bar.advance(ids.count)
    edge_types = _write_edges(store, writer, moved, threads, bar)
    manifest = replace(
        store.view.manifest,
        uuid=str(uuid.uuid4()),
        num_shards=num_shards,
        generation=1,
        version=1,
        node_types=node_types,
        edge_types=edge_types,
        files=writer.seal(),
    )
    manifest.save(folder)


def _move(store: GraphStore, name: str, num_shards: int) -> _Moved:
    """Assign the nodes of a type anew."""
    old, live = store.id_map(name), store.nodes(name)
    if old.id_type == "string":
        collected = HashedStrings(name, hash_mask=old.hash_mask)  # type: ignore[attr-defined]
        for low in range(0, live.size, _CHUNK_IDS):
            collected.add(old.to_ids(live[low : low + _CHUNK_IDS]).tolist())
        ids, found = collected.finish(num_shards)
    else:
        originals = old.to_ids(live)
        ids = IdMap.build(name, np.sort(originals.view(np.int64)), num_shards, old.id_type)  # type: ignore[assignment]
        found = ids.find(originals)
    new_nodes = np.full(old.count, -1, np.int64)
    new_nodes[dense_ranks(live, old.base)] = found
    old_nodes = np.empty(live.size, np.int64)
    old_nodes[dense_ranks(found, ids.base)] = live
    return _Moved(ids, old.base, new_nodes, old_nodes)


def _write_edges(
    store: GraphStore, writer: GenerationWriter, moved: dict[str, _Moved], threads: int, bar: Progress
) -> list[StoredEdgeType]:
    manifest, found = store.view.manifest, []
    bar.phase("moving edges", sum(entry.num_entries for entry in manifest.edge_types), unit="edge")
    renumbered: dict[int, np.ndarray] = {}
    for number, entry in enumerate(manifest.edge_types):
        forward, adjacency, rows = manifest.forward(number), store.adjacency(entry.name), 0
        if entry.features:
            if forward == number:
                kept = live_edge_rows(adjacency, entry.edge_rows)
                renumbered[number] = np.cumsum(kept) - 1
                tables, edge_ids = store.edge_features(entry.name), np.flatnonzero(kept)
                sections = [tables.sections(name, edge_ids) for name in tables.names]
                writer.add_edge_features(number, tables.features, sections)
            rows = int(renumbered[forward][-1]) + 1 if renumbered[forward].size else 0
        source, target = moved[entry.src], moved[entry.dst]
        highest = max(1, int(np.diff(target.ids.base).max()) * writer.num_shards - 1)
        bits = highest.bit_length()
        lists = _lists(adjacency, source, target, bits=bits, threads=threads, edge_rows=renumbered.get(forward))
        writer.add_edges(number, source.ids.base, _counted(lists, bar))
        found.append(replace(entry, bits=bits, edge_rows=rows))
    return found


def _counted(pieces: Iterator[tuple[int, Encoded]], bar: Progress) -> Iterator[tuple[int, Encoded]]:
    for shard, encoded in pieces:
        yield shard, encoded
        bar.advance(int((encoded.words[encoded.records[:, 0] + 2] >> np.uint64(32)).sum()))


def _lists(
    adjacency: Adjacency, source: _Moved, target: _Moved, *, bits: int, threads: int, edge_rows: np.ndarray | None
) -> Iterator[tuple[int, Encoded]]:
    """Yield (shard, records) of all lists by their new nodes, shard by shard, some nodes at a time."""
    base = source.ids.base
    per_node = max(1, adjacency.num_edges // max(1, int(base[-1])))
    chunk = max(GROUP_NODES, _CHUNK_EDGES // per_node // GROUP_NODES * GROUP_NODES)

    def pack(shard: int, low: int, high: int) -> tuple[int, Encoded]:
        nodes = source.old_nodes[base[shard] + low : base[shard] + high]
        indptr, neighbors, weights, times, edge_ids = adjacency.columns(nodes)
        neighbors = target.new_nodes[dense_ranks(neighbors, target.base)]
        rows = np.repeat(np.arange(nodes.size), np.diff(indptr)).astype(np.uint64)
        keys = [(rows, 64), (neighbors.view(np.uint64), bits)]
        if times is not None:
            keys.insert(1, (times.view(np.uint64) ^ np.uint64(1 << 63), 64))
        order = sorted_order(keys)
        if edge_ids is not None and edge_rows is not None:
            edge_ids = edge_rows[edge_ids]
        columns = [None if column is None else column[order] for column in (weights, times, edge_ids)]
        return shard, encode(indptr, neighbors[order], *columns, first=low, bits=bits)

    spans = (
        partial(pack, shard, low, min(low + chunk, int(count)))
        for shard, count in enumerate(np.diff(base))
        for low in range(0, int(count), chunk)
    )
    return in_order(spans, threads=threads)
