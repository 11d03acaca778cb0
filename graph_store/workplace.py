"""Where a new store is made: a folder beside its place, moved there in one step once it is whole."""

import ctypes
import errno
import fcntl
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph_store.errors import BadInput
from graph_store.manifest import NAME, fsync_folder

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


@contextmanager
def workplace(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give an empty folder that becomes `target` when the block ends, or is removed when an exception leaves it.

    What killed ingests into the same place left is removed first. Of several at once each has a folder of its own; who
    ends first has the place, the others replace it whole with `overwrite` and fail without.

    Raises
    ------
    BadInput
        Something is at `target` that may not be replaced: anything without `overwrite`, what is no store with it.
    """
    place = target.resolve()
    if place.parent.exists() and not place.parent.is_dir():
        raise BadInput(f"{target}: {place.parent} is no folder; choose another path")
    place.parent.mkdir(parents=True, exist_ok=True)
    _clear_leftovers(place)
    _check(target, overwrite)
    folder, lock = _new_folder(place)
    try:
        yield folder
        fsync_folder(folder)
        _check(target, overwrite)
        try:
            _move(folder, place)
        except OSError as error:
            if error.errno in _TAKEN:
                raise _exists(target) from error
            raise
        fsync_folder(place.parent)
    finally:
        # Of a store that was replaced it is the old one.
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _exists(target: Path) -> BadInput:
    return BadInput(f"{target}: exists already; choose another path, remove it, or pass --overwrite")


def _check(target: Path, overwrite: bool) -> None:
    """Refuse a place that may not be taken."""
    if not target.exists():
        return
    if not overwrite:
        raise _exists(target)
    if not (target / NAME).exists() and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target}: is no store, so it is not overwritten; choose another path")


def _new_folder(place: Path) -> tuple[Path, int]:
    """Make a folder that nobody else has, locked as long as it is in use; returns it and the lock."""
    while True:
        folder = place.parent / f".{place.name}.ingest-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        folder.mkdir()
        try:
            lock = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Before it was locked another ingest may have taken it for a leftover.
        if folder.exists():
            return folder, lock
        os.close(lock)


def _move(folder: Path, place: Path) -> None:
    """Move the folder to its place; a store that is there is at `folder` afterwards, or removed."""
    if not (place / NAME).exists():
        os.rename(folder, place)
        return
    try:
        _exchange(folder, place)
    except FileNotFoundError:
        os.rename(folder, place)
    except OSError as error:
        if error.errno not in _NO_EXCHANGE:
            raise
        replaced = folder.with_name(folder.name + "-replaced")
        os.rename(place, replaced)
        try:
            os.rename(folder, place)
        except BaseException:
            os.rename(replaced, place)
            raise
        shutil.rmtree(replaced, ignore_errors=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step (renameat2 of Linux); OSError where the system or file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _clear_leftovers(place: Path) -> None:
    """Remove what killed ingests left, but not the folders of living ones."""
    prefix = f".{place.name}.ingest-"
    for left in [entry for entry in place.parent.iterdir() if entry.name.startswith(prefix)]:
        if left.name.endswith("-replaced") and not place.exists():
            os.rename(left, place)  # killed between two renames
            continue
        try:
            handle = os.open(left, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(left, ignore_errors=True)
        except BlockingIOError:
            pass
        finally:
            os.close(handle)
