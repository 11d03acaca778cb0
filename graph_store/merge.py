"""Merging: the lists of some nodes and what happened to them since → their lists now.

An edge that was added is gone when a later operation deleted it, deleted one of its ends, or expired its time. Equal
edges that are left are made one as the edge type's rule for duplicates says. Old lists are in order already, so each is
merged with its few sorted operations in one pass, to where it has room for all of both, and moved up after that.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from graph_store.delta import ADDED, DELETED, DELETED_AT
from graph_store.edge_lists import sorted_order
from graph_store.kernels import kernel, run_ranges
from graph_store.ragged import starts_of

RULES = {"first": 0, "all": 1, "sum": 2, "max": 3, "error": 0}
_KINDS = np.int64, np.float32, np.int64, np.int64


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


class Kills(NamedTuple):
    """What ends edges besides their own deletion.

    rows : int64[num_lists], the operation that last deleted the node of each list, -1 where none did
    nodes, orders : int64[k], deleted neighbours, ascending, and the operation that last deleted each
    expired : int64[e, 2], operation and time: earlier edges go
    """

    rows: np.ndarray
    nodes: np.ndarray
    orders: np.ndarray
    expired: np.ndarray


class Merged(NamedTuple):
    """Lists, and how many self loops they have more than the old ones.

    indptr : int64[num_lists + 1]; columns : neighbours, weights, times, edge ids, None where there are none
    """

    indptr: np.ndarray
    columns: list[np.ndarray | None]
    more_loops: int


@kernel
def _ended(
    neighbor: int, time: int, order: int, row_kill: int, pairs: tuple, low: int, high: int, kills: tuple
) -> bool:
    """Say whether something later than operation `order` ended an edge; `pairs[low:high]` are its list's deletions."""
    if row_kill > order:
        return True
    pair_neighbors, pair_orders = pairs
    stop = high
    while low < high:
        middle = (low + high) >> 1
        if pair_neighbors[middle] < neighbor:
            low = middle + 1
        else:
            high = middle
    if low < stop and pair_neighbors[low] == neighbor and pair_orders[low] > order:
        return True
    nodes, orders, expired = kills
    if nodes.size:
        place = np.searchsorted(nodes, neighbor)
        if place < nodes.size and nodes[place] == neighbor and orders[place] > order:
            return True
    for e in range(expired.shape[0]):
        if expired[e, 0] > order and time < expired[e, 1]:
            return True
    return False


@kernel
def _emit(out, at, count, fresh, rule, neighbor, weight, time, edge_id):
    """Take one surviving edge into the list written from `at` on, `fresh` when no equal one is there; the new count."""
    neighbors, weights, times, edge_ids = out
    if fresh or rule == 1:
        neighbors[at + count] = neighbor
        if weights.size:
            weights[at + count] = weight
        if times.size:
            times[at + count] = time
        if edge_ids.size:
            edge_ids[at + count] = edge_id
        return count + 1
    if weights.size:
        last = at + count - 1
        if rule == 2:
            weights[last] += weight
        elif rule == 3:
            weights[last] = max(weights[last], weight)
    return count


@kernel
def _copy(old, start, stop, out, at):
    """Copy old edges `start … stop − 1` to the list written at `at`."""
    neighbors, weights, times, edge_ids = out
    for i in range(stop - start):
        neighbors[at + i] = old[0][start + i]
    if weights.size:
        for i in range(stop - start):
            weights[at + i] = old[1][start + i]
    if times.size:
        for i in range(stop - start):
            times[at + i] = old[2][start + i]
    if edge_ids.size:
        for i in range(stop - start):
            edge_ids[at + i] = old[3][start + i]


@kernel
def _merge_list(old, start, stop, ops, op, op_stop, pairs, pair_low, pair_high, row_kill, kills, rule, timed, out, at):
    """Merge one old list with its operations; returns the length of the new one."""
    neighbors, weights, times, edge_ids = old
    op_neighbors, op_weights, op_times, op_edge_ids, op_kinds = ops
    count = 0
    safe = row_kill < 0 and pair_low == pair_high and kills[0].size == 0 and kills[2].size == 0
    while start < stop or op < op_stop:
        if safe and start < stop and not timed:  # what lies before the next operation stays
            behind = stop
            if op < op_stop:
                low, high = start, stop
                while low < high:
                    middle = (low + high) >> 1
                    if neighbors[middle] < op_neighbors[op]:
                        low = middle + 1
                    else:
                        high = middle
                behind = low
            _copy(old, start, behind, out, at + count)
            count += behind - start
            start = behind
            if start == stop and op == op_stop:
                break
        time = np.int64(0)
        if op == op_stop:
            neighbor = neighbors[start]
            if timed:
                time = times[start]
        elif start == stop:
            neighbor, time = op_neighbors[op], op_times[op]
        else:
            old_time = times[start] if timed else np.int64(0)
            old_first = old_time < op_times[op] or (old_time == op_times[op] and neighbors[start] <= op_neighbors[op])
            neighbor = neighbors[start] if old_first else op_neighbors[op]
            time = old_time if old_first else op_times[op]
        first, deleted = op, False
        while op < op_stop and op_neighbors[op] == neighbor and op_times[op] == time:
            if op_kinds[op] == DELETED_AT:
                first, deleted = op + 1, True
            op += 1
        fresh = True
        while start < stop and neighbors[start] == neighbor and (not timed or times[start] == time):
            if not deleted and (safe or not _ended(neighbor, time, -1, row_kill, pairs, pair_low, pair_high, kills)):
                weight = weights[start] if weights.size else np.float32(0)
                edge_id = edge_ids[start] if edge_ids.size else np.int64(0)
                count = _emit(out, at, count, fresh, rule, neighbor, weight, time, edge_id)
                fresh = False
            start += 1
        for i in range(first, op):
            count = _emit(out, at, count, fresh, rule, neighbor, op_weights[i], time, op_edge_ids[i])
            fresh = False
    return count


@kernel
def _merge_range(nodes, dirty, old, firsts, degrees, ops, op_starts, pairs, pair_starts, row_kills, kills, rule, timed,
                 indptr, out, sizes, start, stop):  # fmt: skip
    """Merge lists `start … stop − 1`: each is written from `indptr` on, and its length into `sizes`."""
    for i in range(start, stop):
        at = indptr[i]
        if dirty[i]:
            sizes[i] = _merge_list(
                old, firsts[i], firsts[i] + degrees[i], ops, op_starts[i], op_starts[i + 1], pairs, pair_starts[i],
                pair_starts[i + 1], row_kills[i], kills, rule, timed, out, at,
            )  # fmt: skip
            continue
        sizes[i] = degrees[i]
        _copy(old, firsts[i], firsts[i] + degrees[i], out, at)


@kernel
def _move_up(column, room, indptr):
    """Move lists that begin at `room` to `indptr`, which is not behind that."""
    for i in range(indptr.size - 1):
        if room[i] != indptr[i]:
            for j in range(indptr[i + 1] - indptr[i]):
                column[indptr[i] + j] = column[room[i] + j]


@kernel
def _loops(nodes, dirty, firsts, sizes, neighbors):
    """Count the self loops of the dirty lists."""
    count = 0
    for i in range(nodes.size):
        if dirty[i]:
            for j in range(firsts[i], firsts[i] + sizes[i]):
                count += neighbors[j] == nodes[i]
    return count


@kernel
def _surviving(rows, row_kills, pairs, pair_starts, kills, keep):
    """Mark the added edges that nothing later ended."""
    row, neighbors, _, times, _, kind, order = rows
    for i in range(row.size):
        if kind[i] == ADDED:
            low, high = pair_starts[row[i]], pair_starts[row[i] + 1]
            keep[i] = not _ended(neighbors[i], times[i], order[i], row_kills[row[i]], pairs, low, high, kills)
        elif kind[i] == DELETED:
            keep[i] = False


def _unsigned(values: np.ndarray) -> tuple[np.ndarray, int]:
    """Return values as uint64 above their lowest, and the bits they need."""
    if values.size == 0:
        return values.view(np.uint64), 1
    above = values.view(np.uint64) - np.uint64(int(values.min()) & (2**64 - 1))
    return above, max(1, int(above.max()).bit_length())


def _pair_deletions(rows: Rows, num_lists: int) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Return (neighbours, last operation) of the deletions of each list, by neighbour, and where each list's start."""
    gone = rows.take(np.flatnonzero(rows.kind == DELETED))
    order = sorted_order([_unsigned(gone.row), _unsigned(gone.neighbors)])
    row, neighbors = gone.row[order], gone.neighbors[order]
    last = np.ones(order.size, bool)
    last[:-1] = (row[1:] != row[:-1]) | (neighbors[1:] != neighbors[:-1])
    starts = starts_of(np.bincount(row[last], minlength=num_lists))
    return (neighbors[last], gone.order[order][last]), starts


def _in_list_order(rows: Rows, columns: Sequence[np.ndarray | None], *, timed: bool) -> tuple[np.ndarray, ...]:
    """Return neighbours, weights, times, edge ids and kinds of operations, list by list in the order of those.

    What lists have no column for is returned as it is: nobody looks at it.
    """
    keys = [_unsigned(rows.row), _unsigned(rows.neighbors)]
    if timed:
        keys.insert(1, _unsigned(rows.times))
    order = sorted_order(keys)
    values = rows.weights, rows.times, rows.edge_ids
    kept = (each if column is None else each[order] for each, column in zip(values, columns[1:]))
    return rows.neighbors[order], *kept, rows.kind[order]


def merge(
    nodes: np.ndarray,
    dirty: np.ndarray,
    old: tuple[np.ndarray, Sequence[np.ndarray | None]],
    rows: Rows,
    kills: Kills,
    *,
    timed: bool,
    rule: str,
    loops: bool,
    threads: int | None = None,
) -> Merged:
    """Return the lists of nodes as they are after some operations.

    Parameters
    ----------
    nodes : int64[n]
        The node of each list.
    dirty : bool[n]
        Lists to merge; the others stay.
    old : (int64[n + 1], columns)
        The old lists: neighbours, weights, times and edge ids, in the order the store keeps them, None where none are.
    rows : Rows
        The operations, in order; all on dirty lists.
    kills : Kills
    timed : bool
        Lists are by time, then neighbour; else by neighbour, and times are all 0.
    rule : str
        What is done with equal edges: "first", "all", "sum" or "max" ("error" is "first": it was checked before).
    loops : bool
        Count self loops.
    """
    old_indptr, old_columns = old
    pairs, pair_starts = _pair_deletions(rows, nodes.size)
    ends = kills.nodes, kills.orders, kills.expired
    if pairs[0].size or kills.nodes.size or kills.expired.size or (kills.rows >= 0).any():
        keep = np.ones(rows.row.size, bool)
        _surviving(tuple(rows), kills.rows, pairs, pair_starts, ends, keep)
        rows = rows.take(np.flatnonzero(keep))
    num_rows = np.bincount(rows.row, minlength=nodes.size)
    ops = _in_list_order(rows, old_columns, timed=timed)
    columns = tuple(np.empty(0, kind) if column is None else column for column, kind in zip(old_columns, _KINDS))
    op_starts, degrees, sizes = starts_of(num_rows), np.diff(old_indptr), np.empty(nodes.size, np.int64)
    room = starts_of(degrees + num_rows)
    out = tuple(np.empty(0 if column is None else int(room[-1]), kind) for column, kind in zip(old_columns, _KINDS))
    run_ranges(
        lambda start, stop: _merge_range(
            nodes, dirty, columns, old_indptr, degrees, ops, op_starts, pairs, pair_starts, kills.rows, ends,
            RULES[rule], timed, room, out, sizes, start, stop,
        ),
        nodes.size,
        threads=threads,
        grain=1 << 12,
    )  # fmt: skip
    indptr = starts_of(sizes)
    if indptr[-1] < room[-1]:
        for column in out:
            if column.size:
                _move_up(column, room, indptr)
        out = tuple(column[: int(indptr[-1])] for column in out)
    more = 0
    if loops:
        more = _loops(nodes, dirty, indptr, sizes, out[0]) - _loops(nodes, dirty, old_indptr, degrees, columns[0])
    found = [None if column is None else values for column, values in zip(old_columns, out)]
    return Merged(indptr, found, int(more))
