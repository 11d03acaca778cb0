"""LightGCN: rows smoothed over the graph, exactly, with as few propagated rows a step as that takes."""

from collections.abc import Mapping

import numpy as np

from graph_store import GraphStore
from models.batch import Batch, unique_rows
from models.exchange import Exchange, FetchPlan
from models.model import Model
from models.options import ModelOptions
from models.propagation import SIDES, Propagation
from models.trace import Trace
from sparse_tables import Table


class LightGCN(Model):
    """LightGCN (He et al., SIGIR 2020): the mean of layers 0 … L of the propagated rows, and their dot product.

    Each rank propagates the rows of its own shards, on neighbours' rows that it fetches by node. A step is the exact
    full-graph step: of the last layer forward only the batch's rows are computed, of the first layer backward
    only their gradients are read.

    Memory: about six times the rows of this rank's nodes, beside its own edges.
    """

    def __init__(
        self,
        store: GraphStore,
        edge_type: str,
        tables: Mapping[str, Table],
        *,
        exchange: Exchange,
        options: ModelOptions,
        threads: int | None = None,
    ) -> None:
        super().__init__(store, edge_type, tables, exchange=exchange, options=options, threads=threads)
        self._propagation = Propagation(store, edge_type, exchange=exchange, layers=options.layers, threads=threads)
        self._final: dict[str, np.ndarray] | None = None

    def step(self, batch: Batch, *, trace: Trace) -> float:
        """See `Model.step`: all rows of this rank are pulled, and pushed."""
        self._final = None
        with trace.span("pull"):
            initial = self._pull(insert=True)
        with trace.span("compute"):
            rows = unique_rows(batch)
            plans = {"user": self._plan("user", rows.users), "item": self._plan("item", rows.items)}
            wanted = {side: plan.requested for side, plan in plans.items()}
            final = self._propagation.forward(initial, wanted)
            users, items = (plans[side].fetch(final[side]) for side in SIDES)
            found = self.loss(users, items, rows=rows, num_total=batch.num_total)
            gradients, counts = {}, {}
            for side, plan, own, own_counts in (
                ("user", plans["user"], found.users, found.user_counts),
                ("item", plans["item"], found.items, found.item_counts),
            ):
                back = plan.give_back(np.column_stack([own, own_counts]))
                gradients[side] = np.ascontiguousarray(back[:, :-1])
                counts[side] = np.zeros(self._nodes(side).size, np.float32)
                counts[side][plan.requested] = back[:, -1]
            pushed = self._propagation.backward(gradients, wanted)
        with trace.span("push"):
            for side in SIDES:
                self._tables[side].push(self._nodes(side), pushed[side], counts[side])
        num_rows = sum(self._nodes(side).size for side in SIDES)
        trace.count("pulled_rows", num_rows)
        trace.count("pushed_rows", num_rows)
        return found.loss

    def representations(self, side: str, nodes: np.ndarray) -> np.ndarray:
        """See `Model.representations`: one propagation serves all calls until the next step."""
        if self._final is None:
            self._final = self._propagation.forward(self._pull(insert=False))
        plan = self._plan(side, nodes)
        return plan.fetch(self._final[side][plan.requested])

    def _nodes(self, side: str) -> np.ndarray:
        return self._propagation.sides[side].nodes

    def _plan(self, side: str, nodes: np.ndarray) -> FetchPlan:
        return self.exchange.plan(nodes, self._nodes(side), num_shards=self.store.num_shards)

    def _pull(self, *, insert: bool) -> dict[str, np.ndarray]:
        return {side: self._tables[side].pull(self._nodes(side), insert=insert) for side in SIDES}
