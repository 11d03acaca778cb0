"""A finished run in one process: its model from the checkpoint, its scores and its recommendations."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpi_runner import checkpoint, held_out
from mpi_runner.errors import RunError
from mpi_runner.run_folder import RunFolder
from mpi_runner.trainer import model_options

if TYPE_CHECKING:
    import numpy as np


class TrainedRun:
    """The model of a run's checkpoint over its store; a context manager. Needs no MPI.

    Parameters
    ----------
    path : str or Path
        The run folder.
    threads : int, optional
        By default all cores of this process.

    Raises
    ------
    RunFolderError
        If there is no run with a checkpoint at `path`.
    StoreMismatch
        If the store of the configuration is not the one trained on.
    graph_store.GraphStoreError, sparse_tables.TableError
        If the store or a table cannot be read.
    """

    def __init__(self, path: str | Path, *, threads: int | None = None) -> None:
        import graph_store
        from models import MODELS, LocalExchange

        self.folder, self.config = RunFolder.open(path)
        tables, self.current = checkpoint.load(self.folder, threads=threads)
        self.store = graph_store.open(self.config.data.store, threads=threads)
        checkpoint.check_store(self.current, self.store)
        self.edge_type = self.store.edge_types[self.config.data.edge_type]
        self.exchange = LocalExchange()
        self.threads = threads
        self.model = MODELS[self.config.model.name](
            self.store,
            self.config.data.edge_type,
            tables,
            exchange=self.exchange,
            options=model_options(self.config),
            threads=threads,
        )

    def __enter__(self) -> "TrainedRun":
        return self

    def __exit__(self, *error: object) -> None:
        self.store.close()

    def evaluate(self, ks: Sequence[int] | None = None) -> tuple[dict[str, float], dict[str, int]]:
        """Rank all items that are not in train for every held-out user.

        Parameters
        ----------
        ks : sequence of int, optional
            Lengths of the ranking; `train.k` of the configuration by default.

        Returns
        -------
        scores : dict of str to float
            Means over users: `recall@k`, `ndcg@k`, `hit_rate@k` and `mrr@k` for each k.
        counts : dict of str to int
            `users` ranked for, and the held-out edges left out by reason.

        Raises
        ------
        RunError
            If the configuration names no held-out edges.
        """
        import models

        edges = held_out.read(self.config.data, self.store, threads=self.threads)
        if edges is None:
            raise RunError(f"the run at {self.folder.path} has no data.test to evaluate on")
        scores = models.evaluate(
            self.model,
            edges.users,
            (edges.indptr, edges.items),
            ks=tuple(ks or (self.config.train.k,)),
            exchange=self.exchange,
        )
        return scores, {"users": edges.users.size, **edges.dropped}

    def recommend(
        self, ids: "np.ndarray | Sequence[int] | Sequence[str]", k: int, *, include_seen: bool = False
    ) -> list[dict[str, Any]]:
        """Return the k best items for each user.

        Parameters
        ----------
        ids : int64[q], uint64[q] or sequence of int or str
            Original user ids, of the kind that the store's node type has.
        k : int
        include_seen : bool
            Whether items of the user's training edges may come too.

        Returns
        -------
        list of dict
            In the order asked: `id`, `items` (original ids, best first, fewer than k where there are no more)
            and `scores`.

        Raises
        ------
        graph_store.UnknownId
            If an id is no node of the store; it is named.
        """
        import models

        users = self.store.to_nodes(self.edge_type.src, ids)
        nodes, scores = models.recommend(self.model, users, k, exclude_seen=not include_seen)
        results = []
        for id, row, row_scores in zip(self.store.to_ids(self.edge_type.src, users), nodes, scores):
            found = row >= 0
            items = self.store.to_ids(self.edge_type.dst, row[found])
            results.append(
                {
                    "id": _plain(id),
                    "items": [_plain(item) for item in items],
                    "scores": row_scores[found].tolist(),
                }
            )
        return results


def _plain(id: Any) -> int | str:
    return id if isinstance(id, str) else int(id)
