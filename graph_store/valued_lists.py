"""Rows of edges with weights, times or edge ids → sorted adjacency lists, equal edges made one as a rule says.

Rows are put in the order of their sources by counting, then each list is sorted for itself: a stable merge sort of
short runs that are sorted by insertion (Knuth, TAOCP 3, 5.2.4), by time where there are times, then by node.
"""

import numpy as np

from graph_store.edge_lists import EqualEdges, Lists, Rows
from graph_store.errors import BadInput
from graph_store.kernels import kernel, num_threads, run_ranges

_RUN = 24
_RULES = {"first": 0, "all": 1, "sum": 2, "max": 3, "error": 0}
_ROWS_A_THREAD = 1 << 16


@kernel
def _count(ranks: np.ndarray, indptr: np.ndarray) -> None:
    for i in range(ranks.size):
        indptr[np.int64(ranks[i]) + 1] += 1
    for rank in range(indptr.size - 1):
        indptr[rank + 1] += indptr[rank]


@kernel
def _by_rank(ranks, nodes, times, places, order, sorted_nodes, sorted_times):
    timed = times.size > 0
    for i in range(ranks.size):
        rank = np.int64(ranks[i])
        place = places[rank]
        places[rank] = place + 1
        order[place], sorted_nodes[place] = i, nodes[i]
        if timed:
            sorted_times[place] = times[i]


@kernel
def _before(nodes, times, one, other):
    """Say whether entry `one` comes before entry `other`; equal ones do not."""
    if times.size and times[one] != times[other]:
        return times[one] < times[other]
    return nodes[one] < nodes[other]


@kernel
def _insert(nodes, times, order, start, stop):
    timed = times.size > 0
    for i in range(start + 1, stop):
        node, row = nodes[i], order[i]
        time = times[i] if timed else 0
        j = i
        while j > start:
            k = j - 1
            if timed and times[k] != time:
                if times[k] < time:
                    break
            elif nodes[k] <= node:
                break
            nodes[j], order[j] = nodes[k], order[k]
            if timed:
                times[j] = times[k]
            j = k
        nodes[j], order[j] = node, row
        if timed:
            times[j] = time


@kernel
def _merge_runs(nodes, times, order, start, stop, spare):
    """Sort a long list whose runs are sorted, by merging two and two of them."""
    spare_nodes, spare_times, spare_order = spare
    timed, width = times.size > 0, _RUN
    while width < stop - start:
        for low in range(start, stop, 2 * width):
            middle, high = min(low + width, stop), min(low + 2 * width, stop)
            # The first run is moved away and merged back.
            size = middle - low
            if middle == high or not _before(nodes, times, middle, middle - 1):
                continue
            for i in range(size):
                spare_nodes[i], spare_order[i] = nodes[low + i], order[low + i]
                if timed:
                    spare_times[i] = times[low + i]
            i, j, to = 0, middle, low
            while i < size:
                second = False
                if j < high:
                    if timed and times[j] != spare_times[i]:
                        second = times[j] < spare_times[i]
                    else:
                        second = nodes[j] < spare_nodes[i]
                if second:
                    nodes[to], order[to] = nodes[j], order[j]
                    if timed:
                        times[to] = times[j]
                    j += 1
                else:
                    nodes[to], order[to] = spare_nodes[i], spare_order[i]
                    if timed:
                        times[to] = spare_times[i]
                    i += 1
                to += 1
        width *= 2


@kernel
def _sort_lists(indptr, nodes, times, order, first, last):
    longest = 0
    for rank in range(first, last):
        longest = max(longest, indptr[rank + 1] - indptr[rank])
    size = longest if longest > _RUN else 0
    spare = np.empty(size, nodes.dtype), np.empty(size if times.size else 0, np.int64), np.empty(size, order.dtype)
    for rank in range(first, last):
        start, stop = indptr[rank], indptr[rank + 1]
        for low in range(start, stop, _RUN):
            _insert(nodes, times, order, low, min(low + _RUN, stop))
        if stop - start > _RUN:
            _merge_runs(nodes, times, order, start, stop, spare)


@kernel
def _is_equal(nodes, times, one, other):
    return nodes[one] == nodes[other] and (times.size == 0 or times[one] == times[other])


@kernel
def _count_kept(indptr, nodes, times, kept, first, last):
    """Count the different edges of each list; returns an entry that is equal to the one before it, -1 if none is."""
    equal = np.int64(-1)
    for rank in range(first, last):
        start, stop, count = indptr[rank], indptr[rank + 1], 0
        for i in range(start, stop):
            if i > start and _is_equal(nodes, times, i, i - 1):
                if equal < 0:
                    equal = np.int64(i)
            else:
                count += 1
        kept[rank + 1] = count
    return equal


@kernel
def _fill(indptr, nodes, times, order, columns, kept, out, rule, first, last):
    """Write the entries that stay; sums are made in double precision, in the order of the input."""
    weights, edge_ids = columns
    out_nodes, out_weights, out_times, out_edge_ids = out
    for rank in range(first, last):
        to, i = kept[rank], indptr[rank]
        while i < indptr[rank + 1]:
            stop = i + 1
            if rule != 1:
                while stop < indptr[rank + 1] and _is_equal(nodes, times, stop, i):
                    stop += 1
            out_nodes[to] = np.int64(nodes[i])
            if times.size:
                out_times[to] = times[i]
            if edge_ids.size:
                out_edge_ids[to] = edge_ids[order[i]]
            if weights.size:
                weight = np.float64(weights[order[i]])
                for j in range(i + 1, stop):
                    if rule == 2:
                        weight += np.float64(weights[order[j]])
                    elif rule == 3:
                        weight = max(weight, np.float64(weights[order[j]]))
                out_weights[to] = weight
            to, i = to + 1, stop


def build_lists(rows: Rows, num_ranks: int, *, rule: str = "first", threads: int = 1) -> Lists:
    """Build lists of rows with values, or whose keys would not fit 64 bits.

    Edges are equal whose source, target and time are. Of equal ones the first stays ("first"), with the sum or the
    largest of all weights ("sum", "max"), or all stay in their order ("all").

    Raises
    ------
    EqualEdges
        There are equal ones and the rule is "error".
    BadInput
        A sum of weights that is out of range.
    """
    size, none = rows.ranks.size, np.empty(0, np.int64)
    times = none if rows.times is None else rows.times
    indptr = np.zeros(num_ranks + 1, np.int64)
    _count(rows.ranks, indptr)
    order, nodes, sorted_times = np.empty(size, np.uint32), np.empty_like(rows.nodes), np.empty_like(times)
    _by_rank(rows.ranks, rows.nodes, times, indptr[:-1].copy(), order, nodes, sorted_times)
    parts = max(1, min(num_threads(threads), size // _ROWS_A_THREAD))
    cuts = np.searchsorted(indptr, [size * part // parts for part in range(1, parts)]).tolist()
    bounds = [0, *cuts, num_ranks]

    def each(call):
        return run_ranges(lambda low, high: call(bounds[low], bounds[high]), parts, threads=parts, grain=1)

    each(lambda first, last: _sort_lists(indptr, nodes, sorted_times, order, first, last))
    kept = np.zeros(num_ranks + 1, np.int64)
    if rule == "all":
        kept = indptr
    else:
        equal = each(lambda first, last: _count_kept(indptr, nodes, sorted_times, kept, first, last))
        if rule == "error" and max(equal) >= 0:
            place = next(int(found) for found in equal if found >= 0)
            raise EqualEdges(int(np.searchsorted(indptr, place, side="right")) - 1, int(nodes[place]))
        np.cumsum(kept, out=kept)
    total = int(kept[-1])
    columns = (
        np.empty(0, np.float32) if rows.weights is None else rows.weights,
        none if rows.edge_ids is None else rows.edge_ids,
    )
    lists = Lists(
        kept,
        np.empty(total, np.int64),
        None if rows.weights is None else np.empty(total, np.float32),
        None if rows.times is None else np.empty(total, np.int64),
        None if rows.edge_ids is None else np.empty(total, np.int64),
    )
    out = (
        lists.neighbors,
        np.empty(0, np.float32) if lists.weights is None else lists.weights,
        none if lists.times is None else lists.times,
        none if lists.edge_ids is None else lists.edge_ids,
    )
    each(lambda first, last: _fill(indptr, nodes, sorted_times, order, columns, kept, out, _RULES[rule], first, last))
    if rule == "sum" and lists.weights is not None and not np.isfinite(lists.weights).all():
        raise BadInput(
            "the weights of equal edges add up to more than float32 holds; divide them, or say duplicates = 'max'"
        )
    return lists
