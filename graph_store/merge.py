"""Merging: the lists of some nodes and what happened to them since → their lists now.

Rows are the entries of the old lists and the operations on them, in the order in which they happened. An edge that was
added is gone when a later operation deleted it, deleted one of its ends, or expired its time. Equal edges that are left
are made one as the edge type's rule for duplicates says.
"""

from typing import NamedTuple

import numpy as np

from graph_store.delta import ADDED, DELETED, DELETED_AT
from graph_store.edge_lists import sorted_order
from graph_store.kernels import kernel
from graph_store.ragged import starts_of

RULES = {"first": 0, "all": 1, "sum": 2, "max": 3, "error": 0}


class Rows(NamedTuple):
    """Rows of edges and of deletions, in the order in which they happened.

    row : int64[n], which list; neighbors, times, edge_ids : int64[n]; weights : float32[n]
    kind : int64[n], `ADDED`, `DELETED` (whatever its time) or `DELETED_AT`
    order : int64[n], of the operation, ascending
    """

    row: np.ndarray
    neighbors: np.ndarray
    weights: np.ndarray
    times: np.ndarray
    edge_ids: np.ndarray
    kind: np.ndarray
    order: np.ndarray

    def take(self, rows: np.ndarray) -> "Rows":
        """Return some rows, by index or mask."""
        return Rows(*(column[rows] for column in self))

    @classmethod
    def joined(cls, parts: "list[Rows]") -> "Rows":
        """Put several behind each other."""
        return cls(*(np.concatenate(columns) for columns in zip(*parts)))


class Kills(NamedTuple):
    """What ends edges besides their own deletion.

    rows : int64[num_rows], the operation that last deleted the node of each list, -1 where none did
    nodes, orders : int64[k], deleted neighbours, ascending, and the operation that last deleted each
    expired : int64[e, 2], operation and time: earlier edges go
    """

    rows: np.ndarray
    nodes: np.ndarray
    orders: np.ndarray
    expired: np.ndarray


@kernel
def _survivors(rows, kills, keep):
    row, neighbors, _, times, _, kind, order = rows
    row_kills, nodes, orders, expired = kills
    for i in range(row.size):
        if kind[i] != ADDED:
            continue
        if row_kills[row[i]] > order[i]:
            keep[i] = False
            continue
        if nodes.size:
            place = np.searchsorted(nodes, neighbors[i])
            if place < nodes.size and nodes[place] == neighbors[i] and orders[place] > order[i]:
                keep[i] = False
                continue
        for e in range(expired.shape[0]):
            if expired[e, 0] > order[i] and times[i] < expired[e, 1]:
                keep[i] = False


@kernel
def _drop_deleted(row, neighbors, kind, by_pair, keep):
    """Take out, in rows sorted by (list, neighbour), what comes before the last deletion of each pair."""
    low = 0
    while low < by_pair.size:
        high, last, first = low, -1, by_pair[low]
        while high < by_pair.size:
            i = by_pair[high]
            if row[i] != row[first] or neighbors[i] != neighbors[first]:
                break
            if kind[i] == DELETED:
                last = high
            high += 1
        for place in range(low, last + 1):
            keep[by_pair[place]] = False
        low = high


@kernel
def _reduce(row, neighbors, times, weights, kind, rule, keep, totals):
    """Make equal edges, which lie side by side, one by the rule; `totals` gets the weights."""
    low = 0
    while low < row.size:
        high, last = low, low - 1
        while high < row.size:
            if row[high] != row[low] or neighbors[high] != neighbors[low] or times[high] != times[low]:
                break
            if kind[high] == DELETED_AT:
                last = high
            high += 1
        first = last + 1
        keep[low:first] = False
        if rule != 1 and first < high:
            total = weights[first]
            for i in range(first + 1, high):
                keep[i] = False
                total = total + weights[i] if rule == 2 else max(total, weights[i]) if rule == 3 else total
            totals[first] = total
        low = high


def _unsigned(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return values as uint64 above their lowest, and the bits they need."""
    if values.size == 0:
        return values.view(np.uint64), 1
    above = values.view(np.uint64) - np.uint64(int(values.min()) & (2**64 - 1))
    return above, max(1, int(above.max()).bit_length())


def merge(rows: Rows, kills: Kills, *, num_rows: int, timed: bool, rule: str) -> tuple[np.ndarray, Rows]:
    """Return `indptr`, int64[num_rows + 1], and the rows of the merged lists, in the order the store keeps them.

    Parameters
    ----------
    rows : Rows
    kills : Kills
    num_rows : int
        Lists.
    timed : bool
        Lists are by time, then neighbour; else by neighbour, and times are all 0.
    rule : str
        What is done with equal edges: "first", "all", "sum" or "max" ("error" is "first": it was checked before).
    """
    keep = np.ones(rows.row.size, bool)
    _survivors(tuple(rows), tuple(kills), keep)
    if not keep.all():
        rows = rows.take(keep)
    if (rows.kind == DELETED).any():
        by_pair = sorted_order([_unsigned(rows.row), _unsigned(rows.neighbors)])
        keep = np.ones(rows.row.size, bool)
        _drop_deleted(rows.row, rows.neighbors, rows.kind, by_pair, keep)
        rows = rows.take(keep)
    keys = [_unsigned(rows.row), _unsigned(rows.neighbors)]
    if timed:
        keys.insert(1, _unsigned(rows.times))
    rows = rows.take(sorted_order(keys))
    keep, totals = np.ones(rows.row.size, bool), rows.weights.copy()
    _reduce(rows.row, rows.neighbors, rows.times, rows.weights, rows.kind, RULES[rule], keep, totals)
    rows = rows._replace(weights=totals).take(keep)
    return starts_of(np.bincount(rows.row, minlength=num_rows)), rows
