"""The nodes of one type, once all ids are known: the ids of each shard, and which node each code is."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from graph_store.id_collector import IdCollector
from graph_store.id_merge import MISSING, IdBlock, Ids, Source, merge_shard, read_ids, shard_of_one
from graph_store.kernels import kernel
from graph_store.schema import NodeType
from graph_store.spool import Spool


@kernel
def _fill_table(codes, local, shard, num_shards, missing, table):
    for i in range(codes.size):
        if local[i] != missing:
            table[codes[i]] = np.uint64(local[i]) * np.uint64(num_shards) + np.uint64(shard)


class NodeIds:
    """The ids of a node type, by shard.

    Attributes
    ----------
    base : int64[num_shards + 1]
        The dense rank of each shard's first node.
    blocks : list of (Spool, list of IdBlock)
        The ids of each shard.
    """

    def __init__(
        self, collector: IdCollector, spool: Spool, *, num_shards: int, listed: bool, several: bool = False
    ) -> None:
        self.node_type: NodeType = collector.node_type
        self.hash_mask = collector.hash_mask
        self.spool = spool
        self.base = np.zeros(num_shards + 1, np.int64)
        self.blocks: list[tuple[Spool, list[IdBlock]]] = [(spool, []) for _ in range(num_shards)]
        segments = collector.segments
        # One dictionary, all of whose entries are nodes, is the node type as it is.
        self.alone = len(segments) == 1 and segments[0].flags is None and not listed and not several
        self.sources: list[Source] = []
        for segment in segments:
            size = 0 if self.alone else int(segment.starts[-1])
            known = spool.reserve(size, np.uint8) if listed else None
            self.sources.append(Source(spool, segment, spool.reserve(size, np.uint32), known))

    @classmethod
    def restored(
        cls, collector: IdCollector, spool: Spool, counts: np.ndarray, blocks: Sequence[Sequence[IdBlock]]
    ) -> "NodeIds":
        """Return ids whose shards were merged before; codes are no nodes any more."""
        ids = cls(collector, spool, num_shards=counts.size, listed=False, several=True)
        ids.set_counts(counts)
        ids.blocks = [(spool, list(each)) for each in blocks]
        return ids

    @property
    def num_shards(self) -> int:
        """The number of shards."""
        return self.base.size - 1

    @property
    def count(self) -> int:
        """The number of nodes."""
        return int(self.base[-1])

    def merge(self, shards: Sequence[int], sources: Sequence[Source], *, room: int, threads: int) -> np.ndarray:
        """Find the ids of some shards and return how many each has, int64[num_shards], 0 for the others.

        Parameters
        ----------
        sources : sequence of Source
            The dictionaries of all ranks.
        """

        def merged(shard: int) -> list[IdBlock]:
            if self.alone:
                return shard_of_one(sources[0].segment, shard)
            return merge_shard(sources, shard, self.spool, room=room // threads)

        counts = np.zeros(self.num_shards, np.int64)
        with ThreadPoolExecutor(threads) as pool:
            for shard, blocks in zip(shards, pool.map(merged, shards)):
                self.blocks[shard] = self.spool, blocks
                counts[shard] = sum(block.stop - block.start for block in blocks)
        return counts

    def set_counts(self, counts: np.ndarray) -> None:
        """Say how many nodes every shard has."""
        np.cumsum(counts, out=self.base[1:])

    def read(self, shard: int, *, at_once: int = 1 << 62) -> Iterator[Ids]:
        """Yield the ids of a shard in order."""
        spool, blocks = self.blocks[shard]
        return read_ids(spool, blocks, at_once=at_once)

    def bounds(self) -> tuple[int, int]:
        """Return the lowest and the highest key, 0 and -1 where there is none."""
        ends = [
            int(spool.get(block.keys, at, at + 1)[0])
            for spool, blocks in self.blocks
            for block in blocks
            for at in (block.start, block.stop - 1)
        ]
        return (min(ends), max(ends)) if ends else (0, -1)

    @property
    def highest(self) -> int:
        """No node's number is above this."""
        return max(1, int(np.diff(self.base).max(initial=1)) * self.num_shards - 1)

    def table(self, source: Source) -> np.ndarray:
        """Return the node of each code of a dictionary: uint32 or uint64, the highest value for no node."""
        segment, spool = source.segment, source.spool
        dtype, missing = (np.uint32, 0xFFFFFFFF) if self.highest < 0xFFFFFFFF else (np.uint64, 0xFFFFFFFFFFFFFFFF)
        table: np.ndarray = np.full(segment.num_codes, missing, dtype)
        for shard in range(self.num_shards):
            start, stop = int(segment.starts[shard]), int(segment.starts[shard + 1])
            if self.alone:
                local = np.arange(stop - start, dtype=np.uint32)
            else:
                local = spool.get(source.locals, start, stop)
            _fill_table(spool.get(segment.codes, start, stop), local, shard, self.num_shards, MISSING, table)
        return table

    def listed(self, source: Source) -> np.ndarray:
        """Return bool[num_codes], which codes of a dictionary stand for ids that a file of nodes lists."""
        assert source.listed is not None
        listed = np.zeros(source.segment.num_codes, bool)
        listed[source.spool.get(source.segment.codes)] = source.spool.get(source.listed) != 0
        return listed

    def id_of_code(self, source: Source, code: int) -> int | str:
        """Return the id that a code stands for."""
        segment = source.segment
        place = int(np.flatnonzero(source.spool.get(segment.codes) == code)[0])
        shard = int(np.searchsorted(segment.starts, place, side="right")) - 1
        ids = read_ids(source.spool, shard_of_one(segment, shard))
        return self._plain(next(_nth(ids, place - int(segment.starts[shard]))))

    def id_of_node(self, node: int) -> int | str:
        """Return the id of a node; of a shard whose ids are known."""
        local, shard = divmod(node, self.num_shards)
        return self._plain(next(_nth(self.read(shard), local)))

    def _plain(self, one: Ids) -> int | str:
        if one.data is not None:
            return one.data.tobytes().decode()
        return int(one.keys.view(np.uint64)[0] if self.node_type.id_type == "unsigned" else one.keys[0])


def _nth(blocks: Iterator[Ids], place: int) -> Iterator[Ids]:
    """Yield the id at a place."""
    for ids in blocks:
        if place < ids.keys.size:
            key = ids.keys[place : place + 1]
            if ids.lengths is None or ids.data is None:
                yield Ids(key)
            else:
                start = int(ids.lengths[:place].sum(dtype=np.int64))
                yield Ids(key, ids.lengths[place : place + 1], ids.data[start : start + int(ids.lengths[place])])
            return
        place -= ids.keys.size
