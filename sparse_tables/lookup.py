"""Reading rows by id.

The way from an id to its row waits for memory twice, at the index cell and at the row. So ids go in blocks of 64:
one pass prefetches their cells, the next finds and prefetches their rows, a third copies. The answers are those of
one id at a time; the waits overlap.
"""

from typing import Any

import numpy as np

from sparse_tables.draws import draw_row
from sparse_tables.index import BLOCK, CELLS, DIM, INITIAL, KEY, ROWS, SCALE, home, probe, shard_of
from sparse_tables.kernels import copy_floats, kernel, load_word, mix64, prefetch

ABSENT = 0


@kernel
def find_block(directory: Any, plan: Any, ids: Any, block: Any, places: Any) -> int:
    """Find the rows of `ids[start:stop]`, at most BLOCK of them, and prefetch them.

    Parameters
    ----------
    block : (int, int)
        Start and stop.
    places : int64[2, BLOCK]
        `places[0]` is filled with the rows' addresses, ABSENT where an id has no row.

    Returns
    -------
    int
        The position of an id whose shard is not here, or -1.
    """
    start, stop = block
    row_bytes = 4 * plan[DIM]
    for at in range(stop - start):
        id = ids[start + at]
        mixed = mix64(np.uint64(id))
        shard = shard_of(plan, id, mixed)
        if directory[shard, CELLS] == 0:
            return start + at
        places[0, at] = shard
        places[1, at] = np.int64(mixed)
        prefetch(home(directory[shard], mixed))
    for at in range(stop - start):
        shard = places[0, at]
        cell = probe(directory[shard], ids[start + at], np.uint64(places[1, at]))
        slot = load_word(cell + 8) - 1
        if slot < 0:
            places[0, at] = ABSENT
            continue
        address = directory[shard, ROWS] + row_bytes * slot
        places[0, at] = address
        for offset in range(0, row_bytes, 64):
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
    places = np.empty((2, BLOCK), np.int64)
    dim = plan[DIM]
    num_missing = 0
    for start in range(part[0], part[1], BLOCK):
        stop = min(start + BLOCK, part[1])
        foreign = find_block(directory, plan, ids, (start, stop), places)
        if foreign >= 0:
            return -1 - foreign
        for at in range(stop - start):
            target = out.ctypes.data + 4 * dim * (start + at)
            if places[0, at] != ABSENT:
                copy_floats(target, places[0, at], dim)
            else:
                draw_row(target, dim, plan[KEY], ids[start + at], plan[INITIAL], rates[SCALE])
                missing[part[0] + num_missing] = start + at
                num_missing += 1
    return num_missing
