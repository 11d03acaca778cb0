"""Rows by id to their owners and back: grouping, first-seen relabelling and sums of duplicates."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Rows = npt.NDArray[np.float32]

kernel = numba.njit(cache=True, nogil=True)


@dataclass(frozen=True)
class Route:
    """Positions grouped by owning rank.

    Attributes
    ----------
    order : int64[n] or None
        The position that comes i-th when positions are grouped by owner, in the given order within an owner;
        None where they come so already.
    bounds : list of int, length num_ranks + 1
        Owner r's positions are those from `bounds[r]` up to `bounds[r + 1]` of the grouped order.
    """

    order: Ids | None
    bounds: list[int]

    @classmethod
    def to_owners(cls, owners: Ids, num_ranks: int) -> "Route":
        """Group positions by `owners` (int64[n], each in 0..num_ranks-1)."""
        counts = np.bincount(owners, minlength=num_ranks)
        bounds = [0, *np.cumsum(counts).tolist()]
        if num_ranks == 1 or (owners[1:] >= owners[:-1]).all():
            return cls(None, bounds)
        # numpy sorts 16-bit integers by radix.
        return cls(np.argsort(owners.astype(np.uint16), kind="stable"), bounds)

    def group(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return `values` (any[n, ...]) in grouped order; itself where the order is as given."""
        return np.ascontiguousarray(values if self.order is None else values.take(self.order, axis=0))

    def ungroup(self, values: npt.NDArray[Any], picks: Ids | None = None) -> npt.NDArray[Any]:
        """Return grouped `values` (any[n, ...]) in the order given; the inverse of `group`.

        With `picks` (int64[m], positions in the order given) the values at those, any[m, ...].
        """
        if self.order is None:
            return values if picks is None else values.take(picks, axis=0)
        places = np.empty_like(self.order)
        places[self.order] = np.arange(self.order.size)
        return values.take(places if picks is None else places[picks], axis=0)

    def part(self, values: npt.NDArray[Any], rank: int, out: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Return the values (any[n, ...]) of one owner, in the order given; in `out` if that is given."""
        start, stop = self.bounds[rank], self.bounds[rank + 1]
        if self.order is not None:
            # mode="clip" is what lets numpy write to `out` without a buffer; the positions are all in range.
            return values.take(self.order[start:stop], axis=0, out=out, mode="clip")
        if out is None:
            return np.ascontiguousarray(values[start:stop])
        out[...] = values[start:stop]
        return out

    def split(self, values: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
        """Return a view of grouped `values` (any[n, ...]) for each owner, in rank order."""
        return [values[start:stop] for start, stop in pairwise(self.bounds)]


@kernel
def _first_seen(ids: Any) -> Any:
    capacity = 16
    while capacity < 2 * ids.size:
        capacity *= 2
    mask = np.uint64(capacity - 1)
    table = np.full(capacity, -1, dtype=np.int64)
    unique = np.empty(ids.size, dtype=np.int64)
    inverse = np.empty(ids.size, dtype=np.int64)
    count = 0
    for position in range(ids.size):
        key = ids[position]
        mixed = np.uint64(key) * np.uint64(0x9E3779B97F4A7C15)
        slot = (mixed ^ (mixed >> np.uint64(32))) & mask
        while table[slot] >= 0 and unique[table[slot]] != key:
            slot = (slot + np.uint64(1)) & mask
        if table[slot] < 0:
            table[slot] = count
            unique[count] = key
            count += 1
        inverse[position] = table[slot]
    return unique[:count], inverse


@kernel
def _sum_rows(rows: Any, inverse: Any, num_unique: int) -> Any:
    totals = np.zeros((num_unique, rows.shape[1]), dtype=np.float32)
    for position in range(inverse.size):
        for column in range(rows.shape[1]):
            totals[inverse[position], column] += rows[position, column]
    return totals


def first_seen(ids: Ids) -> tuple[Ids, Ids | None]:
    """Return the distinct ids in the order first seen, and where each id went.

    Parameters
    ----------
    ids : int64[n]

    Returns
    -------
    unique : int64[u]
    inverse : int64[n] or None
        `unique[inverse]` equals `ids`; None where no id comes twice, and `unique` is then `ids` itself.
    """
    unique, inverse = _first_seen(ids)
    return (ids, None) if unique.size == ids.size else (unique, inverse)


def sum_rows(rows: Rows, inverse: Ids, num_unique: int) -> Rows:
    """Return float32[num_unique, dim]: `rows` float32[n, dim] of equal `inverse` int64[n], summed in order."""
    return _sum_rows(np.ascontiguousarray(rows, dtype=np.float32), inverse, num_unique)
