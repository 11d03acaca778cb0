"""The bytes of a file, decompressed and taken out of its archive on the way, never unpacked to disk."""

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from graph_store.errors import BadInput
from graph_store.words import nearest

# A tar header is the longest beginning that is looked at.
_HEAD_BYTES = 512
_COMPRESSED = {b"\x1f\x8b": "gzip", b"BZh": "bz2", b"\xfd7zXZ\0": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
_SKIPPED_BYTES = 1 << 20
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_SUFFIXES = (".gz", ".zst", ".bz2", ".xz")
_SHOWN_MEMBERS = 8


class ByteFile:
    """A file open for reading; gzip, zstd, bzip2, xz, tar and zip are told by their first bytes.

    Parameters
    ----------
    path : Path
        The file.
    member : str or None
        The name of the file to read within an archive; None for the only one.

    Attributes
    ----------
    name : str
        What the bytes were called before they were compressed: `"edges.csv"` of `edges.csv.gz`, or of a member of
        that name.
    member : str or None
        The member that is read, None when the file is no archive.
    head : bytes
        The first bytes, up to 512; they are read again by `read`.
    size : int
        Bytes of the file, as it is on disk.

    Raises
    ------
    BadInput
        The file cannot be read, it is no archive but `member` is given, or the archive has no such member or, without
        `member`, several.
    """

    def __init__(self, path: Path, member: str | None = None) -> None:
        self.path = path
        self.name, self.member = path.name, member
        with _told(path):
            self._raw = open(path, "rb")
        try:
            self._open()
        except BaseException:
            self._raw.close()
            raise
        for suffix in _SUFFIXES:
            self.name = self.name[: -len(suffix)] if self.name.lower().endswith(suffix) else self.name

    def _open(self) -> None:
        with _told(self.path):
            self.size = self._raw.seek(0, io.SEEK_END)
            self._raw.seek(0)
            self._stream = _decompressed(_Stream(self._raw))
            if self._stream.head.startswith(_ZIP) or _is_tar(self._stream.head):
                self._stream = _decompressed(_Stream(self._open_member()))
            elif self.member is not None:
                raise BadInput(f"{self.path}: is no archive, but member is {self.member!r}; leave it out")
            if self._stream.inner is self._raw:
                self._stream.rewind()
        self.head = self._stream.head

    def _open_member(self) -> Any:
        plain = self._stream.inner is self._raw
        if self._stream.head.startswith(_ZIP):
            if not plain:
                raise BadInput(f"{self.path}: a zip archive in a compressed file; decompress it first")
            archive = zipfile.ZipFile(self._raw)
            files = [info.filename for info in archive.infolist() if not info.is_dir()]
            self.member = self._choose(files)
            self.name = self.member.rpartition("/")[2]
            return archive.open(self._spelled(files))
        if self.member is None:
            self.member = self._choose(name for name, _ in self._tar_files(plain))
            self._rewind()
        self.name = self.member.rpartition("/")[2]
        seen = []
        for name, open_it in self._tar_files(plain):
            if _plain_name(name) == _plain_name(self.member):
                return open_it()
            seen.append(name)
        raise self._absent(seen)

    def _rewind(self) -> None:
        self._raw.seek(0)
        self._stream = _decompressed(_Stream(self._raw))

    def _tar_files(self, plain: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
        """Yield the name of each file in a tar archive, and what opens it; one not compressed is not read through."""
        if plain:
            self._raw.seek(0)
            archive = tarfile.open(fileobj=self._raw, mode="r:")
        else:
            archive = tarfile.open(fileobj=self._stream, mode="r|")
        for info in archive:
            if info.isfile():
                yield info.name, partial(archive.extractfile, info)

    def _choose(self, names: Iterable[str]) -> str:
        """Return the member asked for, or the only one; files that a system leaves beside others do not count."""
        if self.member is not None:
            return self.member
        files = [name for name in names if not _is_litter(name)]
        if len(files) == 1:
            return files[0]
        if not files:
            raise BadInput(f"{self.path}: the archive holds no file")
        listed = ", ".join(map(repr, files[:_SHOWN_MEMBERS])) + (", …" if len(files) > _SHOWN_MEMBERS else "")
        raise BadInput(f'{self.path}: the archive holds {len(files)} files: {listed}; say member = "{files[0]}"')

    def _spelled(self, names: list[str]) -> str:
        for name in names:
            if _plain_name(name) == _plain_name(str(self.member)):
                return name
        raise self._absent(names)

    def _absent(self, names: list[str]) -> BadInput:
        return BadInput(f"{self.path}: the archive has no member {self.member!r}; {nearest(self.member, names)}")

    def __enter__(self) -> "ByteFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._raw.close()

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes, fewer only at the end.

        Raises
        ------
        BadInput
            The file cannot be read, or its compression is damaged or ends too early.
        """
        pieces, left = [], size
        with _told(self.path):
            while left and (piece := self._stream.read(left)):
                pieces.append(piece)
                left -= len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def skip(self, size: int) -> None:
        """Leave out the next `size` bytes."""
        while size and (piece := self.read(min(size, _SKIPPED_BYTES))):
            size -= len(piece)

    def tell(self) -> int:
        """Return how many bytes of the file on disk have been read."""
        return self._raw.tell()


class _Stream(io.RawIOBase):
    """Bytes read one after the other, whose beginning is known before; does not close what it reads."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner
        self.head = b""
        while len(self.head) < _HEAD_BYTES and (piece := inner.read(_HEAD_BYTES - len(self.head))):
            self.head += piece
        self._again = self.head

    def rewind(self) -> None:
        """Begin again at the start of what is read, a file."""
        self.inner.seek(0)
        self._again = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if self._again:
            piece = self._again if size < 0 else self._again[:size]
            self._again = self._again[len(piece) :]
            return piece
        return self.inner.read(size)

    def readinto(self, buffer: Any) -> int:
        piece = self.read(len(buffer))
        buffer[: len(piece)] = piece
        return len(piece)


def _decompressed(stream: _Stream) -> _Stream:
    kind = next((kind for magic, kind in _COMPRESSED.items() if stream.head.startswith(magic)), None)
    if kind is None:
        return stream
    if kind == "gzip":
        return _Stream(gzip.GzipFile(fileobj=stream))
    if kind == "bz2":
        return _Stream(bz2.BZ2File(stream))
    if kind == "xz":
        return _Stream(lzma.LZMAFile(stream))  # type: ignore[arg-type]
    import pyarrow as pa

    return _Stream(pa.CompressedInputStream(pa.PythonFile(stream, "r"), "zstd"))


def _is_tar(head: bytes) -> bool:
    try:
        tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except tarfile.TarError:
        return False
    return True


def _plain_name(name: str) -> str:
    return name.removeprefix("./")


def _is_litter(name: str) -> bool:
    return name.startswith("__MACOSX/") or name.rpartition("/")[2].startswith("._") or name.endswith(".DS_Store")


@contextmanager
def _told(path: Path) -> Iterator[None]:
    """Turn what goes wrong in reading into one line."""
    try:
        yield
    except BadInput:
        raise
    except EOFError:
        raise BadInput(f"{path}: the compressed file ends too early; it was cut off, fetch it again") from None
    except (OSError, zlib.error, lzma.LZMAError, tarfile.TarError, zipfile.BadZipFile) as error:
        detail = " ".join(str(getattr(error, "strerror", None) or error).split())
        if "runcated" in detail or "unexpected end" in detail:
            raise BadInput(f"{path}: the compressed file ends too early; it was cut off, fetch it again") from None
        raise BadInput(f"{path}: cannot read the file: {detail}") from None
    except (RuntimeError, NotImplementedError) as error:  # what zipfile says of passwords and rare methods
        raise BadInput(f"{path}: cannot read the archive: {error}; unpack it first") from None
