"""Where a new store is made: a folder beside its place; the store in it is moved there in one step once it is whole.

The folder is `.NAME.ingest-1` for a store NAME, or has the first higher number that nobody uses, and is locked as long
as its ingest lives. It holds the store that is made, `STORE`, and whatever else the ingest needs.
"""

import ctypes
import errno
import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from graph_store.errors import BadInput
from graph_store.manifest import NAME, fsync_folder
from graph_store.writer_lock import WriterLock

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2
_NO_EXCHANGE = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM)
_TAKEN = (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR)


# In the folder: the new store, the one that it replaces for a moment, rows that were set aside, and where it got to.
STORE, REPLACED, REJECTS, STATE = "store", "replaced", "rejected.jsonl", "state.json"
WORK = "work"


@contextmanager
def workplace(target: Path, *, overwrite: bool) -> Iterator[Path]:
    """Give an empty folder that becomes `target` when the block ends, or is removed when an exception leaves it.

    Raises
    ------
    BadInput
        As of `job_folder`.
    """
    with job_folder(target, overwrite=overwrite) as folder:
        (folder / STORE).mkdir()
        yield folder / STORE


@contextmanager
def job_folder(target: Path, *, overwrite: bool, resume: Callable[[Path], None] | None = None) -> Iterator[Path]:
    """Give a folder whose `STORE` becomes `target` when the block ends; it is removed then, and by an exception.

    What killed ingests into the same place left is removed first, or with `resume` one that can go on is given as it
    is, once `resume(folder)` raised nothing. Of several at once each has a folder of its own; who ends first has the
    place, the others replace it whole with `overwrite` and fail without.

    Raises
    ------
    BadInput
        Something is at `target` that may not be replaced: anything without `overwrite`, what is no store with it.
    StoreBusy
        A process is writing to the store that is to be replaced.
    """
    place = target.resolve()
    if place.parent.exists() and not place.parent.is_dir():
        raise BadInput(f"{target}: {place.parent} is no folder; choose another path")
    within = next((above for above in place.parents if _is_store(above)), None)
    if within is not None:
        raise BadInput(f"{target}: lies within the store {within}; choose a path outside of it")
    place.parent.mkdir(parents=True, exist_ok=True)
    left = _leftovers(place, resume)
    if left is None:
        _check(target, overwrite)
    folder, lock = _new_folder(place) if left is None else left
    try:
        yield folder
        if (folder / STORE).exists():
            fsync_folder(folder / STORE)
            _check(target, overwrite)
            try:
                with _nobody_writes(place):
                    _move(folder, place)
            except OSError as error:
                if error.errno in _TAKEN:
                    raise _exists(target) from error
                raise
            _move_rejects(folder, place)
            fsync_folder(place.parent)
    finally:
        _remove(folder)
        os.close(lock)


def _remove(folder: Path) -> None:
    """Remove the folder of an ingest; that it has ended is known until nothing else is left."""
    for entry in folder.iterdir():
        if entry.name != STATE:
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)
    shutil.rmtree(folder, ignore_errors=True)


def _exists(target: Path) -> BadInput:
    return BadInput(f"{target}: exists already; choose another path, remove it, or pass --overwrite")


def _check(target: Path, overwrite: bool) -> None:
    """Refuse a place that may not be taken."""
    if not target.exists():
        return
    if not overwrite:
        raise _exists(target)
    if not _is_store(target) and (not target.is_dir() or any(target.iterdir())):
        raise BadInput(f"{target}: is no store, so it is not overwritten; choose another path")
    with _nobody_writes(target):
        pass


@contextmanager
def _nobody_writes(place: Path) -> Iterator[None]:
    """Keep writers of a store out while it is replaced; StoreBusy where there is one."""
    try:
        lock = WriterLock(place) if (place / NAME).exists() else None
    except PermissionError:  # then nobody else can write to it either
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _is_store(target: Path) -> bool:
    """Say whether a store is at a place, damaged or not: other programs call files `manifest.json` too."""
    return (target / NAME).exists() and any(target.glob("gen-*/shard-*"))


def _new_folder(place: Path) -> tuple[Path, int]:
    """Make a folder that nobody else has, locked as long as it is in use; returns it and the lock."""
    for number in count(1):
        folder = _folder(place, number)
        try:
            folder.mkdir()
            lock = os.open(folder, os.O_RDONLY)
        except (FileExistsError, FileNotFoundError):
            continue
        fcntl.flock(lock, fcntl.LOCK_EX)
        # Before it was locked another ingest may have taken it for a leftover.
        if _is_open(lock, folder):
            return folder, lock
        os.close(lock)
    raise AssertionError


def _folder(place: Path, number: int) -> Path:
    return place.parent / f".{place.name}.ingest-{number}"


def _is_open(lock: int, folder: Path) -> bool:
    """Say whether a folder is still the one that was opened."""
    try:
        return os.path.samestat(os.fstat(lock), os.stat(folder))
    except FileNotFoundError:
        return False


def _move(folder: Path, place: Path) -> None:
    """Move the new store to its place; a store that is there stays in the folder, or is removed."""
    new = folder / STORE
    if not (place / NAME).exists():
        os.rename(new, place)
        return
    try:
        _exchange(new, place)
    except FileNotFoundError:
        os.rename(new, place)
    except OSError as error:
        if error.errno not in _NO_EXCHANGE:
            raise
        os.rename(place, folder / REPLACED)
        try:
            os.rename(new, place)
        except BaseException:
            os.rename(folder / REPLACED, place)
            raise


def rejects_path(store: Path) -> Path:
    """Return where the rows are that were set aside for a store: beside it."""
    return store.with_name(store.name + ".rejected.jsonl")


def _move_rejects(folder: Path, place: Path) -> None:
    """Put the rows that were set aside beside their store; those of a store that was there go."""
    if (folder / REJECTS).exists():
        os.replace(folder / REJECTS, rejects_path(place))
    else:
        rejects_path(place).unlink(missing_ok=True)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two folders in one step (renameat2 of Linux); OSError where the system or file system cannot."""
    try:
        renameat2 = ctypes.CDLL(None, use_errno=True).renameat2
    except AttributeError:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS)) from None
    if renameat2(_AT_FDCWD, os.fsencode(one), _AT_FDCWD, os.fsencode(other), _RENAME_EXCHANGE):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(other))


def _leftovers(place: Path, resume: Callable[[Path], None] | None) -> tuple[Path, int] | None:
    """Remove what killed ingests left, but not the folders of living ones; with `resume` return one that can go on."""
    prefix, found = f".{place.name}.ingest-", None
    for left in sorted(entry for entry in place.parent.iterdir() if entry.name.startswith(prefix)):
        try:
            lock = os.open(left, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            continue
        if (left / REPLACED / NAME).exists() and not place.exists():
            os.rename(left / REPLACED, place)  # killed between two renames
        if resume is not None and found is None and (left / STATE).exists() and _is_open(lock, left):
            try:
                resume(left)
            except BaseException:
                os.close(lock)
                raise
            found = left, lock
            continue
        if _is_open(lock, left):
            shutil.rmtree(left, ignore_errors=True)
        os.close(lock)
    return found
