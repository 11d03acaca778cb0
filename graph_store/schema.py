"""Node types, edge types and the files their edges come from: values checked once, when made."""

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from graph_store.errors import BadInput

ID_TYPES = ("integer", "string")
FORMATS = ("parquet", "csv", "tsv", "adjacency")
DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
_NAME = re.compile(r"\w[\w.\-]{0,99}")


def nearest(word: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown `word`: the nearest known one, or all of them.

    Parameters
    ----------
    word : object
        What was given.
    known : iterable of str
        What could have been given.

    Returns
    -------
    str
        `"did you mean 'dst'?"`, or `"known: …"` when nothing is near.
    """
    names = [str(name) for name in known]
    close = difflib.get_close_matches(str(word), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(repr(name) for name in names[:20])
    return f"known: {shown}{', …' if len(names) > 20 else ''}" if names else "there are none"


def _check_name(what: str, name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{what} name {name!r}: expected 1 to 100 letters, digits, '_', '-' or '.', "
            "beginning with a letter, a digit or '_'"
        )


@dataclass(frozen=True)
class NodeType:
    """A kind of node and the kind of its original ids.

    Attributes
    ----------
    name : str
        Letters, digits, `_`, `-` and `.`.
    id_type : str
        `"integer"` (int64) or `"string"` (UTF-8, not empty). Stated, never guessed from the ids.

    Raises
    ------
    BadInput
        A name or an id type that cannot be.
    """

    name: str
    id_type: str = "integer"

    def __post_init__(self) -> None:
        _check_name("node type", self.name)
        if self.id_type not in ID_TYPES:
            raise BadInput(
                f"node type {self.name!r}: id_type is {self.id_type!r}, expected 'integer' or 'string'; "
                + nearest(self.id_type, ID_TYPES)
            )

    @property
    def is_integer(self) -> bool:
        """True when the original ids are int64."""
        return self.id_type == "integer"


@dataclass(frozen=True, order=True)
class EdgeTypeName:
    """The three words of an edge type, written `src:relation:dst`, as in `user:clicks:item`.

    Raises
    ------
    BadInput
        A word that is no name.
    """

    src: str
    relation: str
    dst: str

    def __post_init__(self) -> None:
        _check_name("node type", self.src)
        _check_name("relation", self.relation)
        _check_name("node type", self.dst)

    @classmethod
    def parse(cls, text: "str | EdgeTypeName") -> "EdgeTypeName":
        """Read `src:relation:dst`.

        Raises
        ------
        BadInput
            Not three names with a colon between them.
        """
        if isinstance(text, EdgeTypeName):
            return text
        words = text.split(":") if isinstance(text, str) else []
        if len(words) != 3:
            raise BadInput(f"edge type {text!r}: expected 'src:relation:dst', as in 'user:clicks:item'")
        return cls(*words)

    def reversed(self) -> "EdgeTypeName":
        """Return the name of the opposite type: `user:clicks:item` gives `item:rev_clicks:user`."""
        return EdgeTypeName(self.dst, f"rev_{self.relation}", self.src)

    def __str__(self) -> str:
        return f"{self.src}:{self.relation}:{self.dst}"


@dataclass(frozen=True)
class EdgeSource:
    """One file of edges and where in it to find them.

    Attributes
    ----------
    path : Path
        The file.
    format : str or None
        `"parquet"`, `"csv"`, `"tsv"`, `"adjacency"`, or None to tell it from the file.
    src, dst : str, int or None
        The columns of the two ends: a header name, or a position from 0; None for the first and the second. A
        string of digits is a position unless the header holds that very name.
    weight, time : str, int or None
        The columns of float32 weights and int64 times, if there are any.
    header : bool or None
        Whether the first row of a text file names its columns; None to tell it from the file.
    delimiter : str or None
        What separates the columns of a text file, one character (a space stands for any run of spaces and
        tabs); None to tell it from the file. `"tab"`, `"space"`, `"comma"`, `"semicolon"` and `"pipe"` are
        read too.

    Raises
    ------
    BadInput
        A value that cannot be, or two that exclude each other.
    """

    path: Path
    format: str | None = None
    src: str | int | None = None
    dst: str | int | None = None
    weight: str | int | None = None
    time: str | int | None = None
    header: bool | None = None
    delimiter: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", Path(self.path))
        if self.format is not None and self.format not in FORMATS:
            raise BadInput(f"{self.path}: format {self.format!r} is unknown; {nearest(self.format, FORMATS)}")
        if self.header not in (None, True, False):
            raise BadInput(f"{self.path}: header is {self.header!r}, expected true or false")
        if self.delimiter is not None:
            object.__setattr__(self, "delimiter", self._delimiter(self.delimiter))
        self._check_columns()
        self._check_format()

    def _delimiter(self, given: object) -> str:
        text = DELIMITERS.get(given, given) if isinstance(given, str) else given
        if not isinstance(text, str) or len(text) != 1 or not text.isascii() or text in '"\r\n\0':
            raise BadInput(f"{self.path}: delimiter {given!r}: expected one ASCII character, 'tab' or 'space'")
        return text

    def _check_columns(self) -> None:
        taken: dict[str, str] = {}
        for role, column in self.columns().items():
            if isinstance(column, bool) or not isinstance(column, (str, int)) or column == "":
                raise BadInput(f"{self.path}: {role} is {column!r}, expected a column name or a position from 0")
            if isinstance(column, int) and column < 0:
                raise BadInput(f"{self.path}: {role} is {column}, expected a position from 0")
            if str(column) in taken:
                raise BadInput(f"{self.path}: {role} and {taken[str(column)]} are both column {column!r}")
            taken[str(column)] = role

    def _check_format(self) -> None:
        if self.format == "adjacency" and self.has_column_options:
            raise BadInput(
                f"{self.path}: an adjacency file ('user item item …' a line) has no columns, header or "
                "delimiter; leave them out, or say --format csv"
            )
        if self.format == "parquet" and (self.header is not None or self.delimiter is not None):
            raise BadInput(f"{self.path}: a Parquet file has no delimiter and always names its columns; leave them out")

    def columns(self) -> dict[str, str | int]:
        """Return the given columns by role, in the order src, dst, weight, time."""
        ends = {"src": 0 if self.src is None else self.src, "dst": 1 if self.dst is None else self.dst}
        given = {**ends, "weight": self.weight, "time": self.time}
        return {role: column for role, column in given.items() if column is not None}

    @property
    def has_column_options(self) -> bool:
        """True when anything was said that only a file with columns has."""
        named = (self.src, self.dst, self.weight, self.time, self.header, self.delimiter)
        return any(value is not None for value in named)


@dataclass(frozen=True)
class EdgeType:
    """An edge type, the files its edges come from, and how they are stored.

    Attributes
    ----------
    name : EdgeTypeName
        `src:relation:dst`; a string is parsed.
    sources : tuple of EdgeSource
        One or more files; all weighted or none, all timed or none.
    reverse : bool
        Also store the type `name.reversed()`.
    undirected : bool
        Count each pair once, whichever end comes first, and store it both ways; both ends are one node type.

    Raises
    ------
    BadInput
        No source, sources that disagree, or options that exclude each other.
    """

    name: EdgeTypeName
    sources: tuple[EdgeSource, ...]
    reverse: bool = False
    undirected: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", EdgeTypeName.parse(self.name))
        object.__setattr__(self, "sources", tuple(self.sources))
        for key in ("reverse", "undirected"):
            if not isinstance(getattr(self, key), bool):
                raise BadInput(f"edge type {self.name}: {key} is {getattr(self, key)!r}, expected true or false")
        if not self.sources:
            raise BadInput(f"edge type {self.name}: no files; name at least one")
        if self.reverse and self.undirected:
            raise BadInput(
                f"edge type {self.name}: reverse and undirected exclude each other; "
                "an undirected type is stored both ways already"
            )
        if self.undirected and self.name.src != self.name.dst:
            raise BadInput(
                f"edge type {self.name}: undirected needs one node type at both ends, "
                f"got {self.name.src!r} and {self.name.dst!r}; did you mean reverse?"
            )
        for role in ("weight", "time"):
            with_column = [source for source in self.sources if getattr(source, role) is not None]
            if with_column and len(with_column) < len(self.sources):
                without = next(source for source in self.sources if getattr(source, role) is None)
                raise BadInput(
                    f"edge type {self.name}: {with_column[0].path} has a {role} column, "
                    f"{without.path} has none; all files of a type must agree"
                )

    @property
    def weighted(self) -> bool:
        """True when each edge has a weight."""
        return self.sources[0].weight is not None

    @property
    def timed(self) -> bool:
        """True when each edge has a time."""
        return self.sources[0].time is not None


@dataclass(frozen=True)
class Schema:
    """The node types and edge types of one store.

    Attributes
    ----------
    node_types : dict of str to NodeType
        By name, sorted.
    edge_types : dict of str to EdgeType
        By `src:relation:dst`, in the order given. Reverse types are not listed.

    Raises
    ------
    BadInput
        No edge type, an end that is no node type, or a reverse type of a name already taken.
    """

    node_types: dict[str, NodeType]
    edge_types: dict[str, EdgeType] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "node_types", dict(sorted(self.node_types.items())))
        if not self.edge_types:
            raise BadInput("schema: no edge type; name at least one")
        taken = set(self.edge_types)
        for edge_type in self.edge_types.values():
            for end in (edge_type.name.src, edge_type.name.dst):
                if end not in self.node_types:
                    raise BadInput(
                        f"edge type {edge_type.name}: node type {end!r} is not declared; "
                        f"{nearest(end, self.node_types)}"
                    )
            if edge_type.reverse:
                opposite = str(edge_type.name.reversed())
                if opposite in taken:
                    raise BadInput(
                        f"edge type {edge_type.name}: its reverse {opposite} is an edge type already; "
                        "rename one of them"
                    )
                taken.add(opposite)

    @classmethod
    def from_edges(
        cls,
        files: str | Path | Sequence[str | Path],
        edge_type: str | EdgeTypeName,
        *,
        format: str | None = None,
        src: str | int | None = None,
        dst: str | int | None = None,
        weight: str | int | None = None,
        time: str | int | None = None,
        header: bool | None = None,
        delimiter: str | None = None,
        id_type: str | Mapping[str, str] = "integer",
        reverse: bool = False,
        undirected: bool = False,
    ) -> "Schema":
        """Make the schema of one edge type from one or more files of the same layout.

        Parameters
        ----------
        files : path or sequence of paths
            The files of edges.
        edge_type : str or EdgeTypeName
            `src:relation:dst`.
        id_type : str or mapping of str to str
            `"integer"` or `"string"` for both ends, or by node type (one left out is `"integer"`).
        format, src, dst, weight, time, header, delimiter
            As in `EdgeSource`.
        reverse, undirected : bool
            As in `EdgeType`.

        Raises
        ------
        BadInput
            As in the classes this makes.
        """
        name = EdgeTypeName.parse(edge_type)
        paths = [Path(file) for file in ([files] if isinstance(files, (str, Path)) else files)]
        if not paths:
            raise BadInput(f"edge type {name}: no files; name at least one")
        layout = EdgeSource(
            paths[0],
            format=format,
            src=src,
            dst=dst,
            weight=weight,
            time=time,
            header=header,
            delimiter=delimiter,
        )
        sources = tuple(replace(layout, path=path) for path in paths)
        ends = (name.src, name.dst)
        by_type = dict.fromkeys(ends, id_type) if isinstance(id_type, str) else dict(id_type)
        for end in by_type:
            if end not in ends:
                raise BadInput(f"id type of {end!r}: edge type {name} has no such node type; {nearest(end, ends)}")
        node_types = {end: NodeType(end, by_type.get(end, "integer")) for end in ends}
        declared = EdgeType(name, sources, reverse=reverse, undirected=undirected)
        return cls(node_types, {str(name): declared})

    @classmethod
    def from_toml(cls, path: str | Path) -> "Schema":
        """Read a schema file (docs/ingest.md has the reference); its paths are relative to it.

        Raises
        ------
        BadInput
            The file is absent or no TOML, a key is unknown, or a value cannot be; the message names it.
        """
        from graph_store.schema_file import read_schema

        return read_schema(Path(path))
