"""MatrixFactorization: a row a user, a row an item, their dot product."""

import numpy as np

from models.batch import Batch, unique_rows
from models.model import Model
from models.trace import Trace


class MatrixFactorization(Model):
    """Matrix factorisation; with the loss "bpr" it is BPR-MF (Rendle et al., UAI 2009)."""

    def step(self, batch: Batch, *, trace: Trace) -> float:
        """See `Model.step`: one pull and one push of the batch's unique rows a side."""
        with trace.span("compute"):
            rows = unique_rows(batch)
        with trace.span("pull"):
            users = self._tables["user"].pull(rows.users)
            items = self._tables["item"].pull(rows.items)
        with trace.span("compute"):
            found = self.loss(users, items, rows=rows, num_total=batch.num_total)
        with trace.span("push"):
            self._tables["user"].push(rows.users, found.users, found.user_counts)
            self._tables["item"].push(rows.items, found.items, found.item_counts)
        trace.count("pulled_rows", rows.users.size + rows.items.size)
        trace.count("pushed_rows", rows.users.size + rows.items.size)
        return found.loss

    def representations(self, side: str, nodes: np.ndarray) -> np.ndarray:
        """See `Model.representations`."""
        return self._tables[side].pull(nodes, insert=False)
