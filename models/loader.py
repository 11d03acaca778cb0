"""EdgeLoader: the edges of an epoch in seeded order, with negatives, cut into steps and shares."""

import numpy as np

from graph_store import Adjacency, permute, sample_negatives
from models.batch import Batch


class EdgeLoader:
    """Every edge of a type once an epoch, in steps of `batch_size`.

    Everything is drawn from (seed, epoch, global position), so it does not depend on ranks, shares or threads.

    Parameters
    ----------
    adjacency : Adjacency
        The training edges.
    candidates : int64[m]
        Nodes to draw negatives from.
    batch_size : int
        Samples of a step over all ranks. An epoch's last step may have fewer.
    num_negatives : int
        Of each sample, or of the step where they are shared (then at most m).
    shared : bool
        Whether a step's samples share their negatives: distinct candidates, uniformly drawn, among which the user's
        own items are still to be masked. Otherwise each sample has its own, which its user has no edge to.
    popular : bool
        Whether shared negatives are instead the distinct items of `num_negatives` random edges (they may be fewer), so
        that an item comes in proportion to its edges.
    seed : int

    Attributes
    ----------
    num_samples : int
        Samples of an epoch.
    num_steps : int
        Steps of an epoch.
    """

    def __init__(
        self,
        adjacency: Adjacency,
        candidates: np.ndarray,
        *,
        batch_size: int,
        num_negatives: int = 1,
        shared: bool = False,
        popular: bool = False,
        seed: int,
        threads: int | None = None,
    ) -> None:
        if adjacency.num_edges == 0:
            raise ValueError("the edge type has no edges to train on")
        if batch_size < 1 or num_negatives < 1:
            raise ValueError(f"batch_size and num_negatives must be at least 1, got {batch_size}, {num_negatives}")
        if popular and not shared:
            raise ValueError("popular negatives must be shared")
        self.num_samples = adjacency.num_edges
        self.num_steps = -(-self.num_samples // batch_size)
        self._adjacency = adjacency
        self._candidates = np.ascontiguousarray(candidates, np.int64)
        self._batch_size = batch_size
        self._num_negatives = num_negatives
        self._shared = shared
        self._popular = popular
        self._seed = seed
        self._threads = threads

    def batch(self, epoch: int, step: int, *, rank: int = 0, size: int = 1) -> Batch:
        """Return the equal share of a rank, which may be empty; the shares in rank order make the whole step."""
        num_total = self._num_total(step)
        return self.batch_range(epoch, step, num_total * rank // size, num_total * (rank + 1) // size)

    def batch_range(self, epoch: int, step: int, begin: int, end: int) -> Batch:
        """Return the samples `begin` … `end` − 1 of a step.

        Raises
        ------
        ValueError
            If the step or the range does not exist.
        """
        num_total = self._num_total(step)
        if not 0 <= begin <= end <= num_total:
            raise ValueError(f"samples {begin} … {end} are out of the step's 0 … {num_total}")
        first = step * self._batch_size
        positions = np.arange(first + begin, first + end, dtype=np.int64)
        order = permute(positions, self.num_samples, seed=self._seed, epoch=epoch, threads=self._threads)
        users, positives = self._adjacency.edges_at(order)
        if self._shared:
            return Batch(users, positives, self._shared_negatives(epoch, step), num_total)
        negatives = sample_negatives(
            self._adjacency,
            users,
            self._candidates,
            positions,
            num_negatives=self._num_negatives,
            seed=self._seed,
            epoch=epoch,
            threads=self._threads,
        )
        return Batch(users, positives, negatives, num_total)

    def _num_total(self, step: int) -> int:
        if not 0 <= step < self.num_steps:
            raise ValueError(f"step must be in 0 … {self.num_steps - 1}, got {step}")
        return min(self._batch_size, self.num_samples - step * self._batch_size)

    def _shared_negatives(self, epoch: int, step: int) -> np.ndarray:
        length = self.num_samples if self._popular else self._candidates.size
        positions = np.arange(min(self._num_negatives, length), dtype=np.int64)
        # Another permutation for each step; a negative key is none of the epochs' own.
        drawn = permute(positions, length, seed=self._seed, epoch=-1 - (epoch * self.num_steps + step))
        return np.unique(self._adjacency.edges_at(drawn)[1]) if self._popular else self._candidates[drawn]
