"""Checks the features of a type: the pieces of their tables in the shards, and the arena file of all of them."""

import struct
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from graph_store.arena import ArenaFile
from graph_store.errors import CorruptBlock
from graph_store.feature_records import NODES, open_dictionary, piece_rows, prefix
from graph_store.feature_type import FeatureType
from graph_store.features import Sections, is_ragged, value_type, width, words_of
from graph_store.manifest import Manifest, StoredNodeType
from graph_store.ragged import starts_of
from graph_store.resident import shard_folder
from graph_store.shard import Shard, open_piece


def opened(feature: FeatureType, piece: bytes, where: str) -> Sections:
    """Return the sections of a piece of a table.

    Raises
    ------
    CorruptBlock
        It is damaged, or its parts do not fit.
    """
    count, body = open_piece(piece, where)
    data = body.view(np.uint8)
    present, data = data[:count], data[(count + 7) // 8 * 8 :]
    sections: Sections = {"present": present}
    items = count * width(feature)
    if is_ragged(feature):
        lengths, data = data[: 8 * count].view(np.int64), data[8 * count :]
        if lengths.size != count or lengths.min(initial=0) < 0:
            raise CorruptBlock(f"{where}: lengths that cannot be; restore the store from its source")
        sections["starts"] = starts_of(lengths)
        items = int(sections["starts"][-1])
    size = items * value_type(feature).itemsize
    if present.size != count or not size <= data.size < size + 8:
        raise CorruptBlock(f"{where}: {data.size} bytes of values, expected {size}; restore the store from its source")
    return sections | {"values": data[:size].view(value_type(feature))}


def table_faults(feature: FeatureType, table: Mapping[str, np.ndarray], words: int | None) -> list[str]:
    """Return what is wrong with the values of a table; `words` are how many a category's dictionary has."""
    found = [] if table["present"].max(initial=0) <= 1 else ["marks of presence that are neither 0 nor 1"]
    values, there = table["values"], table["present"] > 0
    if feature.kind == "category" and words is not None:
        codes = values[there]
        if codes.min(initial=0) < 0 or codes.max(initial=-1) >= words:
            found.append(f"words past the {words} of its dictionary")
    if feature.kind == "string" and not _is_text(values, table["starts"]):
        found.append("text that is no UTF-8")
    return found


def _is_text(data: np.ndarray, starts: np.ndarray) -> bool:
    try:
        data.tobytes().decode()
    except UnicodeDecodeError:
        return False
    # A string must not begin within a character.
    inner = starts[starts < data.size]
    return not np.any((data[inner] & 0xC0) == 0x80)


class FeatureCheck:
    """Takes the shards one after the other.

    Parameters
    ----------
    kind : bytes
        `NODES` or `EDGES`.
    file : ArenaFile or None
        The type's, None where it is absent or damaged.
    """

    def __init__(self, manifest: Manifest, store: Path, kind: bytes, number: int, file: ArenaFile | None) -> None:
        self.manifest, self._store, self.kind, self.number, self.file = manifest, store, kind, number, file
        self.entry = manifest.node_types[number] if kind == NODES else manifest.edge_types[number]
        self.features = self.entry.feature_types
        self._words: dict[int, int] = {}
        self._differing: set[str] = set()
        counts = self.entry.shard_counts if isinstance(self.entry, StoredNodeType) else []
        self._base = starts_of(np.array(counts, np.int64))

    def shard(self, database: Shard, shard: int) -> Iterator[str]:
        """Yield the faults of a shard, the first one taken first: it has the dictionaries."""
        for place, feature in enumerate(self.features):
            try:
                if shard == 0 and feature.kind == "category":
                    yield from self._dictionary(database, place)
                yield from self._pieces(database, shard, place, feature)
            except CorruptBlock as error:
                yield str(error)

    def _dictionary(self, database: Shard, place: int) -> Iterator[str]:
        key = b"w" + prefix(self.kind, self.number, place)
        where = f"{shard_folder(self._store, self.manifest.generation, 0)}: 'meta', key {key.hex()}"
        found = list(database.items("meta", key))
        if len(found) != 1:
            yield f"{where}: the dictionary of feature {self.features[place].name!r} is missing"
            return
        sections = open_dictionary(found[0][1], where)
        words = words_of(sections)
        self._words[place] = len(words)
        if sorted(set(words)) != words:
            yield f"{where}: words of feature {self.features[place].name!r} are not ascending"
        yield from self._compare(place, "words", slice(None), sections["words"])
        yield from self._compare(place, "word_starts", slice(None), sections["word_starts"])

    def _expected(self, feature: FeatureType, shard: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first row in the key, first row of the table, rows) of each piece that a shard must have."""
        size = piece_rows(feature)
        if isinstance(self.entry, StoredNodeType):
            low, high = int(self._base[shard]), int(self._base[shard + 1])
            for first in range(0, high - low, size):
                yield first, low + first, min(size, high - low - first)
        else:
            rows = self.entry.edge_rows
            for first in range(shard * size, rows, size * self.manifest.num_shards):
                yield first, first, min(size, rows - first)

    def _pieces(self, database: Shard, shard: int, place: int, feature: FeatureType) -> Iterator[str]:
        head = prefix(self.kind, self.number, place)
        expected = self._expected(feature, shard)
        path = f"{shard_folder(self._store, self.manifest.generation, shard)}: 'feat'"
        what = f"feature {feature.name!r} of {self.entry.name!r}"
        for key, piece in database.items("feat", head):
            where = f"{path}, key {key.hex()}: {what}"
            first, row, count = next(expected, (-1, 0, 0))
            if key != head + struct.pack(">Q", max(first, 0)) or first < 0:
                yield f"{where}: found where another piece is due"
                return
            table = opened(feature, piece, where)
            if table["present"].size != count:
                yield f"{where}: {table['present'].size} rows, expected {count}"
                return
            for fault in table_faults(feature, table, self._words.get(place)):
                yield f"{where}: {fault}"
            yield from self._compare_rows(place, feature, row, table)
        missing = next(expected, None)
        if missing is not None:
            yield f"{path}, key {(head + struct.pack('>Q', missing[0])).hex()}: {what}: a piece is missing"

    def _compare_rows(self, place: int, feature: FeatureType, row: int, table: Sections) -> Iterator[str]:
        rows = table["present"].size
        yield from self._compare(place, "present", slice(row, row + rows), table["present"])
        if not is_ragged(feature):
            values = slice(row * width(feature), (row + rows) * width(feature))
            yield from self._compare(place, "values", values, table["values"])
        elif self.file is not None:
            starts = self.file.sections[f"{place}.starts"]
            if row + rows >= starts.size or not np.array_equal(
                np.diff(starts[row : row + rows + 1]), np.diff(table["starts"])
            ):
                yield from self._compare(place, "starts", slice(0, 0), np.ones(1))
            else:
                span = slice(int(starts[row]), int(starts[row + rows]))
                yield from self._compare(place, "values", span, table["values"])

    def _compare(self, place: int, section: str, span: slice, expected: np.ndarray) -> Iterator[str]:
        """Yield a fault, once a section, where a part of it is not as the shards have it."""
        name = f"{place}.{section}"
        if self.file is None or name in self._differing:
            return
        # Bytes: NaN is equal to itself here.
        if name not in self.file.sections or self.file.sections[name][span].tobytes() != expected.tobytes():
            self._differing.add(name)
            yield f"{self.file.path}: section {name!r} is not what the shards hold; delete the file, it is rebuilt"
