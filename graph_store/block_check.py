"""The checksums of the blocks of an edge type, compared before a block is first read."""

import numpy as np

from graph_store.arena_blocks import BLOCK_SHIFT
from graph_store.blocks import GROUP_BITS
from graph_store.kernels import kernel
from graph_store.section_check import PART_BYTES, SectionCheck

_PART_WORDS = PART_BYTES // 8
# Parts that a call of a sampler checks besides those it reads: 1 MiB.
_SWEPT = 16


@kernel
def _not_ready(nodes, start, directory, group_base, ready, num_words, found):
    """List the parts in which blocks of nodes, from `start` on, begin that nobody has checked.

    Returns how many, at most `found.size`, and the node to go on from.
    """
    num_shards, count = group_base.size - 1, 0
    for i in range(start, nodes.size):
        local = nodes[i] // num_shards
        block = directory[group_base[nodes[i] - local * num_shards] + (local >> GROUP_BITS)] >> BLOCK_SHIFT
        # What lies behind the words of the base is of an overlay, which was checked when it was mapped.
        part = block // _PART_WORDS
        if block < num_words and not ready[part] and not (count and found[count - 1] == part):
            if count == found.size:
                return count, i
            found[count] = part
            count += 1
    return count, nodes.size


class BlockCheck:
    """Checks the parts of the words that blocks lie in; a damaged one raises, the others can be read all the same.

    Parameters
    ----------
    check : SectionCheck
        Of the words.
    blocks : int64[3 * b]
        The table of blocks of the base: word offsets ascending, first of three columns.
    num_words : int
        Words of the base.
    """

    def __init__(self, check: SectionCheck, blocks: np.ndarray, num_words: int) -> None:
        self._check, self._num_words = check, num_words
        num_parts = check.done.size
        self._ready = np.zeros(num_parts, np.uint8)
        # The last block that begins in a part ends where the first block of a later part begins.
        starts = np.append(blocks[::3], num_words)
        following = starts[np.searchsorted(starts[:-1], np.arange(1, num_parts + 1) * _PART_WORDS)]
        self._stops = (following - 1) // _PART_WORDS + 1

    @property
    def complete(self) -> bool:
        """True when every block was checked."""
        return self._check.complete

    def all(self, threads: int | None = 1) -> None:
        """Check all blocks; CorruptBlock where one is damaged."""
        self._check.all(threads)

    def words(self, offsets: np.ndarray) -> None:
        """Check the blocks at word offsets, int64[n]; CorruptBlock where one is damaged."""
        if not self.complete:
            parts = np.unique(offsets[offsets < self._num_words] // _PART_WORDS)
            self._parts(parts[self._ready[parts] == 0])

    def nodes(self, nodes: np.ndarray, directory: np.ndarray, group_base: np.ndarray, *, sweep: bool = False) -> None:
        """Check the blocks of nodes, int64[n] that are source nodes; with `sweep` a few others as well.

        Raises
        ------
        CorruptBlock
            One is damaged.
        """
        if self.complete:
            return
        if sweep:
            self._check.sweep(_SWEPT)
        found, at = np.empty(1 << 10, np.int64), 0
        while at < nodes.size:
            count, at = _not_ready(nodes, at, directory, group_base, self._ready, self._num_words, found)
            self._parts(np.unique(found[:count]))

    def _parts(self, parts: np.ndarray) -> None:
        for part in parts.tolist():
            self._check.parts(part, int(self._stops[part]))
            self._ready[part] = 1
