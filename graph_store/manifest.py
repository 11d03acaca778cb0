"""The manifest: what a store holds, written last and renamed into place: a store is there whole or not at all."""

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin
from zlib import crc32

from graph_store.edge_type import TIME_UNITS
from graph_store.errors import CorruptBlock, StoreNotFound
from graph_store.feature_type import FeatureType

FORMAT = 2
NAME = "manifest.json"
_CRC = re.compile(rb',\n "crc32": "([0-9a-f]{8})"\n}\Z')


@dataclass(frozen=True)
class StoredNodeType:
    """A node type of a store.

    Attributes
    ----------
    name : str
    id_type : str
        "integer", "unsigned" or "string".
    count : int
        Nodes; those deleted are not counted.
    shard_counts : list of int
        Node numbers a shard has given out, deleted nodes included.
    features : list of dict
        Of each feature its name, kind, dtype, dim and scale.
    """

    name: str
    id_type: str
    count: int
    shard_counts: list[int]
    features: list[dict] = field(default_factory=list)

    @property
    def is_integer(self) -> bool:
        """True when ids are int64 or uint64."""
        return self.id_type != "string"

    @property
    def feature_types(self) -> list[FeatureType]:
        """The features, in the order of their numbers."""
        return [FeatureType(**entry) for entry in self.features]

    def check(self, num_shards: int) -> None:
        """Raise ValueError where its parts contradict each other."""
        _check_kinds(self)
        if self.id_type not in ("integer", "unsigned", "string"):
            raise ValueError(f"node type {self.name!r}: id_type {self.id_type!r}")
        if len(self.shard_counts) != num_shards or min(self.shard_counts) < 0:
            raise ValueError(f"node type {self.name!r}: counts of {len(self.shard_counts)} shards, not of {num_shards}")
        if not 0 <= self.count <= sum(self.shard_counts):
            raise ValueError(f"node type {self.name!r}: {self.count} of {sum(self.shard_counts)} nodes in all shards")
        _check_features(self)


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
    edge_rows : int
        Edge ids given out, rows of the edge features; 0 where the type has no features.
    features : list of dict
        As of a node type. Of a reverse type those of the type itself.
    time_unit : str or None
        What the times count.
    rules : dict of str to str
        What is done with duplicates, self loops, missing nodes and weights, as in the schema.
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
    edge_rows: int = 0
    features: list[dict] = field(default_factory=list)
    time_unit: str | None = None
    rules: dict[str, str] = field(default_factory=dict)

    @property
    def feature_types(self) -> list[FeatureType]:
        """The features, in the order of their numbers."""
        return [FeatureType(**entry) for entry in self.features]

    @property
    def numbered(self) -> bool:
        """True when each edge has an edge id, the row of its features."""
        return bool(self.features)

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
        _check_features(self)
        if self.time_unit not in (None, *TIME_UNITS):
            raise ValueError(f"edge type {self.name!r}: time_unit {self.time_unit!r}")
        if min(self.num_edges, self.num_entries, self.duplicates, self.self_loops, self.edge_rows) < 0:
            raise ValueError(f"edge type {self.name!r}: a negative count")


@dataclass(frozen=True)
class Manifest:
    """Everything a store's readers need to know before they open a file of it.

    Attributes
    ----------
    left_out : dict
        Of each type that the schema declared, a wildcard as one, the rows that a rule left out when the store was made.
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
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    files: dict[str, dict[str, int]] = field(default_factory=dict)

    def save(self, folder: Path) -> None:
        """Write the manifest beside its place, fsync, rename; first, as a copy, into its generation's folder."""
        if (folder / f"gen-{self.generation}").is_dir():
            self.save(folder / f"gen-{self.generation}")
        beside = folder / (NAME + ".partial")
        body = json.dumps(asdict(self), indent=1, ensure_ascii=False)
        with open(beside, "w", encoding="utf-8") as file:
            file.write(f'{body[:-2]},\n "crc32": "{crc32(body.encode()):08x}"\n}}')
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
                newer = isinstance(values["format"], int) and values["format"] > FORMAT
                remedy = "it was made by a newer gossamer; upgrade this one" if newer else "ingest again"
                raise CorruptBlock(f"{path}: store format {values['format']}, this version reads {FORMAT}; {remedy}")
            body, said = _without_crc(data)
            if crc32(body) != said:
                raise ValueError(f"its crc32 is {crc32(body):08x}, not {said:08x}")
            del values["crc32"]
            for name, kind in (("node_types", StoredNodeType), ("edge_types", StoredEdgeType)):
                if not isinstance(values[name], list):
                    raise ValueError(f"{name} is {values[name]!r}")
                values[name] = [kind(**entry) for entry in values[name]]
            manifest = cls(**values)
            manifest.check()
            return manifest
        except TypeError as error:
            if "unexpected keyword" not in str(error):
                raise CorruptBlock(f"{path}: damaged manifest ({error}); ingest again") from None
            raise CorruptBlock(f"{path}: made by another version of gossamer ({error}); ingest again") from None
        except (ValueError, KeyError, AttributeError, RecursionError) as error:
            raise CorruptBlock(f"{path}: damaged manifest ({error}); ingest again") from None

    def forward(self, number: int) -> int:
        """Return the number of the edge type that another is the reverse of; its own where it is none."""
        reverse = self.edge_types[number].reverse
        names = [entry.name for entry in self.edge_types]
        return number if reverse is None else min(number, names.index(reverse))

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


def _without_crc(data: bytes) -> tuple[bytes, int]:
    """Return what the crc32 of a manifest is of, and the crc32 it states."""
    found = _CRC.search(data)
    if found is None:
        raise ValueError("no crc32 at its end")
    return data[: found.start()] + b"\n}", int(found.group(1), 16)


def _check_features(entry: "StoredNodeType | StoredEdgeType") -> None:
    names = [feature.name for feature in entry.feature_types]
    if len(set(names)) < len(names):
        raise ValueError(f"type {entry.name!r}: two features of one name")


def _is(value: object, kind: Any) -> bool:
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _check_kinds(entry: Any) -> None:
    """Raise ValueError where an attribute is of another kind than declared."""
    for each in fields(entry):
        value, kind = getattr(entry, each.name), get_origin(each.type)
        declared = each.type if kind in (None, UnionType) else kind
        of_items = get_args(each.type)[0] if kind is list and get_args(each.type) else object
        if not _is(value, declared) or (kind is list and not all(_is(item, of_items) for item in value)):
            raise ValueError(f"{each.name} is {value!r}")


def sealed_entry(path: Path) -> dict[str, int]:
    """Return the bytes and the crc32 of a file, as `files` has them."""
    size = crc = 0
    with open(path, "rb") as file:
        while part := file.read(1 << 18):
            size, crc = size + len(part), crc32(part, crc)
    return {"bytes": size, "crc32": crc}


def fsync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
