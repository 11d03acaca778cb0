"""The ids of one node type as they come in: codes for the rows, and the dictionaries they are codes of."""

from typing import Any, NamedTuple

import numpy as np

from graph_store.dictionary import Dictionary, HashedIds, MarkedIds, SortedIds
from graph_store.schema import NodeType
from graph_store.spool import Piece, Spool
from graph_store.string_dictionary import HashedStrings
from graph_store.string_ids import ALL_BITS


class Segment(NamedTuple):
    """A dictionary that was put away; see `SortedIds`.

    starts : int64[num_shards + 1]; data_starts : int64[num_shards + 1] bytes
    """

    num_codes: int
    starts: np.ndarray
    keys: Piece
    codes: Piece
    flags: Piece | None = None
    lengths: Piece | None = None
    data: Piece | None = None
    data_starts: np.ndarray | None = None


class IdCollector:
    """Gives ids their codes.

    Parameters
    ----------
    limit : int
        Bytes that the dictionary in memory may take up.
    dense_limit : int
        Integers from 0 up to this are their own codes, unless others come.
    """

    def __init__(
        self,
        node_type: NodeType,
        spool: Spool,
        *,
        num_shards: int,
        limit: int,
        dense_limit: int,
        threads: int,
        hash_mask: int = ALL_BITS,
    ) -> None:
        self.node_type, self.hash_mask = node_type, hash_mask
        self._spool, self._num_shards, self._limit, self._threads = spool, num_shards, limit, threads
        self._dense_limit = 0 if node_type.id_type == "string" else dense_limit
        self._dictionary: Dictionary | None = None
        self.segments: list[Segment] = []

    @property
    def state(self) -> tuple[list[Segment], int]:
        """What was put away, and below which integers are their own codes."""
        return self.segments, self._dense_limit

    def restore(self, segments: list[Segment], dense_limit: int) -> None:
        """Go on from a state."""
        self.segments, self._dense_limit = list(segments), dense_limit

    def add(self, values: Any, flag: int) -> tuple[int, np.ndarray]:
        """Take int64[n] or an Arrow string array; returns the number of a segment and codes in it, uint32[n].

        `flag` is what is known of the ids: 0, or `NODE` and `LISTED` of `dictionary`.
        """
        if self._dictionary is not None and not self._dictionary.takes(values):
            self._dense_limit = 0
            self.put_away()
        if self._dictionary is None:
            self._dictionary = self._new(values)
        return len(self.segments), self._dictionary.add(values, flag)

    def _new(self, values: Any) -> Dictionary:
        if self.node_type.id_type == "string":
            return HashedStrings(
                self.node_type.name, limit=self._limit, threads=self._threads, hash_mask=self.hash_mask
            )
        if self._dense_limit:
            marked = MarkedIds(limit=self._dense_limit, threads=self._threads)
            if marked.takes(values):
                return marked
            self._dense_limit = 0
        return HashedIds(limit=self._limit, threads=self._threads)

    def put_away(self) -> None:
        """Begin another dictionary with the next ids."""
        if self._dictionary is not None:
            self.segments.append(_put(self._spool, self._dictionary.sort(self._num_shards)))
            self._dictionary = None


def _put(spool: Spool, ids: SortedIds) -> Segment:
    data_starts = None
    if ids.lengths is not None:
        ends = np.zeros(ids.lengths.size + 1, np.int64)
        np.cumsum(ids.lengths, out=ends[1:])
        data_starts = ends[ids.starts]
    columns = (ids.keys, ids.codes, ids.flags, ids.lengths, ids.data)
    pieces = [None if column is None else spool.put(column) for column in columns]
    keys, codes, *others = pieces
    assert keys is not None
    assert codes is not None
    return Segment(ids.num_codes, ids.starts, keys, codes, *others, data_starts)  # type: ignore[arg-type, call-arg]
