"""The arena's sampling kernel on a plain CSR in memory: the same passes over 64 nodes, the same draws."""

from typing import Any

import numpy as np

from graph_store.draws import NEIGHBORS, key_of, mixed
from graph_store.kernels import kernel, prefetch
from graph_store.packed_lists import LOOK_AHEAD
from graph_store.sampling.picks import floyd
from graph_store.sampling.sampler import Sampler


@kernel
def _sample_csr(indptr_in, indices, nodes, fanout, key, indptr, out):
    starts = np.empty(LOOK_AHEAD, np.int64)
    count = 0
    indptr[0] = 0
    for low in range(0, nodes.size, LOOK_AHEAD):
        size = min(LOOK_AHEAD, nodes.size - low)
        for i in range(size):
            prefetch(indptr_in, nodes[low + i])
        begin = count
        for i in range(size):
            node = nodes[low + i]
            starts[i] = indptr_in[node]
            degree = indptr_in[node + 1] - starts[i]
            if degree <= fanout:
                for j in range(degree):
                    out[count + j] = j
                if degree:
                    prefetch(indices, starts[i])
                count += degree
            else:
                floyd(mixed(key, np.uint64(node)), degree, fanout, out, count)
                for j in range(fanout):
                    prefetch(indices, starts[i] + out[count + j])
                count += fanout
            indptr[low + i + 1] = count
        for i in range(size):
            end = indptr[low + i + 1]
            for j in range(begin, end):
                out[j] = indices[starts[i] + out[j]]
            begin = end
    return count


class CsrSampler(Sampler):
    """The sampler with its draws from `indptr`, int64 by node, and `indices`."""

    def __init__(self, chain: Any, fanouts: list[int], indptr: np.ndarray, indices: np.ndarray) -> None:
        super().__init__(chain, fanouts)
        self._arrays = indptr, indices

    def _draw(self, adjacency: Any, nodes: np.ndarray, fanout: int, *, seed, step, hop, threads):  # type: ignore[no-untyped-def, override]
        indptr, out = np.empty(nodes.size + 1, np.int64), np.empty(nodes.size * fanout, np.int64)
        used = _sample_csr(*self._arrays, nodes, fanout, key_of(seed, step, NEIGHBORS, hop), indptr, out)
        return indptr, out[:used]
