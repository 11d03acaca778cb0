"""Which places of a list are drawn."""

import numpy as np

from graph_store.draws import draw
from graph_store.kernels import kernel, mix64


@kernel
def floyd(unit_key, degree, fanout, picks, at):
    """Write `fanout` distinct positions below `degree` into `picks[at:]`, uniform over the subsets.

    Floyd's method (Bentley and Floyd, CACM 1987): `fanout` draws, whatever the degree.
    """
    if fanout <= 64:
        for d in range(fanout):
            top = degree - fanout + d
            value = draw(unit_key, d, top + 1)
            for i in range(d):
                if picks[at + i] == value:
                    value = top
                    break
            picks[at + d] = value
        return
    size = 1
    while size < 2 * fanout:
        size *= 2
    seen = np.full(size, -1, np.int64)
    for d in range(fanout):
        top = degree - fanout + d
        value = draw(unit_key, d, top + 1)
        slot = np.int64(mix64(np.uint64(value)) & np.uint64(size - 1))
        while seen[slot] >= 0 and seen[slot] != value:
            slot = (slot + 1) & (size - 1)
        if seen[slot] == value:
            value = top
            slot = np.int64(mix64(np.uint64(value)) & np.uint64(size - 1))
            while seen[slot] >= 0:
                slot = (slot + 1) & (size - 1)
        seen[slot] = value
        picks[at + d] = value
