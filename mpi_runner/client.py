"""The remote table: pull and push rows of any shard, each served by the rank that owns it."""

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mpi_runner.layout import Layout
from mpi_runner.routing import Ids, Route, Rows, first_seen, sum_rows
from mpi_runner.transport import Transport
from sparse_tables.inputs import as_counts, as_gradients, as_ids

if TYPE_CHECKING:
    from sparse_tables import LocalTable, TableConfig


class RemoteTable:
    """`sparse_tables.Table` over all ranks under the `sync` policy.

    Every rank calls `pull`, `pull_pooled` and `push` equally often in the same order, with ids of its own,
    possibly none. Only distinct ids and their rows travel. A push is one update: the gradients of all ranks
    are summed in the order owner, rank, sample and applied once.

    Parameters
    ----------
    local : LocalTable
        The shards that this rank owns by `Layout`.
    transport : Transport

    Raises
    ------
    ValueError
        If `local` holds other shards than those that this rank owns.
    """

    def __init__(self, local: "LocalTable", transport: Transport) -> None:
        self.local = local
        self._transport = transport
        layout = Layout(transport.size, local.config.num_shards)
        expected = layout.shards(transport.rank)
        if list(local.shards) != list(expected):
            raise ValueError(
                f"rank {transport.rank} of {transport.size} owns shards {list(expected)} of table "
                f"{local.config.name!r}, got a table with shards {list(local.shards)}"
            )
        self._owners = layout.owners()
        self._name = f"table {local.config.name!r}"

    @property
    def config(self) -> "TableConfig":
        """What the table is."""
        return self.local.config

    def pull(self, ids: npt.ArrayLike, *, insert: bool = True, out: Rows | None = None) -> Rows:
        """Return the rows of `ids`. Collective.

        Parameters
        ----------
        ids : int64[n]
            Any ids, duplicates too.
        insert : bool
            Whether an unseen id gets a row; otherwise it reads its deterministic initial value.
        out : float32[n, dim], optional
            Filled and returned.

        Returns
        -------
        float32[n, dim]
            A copy, in the order of `ids`.

        Raises
        ------
        RankTimeout
            If a rank does not answer before the deadline.
        """
        wanted = as_ids(self.config, ids)
        unique, inverse = first_seen(wanted)
        route = self._route(unique)
        grouped = route.group(unique)
        asked = self._swap_ids(route, grouped, kind=9)
        if self._all_mine(route, asked) and inverse is None:
            self._transport.skip()
            return self.local.pull(wanted, insert=insert, out=out)
        rank = self._transport.rank
        rows = np.empty((grouped.size, self.config.dim), dtype=np.float32)
        incoming = route.split(rows)
        others = [part if peer != rank else part[:0] for peer, part in enumerate(asked)]
        served = self.local.pull(np.concatenate(others), insert=insert)
        self._transport.swap_into(
            _split(served, others),
            incoming,
            what=f"rows of {self._name}",
            kind=10,
            meanwhile=lambda: self.local.pull(asked[rank], insert=insert, out=incoming[rank]),
        )
        result = route.ungroup(rows, inverse)
        if out is None:
            return result
        out[...] = result
        return out

    def pull_pooled(
        self,
        ids: npt.ArrayLike,
        indptr: npt.ArrayLike,
        *,
        mode: str = "sum",
        weights: npt.ArrayLike | None = None,
        insert: bool = True,
    ) -> Rows:
        """Return the sum or mean of each bag's rows. Collective.

        Parameters
        ----------
        ids : int64[n]
        indptr : int64[bags + 1]
            Bag b holds `ids[indptr[b]:indptr[b + 1]]`; an empty bag pools to zeros.
        mode : {"sum", "mean"}
        weights : float32[n], optional
            Factors of the rows, in mode "sum" only.
        insert : bool
            As in `pull`.

        Returns
        -------
        float32[bags, dim]
        """
        if mode not in ("sum", "mean"):
            raise ValueError(f"mode must be 'sum' or 'mean', got {mode!r}")
        if weights is not None and mode != "sum":
            raise ValueError(f"weights go with mode 'sum', got mode {mode!r}")
        rows = self.pull(ids, insert=insert)
        if weights is not None:
            rows *= np.asarray(weights, dtype=np.float32)[:, None]
        ends = np.asarray(indptr, dtype=np.int64)
        sizes = ends[1:] - ends[:-1]
        bags = np.repeat(np.arange(sizes.size, dtype=np.int64), sizes)
        pooled = sum_rows(rows, bags, sizes.size)
        if mode == "mean":
            pooled /= np.maximum(sizes, 1)[:, None].astype(np.float32)
        return pooled

    def push(self, ids: npt.ArrayLike, gradients: npt.ArrayLike, counts: npt.ArrayLike | None = None) -> None:
        """Sum the gradients of all ranks and update each row once. Collective.

        Parameters
        ----------
        ids : int64[n]
            Duplicates are summed.
        gradients : float32[n, dim]
        counts : float32[n], optional
            The samples behind each gradient, by which `l2` is weighted; 1 each by default.

        Raises
        ------
        TypeError, ValueError
            If kinds or shapes do not fit, as the local table says it.
        RankTimeout
            If a rank does not answer before the deadline.
        """
        given = as_ids(self.config, ids)
        rows = as_gradients(self.config, gradients, given.size)
        samples = np.ones(given.size, np.float32) if counts is None else as_counts(self.config, counts, given.size)
        unique, inverse = first_seen(given)
        if inverse is not None:
            rows = sum_rows(rows, inverse, unique.size)
            samples = np.bincount(inverse, samples, unique.size).astype(np.float32)
        route = self._route(unique)
        pushed = self._swap_ids(route, route.group(unique), kind=11)
        if self._all_mine(route, pushed):
            self._transport.skip(2 if self.config.l2 else 1)
            self.local.push(unique, rows, samples)
            return
        received = self._collect(route, rows, pushed, kind=12)
        counted = self._collect(route, samples[:, None], pushed, kind=13)[:, 0] if self.config.l2 else None
        self.local.push(np.concatenate(pushed), received, counted)

    def _route(self, unique: Ids) -> Route:
        return Route.to_owners(self._owners[shards_of(unique, self.config)], self._transport.size)

    def _swap_ids(self, route: Route, grouped: Ids, *, kind: int) -> list[Ids]:
        return self._transport.swap(route.split(grouped), what=f"ids of {self._name}", kind=kind)

    def _all_mine(self, route: Route, asked: list[Ids]) -> bool:
        """Say whether neither this rank nor any other one asks for a row across ranks here."""
        rank = self._transport.rank
        own = route.bounds[rank + 1] - route.bounds[rank]
        return own == route.bounds[-1] and sum(part.size for part in asked) == own

    def _collect(self, route: Route, values: Rows, pushed: list[Ids], *, kind: int) -> Rows:
        """Send each owner its values and return those of all ranks for the own shards, in rank order."""
        rank = self._transport.rank
        received = np.empty((sum(part.size for part in pushed), values.shape[1]), dtype=np.float32)
        incoming = _split(received, pushed)
        outgoing = [
            incoming[rank] if peer == rank else route.part(values, peer) for peer in range(self._transport.size)
        ]
        self._transport.swap_into(
            outgoing,
            incoming,
            what=f"gradients of {self._name}",
            kind=kind,
            meanwhile=lambda: route.part(values, rank, out=incoming[rank]),
        )
        return received


def shards_of(ids: Ids, config: "TableConfig") -> Ids:
    """Return the logical shard of each id (int64[n]) by the table's placement: int64[n]."""
    if config.placement == "modulo":
        return ids % config.num_shards
    return (_mix64(ids.view(np.uint64)) % np.uint64(config.num_shards)).astype(np.int64)


def _mix64(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    values = values ^ (values >> np.uint64(30))
    values = values * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _split(values: Rows, parts: list[Ids]) -> list[Rows]:
    bounds = np.cumsum([0, *(part.size for part in parts)]).tolist()
    return [values[start:stop] for start, stop in pairwise(bounds)]
