"""One logical shard: the index and the slabs of its rows, and their growth."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sparse_tables.allocator import Allocator, SharedAllocator
from sparse_tables.config import TableConfig
from sparse_tables.errors import TableFull
from sparse_tables.index import CELLS, COUNT, FIELDS, IDS, ROOM, ROWS, SHIFT, STATE, STEPS, fill_index

# More than 0.6 of the cells in use make linear probing slow.
_LOAD_NUMERATOR, _LOAD_DENOMINATOR = 3, 5
_MIN_CELLS = 64
_MAX_CELLS = 1 << 31
_LINE = 64


def empty_directory(num_shards: int) -> np.ndarray:
    """Return int64[num_shards, FIELDS] of a table that holds none of its shards."""
    return np.zeros((num_shards, FIELDS), dtype=np.int64)


@dataclass(frozen=True)
class Slabs:
    """The arrays of a shard with `num_cells` index cells, cut out of one piece of memory.

    Attributes
    ----------
    cells : int64[2 * num_cells]
    ids : int64[room]
    rows : float32[room, dim]
    state : float32[room, config.state_width]
    steps : int64[room], or int64[0] where the optimizer counts none
    """

    num_cells: int
    cells: np.ndarray
    ids: np.ndarray
    rows: np.ndarray
    state: np.ndarray
    steps: np.ndarray

    @classmethod
    def cut(cls, config: TableConfig, num_cells: int, memory: np.ndarray) -> "Slabs":
        """Cut `memory`, uint8[Slabs.num_bytes(config, num_cells)]."""
        room = room_of(num_cells)
        pieces: list[np.ndarray] = []
        start = 0
        for size, kind in _sizes(config, num_cells):
            pieces.append(memory[start : start + size].view(kind))
            start += -(-size // _LINE) * _LINE
        cells, ids, rows, state, steps = pieces
        return cls(num_cells, cells, ids, rows.reshape(room, -1), state.reshape(room, -1), steps)

    @staticmethod
    def num_bytes(config: TableConfig, num_cells: int) -> int:
        """Return the bytes that `cut` needs."""
        return sum(-(-size // _LINE) * _LINE for size, _ in _sizes(config, num_cells))

    def enter(self, line: np.ndarray) -> None:
        """Write where the slabs are into a shard's line of a directory."""
        line[CELLS], line[SHIFT] = self.cells.ctypes.data, 65 - self.num_cells.bit_length()
        line[IDS], line[ROWS] = self.ids.ctypes.data, self.rows.ctypes.data
        line[STATE], line[STEPS] = self.state.ctypes.data, self.steps.ctypes.data
        line[ROOM] = len(self.ids)


def room_of(num_cells: int) -> int:
    """Return how many rows an index of `num_cells` cells may hold."""
    return num_cells * _LOAD_NUMERATOR // _LOAD_DENOMINATOR


def _sizes(config: TableConfig, num_cells: int) -> list[tuple[int, type]]:
    room = room_of(num_cells)
    return [
        (16 * num_cells, np.int64),
        (8 * room, np.int64),
        (4 * room * config.dim, np.float32),
        (4 * room * config.state_width, np.float32),
        (8 * room * config.counts_steps, np.int64),
    ]


@dataclass
class Shard:
    """The memory of one logical shard. Row `slot` of each slab belongs to the id `ids[slot]`.

    Growth makes a new piece of memory, copies, and swaps it in: whoever reads the old one (another process that
    maps it, say) is never moved under, and finds the new one by its higher `generation`. What readers were told of
    last is kept until they have been told of its successor.

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
    memory: np.ndarray = field(init=False)
    slabs: Slabs = field(init=False)
    _shown: np.ndarray | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._allocate(_MIN_CELLS)

    def __len__(self) -> int:
        return int(self.directory[COUNT])

    @property
    def ids(self) -> np.ndarray:
        """int64[n], by slot; a view."""
        return self.slabs.ids[: len(self)]

    @property
    def rows(self) -> np.ndarray:
        """float32[n, dim], by slot; a view."""
        return self.slabs.rows[: len(self)]

    @property
    def state(self) -> np.ndarray:
        """float32[n, config.state_width], by slot; a view."""
        return self.slabs.state[: len(self)]

    @property
    def steps(self) -> np.ndarray:
        """int64[n] updates each row has had, by slot, or int64[0] where the optimizer counts none; a view."""
        return self.slabs.steps[: len(self)]

    @property
    def num_bytes(self) -> int:
        """Bytes of the index and the slabs, unused room included."""
        return self.memory.nbytes

    def grow(self) -> None:
        """Double the room.

        Raises
        ------
        TableFull
            If the shard has more rows than a slot number can name.
        """
        self._move(2 * self.slabs.num_cells)

    def reserve(self, num_rows: int) -> None:
        """Grow once, if need be, so that the shard has room for `num_rows` rows."""
        num_cells = self.slabs.num_cells
        while room_of(num_cells) < num_rows:
            num_cells *= 2
        if num_cells != self.slabs.num_cells:
            self._move(num_cells)

    def append(self, ids: np.ndarray, rows: np.ndarray, state: np.ndarray, steps: np.ndarray) -> None:
        """Add rows, their values flat, after the last slot; there must be room, and `index` must follow."""
        count = len(self)
        self.directory[COUNT] = count + len(ids)
        self.ids[count:] = ids
        self.rows[count:] = rows.reshape(len(ids), -1)
        self.state[count:] = state.reshape(len(ids), self.config.state_width)
        if self.config.counts_steps:
            self.steps[count:] = steps

    def index(self) -> None:
        """Enter the ids of all slots into the index, whose cells are empty.

        Raises
        ------
        ValueError
            If an id is there twice.
        """
        if not fill_index(self.directory):
            raise ValueError(f"table {self.config.name!r}: shard {self.number} holds an id twice")

    def published(self, allocator: SharedAllocator) -> dict[str, Any]:
        """Return, as JSON values, where a reader in another process finds this shard."""
        return {
            "shard": self.number,
            "generation": self.generation,
            "cells": self.slabs.num_cells,
            "segment": allocator.segment(self.memory),
        }

    def settle(self) -> None:
        """Take note that readers have been told of the memory of now: the one before it can go."""
        if self._shown is not None and self._shown is not self.memory:
            self.allocator.release(self._shown)
        self._shown = self.memory

    def _move(self, num_cells: int) -> None:
        old, old_memory = self.slabs, self.memory
        self._allocate(num_cells)
        for name in ("ids", "rows", "state", "steps"):
            source = getattr(old, name)[: len(self)]
            getattr(self.slabs, name)[: len(source)] = source
        self.index()
        self.generation += 1
        if old_memory is not self._shown:
            self.allocator.release(old_memory)

    def _allocate(self, num_cells: int) -> None:
        if num_cells > _MAX_CELLS:
            raise TableFull(
                f"table {self.config.name!r}: shard {self.number} holds {len(self):,} rows and cannot grow; "
                f"make the table with more than {self.config.num_shards} shards"
            )
        self.memory = self.allocator.allocate(Slabs.num_bytes(self.config, num_cells))
        self.slabs = Slabs.cut(self.config, num_cells, self.memory)
        self.slabs.enter(self.directory)
