"""A spool: arrays that wait until they are needed, in memory while that is allowed, else in one file."""

import os
import threading
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np


class Allowance:
    """Bytes that may be in memory, shared by all that wait."""

    def __init__(self, num_bytes: int) -> None:
        self._left, self._lock = num_bytes, threading.Lock()

    def take(self, num_bytes: int) -> bool:
        """Take so many bytes, if they are left."""
        with self._lock:
            if num_bytes > self._left:
                return False
            self._left -= num_bytes
            return True

    def give(self, num_bytes: int) -> None:
        """Give bytes back."""
        with self._lock:
            self._left += num_bytes


class Piece(NamedTuple):
    """Where an array waits: `number` of a spool's arrays in memory, or -1; `offset` in its file, or -1."""

    number: int
    offset: int
    size: int
    dtype: str

    @property
    def num_bytes(self) -> int:
        """Bytes of the array."""
        return self.size * np.dtype(self.dtype).itemsize


class Spool:
    """Arrays in memory and in a file; any thread may use it.

    Parameters
    ----------
    path : Path
        Where the file is; made when it is needed.
    allowance : Allowance
        What may stay in memory.
    own : bool
        False for the file of another rank, which is read, and filled where that rank made room.
    end : int
        Bytes that an earlier spool left in the file, and that are read again; what lies behind is cut off.
    """

    def __init__(self, path: Path, allowance: Allowance, *, own: bool = True, end: int = 0) -> None:
        self.path, self._allowance, self._own = path, allowance, own
        if own and path.exists():
            os.truncate(path, end)
        self._arrays: dict[int, np.ndarray] = {}
        self._saved: dict[int, int] = {}
        self._lock, self._next, self._end, self._handle = threading.Lock(), 0, end, -1

    @property
    def in_memory(self) -> bool:
        """True while nothing went to the file."""
        return self._end == 0

    def put(self, array: np.ndarray) -> Piece:
        """Keep an array, which must not change any more, and return where."""
        if array.size == 0:
            return Piece(-1, -1, 0, array.dtype.str)
        if self._allowance.take(array.nbytes):
            return self._keep(array)
        piece = self._reserve(array.size, array.dtype)
        self._write(piece.offset, array)
        return piece

    def reserve(self, size: int, dtype: Any) -> Piece:
        """Make room for an array that `fill` fills."""
        kind = np.dtype(dtype)
        if size and self._allowance.take(size * kind.itemsize):
            return self._keep(np.empty(size, kind))
        return self._reserve(size, kind)

    def _keep(self, array: np.ndarray) -> Piece:
        with self._lock:
            number, self._next = self._next, self._next + 1
        self._arrays[number] = array
        return Piece(number, -1, array.size, array.dtype.str)

    def _reserve(self, size: int, dtype: np.dtype) -> Piece:
        with self._lock:
            offset, self._end = self._end, self._end + size * dtype.itemsize
        return Piece(-1, offset, size, dtype.str)

    def _open(self) -> int:
        with self._lock:
            if self._handle < 0:
                self._handle = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o666)
            return self._handle

    def _write(self, offset: int, array: np.ndarray) -> None:
        view, handle = memoryview(np.ascontiguousarray(array)).cast("B"), self._open()
        while view.nbytes:
            written = os.pwrite(handle, view, offset)
            view, offset = view[written:], offset + written

    def fill(self, piece: Piece, start: int, array: np.ndarray) -> None:
        """Write a part of a reserved array."""
        if piece.number >= 0:
            self._arrays[piece.number][start : start + array.size] = array
        elif array.size:
            self._write(piece.offset + start * array.itemsize, array.astype(piece.dtype, copy=False))

    def get(self, piece: Piece, start: int = 0, stop: int | None = None) -> np.ndarray:
        """Return an array or a part of it; it must not be changed."""
        stop = piece.size if stop is None else stop
        if piece.number >= 0:
            return self._arrays[piece.number][start:stop]
        array = np.empty(stop - start, piece.dtype)
        if array.size == 0:
            return array
        view, offset, handle = memoryview(array).cast("B"), piece.offset + start * array.itemsize, self._open()
        while view.nbytes:
            read = os.preadv(handle, [view], offset)
            if read == 0:
                raise OSError(f"{self.path}: ends too early; the disk lost what was written to it")
            view, offset = view[read:], offset + read
        return array

    def on_disk(self, piece: Piece) -> Piece:
        """Return where an array is in the file, written there now if it is in memory only."""
        if piece.number < 0:
            return piece
        if piece.number not in self._saved:
            saved = self._reserve(piece.size, np.dtype(piece.dtype))
            self._write(saved.offset, self._arrays[piece.number])
            self._saved[piece.number] = saved.offset
        return Piece(-1, self._saved[piece.number], piece.size, piece.dtype)

    def sync(self) -> int:
        """Make the file durable and return its bytes."""
        if self._end:
            os.fsync(self._open())
        return self._end

    def drop(self, piece: Piece) -> None:
        """Forget an array."""
        if piece.number >= 0:
            array = self._arrays.pop(piece.number, None)
            if array is not None:
                self._allowance.give(array.nbytes)

    def clear(self) -> None:
        """Forget all arrays; the file stays."""
        for array in self._arrays.values():
            self._allowance.give(array.nbytes)
        self._arrays.clear()
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def close(self) -> None:
        """Forget all arrays and remove the file."""
        self.clear()
        if self._own:
            self.path.unlink(missing_ok=True)
