"""The DGL side of `benchmarks.sampling`, run in DGL's own environment: answers JSON lines with JSON lines."""

import sys
import time
import types
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from answering import answer_requests


class _Absent(types.ModuleType):
    """Stands for GraphBolt, whose library is built for older versions of torch only; DGL imports it all the same."""

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


try:
    import dgl.graphbolt

    GRAPHBOLT = True
except Exception:
    GRAPHBOLT = False
    for name in [name for name in sys.modules if name.partition(".")[0] == "dgl"]:
        del sys.modules[name]
    sys.modules["dgl.graphbolt"] = _Absent("dgl.graphbolt")

import dgl  # noqa: E402


class Peer:
    """A graph whose nodes draw from their in-edges, as DGL's samplers do, and batches of seeds."""

    def start(self, request):
        """Take `indptr` and `indices` from files; list i of theirs is what node i draws from."""
        indptr, indices = (torch.from_numpy(np.load(request[name])) for name in ("indptr", "indices"))
        # Lists of in-neighbours are a CSC; for walks, which follow out-edges, the same lists are a CSR.
        empty = torch.tensor([], dtype=torch.int64)
        self.into = dgl.graph(("csc", (indptr, indices, empty)))
        self.out = dgl.graph(("csr", (indptr, indices, empty)))
        if "weights" in request:
            self.into.edata["w"] = torch.from_numpy(np.load(request["weights"]))
        self.seeds = [torch.from_numpy(seeds) for seeds in np.load(request["seeds"])]
        return {"dgl": dgl.__version__, "graphbolt": GRAPHBOLT}

    def blocks(self, request):
        """Sample all batches, `workers` of them at a time, relabelled."""
        sampler = dgl.dataloading.NeighborSampler(request["fanouts"], prob="w" if request.get("weighted") else None)
        return self._batches(request, sampler)

    def load(self, request):
        """Sample all batches, `workers` of them at a time, and gather the features of the nodes of each."""
        features = torch.from_numpy(np.load(request["features"], mmap_mode="r+"))
        return self._batches(request, dgl.dataloading.NeighborSampler(request["fanouts"]), features)

    def _batches(self, request, sampler, features=None):
        workers, edges = request["workers"], [0] * len(self.seeds)
        torch.set_num_threads(1)

        def work(worker):
            for batch in range(worker, len(self.seeds), workers):
                nodes, _, blocks = sampler.sample(self.into, self.seeds[batch])
                if features is not None:
                    features[nodes]
                edges[batch] = sum(block.num_edges() for block in blocks)

        start = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
        return {"seconds": time.perf_counter() - start, "edges": sum(edges)}

    def node2vec(self, request):
        """Walk from all seeds."""
        walk = dgl.sampling.node2vec_random_walk
        return self._walks(
            request, lambda starts: walk(self.out, starts, request["p"], request["q"], request["length"])
        )

    def uniform(self, request):
        """Walk from all seeds, uniformly."""
        return self._walks(request, lambda starts: dgl.sampling.random_walk(self.out, starts, length=request["length"]))

    def _walks(self, request, walk):
        starts = torch.cat(self.seeds)[: request["walks"]]
        start = time.perf_counter()
        walk(starts)
        return {"seconds": time.perf_counter() - start, "walks": starts.numel()}


if __name__ == "__main__":
    answer_requests(Peer())
