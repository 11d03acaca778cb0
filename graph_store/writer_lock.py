"""The lock of a store's one writer, and the leases of its readers: files locked as long as their process lives."""

import contextlib
import fcntl
import os
import socket
import time
import uuid
import weakref
from collections.abc import Callable
from pathlib import Path

from graph_store.errors import GraphStoreError, StoreBusy

_TRIES = 5


class WriterLock:
    """Held by the one process that may write to a store.

    Raises
    ------
    StoreBusy
        Another holds it; the message says which process, on which host, and since when.
    GraphStoreError
        The store cannot be written to.
    """

    def __init__(self, store: Path) -> None:
        try:
            self._handle = os.open(_lock_file(store), os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise GraphStoreError(
                f"{store}: cannot be written to: {error.strerror}; let this user write to the folder, or copy the store"
            ) from error
        if not self._locked():
            holder = os.read(self._handle, 200).decode(errors="replace").strip() or "another process"
            os.close(self._handle)
            raise StoreBusy(f"{store}: {holder} is writing to it; wait until it is done, or end it")
        since = time.strftime("%Y-%m-%d %H:%M:%S")
        os.ftruncate(self._handle, 0)
        os.pwrite(self._handle, f"process {os.getpid()} on {socket.gethostname()} since {since}".encode(), 0)

    def _locked(self) -> bool:
        for _ in range(_TRIES):
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return True
            time.sleep(0.01)  # a reader that asks `is_writing` holds it for an instant
        return False

    def release(self) -> None:
        """Let another writer in."""
        os.close(self._handle)


def _lock_file(store: Path) -> Path:
    return store / "writer.lock"


def is_writing(store: Path) -> bool:
    """Say whether a process holds the lock of a store's writer."""
    try:
        handle = os.open(_lock_file(store), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


class Lease:
    """A reader's word that it needs a generation, until it is released, forgotten, or its process ends.

    Where the store cannot be written to there is none: what a reader has mapped stays readable all the same.
    """

    def __init__(self, store: Path, generation: int) -> None:
        path = store / "leases" / f"{generation}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.release: Callable[[], object] = lambda: None
        with contextlib.suppress(OSError):
            path.parent.mkdir(exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
            fcntl.flock(handle, fcntl.LOCK_EX)
            self.release = weakref.finalize(self, _give_up, path, handle)


def _give_up(path: Path, handle: int) -> None:
    with contextlib.suppress(OSError):
        path.unlink()
    os.close(handle)


def leased_generations(store: Path) -> set[int]:
    """Return the generations that living readers need; what dead ones left is removed."""
    found = set()
    folder = store / "leases"
    for path in sorted(folder.iterdir()) if folder.exists() else []:
        try:
            handle = os.open(path, os.O_RDWR)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.unlink(missing_ok=True)
        except BlockingIOError:
            found.add(int(path.name.partition("-")[0]))
        finally:
            os.close(handle)
    return found
