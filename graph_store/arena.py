"""The arena: checksummed files of flat arrays that every process of a machine maps read-only.

A file is a row of sections, each an array that starts at a multiple of 4096 bytes; behind them the crc32 of each 64 KiB
of each section (uint32); then a JSON table of the sections' names, types, lengths, offsets, where their crc32s are and
the crc32 of those; at the very end 24 bytes: the table's length, its crc32 and a magic. The file is written beside its
place, fsynced and renamed, so that it is there whole or not at all.
"""

import contextlib
import ctypes
import json
import mmap
import os
import struct
import threading
import weakref
import zlib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from graph_store.errors import CorruptBlock
from graph_store.section_check import PART_BYTES, SectionCheck

MAGIC = b"GSARENA3"
_TAIL = struct.Struct("<QQ8s")
ALIGN = 4096
_HUGE = 2 << 20
_MAP_FIXED = 0x10
# Larger sections may be checked as they are read.
CHECKED_AT_ONCE = 1 << 20


def add_sums(sums: list[int], size: int, data: memoryview) -> None:
    """Continue the crc32s of the parts of a section that has `size` bytes with the bytes that follow."""
    at = 0
    while at < len(data):
        inside = (size + at) % PART_BYTES
        part = data[at : at + PART_BYTES - inside]
        if inside == 0 or not sums:
            sums.append(0)
        sums[-1] = zlib.crc32(part, sums[-1])
        at += len(part)


def end_of_file(at: int, sections: Mapping[str, dict[str, Any]], sums: Mapping[str, Sequence[int]]) -> bytes:
    """Return what lies behind the sections of a file, which end at `at`: checksums, table and tail.

    Parameters
    ----------
    sections : mapping
        Of each its dtype, offset and length, in their order.
    sums : mapping
        Of each the crc32s of its parts.
    """
    parts, table = [b"\0" * (-at % 4)], {}
    at += len(parts[0])
    for name, section in sections.items():
        parts.append(np.array(sums[name], np.uint32).tobytes())
        table[name] = {**section, "sums": [at, len(sums[name])], "crc": zlib.crc32(parts[-1])}
        at += len(parts[-1])
    data = json.dumps(table).encode()
    return b"".join([*parts, data, _TAIL.pack(len(data), zlib.crc32(data), MAGIC)])


class ArenaWriter:
    """Write one arena file, section by section; leaving the `with` block seals it, an exception removes it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        # Several processes may write the same file at once: each beside it under its own name, the last one stays.
        self._beside = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_native_id()}.partial")
        self._file = open(self._beside, "wb")
        self._sections: dict[str, dict[str, Any]] = {}
        self._open: dict[str, Any] | None = None
        # Of each section the crc32s of its parts, the last one of what there is yet.
        self._sums: dict[str, list[int]] = {}

    def begin(self, name: str, dtype: Any) -> None:
        """Start a section of one dimension that `append` fills."""
        self._file.write(b"\0" * (-self._file.tell() % ALIGN))
        self._open = {"dtype": np.dtype(dtype).str, "offset": self._file.tell(), "length": 0}
        self._sections[name] = self._open
        self._open_sums = self._sums[name] = []

    def append(self, array: np.ndarray) -> None:
        """Add an array's items to the open section."""
        assert self._open is not None
        array = np.ascontiguousarray(array, dtype=self._open["dtype"])
        view = memoryview(array).cast("B") if array.size else memoryview(b"")
        self._file.write(view)
        add_sums(self._open_sums, self._open["length"] * array.itemsize, view)
        self._open["length"] += array.size

    def add(self, name: str, array: np.ndarray) -> None:
        """Write a whole section."""
        self.begin(name, array.dtype)
        self.append(array)

    def __enter__(self) -> "ArenaWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._file.close()
            self._beside.unlink(missing_ok=True)
            return
        self._file.write(end_of_file(self._file.tell(), self._sections, self._sums))
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._beside, self._path)


class ArenaFile:
    """A mapped arena file.

    Attributes
    ----------
    sections : dict of str to np.ndarray
        Read-only; they live as long as they are referred to.
    checks : dict of str to SectionCheck
        What compares each section with its checksums; small sections are checked when the file is opened.
    """

    def __init__(self, path: Path, *, keep_open: bool = False) -> None:
        self.path = path
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _TAIL.size:
                raise CorruptBlock(f"{path}: {size} bytes are too few for an arena file; delete it, it is rebuilt")
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            _ask_for_huge_pages(mapped)
            # A file that is about to lose its name stays reachable by a handle.
            self.handle: int | None = None
            if keep_open:
                self.handle = os.dup(file.fileno())
                weakref.finalize(self, os.close, self.handle)
        length, crc, magic = _TAIL.unpack(mapped[size - _TAIL.size :])
        start = size - _TAIL.size - length
        if magic != MAGIC and magic.startswith(MAGIC[:-1]):
            raise CorruptBlock(f"{path}: was written by another version of gossamer; delete it, it is rebuilt")
        if magic != MAGIC or start < 0 or zlib.crc32(mapped[start : start + length]) != crc:
            raise CorruptBlock(f"{path}: the table at its end is damaged; delete it, it is rebuilt")
        self.table: dict[str, dict[str, Any]] = json.loads(mapped[start : start + length])
        self.sections: dict[str, np.ndarray] = {
            name: np.frombuffer(mapped, dtype=entry["dtype"], count=entry["length"], offset=entry["offset"])
            for name, entry in self.table.items()
        }
        self.num_bytes = size
        self.checks: dict[str, SectionCheck] = {}
        for name, entry in self.table.items():
            offset, count = entry["sums"]
            sums = np.frombuffer(mapped, np.uint32, count, offset)
            if zlib.crc32(sums.tobytes()) != entry["crc"]:
                raise CorruptBlock(f"{path}: the checksums of section {name!r} are damaged; delete it, it is rebuilt")
            self.checks[name] = SectionCheck(path, name, self.sections[name], sums)

    def check(self, *, larger: Collection[str] = ()) -> None:
        """Check all sections but those named that are larger than 1 MiB.

        Raises
        ------
        CorruptBlock
            One is damaged.
        """
        for name, section in self.sections.items():
            if name not in larger or section.nbytes <= CHECKED_AT_ONCE:
                self.checks[name].all()

    def damaged_sections(self) -> list[str]:
        """Read everything and return the names of the sections that are damaged."""
        return [name for name, check in self.checks.items() if check.damaged()]


def behind_in_words(words: np.ndarray) -> int:
    """Return the word from which on an array may be mapped behind another one: the next page's first."""
    return -(-words.nbytes // ALIGN) * (ALIGN // 8)


def _ask_for_huge_pages(mapped: mmap.mmap) -> None:
    """Let the kernel read and map 2 MiB at a time, where it can for files: sampling misses the TLB less."""
    advice = getattr(mmap, "MADV_HUGEPAGE", None)
    if advice is not None:
        with contextlib.suppress(OSError):
            mapped.madvise(advice)


def mapped_together(first: ArenaFile, second: ArenaFile, name: str) -> np.ndarray:
    """Map the section `words` of one file and section `name` of another as one uint64 array.

    The second begins at `behind_in_words` of the first; what lies between is no data.
    """
    files = [(first, first.table["words"]), (second, second.table[name])]
    sizes = [8 * entry["length"] for _, entry in files]
    behind = -(-sizes[0] // ALIGN) * ALIGN
    address, reserved = _reserve(behind + sizes[1])
    start = -(-address // _HUGE) * _HUGE
    for (file, entry), size, at in zip(files, sizes, (start, start + behind)):
        if size:
            with open(file.path if file.handle is None else f"/proc/self/fd/{file.handle}", "rb") as opened:
                flags = mmap.MAP_SHARED | _MAP_FIXED
                _mmap(at, size, mmap.PROT_READ, flags, opened.fileno(), entry["offset"])
            _libc().madvise(ctypes.c_void_p(at), ctypes.c_size_t(size), getattr(mmap, "MADV_HUGEPAGE", 14))
    held = (ctypes.c_uint8 * (behind + sizes[1])).from_address(start)
    weakref.finalize(held, _unmap, address, reserved)
    array = np.frombuffer(held, np.uint64)
    array.flags.writeable = False
    return array


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _mmap(address: int | None, size: int, protection: int, flags: int, handle: int, offset: int) -> int:
    call = _libc().mmap
    call.restype = ctypes.c_void_p
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    found = call(address, size, protection, flags, handle, offset)
    if found is None or found == ctypes.c_void_p(-1).value:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int(found)


def _reserve(size: int) -> tuple[int, int]:
    """Reserve addresses, with room to begin at a huge page; returns the first and their number."""
    size += 2 * _HUGE
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
    return _mmap(None, size, 0, flags, -1, 0), size


def _unmap(address: int, size: int) -> None:
    call = _libc().munmap
    call.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    call(address, size)
