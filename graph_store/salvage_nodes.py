"""What can be read of the ids of a damaged generation, and of which nodes were deleted."""

import numpy as np

from graph_store.arena import ArenaFile
from graph_store.errors import CorruptBlock
from graph_store.ids import IdMap, shards_of
from graph_store.loose_shard import probes_from
from graph_store.manifest import StoredNodeType
from graph_store.ragged import starts_of
from graph_store.resident import PIECE_IDS, dead_key, node_file
from graph_store.salvage import Salvage, arena_file, sound_section
from graph_store.shard import id_key, open_piece
from graph_store.string_ids import StringMap, hash_strings

# Ids of a shard: int64[count], or their bytes where they are strings; None for one that is lost.
_Ids = list[bytes | None] | list[int | None]


def salvage_ids(salvage: Salvage, number: int) -> tuple[IdMap, np.ndarray]:
    """Return the ids of a node type, and the nodes whose ids are lost, int64[n].

    A node whose id is lost gets one that nobody has, and is deleted; its edges are to be left out.
    """
    manifest = salvage.manifest
    entry, generation = manifest.node_types[number], manifest.generation
    base = starts_of(np.array(entry.shard_counts, np.int64))
    path = node_file(salvage.store, generation, number)
    file = arena_file(path)
    if file is None or not np.array_equal(file.sections["base"], base) or sound_section(file, "base") is None:
        file = None
    parts: list[tuple[np.ndarray, np.ndarray]] = []
    dead, lost = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for shard in range(manifest.num_shards):
        ids, gone = _shard(salvage, number, shard, file, int(base[shard]))
        missing = [place for place, each in enumerate(ids) if each is None]
        what = f"ids of {entry.name!r}, whose nodes are deleted"
        salvage.lose(what, salvage.folder(shard), np.array(missing, np.int64), "local ids")
        _invent(ids, missing, shard, manifest.num_shards, entry)
        lost.append(np.array(missing, np.int64) * manifest.num_shards + shard)
        dead += [gone, lost[-1]]
        parts.append(_arrays(ids, entry))
    every_dead, nameless = np.unique(np.concatenate(dead)), np.concatenate(lost)
    values = np.concatenate([data for _, data in parts])
    if entry.id_type != "string":
        return IdMap.restore(entry.name, values, base, every_dead, id_type=entry.id_type), nameless
    starts = starts_of(np.concatenate([lengths for lengths, _ in parts]))
    data = values if values.size else np.zeros(1, np.uint8)
    return StringMap.restore_strings(entry.name, starts, data, base, dead=every_dead), nameless


def _arrays(ids: _Ids, entry: StoredNodeType) -> tuple[np.ndarray, np.ndarray]:
    if entry.id_type != "string":
        return np.empty(0, np.int64), np.array(ids, np.int64)
    lengths = np.array([len(text) for text in ids], np.int64)  # type: ignore[arg-type]
    return lengths, np.frombuffer(b"".join(ids), np.uint8)  # type: ignore[arg-type]


def _shard(salvage: Salvage, number: int, shard: int, file: ArenaFile | None, low: int) -> tuple[_Ids, np.ndarray]:
    """Return the ids of a shard, and its deleted nodes; `low` is the dense rank of its first node."""
    entry, num_shards = salvage.manifest.node_types[number], salvage.manifest.num_shards
    count, is_string = entry.shard_counts[shard], entry.id_type == "string"
    ids: list = [None] * count
    head, dead = id_key(number, 0)[:2], None
    with salvage.shard(shard) as database:
        for key, piece in database.readable("ids", head, probes_from(head, count, PIECE_IDS)):
            _take(ids, int.from_bytes(key[2:], "big"), piece, is_string)
        for key, piece in database.readable("meta", dead_key(number)):
            dead = _opened(piece) if key == dead_key(number) else dead
    for place in [place for place, each in enumerate(ids) if each is None] if file is not None else ():
        assert file is not None
        ids[place] = _of_arena(file, low + place, is_string)
    if dead is not None:
        return ids, dead[dead < count] * num_shards + shard
    known = sound_section(file, "dead")
    if known is not None:
        return ids, known[known % num_shards == shard]
    if entry.count < sum(entry.shard_counts):
        salvage.lost.append(f"{salvage.folder(shard)}: which {entry.name!r} of it were deleted; they are there again")
    return ids, np.empty(0, np.int64)


def _opened(piece: bytes) -> np.ndarray | None:
    """Return the numbers in a piece, None where it is damaged."""
    try:
        size, body = open_piece(piece, "")
    except CorruptBlock:
        return None
    return body[:size]


def _take(ids: list, first: int, piece: bytes, is_string: bool) -> None:
    """Enter the ids of a piece, unless it is damaged."""
    try:
        size, body = open_piece(piece, "")
    except CorruptBlock:
        return
    if first + size > len(ids):
        return
    if not is_string:
        ids[first : first + size] = body[:size].tolist()
        return
    starts, data = starts_of(body[:size]).tolist(), body[size:].tobytes()
    ids[first : first + size] = [data[low:high] for low, high in zip(starts[:-1], starts[1:])]


def _of_arena(file: ArenaFile, rank: int, is_string: bool) -> int | bytes | None:
    """Return the id of a dense rank as the arena has it, None where it is damaged there too."""
    ids = file.sections["ids"]
    try:
        if not is_string:
            file.checks["ids"].items(rank, rank + 1)
            return int(ids[rank])
        file.checks["offsets"].items(rank, rank + 2)
        low, high = file.sections["offsets"][rank : rank + 2].tolist()
        file.checks["ids"].items(low, high)
        return ids[low:high].tobytes()
    except CorruptBlock:
        return None


def _invent(ids: list, missing: list[int], shard: int, num_shards: int, entry: StoredNodeType) -> None:
    """Give nodes whose id is lost an id of their shard that no other has."""
    taken, number = set(ids) if missing else set(), -(2**62)
    for place in missing:
        while True:
            number += 1
            candidate: int | bytes = number
            hashes = np.array([number], np.int64)
            if entry.id_type == "string":
                candidate = b"lost %d" % number
                data = np.frombuffer(candidate, np.uint8)
                hashes = hash_strings(np.array([0, data.size]), data, (1 << 64) - 1)
            if int(shards_of(hashes, num_shards)[0]) == shard and candidate not in taken:
                break
        ids[place] = candidate
