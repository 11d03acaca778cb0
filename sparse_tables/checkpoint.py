"""A table on disk: one Arrow file a shard, under a manifest with checksums.

A checkpoint is a folder. Shard files are named by their contents and never overwritten; `manifest.json` is
renamed into place last and names the files that count, then the others are removed. So at any moment the
folder is the whole old checkpoint or the whole new one. In an MPI job each rank writes its shards into one
shared folder with `write_shard`, then one rank, given all their entries, writes the manifest.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from sparse_tables.allocator import Allocator, private_allocator
from sparse_tables.config import TableConfig
from sparse_tables.errors import CheckpointNotFound, CorruptCheckpoint
from sparse_tables.shard import Shard
from sparse_tables.table import LocalTable

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = 1
MANIFEST = "manifest.json"
_BATCH_ROWS = 1 << 16
_PIECE_BYTES = 1 << 22


@dataclass(frozen=True)
class ShardEntry:
    """A shard's line in the manifest: number, file name, rows, bytes, the file's sha256 in hexadecimal."""

    shard: int
    file: str
    rows: int
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What `read_manifest` found: the table's config, its shards ascending, and what the writer added."""

    config: TableConfig
    entries: tuple[ShardEntry, ...]
    extra: dict[str, Any]


class _HashedFile(io.RawIOBase):
    """A file for writing that sums its bytes up on the way."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.hash = hashlib.sha256()
        self.num_bytes = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        view = memoryview(data).cast("B")
        self.hash.update(view)
        self.file.write(view)
        self.num_bytes += len(view)
        return len(view)


def write_shard(table: LocalTable, shard: int, folder: str | os.PathLike[str]) -> ShardEntry:
    """Write one shard that lives in `table` into a folder, fsynced, and return its manifest entry.

    Takes no part in the checkpoint until a manifest names it. Rows are written in the order of their slots.

    Raises
    ------
    KeyError
        If the shard does not live in `table`.
    OSError
        If the file cannot be written.
    """
    import pyarrow as pa

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    source = table.shard(shard)
    beside = place / f".shard-{shard:05d}-{os.getpid()}.partial"
    try:
        with beside.open("wb") as file:
            hashed = _HashedFile(file)
            schema = _schema(table.config, shard)
            with pa.ipc.new_file(hashed, schema) as writer:
                for start in range(0, len(source), _BATCH_ROWS):
                    writer.write_batch(_batch(source, slice(start, start + _BATCH_ROWS), schema))
            file.flush()
            os.fsync(file.fileno())
        digest = hashed.hash.hexdigest()
        name = f"shard-{shard:05d}-{digest[:16]}.arrow"
        beside.rename(place / name)
    finally:
        beside.unlink(missing_ok=True)
    return ShardEntry(shard, name, len(source), hashed.num_bytes, digest)


def write_manifest(
    folder: str | os.PathLike[str],
    config: TableConfig,
    entries: Iterable[ShardEntry],
    extra: dict[str, Any] | None = None,
) -> None:
    """Make the shard files of `entries` the checkpoint at `folder`, and remove those of the last one.

    Parameters
    ----------
    folder : path
        Where `write_shard` put the files.
    config : TableConfig
    entries : iterable of ShardEntry
        One of each shard, in any order.
    extra : dict, optional
        JSON values to keep with the table (a store's uuid, an epoch); `read_manifest` gives them back.

    Raises
    ------
    ValueError
        If a shard of the table is missing from `entries` or there twice.
    """
    place = Path(folder)
    ordered = sorted(entries, key=lambda entry: entry.shard)
    if [entry.shard for entry in ordered] != list(range(config.num_shards)):
        raise ValueError(
            f"table {config.name!r}: a manifest needs each of the {config.num_shards} shards once, "
            f"got {[entry.shard for entry in ordered]}"
        )
    contents = {
        "format": FORMAT,
        "config": config.to_dict(),
        "rows": sum(entry.rows for entry in ordered),
        "shards": [asdict(entry) for entry in ordered],
        "extra": extra or {},
    }
    contents["sha256"] = _digest(contents)
    beside = place / f".{MANIFEST}-{os.getpid()}.partial"
    with beside.open("w") as file:
        json.dump(contents, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(place)
    beside.rename(place / MANIFEST)
    _sync_folder(place)
    kept = {entry.file for entry in ordered}
    for pattern in ("shard-*.arrow", ".shard-*.partial", f".{MANIFEST}-*.partial"):
        for path in place.glob(pattern):
            if path.name not in kept:
                path.unlink(missing_ok=True)


def read_manifest(folder: str | os.PathLike[str]) -> Manifest:
    """Return the manifest of the checkpoint at `folder`, its own checksum checked, its shard files not.

    Raises
    ------
    CheckpointNotFound
        If there is none.
    CorruptCheckpoint
        If it is damaged or of an unknown format.
    """
    path = Path(folder) / MANIFEST
    try:
        text = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        raise CheckpointNotFound(
            f"no table checkpoint at {folder}: {MANIFEST} is not there (a save that did not end leaves none)"
        ) from None
    try:
        contents = json.loads(text)
        stated = contents.pop("sha256")
    except (ValueError, KeyError, AttributeError, TypeError):
        raise CorruptCheckpoint(f"{path}: not a table's manifest; restore it from a copy") from None
    if contents.get("format") != FORMAT:
        raise CorruptCheckpoint(f"{path}: format {contents.get('format')!r}, this version reads {FORMAT}")
    if _digest(contents) != stated:
        raise CorruptCheckpoint(f"{path}: its checksum does not match; restore it from a copy")
    entries = tuple(ShardEntry(**entry) for entry in contents["shards"])
    return Manifest(TableConfig.from_dict(contents["config"]), entries, contents["extra"])


def read_shard(table: LocalTable, entry: ShardEntry, folder: str | os.PathLike[str]) -> None:
    """Load one shard's file into the empty shard of that number, after checking all of it.

    Raises
    ------
    KeyError
        If the shard does not live in `table`.
    CorruptCheckpoint
        If the file is missing, truncated, changed, or not what its entry says; nothing is loaded then.
    """
    import pyarrow as pa

    path = Path(folder) / entry.file
    target = table.shard(entry.shard)
    assert len(target) == 0
    _check_file(path, entry)
    schema = _schema(table.config, entry.shard)
    with pa.memory_map(str(path)) as file, pa.ipc.open_file(file) as reader:
        fault = _difference(reader.schema, schema, table.config)
        if fault:
            raise CorruptCheckpoint(f"{path}: {fault}; restore it from a copy")
        target.reserve(entry.rows)
        for number in range(reader.num_record_batches):
            batch = reader.get_batch(number)
            target.append(*(_flat(batch, column) for column in ("id", "row", "state", "steps")))
    target.index()
    if len(target) != entry.rows:
        raise CorruptCheckpoint(f"{path}: {len(target)} rows, its manifest says {entry.rows}")


def save_table(table: LocalTable, path: str | os.PathLike[str], extra: dict[str, Any] | None = None) -> None:
    """Write a whole table, whose shards all live in this process, as a checkpoint at `path`.

    Raises
    ------
    ValueError
        If some of its shards live elsewhere: use `write_shard` on each rank, then `write_manifest`.
    """
    config = table.config
    if len(table.shards) != config.num_shards:
        raise ValueError(
            f"table {config.name!r}: {len(table.shards)} of its {config.num_shards} shards live here; "
            f"write_shard on each rank, then write_manifest, save it"
        )
    entries = [write_shard(table, shard, path) for shard in table.shards]
    write_manifest(path, config, entries, extra)


def load_table(
    path: str | os.PathLike[str],
    *,
    shards: Iterable[int] | None = None,
    allocator: Allocator = private_allocator,
    threads: int | None = None,
) -> LocalTable:
    """Return the table of a checkpoint, or some of its shards. See `LocalTable.load`."""
    manifest = read_manifest(path)
    table = LocalTable(manifest.config, allocator=allocator, shards=shards, threads=threads)
    for shard in table.shards:
        read_shard(table, manifest.entries[shard], path)
    table.publish()
    return table


def _schema(config: TableConfig, shard: int) -> "pa.Schema":
    import pyarrow as pa

    return pa.schema(
        [
            pa.field("id", pa.int64(), nullable=False),
            pa.field("row", pa.list_(pa.float32(), config.dim), nullable=False),
            pa.field("state", pa.list_(pa.float32(), config.state_width), nullable=False),
            pa.field("steps", pa.list_(pa.int64(), int(config.counts_steps)), nullable=False),
        ],
        metadata={"table": config.name, "shard": str(shard), "format": str(FORMAT)},
    )


def _difference(found: "pa.Schema", expected: "pa.Schema", config: TableConfig) -> str:
    """Say what makes a shard file's schema another than the expected one; an empty string if nothing does."""
    labels, wanted = (
        {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()} for schema in (found, expected)
    )
    if labels.get("table") != wanted["table"]:
        return f"it is of table {labels.get('table')!r}, not {wanted['table']!r}"
    if labels.get("shard") != wanted["shard"]:
        return f"it is shard {labels.get('shard')}, not {wanted['shard']}"
    if found.names == expected.names:
        for one, two in zip(found, expected):
            widths = [getattr(field.type, "list_size", None) for field in (one, two)]
            if widths[0] != widths[1]:
                return (
                    f"column {one.name} holds {widths[0]} numbers a row, table {config.name!r} of dim {config.dim} "
                    f"and optimizer {config.optimizer!r} needs {widths[1]}"
                )
    return "" if found.equals(expected, check_metadata=True) else "its columns are not those of a table"


def _batch(source: Shard, part: slice, schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    ids = source.ids[part]
    columns = [pa.array(ids)]
    for values, field in zip((source.rows, source.state, source.steps), list(schema)[1:]):
        flat = pa.array(values[part].reshape(-1), type=field.type.value_type)
        if field.type.list_size:
            columns.append(pa.FixedSizeListArray.from_arrays(flat, field.type.list_size))
        else:
            columns.append(pa.array([[]] * len(ids), type=field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _flat(batch: "pa.RecordBatch", name: str) -> np.ndarray:
    column = batch.column(name)
    return (column if name == "id" else column.flatten()).to_numpy()


def _check_file(path: Path, entry: ShardEntry) -> None:
    digest, num_bytes = hashlib.sha256(), 0
    try:
        with path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                digest.update(piece)
                num_bytes += len(piece)
    except OSError as error:
        raise CorruptCheckpoint(f"{path}: cannot be read ({error.strerror}); restore it from a copy") from None
    if num_bytes != entry.bytes:
        raise CorruptCheckpoint(f"{path}: {num_bytes} bytes, its manifest says {entry.bytes}; restore it")
    if digest.hexdigest() != entry.sha256:
        raise CorruptCheckpoint(f"{path}: its checksum does not match its manifest; restore it from a copy")


def _digest(contents: dict[str, Any]) -> str:
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def shard_entries(lines: Sequence[dict[str, Any]]) -> list[ShardEntry]:
    """Return the entries that were made into dicts (by `dataclasses.asdict`) to travel between ranks."""
    return [ShardEntry(**line) for line in lines]
