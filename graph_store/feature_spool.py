"""Features on their way: columns as the readers hand them over wait until the rows of nodes and edges are known."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from graph_store.row_batch import Column
from graph_store.spool import Piece, Spool


class WaitingColumn(NamedTuple):
    """A `Column` in a spool; `width` numbers a row where all rows have as many."""

    values: Piece
    width: int
    indptr: Piece | None
    present: Piece | None


class FeatureChunk(NamedTuple):
    """The features of some nodes or edges as they came.

    number : int, of the node type or edge type in the schema
    first : int, the edge id of the first row; segment and codes : whose features they are, else
    keys : uint32[n] codes of nodes in a segment, or int64[n] edge ids where they are not `first …`
    relations : uint16[n] or None, as of a `Chunk`
    columns : by the feature's name
    """

    number: int
    num_rows: int
    first: int
    segment: int
    keys: Piece | None
    relations: Piece | None
    columns: dict[str, WaitingColumn]


def put_columns(spool: Spool, columns: Mapping[str, Column]) -> dict[str, WaitingColumn]:
    """Put columns away."""
    return {name: _put(spool, column) for name, column in columns.items()}


def _put(spool: Spool, column: Column) -> WaitingColumn:
    values = np.ascontiguousarray(column.values)
    width = values.shape[1] if values.ndim == 2 else 1
    others = [None if part is None else spool.put(part) for part in (column.indptr, column.present)]
    return WaitingColumn(spool.put(values.reshape(-1)), width, *others)


def get_column(spool: Spool, waiting: WaitingColumn) -> Column:
    """Return a column that was put away."""
    values = spool.get(waiting.values)
    others = [None if piece is None else spool.get(piece) for piece in (waiting.indptr, waiting.present)]
    return Column(values.reshape(-1, waiting.width) if waiting.width > 1 else values, *others)


def drop_columns(spool: Spool, columns: Mapping[str, WaitingColumn]) -> None:
    """Let columns go."""
    for waiting in columns.values():
        for piece in (waiting.values, waiting.indptr, waiting.present):
            if piece is not None:
                spool.drop(piece)


def take_rows(column: Column, rows: np.ndarray) -> Column:
    """Return some rows of a column, by index."""
    present = None if column.present is None else column.present[rows]
    if column.indptr is None:
        return Column(column.values[rows], None, present)
    from graph_store.ragged import starts_of, take_spans

    indptr = np.ascontiguousarray(column.indptr, np.int64)
    starts = starts_of(np.diff(indptr)[rows])
    return Column(take_spans(column.values, indptr[:-1][rows], starts), starts, present)
