"""Losses over rows: BPR and the sampled softmax, with their gradients."""

from typing import NamedTuple

import numpy as np

from graph_store.kernels import kernel, mix64, run_ranges
from models.batch import UniqueRows

# Scores in flight at a time, 4 MiB of float32, which a core's caches nearly hold.
BLOCK_SCORES = 1 << 20


class LossGradients(NamedTuple):
    """A loss and what it says of the rows.

    Attributes
    ----------
    loss : float
        Sum over the samples.
    users : float32[a, dim]
        Gradients of the unique users' rows.
    items : float32[c, dim]
        Gradients of the unique items' rows.
    user_counts : float32[a]
    item_counts : float32[c]
        Samples that regularise each row.
    """

    loss: float
    users: np.ndarray
    items: np.ndarray
    user_counts: np.ndarray
    item_counts: np.ndarray


@kernel
def _bpr(users, items, user_slots, positives, negatives, scale, user_gradients, item_gradients):
    dim, num_negatives = users.shape[1], negatives.shape[1]
    total = 0.0
    difference = np.empty(dim, np.float32)
    for sample in range(user_slots.size):
        user, positive = user_slots[sample], positives[sample]
        for k in range(num_negatives):
            negative = negatives[sample, k]
            if negative < 0:
                continue
            margin = np.float32(0.0)
            for column in range(dim):
                difference[column] = items[positive, column] - items[negative, column]
                margin += users[user, column] * difference[column]
            small = np.exp(-abs(np.float64(margin)))
            total += np.log1p(small) + max(-np.float64(margin), 0.0)
            # −scale · σ(−margin)
            weight = np.float32(-scale * (small if margin > 0 else 1.0) / (1.0 + small))
            for column in range(dim):
                value = weight * users[user, column]
                user_gradients[user, column] += weight * difference[column]
                item_gradients[positive, column] += value
                item_gradients[negative, column] -= value
    return total / num_negatives


def bpr(users: np.ndarray, items: np.ndarray, rows: UniqueRows, *, scale: float) -> LossGradients:
    """Bayesian personalised ranking (Rendle et al., UAI 2009): −ln σ(u·i − u·j), averaged over a sample's negatives.

    Parameters
    ----------
    users : float32[a, dim]
    items : float32[c, dim]
        The rows of `rows.users` and `rows.items`.
    rows : UniqueRows
        With `negative_slots` int64[b, k]; −1 is no negative and no loss.
    scale : float
        Multiplies gradients and counts, not the loss: 1 / samples of the whole step.

    Returns
    -------
    LossGradients
        Counts: users and positives once a sample, negatives 1 / k each.
    """
    user_gradients, item_gradients = np.zeros_like(users), np.zeros_like(items)
    num_negatives = rows.negative_slots.shape[1]
    loss = _bpr(
        users,
        items,
        rows.user_slots,
        rows.positive_slots,
        rows.negative_slots,
        scale / num_negatives,
        user_gradients,
        item_gradients,
    )
    used = rows.negative_slots[rows.negative_slots >= 0]
    item_counts = _counts(rows.positive_slots, len(items), scale) + _counts(used, len(items), scale / num_negatives)
    return LossGradients(loss, user_gradients, item_gradients, _counts(rows.user_slots, len(users), scale), item_counts)


@kernel
def _mask_seen(scores, table, columns, indptr, neighbors, slots, start, stop):
    """Set −inf where a column's node is among the neighbours of the row's user."""
    mask = np.uint64(table.size - 1)
    for row in range(start, stop):
        for at in range(indptr[slots[row]], indptr[slots[row] + 1]):
            place = np.int64(mix64(np.uint64(neighbors[at])) & mask)
            while table[place] >= 0:
                if table[place] == neighbors[at]:
                    scores[row, columns[place]] = -np.inf
                    break
                place = np.int64(np.uint64(place + 1) & mask)


@kernel
def _add_rows(rows, slots, out):
    for at in range(slots.size):
        for column in range(out.shape[1]):
            out[slots[at], column] += rows[at, column]


class _Columns:
    """Where a node's column is: an open-addressing table, at most half full."""

    def __init__(self, nodes: np.ndarray) -> None:
        size = 1 << max(2, int(2 * nodes.size).bit_length())
        self.table = np.full(size, -1, np.int64)
        self.columns = np.zeros(size, np.int64)
        _enter(nodes, self.table, self.columns)


@kernel
def _enter(nodes, table, columns):
    mask = np.uint64(table.size - 1)
    for column in range(nodes.size):
        place = np.int64(mix64(np.uint64(nodes[column])) & mask)
        while table[place] >= 0:
            place = np.int64(np.uint64(place + 1) & mask)
        table[place] = nodes[column]
        columns[place] = column


def softmax(
    users: np.ndarray,
    items: np.ndarray,
    rows: UniqueRows,
    *,
    seen: tuple[np.ndarray, np.ndarray],
    temperature: float,
    cosine: bool,
    scale: float,
    threads: int | None = None,
) -> LossGradients:
    """Sampled softmax: −ln of the positive's share among itself and the shared negatives the user has not seen.

    The loss of Wu et al., "On the Effectiveness of Sampled Softmax Loss for Item Recommendation" (TOIS 2024), with
    uniform negatives, so that no correction for their frequency is due.

    Parameters
    ----------
    users : float32[a, dim]
    items : float32[c, dim]
        The rows of `rows.users` and `rows.items`.
    rows : UniqueRows
        With `negative_slots` int64[k], shared by the samples.
    seen : (int64[a + 1], int64[e])
        `indptr` and item nodes of each unique user's own items: they are no negatives for that user.
    temperature : float
        Divides the similarities.
    cosine : bool
        Whether rows are compared by cosine instead of dot product.
    scale : float
        Multiplies gradients and counts, not the loss: 1 / samples of the whole step.

    Returns
    -------
    LossGradients
        Counts: users and positives once a sample, negatives none.
    """
    if cosine:
        user_norms, item_norms = row_norms(users), row_norms(items)
        users, items = users / user_norms, items / item_norms
    user_gradients, item_gradients = np.zeros_like(users), np.zeros_like(items)
    negatives = items[rows.negative_slots]
    negative_gradients = np.zeros_like(negatives)
    columns = _Columns(rows.items[rows.negative_slots])
    num_samples, loss = rows.user_slots.size, 0.0
    num_rows = max(1, BLOCK_SCORES // max(1, len(negatives)))
    for start in range(0, num_samples, num_rows):
        user_slots = rows.user_slots[start : start + num_rows]
        positive_slots = rows.positive_slots[start : start + num_rows]
        own, positives = users[user_slots], items[positive_slots]
        scores = own @ negatives.T
        weights, losses = _softmax_weights(
            scores, np.einsum("ij,ij->i", own, positives), columns, (*seen, user_slots), (temperature, scale), threads
        )
        loss += float(losses.sum())
        negative_gradients += scores.T @ own
        _add_rows(scores @ negatives + weights * positives, user_slots, user_gradients)
        _add_rows(weights * own, positive_slots, item_gradients)
    _add_rows(negative_gradients, rows.negative_slots, item_gradients)
    if cosine:
        user_gradients = _through_norm(user_gradients, users, user_norms)
        item_gradients = _through_norm(item_gradients, items, item_norms)
    return LossGradients(
        loss,
        user_gradients,
        item_gradients,
        _counts(rows.user_slots, len(users), scale),
        _counts(rows.positive_slots, len(items), scale),
    )


def _softmax_weights(
    scores: np.ndarray,
    positives: np.ndarray,
    columns: _Columns,
    seen: tuple[np.ndarray, np.ndarray, np.ndarray],
    constants: tuple[float, float],
    threads: int | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Turn scores float32[b, k] into the gradients of the similarities, in place.

    Returns the positives' gradients float32[b, 1] and the losses float32[b].
    """
    temperature, scale = np.float32(constants[0]), np.float32(constants[1])
    weights, losses = np.empty((len(scores), 1), np.float32), np.empty(len(scores), np.float32)

    def call(start: int, stop: int) -> None:
        part, own = scores[start:stop], positives[start:stop] / temperature
        _mask_seen(scores, columns.table, columns.columns, *seen, start, stop)
        part /= temperature
        highest = np.maximum(part.max(axis=1, initial=-np.inf), own)
        part -= highest[:, None]
        np.exp(part, out=part)
        share = np.exp(own - highest)
        total = part.sum(axis=1) + share
        losses[start:stop] = np.log(total) - (own - highest)
        part *= (scale / temperature / total)[:, None]
        weights[start:stop, 0] = scale / temperature * (share / total - np.float32(1.0))

    run_ranges(call, len(scores), threads=threads, grain=64)
    return weights, losses


def row_norms(rows: np.ndarray) -> np.ndarray:
    """Return float32[n, 1], the lengths of rows; a row of zeros keeps its zeros."""
    norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))[:, None]
    return np.maximum(norms, np.float32(1e-12))


def _through_norm(gradients: np.ndarray, units: np.ndarray, norms: np.ndarray) -> np.ndarray:
    """Return the gradients of rows from those of the rows over their lengths."""
    along = np.einsum("ij,ij->i", gradients, units)[:, None]
    return (gradients - along * units) / norms


def _counts(slots: np.ndarray, length: int, scale: float) -> np.ndarray:
    return (np.bincount(slots.ravel(), minlength=length) * scale).astype(np.float32)
