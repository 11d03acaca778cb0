"""Where a table's memory comes from: this process alone, or segments that other processes map."""

import contextlib
import itertools
import json
import mmap
import os
import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sparse_tables.errors import SegmentNotFound

_LINE = 64
_HUGE = 2 << 20


class Allocator(Protocol):
    """Gives out zeroed memory and takes it back."""

    def allocate(self, num_bytes: int) -> np.ndarray:
        """Return uint8[num_bytes], zeroed, starting at a multiple of 64 bytes."""
        ...

    def release(self, array: np.ndarray) -> None:
        """Take back what `allocate` returned; whoever still holds the array may go on reading it."""
        ...


class PrivateAllocator:
    """Memory of this process: large pieces are mapped, with huge pages where the system grants them."""

    def allocate(self, num_bytes: int) -> np.ndarray:
        """Return uint8[num_bytes], zeroed; pages are committed when first touched."""
        if num_bytes < _HUGE:
            spare, unit = np.zeros(num_bytes + _LINE, dtype=np.uint8), _LINE
        else:
            private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
            memory, unit = mmap.mmap(-1, num_bytes + _HUGE, flags=private), _HUGE
            if hasattr(mmap, "MADV_HUGEPAGE"):
                # A kernel built without huge pages refuses the advice; the memory is the same.
                with contextlib.suppress(OSError):
                    memory.madvise(mmap.MADV_HUGEPAGE)
            spare = np.frombuffer(memory, dtype=np.uint8)
        offset = -spare.ctypes.data % unit
        return spare[offset : offset + num_bytes]

    def release(self, array: np.ndarray) -> None:
        """Do nothing: the memory goes when the last array on it does."""


private_allocator = PrivateAllocator()


class SharedAllocator:
    """Memory in files of a folder (on `/dev/shm` by default) that other processes of the machine map.

    A released segment loses its name at once and its memory when the last process unmaps it. `close`, the end
    of this object and a normal end of the process remove the folder; a killed process leaves it behind.

    Parameters
    ----------
    folder : path, optional
        A new folder to make, on a memory file system; by default a fresh one below `/dev/shm`.

    Raises
    ------
    FileExistsError
        If `folder` exists.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        if folder is None:
            place = "/dev/shm" if os.path.isdir("/dev/shm") else None
            self.folder = Path(tempfile.mkdtemp(prefix="sparse_tables-", dir=place))
        else:
            self.folder = Path(folder)
            self.folder.mkdir()
        # Shards grow side by side: a count gives each thread a number of its own.
        self._numbers = itertools.count()
        self._files: dict[int, Path] = {}
        self.close = weakref.finalize(self, shutil.rmtree, self.folder, ignore_errors=True)

    def allocate(self, num_bytes: int) -> np.ndarray:
        """Return uint8[num_bytes], zeroed, in a segment of its own.

        Raises
        ------
        OSError
            If the folder's file system has no room left.
        """
        path = self.folder / f"segment-{next(self._numbers)}"
        array = map_segment(path, num_bytes, create=True)
        self._files[array.ctypes.data] = path
        return array

    def release(self, array: np.ndarray) -> None:
        """Remove the name of the array's segment."""
        self._files.pop(array.ctypes.data).unlink(missing_ok=True)

    def segment(self, array: np.ndarray) -> str:
        """Return the file name, within the folder, of the segment an allocated array lies in."""
        return self._files[array.ctypes.data].name

    def publish(self, name: str, contents: dict[str, Any]) -> None:
        """Make `contents` what `read_published(folder, name)` returns, in one step."""
        beside = self.folder / f".{name}.json"
        beside.write_text(json.dumps(contents))
        beside.rename(self.folder / f"{name}.json")


def map_segment(path: Path, num_bytes: int, *, create: bool = False) -> np.ndarray:
    """Map a segment's file as uint8[num_bytes]; read-only unless it is being created."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL if create else os.O_RDONLY
    descriptor = os.open(path, flags, 0o600)
    try:
        if create:
            os.posix_fallocate(descriptor, 0, num_bytes)
        protection = mmap.PROT_READ | (mmap.PROT_WRITE if create else 0)
        memory = mmap.mmap(descriptor, num_bytes, flags=mmap.MAP_SHARED, prot=protection)
    except OSError:
        if create:
            path.unlink()
        raise
    finally:
        os.close(descriptor)
    return np.frombuffer(memory, dtype=np.uint8)


def read_published(folder: Path, name: str) -> dict[str, Any]:
    """Return what the writer last published under `name`.

    Raises
    ------
    SegmentNotFound
        If there is no such folder or nothing of that name in it.
    """
    try:
        return json.loads((folder / f"{name}.json").read_text())
    except FileNotFoundError:
        raise SegmentNotFound(f"no table {name!r} is published in {folder}") from None
