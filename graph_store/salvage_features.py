"""What can be read of the features of a damaged generation; values that are lost are absent."""

import numpy as np

from graph_store.arena import ArenaFile
from graph_store.errors import CorruptBlock
from graph_store.feature_records import NODES, feature_file, open_dictionary, piece_rows, prefix
from graph_store.feature_table import FeatureTables
from graph_store.feature_type import FeatureType
from graph_store.features import Sections, concatenate, empty_sections
from graph_store.loose_shard import probes_from
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.ragged import starts_of
from graph_store.salvage import Salvage, arena_file, sound_section
from graph_store.verify_features import opened, table_faults

_NO_WORDS: Sections = {"words": np.empty(0, np.uint8), "word_starts": np.zeros(1, np.int64)}


def salvage_tables(salvage: Salvage, kind: bytes, number: int) -> list[Sections]:
    """Return the tables of the features of a node type or an edge type."""
    manifest = salvage.manifest
    entry = manifest.node_types[number] if kind == NODES else manifest.edge_types[number]
    file = arena_file(feature_file(salvage.store, manifest.generation, kind, number))
    return [
        _table(salvage, entry, feature, prefix(kind, number, place), file, place)
        for place, feature in enumerate(entry.feature_types)
    ]


def _table(
    salvage: Salvage,
    entry: StoredNodeType | StoredEdgeType,
    feature: FeatureType,
    head: bytes,
    file: ArenaFile | None,
    place: int,
) -> Sections:
    parts = _expected(entry, feature, salvage.manifest.num_shards)
    found = _pieces(salvage, feature, head, parts)
    words = _dictionary(salvage, head, file, place) if feature.kind == "category" else None
    num_words = None if words is None else words["word_starts"].size - 1
    table, missing = [empty_sections(feature, 0)], [np.empty(0, np.int64)]
    for shard, first, row, count in parts:
        piece = found.get((shard, first))
        if piece is None or piece["present"].size != count:
            piece = _of_arena(file, place, feature, row, count)
        if piece is None or (feature.kind == "category" and words is None) or table_faults(feature, piece, num_words):
            missing.append(np.arange(row, row + count))
            piece = empty_sections(feature, count)
        if feature.kind == "category":
            piece = piece | (words or _NO_WORDS)
        table.append(piece)
    salvage.lose(f"feature {feature.name!r}, absent now", entry.name, np.concatenate(missing), "rows")
    return concatenate(feature, table)


def _expected(
    entry: StoredNodeType | StoredEdgeType, feature: FeatureType, num_shards: int
) -> list[tuple[int, int, int, int]]:
    """Return (shard, first row in the key, first row of the table, rows) of each piece, in the order of rows."""
    size = piece_rows(feature)
    if isinstance(entry, StoredEdgeType):
        return [
            (row // size % num_shards, row, row, min(size, entry.edge_rows - row))
            for row in range(0, entry.edge_rows, size)
        ]
    base = starts_of(np.array(entry.shard_counts, np.int64)).tolist()
    return [
        (shard, first, low + first, min(size, high - low - first))
        for shard, (low, high) in enumerate(zip(base[:-1], base[1:]))
        for first in range(0, high - low, size)
    ]


def _pieces(
    salvage: Salvage, feature: FeatureType, head: bytes, parts: list[tuple[int, int, int, int]]
) -> dict[tuple[int, int], Sections]:
    """Return the pieces of a table that can be read, by shard and first row in the key."""
    found: dict[tuple[int, int], Sections] = {}
    highest = max((first for _, first, _, _ in parts), default=0) + 1
    for shard in range(salvage.manifest.num_shards):
        with salvage.shard(shard) as database:
            for key, piece in database.readable("feat", head, probes_from(head, highest, piece_rows(feature))):
                try:
                    found[shard, int.from_bytes(key[5:], "big")] = opened(feature, piece, "")
                except CorruptBlock:
                    continue
    return found


def _dictionary(salvage: Salvage, head: bytes, file: ArenaFile | None, place: int) -> Sections | None:
    """Return the dictionary of a category, None where it is lost."""
    with salvage.shard(0) as database:
        for _, piece in database.readable("meta", b"w" + head):
            try:
                return open_dictionary(piece, "")
            except CorruptBlock:
                continue
    words, starts = sound_section(file, f"{place}.words"), sound_section(file, f"{place}.word_starts")
    return None if words is None or starts is None else {"words": words, "word_starts": starts}


def _of_arena(file: ArenaFile | None, place: int, feature: FeatureType, row: int, count: int) -> Sections | None:
    """Return some rows of a table as the arena has them, None where they are damaged there too."""
    if file is None:
        return None
    head = f"{place}."
    table = {name[len(head) :]: section for name, section in file.sections.items() if name.startswith(head)}
    checks = {name[len(head) :]: check for name, check in file.checks.items() if name.startswith(head)}
    if table["present"].size < row + count:
        return None
    tables = FeatureTables("", [feature], [table], lambda keys: keys, checks=[checks])
    try:
        found = tables.sections(feature.name, np.arange(row, row + count))
    except CorruptBlock:
        return None
    return {name: section for name, section in found.items() if name not in _NO_WORDS}
