"""Lists in the order of their original ids: what users see, whatever the order that is stored."""

import numpy as np

from graph_store.kernels import kernel, run_ranges

# Nodes are about in the order of their ids, so that few moves put a list in order; past so many an edge it is sorted.
_MOVES = 8
# Shorter lists are sorted by moves alone.
_SHIFTED = 16


@kernel
def _shift_small(keys, low, high):
    """Bring each key up to four places forward, past larger ones; says whether keys are in order after that.

    Each key is handed through the four largest so far, kept in order, and the least of the five is written: that
    takes no branch, of which a list that is nearly in order has one in three go the other way than was foreseen.
    """
    a, b, c, d = keys[low], keys[low + 1], keys[low + 2], keys[low + 3]
    a, b, c, d = min(a, b), max(a, b), min(c, d), max(c, d)
    a, b, c, d = min(a, c), max(a, c), min(b, d), max(b, d)
    b, c = min(b, c), max(b, c)
    last, unordered = a, False
    for j in range(low + 4, high):
        key = keys[j]
        least, key = min(a, key), max(a, key)
        a, key = min(b, key), max(b, key)
        b, key = min(c, key), max(c, key)
        c, d = min(d, key), max(d, key)
        unordered |= least < last
        last = least
        keys[j - 4] = least
    keys[high - 4], keys[high - 3], keys[high - 2], keys[high - 1] = a, b, c, d
    return not (unordered or a < last)


@kernel
def sort_keys(indptr, keys, start, stop):
    """Sort each list in place."""
    for i in range(start, stop):
        low, high = indptr[i], indptr[i + 1]
        if high - low >= _SHIFTED and (_shift_small(keys, low, high) or _shift_small(keys, low, high)):
            continue
        left = _MOVES * (high - low)
        for j in range(low + 1, high):
            key, place = keys[j], j
            while place > low and keys[place - 1] > key:
                keys[place] = keys[place - 1]
                place -= 1
            keys[place] = key
            left -= j - place
            if left < 0:
                keys[low:high] = np.sort(keys[low:high])
                break


@kernel
def sort_both(indptr, keys, weights, start, stop):
    """Sort each list by its keys, in place and stably, the weights with them."""
    for i in range(start, stop):
        low, high = indptr[i], indptr[i + 1]
        left = _MOVES * (high - low)
        for j in range(low + 1, high):
            key, place = keys[j], j
            if keys[j - 1] <= key:
                continue
            weight = weights[j]
            while place > low and keys[place - 1] > key:
                keys[place], weights[place] = keys[place - 1], weights[place - 1]
                place -= 1
            keys[place], weights[place] = key, weight
            left -= j - place
            if left < 0:
                order = np.argsort(keys[low:high], kind="mergesort")
                keys[low:high] = keys[low:high][order]
                weights[low:high] = weights[low:high][order]
                break


def sort_lists(indptr: np.ndarray, keys: np.ndarray, weights: np.ndarray | None, *, threads: int | None) -> None:
    """Sort the lists of `keys`, int64[m] or uint64[m], in place; list i is `indptr[i] … indptr[i + 1] − 1`.

    Parameters
    ----------
    weights : float32[m] or None
        Moved with the keys.
    """

    def sort(start: int, stop: int) -> None:
        if weights is None:
            sort_keys(indptr, keys, start, stop)
        else:
            sort_both(indptr, keys, weights, start, stop)

    run_ranges(sort, indptr.size - 1, threads=threads, grain=1 << 11)
