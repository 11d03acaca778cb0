"""Scans: all edges or nodes of a type as Arrow record batches, shard by shard, a bounded number in memory."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graph_store.adjacency import Adjacency
from graph_store.arrow_columns import distinct_names, feature_array, feature_type, id_array, id_type
from graph_store.feature_table import FeatureTables
from graph_store.feature_type import FeatureType
from graph_store.features import width
from graph_store.ids import IdMap
from graph_store.kernels import kernel
from graph_store.manifest import StoredEdgeType
from graph_store.packed_lists import entry_of, locate, locate_extra, node_mark
from graph_store.packing import bit_mask, unpack
from graph_store.ragged import starts_of

if TYPE_CHECKING:
    from graph_store.store import GraphStore

BATCH_ROWS = 1 << 16
# Nodes whose degrees are known at once, and bytes of the features of a batch.
_WINDOW, _BATCH_BYTES = 1 << 18, 1 << 25


class Entries(NamedTuple):
    """Entries of lists, by nodes: sources and targets int64[n], weights float32[n], times and edge ids int64[n]."""

    sources: np.ndarray
    targets: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None
    edge_ids: np.ndarray | None


@kernel
def _entries(words, words32, directory, group_base, nodes, indptr, first, low, targets, columns):
    """Read the entries from `low` on of the lists of `nodes`, beginning with list `first`, as many as `targets` has."""
    weights, times, edge_ids = columns
    floats = words32.view(np.float32)
    high, i = low + targets.size, first
    while i < nodes.size and indptr[i] < high:
        begin, end = max(low, indptr[i]), min(high, indptr[i + 1])
        if begin < end:
            entry = entry_of(nodes[i], directory, group_base)
            degree, bit, bits, start = locate(words, words32, entry, node_mark(nodes[i], entry, group_base))
            weight, time_bit, time_bits, base, id_bit, id_bits, id_base = 0, 0, 0, 0, 0, 0, 0
            if weights.size or times.size or edge_ids.size:
                weight, time_bit, time_bits, base, id_bit, id_bits, id_base = locate_extra(
                    words, words32, entry, degree, bit, bits, start
                )
            mask, time_mask, id_mask = bit_mask(bits), bit_mask(max(time_bits, 1)), bit_mask(max(id_bits, 1))
            for j in range(begin - indptr[i], end - indptr[i]):
                to = indptr[i] + j - low
                targets[to] = np.int64(unpack(words, bit + j * bits, mask))
                if weights.size:
                    weights[to] = floats[weight + j]
                if times.size:
                    times[to] = base + np.int64(unpack(words, time_bit + j * time_bits, time_mask))
                if edge_ids.size:
                    edge_ids[to] = id_base + np.int64(unpack(words, id_bit + j * id_bits, id_mask))
        i += 1


def entries(adjacency: Adjacency, *, batch_rows: int, edge_ids: bool = True) -> Iterator[Entries]:
    """Yield all entries of an edge type, at most `batch_rows` at once, by source in dense order and by list."""
    wanted = adjacency.weighted, adjacency.timed, edge_ids and adjacency.numbered
    kinds = np.float32, np.int64, np.int64
    for nodes in _windows(adjacency.counts):
        indptr = starts_of(adjacency.degrees(nodes))
        for low in range(0, int(indptr[-1]), batch_rows):
            size = min(batch_rows, int(indptr[-1]) - low)
            targets = np.empty(size, np.int64)
            columns = tuple(np.empty(size if want else 0, kind) for want, kind in zip(wanted, kinds))
            first = int(np.searchsorted(indptr, low, side="right")) - 1
            last = int(np.searchsorted(indptr, low + size, side="left"))
            _entries(*adjacency.arrays, nodes, indptr, first, low, targets, columns)
            shares = np.diff(np.clip(indptr[first : last + 1], low, low + size))
            sources = np.repeat(nodes[first:last], shares)
            yield Entries(sources, targets, *(column if want else None for column, want in zip(columns, wanted)))


def _windows(counts: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the nodes of all shards in dense order, some at a time."""
    for shard, count in enumerate(counts.tolist()):
        for low in range(0, count, _WINDOW):
            yield np.arange(low, min(low + _WINDOW, count)) * counts.size + shard


def forward_types(store: "GraphStore") -> list[StoredEdgeType]:
    """Return the edge types of a store without those that are the reverse of one before."""
    seen: set[str] = set()
    found = []
    for name, entry in store.edge_types.items():
        if entry.reverse not in seen:
            found.append(entry)
        seen.add(name)
    return found


def edge_reader(
    store: "GraphStore",
    edge_type: str,
    *,
    batch_rows: int = BATCH_ROWS,
    features: Sequence[str] | None = None,
    both: bool = False,
    stored: bool = False,
) -> pa.RecordBatchReader:
    """Return all edges of a type; see `GraphStore.scan`. With `stored` int8 vectors as they are stored."""
    _check_rows(batch_rows)
    adjacency, entry = store.adjacency(edge_type), store.edge_types[edge_type]
    tables, ends = store.edge_features(edge_type), (store.id_map(entry.src), store.id_map(entry.dst))
    fields = {"src": id_type(ends[0].id_type), "dst": id_type(ends[1].id_type)}
    if entry.weighted:
        fields["weight"] = pa.float32()
    if entry.timed:
        fields["time"] = pa.int64()
    chosen = _chosen(tables, features)
    schema = _with_features(fields, chosen, stored)
    batch_rows = _fitting(tables, chosen, batch_rows)
    once = entry.undirected and not both

    def batches() -> Iterator[pa.RecordBatch]:
        for part in entries(adjacency, batch_rows=batch_rows, edge_ids=bool(chosen)):
            if once:
                # By ids, not by nodes, so that the number of shards does not turn edges round.
                src, dst = _source_ids(ends[0], part.sources), id_array(ends[1], part.targets)
                part = _taken(part, pc.less_equal(src, dst).to_numpy(zero_copy_only=False))
            if part.sources.size:
                yield pa.record_batch(_edge_columns(part, ends, tables, chosen, stored), schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _taken(part: Entries, rows: np.ndarray) -> Entries:
    return Entries(*(None if column is None else column[rows] for column in part))  # type: ignore[arg-type]


def _source_ids(ids: IdMap, sources: np.ndarray) -> pa.Array:
    """Return the ids of sources; each has a run of entries, and its id is found once."""
    runs = np.flatnonzero(np.diff(sources, prepend=-1))
    sizes = np.diff(runs, append=sources.size)
    return id_array(ids, sources[runs]).take(pa.array(np.repeat(np.arange(runs.size), sizes)))


def _edge_columns(
    part: Entries,
    ends: tuple[IdMap, IdMap],
    tables: FeatureTables,
    chosen: Sequence[FeatureType],
    stored: bool,
) -> list[pa.Array]:
    columns = [_source_ids(ends[0], part.sources), id_array(ends[1], part.targets)]
    columns += [pa.array(column) for column in (part.weights, part.times) if column is not None]
    if chosen:
        assert part.edge_ids is not None
        columns += _feature_columns(tables, chosen, part.edge_ids, stored)
    return columns


def node_reader(
    store: "GraphStore",
    node_type: str,
    features: Sequence[str] | None = None,
    *,
    batch_rows: int = BATCH_ROWS,
    stored: bool = False,
) -> pa.RecordBatchReader:
    """Return all nodes of a type; see `GraphStore.scan_nodes`. With `stored` int8 vectors as they are stored."""
    _check_rows(batch_rows)
    ids, tables = store.id_map(node_type), store.node_features(node_type)
    chosen = _chosen(tables, features)
    schema = _with_features({"id": id_type(ids.id_type)}, chosen, stored)
    batch_rows = _fitting(tables, chosen, batch_rows)

    def batches() -> Iterator[pa.RecordBatch]:
        for window in _windows(np.diff(ids.base)):
            live = window[~np.isin(window, ids.dead)] if ids.dead.size else window
            for low in range(0, live.size, batch_rows):
                nodes = live[low : low + batch_rows]
                columns = [id_array(ids, nodes), *_feature_columns(tables, chosen, nodes, stored)]
                yield pa.record_batch(columns, schema=schema)

    return pa.RecordBatchReader.from_batches(schema, batches())


def _check_rows(batch_rows: int) -> None:
    if batch_rows < 1:
        raise ValueError(f"batch_rows must be 1 or more, got {batch_rows}")


def _chosen(tables: FeatureTables, names: Sequence[str] | None) -> list[FeatureType]:
    return tables.features if names is None else [tables.features[tables.place(name)] for name in names]


def _with_features(fields: dict[str, pa.DataType], chosen: Sequence[FeatureType], stored: bool) -> pa.Schema:
    names = distinct_names([feature.name for feature in chosen], fields)
    return pa.schema(fields | {name: feature_type(each, stored=stored) for name, each in zip(names, chosen)})


def _fitting(tables: FeatureTables, chosen: Sequence[FeatureType], batch_rows: int) -> int:
    """Return how many rows a batch has, so that its features fit in the bytes meant for them."""
    size = 0.0
    for feature in chosen:
        sections = tables.tables[tables.place(feature.name)]
        mean = sections["values"].size / max(1, sections["present"].size)
        size += sections["values"].itemsize * max(mean, width(feature))
    return max(1, min(batch_rows, int(_BATCH_BYTES / max(size, 1))))


def _feature_columns(
    tables: FeatureTables, chosen: Sequence[FeatureType], keys: np.ndarray, stored: bool
) -> list[pa.Array]:
    return [feature_array(feature, tables.sections(feature.name, keys), stored=stored) for feature in chosen]
