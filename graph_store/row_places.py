"""Where in the files a row is that a rule refused once its place was forgotten: the files are read once more."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from graph_store.edge_type import EdgeType
from graph_store.errors import GraphStoreError
from graph_store.readers import read_edges
from graph_store.row_batch import EdgeBatch
from graph_store.schema import Schema

Wanted = Callable[[EdgeBatch], np.ndarray]


def place_of_end(schema: Schema, edge_type: EdgeType, node_type: str, node: int | str) -> str:
    """Return the place of the first edge with a node at an end: `"clicks.csv: row 7: "`, empty where it is not found.

    Rows of a file are counted from 1, headers and blank lines not.
    """

    def wanted(batch: EdgeBatch) -> np.ndarray:
        found = np.zeros(batch.num_rows, bool)
        for end, ids in ((edge_type.name.src, batch.src), (edge_type.name.dst, batch.dst)):
            if end == node_type:
                found |= _is(ids, node)
        return found

    return _place(schema, edge_type, wanted, 0)


def place_of_edge(schema: Schema, edge_type: EdgeType, src: int | str, dst: int | str, *, number: int = 0) -> str:
    """Return the place of an edge, or with `number` 1 of the second row of it; see `place_of_end`."""

    def wanted(batch: EdgeBatch) -> np.ndarray:
        found = _is(batch.src, src) & _is(batch.dst, dst)
        if edge_type.undirected:
            found |= _is(batch.src, dst) & _is(batch.dst, src)
        return found

    return _place(schema, edge_type, wanted, number)


def _is(ids: Any, wanted: int | str) -> np.ndarray:
    if isinstance(wanted, str):
        import pyarrow as pa
        import pyarrow.compute as pc

        return pc.equal(ids, pa.scalar(wanted, pa.large_string())).to_numpy(zero_copy_only=False)
    return np.asarray(ids) == np.array(wanted % (1 << 64), np.uint64).astype(np.int64)


def _place(schema: Schema, edge_type: EdgeType, wanted: Wanted, number: int) -> str:
    types = schema.node_types
    for source in edge_type.sources:
        # Of a file that ranks share, each a part, the whole is read.
        if source.table is not None or source.part[0] > 0:
            continue
        source, first = replace(source, part=(0, 1)), 1
        try:
            batches = read_edges(
                source, src_type=types[edge_type.name.src], dst_type=types[edge_type.name.dst], edge_type=edge_type
            )
            for batch in batches:
                rows = np.flatnonzero(wanted(batch))
                left_out = len(batch.rejected) + sum(batch.dropped.values())
                if rows.size > number:
                    # Rows that were left out before it in the batch are not told apart from those behind.
                    about = "about " if left_out else ""
                    return f"{source.path}: {about}row {first + int(rows[number]) + left_out}: "
                number -= rows.size
                first += batch.num_rows + left_out
        except (GraphStoreError, OSError):
            return ""  # the file is no longer what it was; what is wrong is said without the place
    return ""
