"""Reading rows by id.

The way from an id to its row waits for memory twice, at the index cell and at the row. So three ids are on their
way at once: while one row is copied, the row DISTANCE ids ahead is found and prefetched, and the cell as far ahead
again is prefetched. `approach` and `arrive` are the first two stages; what they learn waits in a ring.
"""

from typing import Any

import numpy as np

from sparse_tables.draws import draw_row
from sparse_tables.index import CELLS, DIM, INITIAL, KEY, ROWS, SCALE, SHIFT, probe, shard_of
from sparse_tables.kernels import copy_floats, floats_at, kernel, load_word, mix64, prefetch

DISTANCE = 16
RING = 4 * DISTANCE
ABSENT, FOREIGN = 0, -1


@kernel
def approach(directory: Any, plan: Any, id: int, ring: Any, at: int) -> None:
    """Prefetch the home cell of `id`; its shard and hash wait in `ring` int64[2, RING]."""
    mixed = mix64(np.uint64(id))
    shard = shard_of(plan, id, mixed)
    ring[0, at & (RING - 1)] = shard
    ring[1, at & (RING - 1)] = np.int64(mixed)
    prefetch(directory[shard, CELLS] + 16 * np.int64(mixed >> np.uint64(directory[shard, SHIFT] & 63)))


@kernel
def arrive(directory: Any, plan: Any, id: int, ring: Any, at: int) -> None:
    """Find and prefetch the row of `id`; its address waits in `ring[0]`, or ABSENT, or FOREIGN."""
    shard = ring[0, at & (RING - 1)]
    cells, shift = directory[shard, CELLS], directory[shard, SHIFT]
    if cells == 0:
        ring[0, at & (RING - 1)] = FOREIGN
        return
    cell = probe(cells, shift, id, np.uint64(ring[1, at & (RING - 1)]))
    slot = (load_word(cell + 8) & 0xFFFFFFFF) - 1
    if slot < 0:
        ring[0, at & (RING - 1)] = ABSENT
        return
    row_bytes = 4 * plan[DIM]
    address = directory[shard, ROWS] + row_bytes * slot
    ring[0, at & (RING - 1)] = address
    for offset in range(0, row_bytes, 64):
        prefetch(address + offset)


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
    ring = np.empty((2, RING), np.int64)
    start, stop = part
    dim = plan[DIM]
    num_missing = 0
    for position in range(start - 2 * DISTANCE, stop):
        if position + 2 * DISTANCE < stop:
            ahead = position + 2 * DISTANCE
            approach(directory, plan, ids[ahead], ring, ahead)
        if position + DISTANCE >= start and position + DISTANCE < stop:
            ahead = position + DISTANCE
            arrive(directory, plan, ids[ahead], ring, ahead)
        if position >= start:
            address = ring[0, position & (RING - 1)]
            target = out.ctypes.data + 4 * dim * position
            if address > 0:
                copy_floats(target, address, dim)
            elif address == FOREIGN:
                return -1 - position
            else:
                draw_row(floats_at(target, dim), plan[KEY], ids[position], plan[INITIAL], rates[SCALE])
                missing[start + num_missing] = position
                num_missing += 1
    return num_missing
