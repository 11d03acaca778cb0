"""Packed blocks: adjacency lists ↔ the bytes that RocksDB holds; see `arena_blocks` for how the arena maps them.

A block is about 4 KiB of packed CSR for consecutive local ids; it starts at a multiple of 16 ids (a group). A node
of more than 512 edges is a hub: its group has a block of its own, its edges follow in chunks of 512, and the block
keeps a head record for it. All is in words of 64 bits, little endian:

======  =======================================================================================
word    content of a record (a block or a chunk of a hub)
======  =======================================================================================
0       magic "GSAB" (32 bits), version (8), flags (8), bits a neighbour (8), bits a time (8)
1       first local id (block), or the hub's local id (chunk)
2       nodes in the block, or the chunk's number (32); edges stored in the record (32)
3       crc32c of all other words of the record (32); words in the record (32)
4…      block: `indptr` of 32-bit numbers (bit 31 marks a hub), then 4 words a hub: degree, offset of its
        run in the arena from the start of the block, bits a time (8) and an edge id (8), first time
…       neighbours at fixed bit width, a guard word; weights (float32); first time, times, a guard word;
        lowest edge id (56) and bits an edge id (8), edge ids, a guard word
======  =======================================================================================

A full chunk holds 512 neighbours, so its payload ends at a word: chunks without their headers, one after the other,
are one run of packed neighbours, and neighbour j of a hub is found as directly as that of any other node.
"""

from typing import Any, NamedTuple

import numpy as np

from graph_store.kernels import kernel
from graph_store.packing import CRC_TABLES, bit_length, crc32c, pack, words_of

MAGIC = 0x42415347  # "GSAB"
VERSION = 2
FLAG_WEIGHTS, FLAG_TIMES, FLAG_HUBS, FLAG_CHUNK, FLAG_EDGE_IDS = 1, 2, 4, 8, 16
COLUMN_FLAGS = FLAG_WEIGHTS | FLAG_TIMES | FLAG_EDGE_IDS
GROUP_BITS = 4
GROUP_NODES = 1 << GROUP_BITS
HUB_EDGES = 512
BLOCK_WORDS = 512
BLOCK_NODES = 1024
HEADER_WORDS = 4
HUB_MARK = np.uint32(1 << 31)
DEGREE_MASK = np.uint32((1 << 31) - 1)
MAX_BITS = 57
# An edge id shares a word with the bits of its record.
MAX_EDGE_ID = (1 << 56) - 1

RECORD_FIELDS = ("offset", "words", "first", "ordinal", "chunk")


class Encoded(NamedTuple):
    """The records of some consecutive local ids, as they go to disk.

    words : uint64[w], the records one after the other
    records : int64[r, 5], of each record its offset and length in words, the block's first local id, its ordinal (0 the
        block, h + 1 its h-th hub) and its chunk number; in the order of their keys
    """

    words: np.ndarray
    records: np.ndarray


@kernel
def record_crc(words: np.ndarray, start: int, length: int, tables: np.ndarray) -> np.uint32:
    """Return the crc32c of a record's words, its word 3 (which holds the crc) left out."""
    crc = crc32c(words, start, start + 3, np.uint32(0), tables)
    return crc32c(words, start + 4, start + length, crc, tables)


@kernel
def plan_blocks(indptr: np.ndarray, bits: int) -> np.ndarray:
    """Cut nodes into blocks: int64[b + 1, 2] rows of (first node, whether it holds a hub); a last row ends it."""
    num_nodes = indptr.size - 1
    plan = np.empty(((num_nodes >> GROUP_BITS) + 2, 2), np.int64)
    count, start, edges, fresh = 0, 0, 0, True
    for group in range(0, num_nodes, GROUP_NODES):
        stop = min(group + GROUP_NODES, num_nodes)
        hub = False
        for node in range(group, stop):
            hub |= indptr[node + 1] - indptr[node] > HUB_EDGES
        size = indptr[stop] - indptr[group]
        full = (edges + size) * bits > BLOCK_WORDS * 64 or stop - start > BLOCK_NODES
        if fresh or hub or full:
            plan[count, 0], plan[count, 1] = group, hub
            count, start, edges = count + 1, group, 0
        edges += size
        fresh = hub
    plan[count, 0], plan[count, 1] = num_nodes, 0
    return plan[: count + 1]


@kernel
def _header(words: np.ndarray, at: int, flags: int, bits: int, time_bits: int) -> None:
    words[at] = (
        np.uint64(MAGIC)
        | np.uint64(VERSION) << np.uint64(32)
        | np.uint64(flags) << np.uint64(40)
        | np.uint64(bits) << np.uint64(48)
        | np.uint64(time_bits) << np.uint64(56)
    )


@kernel
def _seal(words: np.ndarray, at: int, length: int, tables: np.ndarray) -> None:
    words[at + 3] = np.uint64(record_crc(words, at, length, tables)) | np.uint64(length) << np.uint64(32)


@kernel
def _span(values: np.ndarray, start: int, stop: int) -> tuple[int, int]:
    """Return the lowest value and the bits that the others need above it."""
    low, high = values[start], values[start]
    for i in range(start, stop):
        low, high = min(low, values[i]), max(high, values[i])
    return low, bit_length(high - low)


@kernel
def _payload(words, at, edges, start, stop, bits, weighted, time_bits, time_base, id_bits, id_base):
    """Write neighbours and columns of edges `start…stop` from word `at` on, and return the word behind them."""
    neighbors, weights, times, edge_ids = edges
    size = stop - start
    bit = at << 6
    for i in range(start, stop):
        pack(words, bit, neighbors[i])
        bit += bits
    at += words_of(size, bits)
    if weighted:
        for i in range(size):
            raw = np.uint64(weights[start + i])
            words[at + (i >> 1)] |= raw << np.uint64(32 * (i & 1))
        at += (size + 1) >> 1
    if time_bits:
        words[at] = np.uint64(time_base)
        bit = (at + 1) << 6
        for i in range(start, stop):
            pack(words, bit, times[i] - time_base)
            bit += time_bits
        at += 1 + words_of(size, time_bits)
    if id_bits:
        words[at] = np.uint64(id_base) | np.uint64(id_bits) << np.uint64(56)
        bit = (at + 1) << 6
        for i in range(start, stop):
            pack(words, bit, edge_ids[i] - id_base)
            bit += id_bits
        at += 1 + words_of(size, id_bits)
    return at


@kernel
def run_words(degree: int, bits: int, weighted: bool, time_bits: int, id_bits: int) -> int:
    """Return the words of a hub's run in the arena."""
    total = words_of(degree, bits) + 1
    if weighted:
        total += (degree + 1) >> 1
    if time_bits:
        total += words_of(degree, time_bits) + 1
    if id_bits:
        total += words_of(degree, id_bits) + 2
    return total


@kernel
def _encode_block(words, at, indptr, edges, node, stop, first, bits, flags, tables, records, count):
    """Write one block without its hubs' chunks; returns (next word, records)."""
    times, edge_ids = edges[2], edges[3]
    weighted, timed, numbered = (flags & FLAG_WEIGHTS) != 0, (flags & FLAG_TIMES) != 0, (flags & FLAG_EDGE_IDS) != 0
    num_nodes, origin = stop - node, at
    indptr_at, heads = at + HEADER_WORDS, at + HEADER_WORDS + ((num_nodes + 2) >> 1)
    num_heads, stored = 0, 0
    for i in range(num_nodes + 1):
        mark = np.uint64(stored)
        if i < num_nodes:
            degree = indptr[node + i + 1] - indptr[node + i]
            if degree > HUB_EDGES:
                mark |= np.uint64(HUB_MARK)
                num_heads += 1
            else:
                stored += degree
        words[indptr_at + (i >> 1)] |= mark << np.uint64(32 * (i & 1))
    body = heads + 4 * num_heads
    base, time_bits, id_base, id_bits = 0, 0, 0, 0
    if timed and stored:
        base, time_bits = _span(times, indptr[node], indptr[stop])
    if numbered and stored:
        id_base, id_bits = _span(edge_ids, indptr[node], indptr[stop])
    _header(words, at, flags, bits, time_bits)
    words[at + 1] = np.uint64(first + node)
    words[at + 2] = np.uint64(num_nodes) | np.uint64(stored) << np.uint64(32)
    end = _block_payload(
        words, body, indptr, edges, node, stop, stored, bits, weighted, time_bits, base, id_bits, id_base
    )
    run, head = end - origin, heads
    for i in range(node, stop):
        degree = indptr[i + 1] - indptr[i]
        if degree > HUB_EDGES:
            words[head], words[head + 1] = np.uint64(degree), np.uint64(run)
            hub_bits, hub_base, hub_id_bits = 0, 0, 0
            if timed:
                hub_base, hub_bits = _span(times, indptr[i], indptr[i + 1])
            if numbered:
                _, hub_id_bits = _span(edge_ids, indptr[i], indptr[i + 1])
            words[head + 2] = np.uint64(hub_bits) | np.uint64(hub_id_bits) << np.uint64(8)
            words[head + 3] = np.uint64(hub_base)
            run += run_words(degree, bits, weighted, hub_bits, hub_id_bits)
            head += 4
    _seal(words, origin, end - origin, tables)
    records[count, 0], records[count, 1] = origin, end - origin
    records[count, 2], records[count, 3], records[count, 4] = first + node, 0, 0
    return end, count + 1


@kernel
def _block_payload(words, at, indptr, edges, node, stop, stored, bits, weighted, time_bits, base, id_bits, id_base):
    """Write the payload of a block's small nodes (the hubs' edges lie in chunks)."""
    neighbors, weights, times, edge_ids = edges
    bit, weight_at = at << 6, at + words_of(stored, bits) + 1
    time_at = weight_at + ((stored + 1) >> 1 if weighted else 0)
    time_bit = (time_at + 1) << 6
    id_at = time_at + (2 + words_of(stored, time_bits) if time_bits else 0)
    id_bit = (id_at + 1) << 6
    j = 0
    for i in range(node, stop):
        if indptr[i + 1] - indptr[i] > HUB_EDGES:
            continue
        for k in range(indptr[i], indptr[i + 1]):
            pack(words, bit, neighbors[k])
            bit += bits
            if weighted:
                words[weight_at + (j >> 1)] |= np.uint64(weights[k]) << np.uint64(32 * (j & 1))
            if time_bits:
                pack(words, time_bit, times[k] - base)
                time_bit += time_bits
            if id_bits:
                pack(words, id_bit, edge_ids[k] - id_base)
                id_bit += id_bits
            j += 1
    if time_bits:
        words[time_at] = np.uint64(base)
    if id_bits:
        words[id_at] = np.uint64(id_base) | np.uint64(id_bits) << np.uint64(56)
        return id_at + 2 + words_of(stored, id_bits)
    return id_at


@kernel
def _encode_chunks(words, at, indptr, edges, node, stop, first, bits, flags, tables, records, count):
    """Write the chunks of a block's hubs; returns (next word, records)."""
    times, edge_ids = edges[2], edges[3]
    ordinal = 0
    for i in range(node, stop):
        start, end = indptr[i], indptr[i + 1]
        if end - start <= HUB_EDGES:
            continue
        ordinal += 1
        base, time_bits, id_base, id_bits = 0, 0, 0, 0
        if flags & FLAG_TIMES:
            base, time_bits = _span(times, start, end)
        if flags & FLAG_EDGE_IDS:
            id_base, id_bits = _span(edge_ids, start, end)
        for chunk in range((end - start + HUB_EDGES - 1) // HUB_EDGES):
            low = start + chunk * HUB_EDGES
            high = min(low + HUB_EDGES, end)
            _header(words, at, flags | FLAG_CHUNK, bits, time_bits)
            words[at + 1] = np.uint64(first + i)
            words[at + 2] = np.uint64(chunk) | np.uint64(high - low) << np.uint64(32)
            weighted = (flags & FLAG_WEIGHTS) != 0
            behind = _payload(words, at + 4, edges, low, high, bits, weighted, time_bits, base, id_bits, id_base)
            _seal(words, at, behind - at, tables)
            records[count, 0], records[count, 1] = at, behind - at
            records[count, 2], records[count, 3], records[count, 4] = first + node, ordinal, chunk
            at, count = behind, count + 1
    return at, count


@kernel
def _encode(indptr, edges, firsts, bits, flags, plan, words, records, tables):
    at, count = 0, 0
    for block in range(plan.shape[0] - 1):
        node, stop, first = plan[block, 0], plan[block + 1, 0], firsts[block]
        own = flags | FLAG_HUBS if plan[block, 1] else flags
        at, count = _encode_block(words, at, indptr, edges, node, stop, first, bits, own, tables, records, count)
        if plan[block, 1]:
            at, count = _encode_chunks(words, at, indptr, edges, node, stop, first, bits, own, tables, records, count)
    return at, count


def encode(
    indptr: np.ndarray,
    neighbors: np.ndarray,
    weights: np.ndarray | None = None,
    times: np.ndarray | None = None,
    edge_ids: np.ndarray | None = None,
    *,
    first: int = 0,
    bits: int,
) -> Encoded:
    """Pack the adjacency lists of consecutive local ids into records.

    Parameters
    ----------
    indptr : int64[n + 1]
        Where each node's list starts; `first` is the local id of the first, a multiple of 16.
    neighbors : int64[m]
        Neighbour nodes, each below 2 ** bits.
    weights : float32[m], optional
    times : int64[m], optional
        Within a node ascending.
    edge_ids : int64[m], optional
        0 … 2^56 − 1: which row of the edge features goes with each edge.
    bits : int
        Bits of a neighbour, 1 to 57: the sampler reads one with a single unaligned load.

    Raises
    ------
    ValueError
        `bits` is out of range.
    """
    if not 1 <= bits <= MAX_BITS:
        raise ValueError(f"bits must be 1 to {MAX_BITS}, got {bits}")
    flags = _flags(weights, times, edge_ids)
    return _encoded(
        indptr, _columns(neighbors, weights, times, edge_ids), flags, plan_blocks(indptr, bits), first, bits
    )


def encode_groups(
    groups: np.ndarray,
    indptr: np.ndarray,
    neighbors: np.ndarray,
    weights: np.ndarray | None = None,
    times: np.ndarray | None = None,
    edge_ids: np.ndarray | None = None,
    *,
    sizes: np.ndarray,
    bits: int,
) -> Encoded:
    """Pack the lists of some groups of 16 local ids, a block each; the arguments are those of `encode`.

    Parameters
    ----------
    groups, sizes : int64[g]
        Which groups, and how many nodes each has: 16, or fewer at the end of a shard. The lists follow each other.
    """
    starts = np.zeros(groups.size + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    hubs = np.zeros(groups.size + 1, np.int64)
    if groups.size:
        hubs[:-1] = np.maximum.reduceat(np.diff(indptr), starts[:-1]) > HUB_EDGES
    plan = np.stack([starts, hubs], axis=1)
    columns = _columns(neighbors, weights, times, edge_ids)
    return _encoded(indptr, columns, _flags(weights, times, edge_ids), plan, groups * GROUP_NODES - starts[:-1], bits)


def _flags(weights: np.ndarray | None, times: np.ndarray | None, edge_ids: np.ndarray | None) -> int:
    has = (weights is not None, FLAG_WEIGHTS), (times is not None, FLAG_TIMES), (edge_ids is not None, FLAG_EDGE_IDS)
    return sum(flag for given, flag in has if given)


def _columns(
    neighbors: np.ndarray, weights: np.ndarray | None, times: np.ndarray | None, edge_ids: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return the arrays that the kernels take, empty ones for what is absent."""
    none32, none64 = np.empty(0, np.uint32), np.empty(0, np.int64)
    return (
        np.ascontiguousarray(neighbors, np.int64),
        none32 if weights is None else np.ascontiguousarray(weights, np.float32).view(np.uint32),
        none64 if times is None else np.ascontiguousarray(times, np.int64),
        none64 if edge_ids is None else np.ascontiguousarray(edge_ids, np.int64),
    )


def _encoded(
    indptr: np.ndarray, edges: tuple[np.ndarray, ...], flags: int, plan: np.ndarray, first: Any, bits: int
) -> Encoded:
    """Pack lists by a plan; `first` is what to add to a node's place, one number or one a block."""
    num_nodes, num_edges, num_blocks = indptr.size - 1, edges[0].size, plan.shape[0] - 1
    degrees = np.diff(indptr)
    chunks = int(((degrees[degrees > HUB_EDGES] + HUB_EDGES - 1) // HUB_EDGES).sum())
    num_records = num_blocks + chunks
    # Room: packed edges, rounded up to a word a record, indptr, headers and guards.
    room = num_edges * bits // 64 + num_nodes + num_records * 16 + 4 * chunks + 16
    room += (num_edges // 2) * bool(flags & FLAG_WEIGHTS)
    room += num_edges * (bool(flags & FLAG_TIMES) + bool(flags & FLAG_EDGE_IDS))
    words = np.zeros(room, np.uint64)
    records = np.empty((num_records, len(RECORD_FIELDS)), np.int64)
    firsts = np.broadcast_to(np.asarray(first, np.int64), num_blocks)
    used, count = _encode(indptr, edges, np.ascontiguousarray(firsts), bits, flags, plan, words, records, CRC_TABLES)
    return Encoded(words[:used], records[:count])


@kernel
def check_records(words: np.ndarray, records: np.ndarray, tables: np.ndarray) -> int:
    """Return the row of the first record whose magic, version, length or crc is wrong, -1 when all are right."""
    for row in range(records.shape[0]):
        at, length = records[row, 0], records[row, 1]
        if length < HEADER_WORDS or at < 0 or at + length > words.size:
            return row
        head, seal = words[at], words[at + 3]
        if head & np.uint64(0xFFFFFFFFFF) != np.uint64(MAGIC | VERSION << 32):
            return row
        if np.int64(seal >> np.uint64(32)) != length:
            return row
        if np.uint32(seal & np.uint64(0xFFFFFFFF)) != record_crc(words, at, length, tables):
            return row
    return -1


def first_bad_record(encoded: Encoded) -> int:
    """Return the row of the first damaged record, -1 when none is."""
    return int(check_records(encoded.words, encoded.records, CRC_TABLES))
