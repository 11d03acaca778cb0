"""The ids of a node type as the writer knows them: found, given out, deleted and given back."""

from typing import Any

import numpy as np

from graph_store.delta import NodeDelta
from graph_store.ids import IdMap
from graph_store.string_ids import StringMap, string_buffers


class _Runs:
    """A map of distinct int64 keys to nodes as a few sorted runs, each at least twice the next."""

    def __init__(self) -> None:
        self._runs: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, keys: np.ndarray, nodes: np.ndarray) -> None:
        order = np.argsort(keys)
        self._runs.append((keys[order], nodes[order]))
        while len(self._runs) > 1 and self._runs[-2][0].size < 2 * self._runs[-1][0].size:
            (first, first_nodes), (second, second_nodes) = self._runs[-2:]
            keys, nodes = np.concatenate([first, second]), np.concatenate([first_nodes, second_nodes])
            order = np.argsort(keys, kind="stable")
            self._runs[-2:] = [(keys[order], nodes[order])]

    def find(self, keys: np.ndarray) -> np.ndarray:
        found = np.full(keys.size, -1, np.int64)
        for known, nodes in self._runs:
            place = np.minimum(np.searchsorted(known, keys), known.size - 1)
            hit = known[place] == keys
            found[hit] = nodes[place[hit]]
        return found


class LiveIds:
    """Finds nodes by id, those of the base and those that came since.

    Parameters
    ----------
    base : IdMap
    """

    def __init__(self, base: IdMap) -> None:
        self.base = base
        self.is_string = isinstance(base, StringMap)
        self._runs, self._texts = _Runs(), dict[str, int]()
        self._dead = set(base.dead.tolist())
        self._dead_array: np.ndarray | None = None  # sorted, made when it is asked for
        if base.dead.size:
            self.put(base.to_ids(base.dead), base.dead)

    def put(self, ids: Any, nodes: np.ndarray) -> None:
        """Enter ids that got nodes; none of them is known."""
        if self.is_string:
            self._texts.update(zip(ids, nodes.tolist()))
        elif nodes.size:
            self._runs.add(np.asarray(ids).view(np.int64), nodes)

    def find(self, ids: Any) -> np.ndarray:
        """Return int64[n], the node of each id, deleted or not; -1 for an id that never was."""
        nodes = self.base.find(ids)
        missing = np.flatnonzero(nodes < 0)
        if missing.size == 0:
            return nodes
        if self.is_string:
            if self._texts:
                nodes[missing] = [self._texts.get(ids[place], -1) for place in missing.tolist()]
        else:
            nodes[missing] = self._runs.find(np.asarray(ids).view(np.int64)[missing])
        return nodes

    def is_dead(self, nodes: np.ndarray) -> np.ndarray:
        """Return bool[n], whether each node is deleted."""
        if not self._dead:
            return np.zeros(nodes.size, bool)
        if self._dead_array is None:
            self._dead_array = np.sort(np.fromiter(self._dead, np.int64, len(self._dead)))
        place = np.minimum(np.searchsorted(self._dead_array, nodes), self._dead_array.size - 1)
        return self._dead_array[place] == nodes

    def follow(self, delta: NodeDelta) -> None:
        """Take up all that batches did to the nodes."""
        for ids, nodes in zip(delta.ids, delta.nodes):
            self.put(texts_of(*ids) if self.is_string else ids, nodes)
        for node, there in delta.alive.items():
            self.mark(np.array([node]), dead=not there)

    def mark(self, nodes: np.ndarray, *, dead: bool) -> None:
        """Note that nodes were deleted or came back."""
        self._dead_array = None
        if dead:
            self._dead.update(nodes.tolist())
        else:
            self._dead.difference_update(nodes.tolist())


def texts_of(starts: np.ndarray, data: np.ndarray) -> list[str]:
    """Return strings of their UTF-8 bytes."""
    raw, places = data.tobytes(), starts.tolist()
    return [raw[low:high].decode() for low, high in zip(places[:-1], places[1:])]


def id_arrays(ids: Any, *, is_string: bool) -> dict[str, np.ndarray]:
    """Return distinct new ids as a batch keeps them."""
    if not is_string:
        return {"ids": np.asarray(ids).view(np.int64)}
    starts, data = string_buffers(list(ids), "node")
    return {"starts": starts - starts[0], "bytes": data[int(starts[0]) : int(starts[-1])]}
