"""Files and tables of edges and nodes to batches: one door for every input format."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from graph_store.byte_file import ByteFile
from graph_store.edge_type import EdgeType
from graph_store.errors import BadInput
from graph_store.row_batch import EdgeBatch, Field, NodeBatch
from graph_store.row_plan import RowPlan
from graph_store.schema import NodeType
from graph_store.sources import EdgeSource, NodeSource

__all__ = [
    "EdgeBatch",
    "NodeBatch",
    "column_names",
    "describe",
    "describe_nodes",
    "read_edges",
    "read_nodes",
    "source_bytes",
]

# Formats that are stated, first bytes and endings of names → ways of reading; all else is text with rows of cells.
_WAYS = {"parquet": "parquet", "arrow": "arrow", "npy": "array", "npz": "array", "jsonl": "jsonl"}
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "arrow", b"FEA1": "arrow", b"\x93NUMPY": "array"}
_SUFFIXES = {
    ".parquet": "parquet",
    ".npy": "array",
    ".npz": "array",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
_JSON_LINES = (".jsonl", ".ndjson", ".json")
_OBJECT = re.compile(rb"(\xef\xbb\xbf)?\s*\{\s*[\"}]")


def source_bytes(source: EdgeSource | NodeSource) -> int:
    """Return the size of the file in bytes, compressed if it is: what `bytes_done` of the batches counts up to.

    Of a table in memory it is the bytes it takes, 0 for a stream.

    Raises
    ------
    BadInput
        The file is absent, a directory, a pipe, empty or not to be read.
    """
    if source.table is not None:
        from graph_store.arrow_source import table_bytes

        return table_bytes(source.table)
    path = source.path
    try:
        if path.is_dir():
            raise BadInput(f"{path}: is a directory; name a file, or the directory in a schema")
        if path.exists() and not path.is_file():
            raise BadInput(f"{path}: is a pipe or a device, which cannot be read twice; write it to a file first")
        size = path.stat().st_size
    except OSError as error:
        raise BadInput(f"{path}: cannot read the file: {error.strerror or error}") from None
    if size == 0:
        what = "edges" if isinstance(source, EdgeSource) else "nodes"
        raise BadInput(f"{path}: the file is empty; expected {what}")
    return size // source.part[1]


def read_edges(
    source: EdgeSource,
    *,
    src_type: NodeType,
    dst_type: NodeType,
    edge_type: EdgeType | None = None,
    threads: int | None = None,
    batch_rows: int | None = None,
) -> Iterator[EdgeBatch]:
    """Read the edges of one source, in its order, in batches of about a million, decoded ahead by threads.

    Parameters
    ----------
    source : EdgeSource
        The file and its layout, or a table in memory; what the layout leaves open is told from the file.
    src_type, dst_type : NodeType
        The types of the two ends: they say what the ids are.
    edge_type : EdgeType or None
        Its features are read as well, and it says what becomes of bad rows and weights; None for no features, and
        an error at the first of them.
    threads : int or None
        Threads that decode; None for the cores this process may use. The batches do not depend on it.
    batch_rows : int or None
        Rows a batch should have at most, for a small memory budget: a hint.

    Returns
    -------
    iterator of EdgeBatch
        Closing it early stops the threads.

    Raises
    ------
    BadInput
        The file or its layout cannot be (at once), or a row cannot (from the iterator): the message names the
        file, line or row, column, what was found and what to do.
    """
    source_bytes(source)
    plan = RowPlan.of_edges(source, src_type, dst_type, edge_type)
    time_unit = None if edge_type is None else edge_type.time_unit
    return _read(source, plan, time_unit=time_unit, threads=threads, batch_rows=batch_rows)


def read_nodes(
    source: NodeSource,
    *,
    node_type: NodeType,
    threads: int | None = None,
    features: bool = True,
    batch_rows: int | None = None,
) -> Iterator[NodeBatch]:
    """Read the nodes of one source, in its order, as `read_edges` reads edges.

    Parameters
    ----------
    source : NodeSource
    node_type : NodeType
        What the ids are, which features to read, and what becomes of bad rows.
    features : bool
        False to read ids only.
    threads, batch_rows
        As of `read_edges`.

    Returns
    -------
    iterator of NodeBatch

    Raises
    ------
    BadInput
        As of `read_edges`.
    """
    source_bytes(source)
    plan = RowPlan.of_nodes(source, node_type, features=features)
    return _read(source, plan, time_unit=None, threads=threads, batch_rows=batch_rows)


def describe(source: EdgeSource, *, src_type: NodeType, dst_type: NodeType, edge_type: EdgeType | None = None) -> str:
    """Say in a few words how `read_edges` would read the source, as stated and as told from it.

    Raises
    ------
    BadInput
        The file or its layout cannot be read.
    """
    source_bytes(source)
    return _describe(source, RowPlan.of_edges(source, src_type, dst_type, edge_type))


def describe_nodes(source: NodeSource, *, node_type: NodeType) -> str:
    """Say in a few words how `read_nodes` would read the source.

    Raises
    ------
    BadInput
        The file or its layout cannot be read.
    """
    source_bytes(source)
    return _describe(source, RowPlan.of_nodes(source, node_type))


def column_names(source: EdgeSource | NodeSource, *types: NodeType) -> list[str]:
    """Return the names of a source's columns as its reader sees them; none of a file without a header.

    Parameters
    ----------
    types : NodeType
        Of the nodes, or of both ends of the edges.

    Raises
    ------
    BadInput
        The file or its layout cannot be read, or lacks the columns of ids.
    """
    source_bytes(source)
    if isinstance(source, EdgeSource):
        plan = RowPlan.of_edges(source, types[0], types[1])
    else:
        plan = RowPlan.of_nodes(source, types[0])
    asking = _AskedPlan(plan.path, plan.wanted)
    _describe(source, asking)
    return asking.names


@dataclass(frozen=True)
class _AskedPlan(RowPlan):
    """A plan that notes the names of all columns when its own are looked up among them."""

    names: list[str] = field(default_factory=list)

    def find(self, names: Sequence[str] | None, num_columns: int) -> tuple[Field, ...]:
        self.names[:] = names or ()
        return super().find(names, num_columns)


def _read(
    source: EdgeSource | NodeSource,
    plan: RowPlan,
    *,
    time_unit: str | None,
    threads: int | None,
    batch_rows: int | None,
) -> Iterator[Any]:
    # Imported here: a query opens a store without these, and pyarrow's readers take a while to load.
    from graph_store.kernels import num_threads

    workers = num_threads(threads)
    if batch_rows is not None and batch_rows < 1:
        raise BadInput(f"batch_rows is {batch_rows}, expected 1 or more")
    options: dict[str, Any] = {"time_unit": time_unit, "threads": workers, "batch_rows": batch_rows}
    form = told_format(source)
    if form == "table":
        from graph_store.arrow_source import read_table

        return read_table(source.table, plan, **options)
    if form == "parquet":
        from graph_store.parquet_file import read_parquet

        return read_parquet(plan, part=source.part, **options)
    if form == "arrow":
        from graph_store.arrow_source import read_arrow_file

        return read_arrow_file(plan, **options)
    if form == "array":
        from graph_store.array_file import read_arrays

        return read_arrays(source, plan, **options)
    if form == "jsonl":
        from graph_store.json_lines import read_json_lines

        return read_json_lines(source, plan, **options)
    from graph_store.adjacency_text import read_adjacency
    from graph_store.delimited import read_delimited
    from graph_store.text_layout import tell_layout

    layout = tell_layout(source, plan)
    read_text = read_adjacency if layout.adjacency else read_delimited
    return read_text(plan, layout, threads=workers, batch_rows=batch_rows)


def _describe(source: EdgeSource | NodeSource, plan: RowPlan) -> str:
    form = told_format(source)
    if form == "table":
        from graph_store.arrow_source import describe_table

        return describe_table(source.table, plan)
    if form == "parquet":
        from graph_store.parquet_file import describe_parquet

        return describe_parquet(plan)
    if form == "arrow":
        from graph_store.arrow_source import describe_arrow_file

        return describe_arrow_file(plan)
    if form == "array":
        from graph_store.array_file import describe_arrays

        return describe_arrays(source, plan)
    if form == "jsonl":
        from graph_store.json_lines import describe_json_lines

        return describe_json_lines(source, plan)
    from graph_store.text_layout import tell_layout

    return str(tell_layout(source, plan))


def told_format(source: EdgeSource | NodeSource) -> str:
    """Return how a source is read: as stated, else as its first bytes or its name tell.

    Returns
    -------
    str
        `"table"`, `"parquet"`, `"arrow"`, `"array"`, `"jsonl"` or `"text"`.

    Raises
    ------
    BadInput
        The file cannot be read, or holds a binary format within a compressed file or an archive.
    """
    if source.table is not None:
        return "table"
    if source.format is not None:
        return _WAYS.get(source.format, "text")
    try:
        with open(source.path, "rb") as file:
            head = file.read(8)
    except OSError as error:
        raise BadInput(f"{source.path}: cannot read the file: {error.strerror or error}") from None
    way = _told_by(head, source.path.name)
    if way is not None:
        return way
    if source.header is not None or source.delimiter is not None:
        return "text"
    with ByteFile(source.path, source.member) as inner:
        way = _told_by(inner.head, inner.name)
        if way is not None:
            raise BadInput(
                f"{source.path}: holds {inner.name!r}, which is not read out of a compressed file or an archive; "
                "unpack it first"
            )
        by_name = inner.name.lower().endswith(_JSON_LINES)
        return "jsonl" if by_name or _OBJECT.match(inner.head) else "text"


def _told_by(head: bytes, name: str) -> str | None:
    """Return the binary format that first bytes or a name tell, None for others."""
    magic = next((way for magic, way in _MAGIC.items() if head.startswith(magic)), None)
    return magic or next((way for suffix, way in _SUFFIXES.items() if name.lower().endswith(suffix)), None)
