"""The ids of a node type as they are stored: its arena file and the pieces in its shards, written as they are read.

The bytes are those of `IdMap.restore` and `StringMap.restore_strings`, without ever holding all ids.
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from graph_store.arena import ArenaWriter
from graph_store.id_merge import Ids
from graph_store.ids import DIRECT_SPREAD, index_hash, num_slots
from graph_store.kernels import kernel
from graph_store.node_ids import NodeIds
from graph_store.resident import PIECE_IDS
from graph_store.shard import SortedFile, id_key, seal_piece
from graph_store.spool import Allowance, Piece, Spool

_IDS_AT_ONCE = 1 << 16
# Memory that making the index takes an id.
_INDEX_BYTES = 128


def write_node_file(path: Path, ids: NodeIds, *, room: int) -> None:
    """Write a node type's arena file.

    Parameters
    ----------
    room : int
        Bytes that this may take.
    """
    strings = ids.node_type.id_type == "string"
    low, high = (0, -1) if strings else ids.bounds()
    spread = high - low + 1
    direct = 0 < spread <= DIRECT_SPREAD * ids.count + 1024
    none = np.empty(0, np.int64)
    with ArenaWriter(path) as writer:
        writer.add("base", ids.base)
        writer.add("low", np.array([low], np.int64))
        writer.begin("direct", np.int64)
        if direct:
            for window in _windows(ids, low, spread, room):
                writer.append(window)
        writer.begin("index", np.int64)
        if not direct:
            for part in _index(ids, path, room):
                writer.append(part)
        if strings:
            writer.add("dead", none)
            _write_strings(writer, ids)
        else:
            writer.begin("ids", np.int64)
            for block in _all(ids):
                writer.append(block.keys)
            writer.add("dead", none)


def _all(ids: NodeIds) -> Iterator[Ids]:
    for shard in range(ids.num_shards):
        yield from ids.read(shard, at_once=_IDS_AT_ONCE)


def _write_strings(writer: ArenaWriter, ids: NodeIds) -> None:
    written = 0
    writer.begin("ids", np.uint8)
    for block in _all(ids):
        assert block.data is not None
        writer.append(block.data)
        written += block.data.size
    if not written:
        writer.append(np.zeros(1, np.uint8))
    writer.begin("offsets", np.int64)
    end = np.zeros(1, np.int64)
    writer.append(end)
    for block in _all(ids):
        assert block.lengths is not None
        ends = np.cumsum(block.lengths, dtype=np.int64) + end[-1]
        writer.append(ends)
        end = ends
    writer.add("hash_mask", np.array([ids.hash_mask], np.uint64))


def _windows(ids: NodeIds, low: int, spread: int, room: int) -> Iterator[np.ndarray]:
    """Yield the table of nodes by id, a range of ids at a time."""
    size = max(1 << 12, room // 16)
    left = [ids.read(shard, at_once=_IDS_AT_ONCE) for shard in range(ids.num_shards)]
    waiting = [(np.empty(0, np.int64), 0)] * ids.num_shards
    for first in range(0, spread, size):
        window = np.full(min(size, spread - first), -1, np.int64)
        for shard in range(ids.num_shards):
            keys, local = waiting[shard]
            while True:
                count = int(np.searchsorted(keys, low + first + window.size)) if first + size < spread else keys.size
                window[keys[:count] - (low + first)] = np.arange(local, local + count) * ids.num_shards + shard
                keys, local = keys[count:], local + count
                if keys.size:
                    break
                block = next(left[shard], None)
                if block is None:
                    break
                keys = block.keys
            waiting[shard] = keys, local
        yield window


@kernel
def _hash_all(keys: np.ndarray, hashes: np.ndarray) -> None:
    for i in range(keys.size):
        hashes[i] = index_hash(keys[i])


@kernel
def _place(keys, nodes, hashes, order, shift, begin, slots):
    """Place entries in the order of their hashes; `slots` begin with slot `begin`. Returns the slot behind the last."""
    behind = begin
    for i in range(order.size):
        row = order[i]
        slot = max(np.int64(hashes[row] >> shift), behind)
        slots[2 * (slot - begin)], slots[2 * (slot - begin) + 1] = keys[row], nodes[row] + 1
        behind = slot + 1
    return behind


def _index(ids: NodeIds, path: Path, room: int) -> Iterator[np.ndarray]:
    """Yield the index from its beginning to its end, a range of hashes at a time; see `ids.build_index`."""
    slots = num_slots(ids.count)
    shift = np.uint64(65 - slots.bit_length())
    parts = 1
    while parts < slots and ids.count * _INDEX_BYTES > parts * room:
        parts *= 2
    spool = Spool(path.with_name(path.name + ".index"), Allowance(room if parts == 1 else 0))
    try:
        blocks = [_spooled(spool, keys, nodes, parts) for keys, nodes in _entries(ids)]
        begin = 0
        for part in range(parts):
            bounds = [(block, *block[2][part : part + 2].tolist()) for block in blocks]
            keys, nodes = (
                np.concatenate([np.empty(0, np.int64), *(spool.get(block[place], *span) for block, *span in bounds)])
                for place in (0, 1)
            )
            hashes = np.empty(keys.size, np.uint64)
            _hash_all(keys, hashes)
            order = np.argsort(hashes)
            ordered = hashes[order]
            if np.any(ordered[1:] == ordered[:-1]):
                order = np.lexsort((nodes, hashes))
            # Entries may run over the last home of the range; memory that is not written to is not taken.
            last_home = max(slots * (part + 1) // parts, begin)
            out = np.zeros(2 * (last_home - begin + keys.size), np.int64)
            end = max(last_home, int(_place(keys, nodes, hashes, order, shift, begin, out)))
            yield out[: 2 * (end - begin)]
            begin = end
        yield np.zeros(2, np.int64)
    finally:
        spool.close()


def _entries(ids: NodeIds) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    for shard in range(ids.num_shards):
        local = 0
        for block in ids.read(shard, at_once=_IDS_AT_ONCE):
            yield block.keys, np.arange(local, local + block.keys.size) * ids.num_shards + shard
            local += block.keys.size


def _spooled(spool: Spool, keys: np.ndarray, nodes: np.ndarray, parts: int) -> tuple[Piece, Piece, np.ndarray]:
    """Put entries away by the part of the hashes they fall in."""
    if parts == 1:
        return spool.put(keys), spool.put(nodes), np.array([0, keys.size])
    hashes = np.empty(keys.size, np.uint64)
    _hash_all(keys, hashes)
    part = (hashes >> np.uint64(65 - parts.bit_length())).astype(np.int64)
    order = np.argsort(part, kind="stable")
    starts = np.zeros(parts + 1, np.int64)
    np.cumsum(np.bincount(part, minlength=parts), out=starts[1:])
    return spool.put(keys[order]), spool.put(nodes[order]), starts


def write_id_pieces(file: SortedFile, number: int, ids: NodeIds, shard: int) -> None:
    """Write the ids of one shard into its SST file, at most 4096 a piece."""
    first = 0
    for piece in _even(ids.read(shard, at_once=_IDS_AT_ONCE)):
        if piece.lengths is None or piece.data is None:
            body = piece.keys
        else:
            body = np.zeros(piece.lengths.size + (piece.data.size + 7) // 8, np.int64)
            body[: piece.lengths.size] = piece.lengths
            body[piece.lengths.size :].view(np.uint8)[: piece.data.size] = piece.data
        file.put(id_key(number, first), seal_piece(body, piece.keys.size, first))
        first += piece.keys.size


def _even(blocks: Iterator[Ids]) -> Iterator[Ids]:
    """Cut ids into pieces of 4096 and a last one."""
    held: Ids | None = None
    for block in blocks:
        ids = block if held is None else _joined(held, block)
        data_at, low = 0, 0
        while ids.keys.size - low >= PIECE_IDS:
            piece, data_at = _cut(ids, low, low + PIECE_IDS, data_at)
            yield piece
            low += PIECE_IDS
        held = _cut(ids, low, ids.keys.size, data_at)[0] if low < ids.keys.size else None
    if held is not None:
        yield held


def _joined(first: Ids, second: Ids) -> Ids:
    return Ids(*(None if one is None else np.concatenate([one, other]) for one, other in zip(first, second)))  # type: ignore[arg-type]


def _cut(ids: Ids, low: int, high: int, data_at: int) -> tuple[Ids, int]:
    if ids.lengths is None or ids.data is None:
        return Ids(ids.keys[low:high]), 0
    lengths = ids.lengths[low:high]
    data_end = data_at + int(lengths.sum(dtype=np.int64))
    return Ids(ids.keys[low:high], lengths, ids.data[data_at:data_end]), data_end
