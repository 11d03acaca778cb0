"""Checks the nodes of a type: their ids and the deleted ones, in the shards and in the arena."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graph_store.arena import ArenaFile
from graph_store.ids import IdMap, shards_of
from graph_store.manifest import Manifest
from graph_store.ragged import starts_of
from graph_store.resident import dead_key, shard_folder
from graph_store.shard import Shard, id_key, open_piece
from graph_store.string_ids import StringMap, hash_strings

_STEP = 1 << 22


class NodeCheck:
    """Takes the shards one after the other, and then sums up.

    Parameters
    ----------
    file : ArenaFile or None
        The type's, None where it is absent or damaged.

    Attributes
    ----------
    dead : int64[d]
        The deleted nodes, once all shards were taken.
    """

    def __init__(self, manifest: Manifest, store: Path, number: int, file: ArenaFile | None) -> None:
        self.manifest, self.number, self.entry = manifest, number, manifest.node_types[number]
        self._store, self.file = store, file
        self.base = starts_of(np.array(self.entry.shard_counts, np.int64))
        self._is_string = self.entry.id_type == "string"
        self._map: IdMap | None = None
        self._dead: list[np.ndarray] = [np.empty(0, np.int64)]
        self._complete = True

    @property
    def dead(self) -> np.ndarray:
        """The deleted nodes, ascending."""
        return np.sort(np.concatenate(self._dead))

    def begin(self) -> Iterator[str]:
        """Yield the faults of the arena file that the shards have no part in."""
        if self.file is None:
            return
        sections = self.file.sections
        if not np.array_equal(sections["base"], self.base):
            yield self._other("base")
            return
        self._map = StringMap(self.entry.name, sections) if self._is_string else IdMap(self.entry.name, sections)

    def _other(self, section: str) -> str:
        assert self.file is not None
        return f"{self.file.path}: section {section!r} is not what the shards hold; delete the file, it is rebuilt"

    def shard(self, database: Shard, shard: int) -> Iterator[str]:
        """Yield the faults of a shard; CorruptBlock where it cannot be read on."""
        self._complete = False
        path = shard_folder(self._store, self.manifest.generation, shard)
        count, name = 0, self.entry.name
        hashes: list[np.ndarray] = [np.empty(0, np.int64)]
        texts: list[tuple[np.ndarray, np.ndarray]] = []
        dead = np.empty(0, np.int64)
        for _, piece in database.items("meta", dead_key(self.number)):
            size, body = open_piece(piece, f"{path}: 'meta', key {dead_key(self.number).hex()}: deleted {name!r}")
            dead = body[:size] * self.manifest.num_shards + shard
            if size and (body[0] < 0 or np.any(np.diff(body[:size]) <= 0) or body[size - 1] >= self.base_size(shard)):
                yield f"{path}: 'meta', key {dead_key(self.number).hex()}: deleted {name!r} are no ascending local ids"
        self._dead.append(dead)
        for key, piece in database.items("ids", id_key(self.number, 0)[:2]):
            where = f"{path}: 'ids', key {key.hex()}: ids of {name!r} from {count}"
            size, body = open_piece(piece, where)
            if key != id_key(self.number, count):
                yield f"{where} are missing"
                return
            if self._is_string:
                starts, data = starts_of(body[:size]), body[size:].view(np.uint8)
                if body[:size].min(initial=1) < 1 or starts[-1] > data.size:
                    yield f"{where} have lengths that cannot be"
                    return
                data = data[: int(starts[-1])]
                hashes.append(hash_strings(starts, data, self._hash_mask))
                texts.append((starts, data))
            else:
                starts, data = np.arange(size + 1), body[:size]
                hashes.append(data)
            yield from self._piece(where, shard, count, starts, data, hashes[-1], dead)
            count += size
        if count != self.base_size(shard):
            yield f"{path}: {count} ids of {name!r}, the manifest says {self.base_size(shard)}"
        if _has_twice(np.concatenate(hashes), texts):
            yield f"{path}: two ids of {name!r} are the same"
        self._complete = True

    def base_size(self, shard: int) -> int:
        """Return the node numbers that a shard has given out."""
        return int(self.base[shard + 1] - self.base[shard])

    @property
    def _hash_mask(self) -> int:
        return self._map.hash_mask if isinstance(self._map, StringMap) else (1 << 64) - 1

    def _piece(self, where, shard, first, starts, data, hashes, dead):
        """Yield the faults of some ids: their shard, and what the arena says of them."""
        size, num_shards = starts.size - 1, self.manifest.num_shards
        if np.any(shards_of(hashes, num_shards) != shard):
            yield f"{where} lie in a shard that is not theirs"
        if self._map is None or first + size > self.base_size(shard):
            return
        ranks = slice(int(self.base[shard]) + first, int(self.base[shard]) + first + size)
        nodes = np.arange(first, first + size) * num_shards + shard
        expected = np.where(np.isin(nodes, dead), -1, nodes)
        if isinstance(self._map, StringMap):
            offsets = self._map.offsets[ranks.start : ranks.stop + 1]
            same = np.array_equal(np.diff(offsets), np.diff(starts)) and np.array_equal(
                self._map.originals[int(offsets[0]) : int(offsets[-1])], data
            )
            found = self._map.find_bytes(starts, data if data.size else np.zeros(1, np.uint8))
        else:
            same, found = np.array_equal(self._map.originals[ranks], data), self._map.find(data)
        if not same:
            yield self._other("ids")
            self._map = None
        elif not np.array_equal(found, expected):
            yield self._other("direct" if self._map.direct.size else "index")
            self._map = None

    def finish(self) -> Iterator[str]:
        """Yield the faults that show when all shards were read."""
        live = int(self.base[-1]) - self.dead.size
        if not self._complete:
            return
        if self.entry.count != live:
            yield f"{self._store}: {live} nodes of {self.entry.name!r}, the manifest says {self.entry.count}"
        if self._map is None:
            return
        if not np.array_equal(self._map.dead, self.dead):
            yield self._other("dead")
        table, name = (self._map.direct, "direct") if self._map.direct.size else (self._map.index[1::2], "index")
        in_use = np.int64(0)
        for low in range(0, table.size, _STEP):
            part = table[low : low + _STEP]
            in_use += np.count_nonzero(part >= 0 if name == "direct" else part)
        if in_use != live:
            yield self._other(name)


def _has_twice(hashes: np.ndarray, texts: list[tuple[np.ndarray, np.ndarray]]) -> bool:
    """Say whether two ids are the same; of strings, given by pieces as well, where two of one hash are."""
    order = np.argsort(hashes, kind="stable")
    equal = np.flatnonzero(np.diff(hashes[order]) == 0)
    if not texts or equal.size == 0:
        return equal.size > 0
    firsts = np.cumsum([0, *(starts.size - 1 for starts, _ in texts)])

    def text(rank: int) -> bytes:
        piece = int(np.searchsorted(firsts, rank, side="right")) - 1
        starts, data = texts[piece]
        place = rank - int(firsts[piece])
        return data[int(starts[place]) : int(starts[place + 1])].tobytes()

    suspects = np.flatnonzero(np.isin(hashes, hashes[order[equal]]))
    known = [(int(hashes[rank]), text(rank)) for rank in suspects.tolist()]
    return len(set(known)) < len(known)
