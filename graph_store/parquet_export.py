"""Exports: a store as Parquet files, one a type, with the schema that makes the same store of them again."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from graph_store.arrow_columns import distinct_names
from graph_store.edge_type import POLICIES
from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.progress import Progress
from graph_store.scan import BATCH_ROWS, edge_reader, forward_types, node_reader
from graph_store.schema import nearest
from graph_store.workplace import workplace
from graph_store.write_errors import write_errors

if TYPE_CHECKING:
    from graph_store.store import GraphStore

FORMATS = ("parquet",)
SCHEMA = "schema.toml"
# A row group ends when it has so many rows or bytes.
_GROUP_ROWS, _GROUP_BYTES = 1 << 20, 1 << 26


def export(
    store: "GraphStore",
    folder: str | os.PathLike[str],
    format: str = "parquet",
    *,
    batch_rows: int = BATCH_ROWS,
    progress: bool = False,
) -> Path:
    """Write a store as files from which `gossamer ingest` makes the same store again: ids, edges, features and rules.

    Parameters
    ----------
    store : GraphStore
        The version it is open at is written.
    folder : path
        Where the files will be. It appears whole, or not at all.
    format : str
        `"parquet"`: a file a node type and edge type (reverse types are not written, the schema asks for them), and
        `schema.toml`.
    batch_rows : int
        Rows read at once; about 64 MiB of them are in memory before they are written.
    progress : bool
        Show a bar on stderr.

    Returns
    -------
    Path
        The schema file.

    Raises
    ------
    BadInput
        The folder is there already, or the format is unknown.
    GraphStoreError
        The disk is full, or the folder cannot be written.
    """
    if format not in FORMATS:
        raise BadInput(f"format {format!r} cannot be written; {nearest(format, FORMATS)}")
    target = Path(folder)
    if target.exists():
        raise BadInput(f"{target}: exists already; choose another path, or remove it")
    with (
        write_errors(target, "nothing was written"),
        workplace(target, overwrite=False) as place,
        Progress(progress) as bar,
    ):
        _write_all(store, place, batch_rows, bar)
    return target / SCHEMA


def _write_all(store: "GraphStore", place: Path, batch_rows: int, bar: Progress) -> None:
    forward = forward_types(store)
    rows = sum(entry.count for entry in store.node_types.values()) + sum(entry.num_edges for entry in forward)
    bar.phase("writing Parquet", rows, unit="row")
    text = [
        "# A store as files; this makes it again:",
        f"# gossamer ingest {SCHEMA} STORE --shards {store.num_shards}",
    ]
    for number, node_type in enumerate(store.node_types.values()):
        name = _file_name("nodes", number, node_type.name)
        _write(place / name, node_reader(store, node_type.name, batch_rows=batch_rows, stored=True), bar)
        text += _node_lines(node_type, name)
    for number, edge_type in enumerate(forward):
        name = _file_name("edges", number, edge_type.name)
        _write(place / name, edge_reader(store, edge_type.name, batch_rows=batch_rows, stored=True), bar)
        text += _edge_lines(edge_type, name)
    (place / SCHEMA).write_text("\n".join(text) + "\n", encoding="utf-8")
    fsync_file(place / SCHEMA)


def _file_name(kind: str, number: int, name: str) -> str:
    """Return a name that any file system takes; the number keeps those apart that it writes alike."""
    words = (re.sub("[^A-Za-z0-9_.]+", "_", word) for word in name.split(":"))
    return f"{kind}-{number}-{'-'.join(words)[:100]}.parquet"


def _write(path: Path, reader: pa.RecordBatchReader, bar: Progress) -> None:
    with pq.ParquetWriter(path, reader.schema, compression="zstd") as writer:
        for group in _groups(reader):
            writer.write_table(group, row_group_size=group.num_rows)
            bar.advance(group.num_rows)
    fsync_file(path)


def _groups(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    """Join batches to tables worth a row group."""
    batches: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in reader:
        batches.append(batch)
        rows, size = rows + batch.num_rows, size + batch.nbytes
        if rows >= _GROUP_ROWS or size >= _GROUP_BYTES:
            yield pa.Table.from_batches(batches).unify_dictionaries()
            batches, rows, size = [], 0, 0
    if batches:
        yield pa.Table.from_batches(batches).unify_dictionaries()


def fsync_file(path: Path) -> None:
    """Make a file's content durable."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _node_lines(entry: StoredNodeType, file: str) -> Iterator[str]:
    head = f"nodes.{_text(entry.name)}"
    yield from _table(head, {"id_type": entry.id_type, "files": file, "id": "id"})
    yield from _feature_tables(head, entry.feature_types, ["id"])


def _edge_lines(entry: StoredEdgeType, file: str) -> Iterator[str]:
    head = f"edges.{_text(entry.name)}"
    columns = ["src", "dst", *(["weight"] if entry.weighted else []), *(["time"] if entry.timed else [])]
    directions = {"undirected": entry.undirected, "reverse": entry.reverse is not None and not entry.undirected}
    rules = {key: entry.rules[key] for key, known in POLICIES.items() if entry.rules.get(key, known[0]) != known[0]}
    values: dict[str, Any] = {"files": file, **{column: column for column in columns}}
    if entry.time_unit is not None:
        values["time_unit"] = entry.time_unit
    yield from _table(head, values | {key: True for key, there in directions.items() if there} | rules)
    yield from _feature_tables(head, entry.feature_types, columns)


def _feature_tables(head: str, features: Sequence[FeatureType], taken: Sequence[str]) -> Iterator[str]:
    columns = distinct_names([feature.name for feature in features], taken)
    for feature, column in zip(features, columns):
        values = {key: getattr(feature, key) for key in ("kind", "dtype", "dim", "scale")}
        values["column"] = None if column == feature.name else column
        known = {key: value for key, value in values.items() if value is not None}
        yield from _table(f"{head}.features.{_text(feature.name)}", known)


def _table(head: str, values: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    yield f"[{head}]"
    for key, value in values.items():
        yield f"{key} = {_text(value) if isinstance(value, str) else json.dumps(value)}"


def _text(value: str) -> str:
    """Return a string of TOML, which writes them as JSON does."""
    return json.dumps(value, ensure_ascii=False)
