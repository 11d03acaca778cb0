"""The arena file of an edge type, made as the records of its shards come, by one rank or by several at once.

The words go to a file at once; what lies behind them (see `resident`) waits until their number is known. Several ranks
each make the part of their shards, which follow each other; then all write their parts into the file of the first.
"""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from graph_store.arena import add_sums
from graph_store.arena_blocks import BLOCK_SHIFT, arena_words, check_addressable, fill_arena
from graph_store.arena_layout import Section, Sums, laid_out, seal, write_part
from graph_store.blocks import GROUP_NODES, Encoded
from graph_store.spool import Piece, Spool

_PENDING_BYTES = 1 << 16
_COPIED_AT_ONCE = 1 << 20


class _ShardPart(NamedTuple):
    """What a shard gives to the directory and the table of blocks, relative to the part's beginning."""

    directory: Piece
    blocks: Piece


class PartSizes(NamedTuple):
    """Words, entries of lists, blocks and groups of nodes of one rank's part."""

    words: int
    edges: int
    blocks: int
    groups: int


class PartSums(NamedTuple):
    """The checksums of one rank's words, directory entries and blocks."""

    words: Sums
    directory: Sums
    blocks: Sums


class EdgeFile:
    """One rank's part of an edge type's arena file.

    Parameters
    ----------
    path : Path
        Where the whole file will be.
    counts : int64[num_shards]
        Nodes of the source type a shard.
    shards : range
        Those of this part, which `add` gets in order. The first rank has the first ones.
    spool : Spool
        Where directory and blocks wait.
    state : tuple, optional
        To go on from; see `state`.
    """

    def __init__(
        self, path: Path, counts: np.ndarray, shards: range, spool: Spool, *, rank: int = 0, state: Any = None
    ) -> None:
        self.path, self.counts, self.shards, self._spool, self._rank = path, counts, shards, spool, rank
        self._part_path = path.with_name(f"{path.name}.part-{rank}")
        self.group_base = np.zeros(counts.size + 1, np.int64)
        np.cumsum((counts + GROUP_NODES - 1) // GROUP_NODES, out=self.group_base[1:])
        self._pending: list[np.ndarray] = []
        self._pending_bytes = self._words = self._edges = 0
        self._sums: list[int] = []
        self._shard, self._directory = -1, np.empty(0, np.int64)
        self._blocks: list[np.ndarray] = []
        self._parts: list[_ShardPart] = []
        self.shard_blocks = np.zeros(counts.size, np.int64)
        if state is not None:
            self._shard, self._words, self._edges, self._sums, self.shard_blocks, parts = state
            self._parts = [_ShardPart(*part) for part in parts]
            self._directory = self._empty_directory()
        if state is None:
            self._part_path.unlink(missing_ok=True)
        elif self._part_path.exists():
            os.truncate(self._part_path, 8 * self._words)

    @property
    def state(self) -> tuple[Any, ...]:
        """What is made once a shard is closed; the words are durable in the part's file."""
        self._flush()
        if self._part_path.exists():
            with open(self._part_path, "rb") as file:
                os.fsync(file.fileno())
        parts = [list(part) for part in self._parts]
        return self._shard, self._words, self._edges, self._sums, self.shard_blocks, parts

    @property
    def sealed(self) -> bool:
        """True when the whole file is at its place."""
        return self.path.exists()

    def add(self, shard: int, encoded: Encoded) -> None:
        """Take the next records of a shard."""
        while self._shard < shard:
            self._next_shard()
        target = np.zeros(int(arena_words(encoded.words, encoded.records)), np.uint64)
        blocks = np.empty((encoded.records.shape[0], 3), np.int64)
        used, self._edges = fill_arena(
            encoded.words, encoded.records, target, self._words, 0, self._directory, blocks, self._edges
        )
        self._blocks.append(blocks[:used].ravel())
        if self._rank == 0 and target.size:
            add_sums(self._sums, 8 * self._words, memoryview(target).cast("B"))
        self._words += target.size
        self._pending.append(target)
        self._pending_bytes += target.nbytes
        if self._pending_bytes > _PENDING_BYTES:
            self._flush()

    def _next_shard(self) -> None:
        if self._shard >= 0:
            blocks = np.concatenate([*self._blocks, np.empty(0, np.int64)])
            self.shard_blocks[self._shard] = blocks.size // 3
            self._parts.append(_ShardPart(self._spool.put(self._directory), self._spool.put(blocks)))
            self._blocks = []
        self._shard = self.shards.start if self._shard < 0 else self._shard + 1
        self._directory = self._empty_directory()

    def _empty_directory(self) -> np.ndarray:
        size = 0
        if self._shard < self.shards.stop:
            size = int(self.group_base[self._shard + 1] - self.group_base[self._shard])
        return np.zeros(size, np.int64)

    def close_shard(self, shard: int) -> None:
        """Say that a shard has no more records."""
        while self._shard <= shard:
            self._next_shard()

    def _flush(self) -> None:
        if self._pending:
            with open(self._part_path, "ab") as file:
                for array in self._pending:
                    file.write(memoryview(array).cast("B"))
        self._pending, self._pending_bytes = [], 0

    def end(self) -> PartSizes:
        """Say that all shards of the part were added."""
        while self._shard < self.shards.stop:
            self._next_shard()
        self._flush()
        if self._rank == 0 and not self._part_path.exists():
            self._part_path.touch()
        groups = int(self.group_base[self.shards.stop] - self.group_base[self.shards.start])
        return PartSizes(self._words, self._edges, int(self.shard_blocks.sum()), groups)

    def _sections(self, sizes: Sequence[PartSizes], shard_blocks: np.ndarray) -> dict[str, Section]:
        total = PartSizes(*(sum(column) for column in zip(*sizes)))
        starts = np.zeros(self.counts.size + 1, np.int64)
        np.cumsum(shard_blocks, out=starts[1:])
        return laid_out(
            {
                "words": (np.uint64, total.words),
                "directory": (np.int64, total.groups),
                "group_base": self.group_base,
                "blocks": (np.int64, 3 * total.blocks),
                "shard_starts": starts,
                "counts": self.counts,
                "num_edges": np.array([total.edges], np.int64),
            }
        )

    def _whole_path(self) -> Path:
        return self.path.with_name(f"{self.path.name}.part-0")

    def write_part(self, sizes: Sequence[PartSizes], shard_blocks: np.ndarray) -> PartSums:
        """Write this rank's part into the whole file, once the sizes of all ranks' parts are known.

        Parameters
        ----------
        shard_blocks : int64[num_shards]
            Blocks of every shard.
        """
        sections = self._sections(sizes, shard_blocks)
        check_addressable(sum(size.words for size in sizes))
        words, edges = (sum(size[column] for size in sizes[: self._rank]) for column in (0, 1))
        groups, blocks = int(self.group_base[self.shards.start]), int(shard_blocks[: self.shards.start].sum())
        handle = os.open(self._whole_path(), os.O_RDWR)
        try:
            # The first rank's words are where they belong.
            own = Sums(0, 8 * self._words, self._sums)
            if self._rank > 0:
                own = write_part(handle, sections["words"], 8 * words, self._read_words())
            sums = PartSums(
                own,
                write_part(handle, sections["directory"], 8 * groups, self._directories(words)),
                write_part(handle, sections["blocks"], 24 * blocks, self._tables(words, edges)),
            )
            os.fsync(handle)
        finally:
            os.close(handle)
        return sums

    def _read_words(self) -> Iterator[np.ndarray]:
        if self._words:
            with open(self._part_path, "rb") as file:
                while data := file.read(_COPIED_AT_ONCE):
                    yield np.frombuffer(data, np.uint8)

    def _directories(self, words: int) -> Iterator[np.ndarray]:
        for part in self._parts:
            yield self._spool.get(part.directory) + (words << BLOCK_SHIFT)

    def _tables(self, words: int, edges: int) -> Iterator[np.ndarray]:
        for part in self._parts:
            blocks = self._spool.get(part.blocks).reshape(-1, 3)
            yield (blocks + np.array([words, edges, 0])).ravel()

    def seal(self, sizes: Sequence[PartSizes], shard_blocks: np.ndarray, sums: Sequence[PartSums]) -> None:
        """Finish the whole file and move it to its place, once all parts are written; by one rank."""
        by_section = dict(zip(PartSums._fields, zip(*sums)))
        seal(self._whole_path(), self._sections(sizes, shard_blocks), by_section, self.path)

    def drop(self) -> None:
        """Let this rank's part go, once the whole file is at its place."""
        self._part_path.unlink(missing_ok=True)
        for part in self._parts:
            for piece in part:
                self._spool.drop(piece)
