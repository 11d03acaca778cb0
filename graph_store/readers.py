"""Input formats to batches of edges: one door for Parquet, CSV, TSV and adjacency text."""

from collections.abc import Iterator

from graph_store.row_batch import EdgeBatch
from graph_store.errors import BadInput
from graph_store.schema import EdgeSource, NodeType

__all__ = ["EdgeBatch", "describe", "read_edges", "source_bytes"]


def source_bytes(source: EdgeSource) -> int:
    """Return the size of the file in bytes, compressed if it is: what `EdgeBatch.bytes_done` counts up to.

    Raises
    ------
    BadInput
        The file is absent, a directory, empty or not to be read.
    """
    path = source.path
    try:
        if path.is_dir():
            raise BadInput(f"{path}: is a directory; name a file of edges")
        size = path.stat().st_size
    except OSError as error:
        raise BadInput(f"{path}: cannot read the file: {error.strerror or error}") from None
    if size == 0:
        raise BadInput(f"{path}: the file is empty; expected edges")
    return size


def read_edges(
    source: EdgeSource, *, src_type: NodeType, dst_type: NodeType, threads: int | None = None
) -> Iterator[EdgeBatch]:
    """Read the edges of one file, in its order, in batches of about a million, decoded ahead by threads.

    Parameters
    ----------
    source : EdgeSource
        The file and its layout; what the layout leaves open is told from the file.
    src_type, dst_type : NodeType
        The types of the two ends: they say whether the ids are integers or strings.
    threads : int or None
        Threads that decode; None for the cores this process may use. The batches do not depend on it.

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
    # Imported here: a query opens a store without these, and pyarrow's readers take a while to load.
    from graph_store.kernels import num_threads

    workers = num_threads(threads)
    if _is_parquet(source):
        from graph_store.parquet_file import read_parquet

        return read_parquet(source, src_type, dst_type, threads=workers)
    from graph_store.adjacency_text import read_adjacency
    from graph_store.delimited import read_delimited
    from graph_store.text_layout import tell_layout

    layout = tell_layout(source, src_type, dst_type)
    if layout.adjacency:
        return read_adjacency(source.path, layout, src_type, dst_type, threads=workers)
    return read_delimited(source.path, layout, threads=workers)


def describe(source: EdgeSource, *, src_type: NodeType, dst_type: NodeType) -> str:
    """Say in a few words how `read_edges` would read the file, as stated and as told from it.

    Raises
    ------
    BadInput
        The file or its layout cannot be read.
    """
    source_bytes(source)
    if _is_parquet(source):
        return "parquet, " + ", ".join(f"{role} = column {column!r}" for role, column in source.columns().items())
    from graph_store.text_layout import tell_layout

    return str(tell_layout(source, src_type, dst_type))


def _is_parquet(source: EdgeSource) -> bool:
    if source.format is not None:
        return source.format == "parquet"
    try:
        with open(source.path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError as error:
        raise BadInput(f"{source.path}: cannot read the file: {error.strerror or error}") from None
