"""The memory of an ingest: what is left of it beside the libraries, and who may use how much."""

import contextlib
import ctypes
import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from graph_store.row_batch import BATCH_ROWS

MIN_MEMORY = 64 << 20
# What RocksDB, allocators and arrays that come and go take beside what is counted.
_UNCOUNTED = 48 << 20
_LEAST, _LITTLE = 12 << 20, 96 << 20
_SMALLEST_BATCH = 1 << 12
# A batch is in memory as Arrow decoded it, as it is handed on, and in part once more while it is taken.
_COPIES = 3
_TEXT_BYTES = 48
_ROOMY, _LARGE_CODE = 1536 << 20, 1 << 20


def anonymous_bytes() -> int:
    """Return the memory that this process has now, without pages of files; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:
            _, resident, shared, *_ = map(int, file.read().split())
        return (resident - shared) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


class Budget(NamedTuple):
    """Bytes for the parts of an ingest.

    waiting : what waits in spools; ids : the dictionaries, and as much again to sort one; reading : batches
    work : merging, sorting and packing, after reading, beside tables of nodes that take less than the dictionaries
    """

    waiting: int
    ids: int
    reading: int
    work: int

    @classmethod
    def of(cls, memory: int, taken: int) -> "Budget":
        """Share out memory, of which libraries took some since the ingest was called."""
        left = max(_LEAST, memory - taken - _UNCOUNTED)
        if left < _LITTLE:
            # Waiting on disk costs less than many small dictionaries and many small sorts.
            return cls(left // 8, left // 4, left // 4, left * 5 // 8)
        return cls(left * 3 // 8, left // 8, left // 4, left * 3 // 8)

    def readers(self, threads: int) -> int:
        """Return how many threads decode files: Arrow keeps memory for each."""
        return 1 if self.reading < _LITTLE // 4 else threads

    def dense_limit(self) -> int:
        """Return below which ids may be their own codes: a byte an id while reading, 4 or 8 bytes afterwards."""
        return max(1 << 12, self.ids // 4)

    def sealed_at_once(self, most: int) -> int:
        """Return how many shards are sealed side by side: each database takes some memory."""
        return max(1, min(most, self.work >> 22))

    def batch_rows(self, row_bytes: int, threads: int) -> int | None:
        """Return how many rows a batch may have, None for any; as many are read ahead as there are threads."""
        rows = self.reading // (row_bytes * _COPIES * (threads + 2))
        return max(_SMALLEST_BATCH, rows) if rows < BATCH_ROWS else None


def row_bytes(*, ids: int, texts: int, weighted: bool = False, timed: bool = False, features: int = 0) -> int:
    """Return what a row takes about: so many ids and texts, weights, times and the numbers of its features."""
    return 8 * ids + _TEXT_BYTES * texts + 4 * weighted + 8 * timed + features


@contextmanager
def thrifty_pool(memory: int) -> Iterator[None]:
    """Let Arrow give freed memory back at once while this lasts, where there is little: it keeps some tens of MiB."""
    if memory >= _ROOMY:
        yield
        return
    import pyarrow as pa

    pool = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    try:
        yield
    finally:
        pa.set_memory_pool(pool)


def let_go_of_code(memory: int) -> None:
    """Give the code of libraries back to the page cache, where there is little memory.

    Loading numba and Arrow touches some 80 MiB of code that is hardly needed again; what is comes back by itself.
    """
    if memory >= _ROOMY:
        return
    with contextlib.suppress(OSError, ValueError, AttributeError):
        madvise = ctypes.CDLL(None).madvise
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
            for line in maps:
                span, access, _, _, inode, *_ = line.split()
                start, stop = (int(end, 16) for end in span.split("-"))
                # Code is never written to, so that its pages are those of the file.
                if access == "r-xp" and inode != "0" and stop - start >= _LARGE_CODE:
                    madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)


def give_back() -> None:
    """Give memory that was freed back to the system; glibc keeps it, for each thread that used it."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
