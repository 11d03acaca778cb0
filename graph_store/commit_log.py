"""The commit log: one fsynced record a batch of updates, and how much of it is acknowledged.

`log/<first version>.log` holds records of ascending versions: magic (4 bytes), length of the payload (8), version (8),
crc32 of the rest of the record (4), payload. A new file begins with each fold. `log/head` says how far the log is
acknowledged: magic, crc32 of the rest, version, first version of the file, end within it. Whatever lies behind the
head was being written when a process died: whole records count, a cut one does not.
"""

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from graph_store.errors import CorruptBlock
from graph_store.manifest import fsync_folder

_RECORD = struct.Struct("<4sQQI")
_HEAD = struct.Struct("<4sIQQQ")
_MAGIC, _HEAD_MAGIC = b"GSLR", b"GSLH"


class Head(NamedTuple):
    """The newest acknowledged version, the file its record is in, and where that file ends."""

    version: int
    segment: int
    end: int


def log_folder(store: Path) -> Path:
    """Return the folder of a store's log."""
    return store / "log"


def segment_file(store: Path, first: int) -> Path:
    """Return the log file whose first record is of a version."""
    return log_folder(store) / f"{first:020}.log"


def segments(store: Path) -> list[int]:
    """Return the first versions of all log files, ascending."""
    folder = log_folder(store)
    return sorted(int(path.stem) for path in folder.glob("*.log")) if folder.exists() else []


def read_head(store: Path) -> Head | None:
    """Read the head; None where no batch was ever committed.

    Raises
    ------
    CorruptBlock
        It is damaged.
    """
    path = log_folder(store) / "head"
    for _ in range(3):  # it may be in the middle of being written
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return None
        if len(data) == _HEAD.size:
            magic, crc, version, segment, end = _HEAD.unpack(data)
            if magic == _HEAD_MAGIC and crc == crc32(data[8:]):
                return Head(version, segment, end)
    raise CorruptBlock(f"{path}: damaged; `gossamer repair` finds the newest version again")


def newest_version(store: Path, base: int) -> int:
    """Return the newest acknowledged version; `base`, that of the generation, where no later batch was committed."""
    head = read_head(store)
    return base if head is None else max(base, head.version)


def _write_head(store: Path, head: Head) -> None:
    rest = struct.pack("<QQQ", *head)
    handle = os.open(log_folder(store) / "head", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(handle, _HEAD_MAGIC + struct.pack("<I", crc32(rest)) + rest, 0)
    finally:
        os.close(handle)


def _records(path: Path, end: int | None) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (version, end of the record, payload) of a log file; a payload of None is damage, and the last."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        limit, at = size if end is None else end, 0
        while at < limit:
            header = file.read(_RECORD.size)
            if len(header) < _RECORD.size:
                yield 0, at, None
                return
            magic, length, version, crc = _RECORD.unpack(header)
            if magic != _MAGIC or length > limit - at - _RECORD.size:
                yield 0, at, None
                return
            payload = file.read(length)
            if len(payload) < length or crc32(payload, crc32(header[:20])) != crc:
                yield version, at, None
                return
            at += _RECORD.size + length
            yield version, at, payload


def read_batches(store: Path, after: int, until: int) -> Iterator[tuple[int, bytes]]:
    """Yield (version, payload) of the acknowledged batches of versions `after + 1 … until`, in order.

    Raises
    ------
    CorruptBlock
        A record is damaged or missing.
    """
    head = read_head(store)
    if head is None or until <= after:
        return
    expected = after + 1
    known = segments(store)
    for place, first in enumerate(known):
        if place + 1 < len(known) and known[place + 1] <= expected:
            continue
        path = segment_file(store, first)
        for version, at, payload in _records(path, head.end if first == head.segment else None):
            if payload is None:
                raise CorruptBlock(
                    f"{path}: the record at byte {at} is damaged, versions from {expected} on cannot be read; "
                    "`gossamer repair` keeps those before it"
                )
            if version < expected:
                continue
            if version != expected:
                raise CorruptBlock(f"{path}: version {version} found where {expected} is due")
            yield version, payload
            expected += 1
            if version == until:
                return
    raise CorruptBlock(f"{log_folder(store)}: ends at version {expected - 1}, {until} was acknowledged")


def faults_of_log(store: Path, base: int) -> list[str]:
    """Return what is wrong with the head and the records of a store's log, from version `base + 1` on."""
    try:
        head = read_head(store)
    except CorruptBlock as error:
        return [str(error)]
    try:
        if head is not None:
            for _ in read_batches(store, base, head.version):
                pass
        elif segments(store) and any(True for first in segments(store) for _ in _whole(store, first)):
            return [f"{log_folder(store) / 'head'}: missing; `gossamer repair` finds the newest version again"]
    except CorruptBlock as error:
        return [str(error)]
    return []


def _whole(store: Path, first: int) -> Iterator[tuple[int, int]]:
    """Yield (version, end) of the whole records of a log file."""
    for version, at, payload in _records(segment_file(store, first), None):
        if payload is None:
            return
        yield version, at


class CommitLog:
    """The log, open for its one writer.

    Opening it recovers: whole records behind the head are taken up, a cut one at the end is removed.

    Parameters
    ----------
    store : Path
    base : int
        The version of the newest generation: the log of a new store begins behind it.
    """

    def __init__(self, store: Path, base: int) -> None:
        self._store = store
        log_folder(store).mkdir(exist_ok=True)
        head = read_head(store)
        self._head = head if head is not None else Head(base, base + 1, 0)
        known = segments(store)
        if self._head.segment not in known and (head is None or self._head.version <= base):
            # What the head points to was folded and removed.
            self._head = Head(max(base, self._head.version), max(base, self._head.version) + 1, 0)
        self._recover(known)
        self._file = open(segment_file(store, self._head.segment), "ab")
        self._file.truncate(self._head.end)
        _write_head(store, self._head)
        fsync_folder(log_folder(store))

    def _recover(self, known: list[int]) -> None:
        for first in [self._head.segment, *(later for later in known if later > self._head.segment)]:
            if not segment_file(self._store, first).exists():
                continue
            for version, end in _whole(self._store, first):
                if version == self._head.version + 1:
                    self._head = Head(version, first, end)
            if first > self._head.segment and self._head.version == first - 1:
                self._head = Head(self._head.version, first, 0)

    @property
    def version(self) -> int:
        """The newest version."""
        return self._head.version

    def append(self, payload: bytes) -> int:
        """Write a batch, make it durable, and return its version.

        Raises
        ------
        OSError
            The disk is full, for instance; nothing was committed.
        """
        version = self._head.version + 1
        header = struct.pack("<4sQQ", _MAGIC, len(payload), version)
        crc = crc32(payload, crc32(header))
        try:
            self._file.write(header + struct.pack("<I", crc))
            self._file.write(payload)
            self._file.flush()
            os.fdatasync(self._file.fileno())
        except BaseException:
            self._undo()
            raise
        end = self._head.end + _RECORD.size + len(payload)
        self._head = Head(version, self._head.segment, end)
        _write_head(self._store, self._head)
        return version

    def _undo(self) -> None:
        """Cut off what was written of a batch that failed."""
        path = Path(self._file.name)
        with contextlib.suppress(OSError):
            self._file.close()
        os.truncate(path, self._head.end)
        self._file = open(path, "ab")

    def rotate(self) -> None:
        """Begin a new file with the next version."""
        if self._head.end == 0:
            return
        self._file.close()
        self._head = Head(self._head.version, self._head.version + 1, 0)
        self._file = open(segment_file(self._store, self._head.segment), "ab")
        fsync_folder(log_folder(self._store))
        _write_head(self._store, self._head)

    def drop(self, until: int) -> None:
        """Remove the files that hold only versions up to `until`."""
        known = segments(self._store)
        for first, following in zip(known, known[1:]):
            if following <= until + 1 and first != self._head.segment:
                segment_file(self._store, first).unlink()

    def close(self) -> None:
        """Close the file."""
        self._file.close()
