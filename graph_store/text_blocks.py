"""Text files cut into blocks of whole rows with the line each begins at."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from graph_store.byte_file import ByteFile
from graph_store.errors import BadInput

BLOCK_BYTES = 16 << 20
LONGEST_ROW_BYTES = 64 << 20
_LONGEST_ROW_SHOWN = 1000
_REFUSED = {
    b"\x04\x22\x4d\x18": "compressed with lz4; unpack it or compress it with zstd",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive; unpack it first",
    b"Rar!": "a RAR archive; unpack it first",
    b"\xff\xfe": "UTF-16 text; write it as UTF-8",
    b"\xfe\xff": "UTF-16 text; write it as UTF-8",
    b"PAR1": "a Parquet file; say --format parquet",
    b"ARROW1": "an Arrow IPC file; say --format arrow",
    b"\x93NUMPY": "a NumPy file; say --format npy",
    b"\x89HDF": "an HDF5 file; write it as Parquet or text",
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


class TextFile(ByteFile):
    """A text file that is open for reading, decompressed on the way.

    Raises
    ------
    BadInput
        As in `ByteFile`, or the file is no text.
    """

    def __init__(self, path: Path, member: str | None = None) -> None:
        super().__init__(path, member)
        for prefix, what in _REFUSED.items():
            if self.head.startswith(prefix):
                self.close()
                raise BadInput(f"{path}: is {what}")


def row_blocks(
    path: Path,
    member: str | None,
    *,
    skip: int,
    first_line: int,
    cut: Callable[[bytes], int],
    block_bytes: int | None = None,
    aside: bool = False,
) -> Iterator[TextBlock]:
    """Yield the file from byte `skip` on in blocks of whole rows.

    Parameters
    ----------
    path : Path
        The file.
    member : str or None
        The member that is read, if the file is an archive.
    skip : int
        Bytes of text to leave out at the start.
    first_line : int
        The line, from 1, that the rest begins at.
    cut : callable
        Given bytes that begin with a row, returns where the last whole row ends, 0 when there is none.
    block_bytes : int or None
        What a block aims at; None for `BLOCK_BYTES`.
    aside : bool
        A row of more than 64 MiB ends the block at its last line end, to be set aside, instead of being an error.

    Raises
    ------
    BadInput
        As in `TextFile`, or a row of more than 64 MiB.
    """
    aim = block_bytes or BLOCK_BYTES
    with TextFile(path, member) as file:
        file.skip(skip)
        rest, line = b"", first_line
        last = False
        while not last:
            fresh = file.read(aim)
            last = len(fresh) < aim
            data = rest + fresh if rest else fresh
            end = len(data) if last else cut(data)
            if end == 0 and len(data) > LONGEST_ROW_BYTES and not (aside and (end := last_line_end(data))):
                raise BadInput(
                    f"{path}: line {line}: a row of more than {LONGEST_ROW_BYTES >> 20} MiB; "
                    "is a double quote left open, or is the line end missing?"
                )
            rest = data[end:]
            if end:
                block = data[:end] if rest else data
                yield TextBlock(block, line, file.size if last else file.tell())
                line += block.count(b"\n")


class Row(NamedTuple):
    """A row of a block.

    Attributes
    ----------
    line : int
        Lines of the block before it.
    cells : list of bytes
        Without the quotes they stand in.
    text : bytes
        The row as it is written, without its line end.
    """

    line: int
    cells: list[bytes]
    text: bytes


def shown_row(text: bytes) -> str:
    """Return a row that is set aside as it is shown, cut when it is long."""
    row = text.removesuffix(b"\r").decode("utf-8", "replace")
    return row if len(row) <= _LONGEST_ROW_SHOWN else row[:_LONGEST_ROW_SHOWN] + "…"


def spaced_rows(data: bytes) -> Iterator[Row]:
    """Yield each row that is not empty of lines of words with single spaces between them."""
    for line, text in enumerate(data.split(b"\n")):
        text = text.removesuffix(b"\r")
        if text:
            yield Row(line, text.split(b" "), text)


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

    def rows(self, data: bytes) -> Iterator[Row]:
        """Yield each row that is not empty."""
        at, line = 0, 0
        while at < len(data):
            end = data.find(b"\n", at)
            end = len(data) if end < 0 else end
            text = data[at:end].removesuffix(b"\r")
            if b'"' in text:
                cells, end = self._quoted_row(data, at)
                yield Row(line, cells, data[at:end].removesuffix(b"\r"))
            elif text:
                yield Row(line, text.split(self.delimiter), text)
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
