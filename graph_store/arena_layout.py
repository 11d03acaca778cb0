"""The layout of an arena file whose sections are written in any order, by several processes: where each part goes.

The bytes are those that `ArenaWriter` writes. Where two processes write into one checksummed part, its crc32 is made
of theirs as zlib's `crc32_combine` does (Adler): appending zero bytes is a linear map over GF(2), applied by repeated
squaring.
"""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graph_store.arena import ALIGN, add_sums, end_of_file
from graph_store.section_check import PART_BYTES

_POLYNOMIAL = 0xEDB88320


@dataclass
class Section:
    """A section: where it is; `array` where it is written by `seal`."""

    dtype: np.dtype
    length: int
    offset: int
    array: np.ndarray | None = None


class Sums(NamedTuple):
    """The crc32s of consecutive bytes of a section, by the parts they lie in; the first and last may be incomplete."""

    start: int
    size: int
    crcs: list[int]


def laid_out(sections: Mapping[str, np.ndarray | tuple[Any, int]]) -> dict[str, Section]:
    """Place sections one after the other; each is an array, or the dtype and length of what others write."""
    placed: dict[str, Section] = {}
    at = 0
    for name, given in sections.items():
        array = given if isinstance(given, np.ndarray) else None
        dtype, length = (array.dtype, array.size) if array is not None else (np.dtype(given[0]), int(given[1]))
        at += -at % ALIGN
        placed[name] = Section(dtype, length, at, array)
        at += length * dtype.itemsize
    return placed


def pwrite_all(handle: int, view: memoryview, at: int) -> None:
    """Write bytes at a place of a file."""
    while view.nbytes:
        written = os.pwrite(handle, view, at)
        view, at = view[written:], at + written


def write_part(handle: int, section: Section, start: int, arrays: Iterable[np.ndarray]) -> Sums:
    """Write arrays into a section from its byte `start` on."""
    size, crcs = 0, list[int]()
    for array in arrays:
        view = memoryview(np.ascontiguousarray(array)).cast("B") if array.size else memoryview(b"")
        pwrite_all(handle, view, section.offset + start + size)
        add_sums(crcs, start + size, view)
        size += view.nbytes
    return Sums(start, size, crcs)


def seal(path: Path, sections: Mapping[str, Section], sums: Mapping[str, Sequence[Sums]], place: Path) -> None:
    """Write the arrays that are left and what lies behind the sections, and move the file to its place.

    Parameters
    ----------
    sums : mapping
        Of each section that others wrote the checksums of its parts, in order.
    """
    handle = os.open(path, os.O_RDWR)
    try:
        at, all_sums = 0, {}
        for name, section in sections.items():
            at = section.offset + section.length * section.dtype.itemsize
            written = sums[name] if section.array is None else [write_part(handle, section, 0, [section.array])]
            all_sums[name] = joined_sums(written)
        table = {
            name: {"dtype": section.dtype.str, "offset": section.offset, "length": section.length}
            for name, section in sections.items()
        }
        pwrite_all(handle, memoryview(end_of_file(at, table, all_sums)), at)
        os.fsync(handle)
    finally:
        os.close(handle)
    os.replace(path, place)


def joined_sums(parts: Iterable[Sums]) -> list[int]:
    """Return the crc32 of each part of a section from those of consecutive bytes."""
    crcs: list[int] = []
    for part in parts:
        left, at = list(part.crcs), part.start
        if left and at % PART_BYTES:
            size = min(PART_BYTES - at % PART_BYTES, part.size)
            crcs[-1] = _with_zeros(crcs[-1], size) ^ left.pop(0)
        crcs += left
    return crcs


def _times(matrix: Sequence[int], vector: int) -> int:
    product, row = 0, 0
    while vector:
        if vector & 1:
            product ^= matrix[row]
        vector >>= 1
        row += 1
    return product


def _with_zeros(crc: int, size: int) -> int:
    """Return the crc32 after `size` more zero bytes, as far as it depends on the crc before them."""
    # One zero bit: a shift, and the polynomial where a bit falls out.
    matrix = [_POLYNOMIAL, *(1 << bit for bit in range(31))]
    for _ in range(3):
        matrix = [_times(matrix, row) for row in matrix]
    while size:
        if size & 1:
            crc = _times(matrix, crc)
        matrix = [_times(matrix, row) for row in matrix]
        size >>= 1
    return crc
