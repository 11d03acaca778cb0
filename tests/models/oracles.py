"""Slow twins in plain numpy, float64 and dense."""

import numpy as np


def dense_adjacency(store, edge_type: str) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Return float64[users, items] in dense order."""
    return store.to_scipy(edge_type).toarray().astype(np.float64)


def propagate(adjacency: np.ndarray, rows: np.ndarray, layers: int) -> np.ndarray:
    """LightGCN on stacked user and item rows, as the paper writes it."""
    num_users, num_items = adjacency.shape
    whole = np.zeros((num_users + num_items,) * 2)
    whole[:num_users, num_users:] = adjacency
    whole[num_users:, :num_users] = adjacency.T
    degrees = np.maximum(whole.sum(axis=1), 1)
    normalised = whole / np.sqrt(degrees)[:, None] / np.sqrt(degrees)[None, :]
    total, layer = rows.copy(), rows
    for _ in range(layers):
        layer = normalised @ layer
        total += layer
    return total / (layers + 1)


def bpr_loss(users, items, user_slots, positives, negatives) -> float:  # type: ignore[no-untyped-def]
    """Sum of −ln σ(u·i − u·j), averaged over each sample's negatives."""
    margins = np.einsum("bd,bkd->bk", users[user_slots], items[positives][:, None] - items[negatives])
    return float(np.logaddexp(0, -margins).mean(axis=1).sum())


def softmax_loss(users, items, user_slots, positives, negatives, seen, temperature, cosine) -> float:  # type: ignore[no-untyped-def]
    """Sum of −ln softmax of the positive; `seen` is bool[users, negatives]."""
    if cosine:
        users = users / np.linalg.norm(users, axis=1, keepdims=True)
        items = items / np.linalg.norm(items, axis=1, keepdims=True)
    total = 0.0
    for user, positive in zip(user_slots, positives):
        own = users[user] @ items[positive] / temperature
        others = (users[user] @ items[negatives].T / temperature)[~seen[user]]
        total += np.logaddexp.reduce([own, *others]) - own
    return float(total)


def gradient(function, at: np.ndarray, step: float = 1e-5) -> np.ndarray:  # type: ignore[no-untyped-def]
    """Central differences."""
    result = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        moved = at.copy()
        moved[index] += step
        high = function(moved)
        moved[index] -= 2 * step
        result[index] = (high - function(moved)) / (2 * step)
    return result


def metrics(ranked: list[list[int]], held_out: list[list[int]], k: int) -> dict[str, float]:
    """The ten-line oracle: recall, NDCG, hit rate and reciprocal rank at k, means over users with held-out items."""
    rows = []
    for items, truth in zip(ranked, held_out):
        if not truth:
            continue
        hits = np.array([item in truth for item in items[:k]], float)
        gains = hits / np.log2(np.arange(2, len(hits) + 2))
        ideal = (1 / np.log2(np.arange(2, min(k, len(truth)) + 2))).sum()
        first = next((1 / (rank + 1) for rank, hit in enumerate(hits) if hit), 0.0)
        rows.append([hits.sum() / len(truth), gains.sum() / ideal, float(hits.any()), first])
    return dict(zip([f"{name}@{k}" for name in ("recall", "ndcg", "hit_rate", "mrr")], np.mean(rows, axis=0)))


def ranking(scores: np.ndarray, k: int, excluded: list[int]) -> list[int]:
    """Return up to k indices by falling score, ties by index."""
    return [int(i) for i in np.lexsort((np.arange(scores.size), -scores)) if int(i) not in set(excluded)][:k]
