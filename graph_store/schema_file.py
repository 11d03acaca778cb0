"""Schema files: TOML to a `Schema`; docs/ingest.md is its reference."""

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from graph_store.errors import BadInput
from graph_store.schema import EdgeSource, EdgeType, EdgeTypeName, FeatureType, NodeSource, NodeType, Schema, nearest
from graph_store.sources import expand
from graph_store.words import within


def _keys(kind: type, *, without: Sequence[str]) -> tuple[str, ...]:
    return tuple(each.name for each in fields(kind) if each.name not in without)


_OF_EDGE_SOURCE = ("files", *_keys(EdgeSource, without=("path", "table", "part")))
_OF_NODE_SOURCE = ("files", *_keys(NodeSource, without=("path", "table", "part")))
_OF_EDGE_TYPE = _keys(EdgeType, without=("name", "sources", "features"))
_OF_NODE_TYPE = _keys(NodeType, without=("name", "sources", "features"))
_OF_FEATURE = ("column", *_keys(FeatureType, without=("name",)))


def read_schema(path: Path) -> Schema:
    """Read a schema file; its paths are relative to it.

    Raises
    ------
    BadInput
        The file is absent or no TOML, a key is unknown, or a value cannot be; the message names it.
    """
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"{path}: cannot read the schema: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not TOML: {error}") from None
    with within(path):
        return _from_document(document, path.parent)


def _from_document(document: dict[str, Any], folder: Path) -> Schema:
    _check_keys("the schema", document, ("nodes", "edges"))
    nodes, edges = _table("nodes", document.get("nodes", {})), _table("edges", document.get("edges", {}))
    node_types = {name: _node_type(name, values, folder) for name, values in nodes.items()}
    edge_types = {}
    for name, values in edges.items():
        edge_type = _edge_type(name, values, folder)
        edge_types[str(edge_type.name)] = edge_type
        if not nodes:
            for end in (edge_type.name.src, edge_type.name.dst):
                node_types[end] = NodeType(end)
    schema = Schema(node_types, edge_types)
    for edge_type in edge_types.values():
        _check_missing_nodes(edge_type, node_types)
    return schema


def _check_missing_nodes(edge_type: EdgeType, node_types: Mapping[str, NodeType]) -> None:
    ends = (edge_type.name.src, edge_type.name.dst)
    if edge_type.missing_nodes != "create" and not any(node_types[end].sources for end in ends):
        raise BadInput(
            f'[edges."{edge_type.name}"]: missing_nodes is {edge_type.missing_nodes!r}, but there are no files of '
            f"nodes for {' or '.join(dict.fromkeys(ends))}; name them or leave it out"
        )


def _node_type(name: str, values: object, folder: Path) -> NodeType:
    place = f"[nodes.{name}]"
    table = _table(place, values)
    _check_keys(place, table, (*_OF_NODE_SOURCE, *_OF_NODE_TYPE, "sources", "features"))
    features = _features(place, table.get("features", {}))
    with within(place):
        sources = tuple(NodeSource(path, **options) for path, options in _sources(table, folder, _OF_NODE_SOURCE))
        for key in table:
            if not sources and key != "id_type":
                raise BadInput(f"{key} but no files; name the files of these nodes, or leave it out")
        return NodeType(name, sources=sources, features=features, **_some(table, _OF_NODE_TYPE))


def _edge_type(name: str, values: object, folder: Path) -> EdgeType:
    place = f'[edges."{name}"]'
    table = _table(place, values)
    _check_keys(place, table, (*_OF_EDGE_SOURCE, *_OF_EDGE_TYPE, "sources", "features"))
    features = _features(place, table.get("features", {}))
    with within(place):
        sources = tuple(EdgeSource(path, **options) for path, options in _sources(table, folder, _OF_EDGE_SOURCE))
        return EdgeType(EdgeTypeName.parse(name), sources, features=features, **_some(table, _OF_EDGE_TYPE))


def _features(owner: str, values: object) -> tuple[FeatureType, ...]:
    if not isinstance(values, dict):
        raise BadInput(f"{owner}: features is {values!r}, expected tables, as in {owner[:-1]}.features.NAME]")
    features = []
    for name, given in values.items():
        place = f"{owner[:-1]}.features.{name}]"
        options = dict(_table(place, given))
        _check_keys(place, options, _OF_FEATURE)
        with within(place):
            if "column" in options and "columns" in options:
                raise BadInput("column and columns; give one of them")
            columns = options.pop("column", options.pop("columns", ()))
            features.append(FeatureType(name, columns=columns, **options))
    return tuple(features)


def _sources(table: dict[str, Any], folder: Path, keys: Sequence[str]) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the path and the options of each file that a table of nodes or edges names."""
    shared = _some(table, keys)
    listed = table.get("sources", [])
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise BadInput(f"sources is {listed!r}, expected a list of tables, each with its files")
    if "files" in shared:
        yield from _files(shared, folder)
    for entry in listed:
        _check_keys("sources", entry, keys)
        if "files" not in entry:
            raise BadInput("sources: an entry has no files")
        yield from _files({**shared, **entry}, folder)


def _files(values: dict[str, Any], folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    files = values["files"]
    names = [files] if isinstance(files, str) else files
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise BadInput(f"files is {files!r}, expected a path or a list of paths")
    options = {key: value for key, value in values.items() if key != "files"}
    for name in names:
        for path in expand(name, folder):
            yield path, options


def _some(values: Mapping[str, Any], keys: Sequence[str]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key in keys}


def _table(place: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{place} is {value!r}, expected a table")
    return value


def _check_keys(place: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in values:
        if key not in known:
            raise BadInput(f"{place}: unknown key {key!r}; {nearest(key, known)}")
