"""Text files, plain or gzip, cut into blocks of whole rows with the line each begins at."""

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from graph_store.errors import BadInput

BLOCK_BYTES = 16 << 20
LONGEST_ROW_BYTES = 64 << 20
_REFUSED = {
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"BZh": "compressed with bzip2; unpack it or compress it with gzip",
    b"\xfd7zXZ": "compressed with xz; unpack it or compress it with gzip",
    b"\x28\xb5\x2f\xfd": "compressed with zstd; unpack it or compress it with gzip",
    b"\xff\xfe": "UTF-16 text; write it as UTF-8",
    b"\xfe\xff": "UTF-16 text; write it as UTF-8",
    b"PAR1": "a Parquet file; say --format parquet",
    b"ARROW1": "an Arrow IPC file; write it as Parquet",
}


@dataclass(frozen=True)
class TextBlock:
    """Whole rows of a text file.

    Attributes
    ----------
    data : bytes
        The rows, with their line ends.
    first_line : int
        The line of the file, from 1, that `data` begins in.
    bytes_done : int
        Bytes of the file (compressed, if it is) read so far.
    """

    data: bytes
    first_line: int
    bytes_done: int


class TextFile:
    """A text file that is open for reading, decompressed on the way.

    Raises
    ------
    BadInput
        The file cannot be read, is no text, or its compression is damaged or ends too early.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._raw: IO[bytes] = open(path, "rb")
            magic = self._raw.read(6)
        except OSError as error:
            raise BadInput(f"{path}: cannot read the file: {error.strerror or error}") from None
        for prefix, what in _REFUSED.items():
            if magic.startswith(prefix):
                self._raw.close()
                raise BadInput(f"{path}: is {what}")
        self._raw.seek(0)
        self._stream: IO[bytes] = gzip.GzipFile(fileobj=self._raw) if magic[:2] == b"\x1f\x8b" else self._raw  # type: ignore[assignment]

    def __enter__(self) -> "TextFile":
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._stream.close()
        self._raw.close()

    def read(self, size: int) -> bytes:
        """Return the next `size` bytes of text, fewer only at the end."""
        try:
            return self._stream.read(size)
        except EOFError:
            raise BadInput(f"{self.path}: the compressed file ends too early; it was cut off, fetch it again") from None
        except (OSError, zlib.error) as error:
            raise BadInput(f"{self.path}: cannot read the file: {error}") from None

    def tell(self) -> int:
        """Return how many bytes of the file have been read, before decompression."""
        return self._raw.tell()


def row_blocks(path: Path, *, skip: int, first_line: int, cut: Callable[[bytes], int]) -> Iterator[TextBlock]:
    """Yield the file from byte `skip` on in blocks of whole rows.

    Parameters
    ----------
    path : Path
        The file.
    skip : int
        Bytes of text to leave out at the start.
    first_line : int
        The line, from 1, that the rest begins at.
    cut : callable
        Given bytes that begin with a row, returns where the last whole row ends, 0 when there is none.

    Raises
    ------
    BadInput
        As in `TextFile`, or a row of more than 64 MiB.
    """
    with TextFile(path) as file:
        file.read(skip)
        rest, line = b"", first_line
        last = False
        while not last:
            fresh = file.read(BLOCK_BYTES)
            last = len(fresh) < BLOCK_BYTES
            data = rest + fresh if rest else fresh
            end = len(data) if last else cut(data)
            if end == 0 and len(data) > LONGEST_ROW_BYTES:
                raise BadInput(
                    f"{path}: line {line}: a row of more than {LONGEST_ROW_BYTES >> 20} MiB; "
                    "is a double quote left open, or is the line end missing?"
                )
            rest = data[end:]
            if end:
                block = data[:end] if rest else data
                yield TextBlock(block, line, file.tell())
                line += block.count(b"\n")


def last_line_end(data: bytes) -> int:
    """Return where the last whole line of `data` ends."""
    return data.rfind(b"\n") + 1


class QuotedRows:
    """Rows whose cells may stand in double quotes, and so hold delimiters and line ends (RFC 4180).

    A quote opens only at the start of a cell; anywhere else it is a character like others.
    """

    def __init__(self, delimiter: str) -> None:
        mark = re.escape(delimiter.encode())
        self.delimiter = delimiter.encode()
        self._quoted = re.compile(rb"(?:(?<=[\r\n]|" + mark + rb')|\A)"[^"]*(?:""[^"]*)*("?)')
        self._cell = re.compile(rb'"([^"]*(?:""[^"]*)*)"([^\r\n' + mark + rb"]*)|([^\r\n" + mark + rb"]*)")

    def last_row_end(self, data: bytes) -> int:
        """Return where the last whole row of `data` ends; `data` begins with a row."""
        end = data.rfind(b"\n") + 1
        if b'"' not in data:
            return end
        spans = [match.span() for match in self._quoted.finditer(data) if b"\n" in match.group()]
        for start, stop in reversed(spans):
            if start < end <= stop and not (stop < len(data) and end == stop):
                end = data.rfind(b"\n", 0, start) + 1
        return end

    def open_quote(self, data: bytes) -> int:
        """Return where a quoted cell begins that is never closed, -1 when all are."""
        last = None
        for last in self._quoted.finditer(data):  # noqa: B007
            pass
        return last.start() if last is not None and not last.group(1) else -1

    def rows(self, data: bytes) -> Iterator[tuple[int, list[bytes]]]:
        """Yield each row that is not empty: the lines of `data` before it, and its cells."""
        at, line = 0, 0
        while at < len(data):
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            if b'"' in data[at:end]:
                cells, end = self._quoted_row(data, at)
            else:
                cells = data[at:end].removesuffix(b"\r").split(self.delimiter)
            if cells != [b""]:
                yield line, cells
            line += data.count(b"\n", at, end + 1)
            at = end + 1

    def _quoted_row(self, data: bytes, at: int) -> tuple[list[bytes], int]:
        cells = []
        while True:
            match = self._cell.match(data, at)
            assert match is not None  # the pattern matches the empty cell
            inner, tail, plain = match.groups()
            cells.append(plain if inner is None else inner.replace(b'""', b'"') + tail)
            at = match.end()
            if data[at : at + 1] != self.delimiter:
                return cells, at + 1 if data[at : at + 2] == b"\r\n" else at
            at += 1
