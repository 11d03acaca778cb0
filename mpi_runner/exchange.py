"""The exchange of a model over MPI: fetch plans and sums."""

import numpy as np

from mpi_runner.layout import Layout
from mpi_runner.routing import Ids, Route, Rows
from mpi_runner.transport import Transport


class MpiExchange:
    """`models.Exchange` over the ranks of a transport; every method but `owned` is collective.

    Parameters
    ----------
    transport : Transport
        Shared with the tables of the run: their calls come in the same order on all ranks too.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.rank = transport.rank
        self.size = transport.size
        self._finder: _Finder | None = None

    def owned(self, num_shards: int) -> range:
        """Return the shards of this rank; contiguous, and every shard has one owner."""
        return Layout(self.size, num_shards).shards(self.rank)

    def plan(self, needed: Ids, owned: Ids, *, num_shards: int) -> "MpiPlan":
        """Agree on who sends which rows to whom. Collective.

        Parameters
        ----------
        needed : int64[k]
            The unique nodes whose rows this rank wants, in any order.
        owned : int64[n]
            All unique nodes whose rows this rank holds; their shard (`node % num_shards`) is this rank's. The
            array must not change while it is used for plans.
        num_shards : int

        Returns
        -------
        MpiPlan

        Raises
        ------
        ValueError
            On the owner, if it does not hold a node that some rank needs.
        RankTimeout
            If a rank does not answer before the deadline.
        """
        needed = np.ascontiguousarray(needed, dtype=np.int64)
        owners = Layout(self.size, num_shards).owners()
        route = Route.to_owners(owners[needed % num_shards], self.size)
        asked = self.transport.swap(route.split(route.group(needed)), what="nodes of a fetch plan", kind=6)
        if self._finder is None or self._finder.owned is not owned:
            self._finder = _Finder(owned)
        positions = [self._finder.find(nodes, rank) for rank, nodes in enumerate(asked)]
        return MpiPlan(self.transport, route, positions, owned.size)

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return float64[n], the ranks' `values` (float64[n]) added in rank order. Collective."""
        return self.transport.sum(values)


class MpiPlan:
    """A fixed set of rows to fetch from their owners, as often as wanted; see `models.FetchPlan`.

    Attributes
    ----------
    requested : int64[m]
        Positions in the `owned` of the plan that any rank asked for: unique, ascending.
    """

    def __init__(self, transport: Transport, route: Route, positions: list[Ids], num_owned: int) -> None:
        self._transport = transport
        self._route = route
        wanted = np.zeros(num_owned, dtype=bool)
        for part in positions:
            wanted[part] = True
        self.requested: Ids = np.flatnonzero(wanted)
        # Where each rank's rows lie among the requested ones.
        self._slots = [np.searchsorted(self.requested, part) for part in positions]

    def fetch(self, rows: Rows) -> Rows:
        """Hand out requested rows, float32[m, dim]; return needed ones, float32[k, dim]. Collective."""
        rows = _check_rows(rows, self.requested.size, "requested")
        grouped = np.empty((self._route.bounds[-1], rows.shape[1]), dtype=np.float32)
        incoming = self._route.split(grouped)
        outgoing = [rows.take(slots, axis=0) for slots in self._slots]
        incoming[self._transport.rank][...] = outgoing[self._transport.rank]
        self._transport.swap_into(outgoing, incoming, what="rows of a fetch plan", kind=7)
        return self._route.ungroup(grouped)

    def give_back(self, rows: Rows) -> Rows:
        """Return the needed rows (float32[k, dim]) to their owners and sum them there. Collective.

        Returns
        -------
        float32[m, dim]
            Aligned with `requested`: the ranks' rows, added in rank order.
        """
        rows = _check_rows(rows, self._route.bounds[-1], "needed")
        outgoing = self._route.split(self._route.group(rows))
        incoming = [np.empty((slots.size, rows.shape[1]), dtype=np.float32) for slots in self._slots]
        incoming[self._transport.rank] = outgoing[self._transport.rank]
        self._transport.swap_into(outgoing, incoming, what="rows given back to a fetch plan", kind=8)
        totals = np.zeros((self.requested.size, rows.shape[1]), dtype=np.float32)
        for slots, part in zip(self._slots, incoming):
            # A rank needs a row once, so no slot comes twice within a part.
            totals[slots] += part
        return totals


class _Finder:
    """Node → position in `owned`, by binary search."""

    def __init__(self, owned: Ids) -> None:
        self.owned = owned
        ascending = bool((owned[1:] > owned[:-1]).all())
        self._order = None if ascending else np.argsort(owned, kind="stable")
        self._sorted = owned if self._order is None else owned[self._order]

    def find(self, nodes: Ids, rank: int) -> Ids:
        found = np.searchsorted(self._sorted, nodes)
        known = found < self._sorted.size
        known[known] = self._sorted[found[known]] == nodes[known]
        if not known.all():
            raise ValueError(f"rank {rank} needs node {nodes[~known][0]}, whose row its owner does not hold")
        return found if self._order is None else self._order[found]


def _check_rows(rows: Rows, num_rows: int, kind: str) -> Rows:
    if rows.ndim != 2 or rows.shape[0] != num_rows:
        raise ValueError(f"expected a row for each of the {num_rows} {kind} nodes, got an array of shape {rows.shape}")
    return np.ascontiguousarray(rows, dtype=np.float32)
