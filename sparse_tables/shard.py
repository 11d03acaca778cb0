"""One logical shard: the index and the slabs of its rows, and their growth."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparse_tables.allocator import Allocator, SharedAllocator
from sparse_tables.config import TableConfig
from sparse_tables.errors import TableFull
from sparse_tables.index import COUNT, FIELDS, ROOM, SLABS, fill_index

# More than 0.6 of the cells in use make linear probing slow.
_LOAD_NUMERATOR, _LOAD_DENOMINATOR = 3, 5
_MIN_CELLS = 64
_MAX_CELLS = 1 << 31


@dataclass
class Shard:
    """The memory of one logical shard. Row `slot` of each slab belongs to the id `ids[slot]`.

    Growth makes a new set of arrays, copies, and swaps it in: whoever reads the old ones (another process
    that maps them, say) is never moved under, and finds the new ones by their higher `generation`.

    Attributes
    ----------
    number : int
        Which of the table's shards this is.
    directory : int64[FIELDS]
        This shard's line of the table's directory: the addresses the kernels work with, and the row count.
    generation : int
        Goes up by one with each growth.
    """

    number: int
    config: TableConfig
    allocator: Allocator
    directory: np.ndarray
    generation: int = 0
    arrays: dict[str, np.ndarray] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._make(_MIN_CELLS)

    def __len__(self) -> int:
        return int(self.directory[COUNT])

    @property
    def ids(self) -> np.ndarray:
        """int64[n], by slot; a view."""
        return self.arrays["ids"].view(np.int64)[: len(self)]

    @property
    def rows(self) -> np.ndarray:
        """float32[n, dim], by slot; a view."""
        return self._slab("rows", self.config.dim)

    @property
    def state(self) -> np.ndarray:
        """float32[n, config.state_width], by slot; a view."""
        return self._slab("state", self.config.state_width)

    @property
    def steps(self) -> np.ndarray:
        """int64[n] updates each row has had, by slot, or int64[0] where the optimizer counts none; a view."""
        return self.arrays["steps"].view(np.int64)[: len(self) if self.config.counts_steps else 0]

    @property
    def num_bytes(self) -> int:
        """Bytes of the index and the slabs, unused room included."""
        return sum(array.nbytes for array in self.arrays.values())

    def _slab(self, name: str, width: int) -> np.ndarray:
        count = len(self)
        return self.arrays[name].view(np.float32)[: count * width].reshape(count, width)

    def grow(self) -> None:
        """Double the room.

        Raises
        ------
        TableFull
            If the shard has more rows than a slot number can name.
        """
        self._make(2 * len(self.arrays["cells"]) // 16)

    def reserve(self, num_rows: int) -> None:
        """Grow once, if need be, so that the shard has room for `num_rows` rows."""
        cells = len(self.arrays["cells"]) // 16
        while cells * _LOAD_NUMERATOR // _LOAD_DENOMINATOR < num_rows:
            cells *= 2
        if cells != len(self.arrays["cells"]) // 16:
            self._make(cells)

    def append(self, ids: np.ndarray, rows: np.ndarray, state: np.ndarray, steps: np.ndarray) -> None:
        """Add rows, their values flat, after the last slot; there must be room, and `index` must follow."""
        count = len(self)
        self.directory[COUNT] = count + len(ids)
        self.ids[count:] = ids
        self.rows[count:] = rows.reshape(len(ids), -1)
        self.state[count:] = state.reshape(len(ids), -1) if state.size else 0
        self.steps[count:] = steps

    def index(self) -> None:
        """Enter the ids of all slots into the index.

        Raises
        ------
        ValueError
            If an id is there twice.
        """
        if not fill_index(self.directory):
            raise ValueError(f"table {self.config.name!r}: shard {self.number} holds an id twice")

    def published(self, allocator: SharedAllocator) -> dict[str, Any]:
        """Return, as JSON values, where a reader in another process finds this shard."""
        segments = {
            name: (allocator.segment(array), array.nbytes)
            for name, array in self.arrays.items()
            if array.size
        }
        shift = int(self.directory[SLABS["shift"]])
        return {"shard": self.number, "generation": self.generation, "shift": shift, "segments": segments}

    def _make(self, num_cells: int) -> None:
        if num_cells > _MAX_CELLS:
            raise TableFull(
                f"table {self.config.name!r}: shard {self.number} holds {len(self):,} rows and cannot grow; "
                f"make the table with more than {self.config.num_shards} shards"
            )
        room = num_cells * _LOAD_NUMERATOR // _LOAD_DENOMINATOR
        sizes = {
            "cells": 16 * num_cells,
            "ids": 8 * room,
            "rows": 4 * room * self.config.dim,
            "state": 4 * room * self.config.state_width,
            "steps": 8 * room * self.config.counts_steps,
        }
        old, new = self.arrays, {name: self._allocate(size) for name, size in sizes.items()}
        count = len(self)
        for name in old:
            if name != "cells":
                used = sizes[name] // room * count
                new[name][:used] = old[name][:used]
        for name, array in new.items():
            self.directory[SLABS[name]] = array.ctypes.data
        self.directory[SLABS["shift"]] = 65 - num_cells.bit_length()
        self.directory[ROOM] = room
        self.arrays = new
        self.index()
        self.generation += 1
        for array in old.values():
            if array.size:
                self.allocator.release(array)

    def _allocate(self, num_bytes: int) -> np.ndarray:
        return self.allocator.allocate(num_bytes) if num_bytes else np.zeros(0, dtype=np.uint8)


def empty_directory(num_shards: int) -> np.ndarray:
    """Return int64[num_shards, FIELDS] of a table that holds none of its shards."""
    return np.zeros((num_shards, FIELDS), dtype=np.int64)
