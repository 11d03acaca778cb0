"""Chunks of rows → blocks by shard, once it is known which node each code is."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from graph_store.edge_groups import Group
from graph_store.edge_type import EdgeType
from graph_store.errors import BadInput
from graph_store.intake import is_strict
from graph_store.node_ids import NodeIds
from graph_store.read_ahead import in_order
from graph_store.row_chunks import Block, Chunk, Columns, both_ways, nodes_of, put_block
from graph_store.row_places import place_of_end
from graph_store.schema import Schema
from graph_store.spool import Spool


class Mapped(NamedTuple):
    """A chunk by shard.

    declared : int, the edge type in the schema
    blocks : of its forward group, and of its reverse group where there is one
    rows : int64[types of the group], edges of each; missing : int, edges left out for an end that no file lists
    """

    declared: int
    blocks: tuple[Block, ...]
    rows: np.ndarray
    missing: int


class _Tables(NamedTuple):
    """What gives the nodes of a chunk's codes, and which of them are listed (None where that does not matter)."""

    src: np.ndarray
    dst: np.ndarray
    src_listed: np.ndarray | None
    dst_listed: np.ndarray | None


class RowMapper:
    """Maps chunks in the order they were read.

    Parameters
    ----------
    relations : sequence of dict
        Of each declared type the numbers of the relations in its chunks.
    all_relations : sequence
        Of each declared type the relations that all ranks found.
    offsets : sequence of int64[relations]
        Of each declared type what is added to edge ids: rows that ranks before this one read.
    """

    def __init__(
        self,
        schema: Schema,
        groups: Sequence[Group],
        nodes: dict[str, NodeIds],
        *,
        relations: Sequence[Mapping[str, int]],
        all_relations: Sequence[Collection[str]],
        offsets: Sequence[np.ndarray],
        source: Spool,
        target: Spool,
        threads: int,
    ) -> None:
        self._schema, self._nodes, self._threads = schema, nodes, threads
        self._source, self._target, self._offsets = source, target, offsets
        self._types = list(schema.edge_types.values())
        self._num_kinds = {group.declared: len(group.names) for group in groups}
        self._kinds = [_places(known, sorted(names)) for known, names in zip(relations, all_relations)]
        self._held: dict[tuple[str, bool], tuple[int, np.ndarray]] = {}

    def map(self, chunks: Sequence[Chunk]) -> Iterator[Mapped]:
        """Yield the blocks of chunks in order.

        Raises
        ------
        BadInput
            An end is listed by no file of nodes, and the edge type says "error".
        """
        yield from in_order(self._calls(chunks), threads=self._threads)

    def _calls(self, chunks: Sequence[Chunk]) -> Iterator[Callable[[], Mapped]]:
        for chunk in chunks:
            edge_type = self._types[chunk.edge_type]
            name = edge_type.name
            needed = ((name.src, chunk.src_segment), (name.dst, chunk.dst_segment))
            wanted = [(end, is_strict(edge_type, self._schema.node_types[end])) for end, _ in needed]
            self._forget({(end, listed) for end, strict in wanted for listed in (False, strict)})
            tables = [self._table(*need, listed=False) for need in needed]
            listed = [self._table(*need, listed=True) if strict else None for need, (_, strict) in zip(needed, wanted)]
            yield partial(self._map, chunk, _Tables(*tables, *listed))

    def _forget(self, used: set[tuple[str, bool]]) -> None:
        for key in self._held.keys() - used:
            del self._held[key]

    def _table(self, node_type: str, segment: int, *, listed: bool) -> np.ndarray:
        held = self._held.get((node_type, listed))
        if held is None or held[0] != segment:
            self._held.pop((node_type, listed), None)
            ids = self._nodes[node_type]
            source = ids.sources[segment]
            held = segment, ids.listed(source) if listed else ids.table(source)
            self._held[node_type, listed] = held
        return held[1]

    def _map(self, chunk: Chunk, tables: _Tables) -> Mapped:
        edge_type = self._types[chunk.edge_type]
        get = self._source.get
        src_codes, dst_codes = get(chunk.src), get(chunk.dst)
        columns = self._columns(chunk, edge_type)
        missing = 0
        for end, segment, codes, listed in (
            (edge_type.name.src, chunk.src_segment, src_codes, tables.src_listed),
            (edge_type.name.dst, chunk.dst_segment, dst_codes, tables.dst_listed),
        ):
            if listed is not None and edge_type.missing_nodes == "error":
                self._check_listed(edge_type, end, segment, codes, listed)
        if tables.src_listed is not None or tables.dst_listed is not None:
            keep = np.ones(chunk.num_rows, bool)
            for codes, listed in ((src_codes, tables.src_listed), (dst_codes, tables.dst_listed)):
                if listed is not None:
                    keep &= listed[codes]
            missing = chunk.num_rows - int(np.count_nonzero(keep))
            if missing:
                src_codes, dst_codes, columns = src_codes[keep], dst_codes[keep], columns.take(keep)
        src, dst = nodes_of(tables.src, src_codes), nodes_of(tables.dst, dst_codes)
        chunk.drop(self._source)
        return Mapped(
            chunk.edge_type, self._blocks(edge_type, src, dst, columns), self._rows(chunk, src, columns), missing
        )

    def _rows(self, chunk: Chunk, src: np.ndarray, columns: Columns) -> np.ndarray:
        num_kinds = self._num_kinds[chunk.edge_type]
        if columns.kinds is None:
            return np.array([src.size])
        return np.bincount(columns.kinds, minlength=max(1, num_kinds))

    def _columns(self, chunk: Chunk, edge_type: EdgeType) -> Columns:
        get = self._source.get
        pieces = (chunk.relations, chunk.weights, chunk.times, chunk.edge_ids)
        relations, weights, times, edge_ids = (None if piece is None else get(piece) for piece in pieces)
        offsets = self._offsets[chunk.edge_type]
        if edge_type.features:
            if relations is None:
                edge_ids = np.arange(chunk.first, chunk.first + chunk.num_rows) + offsets[0]
            else:
                edge_ids = edge_ids + offsets[relations]
        kinds = None if relations is None else self._kinds[chunk.edge_type][relations]
        return Columns(kinds, weights, times, edge_ids)

    def _blocks(self, edge_type: EdgeType, src: np.ndarray, dst: np.ndarray, columns: Columns) -> tuple[Block, ...]:
        put = partial(put_block, self._target)
        num_shards = self._nodes[edge_type.name.src].num_shards
        if src.dtype != dst.dtype:
            src, dst = src.astype(np.uint64), dst.astype(np.uint64)
        if edge_type.undirected:
            sources, targets, rows = both_ways(src, dst)
            return (put(sources, targets, columns.take(rows), num_shards),)
        blocks = [put(src, dst, columns, num_shards)]
        if edge_type.reverse:
            blocks.append(put(dst, src, columns, num_shards))
        return tuple(blocks)

    def _check_listed(self, edge_type: EdgeType, end: str, segment: int, codes: np.ndarray, listed: np.ndarray) -> None:
        unlisted = np.flatnonzero(~listed[codes])
        if unlisted.size:
            raise not_listed(self._schema, edge_type, self._nodes[end], segment, int(codes[unlisted[0]]))


def not_listed(schema: Schema, edge_type: EdgeType, ids: NodeIds, segment: int, code: int) -> BadInput:
    """Return the error of an end that no file of nodes lists."""
    node = ids.id_of_code(ids.sources[segment], code)
    place = place_of_end(schema, edge_type, ids.node_type.name, node)
    return BadInput(
        f"{place}edge type {edge_type.name}: {ids.node_type.name} {node!r} is listed by no file of nodes, and "
        "missing_nodes is 'error'; list it, or say missing_nodes = 'drop' or 'create'"
    )


def _places(known: Mapping[str, int], names: Sequence[str]) -> np.ndarray:
    """Return the place among names of each relation, by its number."""
    places = np.zeros(max(1, len(known)), np.uint16)
    place_of = {name: place for place, name in enumerate(names)}
    for relation, number in known.items():
        places[number] = place_of[relation]
    return places
