"""PyTorch Geometric's side of `benchmarks.sampling`, in an environment of its own: JSON lines in, JSON lines out.

Without pyg-lib its loaders draw with torch-sparse, whose operators are called here directly; walks are torch-cluster's.
"""

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from answering import answer_requests


class Peer:
    """A graph whose nodes draw from their in-edges, as PyG's samplers do, and batches of seeds."""

    def start(self, request):
        """Take `indptr` and `indices` from files; list i of theirs is what node i draws from."""
        import torch_sparse

        self.indptr, self.indices = (torch.from_numpy(np.load(request[name])) for name in ("indptr", "indices"))
        self.seeds = [torch.from_numpy(seeds) for seeds in np.load(request["seeds"])]
        if "node_times" in request:
            self.node_times = torch.from_numpy(np.load(request["node_times"]))
        versions = {"torch_sparse": torch_sparse.__version__}
        try:
            import pyg_lib

            versions["pyg_lib"] = pyg_lib.__version__
        except ImportError:
            pass
        return versions

    def blocks(self, request):
        """Sample all batches, `workers` of them at a time, relabelled."""
        torch.set_num_threads(1)
        sample, fanouts = torch.ops.torch_sparse.neighbor_sample, request["fanouts"]
        return self._timed(
            request["workers"],
            lambda seeds: sample(self.indptr, self.indices, seeds, fanouts, False, True)[1].numel(),
        )

    def temporal(self, request):
        """Sample all batches with a time a seed: neighbours whose own time is not later."""
        torch.set_num_threads(1)
        sample, kind = torch.ops.torch_sparse.hetero_temporal_neighbor_sample, "node__links__node"
        fanouts = request["fanouts"]

        def one(seeds):
            found = sample(
                ["node"],
                [("node", "links", "node")],
                {kind: self.indptr},
                {kind: self.indices},
                {"node": seeds},
                {kind: fanouts},
                {"node": self.node_times},
                len(fanouts),
                False,
                True,
            )
            return found[1][kind].numel()

        return self._timed(request["workers"], one)

    def load(self, request):
        """Go through NeighborLoader, with the features of the nodes; in this process, as it draws without workers."""
        from torch_geometric.loader import NeighborLoader

        nodes = torch.cat(self.seeds)
        loader = NeighborLoader(
            self._data(request), request["fanouts"], input_nodes=nodes, batch_size=self.seeds[0].numel()
        )
        return self._looped(loader)

    def load_links(self, request):
        """Go through LinkNeighborLoader: positives, a negative for each, the neighbourhoods of all ends."""
        from torch_geometric.loader import LinkNeighborLoader

        loader = LinkNeighborLoader(
            self._data(request),
            request["fanouts"],
            edge_label_index=torch.from_numpy(np.load(request["links"])),
            batch_size=request["batch"],
            neg_sampling="triplet",
        )
        return self._looped(loader)

    def _data(self, request):
        import warnings

        from torch_geometric.data import Data

        warnings.simplefilter("ignore")
        torch.set_num_threads(request["threads"])
        if not hasattr(self, "data"):
            cols = torch.repeat_interleave(torch.arange(self.indptr.numel() - 1), self.indptr.diff())
            features = torch.from_numpy(np.load(request["features"]))
            self.data = Data(edge_index=torch.stack([self.indices, cols]), x=features, num_nodes=features.shape[0])
        return self.data

    def _looped(self, loader):
        start, edges = time.perf_counter(), 0
        for batch in loader:
            edges += batch.num_edges
        return {"seconds": time.perf_counter() - start, "edges": edges}

    def _timed(self, workers, sample):
        edges = [0] * len(self.seeds)

        def work(worker):
            for batch in range(worker, len(self.seeds), workers):
                edges[batch] = sample(self.seeds[batch])

        start = time.perf_counter()
        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(work, range(workers)))
        return {"seconds": time.perf_counter() - start, "edges": sum(edges)}

    def uniform(self, request):
        """Walk from all seeds with torch-cluster, uniformly."""
        return self._walks(request, 1.0, 1.0)

    def node2vec(self, request):
        """Walk from all seeds with torch-cluster."""
        return self._walks(request, request["p"], request["q"])

    def _walks(self, request, p, q):
        import torch_cluster  # noqa: F401

        torch.set_num_threads(request["threads"])
        starts = torch.cat(self.seeds)[: request["walks"]]
        start = time.perf_counter()
        torch.ops.torch_cluster.random_walk(self.indptr, self.indices, starts, request["length"], p, q)
        return {"seconds": time.perf_counter() - start, "walks": starts.numel()}


if __name__ == "__main__":
    answer_requests(Peer())
