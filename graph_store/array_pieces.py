"""Arrays of .npy and .npz files, read in pieces of rows: mapped where stored plain, else decompressed on the way."""

import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from graph_store.errors import BadInput

_LOCAL_HEADER_BYTES = 30
# What numpy, scipy, zipfile and zlib raise at a file that is damaged, or whose arrays do not fit each other.
_DAMAGE = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, SyntaxError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
_READ_HEADER = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


class ArrayPieces:
    """An array whose rows are read from first to last; close it in the end.

    Parameters
    ----------
    path : Path
    whole : ndarray or None
        The array, in memory or mapped.
    member, header : str, int
        Without `whole`: where in an archive the array is, in C order behind so many bytes.
    shape, dtype
        Without `whole`: of the array.
    """

    def __init__(
        self,
        path: Path,
        whole: NDArray[Any] | None = None,
        *,
        member: str = "",
        header: int = 0,
        shape: tuple[int, ...] = (),
        dtype: Any = None,
    ) -> None:
        self._path, self._whole, self._member, self._header = path, whole, member, header
        self.shape = shape if whole is None else whole.shape
        self.dtype = np.dtype(dtype) if whole is None else whole.dtype
        self._opened = ExitStack()
        self._stream: IO[bytes] | None = None

    def rows(self, start: int, stop: int) -> NDArray[Any]:
        """Return the rows `start … stop − 1`; each call goes on where the one before ended."""
        return self._read((stop - start, *self.shape[1:])) if self._whole is None else self._whole[start:stop]

    def whole(self) -> NDArray[Any]:
        """Return the whole array; only when nothing of it has been read."""
        if self._whole is not None:
            return self._whole
        try:
            return self._read(self.shape)
        finally:
            self.close()

    def close(self) -> None:
        """Close the archive; closing twice is fine."""
        self._opened.close()

    def _read(self, shape: tuple[int, ...]) -> NDArray[Any]:
        with damage_told(self._path):
            if self._stream is None:
                archive = self._opened.enter_context(zipfile.ZipFile(self._path))
                self._stream = self._opened.enter_context(archive.open(self._member))
                _read_all(self._stream, self._header)
            data = _read_all(self._stream, int(np.prod(shape, dtype=np.int64)) * self.dtype.itemsize)
        return np.frombuffer(data, self.dtype).reshape(shape)


def open_npy(path: Path) -> ArrayPieces:
    """Open the array of a .npy file, mapped.

    Raises
    ------
    BadInput
        It is none, is cut off, or holds Python objects.
    """
    with damage_told(path):
        return ArrayPieces(path, np.lib.format.open_memmap(path, mode="r"))


def open_npz(path: Path) -> dict[str, ArrayPieces]:
    """Open the arrays of a .npz file by name, in the order they were written.

    Raises
    ------
    BadInput
        As in `open_npy`.
    """
    with damage_told(path), zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        if not members:
            raise BadInput(f"{path}: holds no arrays; expected what numpy.savez writes")
        return {info.filename.removesuffix(".npy"): _open_member(path, archive, info) for info in members}


def _open_member(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> ArrayPieces:
    with archive.open(info) as stream:
        version = np.lib.format.read_magic(stream)
        if version not in _READ_HEADER:
            raise ValueError(f"array {info.filename} has format version {version}")
        shape, fortran, dtype = _READ_HEADER[version](stream)
        if dtype.hasobject:
            raise ValueError("Python objects")
        size, header = int(np.prod(shape, dtype=object)) * dtype.itemsize, stream.tell()
        if header + size != info.file_size:
            raise ValueError(f"array {info.filename} is of another size than its header says")
        if info.compress_type == zipfile.ZIP_STORED and size:
            offset = _data_offset(path, info) + header
            order = "F" if fortran else "C"
            return ArrayPieces(path, np.memmap(path, dtype, "r", offset, shape, order))  # type: ignore[call-overload]
        if fortran and len(shape) > 1:
            data = _read_all(stream, size)
            return ArrayPieces(path, np.frombuffer(data, dtype).reshape(shape, order="F"))
    return ArrayPieces(path, member=info.filename, header=header, shape=shape, dtype=dtype)


def _data_offset(path: Path, info: zipfile.ZipInfo) -> int:
    """Return where in the file the bytes of a member begin (APPNOTE 4.3.7)."""
    with open(path, "rb") as file:
        file.seek(info.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
    names = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return info.header_offset + _LOCAL_HEADER_BYTES + names


def _read_all(stream: IO[bytes], size: int) -> bytes:
    pieces, left = [], size
    while left and (piece := stream.read(left)):
        pieces.append(piece)
        left -= len(piece)
    if left:
        raise EOFError("ends too early")
    return b"".join(pieces)


@contextmanager
def damage_told(path: Path) -> Iterator[None]:
    """Turn what numpy and zipfile say of a file into one line."""
    try:
        yield
    except BadInput:
        raise
    except _DAMAGE as error:
        detail = " ".join(str(error).split())
        if "ython objects" in detail:
            raise BadInput(f"{path}: holds Python objects, which are never loaded; save numbers or strings") from None
        raise BadInput(f"{path}: not a readable NumPy file ({detail.rstrip('.')}); save it again") from None
