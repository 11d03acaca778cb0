"""Lists in original ids: each some lists at a time, which stay in the processor's caches from step to step."""

import numpy as np

from graph_store.adjacency import Adjacency, read_lists
from graph_store.ids import IdMap, take_ids
from graph_store.kernels import kernel, run_ranges
from graph_store.list_order import sort_both, sort_keys
from graph_store.ragged import starts_of

_LISTS = 64


@kernel
def _id_lists(arrays, nodes, indptr, out, keys, columns, ids, by_time, start, stop):
    """Fill in lists: neighbours, then their ids, in the order of those unless it is by time."""
    words, words32, directory, group_base = arrays
    base, originals = ids
    for low in range(start, stop, _LISTS):
        high = min(low + _LISTS, stop)
        read_lists(words, words32, directory, group_base, nodes, indptr, out, columns, low, high)
        part = out[indptr[low] : indptr[high]]
        take_ids(part, base, originals, part)
        if columns[0].size and not by_time:
            sort_both(indptr, keys, columns[0], low, high)
        elif not by_time:
            sort_keys(indptr, keys, low, high)


def id_lists(
    adjacency: Adjacency, ids: IdMap, nodes: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray | None, np.ndarray | None]:
    """Return what `Adjacency.lists` does with extras, neighbours by their ids and, unless lists are by time, ascending.

    Parameters
    ----------
    ids : IdMap
        Of the neighbours: integers of which every one was compared with its checksum.
    """
    indptr = starts_of(adjacency.degrees(nodes))
    size = int(indptr[-1])
    found = np.empty(size, np.int64)
    keys = found.view(np.uint64) if ids.id_type == "unsigned" else found
    weights = np.empty(size if adjacency.weighted else 0, np.float32)
    times = np.empty(size if adjacency.timed else 0, np.int64)
    columns = weights, times, np.empty(0, np.int64)
    run_ranges(
        lambda start, stop: _id_lists(
            adjacency.arrays, nodes, indptr, found, keys, columns, (ids.base, ids.originals), adjacency.timed,
            start, stop,
        ),
        nodes.size,
        threads=adjacency.threads,
        grain=1 << 10,
    )  # fmt: skip
    return indptr, keys, weights if adjacency.weighted else None, times if adjacency.timed else None
