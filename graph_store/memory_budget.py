"""The memory of an ingest: what is left of it beside the libraries, and who may use how much."""

import os
from typing import NamedTuple

from graph_store.row_batch import BATCH_ROWS

MIN_MEMORY = 64 << 20
# What RocksDB, allocators and arrays that come and go take beside what is counted.
_UNCOUNTED = 16 << 20
_LEAST = 12 << 20
_SMALLEST_BATCH = 1 << 12
# A batch is in memory as Arrow decoded it, as it is handed on, and in part once more while it is taken.
_COPIES = 4
_TEXT_BYTES = 48


def resident_bytes() -> int:
    """Return the memory that this process has now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0


class Budget(NamedTuple):
    """Bytes for the parts of an ingest.

    waiting : what waits in spools; ids : the dictionaries; reading : batches; work : sorting, merging and packing
    """

    waiting: int
    ids: int
    reading: int
    work: int

    @classmethod
    def of(cls, memory: int, taken: int) -> "Budget":
        """Share out memory, of which libraries took some since the ingest was called."""
        left = max(_LEAST, memory - taken - _UNCOUNTED)
        return cls(left * 3 // 8, left // 8, left // 8, left * 3 // 8)

    def dense_limit(self) -> int:
        """Return below which ids may be their own codes: a byte an id while reading, 4 or 8 bytes afterwards."""
        return max(1 << 12, self.ids // 4)

    def batch_rows(self, row_bytes: int, threads: int) -> int:
        """Return how many rows a batch may have, as many of them are read ahead as there are threads."""
        rows = self.reading // (row_bytes * _COPIES * (threads + 2))
        return max(_SMALLEST_BATCH, min(BATCH_ROWS, rows))


def row_bytes(*, ids: int, texts: int, weighted: bool = False, timed: bool = False, features: int = 0) -> int:
    """Return what a row takes about: so many ids and texts, weights, times and the numbers of its features."""
    return 8 * ids + _TEXT_BYTES * texts + 4 * weighted + 8 * timed + features
