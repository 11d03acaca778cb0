"""Ranking metrics over held-out items: recall, NDCG, hit rate and reciprocal rank, as sums that ranks can add."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

METRICS = ("recall", "ndcg", "hit_rate", "mrr")


@dataclass(frozen=True)
class RankingSums:
    """Sums over users of each metric at each cutoff; the means are what is reported.

    Parameters
    ----------
    ks : tuple of int
        Cutoffs.
    num_users : int
        Users with at least one held-out item.
    sums : float64[4 * len(ks)]
        For each cutoff in turn the sums of `METRICS`.
    """

    ks: tuple[int, ...]
    num_users: int
    sums: np.ndarray

    def vector(self) -> np.ndarray:
        """Return float64[1 + 4 * len(ks)], the user count and the sums: what ranks add."""
        return np.concatenate([[float(self.num_users)], self.sums])

    @classmethod
    def from_vector(cls, vector: np.ndarray, ks: Sequence[int]) -> "RankingSums":
        """Make sums of what `vector` returned, of one rank or added over ranks."""
        return cls(tuple(ks), round(float(vector[0])), np.asarray(vector[1:], np.float64))

    def means(self) -> dict[str, float]:
        """Return `{"recall@20": …, "ndcg@20": …, "hit_rate@20": …, "mrr@20": …}`; 0 where there is no user."""
        names = [f"{metric}@{k}" for k in self.ks for metric in METRICS]
        return {name: float(value) / max(self.num_users, 1) for name, value in zip(names, self.sums)}


def ranking_sums(top: np.ndarray, held_out: tuple[np.ndarray, np.ndarray], *, ks: Sequence[int] = (20,)) -> RankingSums:
    """Compare rankings with the held-out items.

    Recall@k divides the hits by all held-out items of the user; NDCG@k has gains of 1, discounts of log2(rank + 1)
    and the ideal of min(k, held-out items) hits (the definitions of LightGCN, He et al., SIGIR 2020, and of its
    published scores). HitRate@k is 1 with any hit; MRR@k is 1 / rank of the first hit, 0 without one.

    Parameters
    ----------
    top : int64[q, K]
        Ranked items of each user, best first, distinct; −1 for none.
    held_out : (int64[q + 1], int64[e])
        `indptr` and held-out items of each user, in the same numbering as `top`, distinct for a user. A user without
        any is not counted.
    ks : sequence of int
        Cutoffs, each in 1 … K.

    Returns
    -------
    RankingSums

    Raises
    ------
    ValueError
        If a cutoff is out of range or the shapes do not fit.
    """
    top = np.asarray(top, np.int64)
    indptr, items = (np.asarray(part, np.int64) for part in held_out)
    if top.ndim != 2 or indptr.shape != (len(top) + 1,):
        raise ValueError(f"ranking_sums: top of shape {top.shape} does not fit an indptr of shape {indptr.shape}")
    for k in ks:
        if not 1 <= k <= top.shape[1]:
            raise ValueError(f"ranking_sums: k must be in 1 … {top.shape[1]}, the length of the rankings, got {k}")
    hits = _hits(top, indptr, items)
    lengths = np.diff(indptr)
    counted = lengths > 0
    discounts = 1.0 / np.log2(np.arange(2, top.shape[1] + 2))
    ideals = np.concatenate([[0.0], np.cumsum(discounts)])
    sums = []
    for k in ks:
        hit, length = hits[counted, :k], lengths[counted]
        sums.append((hit.sum(axis=1) / length).sum())
        sums.append((hit @ discounts[:k] / ideals[np.minimum(length, k)]).sum())
        sums.append(float(hit.any(axis=1).sum()))
        sums.append(np.where(hit.any(axis=1), 1.0 / (hit.argmax(axis=1) + 1), 0.0).sum())
    return RankingSums(tuple(ks), int(counted.sum()), np.array(sums, np.float64))


def _hits(top: np.ndarray, indptr: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return bool[q, K]: whether each ranked item is held out for its user."""
    held = items[indptr[0] : indptr[-1]]
    if not held.size or not top.size:
        return np.zeros(top.shape, bool)
    span = int(max(held.max(), top.max())) + 1
    rows = np.arange(len(top), dtype=np.int64)
    if (len(top) + 1) * span >= 1 << 63:
        raise ValueError("ranking_sums: users × items is past 2^63; give fewer users at a time")
    keys = np.sort(np.repeat(rows, np.diff(indptr)) * span + held)
    wanted = rows[:, None] * span + top
    found = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
    return (keys[found] == wanted) & (top >= 0)
