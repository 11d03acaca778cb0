"""One shard: a RocksDB of its own with the base blocks and ids, and the keys under which they lie.

Keys are big-endian, so that byte order is id order. `adj`: edge type (2 bytes), first local id of the block (8),
ordinal (2; 0 the block, h + 1 its h-th hub), chunk (4). `ids`: node type (2), first local id of the piece (8). `feat`
and the dictionaries in `meta`: see `feature_records`. `meta` also has, as "d" and the node type (2), the deleted local
ids.
"""

import os
import struct
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from rocksdict import (
    AccessType,
    DBCompressionType,
    IngestExternalFileOptions,
    Options,
    Rdict,
    ReadOptions,
    SstFileWriter,
)

from graph_store.blocks import Encoded
from graph_store.errors import CorruptBlock
from graph_store.packing import CRC_TABLES, crc32c

PIECE_MAGIC, PIECE_VERSION = 0x44495347, 1  # "GSID"
FAMILIES = ("adj", "feat", "ids", "meta")
_ADJ_KEY = struct.Struct(">HQHI")
_ADJ_FIELDS = np.dtype([("type", ">u2"), ("first", ">u8"), ("ordinal", ">u2"), ("chunk", ">u4")])
_ID_KEY = struct.Struct(">HQ")


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_disable_auto_compactions(True)
    options.set_keep_log_file_num(1)
    options.set_max_open_files(16)
    # Packed words do not compress further.
    options.set_compression_type(DBCompressionType.none())
    return options


def _linked(path: Path) -> "tempfile.TemporaryDirectory[str]":
    """Return a folder of links to a shard's files: even a read-only open writes its log and settings there."""
    names = os.listdir(path)
    links = tempfile.TemporaryDirectory(prefix="gossamer-shard-")
    for name in names:
        if not name.startswith(("LOG", "LOCK", "rocksdict-config")):
            os.symlink(os.path.abspath(path / name), os.path.join(links.name, name))
    return links


class SortedFile:
    """An SST file that takes key-value pairs in ascending order; absent when it got none."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._writer: Any = None

    def put(self, key: bytes, value: bytes) -> None:
        """Add a pair."""
        if self._writer is None:
            self._writer = SstFileWriter(_options())
            self._writer.open(str(self.path))
        self._writer[key] = value

    def put_records(self, edge_type: int, encoded: Encoded) -> None:
        """Add the records of an edge type's lists."""
        data = memoryview(np.ascontiguousarray(encoded.words)).cast("B") if encoded.words.size else memoryview(b"")
        for offset, words, first, ordinal, chunk in encoded.records.tolist():
            self.put(record_key(edge_type, first, ordinal, chunk), bytes(data[8 * offset : 8 * (offset + words)]))

    def finish(self) -> bool:
        """Seal the file; say whether there is one. RocksDB syncs it."""
        if self._writer is None:
            return False
        self._writer.finish()
        self._writer = None
        return True


class Shard:
    """One shard's database; opened by its writer, by `verify` and to rebuild the arena, never by readers."""

    def __init__(self, path: Path, *, read_only: bool = True) -> None:
        self.path = path
        self._links: tempfile.TemporaryDirectory[str] | None = None
        families = {name: _options() for name in FAMILIES}
        access = AccessType.read_only() if read_only else AccessType.read_write()
        try:
            if read_only:
                self._links = _linked(path)
            folder = str(path) if self._links is None else self._links.name
            self._db: Any = Rdict(folder, options=_options(), column_families=families, access_type=access)
        except Exception as error:
            said = str(error)
            if self._links is not None:
                said = said.replace(self._links.name, str(path))
                self._links.cleanup()
            if not read_only:
                raise
            raise CorruptBlock(f"{path}: RocksDB cannot open the shard: {said}") from error

    def __enter__(self) -> "Shard":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the database."""
        self._db.close()
        if self._links is not None:
            self._links.cleanup()

    def ingest(self, family: str, files: Iterable[Path]) -> None:
        """Take SST files over into a column family; the files are moved."""
        options = IngestExternalFileOptions()
        options.set_move_files(True)
        column = self._db.get_column_family(family)
        column.ingest_external_file([str(path) for path in files], options)
        del column  # a live handle keeps the database's lock

    def items(self, family: str, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs whose keys begin with `prefix`, in order; CorruptBlock where RocksDB finds damage."""
        column, key, once = self._db.get_column_family(family), b"", ReadOptions()
        once.fill_cache(False)  # what is read once is not kept: that takes longer than to read it
        try:
            rows = column.iter(once)
            rows.seek(prefix)
            while rows.valid():
                key = rows.key()
                if not key.startswith(prefix):
                    return
                yield key, rows.value()
                rows.next()
            rows.status()
        except CorruptBlock:
            raise
        except Exception as error:
            place = f"from key {prefix.hex()} on" if not key else f"behind key {key.hex()}"
            raise CorruptBlock(f"{self.path}: cannot read {family!r} {place}: {error}") from error
        finally:
            del column

    def readable(self, family: str, prefix: bytes, probes: Iterable[bytes]) -> Iterator[tuple[bytes, bytes]]:
        """Yield the pairs that can be read, as `items`; behind damage it goes on at the next of ascending `probes`."""
        column, following = self._db.get_column_family(family), iter(probes)
        start: bytes | None = prefix
        last = b""
        while start is not None:
            try:
                rows = column.iter()
                rows.seek(start)
                while rows.valid():
                    key, value = rows.key(), rows.value()
                    if not key.startswith(prefix):
                        return
                    if key > last:
                        yield key, value
                    last = max(key, last)
                    rows.next()
                rows.status()
                return
            except Exception as error:
                if type(error) is not Exception:  # RocksDB's are plain
                    raise
                behind = max(start, last)
                start = next((probe for probe in following if probe > behind), None)

    def records(self, edge_type: int) -> Encoded:
        """Read all records of an edge type, in the order of their keys."""
        # A large array, of which numpy asks for huge pages: what is not filled takes no memory.
        data = np.empty(self._family_bytes("adj"), np.uint8)
        view, keys, stops, at = memoryview(data), [], [0], 0
        for key, value in self.items("adj", struct.pack(">H", edge_type)):
            stop = at + len(value)
            if stop > data.size:
                data = np.concatenate([data[:at], np.empty(max(stop, data.size), np.uint8)])
                view = memoryview(data)
            view[at:stop] = value
            at = stop
            keys.append(key)
            stops.append(stop)
        fields = np.frombuffer(b"".join(keys), _ADJ_FIELDS)
        offsets = np.array(stops, np.int64)
        broken = np.flatnonzero(offsets % 8)
        if broken.size:
            row = int(broken[0]) - 1
            raise CorruptBlock(
                f"{self.path}: block {fields['first'][row]} of edge type {edge_type} has "
                f"{stops[row + 1] - stops[row]} bytes"
            )
        records = np.empty((len(keys), 5), np.int64)
        records[:, 0], records[:, 1] = offsets[:-1] >> 3, np.diff(offsets) >> 3
        records[:, 2], records[:, 3], records[:, 4] = fields["first"], fields["ordinal"], fields["chunk"]
        return Encoded(data[:at].view(np.uint64), records)

    def _family_bytes(self, family: str) -> int:
        """Return the bytes of a column family's files: more than its values have."""
        column = self._db.get_column_family(family)
        try:
            return int(column.property_int_value("rocksdb.total-sst-files-size") or 0)
        finally:
            del column

    def id_pieces(self, node_type: int) -> list[bytes]:
        """Read the pieces of a node type's ids, in order."""
        return [value for _, value in self.items("ids", struct.pack(">H", node_type))]


def record_key(edge_type: int, first: int, ordinal: int, chunk: int) -> bytes:
    """Return the key of a record of an edge type's lists."""
    return _ADJ_KEY.pack(edge_type, first, ordinal, chunk)


def id_key(node_type: int, first: int) -> bytes:
    """Return the key of a piece of ids."""
    return _ID_KEY.pack(node_type, first)


def seal_piece(body: np.ndarray, count: int, first: int) -> bytes:
    """Return the bytes of a piece: magic and version, first row, rows, crc32c of the rest; then int64 words.

    Of ids the words are the ids themselves, or the byte lengths of strings and then their bytes.
    """
    words = np.empty(4 + body.size, np.uint64)
    words[0], words[1], words[2] = PIECE_MAGIC | PIECE_VERSION << 32, first, count
    words[4:] = body.view(np.uint64)
    words[3] = _piece_crc(words)
    return words.tobytes()


def open_piece(piece: bytes, where: str) -> tuple[int, np.ndarray]:
    """Return the number of rows in a piece and its int64 words; CorruptBlock when it is damaged."""
    words = np.frombuffer(piece, np.uint64) if len(piece) % 8 == 0 else np.empty(0, np.uint64)
    if words.size < 4 or int(words[0]) != PIECE_MAGIC | PIECE_VERSION << 32 or int(words[3]) != _piece_crc(words):
        raise CorruptBlock(f"{where}: damaged; restore the store from its source")
    return int(words[2]), words[4:].view(np.int64)


def _piece_crc(words: np.ndarray) -> int:
    crc = crc32c(words, 0, 3, np.uint32(0), CRC_TABLES)
    return int(crc32c(words, 4, words.size, np.uint32(crc), CRC_TABLES))
