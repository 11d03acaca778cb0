"""Model: what every recommender here does, whatever the rows of its users and items are made of."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from graph_store import GraphStore
from models.batch import Batch, UniqueRows
from models.exchange import Exchange
from models.loader import EdgeLoader
from models.losses import LossGradients, bpr, row_norms, softmax
from models.options import ModelOptions
from models.trace import Trace
from sparse_tables import Table, TableConfig

# Edges looked at together when all are counted.
_SCAN_EDGES = 1 << 22


class Model(ABC):
    """A recommender trained on one edge type, users at its source and items at its target.

    Parameters
    ----------
    store : GraphStore
        Open, and kept open while the model is used.
    edge_type : str
        `src:relation:dst`.
    tables : mapping of {"user", "item"} to Table
        Made from `tables(options, …)`; ids are nodes.
    exchange : Exchange
        The ranks that train together. The constructor is collective, as are `step` and `rows`.
    options : ModelOptions
    threads : int, optional
        Most threads of this rank; by default the cores of this process.
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
        self.store = store
        self.edge_type = edge_type
        self.adjacency = store.adjacency(edge_type)
        stored = store.edge_types[edge_type]
        self.node_types = {"user": stored.src, "item": stored.dst}
        self.exchange = exchange
        self.options = options
        self.threads = threads
        self._tables = dict(tables)

    @classmethod
    def tables(cls, options: ModelOptions, *, num_shards: int) -> dict[str, TableConfig]:
        """Return what the model's tables are, by side.

        Parameters
        ----------
        options : ModelOptions
        num_shards : int
            Of the store, so that a node's row lies with the owner of its edges.
        """
        return {
            side: TableConfig(
                name=side,
                dim=options.dim,
                optimizer=options.optimizer,
                learning_rate=options.learning_rate,
                seed=options.seed,
                num_shards=num_shards,
                initial="normal",
                scale=options.init_scale,
                l2=options.l2,
            )
            for side in ("user", "item")
        }

    def loader(self) -> EdgeLoader:
        """Return the batches that `step` takes."""
        return EdgeLoader(
            self.adjacency,
            self.store.nodes(self.node_types["item"]),
            batch_size=self.options.batch_size,
            num_negatives=self.options.negatives_drawn,
            shared=self.options.loss == "softmax",
            popular=self.options.negatives == "popular",
            seed=self.options.seed,
            threads=self.threads,
        )

    @abstractmethod
    def step(self, batch: Batch, *, trace: Trace) -> float:
        """Learn from one rank's samples of a step. Collective: every rank calls it, if only with an empty batch.

        The gradients of all ranks' samples are summed, as means over `batch.num_total`, and applied once.

        Returns
        -------
        float
            The loss summed over the samples given here, without the l2 term.
        """

    @abstractmethod
    def representations(self, side: str, nodes: np.ndarray) -> np.ndarray:
        """Return float32[n, dim], what the loss compares. Collective; inserts nothing.

        Parameters
        ----------
        side : {"user", "item"}
        nodes : int64[n]
            This rank's own wish: distinct, in any order, possibly none.
        """

    def rows(self, side: str, nodes: np.ndarray) -> np.ndarray:
        """Return the rows whose dot products rank. Collective; inserts nothing.

        Popular negatives teach ln p(item | user) / p(item), so ranking adds the logarithm of an item's training edges:
        in a column of its own, which is 1 for users. Otherwise the rows are the representations.

        Parameters
        ----------
        side : {"user", "item"}
        nodes : int64[n]
            This rank's own wish: any order, duplicates welcome, possibly none.

        Returns
        -------
        float32[n, dim], or float32[n, dim + 1] with popular negatives
        """
        unique, inverse = np.unique(np.asarray(nodes, np.int64), return_inverse=True)
        rows = self.representations(side, unique)
        if self.options.negatives == "popular":
            rows = self._with_popularity(side, unique, rows)
        return rows[inverse]

    def _with_popularity(self, side: str, nodes: np.ndarray, rows: np.ndarray) -> np.ndarray:
        if self.options.similarity == "cosine":
            rows = rows / row_norms(rows)
        if side == "user":
            return np.column_stack([rows / np.float32(self.options.temperature), np.ones(len(rows), np.float32)])
        degrees = self._degrees("item")[self.store.dense(self.node_types["item"], nodes)]
        return np.column_stack([rows, np.log(np.maximum(degrees, 1)).astype(np.float32)])

    def loss(self, users: np.ndarray, items: np.ndarray, *, rows: UniqueRows, num_total: int) -> LossGradients:
        """Return the loss of a batch's unique rows, and its gradients as means over `num_total` samples."""
        options = self.options
        if options.loss == "bpr":
            found = bpr(users, items, rows, scale=1.0 / num_total)
        else:
            found = softmax(
                users,
                items,
                rows,
                seen=self.adjacency.neighbors(rows.users),
                temperature=options.temperature,
                cosine=options.similarity == "cosine",
                scale=1.0 / num_total,
                threads=self.threads,
            )
        if options.l2_per == "sample" or not options.l2:
            return found
        return found._replace(
            user_counts=self._even_counts("user", rows.users, rows.user_slots, num_total),
            item_counts=self._even_counts("item", rows.items, rows.positive_slots, num_total),
        )

    def _even_counts(self, side: str, nodes: np.ndarray, slots: np.ndarray, num_total: int) -> np.ndarray:
        """Return float32[n], counts whose sum over an epoch is the same for each row that has an edge."""
        degrees = self._degrees(side)
        own = degrees[self.store.dense(self.node_types[side], nodes)]
        average = self.adjacency.num_edges / max(1, int(np.count_nonzero(degrees)))
        occurrences = np.bincount(slots, minlength=nodes.size)
        return (occurrences * (average / num_total) / np.maximum(own, 1)).astype(np.float32)

    @cached_property
    def _item_degrees(self) -> np.ndarray:
        return _in_degrees(self.store, self.edge_type)

    @cached_property
    def _user_degrees(self) -> np.ndarray:
        return self.adjacency.degrees(self.store.nodes(self.node_types["user"], deleted=True))

    def _degrees(self, side: str) -> np.ndarray:
        """Return int64[n], the training edges of each node of a side, in dense order."""
        return self._user_degrees if side == "user" else self._item_degrees


def _in_degrees(store: GraphStore, edge_type: str) -> np.ndarray:
    """Return int64[n], the edges into each destination node, in dense order; a part of the edges at a time."""
    stored = store.edge_types[edge_type]
    if stored.reverse is not None:
        return store.adjacency(stored.reverse).degrees(store.nodes(stored.dst, deleted=True))
    adjacency, degrees = store.adjacency(edge_type), np.zeros(store.id_map(stored.dst).count, np.int64)
    for begin in range(0, adjacency.num_edges, _SCAN_EDGES):
        positions = np.arange(begin, min(begin + _SCAN_EDGES, adjacency.num_edges), dtype=np.int64)
        targets = adjacency.edges_at(positions)[1]
        degrees += np.bincount(store.dense(stored.dst, targets), minlength=degrees.size)
    return degrees
