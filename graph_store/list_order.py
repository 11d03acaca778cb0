"""Lists in the order of their original ids: what users see, whatever the order that is stored."""

import numpy as np

from graph_store.kernels import kernel, run_ranges

# Nodes are about in the order of their ids, so that few moves put a list in order; past so many an edge it is sorted.
_MOVES = 8


@kernel
def _sort_lists(indptr, keys, weights, start, stop):
    """Sort each list by its keys, in place and stably, the weights (perhaps none) with them."""
    for i in range(start, stop):
        low, high = indptr[i], indptr[i + 1]
        left = _MOVES * (high - low)
        for j in range(low + 1, high):
            key, place = keys[j], j
            if keys[j - 1] <= key:
                continue
            weight = weights[j] if weights.size else np.float32(0)
            while place > low and keys[place - 1] > key:
                keys[place] = keys[place - 1]
                if weights.size:
                    weights[place] = weights[place - 1]
                place -= 1
            keys[place] = key
            if weights.size:
                weights[place] = weight
            left -= j - place
            if left < 0:
                if weights.size:
                    order = np.argsort(keys[low:high], kind="mergesort")
                    keys[low:high] = keys[low:high][order]
                    weights[low:high] = weights[low:high][order]
                else:
                    keys[low:high] = np.sort(keys[low:high])
                break


def sort_lists(indptr: np.ndarray, keys: np.ndarray, weights: np.ndarray | None, *, threads: int | None) -> None:
    """Sort the lists of `keys`, int64[m] or uint64[m], in place; list i is `indptr[i] … indptr[i + 1] − 1`.

    Parameters
    ----------
    weights : float32[m] or None
        Moved with the keys.
    """
    moved = np.empty(0, np.float32) if weights is None else weights
    run_ranges(
        lambda start, stop: _sort_lists(indptr, keys, moved, start, stop),
        indptr.size - 1,
        threads=threads,
        grain=1 << 11,
    )
