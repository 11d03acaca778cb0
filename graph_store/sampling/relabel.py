"""Labels for nodes, in the order they are first seen."""

import numpy as np

from graph_store.kernels import kernel, mix64, prefetch
from graph_store.packed_lists import LOOK_AHEAD


@kernel
def _relabel(values, table, stamp, nodes, num_nodes, out):
    """Give each value its label, new ones in order of appearance; the table has room. Returns the labels used."""
    mask = np.uint64(table.size // 2 - 1)
    slots = np.empty(LOOK_AHEAD, np.int64)
    for low in range(0, values.size, LOOK_AHEAD):
        size = min(LOOK_AHEAD, values.size - low)
        for i in range(size):
            slots[i] = np.int64(mix64(np.uint64(values[low + i])) & mask)
            prefetch(table, 2 * slots[i])
        for i in range(size):
            value, slot = values[low + i], slots[i]
            while True:
                tag = table[2 * slot + 1]
                if tag >> 32 != stamp:
                    table[2 * slot], table[2 * slot + 1] = value, stamp << 32 | num_nodes
                    nodes[num_nodes] = value
                    out[low + i] = num_nodes
                    num_nodes += 1
                    break
                if table[2 * slot] == value:
                    out[low + i] = tag & 0xFFFFFFFF
                    break
                slot = np.int64(np.uint64(slot + 1) & mask)
    return num_nodes


@kernel
def prefetch_label(table, value):
    """Ask for where the label of a value is, if it has one."""
    prefetch(table, 2 * np.int64(mix64(np.uint64(value)) & np.uint64(table.size // 2 - 1)))


@kernel
def label_of(table, stamp, value):
    """Return the label of a value, -1 where it has none; see `Relabeller.table`."""
    mask = np.uint64(table.size // 2 - 1)
    slot = np.int64(mix64(np.uint64(value)) & mask)
    while table[2 * slot + 1] >> 32 == stamp:
        if table[2 * slot] == value:
            return table[2 * slot + 1] & 0xFFFFFFFF
        slot = np.int64(np.uint64(slot + 1) & mask)
    return np.int64(-1)


class Relabeller:
    """Labels 0, 1, 2 … for node ids in the order they are first seen, cleared by counting up a stamp.

    Holds 16 bytes a slot and two slots or more a node; not for two threads at once.
    """

    def __init__(self) -> None:
        self._table = np.zeros(2 << 12, np.int64)
        self._stamp = 1  # that of no slot yet
        self._nodes = np.empty(1 << 11, np.int64)
        self.num_nodes = 0

    def clear(self) -> None:
        """Forget all labels, in constant time."""
        self._stamp += 1
        self.num_nodes = 0

    @property
    def nodes(self) -> np.ndarray:
        """int64[num_nodes], the node of each label; a view until the next `clear`."""
        return self._nodes[: self.num_nodes]

    @property
    def table(self) -> tuple[np.ndarray, int]:
        """What `label_of` takes: the table and the stamp of the slots in use; until the next `labels` or `clear`."""
        return self._table, self._stamp

    def _reserve(self, count: int) -> None:
        size = self._nodes.size
        if count <= size:
            return
        while size < count:
            size *= 2
        known = self.nodes.copy()
        self._nodes = np.empty(size, np.int64)
        self._table = np.zeros(4 * size, np.int64)
        self._stamp, self.num_nodes = 1, 0
        _relabel(known, self._table, self._stamp, self._nodes, 0, np.empty(known.size, np.int64))
        self.num_nodes = known.size

    def labels(self, values: np.ndarray) -> np.ndarray:
        """Return int64[n], the label of each value, int64[n]; unseen ones get the next labels."""
        self._reserve(self.num_nodes + values.size)
        out = np.empty(values.size, np.int64)
        self.num_nodes = int(_relabel(values, self._table, self._stamp, self._nodes, self.num_nodes, out))
        return out
