"""Rows of one shard → its adjacency lists, a range of ranks at a time where memory is short.

Several edge types are built together: a rank is `type * padded + local`, where `padded` is the shard's number of nodes
rounded up to a multiple of 16.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from graph_store.blocks import GROUP_NODES
from graph_store.edge_lists import PLAIN_ROW_BYTES, ROW_BYTES, Ends, EqualEdges, Lists, Rows, plain_lists
from graph_store.kernels import kernel
from graph_store.row_chunks import Block, Columns, Part, parts_of
from graph_store.spool import Allowance, Spool
from graph_store.valued_lists import build_lists

_GRANULES = 4096
_RANK_BYTES = 24
_ROWS_AT_ONCE = 1 << 20


class Layout(NamedTuple):
    """How rows become lists.

    padded : int, ranks an edge type
    bits : int, of a target; rule : str, what becomes of equal edges
    weighted, timed, numbered : bool, whether edges have weights, times and edge ids
    """

    padded: int
    bits: int
    rule: str
    weighted: bool = False
    timed: bool = False
    numbered: bool = False


class Built(NamedTuple):
    """The lists of the ranks from `low` on, and how many rows they were made of."""

    low: int
    lists: Lists
    num_rows: int


@kernel
def _fill_ranks(local, kinds, padded, low, ranks, to):
    for i in range(local.size):
        rank = np.int64(local[i]) - low
        if kinds.size:
            rank += np.int64(kinds[i]) * padded
        ranks[to + i] = np.uint64(rank)


@kernel
def _count_granules(ranks, granule, counts):
    for i in range(ranks.size):
        counts[np.int64(ranks[i]) // granule] += 1


@kernel
def _part_order(ranks, cuts, starts, order):
    """Put rows in the order of the part of `cuts` they fall in, stably."""
    part = np.empty(ranks.size, np.uint16)
    for i in range(ranks.size):
        low, high = 0, cuts.size - 1
        while high - low > 1:
            middle = (low + high) >> 1
            if np.int64(ranks[i]) >= cuts[middle]:
                low = middle
            else:
                high = middle
        part[i] = low
        starts[low + 1] += 1
    for i in range(starts.size - 1):
        starts[i + 1] += starts[i]
    places = starts.copy()
    for i in range(ranks.size):
        order[places[part[i]]] = i
        places[part[i]] += 1


_NO_KINDS = np.empty(0, np.uint16)


class ListBuilder:
    """Builds the lists of a shard.

    Parameters
    ----------
    folder : Path
        Where rows wait that are sorted in several steps.
    room : int
        Bytes that may be used.
    """

    def __init__(self, layout: Layout, folder: Path, *, room: int, threads: int) -> None:
        self._layout, self._folder, self._threads = layout, folder, threads
        self._room = room

    def build(self, rows: Sequence[Part], low: int, high: int) -> Iterator[Built]:
        """Yield the lists of the ranks `low … high − 1` in order, of rows whose sources are among them.

        Raises
        ------
        EqualEdges
            With the rank counted from 0, by the rule "error".
        """
        size, ranks = _size(rows), high - low
        plain = self._is_plain(ranks)
        needed = size * (PLAIN_ROW_BYTES if plain else ROW_BYTES) + ranks * _RANK_BYTES
        if needed <= self._room or ranks <= GROUP_NODES:
            try:
                lists = self._plain(rows, low, ranks) if plain else self._valued(rows, low, ranks)
            except EqualEdges as error:
                raise EqualEdges(low + error.rank, error.node) from None
            yield Built(low, lists, size)
            return
        cuts = self._cuts(rows, low, high)
        spool = Spool(self._folder / f"{low}-{high}.rows", Allowance(0))
        try:
            blocks = [block for part in rows for block in self._divided(part, low, cuts, spool)]
            for number in range(cuts.size - 1):
                inner = parts_of(spool, blocks, number)
                yield from self.build(inner, low + int(cuts[number]), low + int(cuts[number + 1]))
        finally:
            spool.close()

    def _is_plain(self, ranks: int) -> bool:
        layout = self._layout
        valued = layout.weighted or layout.timed or layout.numbered
        return not valued and layout.bits + max(1, ranks.bit_length()) <= 64

    def _plain(self, rows: Sequence[Part], low: int, ranks: int) -> Lists:
        read = [part.read() for part in rows]
        ends = [
            Ends(local, nodes, _NO_KINDS if columns.kinds is None else columns.kinds) for local, nodes, columns in read
        ]
        layout = self._layout
        return plain_lists(
            ends, ranks, layout.bits, low=low, padded=layout.padded, rule=layout.rule, threads=self._threads
        )

    def _ranks(self, local: np.ndarray, columns: Columns, low: int) -> np.ndarray:
        ranks = np.empty(local.size, np.uint64)
        kinds = _NO_KINDS if columns.kinds is None else columns.kinds
        _fill_ranks(local, kinds, self._layout.padded, low, ranks, 0)
        return ranks

    def _valued(self, rows: Sequence[Part], low: int, ranks: int) -> Lists:
        read = [part.read() for part in rows]
        layout = self._layout

        def joined(parts: list, dtype: type) -> np.ndarray:
            return np.concatenate(parts) if parts else np.empty(0, dtype)

        sources = joined([self._ranks(local, columns, low) for local, _, columns in read], np.uint64)
        targets = joined([nodes for _, nodes, _ in read], np.uint64)
        weights = joined([columns.weights for _, _, columns in read], np.float32) if layout.weighted else None
        times = joined([columns.times for _, _, columns in read], np.int64) if layout.timed else None
        edge_ids = joined([columns.edge_ids for _, _, columns in read], np.int64) if layout.numbered else None
        rows_read = Rows(sources, targets, weights, times, edge_ids)
        del read
        return build_lists(rows_read, ranks, rule=layout.rule, threads=self._threads)

    def _cuts(self, rows: Sequence[Part], low: int, high: int) -> np.ndarray:
        """Cut ranks, at multiples of 16 from `low` on, into ranges whose lists fit; int64[parts + 1] from 0."""
        granule = -(-(high - low) // _GRANULES)
        granule = -(-granule // GROUP_NODES) * GROUP_NODES
        counts = np.zeros(-(-(high - low) // granule), np.int64)
        for local, _, columns in (piece for part in rows for piece in self._pieces(part)):
            _count_granules(self._ranks(local, columns, low), granule, counts)
        row_bytes = PLAIN_ROW_BYTES if self._is_plain(high - low) else ROW_BYTES
        sizes = counts * row_bytes + granule * _RANK_BYTES
        cuts, filled = [0], 0
        for number, size in enumerate(sizes.tolist()):
            if filled and filled + size > self._room:
                cuts.append(number * granule)
                filled = 0
            filled += size
        return np.array([*cuts, high - low], np.int64)

    def _pieces(self, part: Part) -> Iterator[tuple[np.ndarray, np.ndarray, Columns]]:
        for first in range(part.start, part.stop, self._step):
            yield part._replace(start=first, stop=min(first + self._step, part.stop)).read()

    @property
    def _step(self) -> int:
        return max(1 << 12, min(_ROWS_AT_ONCE, self._room // ROW_BYTES))

    def _divided(self, part: Part, low: int, cuts: np.ndarray, spool: Spool) -> Iterator[Block]:
        """Put rows away by the part of `cuts` they fall in."""
        for local, nodes, columns in self._pieces(part):
            starts, order = np.zeros(cuts.size, np.int64), np.empty(local.size, np.int64)
            _part_order(self._ranks(local, columns, low), cuts, starts, order)
            pieces = [None if column is None else spool.put(column[order]) for column in columns]
            yield Block(starts, spool.put(local[order]), spool.put(nodes[order]), *pieces)


def _size(rows: Sequence[Part]) -> int:
    return sum(part.stop - part.start for part in rows)
