"""Adjacency lists of a shard and edge type, a range after the other → packed records, cut as if they came at once."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from graph_store.blocks import RECORD_FIELDS, Encoded, encode, plan_blocks
from graph_store.edge_lists import Lists

# Edges below which a second thread does not pay.
_EDGES_A_THREAD = 1 << 17


class ListEncoder:
    """Packs lists; the last block stays open until it is known what follows.

    Parameters
    ----------
    bits : int
        Bits of a neighbour.
    """

    def __init__(self, bits: int, *, threads: int) -> None:
        self._bits, self._threads = bits, threads
        self._held: Lists | None = None
        self._first = 0

    @property
    def nothing(self) -> Encoded:
        """No records."""
        return Encoded(np.empty(0, np.uint64), np.empty((0, len(RECORD_FIELDS)), np.int64))

    def add(self, lists: Lists, *, last: bool) -> Iterator[Encoded]:
        """Take the lists of the next local ids; yield records that are complete, in order."""
        lists = lists if self._held is None else _joined(self._held, lists)
        plan = plan_blocks(lists.indptr, self._bits)
        size, blocks = lists.indptr.size - 1, plan.shape[0] - 1
        # A block with a hub stands alone; any other may go on with the nodes that follow.
        stop = size if last or blocks == 0 or plan[-2, 1] else int(plan[-2, 0])
        self._held = lists.part(stop, size) if stop < size else None
        starts = plan[:-1, 0][plan[:-1, 0] < stop]
        yield from self._encoded(lists, starts, stop)
        self._first += stop

    def _encoded(self, lists: Lists, starts: np.ndarray, stop: int) -> Iterator[Encoded]:
        edges = int(lists.indptr[stop])
        parts = max(1, min(self._threads, edges // _EDGES_A_THREAD))
        marks = np.searchsorted(lists.indptr[starts], [edges * part // parts for part in range(1, parts)])
        bounds = sorted({0, stop, *(int(starts[mark]) for mark in marks if mark < starts.size)})

        def pack(low: int, high: int) -> Encoded:
            return encode(*lists.part(low, high), first=self._first + low, bits=self._bits)

        if len(bounds) <= 2:
            if stop:
                yield pack(0, stop)
            return
        with ThreadPoolExecutor(parts) as pool:
            yield from pool.map(pack, bounds[:-1], bounds[1:])


def _joined(first: Lists, second: Lists) -> Lists:
    indptr = np.concatenate([first.indptr, second.indptr[1:] + first.indptr[-1]])
    columns = [None if one is None else np.concatenate([one, other]) for one, other in zip(first[1:], second[1:])]
    return Lists(indptr, *columns)  # type: ignore[arg-type]
