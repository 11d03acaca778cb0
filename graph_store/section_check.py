"""The checksums of a mapped section, compared part by part, each when it is first read."""

from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from graph_store.errors import CorruptBlock
from graph_store.kernels import kernel, run_ranges

# Bytes of a part, each with a crc32.
PART_BYTES = 1 << 16


@kernel
def _unchecked(
    firsts: np.ndarray, stops: np.ndarray, start: int, item: int, done: np.ndarray, found: np.ndarray
) -> tuple[int, int]:
    """List the parts, perhaps several times, that spans of items from `start` on touch and nobody has checked.

    Returns how many, at most `found.size`, and the span to go on from.
    """
    count = 0
    for i in range(start, firsts.size):
        if stops[i] <= firsts[i]:
            continue
        for part in range(firsts[i] * item // PART_BYTES, (stops[i] * item - 1) // PART_BYTES + 1):
            if not done[part] and not (count and found[count - 1] == part):
                if count == found.size:
                    return count, i
                found[count] = part
                count += 1
    return count, firsts.size


class SectionCheck:
    """Compares the parts of a section with their crc32s, each once.

    Parameters
    ----------
    path : Path
    name : str
        Of the section, for messages.
    section : np.ndarray
    sums : uint32[p]
        The crc32 of each part of `PART_BYTES` bytes.
    """

    def __init__(self, path: Path, name: str, section: np.ndarray, sums: np.ndarray) -> None:
        self.path, self.name = path, name
        self._bytes = memoryview(section).cast("B") if section.size else memoryview(b"")
        self._sums, self._item = sums, section.itemsize
        self.done = np.zeros(sums.size, np.uint8)
        self._left = sums.size
        self._swept = 0

    @property
    def complete(self) -> bool:
        """True when every part was checked."""
        return self._left == 0

    def is_sound(self, part: int) -> bool:
        """Say whether a part has the checksum it was written with."""
        return crc32(self._bytes[part * PART_BYTES : (part + 1) * PART_BYTES]) == self._sums[part]

    def damaged(self) -> list[int]:
        """Read everything and return the parts that are damaged."""
        return [part for part in range(self._sums.size) if not self.is_sound(part)]

    def parts(self, first: int, stop: int) -> None:
        """Check the parts `first … stop − 1`.

        Raises
        ------
        CorruptBlock
            One is damaged; what lies in the others can still be read.
        """
        for part in range(first, stop):
            if self.done[part]:
                continue
            if not self.is_sound(part):
                at = part * PART_BYTES
                raise CorruptBlock(
                    f"{self.path}: section {self.name!r} is damaged in bytes {at} to "
                    f"{min(at + PART_BYTES, len(self._bytes)) - 1}; delete the file, it is rebuilt"
                )
            self.done[part] = 1
        self._left = int(self.done.size - np.count_nonzero(self.done))

    def items(self, firsts: Any, stops: Any) -> None:
        """Check what spans of items lie in, int64[n] each; CorruptBlock as `parts`."""
        if self.complete:
            return
        firsts, stops = np.atleast_1d(np.asarray(firsts, np.int64)), np.atleast_1d(np.asarray(stops, np.int64))
        found, at = np.empty(1 << 10, np.int64), 0
        while at < firsts.size:
            count, at = _unchecked(firsts, stops, at, self._item, self.done, found)
            for part in np.unique(found[:count]).tolist():
                self.parts(part, part + 1)

    def all(self, threads: int | None = 1) -> None:
        """Check everything; CorruptBlock as `parts`."""
        if not self.complete:
            run_ranges(self.parts, self._sums.size, threads=threads, grain=64)

    def sweep(self, parts: int) -> None:
        """Check the next few parts, so that all are checked some day."""
        if not self.complete:
            stop = min(self._swept + parts, self._sums.size)
            self.parts(self._swept, stop)
            self._swept = stop
