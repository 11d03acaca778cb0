"""What a run of batches changes, sorted by node type and edge type: the log, read for merging."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from graph_store import update_batch
from graph_store.ids import IdMap, shards_of
from graph_store.kernels import kernel
from graph_store.manifest import Manifest
from graph_store.string_ids import hash_strings
from graph_store.update_batch import Operation

ADDED, DELETED, DELETED_AT = 0, 1, 2
_NO_IDS = np.empty(0, np.int64)


@kernel
def _next_nodes(shards: np.ndarray, counts: np.ndarray, nodes: np.ndarray) -> None:
    num_shards = counts.size
    for i in range(shards.size):
        nodes[i] = counts[shards[i]] * num_shards + shards[i]
        counts[shards[i]] += 1


def next_nodes(shards: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Return int64[n], the next free node of each shard asked for; `counts`, int64[num_shards], goes up."""
    nodes = np.empty(shards.size, np.int64)
    _next_nodes(shards, counts, nodes)
    return nodes


@dataclass
class NodeDelta:
    """What happened to the nodes of a type.

    Attributes
    ----------
    counts : int64[num_shards]
        Node numbers given out so far.
    ids : list
        Of each `new_nodes`: int64[n], or (int64[n + 1] starts, uint8 bytes).
    nodes : list of int64[n]
        The numbers they got.
    deaths : dict of int to int
        Of each node that was deleted, when last: the number of the operation.
    alive : dict of int to bool
        Of each node that was deleted or came back, whether it is there in the end.
    features : list of (int64[n] nodes, dict of str to array or None)
        None where the nodes were deleted, and their features with them.
    """

    counts: np.ndarray
    ids: list = field(default_factory=list)
    nodes: list = field(default_factory=list)
    deaths: dict[int, int] = field(default_factory=dict)
    alive: dict[int, bool] = field(default_factory=dict)
    features: list = field(default_factory=list)


@dataclass
class EdgeDelta:
    """What happened to the edges of a type, in order; each list has an array an operation.

    Attributes
    ----------
    src, dst, weight, time, edge_ids : list of arrays
        Weights, times and edge ids are 0 where an operation has none.
    kind, order : list of int64[n]
        `ADDED`, `DELETED` or `DELETED_AT` (its time), and the number of the operation.
    expired : list of (int, int)
        Number of the operation and the time before which edges go.
    features : list of (int64[n] edge ids, dict of str to array)
    """

    src: list = field(default_factory=list)
    dst: list = field(default_factory=list)
    weight: list = field(default_factory=list)
    time: list = field(default_factory=list)
    edge_ids: list = field(default_factory=list)
    kind: list = field(default_factory=list)
    order: list = field(default_factory=list)
    expired: list = field(default_factory=list)
    features: list = field(default_factory=list)
    edge_rows: int = 0

    @property
    def num_rows(self) -> int:
        """Edges added and deleted."""
        return sum(part.size for part in self.src)


class Delta:
    """Batches read one after the other; see `NodeDelta` and `EdgeDelta` for what they sum up to."""

    def __init__(self, manifest: Manifest, ids: dict[str, IdMap]) -> None:
        self._maps = [ids[entry.name] for entry in manifest.node_types]
        self.num_shards = manifest.num_shards
        self.nodes = [NodeDelta(np.array(entry.shard_counts, np.int64)) for entry in manifest.node_types]
        self.edges = [EdgeDelta(edge_rows=entry.edge_rows) for entry in manifest.edge_types]
        self._order = 0

    def extend(self, batches: Iterable[bytes]) -> None:
        """Take the payloads of batches, in order."""
        for payload in batches:
            for operation in update_batch.from_payload(payload):
                self.apply(operation)

    def apply(self, operation: Operation) -> np.ndarray:
        """Take one operation; returns the nodes that new ids got."""
        order, self._order = self._order, self._order + 1
        arrays, number = operation.arrays, operation.number
        if operation.kind == update_batch.NEW:
            return self._new_nodes(number, arrays)
        if operation.kind in (update_batch.REVIVE, update_batch.DELETE_NODES):
            deleted = operation.kind == update_batch.DELETE_NODES
            for node in arrays["nodes"].tolist():
                self.nodes[number].alive[node] = not deleted
                if deleted:
                    self.nodes[number].deaths[node] = order
            if deleted:
                self.nodes[number].features.append((arrays["nodes"], None))
        elif operation.kind == update_batch.SET_NODES:
            self.nodes[number].features.append((arrays["nodes"], arrays))
        elif operation.kind == update_batch.SET_EDGES:
            self.edges[number].features.append((arrays["rows"], arrays))
        elif operation.kind == update_batch.EXPIRE:
            self.edges[number].expired.append((order, int(arrays["before"][0])))
        else:
            self._edges(number, operation, order)
        return _NO_IDS

    def _new_nodes(self, number: int, arrays: Mapping[str, np.ndarray]) -> np.ndarray:
        delta, ids = self.nodes[number], self._maps[number]
        if ids.id_type == "string":
            starts, data = arrays["starts"], arrays["bytes"]
            delta.ids.append((starts, data))
            hashes = hash_strings(starts, data, ids.hash_mask)  # type: ignore[attr-defined]
        else:
            hashes = arrays["ids"]
            delta.ids.append(hashes)
        nodes = next_nodes(shards_of(hashes, self.num_shards), delta.counts)
        delta.nodes.append(nodes)
        return nodes

    def _edges(self, number: int, operation: Operation, order: int) -> None:
        delta, arrays = self.edges[number], operation.arrays
        size = arrays["src"].size
        timed = "time" in arrays
        added = operation.kind == update_batch.ADD
        delta.src.append(arrays["src"])
        delta.dst.append(arrays["dst"])
        delta.weight.append(arrays.get("weight", np.zeros(size, np.float32)))
        delta.time.append(arrays.get("time", np.zeros(size, np.int64)))
        first = int(arrays["row"][0]) if "row" in arrays else 0
        delta.edge_ids.append(np.arange(first, first + size))
        if "row" in arrays:
            delta.edge_rows = first + size
        delta.kind.append(np.full(size, ADDED if added else DELETED_AT if timed else DELETED))
        delta.order.append(np.full(size, order))
