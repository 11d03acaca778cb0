"""Batch: the samples of one rank's part of a step, and its unique rows."""

from typing import NamedTuple

import numpy as np


class Batch(NamedTuple):
    """One rank's samples of a step; node ids throughout.

    Attributes
    ----------
    users, positives : int64[b]
        A training edge a sample, in the order of the epoch.
    negatives : int64[b, k] or int64[k]
        Each sample's own, without an edge from its user (−1 where a user has an edge to every item); or, of one
        dimension, those that all samples of the step share, the same on all ranks and distinct.
    num_total : int
        Samples of the step over all ranks: gradients are means over them.
    """

    users: np.ndarray
    positives: np.ndarray
    negatives: np.ndarray
    num_total: int


class UniqueRows(NamedTuple):
    """The distinct nodes of a batch, and where each sample finds its own among them.

    Attributes
    ----------
    users : int64[a]
        Ascending.
    items : int64[c]
        Ascending.
    user_slots, positive_slots : int64[b]
        Positions in `users` and `items`.
    negative_slots : int64[b, k] or int64[k]
        Positions in `items`; −1 stays −1.
    """

    users: np.ndarray
    items: np.ndarray
    user_slots: np.ndarray
    positive_slots: np.ndarray
    negative_slots: np.ndarray


def unique_rows(batch: Batch) -> UniqueRows:
    """Find the distinct nodes of a batch."""
    users, user_slots = np.unique(batch.users, return_inverse=True)
    items, slots = np.unique(np.concatenate([batch.positives, batch.negatives.ravel()]), return_inverse=True)
    if items.size and items[0] < 0:  # samples without a possible negative
        items, slots = items[1:], slots - 1
    num_samples = batch.positives.size
    negative_slots = slots[num_samples:].reshape(batch.negatives.shape)
    return UniqueRows(users, items, user_slots, slots[:num_samples], negative_slots)
