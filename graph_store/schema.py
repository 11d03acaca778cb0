"""The node types and edge types of a store, with the files they come from: values checked once, when made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from graph_store.edge_type import TIME_UNITS, EdgeType, EdgeTypeName
from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.sources import FORMATS, EdgeSource, NodeSource, check_features, expand
from graph_store.words import (
    BAD_ROWS_LIMIT,
    DELIMITERS,
    check_bad_rows,
    check_choice,
    check_name,
    nearest,
    tuple_of,
    within,
)

__all__ = [
    "DELIMITERS",
    "FORMATS",
    "ID_TYPES",
    "TIME_UNITS",
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
        object.__setattr__(self, "sources", tuple_of(NodeSource, place, "sources", self.sources))
        object.__setattr__(self, "features", tuple_of(FeatureType, place, "features", self.features))
        check_features(place, self.features, self.sources)
        check_bad_rows(place, self.bad_rows, self.bad_rows_limit)

    @property
    def is_integer(self) -> bool:
        """True when the original ids are 64-bit integers, signed or not."""
        return self.id_type != "string"


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
        types: dict[str, NodeType | EdgeType] = {**self.node_types, **self.edge_types}
        for key, value in types.items():
            if key != str(value.name):
                raise BadInput(f"schema: {key!r} stands for the type {str(value.name)!r}; use its own name")
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
            with within(f"edge type {name}"):
                source = EdgeSource(**of_source)
            edge_type = EdgeType(EdgeTypeName.parse(name), (source,), **of_type)
            edge_types[str(edge_type.name)] = edge_type
        listed, id_types = dict(nodes or {}), dict(id_types or {})
        ends = {end for each in edge_types.values() for end in (each.name.src, each.name.dst)}
        for end in (*listed, *id_types):
            if end not in ends:
                raise BadInput(f"node type {end!r}: no edge type has it at an end; {nearest(end, sorted(ends))}")
        options = {end: _node_options(end, table) for end, table in listed.items()}
        node_types = {end: NodeType(end, id_types.get(end, "integer"), **options.get(end, {})) for end in ends}
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


def _node_options(name: str, given: Any) -> dict[str, Any]:
    place = f"node type {name!r}"
    of_source, of_type = _split_options(place, _table_options(place, given), NodeSource, NodeType)
    with within(place):
        return {**of_type, "sources": (NodeSource(**of_source),)}


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
