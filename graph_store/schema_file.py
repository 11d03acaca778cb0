"""Schema files: TOML to a `Schema`; docs/ingest.md is its reference."""

import glob
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from graph_store.errors import BadInput
from graph_store.schema import EdgeSource, EdgeType, EdgeTypeName, NodeType, Schema, nearest

_NODE_KEYS = ("id_type",)
_SOURCE_KEYS = ("files", "format", "src", "dst", "weight", "time", "header", "delimiter")
_EDGE_KEYS = (*_SOURCE_KEYS, "sources", "reverse", "undirected")


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
    try:
        return _from_document(document, path.parent)
    except BadInput as error:
        raise BadInput(f"{path}: {error}") from None


def _from_document(document: dict[str, Any], folder: Path) -> Schema:
    _check_keys("the schema", document, ("nodes", "edges"))
    nodes, edges = _table("nodes", document.get("nodes", {})), _table("edges", document.get("edges", {}))
    node_types = {}
    for name, values in nodes.items():
        _check_keys(f"[nodes.{name}]", _table(f"nodes.{name}", values), _NODE_KEYS)
        node_types[name] = NodeType(name, values.get("id_type", "integer"))
    edge_types = {}
    for name, values in edges.items():
        place = f'[edges."{name}"]'
        _check_keys(place, _table(place, values), _EDGE_KEYS)
        try:
            edge_type = _edge_type(name, values, folder)
        except BadInput as error:
            raise BadInput(f"{place}: {error}") from None
        edge_types[str(edge_type.name)] = edge_type
        if not nodes:
            for end in (edge_type.name.src, edge_type.name.dst):
                node_types[end] = NodeType(end)
    return Schema(node_types, edge_types)


def _edge_type(name: str, values: dict[str, Any], folder: Path) -> EdgeType:
    shared = {key: values[key] for key in _SOURCE_KEYS if key in values}
    sources = list(_sources(shared, folder)) if "files" in shared else []
    listed = values.get("sources", [])
    if not isinstance(listed, list) or not all(isinstance(entry, dict) for entry in listed):
        raise BadInput(f"sources is {listed!r}, expected a list of tables, each with its files")
    for entry in listed:
        _check_keys("sources", entry, _SOURCE_KEYS)
        if "files" not in entry:
            raise BadInput("sources: an entry has no files")
        sources.extend(_sources({**shared, **entry}, folder))
    return EdgeType(
        EdgeTypeName.parse(name),
        tuple(sources),
        reverse=values.get("reverse", False),
        undirected=values.get("undirected", False),
    )


def _sources(values: dict[str, Any], folder: Path) -> Iterable[EdgeSource]:
    files = values["files"]
    names = [files] if isinstance(files, str) else files
    if not isinstance(names, list) or not all(isinstance(name, str) and name for name in names):
        raise BadInput(f"files is {files!r}, expected a path or a list of paths")
    options = {key: value for key, value in values.items() if key != "files"}
    for name in names:
        for path in _expand(folder / name):
            yield EdgeSource(path, **options)


def _expand(path: Path) -> list[Path]:
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = sorted(glob.glob(str(path)))
    if not found:
        raise BadInput(f"{path}: no file matches")
    return [Path(name) for name in found]


def _table(place: str, value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadInput(f"{place} is {value!r}, expected a table")
    return value


def _check_keys(place: str, values: Mapping[str, Any], known: Sequence[str]) -> None:
    for key in values:
        if key not in known:
            raise BadInput(f"{place}: unknown key {key!r}; {nearest(key, known)}")
