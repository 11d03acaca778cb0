"""Lists of different lengths in flat arrays: some of them, in another order."""

import numpy as np

from graph_store.kernels import kernel


@kernel
def _take(values: np.ndarray, firsts: np.ndarray, starts: np.ndarray, out: np.ndarray) -> None:
    for i in range(firsts.size):
        to, at = starts[i], firsts[i]
        for j in range(starts[i + 1] - to):
            out[to + j] = values[at + j]


def starts_of(sizes: np.ndarray) -> np.ndarray:
    """Return int64[n + 1], where each of n lists begins when they lie one behind the other."""
    starts = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=starts[1:])
    return starts


def take_spans(values: np.ndarray, firsts: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the spans of `values` that begin at `firsts`, int64[n]; span i becomes `starts[i] … starts[i + 1] − 1`."""
    out = np.empty(int(starts[-1]), values.dtype)
    _take(values, firsts, starts, out)
    return out
