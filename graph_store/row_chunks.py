"""Rows of edges in the order of the input, their ends as codes, and the same rows by shard once codes are nodes."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graph_store.kernels import kernel
from graph_store.spool import Piece, Spool


class Chunk(NamedTuple):
    """Some rows of one edge type as they came.

    edge_type : int, its number in the schema; num_rows : int
    first : int, how many rows of the type came before
    src_segment, dst_segment : int, the dictionaries of the codes `src` and `dst`, uint32[n]
    weights : float32[n]; times : int64[n]; relations : uint16[n], numbers of relations as they first appeared;
    edge_ids : int64[n], where they are not `first …`; each None where rows have none
    """

    edge_type: int
    num_rows: int
    first: int
    src_segment: int
    dst_segment: int
    src: Piece
    dst: Piece
    weights: Piece | None = None
    times: Piece | None = None
    relations: Piece | None = None
    edge_ids: Piece | None = None

    def drop(self, spool: Spool) -> None:
        """Let the rows go."""
        for piece in self[5:]:
            if isinstance(piece, Piece):
                spool.drop(piece)


class Columns(NamedTuple):
    """What rows have besides their ends, each None where they have none.

    kinds : uint16[n], which edge type of several; weights : float32[n]; times, edge_ids : int64[n]
    """

    kinds: np.ndarray | None = None
    weights: np.ndarray | None = None
    times: np.ndarray | None = None
    edge_ids: np.ndarray | None = None

    def take(self, rows: np.ndarray) -> "Columns":
        """Return some rows, by index or mask."""
        return Columns(*(None if column is None else column[rows] for column in self))

    @property
    def any(self) -> bool:
        """True where there is a column."""
        return any(column is not None for column in self)


class Block(NamedTuple):
    """Rows by the shard of their source, in the order of the input within a shard.

    starts : int64[num_shards + 1]
    locals : uint32[n], local ids of sources; nodes : uint32[n] or uint64[n], targets; kinds … : as `Columns`
    """

    starts: np.ndarray
    locals: Piece
    nodes: Piece
    kinds: Piece | None = None
    weights: Piece | None = None
    times: Piece | None = None
    edge_ids: Piece | None = None


@kernel
def look_up(table: np.ndarray, codes: np.ndarray, nodes: np.ndarray) -> None:
    for i in range(codes.size):
        nodes[i] = table[codes[i]]


def nodes_of(table: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the node of each code, of the table's dtype."""
    nodes = np.empty(codes.size, table.dtype)
    look_up(table, codes, nodes)
    return nodes


@kernel
def _both_ways(src, dst, sources, targets, rows):
    """Write each row followed by its opposite, self loops once, and the row each came from; returns how many."""
    count = 0
    for i in range(src.size):
        sources[count], targets[count], rows[count] = src[i], dst[i], i
        count += 1
        if src[i] != dst[i]:
            sources[count], targets[count], rows[count] = dst[i], src[i], i
            count += 1
    return count


def both_ways(src: np.ndarray, dst: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return sources, targets and rows of edges that are stored at both their ends."""
    sources, targets = np.empty(2 * src.size, src.dtype), np.empty(2 * src.size, src.dtype)
    rows = np.empty(2 * src.size, np.uint32)
    count = int(_both_ways(src, dst, sources, targets, rows))
    return sources[:count], targets[:count], rows[:count]


@kernel
def _count(keys: np.ndarray, starts: np.ndarray) -> None:
    num_shards = np.uint64(starts.size - 1)
    for i in range(keys.size):
        starts[np.int64(np.uint64(keys[i]) % num_shards) + 1] += 1
    for shard in range(starts.size - 1):
        starts[shard + 1] += starts[shard]


@kernel
def _scatter(src, dst, places, local, nodes, order):
    num_shards = np.uint64(places.size - 1)
    for i in range(src.size):
        quotient = np.uint64(src[i]) // num_shards
        shard = np.int64(np.uint64(src[i]) - quotient * num_shards)
        place = places[shard]
        places[shard] = place + 1
        local[place], nodes[place] = quotient, dst[i]
        if order.size:
            order[place] = i


def put_block(spool: Spool, src: np.ndarray, dst: np.ndarray, columns: Columns, num_shards: int) -> Block:
    """Put rows (nodes of the same dtype) away by the shard of their source."""
    starts = np.zeros(num_shards + 1, np.int64)
    _count(src, starts)
    local, nodes = np.empty(src.size, np.uint32), np.empty(src.size, dst.dtype)
    order = np.empty(src.size if columns.any else 0, np.uint32)
    _scatter(src, dst, starts.copy(), local, nodes, order)
    pieces = [None if column is None else spool.put(column[order]) for column in columns]
    return Block(starts, spool.put(local), spool.put(nodes), *pieces)


class Part(NamedTuple):
    """Some rows of a block: `start … stop − 1`."""

    spool: Spool
    block: Block
    start: int
    stop: int

    def read(self) -> tuple[np.ndarray, np.ndarray, Columns]:
        """Return local ids, targets and columns."""
        pieces = self.block[1:]
        columns = [None if piece is None else self.spool.get(piece, self.start, self.stop) for piece in pieces]
        return columns[0], columns[1], Columns(*columns[2:])  # type: ignore[return-value]


def parts_of(spool: Spool, blocks: Sequence[Block], number: int) -> list[Part]:
    """Return the rows of one shard, or whatever blocks were cut by, in the order of the input."""
    bounds = [Part(spool, block, *block.starts[number : number + 2].tolist()) for block in blocks]
    return [part for part in bounds if part.start < part.stop]
