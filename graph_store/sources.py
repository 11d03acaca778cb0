"""Where rows come from, files of edges and nodes or tables in memory, and where in them to find what."""

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.words import check_column, check_flag, nearest, one_character

FORMATS = ("parquet", "csv", "tsv", "adjacency", "jsonl", "npy", "npz", "arrow")
# The path of what has none: a table in memory, as messages call it.
TABLE = Path("<table>")
# The columns of a sparse matrix, in their order.
SPARSE_COLUMNS = ("row", "col", "data")
# The time of an adjacency line's items: their place in it, from 0.
POSITION = "position"
_NO_TEXT = ("parquet", "npy", "npz", "arrow", "jsonl")


@dataclass(frozen=True)
class EdgeSource:
    """One file of edges, or a table of them in memory, and where in it to find them.

    Attributes
    ----------
    path : Path
        The file; of a table in memory `Path("<table>")`.
    format : str or None
        `"parquet"`, `"csv"`, `"tsv"`, `"adjacency"`, `"jsonl"`, `"npy"`, `"npz"`, `"arrow"`, or None to tell it
        from the file.
    src, dst : str, int or None
        The columns of the two ends: a header name, or a position from 0; None for the first and the second. A
        string of digits is a position unless the header holds that very name.
    weight, time : str, int or None
        The columns of float32 weights and int64 times, if there are any. Of an adjacency file the time may be
        `"position"`: the items of a line are in order of time, and the k-th has time k, from 0.
    header : bool or None
        Whether the first row of a text file names its columns; None to tell it from the file.
    delimiter : str or None
        What separates the columns of a text file, one character (a space stands for any run of spaces and
        tabs); None to tell it from the file. `"tab"`, `"space"`, `"comma"`, `"semicolon"` and `"pipe"` are
        read too.
    relation : str, int or None
        The column whose value is the relation, for edge types `src:*:dst`.
    member : str or None
        The name of the file within an archive (`.tar`, `.tar.gz`, `.zip`); None for the only one.
    table : object or None
        Edges in memory instead of a file: a pyarrow Table or RecordBatchReader, an iterable of RecordBatches
        (read once), or a scipy sparse array, whose columns are `row`, `col` and `data`. Not compared.

    Raises
    ------
    BadInput
        A value that cannot be, or two that exclude each other.
    """

    path: Path = TABLE
    format: str | None = None
    src: str | int | None = None
    dst: str | int | None = None
    weight: str | int | None = None
    time: str | int | None = None
    header: bool | None = None
    delimiter: str | None = None
    relation: str | int | None = None
    member: str | None = None
    table: Any = field(default=None, compare=False, repr=False)
    # Which of how many parts of a Parquet file: several ranks read one each.
    part: tuple[int, int] = field(default=(0, 1), kw_only=True)

    def __post_init__(self) -> None:
        _check_source(self)
        _check_distinct(self.path, self.columns())
        if self.format == "adjacency" and self.has_column_options:
            raise BadInput(
                f"{self.path}: an adjacency file ('user item item …' a line) has no columns, header or "
                "delimiter; leave them out, or say --format csv (its time can be 'position')"
            )
        if self.is_sparse:
            self._check_sparse()

    def _check_sparse(self) -> None:
        for role, column in self.columns().items():
            if str(column) not in (*SPARSE_COLUMNS, *"012"):
                raise BadInput(
                    f"{self.path}: {role} is {column!r}, but a sparse array has columns 'row', 'col' and 'data'; "
                    f"{nearest(column, SPARSE_COLUMNS)}"
                )

    def columns(self) -> dict[str, str | int]:
        """Return the given columns by role, in the order src, dst, weight, time, relation."""
        ends = {"src": 0 if self.src is None else self.src, "dst": 1 if self.dst is None else self.dst}
        time = None if self.timed_by_position else self.time
        given = {**ends, "weight": self.weight, "time": time, "relation": self.relation}
        return {role: column for role, column in given.items() if column is not None}

    @property
    def has_column_options(self) -> bool:
        """True when anything was said that only a file with columns has."""
        time = None if self.timed_by_position else self.time
        named = (self.src, self.dst, self.weight, time, self.header, self.delimiter, self.relation)
        return any(value is not None for value in named)

    @property
    def timed_by_position(self) -> bool:
        """True when the times are the places of the items in their line of an adjacency file."""
        return self.format == "adjacency" and self.time == POSITION

    @property
    def is_sparse(self) -> bool:
        """True for a scipy sparse array or matrix."""
        return hasattr(self.table, "tocoo")


@dataclass(frozen=True)
class NodeSource:
    """One file of nodes, or a table of them in memory: their ids, and beside them their features.

    Attributes
    ----------
    path : Path
        The file; of a table in memory `Path("<table>")`.
    format, header, delimiter, member
        As in `EdgeSource`; a file of nodes has columns, so there is no `"adjacency"`.
    id : str, int or None
        The column of the ids: a header name, or a position from 0; None for the first.
    table : object or None
        Nodes in memory instead of a file: a pyarrow Table or RecordBatchReader, or an iterable of RecordBatches
        (read once). Not compared.

    Raises
    ------
    BadInput
        A value that cannot be, or two that exclude each other.
    """

    path: Path = TABLE
    format: str | None = None
    id: str | int | None = None
    header: bool | None = None
    delimiter: str | None = None
    member: str | None = None
    table: Any = field(default=None, compare=False, repr=False)
    # Which of how many parts of a Parquet file: several ranks read one each.
    part: tuple[int, int] = field(default=(0, 1), kw_only=True)

    def __post_init__(self) -> None:
        _check_source(self)
        _check_distinct(self.path, self.columns())
        if self.format == "adjacency":
            raise BadInput(f"{self.path}: format 'adjacency' is for edges; a file of nodes has columns, say 'csv'")
        if self.is_sparse:
            raise BadInput(f"{self.path}: a sparse array holds edges; give nodes as a pyarrow Table")

    def columns(self) -> dict[str, str | int]:
        """Return the column of the ids, by its role `"id"`."""
        return {"id": 0 if self.id is None else self.id}

    @property
    def is_sparse(self) -> bool:
        """True for a scipy sparse array or matrix, which holds no nodes."""
        return hasattr(self.table, "tocoo")


def _check_source(source: EdgeSource | NodeSource) -> None:
    object.__setattr__(source, "path", Path(source.path))
    if source.table is None and source.path == TABLE:
        raise BadInput("no file and no table; give one of them")
    place = str(source.path)
    if source.format is not None and source.format not in FORMATS:
        raise BadInput(f"{place}: format {source.format!r} is unknown; {nearest(source.format, FORMATS)}")
    if source.header is not None:
        check_flag(place, "header", source.header)
    if source.delimiter is not None:
        object.__setattr__(source, "delimiter", one_character(place, "delimiter", source.delimiter))
    if source.member is not None and (not isinstance(source.member, str) or not source.member):
        raise BadInput(f"{place}: member is {source.member!r}, expected the name of a file within the archive")
    if source.format in _NO_TEXT and (source.header is not None or source.delimiter is not None):
        has = f"a file of format {source.format!r} has no delimiter and no header row"
        if source.format == "parquet":
            has = "a Parquet file has no delimiter and always names its columns"
        raise BadInput(f"{place}: {has}; leave them out")
    if source.table is not None:
        _check_table(source)


def _check_table(source: EdgeSource | NodeSource) -> None:
    if source.path != TABLE:
        raise BadInput(f"{source.path}: a file and a table; give one of them")
    for key in ("format", "header", "delimiter", "member"):
        if getattr(source, key) is not None:
            raise BadInput(f"{TABLE}: {key} is for files; a table in memory has none, leave it out")
    table = source.table
    if hasattr(table, "to_batches") or hasattr(table, "read_next_batch") or hasattr(table, "tocoo"):
        return
    if type(table).__name__ == "RecordBatch":
        object.__setattr__(source, "table", (table,))
        return
    if hasattr(table, "__array__") or isinstance(table, (str, bytes, Mapping)) or not hasattr(table, "__iter__"):
        raise BadInput(
            f"{TABLE}: a {type(table).__qualname__} is no table; expected a pyarrow Table, "
            "RecordBatchReader or RecordBatches, or a scipy sparse array; pyarrow.table(…) or "
            "pyarrow.Table.from_pandas(…) make one"
        )


def _check_distinct(path: Path, columns: Mapping[str, str | int]) -> None:
    taken: dict[str, str] = {}
    for role, column in columns.items():
        check_column(str(path), role, column)
        if str(column) in taken:
            raise BadInput(f"{path}: {role} and {taken[str(column)]} are both column {column!r}")
        taken[str(column)] = role


def check_features(place: str, features: Sequence[FeatureType], sources: Sequence[EdgeSource | NodeSource]) -> None:
    """Raise BadInput where features of one type have one name, or a source cannot hold one of them."""
    names = [feature.name for feature in features]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{place}: two features are called {name!r}; rename one of them")
    for feature, source in product(features, sources):
        if source.format == "adjacency" or source.is_sparse:
            what = "an adjacency file" if source.format == "adjacency" else "a sparse array"
            raise BadInput(f"{place}: {what} ({source.path}) holds no features; take them from a file with columns")
        if feature.is_list and source.delimiter == " " and feature.separator in (None, " "):
            raise BadInput(
                f"{place}: {source.path} has blanks between cells and feature {feature.name!r} within them; "
                "say its separator"
            )


def expand(path: str | Path, folder: Path = Path()) -> list[Path]:
    """Return the files that a path of a schema stands for.

    Parameters
    ----------
    path : str or Path
        A file (which need not exist), a folder, or a pattern of either with `*`, `?`, `[…]` and `**`.
    folder : Path
        Where a relative path starts.

    Returns
    -------
    list of Path
        The file; the files of the folder and its sub-folders in order of their path, those left out whose name,
        or whose sub-folder's name, begins with `.` or `_`; or those of all that match, in order of name.

    Raises
    ------
    BadInput
        Nothing matches the pattern, or the folder has no file or cannot be read.
    """
    given = folder / path
    if given.is_dir():
        files = sorted(_walk(given))
        if not files:
            raise BadInput(f"{given}: no file in this folder (names beginning with '.' or '_' are left out)")
        return files
    if given.exists() or not glob.has_magic(str(path)):
        return [given]
    found = (folder / name for name in sorted(glob.glob(str(path), root_dir=folder, recursive=True)))
    files = [file for match in found for file in (sorted(_walk(match)) if match.is_dir() else [match])]
    if not files:
        raise BadInput(f"{given}: no file matches")
    return list(dict.fromkeys(files))


def _walk(folder: Path) -> Iterator[Path]:
    def stop(error: OSError) -> None:
        raise BadInput(f"{error.filename}: cannot read the folder: {error.strerror or error}")

    for parent, folders, names in os.walk(folder, onerror=stop):
        folders[:] = [name for name in folders if name[0] not in "._"]
        yield from (Path(parent, name) for name in names if name[0] not in "._")
