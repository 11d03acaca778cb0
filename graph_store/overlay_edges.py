"""The overlay of an edge type: merged lists of the nodes whose edges changed, in blocks behind those that were there.

A node's list is found through the directory alone. So an overlay is another directory, in which the groups of changed
nodes point to new blocks: every reader of the arena reads it as it reads a base, at the same speed.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.arena_blocks import BLOCK_SHIFT, DELTA_MASK, arena_words, check_addressable, fill_arena
from graph_store.blocks import DEGREE_MASK, FLAG_HUBS, GROUP_BITS, GROUP_NODES, HEADER_WORDS, encode_groups
from graph_store.delta import EdgeDelta
from graph_store.ids import nodes_of_ranks
from graph_store.kernels import kernel
from graph_store.merge import Kills, Merged, Rows, merge
from graph_store.ragged import starts_of

_SCANNED_NODES = 1 << 16


class EdgeChange(NamedTuple):
    """What there is to know of an edge type to build its overlay.

    Attributes
    ----------
    adjacency : Adjacency
        The lists before: of the base, or of an earlier overlay on it.
    reverse : Adjacency or None
        The lists the other way.
    behind : int
        The word at which those of this overlay begin.
    counts, dst_counts : int64[num_shards]
        Node numbers given out, of the source and the destination type.
    deaths, dst_deaths : dict of int to int
        Deleted nodes of either type and the operation that last deleted each.
    bits : int
        Bits of a neighbour so far.
    loops : int
        Self loops so far.
    same_type : bool
        Both ends are of one type.
    rule : str
        For duplicates.
    """

    adjacency: Adjacency
    reverse: Adjacency | None
    behind: int
    counts: np.ndarray
    dst_counts: np.ndarray
    deaths: dict[int, int]
    dst_deaths: dict[int, int]
    bits: int
    loops: int
    same_type: bool
    rule: str

    @property
    def any_nodes(self) -> bool:
        """True when nodes at either end were deleted, or new ones came to the source type."""
        return bool(self.deaths or self.dst_deaths or (self.counts != self.adjacency.counts).any())


def oriented(delta: EdgeDelta, *, swapped: bool, both: bool) -> Rows:
    """Return a type's operations as rows whose `row` is the source node; `swapped` or `both` ways."""

    def joined(parts: list, dtype: type) -> np.ndarray:
        return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype, copy=False)

    src, dst = joined(delta.src, np.int64), joined(delta.dst, np.int64)
    rest = [
        joined(delta.weight, np.float32),
        *(joined(part, np.int64) for part in (delta.time, delta.edge_ids, delta.kind, delta.order)),
    ]
    rows = Rows(dst, src, *rest) if swapped else Rows(src, dst, *rest)
    if not both:
        return rows
    # Each row and then its opposite, so that the order in which they happened stays; self loops once.
    pairs = Rows(*(np.repeat(column, 2) for column in rows))
    pairs.row[1::2], pairs.neighbors[1::2] = rows.neighbors, rows.row
    keep = np.ones(pairs.row.size, bool)
    keep[1::2] = rows.row != rows.neighbors
    return pairs.take(keep)


def build(change: EdgeChange, rows: Rows, expired: np.ndarray) -> dict[str, np.ndarray]:
    """Return the sections of the overlay: `words`, and those an `Adjacency` takes besides.

    Parameters
    ----------
    change : EdgeChange
    rows : Rows
        The operations; `row` is the source node.
    expired : int64[e, 2]
        Operation and time of each expiry.
    """
    change.adjacency.check_blocks()  # all of them are read for the table of blocks
    dirty = dirty_nodes(change, rows, expired)
    group_base = starts_of((change.counts + GROUP_NODES - 1) // GROUP_NODES)
    groups = _dirty_groups(change, dirty, group_base)
    merged = _group_lists(change, rows, expired, groups, dirty, group_base)
    loops = np.array([change.loops + merged.more_loops], np.int64)
    return _sections(change, groups, group_base, merged.indptr, merged.columns) | {"loops": loops}


def _slots(nodes: np.ndarray, group_base: np.ndarray) -> np.ndarray:
    """Return the directory slot of the group of each node."""
    locals_, shards = np.divmod(nodes, group_base.size - 1)
    return group_base[shards] + (locals_ >> GROUP_BITS)


def dirty_nodes(change: EdgeChange, rows: Rows, expired: np.ndarray) -> np.ndarray:
    """Return the nodes whose lists may have changed, perhaps several times."""
    found = [rows.row, np.fromiter(change.deaths, np.int64, len(change.deaths))]
    dead = np.sort(np.fromiter(change.dst_deaths, np.int64, len(change.dst_deaths)))
    if dead.size:
        num_shards = change.counts.size
        if change.reverse is not None:
            known = dead[dead // num_shards < change.reverse.counts[dead % num_shards]]
            found.append(change.reverse.neighbors(known)[1])
        else:
            found += [nodes[np.isin(neighbors, dead)] for nodes, neighbors, _ in scan_lists(change.adjacency)]
    if expired.size:
        before = expired[:, 1].max()
        found += [nodes[times < before] for nodes, _, times in scan_lists(change.adjacency, times=True)]
    return np.concatenate(found)


def scan_lists(adjacency: Adjacency, *, times: bool = False) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield (source, neighbour, time) of all entries, some at a time."""
    nodes = nodes_of_ranks(starts_of(adjacency.counts))
    for low in range(0, nodes.size, _SCANNED_NODES):
        part = nodes[low : low + _SCANNED_NODES]
        indptr, neighbors, _, found, _ = adjacency.columns(part, weights=False, times=times, edge_ids=False)
        yield np.repeat(part, np.diff(indptr)), neighbors, neighbors if found is None else found


def _dirty_groups(change: EdgeChange, dirty: np.ndarray, group_base: np.ndarray) -> np.ndarray:
    """Return the directory slots of the groups that hold a dirty node, or that are new or grew, ascending."""
    found = np.zeros(int(group_base[-1]), bool)
    found[_slots(dirty, group_base)] = True
    for shard in np.flatnonzero(change.counts > change.adjacency.counts):
        first = int(change.adjacency.counts[shard]) >> GROUP_BITS
        found[group_base[shard] + first : group_base[shard + 1]] = True
    return np.flatnonzero(found)


def _group_lists(
    change: EdgeChange, rows: Rows, expired: np.ndarray, groups: np.ndarray, dirty: np.ndarray, group_base: np.ndarray
) -> Merged:
    """Return the lists of all nodes of some groups, given by their slots, as they are now; `dirty` are nodes."""
    num_shards = change.counts.size
    shards = np.searchsorted(group_base, groups, side="right") - 1
    first_local = (groups - group_base[shards]) << GROUP_BITS
    sizes = np.minimum(GROUP_NODES, change.counts[shards] - first_local)
    starts = starts_of(sizes)
    inside = np.arange(int(starts[-1])) - np.repeat(starts[:-1], sizes)
    locals_, node_shards = np.repeat(first_local, sizes) + inside, np.repeat(shards, sizes)
    nodes = locals_ * num_shards + node_shards
    in_base = locals_ < change.adjacency.counts[node_shards]
    indptr, *old = change.adjacency.columns(nodes[in_base])
    degrees = np.zeros(nodes.size, np.int64)
    degrees[in_base] = np.diff(indptr)
    # Of the groups that are here, the place of the first node.
    first_places = np.empty(int(group_base[-1]), np.int64)
    first_places[groups] = starts[:-1]

    def places(some: np.ndarray) -> np.ndarray:
        return first_places[_slots(some, group_base)] + (some // num_shards & (GROUP_NODES - 1))

    is_dirty = np.zeros(nodes.size, bool)
    is_dirty[places(dirty)] = True
    return merge(
        nodes,
        is_dirty,
        (starts_of(degrees), old),
        rows._replace(row=places(rows.row)),
        _kills(change, nodes, expired),
        timed=change.adjacency.timed,
        rule=change.rule,
        loops=change.same_type,
        threads=change.adjacency.threads,
    )


def _kills(change: EdgeChange, nodes: np.ndarray, expired: np.ndarray) -> Kills:
    own = np.full(nodes.size, -1, np.int64)
    gone, orders = _by_node(change.deaths)
    if gone.size:
        place = np.minimum(np.searchsorted(gone, nodes), gone.size - 1)
        own = np.where(gone[place] == nodes, orders[place], -1)
    return Kills(own, *_by_node(change.dst_deaths), expired)


def _by_node(deaths: dict[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the deleted nodes, ascending, and the operation that last deleted each."""
    nodes = sorted(deaths)
    return np.array(nodes, np.int64), np.array([deaths[node] for node in nodes], np.int64)


def _sections(change, groups, group_base, indptr, columns):
    """Encode the lists of some groups and lay them out behind the words that are there."""
    num_shards = change.counts.size
    shards = np.searchsorted(group_base, groups, side="right") - 1
    highest = max(1, int(change.dst_counts.max()) * num_shards - 1)
    bits = max(change.bits, highest.bit_length())
    directory = _grown_directory(change.adjacency, group_base)
    behind, at = change.behind, 0
    parts = [np.empty(0, np.uint64)]
    node_at = 0
    for shard in np.unique(shards):
        own = groups[shards == shard] - group_base[shard]
        sizes = np.minimum(GROUP_NODES, change.counts[shard] - (own << GROUP_BITS))
        lists = indptr[node_at : node_at + int(sizes.sum()) + 1]
        node_at += int(sizes.sum())
        part = slice(int(lists[0]), int(lists[-1]))
        neighbors, *rest = [None if column is None else column[part] for column in columns]
        assert neighbors is not None
        encoded = encode_groups(own, lists - lists[0], neighbors, *rest, sizes=sizes, bits=bits)
        target = np.zeros(int(arena_words(encoded.words, encoded.records)), np.uint64)
        blocks = np.empty((encoded.records.shape[0], 3), np.int64)
        fill_arena(encoded.words, encoded.records, target, behind + at, group_base[shard], directory, blocks, 0)
        parts.append(target)
        at += target.size
    check_addressable(behind + at)
    words = np.concatenate(parts)
    blocks, shard_starts, num_edges = _block_table(change, words, behind, directory, group_base)
    return {
        "words": words,
        "directory": directory,
        "group_base": group_base,
        "blocks": blocks.ravel(),
        "shard_starts": shard_starts,
        "counts": change.counts,
        "num_edges": np.array([num_edges], np.int64),
        "bits": np.array([bits], np.int64),
    }


def _grown_directory(adjacency: Adjacency, group_base: np.ndarray) -> np.ndarray:
    directory = np.zeros(int(group_base[-1]), np.int64)
    for shard in range(group_base.size - 1):
        low, high = adjacency.group_base[shard], adjacency.group_base[shard + 1]
        directory[group_base[shard] : group_base[shard] + high - low] = adjacency.directory[low:high]
    return directory


@kernel
def _runs(words, behind, extra, directory, group_base, blocks, shard_starts):
    """Fill the table of blocks with each run of groups that lie in one block; returns (runs, edges)."""
    count, edge = 0, np.int64(0)
    for shard in range(group_base.size - 1):
        block, delta = np.int64(-1), np.int64(-1)
        for slot in range(group_base[shard], group_base[shard + 1]):
            entry = directory[slot]
            before_block, before_delta = block, delta
            block, delta = entry >> BLOCK_SHIFT, entry & DELTA_MASK
            source, at = (words, block) if block < behind else (extra, block - behind)
            num_nodes = np.int64(source[at + 2] & np.uint64(0xFFFFFFFF))
            marks = at + HEADER_WORDS
            first = delta << GROUP_BITS
            last = min(first + GROUP_NODES, num_nodes)
            skip = np.int64(_mark(source, marks, first) & DEGREE_MASK)
            degree = np.int64(_mark(source, marks, last) & DEGREE_MASK) - skip
            if (source[at] >> np.uint64(40)) & np.uint64(FLAG_HUBS):
                head = at + HEADER_WORDS + ((num_nodes + 2) >> 1)
                for i in range(num_nodes):
                    if _mark(source, marks, i) >> np.uint32(31):
                        degree += np.int64(source[head])
                        head += 4
            if block != before_block or delta != before_delta + 1:
                blocks[count, 0], blocks[count, 1], blocks[count, 2] = block, edge, skip
                count += 1
            edge += degree
        shard_starts[shard + 1] = count
    return count, edge


@kernel
def _mark(words: np.ndarray, at: int, place: int) -> np.uint32:
    return np.uint32(words[at + (place >> 1)] >> np.uint64(32 * (place & 1)) & np.uint64(0xFFFFFFFF))


def _block_table(change, words, behind, directory, group_base):
    blocks = np.empty((directory.size, 3), np.int64)
    shard_starts = np.zeros(group_base.size, np.int64)
    count, num_edges = _runs(change.adjacency.words, behind, words, directory, group_base, blocks, shard_starts)
    return blocks[:count], shard_starts, int(num_edges)
