"""Reading rows by id."""

from typing import Any

import numpy as np

from sparse_tables.draws import draw_row
from sparse_tables.index import BLOCK, CELLS, DIM, INITIAL, KEY, ROWS, SCALE, SHIFT, probe, shard_of
from sparse_tables.kernels import copy_bytes, kernel, load_word, mix64, prefetch


@kernel
def find_block(directory: Any, plan: Any, ids: Any, bounds: Any, found: Any) -> int:
    """Find the rows of `ids[start:stop]`, at most BLOCK of them, and prefetch them.

    Fills `found` int64[BLOCK] with their addresses, 0 where an id has no row. Returns the position of an id
    whose shard is not here, or -1 when there is none.
    """
    start, stop = bounds
    line_bytes = 4 * plan[DIM]
    for position in range(start, stop):
        mixed = mix64(np.uint64(ids[position]))
        shard = shard_of(plan, ids[position], mixed)
        if directory[shard, CELLS] == 0:
            return position
        found[position - start] = shard
        prefetch(directory[shard, CELLS] + 16 * np.int64(mixed >> np.uint64(directory[shard, SHIFT])))
    for position in range(start, stop):
        id = ids[position]
        shard = found[position - start]
        cell = probe(directory[shard, CELLS], directory[shard, SHIFT], id, mix64(np.uint64(id)))
        slot = (load_word(cell + 8) & 0xFFFFFFFF) - 1
        address = directory[shard, ROWS] + line_bytes * slot if slot >= 0 else 0
        found[position - start] = address
        if slot >= 0:
            for offset in range(0, line_bytes, 64):
                prefetch(address + offset)
    return -1


@kernel
def gather(directory: Any, plan: Any, rates: Any, ids: Any, part: Any, out: Any, missing: Any) -> int:
    """Copy the rows of `ids[start:stop]` into `out`, an absent row's initial value in its place.

    Parameters
    ----------
    part : (int, int)
        Start and stop.
    out : float32[n, dim]
    missing : int64[n]
        Filled from `start` on with the positions of ids that have no row, ascending.

    Returns
    -------
    int
        How many ids have no row; or `-1 - position` of an id whose shard is not here.
    """
    found = np.empty(BLOCK, np.int64)
    line_bytes = 4 * plan[DIM]
    start, stop = part
    num_missing = 0
    for first in range(start, stop, BLOCK):
        last = min(first + BLOCK, stop)
        foreign = find_block(directory, plan, ids, (first, last), found)
        if foreign >= 0:
            return -1 - foreign
        for position in range(first, last):
            address = found[position - first]
            if address != 0:
                copy_bytes(out.ctypes.data + line_bytes * position, address, line_bytes)
            else:
                draw_row(out[position], plan[KEY], ids[position], plan[INITIAL], rates[SCALE])
                missing[start + num_missing] = position
                num_missing += 1
    return num_missing
