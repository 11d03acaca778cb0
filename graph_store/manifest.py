"""The manifest: what a store holds, written last and renamed into place: a store is there whole or not at all."""

import json
import os
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

from graph_store.errors import CorruptBlock, StoreNotFound

FORMAT = 1
NAME = "manifest.json"


@dataclass(frozen=True)
class StoredNodeType:
    """A node type of a store.

    Attributes
    ----------
    name : str
    id_type : str
        "integer" or "string".
    count : int
        Nodes.
    shard_counts : list of int
        Nodes a shard.
    """

    name: str
    id_type: str
    count: int
    shard_counts: list[int]

    def check(self, num_shards: int) -> None:
        """Raise ValueError where its parts contradict each other."""
        _check_kinds(self)
        if self.id_type not in ("integer", "string"):
            raise ValueError(f"node type {self.name!r}: id_type {self.id_type!r}")
        if len(self.shard_counts) != num_shards or min(self.shard_counts) < 0:
            raise ValueError(f"node type {self.name!r}: counts of {len(self.shard_counts)} shards, not of {num_shards}")
        if sum(self.shard_counts) != self.count:
            raise ValueError(f"node type {self.name!r}: {sum(self.shard_counts)} nodes in all shards, not {self.count}")


@dataclass(frozen=True)
class StoredEdgeType:
    """An edge type of a store.

    Attributes
    ----------
    name : str
        `src:relation:dst`.
    undirected : bool
        Each pair is counted once and stored both ways.
    reverse : str or None
        The type that holds the same edges the other way.
    weighted, timed : bool
    bits : int
        Bits of a neighbour in the blocks of ingest.
    num_edges : int
        Edges, an undirected pair once.
    num_entries : int
        Entries of all lists: two for an undirected pair of different nodes.
    duplicates : int
        Rows dropped since an equal one came before.
    self_loops : int
        Edges from a node to itself, kept.
    """

    name: str
    undirected: bool
    reverse: str | None
    weighted: bool
    timed: bool
    bits: int
    num_edges: int
    num_entries: int
    duplicates: int
    self_loops: int

    @property
    def src(self) -> str:
        """The source node type."""
        return self.name.split(":")[0]

    @property
    def relation(self) -> str:
        """The relation."""
        return self.name.split(":")[1]

    @property
    def dst(self) -> str:
        """The destination node type."""
        return self.name.split(":")[2]

    def check(self, nodes: Collection[str], edges: Mapping[str, "StoredEdgeType"]) -> None:
        """Raise ValueError where its parts contradict each other or the other types."""
        _check_kinds(self)
        if self.name.count(":") != 2 or self.src not in nodes or self.dst not in nodes:
            raise ValueError(f"edge type {self.name!r}: its ends are no node types")
        if self.reverse is not None and (self.reverse not in edges or edges[self.reverse].src != self.dst):
            raise ValueError(f"edge type {self.name!r}: reverse {self.reverse!r}")
        if self.undirected and self.reverse != self.name:
            raise ValueError(f"edge type {self.name!r}: undirected, but its reverse is {self.reverse!r}")
        if min(self.num_edges, self.num_entries, self.duplicates, self.self_loops) < 0:
            raise ValueError(f"edge type {self.name!r}: a negative count")


@dataclass(frozen=True)
class Manifest:
    """Everything a store's readers need to know before they open a file of it.

    Attributes
    ----------
    files : dict
        Of each sealed file, by path within the store, its bytes and crc32.
    """

    uuid: str
    num_shards: int
    node_types: list[StoredNodeType]
    edge_types: list[StoredEdgeType]
    generation: int = 1
    version: int = 1
    format: int = FORMAT
    files: dict[str, dict[str, int]] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the manifest beside its place, fsync, rename."""
        beside = folder / (NAME + ".partial")
        with open(beside, "w", encoding="utf-8") as file:
            json.dump(asdict(self), file, indent=1, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, folder / NAME)
        fsync_folder(folder)

    @classmethod
    def load(cls, folder: Path) -> "Manifest":
        """Read the manifest of a store.

        Raises
        ------
        StoreNotFound
            There is none.
        CorruptBlock
            It is damaged or of another format.
        """
        path = folder / NAME
        try:
            data = path.read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            raise StoreNotFound(f"{folder}: no store is here (no {NAME}); make one with `gossamer ingest`") from None
        try:
            values: dict[str, Any] = json.loads(data)
            if values["format"] != FORMAT:
                raise CorruptBlock(
                    f"{path}: store format {values['format']}, this version reads format {FORMAT}; ingest again"
                )
            for name, kind in (("node_types", StoredNodeType), ("edge_types", StoredEdgeType)):
                if not isinstance(values[name], list):
                    raise ValueError(f"{name} is {values[name]!r}")
                values[name] = [kind(**entry) for entry in values[name]]
            manifest = cls(**values)
            manifest.check()
            return manifest
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise CorruptBlock(f"{path}: damaged manifest ({error}); ingest again") from None

    def check(self) -> None:
        """Raise ValueError where its parts contradict each other."""
        _check_kinds(self)
        if min(self.num_shards, self.generation, self.version) < 1:
            raise ValueError(
                f"num_shards {self.num_shards}, generation {self.generation}, version {self.version}: must be 1 or more"
            )
        for entry in self.node_types:
            entry.check(self.num_shards)
        nodes, edges = {entry.name for entry in self.node_types}, {entry.name: entry for entry in self.edge_types}
        if len(nodes) != len(self.node_types) or len(edges) != len(self.edge_types):
            raise ValueError("two types of one name")
        for edge_type in self.edge_types:
            edge_type.check(nodes, edges)
        for name, sealed in self.files.items():
            if not _is(sealed["bytes"], int) or not _is(sealed["crc32"], int):
                raise ValueError(f"file {name!r}: {sealed}")


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _check_kinds(entry: Any) -> None:
    """Raise ValueError where an attribute is of another kind than declared."""
    for each in fields(entry):
        value, kind = getattr(entry, each.name), get_origin(each.type)
        declared = each.type if kind in (None, UnionType) else kind
        of_items = get_args(each.type)[0] if kind is list else object
        if not _is(value, declared) or (kind is list and not all(_is(item, of_items) for item in value)):
            raise ValueError(f"{each.name} is {value!r}")


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
