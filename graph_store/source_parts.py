"""Large files in parts, so that several ranks read them."""

from dataclasses import replace
from typing import Any

from graph_store.readers import told_format
from graph_store.schema import Schema
from graph_store.sources import EdgeSource, NodeSource


def in_parts(schema: Schema, parts: int) -> Schema:
    """Return the schema with each Parquet file as so many sources, each a part of its row groups, in their order."""
    if parts == 1:
        return schema

    def cut(owner: Any) -> Any:
        sources = [each for source in owner.sources for each in _parts(source, parts)]
        return replace(owner, sources=tuple(sources))

    node_types = {
        name: cut(node_type) if node_type.sources else node_type for name, node_type in schema.node_types.items()
    }
    return replace(
        schema, node_types=node_types, edge_types={name: cut(each) for name, each in schema.edge_types.items()}
    )


def _parts(source: EdgeSource | NodeSource, parts: int) -> list[EdgeSource | NodeSource]:
    if told_format(source) != "parquet":
        return [source]
    return [replace(source, part=(number, parts)) for number in range(parts)]
