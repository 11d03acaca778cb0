"""Node types and edge types with the files they come from: values checked once, when made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.sources import FORMATS, EdgeSource, NodeSource, expand
from graph_store.words import DELIMITERS, WILDCARD, check_choice, check_flag, check_name, check_relation, nearest

__all__ = [
    "DELIMITERS",
    "FORMATS",
    "EdgeSource",
    "EdgeType",
    "EdgeTypeName",
    "FeatureType",
    "NodeSource",
    "NodeType",
    "Schema",
    "nearest",
]

ID_TYPES = ("integer", "unsigned", "string")
TIME_UNITS = ("s", "ms", "us", "ns", "step")
BAD_ROWS = ("stop", "aside")
BAD_ROWS_LIMIT = 1000
_POLICIES = {
    "duplicates": ("first", "all", "sum", "max", "error"),
    "self_loops": ("keep", "drop", "error"),
    "missing_nodes": ("create", "drop", "error"),
    "bad_weights": ("error", "drop"),
    "negative_weights": ("keep", "error", "drop"),
}


@dataclass(frozen=True)
class NodeType:
    """A kind of node, the kind of its original ids, and the files that list its nodes, if any does.

    Attributes
    ----------
    name : str
        Letters, digits, `_`, `-` and `.`.
    id_type : str
        `"integer"` (int64), `"unsigned"` (uint64) or `"string"` (UTF-8, not empty). Stated, never guessed from
        the ids.
    sources : tuple of NodeSource
        Files of nodes; without any the nodes are those that edges name.
    features : tuple of FeatureType
        What the files of nodes tell of each node; names differ.
    bad_rows : str
        `"stop"`: a row that cannot be taken stops the ingest. `"aside"`: it is set aside, up to `bad_rows_limit`.
    bad_rows_limit : int
        Rows that may be set aside; one more stops the ingest.

    Raises
    ------
    BadInput
        A name, an id type or a value that cannot be.
    """

    name: str
    id_type: str = "integer"
    sources: tuple[NodeSource, ...] = ()
    features: tuple[FeatureType, ...] = ()
    bad_rows: str = "stop"
    bad_rows_limit: int = BAD_ROWS_LIMIT

    def __post_init__(self) -> None:
        check_name("node type", self.name)
        place = f"node type {self.name!r}"
        check_choice(place, "id_type", self.id_type, ID_TYPES)
        object.__setattr__(self, "sources", _values(place, "sources", self.sources, NodeSource))
        _check_features(place, self)
        _check_bad_rows(place, self)

    @property
    def is_integer(self) -> bool:
        """True when the original ids are 64-bit integers, signed or not."""
        return self.id_type != "string"


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
        check_name("node type", self.src)
        check_relation(self.relation)
        check_name("node type", self.dst)

    @classmethod
    def parse(cls, text: "str | EdgeTypeName") -> "EdgeTypeName":
        """Read `src:relation:dst`; `src:*:dst` stands for all relations that a column names.

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

    @property
    def is_wildcard(self) -> bool:
        """True for `src:*:dst`."""
        return self.relation == WILDCARD

    def with_relation(self, relation: str) -> "EdgeTypeName":
        """Return the type of one relation of a wildcard.

        Raises
        ------
        BadInput
            The word can be no relation, or is `*` itself.
        """
        if relation == WILDCARD:
            raise BadInput(f"relation name {WILDCARD!r}: stands for all relations and can be none of them; rename it")
        return replace(self, relation=relation)

    def reversed(self) -> "EdgeTypeName":
        """Return the name of the opposite type: `user:clicks:item` gives `item:rev_clicks:user`."""
        return EdgeTypeName(self.dst, f"rev_{self.relation}", self.src)

    def __str__(self) -> str:
        return f"{self.src}:{self.relation}:{self.dst}"


@dataclass(frozen=True)
class EdgeType:
    """An edge type, the files its edges come from, and how they are taken and stored.

    Attributes
    ----------
    name : EdgeTypeName
        `src:relation:dst`; a string is parsed. `src:*:dst` where every source has a column `relation`: one edge
        type for each of its values.
    sources : tuple of EdgeSource
        One or more files; all weighted or none, all timed or none.
    reverse : bool
        Also store the type `name.reversed()`.
    undirected : bool
        Count each pair once, whichever end comes first, and store it both ways; both ends are one node type.
    features : tuple of FeatureType
        What the files tell of each edge; names differ.
    time_unit : str or None
        `"s"`, `"ms"`, `"us"`, `"ns"` or `"step"`; None when it is not known. Times by position are steps.
    duplicates : str
        Of rows with the same ends and time keep the `"first"` or `"all"`, one with the `"sum"` or the `"max"` of
        their weights, or `"error"`.
    self_loops : str
        `"keep"`, `"drop"` or `"error"`.
    missing_nodes : str
        What becomes of an edge whose end no file of nodes lists, where the node type has files: `"create"` the
        node, `"drop"` the edge, or `"error"`.
    bad_weights : str
        For weights that are NaN or infinite: `"error"`, or `"drop"` the edge.
    negative_weights : str
        `"keep"`, `"error"`, or `"drop"` the edge.
    bad_rows, bad_rows_limit
        As in `NodeType`.

    Raises
    ------
    BadInput
        No source, sources that disagree, or options that exclude each other.
    """

    name: EdgeTypeName
    sources: tuple[EdgeSource, ...]
    reverse: bool = False
    undirected: bool = False
    features: tuple[FeatureType, ...] = ()
    time_unit: str | None = None
    duplicates: str = "first"
    self_loops: str = "keep"
    missing_nodes: str = "create"
    bad_weights: str = "error"
    negative_weights: str = "keep"
    bad_rows: str = "stop"
    bad_rows_limit: int = BAD_ROWS_LIMIT

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", EdgeTypeName.parse(self.name))
        place = f"edge type {self.name}"
        object.__setattr__(self, "sources", _values(place, "sources", self.sources, EdgeSource))
        if not self.sources:
            raise BadInput(f"{place}: no files; name at least one")
        self._check_directions(place)
        self._check_agreement(place)
        self._check_relation(place)
        for key, known in _POLICIES.items():
            check_choice(place, key, getattr(self, key), known)
        self._check_weights(place)
        self._check_time(place)
        _check_features(place, self)
        self._check_features(place)
        _check_bad_rows(place, self)

    def _check_directions(self, place: str) -> None:
        for key in ("reverse", "undirected"):
            check_flag(place, key, getattr(self, key))
        if self.reverse and self.undirected:
            raise BadInput(
                f"{place}: reverse and undirected exclude each other; an undirected type is stored both ways already"
            )
        if self.undirected and self.name.src != self.name.dst:
            raise BadInput(
                f"{place}: undirected needs one node type at both ends, "
                f"got {self.name.src!r} and {self.name.dst!r}; did you mean reverse?"
            )

    def _check_agreement(self, place: str) -> None:
        for role in ("weight", "time"):
            with_column = [source for source in self.sources if getattr(source, role) is not None]
            if with_column and len(with_column) < len(self.sources):
                without = next(source for source in self.sources if getattr(source, role) is None)
                raise BadInput(
                    f"{place}: {with_column[0].path} has a {role} column, "
                    f"{without.path} has none; all files of a type must agree"
                )

    def _check_relation(self, place: str) -> None:
        for source in self.sources:
            if self.name.is_wildcard and source.relation is None:
                raise BadInput(f"{place}: {source.path} has no relation column; '*' needs one, say relation")
            if not self.name.is_wildcard and source.relation is not None:
                raise BadInput(
                    f"{place}: {source.path} has a relation column, which is for edge types with '*'; "
                    f"say '{self.name.src}:*:{self.name.dst}' or leave relation out"
                )

    def _check_weights(self, place: str) -> None:
        if self.weighted:
            return
        if self.duplicates in ("sum", "max"):
            raise BadInput(f"{place}: duplicates is {self.duplicates!r}, but there are no weights; name their column")
        for key in ("bad_weights", "negative_weights"):
            if getattr(self, key) != _DEFAULTS[key]:
                raise BadInput(f"{place}: {key} is {getattr(self, key)!r}, but there are no weights; name their column")

    def _check_time(self, place: str) -> None:
        if self.time_unit is not None:
            check_choice(place, "time_unit", self.time_unit, TIME_UNITS)
            if not self.timed:
                raise BadInput(f"{place}: time_unit is {self.time_unit!r}, but there are no times; name their column")
        by_position = [source for source in self.sources if source.timed_by_position]
        if len(by_position) == len(self.sources) and self.time_unit is None:
            object.__setattr__(self, "time_unit", "step")
        if by_position and self.time_unit != "step":
            raise BadInput(
                f"{place}: {by_position[0].path} has times by position, which are steps; "
                "say time_unit = 'step' if the other times are too"
            )

    def _check_features(self, place: str) -> None:
        for source in self.sources:
            if self.features and (source.format == "adjacency" or source.is_sparse):
                what = "an adjacency file" if source.format == "adjacency" else "a sparse array"
                raise BadInput(f"{place}: {what} ({source.path}) holds no features; take them from a file with columns")

    @property
    def weighted(self) -> bool:
        """True when each edge has a weight."""
        return self.sources[0].weight is not None

    @property
    def timed(self) -> bool:
        """True when each edge has a time."""
        return self.sources[0].time is not None


_DEFAULTS = {each.name: each.default for each in fields(EdgeType)}


def _values(place: str, key: str, given: Any, kind: type) -> tuple[Any, ...]:
    values = (given,) if isinstance(given, kind) else given
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, kind) for value in values):
        raise BadInput(f"{place}: {key} is {given!r}, expected a tuple of {kind.__name__}")
    return tuple(values)


def _check_features(place: str, owner: NodeType | EdgeType) -> None:
    object.__setattr__(owner, "features", _values(place, "features", owner.features, FeatureType))
    names = [feature.name for feature in owner.features]
    for name in names:
        if names.count(name) > 1:
            raise BadInput(f"{place}: two features are called {name!r}; rename one of them")
    for feature in owner.features:
        for source in owner.sources:
            if feature.is_list and source.delimiter == " " and feature.separator in (None, " "):
                raise BadInput(
                    f"{place}: feature {feature.name!r} has blanks within a cell and {source.path} has blanks between "
                    "cells; say separator"
                )


def _check_bad_rows(place: str, owner: NodeType | EdgeType) -> None:
    check_choice(place, "bad_rows", owner.bad_rows, BAD_ROWS)
    limit = owner.bad_rows_limit
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise BadInput(f"{place}: bad_rows_limit is {limit!r}, expected a whole number of 0 or more")


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
            self._check_ends(edge_type)
            if edge_type.reverse:
                opposite = str(edge_type.name.reversed())
                if opposite in taken:
                    raise BadInput(
                        f"edge type {edge_type.name}: its reverse {opposite} is an edge type already; "
                        "rename one of them"
                    )
                taken.add(opposite)

    def _check_ends(self, edge_type: EdgeType) -> None:
        for end in (edge_type.name.src, edge_type.name.dst):
            if end not in self.node_types:
                raise BadInput(
                    f"edge type {edge_type.name}: node type {end!r} is not declared; {nearest(end, self.node_types)}"
                )
            if not self.node_types[end].is_integer and any(source.is_sparse for source in edge_type.sources):
                raise BadInput(
                    f"edge type {edge_type.name}: the ids of a sparse array are its row and column numbers, but "
                    f"node type {end!r} has string ids; declare integer ids"
                )

    @classmethod
    def from_edges(
        cls,
        files: str | Path | Sequence[str | Path],
        edge_type: str | EdgeTypeName,
        *,
        id_type: str | Mapping[str, str] = "integer",
        **options: Any,
    ) -> "Schema":
        """Make the schema of one edge type from one or more files of the same layout.

        Parameters
        ----------
        files : path or sequence of paths
            The files of edges; a folder stands for all its files, and `*`, `?`, `[…]` match several.
        edge_type : str or EdgeTypeName
            `src:relation:dst`.
        id_type : str or mapping of str to str
            `"integer"`, `"unsigned"` or `"string"` for both ends, or by node type (one left out is `"integer"`).
        **options
            `format`, `src`, `dst`, `weight`, `time`, `header`, `delimiter`, `relation` and `member` as in
            `EdgeSource`; `reverse`, `undirected`, `features`, `time_unit`, `duplicates` and the other policies as
            in `EdgeType`.

        Raises
        ------
        BadInput
            As in the classes this makes.
        """
        name = EdgeTypeName.parse(edge_type)
        paths = [Path(file) for file in ([files] if isinstance(files, (str, Path)) else files)]
        paths = [file for path in paths for file in expand(path)]
        if not paths:
            raise BadInput(f"edge type {name}: no files; name at least one")
        of_source, of_type = _split_options(f"edge type {name}", options)
        layout = EdgeSource(paths[0], **of_source)
        declared = EdgeType(name, tuple(replace(layout, path=path) for path in paths), **of_type)
        ends = (name.src, name.dst)
        by_type = dict.fromkeys(ends, id_type) if isinstance(id_type, str) else dict(id_type)
        for end in by_type:
            if end not in ends:
                raise BadInput(f"id type of {end!r}: edge type {name} has no such node type; {nearest(end, ends)}")
        return cls({end: NodeType(end, by_type.get(end, "integer")) for end in ends}, {str(name): declared})

    @classmethod
    def from_tables(
        cls,
        edges: Mapping[str, Any],
        nodes: Mapping[str, Any] | None = None,
        *,
        id_types: Mapping[str, str] | None = None,
    ) -> "Schema":
        """Make a schema of tables in memory.

        Parameters
        ----------
        edges : mapping of str to table or dict
            By `src:relation:dst` a table as `EdgeSource` has it, or a dict of it (`table`) and any options of
            `from_edges` that are not for files.
        nodes : mapping of str to table or dict, optional
            By node type a table as `NodeSource` has it, or a dict of it (`table`) and any of `id`, `features`,
            `bad_rows`, `bad_rows_limit`.
        id_types : mapping of str to str, optional
            The id type by node type; one left out is `"integer"`.

        Raises
        ------
        BadInput
            As in the classes this makes, or an option that is unknown.
        """
        edge_types = {}
        for name, given in edges.items():
            of_source, of_type = _split_options(f"edge type {name}", _table_options(f"edge type {name}", given))
            edge_type = EdgeType(EdgeTypeName.parse(name), (EdgeSource(**of_source),), **of_type)
            edge_types[str(edge_type.name)] = edge_type
        listed, id_types = dict(nodes or {}), dict(id_types or {})
        ends = {end for each in edge_types.values() for end in (each.name.src, each.name.dst)}
        for end in (*listed, *id_types):
            if end not in ends:
                raise BadInput(f"node type {end!r}: no edge type has it at an end; {nearest(end, sorted(ends))}")
        node_types = {}
        for end in ends:
            options: dict[str, Any] = {}
            if end in listed:
                given = _table_options(f"node type {end!r}", listed[end])
                of_source, options = _split_options(f"node type {end!r}", given, NodeSource, NodeType)
                options["sources"] = (NodeSource(**of_source),)
            node_types[end] = NodeType(end, id_types.get(end, "integer"), **options)
        return cls(node_types, edge_types)

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


def _table_options(place: str, given: Any) -> dict[str, Any]:
    options = dict(given) if isinstance(given, Mapping) else {"table": given}
    if options.get("table") is None:
        raise BadInput(f"{place}: no table; give one, or a dict of 'table' and options")
    return options


def _split_options(
    place: str, options: Mapping[str, Any], source: type = EdgeSource, owner: type = EdgeType
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options that are fields of the source, and those of the node or edge type."""
    of_source = {each.name for each in fields(source)} - {"path"}
    of_owner = {each.name for each in fields(owner)} - {"name", "id_type", "sources"}
    for key in options:
        if key not in of_source | of_owner:
            raise BadInput(f"{place}: unknown option {key!r}; {nearest(key, sorted(of_source | of_owner))}")
    split = [{key: value for key, value in options.items() if key in names} for names in (of_source, of_owner)]
    return split[0], split[1]
