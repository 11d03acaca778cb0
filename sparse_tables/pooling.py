"""Pooled reads: the rows of a bag summed without being written out first."""

from typing import Any

import numpy as np

from sparse_tables.draws import draw_row
from sparse_tables.index import BLOCK, DIM, INITIAL, KEY, SCALE
from sparse_tables.kernels import add_floats, kernel, load_float, store_float
from sparse_tables.lookup import ABSENT, find_block

SUM, MEAN = range(2)
MODES = ("sum", "mean")


@kernel
def pool(
    directory: Any,
    plan: Any,
    rates: Any,
    ids: Any,
    indptr: Any,
    mode: int,
    weights: Any,
    part: Any,
    out: Any,
    missing: Any,
) -> int:
    """Sum or average the rows of bags `start..stop` into `out`; absent rows read their initial value.

    Parameters
    ----------
    ids : int64[m]
    indptr : int64[bags + 1]
    weights : float32[m], or float32[0] for none
    part : (int, int)
        First bag and end.
    out : float32[bags, dim]
    missing : int64[m]
        Filled from `indptr[start]` on with the positions of ids that have no row, ascending.

    Returns
    -------
    int
        How many ids have no row; or `-1 - position` of an id whose shard is not here.
    """
    dim = plan[DIM]
    places = np.empty((2, BLOCK), np.int64)
    drawn = np.empty(dim, np.float32)
    begin, end = indptr[part[0]], indptr[part[1]]
    num_missing = 0
    bag = part[0]
    out[part[0] : part[1]] = np.float32(0.0)
    for start in range(begin, end, BLOCK):
        stop = min(start + BLOCK, end)
        foreign = find_block(directory, plan, ids, (start, stop), places)
        if foreign >= 0:
            return -1 - foreign
        for at in range(stop - start):
            while start + at >= indptr[bag + 1]:
                bag += 1
            address = places[0, at]
            if address == ABSENT:
                draw_row(drawn.ctypes.data, dim, plan[KEY], ids[start + at], plan[INITIAL], rates[SCALE])
                missing[begin + num_missing] = start + at
                num_missing += 1
                address = drawn.ctypes.data
            target = out.ctypes.data + 4 * dim * bag
            if len(weights) == 0:
                add_floats(target, address, dim)
            else:
                weight = weights[start + at]
                for column in range(dim):
                    added = weight * load_float(address, column)
                    store_float(target, column, load_float(target, column) + added)
    if mode == MEAN:
        for bag in range(part[0], part[1]):
            size = indptr[bag + 1] - indptr[bag]
            if size > 1:
                out[bag] /= np.float32(size)
    return num_missing
