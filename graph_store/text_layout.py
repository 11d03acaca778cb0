"""What a text file looks like: told from its first lines where its source does not say."""

import re
from collections import Counter
from dataclasses import dataclass, field

from graph_store.errors import BadInput
from graph_store.row_batch import Field, shown
from graph_store.row_plan import RowPlan, Wanted
from graph_store.schema import EdgeSource, NodeSource, nearest
from graph_store.text_blocks import BLOCK_BYTES, QuotedRows, TextFile

_SAMPLE_BYTES = 1 << 20
_SAMPLE_ROWS = 1000
_SMALLEST_BLOCK = 1 << 16
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
    """How to read a text file of edges or nodes.

    Attributes
    ----------
    adjacency : bool
        `user item item …` a line; there are then no columns.
    member : str or None
        The member that is read, if the file is an archive.
    skip, first_line : int
        Bytes of text before the first row of data, and the line, from 1, it stands in.
    row_bytes : float
        Bytes an edge or a node takes on average in the file's first MiB.
    delimiter : str
        One character; a space stands for any run of spaces and tabs.
    header : tuple of str or None
        The names of the columns, None when the file has none.
    num_columns : int
        Cells a row.
    fields : tuple of Field
        What to read, in the order of the plan.
    timed : bool
        Of an adjacency: the items of a line are in order of time, the k-th has time k, from 0.
    """

    adjacency: bool
    member: str | None = None
    skip: int = 0
    first_line: int = 1
    row_bytes: float = 1.0
    delimiter: str = " "
    header: tuple[str, ...] | None = None
    num_columns: int = 0
    fields: tuple[Field, ...] = field(default=())
    timed: bool = False

    def __str__(self) -> str:
        if self.adjacency:
            return f"adjacency, a source and its neighbours a line{', in order of time' if self.timed else ''}"
        delimiter = _DELIMITER_NAMES.get(self.delimiter, repr(self.delimiter))
        labels: dict[str, list[str]] = {}
        for column in self.fields:
            labels.setdefault(column.part, []).append(column.label)
        columns = ", ".join(
            f"{part} = " + (f"column {found[0]}" if len(found) == 1 else f"columns {found[0]} … {found[-1]}")
            for part, found in labels.items()
        )
        return f"columns separated by {delimiter}, {'a' if self.header else 'no'} header, {columns}"

    def block_bytes(self, batch_rows: int | None) -> int | None:
        """Return the bytes of text to read for a batch of about so many rows, None for as many as a reader likes."""
        if batch_rows is None:
            return None
        return min(max(int(batch_rows * self.row_bytes), _SMALLEST_BLOCK), BLOCK_BYTES)


@dataclass(frozen=True)
class _Sample:
    """The start of a file: its text behind mark and comments, where that begins, whether it is all."""

    name: str
    member: str | None
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
        for row in QuotedRows(delimiter).rows(text):
            found.append([cell.decode("utf-8", "replace") for cell in row.cells])
            if len(found) == _SAMPLE_ROWS:
                break
        return found


def tell_layout(source: EdgeSource | NodeSource, plan: RowPlan) -> TextLayout:
    """Return the layout of a text file: as stated by its source, else as its first MiB shows.

    Raises
    ------
    BadInput
        The file holds no text, it is unclear what it is, or a column is absent; the message says more.
    """
    comments = all(wanted.node_type.is_integer for wanted in plan.wanted if wanted.node_type is not None)
    sample = _read_sample(source, comments)
    if source.format == "adjacency" or (source.format is None and _is_adjacency(source, sample, plan)):
        word_bytes = len(sample.text) / len(sample.text.split())
        timed = isinstance(source, EdgeSource) and source.timed_by_position
        return TextLayout(True, sample.member, sample.skip, sample.first_line, word_bytes, timed=timed)
    delimiter = source.delimiter or _tell_delimiter(source, sample, plan)
    rows = sample.rows(delimiter)
    if len(rows[0]) < 2 and len(plan.wanted) > 1:
        raise BadInput(
            f"{source.path}: line {sample.first_line} has one column only, separated by {delimiter!r}: "
            f"{shown(rows[0][0])}; expected {_expected(plan)}; say which by --delimiter"
        )
    header = tuple(rows[0]) if _has_header(source, rows, plan) else None
    names = [name.strip() for name in header] if header is not None else None
    fields = plan.find(names, len(rows[0]))
    size = 0
    if names is not None:
        _check_named(source, fields, names)
        size = _first_row_size(sample, delimiter)
    return TextLayout(
        False,
        sample.member,
        sample.skip + size,
        sample.first_line + sample.text.count(b"\n", 0, size),
        len(sample.text) / (sample.text.count(b"\n") + 1),
        delimiter,
        header,
        len(rows[0]),
        fields,
    )


def _expected(plan: RowPlan) -> str:
    return "an id and features" if plan.is_nodes else "two ends of an edge"


def _check_named(source: EdgeSource | NodeSource, fields: tuple[Field, ...], names: list[str]) -> None:
    for found in fields:
        if not names[found.position]:
            raise BadInput(
                f"{source.path}: column {found.position} for {found.part} has no name in the header (the row numbers "
                f"of a data frame?); name the columns to read; {nearest('', [name for name in names if name])}"
            )


def _read_sample(source: EdgeSource | NodeSource, comments: bool) -> _Sample:
    path = source.path
    with TextFile(path, source.member) as file:
        text = file.read(_SAMPLE_BYTES)
        whole = len(text) < _SAMPLE_BYTES
    skip = len(_BOM) if text.startswith(_BOM) else 0
    first_line = 1
    while True:
        end = text.find(b"\n", skip)
        line = text[skip : end if end >= 0 else len(text)]
        if end < 0 or (line.strip() and not (comments and line.startswith(b"#"))):
            break
        skip, first_line = end + 1, first_line + 1
    if not text[skip:].strip() or (comments and text[skip:].startswith(b"#")):
        what = "nodes" if isinstance(source, NodeSource) else "edges"
        raise BadInput(f"{path}: the file holds no rows; expected {what}")
    if b"\n" not in text and b"\r" in text.rstrip(b"\r"):
        raise BadInput(f"{path}: lines end in a lone carriage return; write them with line feeds")
    return _Sample(file.name, file.member, text[skip:], skip, first_line, whole)


def _suffix(sample: _Sample) -> str:
    return sample.name.lower().rpartition(".")[2]


def _is_adjacency(source: EdgeSource | NodeSource, sample: _Sample, plan: RowPlan) -> bool:
    if isinstance(source, NodeSource) or source.has_column_options or _suffix(sample) in ("csv", "tsv"):
        return False
    if any(wanted.feature is not None for wanted in plan.wanted):
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


def _tell_delimiter(source: EdgeSource | NodeSource, sample: _Sample, plan: RowPlan) -> str:
    if source.format == "tsv" or (source.format is None and _suffix(sample) == "tsv"):
        return "\t"
    # Words of one cell are no columns: neither the numbers of a list without quotes, nor those of a name alone.
    within = set()
    if b'"' not in sample.text:
        within = {wanted.feature.separator for wanted in plan.wanted if wanted.feature is not None}
    alone = len(plan.wanted) == 1
    if alone and not (plan.wanted[0].node_type is not None and plan.wanted[0].node_type.is_integer):
        within.add(" ")
    best, best_share = "", _AGREEMENT - 1e-9 if alone else 0.0
    for delimiter in _DELIMITERS:
        share = _agreement(sample.rows(delimiter))[1] if delimiter not in within else 0.0
        if share > best_share:
            best, best_share = delimiter, share
    if not best and alone:
        return "\t"
    if not best:
        raise BadInput(
            f"{source.path}: line {sample.first_line} has one column only: "
            f"{shown(_text(sample.lines()[0]))}; expected {_expected(plan)}, separated by a comma, tab, "
            "semicolon, bar or space; say which by --delimiter"
        )
    return best


def _text(line: bytes) -> str:
    return line.rstrip(b"\r").decode("utf-8", "replace")


def _has_header(source: EdgeSource | NodeSource, rows: list[list[str]], plan: RowPlan) -> bool:
    if source.header is not None:
        return source.header
    if any(isinstance(wanted.column, str) and not wanted.column.isdecimal() for wanted in plan.wanted):
        return True
    numeric: list[int] = []
    texts: list[int] = []
    for wanted in plan.wanted:
        if int(wanted.column) < len(rows[0]):
            (texts if _is_text(wanted) else numeric).append(int(wanted.column))
    if numeric:
        cells = [rows[0][position] for position in numeric]
        return not any(_NUMERIC.match(cell) for cell in cells) and any(cell.strip() for cell in cells)
    return _texts_have_header(source, rows, texts)


def _is_text(wanted: Wanted) -> bool:
    if wanted.feature is not None:
        return wanted.feature.kind in ("category", "string")
    return wanted.role == "relation" or (wanted.node_type is not None and not wanted.node_type.is_integer)


def _texts_have_header(source: EdgeSource | NodeSource, rows: list[list[str]], positions: list[int]) -> bool:
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
    what = "a node" if isinstance(source, NodeSource) else "an edge"
    raise BadInput(
        f"{source.path}: unclear whether its first row ({', '.join(map(shown, first[:4]))}) names the "
        f"columns or is {what}, as ids are strings; say --header or --no-header, "
        "in a schema header = true or false"
    )


def _classes(cell: str) -> frozenset[str]:
    """Return the kinds of characters in a cell: letters as one, digits as one, others each."""
    return frozenset("a" if mark.isalpha() else "9" if mark.isdecimal() else mark for mark in cell.strip())


def _first_row_size(sample: _Sample, delimiter: str) -> int:
    """Return the bytes of the first row with its line end; quotes may hold line ends."""
    rows = QuotedRows(delimiter).rows(sample.text)
    next(rows)
    second = next(rows, None)
    lines = second.line if second is not None else sample.text.count(b"\n") + 1
    if delimiter == " ":
        lines = 1
    at = 0
    for _ in range(lines):
        end = sample.text.find(b"\n", at)
        if end < 0:
            return len(sample.text)
        at = end + 1
    return at
