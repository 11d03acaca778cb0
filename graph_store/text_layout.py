"""What a text file of edges looks like: told from its first lines where its source does not say."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from graph_store.errors import BadInput
from graph_store.row_batch import Field, shown
from graph_store.schema import EdgeSource, NodeType, nearest
from graph_store.text_blocks import QuotedRows, TextFile

_SAMPLE_BYTES = 1 << 20
_SAMPLE_ROWS = 1000
_DELIMITERS = (",", "\t", ";", "|", " ")
_DELIMITER_NAMES = {"\t": "tab", " ": "spaces"}
_BOM = b"\xef\xbb\xbf"
# At least this share of the sampled rows has one number of cells, or the delimiter is another.
_AGREEMENT = 0.9
_NUMERIC = re.compile(r"\s*[+-]?\.?[0-9]|\s*[+-]?(nan|inf|infinity|na|null|none)\s*\Z", re.IGNORECASE)
# What columns of ends are called: "user", "user_id", "source name", "id"; never with a number, as ids may be.
_NAME = re.compile(
    r"(src|dst|source|target|from|to|head|tail|subject|object|user|item|node|u|i)s?[_ -]?(id|name|node|key)?|[ui]?id",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class TextLayout:
    """How to read a text file of edges.

    Attributes
    ----------
    adjacency : bool
        `user item item …` a line; the rest then says nothing.
    delimiter : str
        One character; a space stands for any run of spaces and tabs.
    header : tuple of str or None
        The names of the columns, None when the file has none.
    num_columns : int
        Cells a row.
    skip, first_line : int
        Bytes of text before the first row of data, and the line, from 1, it stands in.
    fields : tuple of Field
        What to read, in the order src, dst, weight, time.
    """

    adjacency: bool
    delimiter: str = " "
    header: tuple[str, ...] | None = None
    num_columns: int = 0
    skip: int = 0
    first_line: int = 1
    fields: tuple[Field, ...] = field(default=())

    def __str__(self) -> str:
        if self.adjacency:
            return "adjacency, a source and its neighbours a line"
        delimiter = _DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
        columns = ", ".join(f"{column.role} = column {column.label}" for column in self.fields)
        return f"columns separated by {delimiter}, {'a' if self.header else 'no'} header, {columns}"


@dataclass(frozen=True)
class _Sample:
    """The start of a file: its text behind mark and comments, where that begins, whether it is all."""

    text: bytes
    skip: int
    first_line: int
    whole: bool

    def lines(self) -> list[bytes]:
        lines = self.text.split(b"\n")
        complete = lines if self.whole or len(lines) == 1 else lines[:-1]
        return [line for line in complete if line.strip()][:_SAMPLE_ROWS]

    def rows(self, delimiter: str) -> list[list[str]]:
        """Return the cells of the first rows; an unfinished last row is left out."""
        text = self.text if self.whole else self.text[: self.text.rfind(b"\n") + 1] or self.text
        if delimiter == " ":
            return [line.decode("utf-8", "replace").split() for line in self.lines()]
        found = []
        for _, cells in QuotedRows(delimiter).rows(text):
            found.append([cell.decode("utf-8", "replace") for cell in cells])
            if len(found) == _SAMPLE_ROWS:
                break
        return found


def tell_layout(source: EdgeSource, src_type: NodeType, dst_type: NodeType) -> TextLayout:
    """Return the layout of a text file: as stated by its source, else as its first MiB shows.

    Raises
    ------
    BadInput
        The file holds no text, it is unclear what it is, or a column is absent; the message says more.
    """
    comments = src_type.is_integer and dst_type.is_integer
    sample = _read_sample(source.path, comments)
    if source.format == "adjacency" or (source.format is None and _is_adjacency(source, sample)):
        return TextLayout(True, skip=sample.skip, first_line=sample.first_line)
    delimiter = source.delimiter or _tell_delimiter(source, sample)
    rows = sample.rows(delimiter)
    if len(rows[0]) < 2 and len(source.columns()) > 1:
        raise BadInput(
            f"{source.path}: line {sample.first_line} has one column only, separated by {delimiter!r}: "
            f"{shown(rows[0][0])}; expected two ends of an edge; say which by --delimiter"
        )
    types = {"src": src_type, "dst": dst_type}
    header = tuple(rows[0]) if _has_header(source, rows, types) else None
    fields = tuple(
        _field(source, role, column, header, len(rows[0]), types.get(role)) for role, column in source.columns().items()
    )
    if len({found.position for found in fields}) < len(fields):
        raise BadInput(f"{source.path}: two of {', '.join(source.columns())} are one column; name different ones")
    skip, first_line = sample.skip, sample.first_line
    if header is not None:
        size = _first_row_size(sample, delimiter)
        skip, first_line = skip + size, first_line + sample.text[:size].count(b"\n")
    return TextLayout(False, delimiter, header, len(rows[0]), skip, first_line, fields)


def _read_sample(path: Path, comments: bool) -> _Sample:
    with TextFile(path) as file:
        text = file.read(_SAMPLE_BYTES)
        whole = len(text) < _SAMPLE_BYTES
    if text[257:262] == b"ustar":
        raise BadInput(f"{path}: is a tar archive; unpack it first")
    skip = len(_BOM) if text.startswith(_BOM) else 0
    first_line = 1
    while True:
        end = text.find(b"\n", skip)
        line = text[skip : end if end >= 0 else len(text)]
        if end < 0 or (line.strip() and not (comments and line.startswith(b"#"))):
            break
        skip, first_line = end + 1, first_line + 1
    if not text[skip:].strip() or (comments and text[skip:].startswith(b"#")):
        raise BadInput(f"{path}: the file holds no rows; expected edges")
    if b"\n" not in text and b"\r" in text.rstrip(b"\r"):
        raise BadInput(f"{path}: lines end in a lone carriage return; write them with line feeds")
    return _Sample(text[skip:], skip, first_line, whole)


def _suffix(path: Path) -> str:
    name = path.name.lower().removesuffix(".gz")
    return name.rpartition(".")[2]


def _is_adjacency(source: EdgeSource, sample: _Sample) -> bool:
    if source.has_column_options or _suffix(source.path) in ("csv", "tsv"):
        return False
    if any(_agreement(sample.rows(delimiter))[1] >= _AGREEMENT for delimiter in _DELIMITERS[:-1]):
        return False
    if any(mark in sample.text[:4096] for mark in (b",", b";", b"|")) and not _is_spaced(sample):
        return False
    rows = sample.rows(" ")
    if all(len(row) == 1 for row in rows):
        return False
    width, share = _agreement(rows)
    if width <= 2 and share == 1.0:
        return False
    if share >= _AGREEMENT:
        raise BadInput(
            f"{source.path}: unclear whether its lines ({width} words in most) are columns or an adjacency "
            "('user item item …'); say --format csv or --format adjacency"
        )
    return True


def _is_spaced(sample: _Sample) -> bool:
    """Tell whether nearly every line holds several words, as an adjacency's do."""
    lines = sample.lines()
    return sum(len(line.split(None, 1)) > 1 for line in lines) >= _AGREEMENT * len(lines)


def _agreement(rows: list[list[str]]) -> tuple[int, float]:
    """Return the commonest number of cells a row and its share of the rows; (1, 0.0) for one cell."""
    width, count = Counter(len(row) for row in rows).most_common(1)[0]
    return (width, count / len(rows)) if width > 1 else (1, 0.0)


def _tell_delimiter(source: EdgeSource, sample: _Sample) -> str:
    if source.format == "tsv" or (source.format is None and _suffix(source.path) == "tsv"):
        return "\t"
    best, best_share = "", 0.0
    for delimiter in _DELIMITERS:
        share = _agreement(sample.rows(delimiter))[1]
        if share > best_share:
            best, best_share = delimiter, share
    if not best:
        raise BadInput(
            f"{source.path}: line {sample.first_line} has one column only: "
            f"{shown(_text(sample.lines()[0]))}; expected two ends of an edge, separated by a comma, tab, "
            "semicolon, bar or space; say which by --delimiter"
        )
    return best


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")


def _has_header(source: EdgeSource, rows: list[list[str]], types: dict[str, NodeType]) -> bool:
    if source.header is not None:
        return source.header
    columns = source.columns()
    if any(isinstance(column, str) and not column.isdecimal() for column in columns.values()):
        return True
    numeric: list[int] = []
    texts: list[int] = []
    for role, column in columns.items():
        position = int(column)
        if position < len(rows[0]):
            kind = types[role].id_type if role in types else "number"
            (texts if kind == "string" else numeric).append(position)
    if numeric:
        cells = [rows[0][position] for position in numeric]
        return not any(_NUMERIC.match(cell) for cell in cells) and any(cell.strip() for cell in cells)
    return _texts_have_header(source, rows, texts)


def _texts_have_header(source: EdgeSource, rows: list[list[str]], positions: list[int]) -> bool:
    """Tell whether the first of rows of strings holds names; refuse when nothing speaks for either."""
    first, others = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    named = [[_NAME.fullmatch(row[at].strip()) is not None for at in positions] for row in (first, *others)]
    if all(named[0]) and not any(map(any, named[1:])):
        return True
    if not others or any(first[at] in {row[at] for row in others} for at in positions):
        return False
    if any(_NUMERIC.match(first[at]) for at in positions):
        return False
    others_numeric = [all(_NUMERIC.match(row[at]) for row in others) for at in range(len(first))]
    if any(numeric and not _NUMERIC.match(cell) for numeric, cell in zip(others_numeric, first)):
        return True
    if all(_classes(first[at]) in {_classes(row[at]) for row in others} for at in positions):
        return False
    raise BadInput(
        f"{source.path}: unclear whether its first row ({', '.join(map(shown, first[:4]))}) names the "
        "columns or is an edge, as ids are strings; say --header or --no-header"
    )


def _classes(cell: str) -> frozenset[str]:
    """Return the kinds of characters in a cell: letters as one, digits as one, others each."""
    return frozenset("a" if mark.isalpha() else "9" if mark.isdecimal() else mark for mark in cell.strip())


def _field(
    source: EdgeSource,
    role: str,
    column: str | int,
    header: tuple[str, ...] | None,
    num_columns: int,
    node_type: NodeType | None,
) -> Field:
    names = [name.strip() for name in header] if header else []
    if isinstance(column, str):
        if names.count(column) > 1:
            raise BadInput(f"{source.path}: {role} column {column!r}: {names.count(column)} columns have that name")
        if column in names:
            return Field(role, shown(column), names.index(column), node_type)
        if not column.isdecimal():
            why = nearest(column, names) if header else "the file has no header; give positions from 0"
            raise BadInput(f"{source.path}: no column {column!r} for {role}; {why}")
    position = int(column)
    if position >= num_columns:
        raise BadInput(
            f"{source.path}: no column {position} for {role}: the first row has {num_columns}, counted from 0"
        )
    if header and not names[position]:
        raise BadInput(
            f"{source.path}: column {position} for {role} has no name in the header (the row numbers of a "
            f"data frame?); name the columns to read; {nearest('', [name for name in names if name])}"
        )
    return Field(role, shown(names[position]) if header else str(position), position, node_type)


def _first_row_size(sample: _Sample, delimiter: str) -> int:
    """Return the bytes of the first row with its line end; quotes may hold line ends."""
    rows = QuotedRows(delimiter).rows(sample.text)
    next(rows)
    second = next(rows, None)
    lines = second[0] if second is not None else sample.text.count(b"\n") + 1
    if delimiter == " ":
        lines = 1
    at = 0
    for _ in range(lines):
        end = sample.text.find(b"\n", at)
        if end < 0:
            return len(sample.text)
        at = end + 1
    return at
