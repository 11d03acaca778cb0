"""Checks the lists of an edge type: ranges, order, counts, and that those of its reverse type are the same edges."""

from collections.abc import Iterator, Mapping

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.kernels import kernel, mix64
from graph_store.manifest import Manifest, StoredEdgeType

CHUNK_NODES = 1 << 14
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@kernel
def _hash(first: int, second: int, rest: np.uint64) -> np.uint64:
    value = mix64(np.uint64(first)) + _GOLDEN
    value = mix64(value ^ np.uint64(second)) + _GOLDEN
    return mix64(value ^ rest)


@kernel
def _digest(sources, neighbors, weights, times, edge_ids, plain, swapped):
    """Add a hash of each entry, with weight, time and edge id, to that of its ends' shards, each way round."""
    num_shards = plain.shape[0]
    for i in range(sources.size):
        rest = np.uint64(0)
        if weights.size:
            rest = mix64(rest ^ np.uint64(weights[i])) + _GOLDEN
        if times.size:
            rest = mix64(rest ^ np.uint64(times[i])) + _GOLDEN
        if edge_ids.size:
            rest = mix64(rest ^ np.uint64(edge_ids[i])) + _GOLDEN
        row, column = sources[i] % num_shards, neighbors[i] % num_shards
        plain[row, column] += _hash(sources[i], neighbors[i], rest)
        swapped[row, column] += _hash(neighbors[i], sources[i], rest)


class ListCheck:
    """Takes the lists of an edge type, some nodes at a time in dense order, and then sums up.

    Parameters
    ----------
    manifest : Manifest
        With the counts of the version.
    dead : mapping of str to int64[d]
        The deleted nodes of each node type, ascending.

    Attributes
    ----------
    plain, swapped : uint64[num_shards, num_shards]
        Sums of hashes of the entries by the shards of source and neighbour; `swapped` as the reverse type has them.
    """

    def __init__(self, manifest: Manifest, entry: StoredEdgeType, dead: Mapping[str, np.ndarray]) -> None:
        self.entry, self.num_shards = entry, manifest.num_shards
        counts = {item.name: np.array(item.shard_counts, np.int64) for item in manifest.node_types}
        self._counts, self._dead = counts[entry.dst], (dead[entry.src], dead[entry.dst])
        self.entries = self.loops = 0
        self.plain, self.swapped = (np.zeros((self.num_shards,) * 2, np.uint64) for _ in range(2))

    def take(self, adjacency: Adjacency, nodes: np.ndarray, position: int) -> Iterator[str]:
        """Yield the faults of the lists of nodes; `position` is that of their first entry among the adjacency's."""
        indptr, neighbors, weights, times, edge_ids = adjacency.columns(nodes)
        sources, name = np.repeat(nodes, np.diff(indptr)), self.entry.name
        self.entries += neighbors.size
        if self.entry.src == self.entry.dst:
            self.loops += int(np.count_nonzero(sources == neighbors))
        none = np.empty(0, np.int64)
        _digest(
            sources,
            neighbors,
            none.view(np.uint32) if weights is None else weights.view(np.uint32),
            none if times is None else times,
            none if edge_ids is None else edge_ids,
            self.plain,
            self.swapped,
        )
        locals_, shards = np.divmod(neighbors, self.num_shards)
        wrong = np.flatnonzero((locals_ >= self._counts[shards]) | np.isin(neighbors, self._dead[1]))
        if wrong.size:
            at = int(wrong[0])
            yield f"{name}: node {sources[at]} has the neighbour {neighbors[at]}, which is no node"
        for node in nodes[np.isin(nodes, self._dead[0]) & (np.diff(indptr) > 0)][:1]:
            yield f"{name}: node {node} was deleted and has neighbours"
        at = self._out_of_order(sources, neighbors, times)
        if at >= 0:
            yield f"{name}: the list of node {sources[at]} is not ascending or has a duplicate"
        if edge_ids is not None and edge_ids.size and not 0 <= edge_ids.min() <= edge_ids.max() < self.entry.edge_rows:
            yield f"{name}: an edge has an id past the {self.entry.edge_rows} rows of the features"
        yield from self._found_again(adjacency, nodes, position, sources, neighbors)

    def _out_of_order(self, sources: np.ndarray, neighbors: np.ndarray, times: np.ndarray | None) -> int:
        """Return the place of the first entry behind which the order of a list is broken, -1 for none."""
        same = neighbors[1:] == neighbors[:-1]
        steps = neighbors[1:] < neighbors[:-1]
        if times is not None:
            equal = times[1:] == times[:-1]
            same, steps = same & equal, (times[1:] < times[:-1]) | (equal & steps)
        if self.entry.rules.get("duplicates") != "all":
            steps |= same
        broken = np.flatnonzero((np.diff(sources) == 0) & steps)
        return int(broken[0]) if broken.size else -1

    def _found_again(self, adjacency, nodes, position, sources, neighbors):
        """Yield a fault where other ways to the same entries do not agree: by position, by both ends."""
        name = self.entry.name
        if position + neighbors.size > adjacency.num_edges:
            yield f"{name}: more entries in the lists than the {adjacency.num_edges} of the table of blocks"
            return
        ends = adjacency.edges_at(position + np.arange(neighbors.size))
        if not (np.array_equal(ends[0], sources) and np.array_equal(ends[1], neighbors)):
            yield f"{name}: entries at positions from {position} on are not those of the lists"
        few = slice(0, 256)
        if not adjacency.has_edges(sources[few], neighbors[few]).all():
            yield f"{name}: an edge from node {nodes[0]} on is not found by its ends"

    def finish(self) -> Iterator[str]:
        """Yield where the sums are not those of the manifest."""
        entry = self.entry
        if self.entries != entry.num_entries:
            yield f"{entry.name}: {self.entries} entries in the lists, the manifest says {entry.num_entries}"
        if self.loops != entry.self_loops:
            yield f"{entry.name}: {self.loops} self loops in the lists, the manifest says {entry.self_loops}"
        expected = (self.entries + self.loops) // 2 if entry.undirected else self.entries
        if expected != entry.num_edges:
            yield f"{entry.name}: {expected} edges in the lists, the manifest says {entry.num_edges}"


def list_faults(check: ListCheck, adjacency: Adjacency, shards: range) -> Iterator[str]:
    """Take all lists of some shards, the first of which has the adjacency's first entry."""
    position = 0
    for shard in shards:
        count = int(adjacency.counts[shard])
        for low in range(0, count, CHUNK_NODES):
            nodes = np.arange(low, min(low + CHUNK_NODES, count)) * check.num_shards + shard
            before = check.entries
            yield from check.take(adjacency, nodes, position)
            position += check.entries - before


def entries_between(adjacency: Adjacency, shard: int, other: int, num_shards: int) -> np.ndarray:
    """Return the entries from one shard to another as int64[n, 5]: source, neighbour, weight, time, edge id."""
    found = [np.empty((0, 5), np.int64)]
    for low in range(0, int(adjacency.counts[shard]), CHUNK_NODES):
        nodes = np.arange(low, min(low + CHUNK_NODES, int(adjacency.counts[shard]))) * num_shards + shard
        indptr, neighbors, weights, times, edge_ids = adjacency.columns(nodes)
        chosen = neighbors % num_shards == other
        bits = None if weights is None else weights.view(np.uint32).astype(np.int64)
        columns = [np.repeat(nodes, np.diff(indptr)), neighbors, bits, times, edge_ids]
        zeros = np.zeros(neighbors.size, np.int64)
        found.append(np.stack([zeros if column is None else column for column in columns], axis=1)[chosen])
    return np.concatenate(found)


def difference(entry: StoredEdgeType, own: np.ndarray, back: np.ndarray) -> str:
    """Say how entries of a type differ from those of its reverse, given as rows of `entries_between`."""
    expected = back[:, [1, 0, 2, 3, 4]]
    ours, theirs = set(map(tuple, own[:, :2].tolist())), set(map(tuple, expected[:, :2].tolist()))
    if ours - theirs:
        src, dst = min(ours - theirs)
        return f"{entry.name}: {src} → {dst} has no opposite in {entry.reverse}"
    if theirs - ours:
        src, dst = min(theirs - ours)
        return f"{entry.name}: {src} → {dst} is not there, its opposite in {entry.reverse} is"
    return f"{entry.name}: its weights or times are not those of its reverse {entry.reverse}"
