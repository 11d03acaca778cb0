"""Open addressing: where a small table that a kernel makes for itself has a key."""

import numpy as np

from graph_store.kernels import kernel, mix64

FREE = np.int64(-1)


@kernel
def slot_of(keys, key):
    """Return the slot of a key 0 or above, or the free one where it would go.

    `keys` is int64[s], s a power of two, -1 where a slot is free, as one at least is; by linear probing.
    """
    mask = np.uint64(keys.size - 1)
    slot = np.int64(mix64(np.uint64(key)) & mask)
    while keys[slot] != FREE and keys[slot] != key:
        slot = np.int64(np.uint64(slot + 1) & mask)
    return slot
