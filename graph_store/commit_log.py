"""The commit log: one fsynced record a batch of updates, and how much of it is acknowledged.

`log/<first version>.log` holds records of ascending versions: magic (4 bytes), length of the payload (8), version (8),
crc32 of the rest of the record (4), payload. A new file begins with each fold. `log/head` says how far the log is
acknowledged: magic, crc32 of the rest, version, first version of the file, end within it. Once nobody writes any more,
whole records behind the head count, since the head is not synced with each; a cut one does not, it was being written.
"""

import contextlib
import os
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from graph_store.errors import CorruptBlock
from graph_store.manifest import fsync_folder
from graph_store.writer_lock import is_writing

_RECORD = struct.Struct("<4sQQI")
_HEAD = struct.Struct("<4sIQQQ")
_MAGIC, _HEAD_MAGIC = b"GSLR", b"GSLH"
_REMEDY = "`gossamer repair` keeps the batches before it"


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
    raise CorruptBlock(f"{path}: damaged; `gossamer repair` writes it again")


def newest_version(store: Path, base: int) -> int:
    """Return the newest version; `base`, that of the generation, where no later batch was committed.

    Raises
    ------
    CorruptBlock
        The head is damaged, or what lies behind it.
    """
    head = _head_from(store, base)
    if _ends_at(store, head) or is_writing(store):
        return head.version
    # Nobody writes any more: the head was left behind, at a loss of power for instance.
    return _follow(store, head).version


def _head_from(store: Path, base: int) -> Head:
    head = read_head(store)
    return Head(base, base + 1, 0) if head is None or head.version <= base else head


def _ends_at(store: Path, head: Head) -> bool:
    """Say whether nothing was written behind a head."""
    known = [first for first in segments(store) if first >= head.segment]
    return all(_size(segment_file(store, first)) <= (head.end if first == head.segment else 0) for first in known)


def _size(path: Path) -> int:
    """Return the bytes of a file, 0 where a fold has removed it meanwhile."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _follow(store: Path, head: Head) -> Head:
    """Return the head of the last whole record behind one.

    Raises
    ------
    CorruptBlock
        The records that follow are not those of the next versions, or one is damaged and others come behind it.
    """
    for first in segments(store):
        if first < head.segment:
            continue
        path = segment_file(store, first)
        if first > head.segment:
            if path.stat().st_size and first != head.version + 1:
                raise CorruptBlock(f"{path}: begins with version {first}, {head.version + 1} is due; {_REMEDY}")
            head = Head(head.version, first, 0)
        for version, at, payload in _records(path, head.end):
            if payload is None:
                if _has_whole_record(path, at + 1):
                    raise CorruptBlock(f"{path}: the record at byte {at} is damaged; {_REMEDY}")
                return head
            if version != head.version + 1:
                raise CorruptBlock(f"{path}: version {version} found where {head.version + 1} is due; {_REMEDY}")
            head = Head(version, first, at)
    return head


def _has_whole_record(path: Path, start: int) -> bool:
    """Say whether a whole record begins anywhere from a byte on; records before one were whole when it was begun."""
    data = path.read_bytes()
    at = data.find(_MAGIC, start)
    while at >= 0:
        if any(payload is not None for _, _, payload in _records(path, at)):
            return True
        at = data.find(_MAGIC, at + 1)
    return False


def _write_head(store: Path, head: Head) -> None:
    rest = struct.pack("<QQQ", *head)
    handle = os.open(log_folder(store) / "head", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        os.pwrite(handle, _HEAD_MAGIC + struct.pack("<I", crc32(rest)) + rest, 0)
    finally:
        os.close(handle)


def _records(path: Path, start: int = 0) -> Iterator[tuple[int, int, bytes | None]]:
    """Yield (version, end of the record, payload) of a log file; a payload of None is damage at `end`, and the last."""
    with open(path, "rb") as file:
        size, at = os.fstat(file.fileno()).st_size, start
        file.seek(at)
        while at < size:
            header = file.read(_RECORD.size)
            if len(header) < _RECORD.size:
                yield 0, at, None
                return
            magic, length, version, crc = _RECORD.unpack(header)
            if magic != _MAGIC or length > size - at - _RECORD.size:
                yield 0, at, None
                return
            payload = file.read(length)
            if len(payload) < length or crc32(payload, crc32(header[:20])) != crc:
                yield version, at, None
                return
            at += _RECORD.size + length
            yield version, at, payload


def read_batches(store: Path, after: int, until: int) -> Iterator[tuple[int, bytes]]:
    """Yield (version, payload) of the batches of versions `after + 1 … until`, in order; `until` was acknowledged.

    Raises
    ------
    CorruptBlock
        A record is damaged or missing.
    """
    expected, known = after + 1, segments(store)
    for place, first in enumerate(known):
        if expected > until:
            return
        if place + 1 < len(known) and known[place + 1] <= expected:
            continue
        path = segment_file(store, first)
        for version, at, payload in _records(path):
            if payload is None:
                raise CorruptBlock(
                    f"{path}: the record at byte {at} is damaged, versions from {expected} on cannot be read; {_REMEDY}"
                )
            if version < expected:
                continue
            if version != expected:
                raise CorruptBlock(f"{path}: version {version} found where {expected} is due; {_REMEDY}")
            yield version, payload
            expected += 1
            if version == until:
                return
    if expected <= until:
        raise CorruptBlock(f"{log_folder(store)}: ends at version {expected - 1}, {until} was acknowledged; {_REMEDY}")


def faults_of_log(store: Path, base: int) -> list[str]:
    """Return what is wrong with the head and the records of a store's log, from version `base + 1` on."""
    faults = []
    try:
        newest = newest_version(store, base)
        if read_head(store) is None and newest > base:
            faults.append(f"{log_folder(store) / 'head'}: missing; `gossamer repair` writes it again")
        for _ in read_batches(store, base, newest):
            pass
    except CorruptBlock as error:
        faults.append(str(error))
    return faults


def last_readable(store: Path, base: int) -> Head:
    """Return the head of the last of the batches `base + 1 …` that can be read one after the other."""
    head, known = Head(base, base + 1, 0), segments(store)
    for place, first in enumerate(known):
        if place + 1 < len(known) and known[place + 1] <= head.version + 1:
            continue
        if first > head.version + 1:
            return head
        if first == head.version + 1:
            head = Head(head.version, first, 0)
        for version, at, payload in _records(segment_file(store, first)):
            if payload is None:
                return head
            if version == head.version + 1:
                head = Head(version, first, at)
    return head


def cut_log(store: Path, head: Head, *, oldest: int, put_aside: Callable[[Path], None]) -> bool:
    """Let the log end with a head; says whether it did not before.

    Parameters
    ----------
    oldest : int
        Files that hold only versions up to this one are not needed.
    put_aside : callable
        Takes files that are not sound, to move them elsewhere.
    """
    folder, known = log_folder(store), segments(store)
    if not folder.exists():
        return False
    needed = [first for first, following in zip(known, [*known[1:], head.version + 2]) if following > oldest + 1]
    cut = _size(segment_file(store, head.segment)) > head.end
    extra = [first for first in known if first > head.segment and _size(segment_file(store, first))]
    old = [first for first in known if first not in needed and first < head.segment]
    try:
        said = read_head(store)
        is_sound = said == head or (head.end == 0 and (said is None or said.version <= head.version))
    except CorruptBlock:
        is_sound = False
    if is_sound and not cut and not extra:
        return False
    if cut:
        # The whole file stays to be looked at.
        copy = segment_file(store, head.segment).with_suffix(".damaged")
        shutil.copyfile(segment_file(store, head.segment), copy)
        put_aside(copy)
    _write_head(store, head)
    if cut:
        os.truncate(segment_file(store, head.segment), head.end)
    for first in [*extra, *old]:
        put_aside(segment_file(store, first))
    for path in (folder / "head", segment_file(store, head.segment)):
        if path.exists():
            with open(path, "rb") as file:
                os.fsync(file.fileno())
    fsync_folder(folder)
    return True


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
        if not log_folder(store).exists():
            log_folder(store).mkdir()
            fsync_folder(store)
        head = _head_from(store, base)
        path = segment_file(store, head.segment)
        size = path.stat().st_size if path.exists() else 0
        if head.version > base and size < head.end:
            raise CorruptBlock(
                f"{path}: has {size} bytes of {head.end}, version {head.version} was acknowledged; {_REMEDY}"
            )
        self._head = _follow(store, head)
        self._file = open(segment_file(store, self._head.segment), "ab")
        self._file.truncate(self._head.end)
        _write_head(store, self._head)
        # From here on it is only written over.
        with open(log_folder(store) / "head", "rb") as file:
            os.fsync(file.fileno())
        fsync_folder(log_folder(store))

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
            head = Head(version, self._head.segment, self._head.end + _RECORD.size + len(payload))
            _write_head(self._store, head)
        except BaseException:
            self._undo()
            raise
        self._head = head
        return version

    def _undo(self) -> None:
        """Cut off what was written of a batch that failed."""
        path = segment_file(self._store, self._head.segment)
        with contextlib.suppress(OSError):
            self._file.close()
        os.truncate(path, self._head.end)
        self._file = open(path, "ab")
        with contextlib.suppress(OSError):
            _write_head(self._store, self._head)

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
