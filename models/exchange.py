"""Exchange: what a model asks of the other ranks, and the answer where there is only one."""

from typing import Protocol

import numpy as np


class FetchPlan(Protocol):
    """A fixed set of rows to fetch from their owners, as often as wanted.

    Attributes
    ----------
    requested : int64[m]
        Positions in the `owned` of the plan that any rank, this one included, asked for; unique, ascending.
    """

    requested: np.ndarray

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """Hand out the requested rows and return the needed ones. Collective.

        Parameters
        ----------
        rows : float32[m, dim]
            This rank's rows, aligned with `requested`; `dim` is the same on all ranks.

        Returns
        -------
        float32[k, dim]
            Aligned with the plan's `needed`; it may be `rows` itself, so do not write into it.
        """
        ...

    def give_back(self, rows: np.ndarray) -> np.ndarray:
        """Return rows to their owners and sum them there: the adjoint of `fetch`. Collective.

        Parameters
        ----------
        rows : float32[k, dim]
            Aligned with the plan's `needed`.

        Returns
        -------
        float32[m, dim]
            Aligned with `requested`: the ranks' rows, added in rank order. It may be `rows` itself.
        """
        ...


class Exchange(Protocol):
    """The ranks that train one model together.

    Attributes
    ----------
    rank, size : int
    """

    rank: int
    size: int

    def owned(self, num_shards: int) -> range:
        """Return the shards of this rank; contiguous, and every shard has one owner."""
        ...

    def plan(self, needed: np.ndarray, owned: np.ndarray, *, num_shards: int) -> FetchPlan:
        """Agree on who sends which rows to whom. Collective.

        Parameters
        ----------
        needed : int64[k]
            The unique nodes whose rows this rank wants.
        owned : int64[n]
            All unique nodes whose rows this rank holds; their shard (`node % num_shards`) is this rank's.
        num_shards : int

        Raises
        ------
        ValueError
            If the owner of a needed node does not hold it.
        """
        ...

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return float64[n], the ranks' `values` (float64[n]) added in rank order. Collective."""
        ...


class LocalPlan:
    """The fetch plan of one process: a gather, or nothing where needed and owned rows are the same."""

    def __init__(self, needed: np.ndarray, owned: np.ndarray) -> None:
        self._positions = None
        if needed.size == owned.size and np.array_equal(needed, owned):
            self.requested = np.arange(owned.size, dtype=np.int64)
            return
        order = np.argsort(owned, kind="stable")
        found = np.searchsorted(owned, needed, sorter=order)
        missing = found == owned.size
        found[missing] = 0
        missing |= owned[order[found]] != needed if owned.size else True
        if missing.any():
            raise ValueError(f"node {needed[missing][0]} is needed, but no rank holds its row")
        self.requested, self._positions = np.unique(order[found], return_inverse=True)

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        """See `FetchPlan.fetch`."""
        return rows if self._positions is None else rows[self._positions]

    def give_back(self, rows: np.ndarray) -> np.ndarray:
        """See `FetchPlan.give_back`."""
        if self._positions is None:
            return rows
        back = np.empty_like(rows)
        back[self._positions] = rows
        return back


class LocalExchange:
    """The exchange of a single process: it owns every shard and has nobody to ask."""

    rank = 0
    size = 1

    def owned(self, num_shards: int) -> range:
        """See `Exchange.owned`."""
        return range(num_shards)

    def plan(self, needed: np.ndarray, owned: np.ndarray, *, num_shards: int) -> LocalPlan:
        """See `Exchange.plan`."""
        return LocalPlan(np.asarray(needed, np.int64), np.asarray(owned, np.int64))

    def sum(self, values: np.ndarray) -> np.ndarray:
        """See `Exchange.sum`."""
        return np.array(values, np.float64)
