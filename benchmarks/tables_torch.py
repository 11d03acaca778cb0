"""The torch side of `benchmarks.tables`, run in torch's own environment: answers JSON lines with JSON lines."""

import time

import numpy as np
import torch
from answering import answer_requests

OPTIMIZERS = {
    "sgd": lambda weights, rate: torch.optim.SGD(weights, lr=rate),
    "adagrad": lambda weights, rate: torch.optim.Adagrad(weights, lr=rate),
    "row_adagrad": lambda weights, rate: torch.optim.Adagrad(weights, lr=rate),
    # It adds eps before the correction of the root, we and `torch.optim.Adam` after: equal at the first step so.
    "adam": lambda weights, rate: torch.optim.SparseAdam(weights, lr=rate, eps=1e-8 * 0.001**0.5),
}


class Peer:
    """An `nn.Embedding(sparse=True)` with one of torch's sparse optimizers, and batches to run through it."""

    def start(self, request):
        """Take rows, batches of ids and gradients from files, and make the table and its optimizer."""
        torch.set_num_threads(request["threads"])
        torch.sparse.check_sparse_tensor_invariants.disable()
        rows = np.load(request["rows"])
        self.ids = [torch.from_numpy(ids) for ids in np.load(request["ids"])]
        self.gradients = torch.from_numpy(np.load(request["gradients"]))
        self.table = torch.nn.Embedding.from_pretrained(torch.from_numpy(rows), freeze=False, sparse=True)
        self.optimizer = OPTIMIZERS[request["optimizer"]](self.table.parameters(), request["learning_rate"])
        return {"torch": torch.__version__}

    def pull(self, request):
        """Look every batch up, without a graph."""
        start = time.perf_counter()
        with torch.no_grad():
            for ids in self.ids:
                self.table(ids)
        return {"seconds": time.perf_counter() - start}

    def train(self, request):
        """Look every batch up, pass the gradients back and step: a pull and a push."""
        start = time.perf_counter()
        for ids in self.ids:
            pulled = self.table(ids)
            pulled.backward(self.gradients)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
        return {"seconds": time.perf_counter() - start}

    def pool(self, request):
        """Sum bags of equal size."""
        size = request["bag"]
        start = time.perf_counter()
        with torch.no_grad():
            for ids in self.ids:
                torch.nn.functional.embedding_bag(ids.view(-1, size), self.table.weight, mode="sum")
        return {"seconds": time.perf_counter() - start}

    def one(self, request):
        """Train on the first batch only and save its rows after, for the check."""
        self.table(self.ids[0]).backward(self.gradients)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        with torch.no_grad():
            np.save(request["out"], self.table(self.ids[0]).numpy())
        return {}


if __name__ == "__main__":
    answer_requests(Peer())
