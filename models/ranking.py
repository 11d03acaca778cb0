"""Ranking: a model's recommendations and its scores on held-out edges, over all ranks."""

from collections.abc import Sequence

import numpy as np

from models.exchange import Exchange
from models.metrics import METRICS, RankingSums, ranking_sums
from models.model import Model
from models.retrieval import top_k

# Users ranked at a time: bounds the lists of seen items in memory.
_USER_BLOCK = 8192


def evaluate(
    model: Model,
    users: np.ndarray,
    held_out: tuple[np.ndarray, np.ndarray],
    *,
    ks: Sequence[int] = (20,),
    exchange: Exchange,
) -> dict[str, float]:
    """Rank all items that are not in train for every user. Collective.

    Each rank ranks its share of the users; it holds the rows of all items meanwhile.

    Parameters
    ----------
    model : Model
    users : int64[q]
        User nodes, the same on all ranks.
    held_out : (int64[q + 1], int64[e])
        `indptr` and held-out item nodes of each user. Users without any are not counted.
    ks : sequence of int
        Cutoffs, at least 1.

    Returns
    -------
    dict of str to float
        Means over the counted users: `recall@k`, `ndcg@k`, `hit_rate@k`, `mrr@k` for each k; the same on all ranks.
    """
    if not ks or min(ks) < 1:
        raise ValueError(f"evaluate: ks must be cutoffs of at least 1, got {tuple(ks)}")
    users = np.asarray(users, np.int64)
    indptr, items = (np.asarray(part, np.int64) for part in held_out)
    begin, end = (users.size * part // exchange.size for part in (exchange.rank, exchange.rank + 1))
    nodes = _rank(model, users[begin:end], max(ks), exclude_seen=True)[0]
    local = indptr[begin : end + 1]
    sums = ranking_sums(nodes, (local - local[0], items[local[0] : local[-1]]), ks=ks)
    assert sums.sums.size == len(METRICS) * len(ks)
    return RankingSums.from_vector(exchange.sum(sums.vector()), ks).means()


def recommend(model: Model, users: np.ndarray, k: int, *, exclude_seen: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Return the k best items for each user. Collective.

    Parameters
    ----------
    model : Model
    users : int64[q]
        User nodes; each rank gets the answer to its own.
    k : int
        At least 1.
    exclude_seen : bool
        Whether items of the user's training edges are left out.

    Returns
    -------
    items : int64[q, k]
        Item nodes, best first, ties by dense rank; −1 where there are no more.
    scores : float32[q, k]
        −inf where there is no item.
    """
    return _rank(model, np.asarray(users, np.int64), k, exclude_seen=exclude_seen)


def _rank(model: Model, users: np.ndarray, k: int, *, exclude_seen: bool) -> tuple[np.ndarray, np.ndarray]:
    item_type = model.node_types["item"]
    items = model.store.nodes(item_type)
    ranks = model.store.dense(item_type, items)
    user_rows, item_rows = model.rows("user", users), model.rows("item", items)
    nodes, scores = np.empty((users.size, k), np.int64), np.empty((users.size, k), np.float32)
    for begin in range(0, users.size, _USER_BLOCK):
        block = slice(begin, begin + _USER_BLOCK)
        exclude = None
        if exclude_seen:
            indptr, seen = model.adjacency.neighbors(users[block])
            exclude = indptr, np.searchsorted(ranks, model.store.dense(item_type, seen))
        found = top_k(user_rows[block], item_rows, k, exclude=exclude, threads=model.threads)
        nodes[block] = np.where(found.indices >= 0, items[found.indices], -1)
        scores[block] = found.scores
    return nodes, scores
