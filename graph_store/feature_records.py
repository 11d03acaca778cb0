"""Tables of features ↔ the sealed pieces of them in the shards and the arena file of all features of a type.

A piece holds some consecutive rows. Rows of nodes lie in the node's shard, counted by local id; rows of edges are cut
in pieces by edge id, piece number p in shard p % num_shards. Keys of `feat`: "n" or "e", type (2 bytes), feature (2),
first row (8). The body is of 64-bit words: `present`, a byte a row; then the values, or the lengths (int64) of the
rows' lists and the values. Dictionaries of categories are pieces of `meta` in shard 0: "w", then the key as above,
first row 0.
"""

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from graph_store.arena import ArenaFile, ArenaWriter
from graph_store.errors import CorruptBlock
from graph_store.feature_type import FeatureType
from graph_store.features import Sections, is_ragged, value_type, width
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.section_check import SectionCheck
from graph_store.shard import open_piece, seal_piece

_KEY = struct.Struct(">cHHQ")
NODES, EDGES = b"n", b"e"
_PIECE_BYTES = 1 << 16
_RAGGED_ROWS = 1024


def piece_rows(feature: FeatureType) -> int:
    """Return how many rows a piece holds: 64 KiB of values, or 1,024 lists."""
    if is_ragged(feature):
        return _RAGGED_ROWS
    return min(1 << 14, max(1, _PIECE_BYTES // (width(feature) * value_type(feature).itemsize)))


def prefix(kind: bytes, number: int, place: int) -> bytes:
    """Return what the keys of a feature begin with."""
    return struct.pack(">cHH", kind, number, place)


def pieces(
    feature: FeatureType, sections: Mapping[str, np.ndarray], key: bytes, rows: slice, step: int = 1
) -> Iterator[tuple[bytes, bytes]]:
    """Yield (key, sealed piece) of the rows `rows.start … rows.stop − 1`; their numbers in keys begin at 0.

    With `step` only every so-many-th piece is taken, beginning with `rows.start`, and numbers are those of the table.
    """
    size = piece_rows(feature)
    origin = rows.start if step == 1 else 0
    for low in range(rows.start, rows.stop, size * step):
        high = min(low + size, rows.stop)
        present = np.ascontiguousarray(sections["present"][low:high])
        values = sections["values"]
        if is_ragged(feature):
            starts = sections["starts"]
            parts = [present, np.diff(starts[low : high + 1]), values[int(starts[low]) : int(starts[high])]]
        else:
            parts = [present, values[low * width(feature) : high * width(feature)]]
        yield key + struct.pack(">Q", low - origin), seal_piece(_words(parts), high - low, low - origin)


def _words(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Join arrays as bytes, each filled up to whole words."""
    data = b"".join(part.tobytes() + b"\0" * (-part.nbytes % 8) for part in map(np.ascontiguousarray, parts))
    return np.frombuffer(data, np.int64)


def dictionary_piece(sections: Mapping[str, np.ndarray]) -> bytes:
    """Return the sealed dictionary of a category."""
    starts = sections["word_starts"]
    return seal_piece(_words([np.diff(starts), sections["words"]]), starts.size - 1, 0)


def open_dictionary(piece: bytes, where: str) -> Sections:
    """Return the sections of a dictionary."""
    count, body = open_piece(piece, where)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(body[:count], out=starts[1:])
    return {"words": body[count:].view(np.uint8)[: int(starts[-1])], "word_starts": starts}


def table_of(feature: FeatureType, found: Sequence[tuple[bytes, str]], rows: int) -> Sections:
    """Put the pieces of a table together, given in the order of its rows with where each was found.

    Raises
    ------
    CorruptBlock
        One is damaged, or they hold another number of rows.
    """
    present, values, lengths, total = [], [], [], 0
    for piece, where in found:
        count, body = open_piece(piece, where)
        data = body.view(np.uint8)
        present.append(data[:count])
        data = data[(count + 7) // 8 * 8 :]
        if is_ragged(feature):
            lengths.append(data[: 8 * count].view(np.int64))
            data = data[8 * count :]
            items = int(lengths[-1].sum())
        else:
            items = count * width(feature)
        values.append(data[: items * value_type(feature).itemsize].view(value_type(feature)))
        total += count
    if total != rows:
        where = found[0][1] if found else f"feature {feature.name!r}"
        raise CorruptBlock(f"{where}: {total} rows, the manifest says {rows}; restore the store from its source")
    sections = {
        "present": np.concatenate([*present, np.empty(0, np.uint8)]),
        "values": np.concatenate([*values, np.empty(0, value_type(feature))]),
    }
    if is_ragged(feature):
        sections["starts"] = np.zeros(rows + 1, np.int64)
        np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]), out=sections["starts"][1:])
    return sections


def feature_file(store: Path, generation: int, kind: bytes, number: int) -> Path:
    """Return the arena file of all features of a node type or an edge type."""
    return store / "arena" / f"gen-{generation}.{'node' if kind == NODES else 'edge'}-features-{number}"


def write_tables(path: Path, tables: Sequence[Mapping[str, np.ndarray]]) -> None:
    """Write the arena file of some features."""
    with ArenaWriter(path) as writer:
        for place, sections in enumerate(tables):
            for name, section in sections.items():
                writer.begin(f"{place}.{name}", section.dtype)
                for low in range(0, section.size, 1 << 22):
                    writer.append(section[low : low + (1 << 22)])


def read_tables(path: Path, count: int) -> tuple[list[Sections], list[dict[str, SectionCheck]]]:
    """Map the arena file of `count` features; returns their tables, and what checks their sections."""
    file = ArenaFile(path)
    file.check(larger=[name for name in file.sections if name.endswith((".present", ".values", ".starts"))])
    tables: list[Sections] = [{} for _ in range(count)]
    checks: list[dict[str, SectionCheck]] = [{} for _ in range(count)]
    for name, section in file.sections.items():
        place, _, part = name.partition(".")
        tables[int(place)][part], checks[int(place)][part] = section, file.checks[name]
    return tables, checks


def records_of_shard(
    features: Sequence[FeatureType],
    tables: Sequence[Mapping[str, np.ndarray]],
    kind: bytes,
    number: int,
    *,
    shard: int,
    base: np.ndarray | int,
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pieces of all features of a type that belong to one shard, in the order of their keys.

    Parameters
    ----------
    base : int64[num_shards + 1] or int
        Of nodes the first row of each shard; of edges the number of shards.
    """
    for place, (feature, sections) in enumerate(zip(features, tables)):
        key = prefix(kind, number, place)
        if isinstance(base, int):
            rows = slice(shard * piece_rows(feature), sections["present"].size)
            yield from pieces(feature, sections, key, rows, step=base)
        else:
            yield from pieces(feature, sections, key, slice(int(base[shard]), int(base[shard + 1])))


def tables_from_shards(
    entry: StoredNodeType | StoredEdgeType,
    kind: bytes,
    number: int,
    num_shards: int,
    read: Callable[[int, str, bytes], list[tuple[bytes, bytes, str]]],
) -> list[Sections]:
    """Put the tables of a type together from its shards.

    Parameters
    ----------
    read : callable
        `read(shard, family, prefix)` gives the (key, piece, where) of a shard in order.
    """
    tables = []
    for place, feature in enumerate(entry.feature_types):
        key = prefix(kind, number, place)
        found = [read(shard, "feat", key) for shard in range(num_shards)]
        if isinstance(entry, StoredNodeType):
            ordered = [item for part in found for item in part]
            rows = sum(entry.shard_counts)
        else:
            ordered = sorted(item for part in found for item in part)
            rows = entry.edge_rows
        sections = table_of(feature, [(piece, where) for _, piece, where in ordered], rows)
        if feature.kind == "category":
            words = read(0, "meta", b"w" + key)
            if len(words) != 1:
                raise CorruptBlock(f"{entry.name}: the dictionary of feature {feature.name!r} is missing in shard 0")
            sections |= open_dictionary(words[0][1], words[0][2])
        tables.append(sections)
    return tables
