"""From an id to its shard and its slot: linear probing over cells that hold key and slot side by side.

A cell is two int64 words: the id, and `slot + 1`, which is 0 in an empty cell, so that zeroed memory is an empty
index.

Kernels work in blocks of 64 ids: one pass computes the home cells and prefetches them, the next reads them.
The result is the same; the waits for memory overlap.
"""

from typing import Any

import numpy as np

from sparse_tables.draws import draw_row
from sparse_tables.kernels import fill_floats, kernel, load_word, mix64, prefetch, store_word

# Fields of a shard's line in the table's directory, int64[num_shards, FIELDS]. CELLS 0: the shard is not
# here.
CELLS, SHIFT, ROOM, COUNT, IDS, ROWS, STATE, STEPS = range(8)
FIELDS = 8

# Fields of the table's plan, int64[PLAN_FIELDS]: what the kernels need to know of its config.
NUM_SHARDS, SHARD_MASK, MIXED, DIM, STATE_WIDTH, INITIAL, KEY, OPTIMIZER = range(8)
PLAN_FIELDS = 8

# Fields of the table's rates, float64[RATE_FIELDS].
SCALE, LEARNING_RATE, L2, EPS, BETA1, BETA2, ACCUMULATOR = range(7)
RATE_FIELDS = 7

BLOCK = 64


@kernel
def shard_of(plan: Any, id: int, mixed: np.uint64) -> Any:
    """Return the shard of `id`, whose `mix64` is `mixed`."""
    if plan[SHARD_MASK] >= 0:
        return (np.int64(mixed) if plan[MIXED] else id) & plan[SHARD_MASK]
    if plan[MIXED]:
        return np.int64(mixed % np.uint64(plan[NUM_SHARDS]))
    rest = id % plan[NUM_SHARDS]
    return rest + plan[NUM_SHARDS] if rest < 0 else rest


@kernel
def home(line: Any, mixed: np.uint64) -> Any:
    """Return the address of the cell where the search for an id starts, given its `mix64`."""
    return line[CELLS] + 16 * np.int64(mixed >> np.uint64(line[SHIFT]))


@kernel
def probe(line: Any, id: int, mixed: np.uint64) -> Any:
    """Return the address of the cell that holds `id`, or of the empty one where it would go."""
    cell = home(line, mixed)
    end = line[CELLS] + (16 << (64 - line[SHIFT]))
    while load_word(cell + 8) != 0 and load_word(cell) != id:
        cell += 16
        if cell == end:
            cell = line[CELLS]
    return cell


@kernel
def fill_index(line: Any) -> bool:
    """Enter the ids of a shard's slots into its cells, all empty; False when an id is there twice."""
    for start in range(0, line[COUNT], BLOCK):
        stop = min(start + BLOCK, line[COUNT])
        for slot in range(start, stop):
            mixed = mix64(np.uint64(load_word(line[IDS] + 8 * slot)))
            prefetch(home(line, mixed))
        for slot in range(start, stop):
            id = load_word(line[IDS] + 8 * slot)
            cell = probe(line, id, mix64(np.uint64(id)))
            if load_word(cell + 8) != 0:
                return False
            store_word(cell, id)
            store_word(cell + 8, slot + 1)
    return True


@kernel
def partition(directory: Any, plan: Any, ids: Any, order: Any, bounds: Any) -> int:
    """Order the positions of `ids` by shard, stably.

    Fills `order` int64[n] and `bounds` int64[num_shards + 1]; the positions of shard s are
    `order[bounds[s]:bounds[s + 1]]`. Returns the position of an id whose shard is not here, or -1.
    """
    shards = np.empty(len(ids), np.int32)
    bounds[:] = 0
    for position in range(len(ids)):
        shard = shard_of(plan, ids[position], mix64(np.uint64(ids[position])))
        if directory[shard, CELLS] == 0:
            return position
        shards[position] = shard
        bounds[shard + 1] += 1
    for shard in range(plan[NUM_SHARDS]):
        bounds[shard + 1] += bounds[shard]
    place = bounds[:-1].copy()
    for position in range(len(ids)):
        shard = shards[position]
        order[place[shard]] = position
        place[shard] += 1
    return -1


@kernel
def enter(
    directory: Any,
    plan: Any,
    rates: Any,
    ids: Any,
    order: Any,
    bounds: Any,
    shards: Any,
    uniques: Any,
    marks: Any,
) -> int:
    """Find the unique ids of some shards' positions, giving those that are new a row with its initial value.

    Parameters
    ----------
    order, bounds
        What `partition` filled.
    shards : int64[2]
        The first shard to work on and the end of the range; the first is moved up as shards are done.
    uniques : int32[2, n]
        Filled for the positions of each shard done, from `bounds[shard]` on: for each position in `order` its
        number among the shard's unique ids; for each number its slot, and a -1 after the last.
    marks : int32[m]
        Scratch of this thread, at least as long as the shards have room, holding anything.

    Returns
    -------
    int
        A shard that must grow first (call again then), or -1 when all are done.
    """
    homes = np.empty(BLOCK, np.uint64)
    numbers, slots = uniques
    while shards[0] < shards[1]:
        shard = shards[0]
        first, last = bounds[shard], bounds[shard + 1]
        line = directory[shard]
        num_unique = 0
        for start in range(first, last, BLOCK):
            stop = min(start + BLOCK, last)
            for at in range(start, stop):
                mixed = mix64(np.uint64(ids[order[at]]))
                homes[at - start] = mixed
                prefetch(home(line, mixed))
            for at in range(start, stop):
                id = ids[order[at]]
                cell = probe(line, id, homes[at - start])
                word = load_word(cell + 8)
                if word == 0:
                    slot = line[COUNT]
                    if slot == line[ROOM]:
                        return shard
                    _add_row(line, plan, rates, slot, id)
                    store_word(cell, id)
                    word = slot + 1
                    store_word(cell + 8, word)
                slot = word - 1
                # A mark counts only if the list of slots agrees, so marks are never cleared (Briggs and Torczon,
                # "An efficient representation for sparse sets", 1993). Whether an id was here before is as good
                # as random: computed, not branched on.
                mark = marks[slot]
                mark = mark if (mark >= 0) & (mark < num_unique) else num_unique
                known = (mark < num_unique) & (slots[first + mark] == slot)
                number = mark if known else num_unique
                num_unique += 1 - known
                slots[first + number] = slot
                numbers[at] = number
                marks[slot] = number
        if first + num_unique < last:
            slots[first + num_unique] = -1
        shards[0] += 1
    return -1


@kernel
def _add_row(line: Any, plan: Any, rates: Any, slot: int, id: int) -> None:
    dim, width = plan[DIM], plan[STATE_WIDTH]
    store_word(line[IDS] + 8 * slot, id)
    draw_row(line[ROWS] + 4 * dim * slot, dim, plan[KEY], id, plan[INITIAL], rates[SCALE])
    # Other state starts at the zeros of fresh memory.
    if rates[ACCUMULATOR] != 0.0:
        fill_floats(line[STATE] + 4 * width * slot, rates[ACCUMULATOR], width)
    line[COUNT] = slot + 1
