"""Pooled reads: the rows of a bag summed without being written out first."""

from typing import Any

import numpy as np

from sparse_tables.draws import draw_row
from sparse_tables.index import DIM, INITIAL, KEY, SCALE
from sparse_tables.kernels import floats_at, kernel
from sparse_tables.lookup import DISTANCE, FOREIGN, RING, approach, arrive

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
    ring = np.empty((2, RING), np.int64)
    drawn = np.empty(dim, np.float32)
    start, stop = indptr[part[0]], indptr[part[1]]
    num_missing = 0
    bag = part[0]
    out[part[0] : part[1]] = np.float32(0.0)
    for position in range(start - 2 * DISTANCE, stop):
        if position + 2 * DISTANCE < stop:
            ahead = position + 2 * DISTANCE
            approach(directory, plan, ids[ahead], ring, ahead)
        if position + DISTANCE >= start and position + DISTANCE < stop:
            ahead = position + DISTANCE
            arrive(directory, plan, ids[ahead], ring, ahead)
        if position < start:
            continue
        while position >= indptr[bag + 1]:
            bag += 1
        address = ring[0, position & (RING - 1)]
        if address > 0:
            row = floats_at(address, dim)
        elif address == FOREIGN:
            return -1 - position
        else:
            draw_row(drawn, plan[KEY], ids[position], plan[INITIAL], rates[SCALE])
            missing[start + num_missing] = position
            num_missing += 1
            row = drawn
        weight = weights[position] if len(weights) > 0 else np.float32(1.0)
        total = floats_at(out.ctypes.data + 4 * dim * bag, dim)
        for column in range(dim):
            total[column] += weight * row[column]
    if mode == MEAN:
        for bag in range(part[0], part[1]):
            size = indptr[bag + 1] - indptr[bag]
            if size > 1:
                out[bag] /= np.float32(size)
    return num_missing
