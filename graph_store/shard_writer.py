"""Writes the lists of a shard: all edge types, packed, into one SST file, and hands them on for the arena."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from graph_store.blocks import GROUP_NODES, Encoded
from graph_store.edge_groups import Group
from graph_store.edge_lists import EqualEdges
from graph_store.errors import BadInput
from graph_store.kernels import kernel
from graph_store.list_encoder import ListEncoder
from graph_store.memory_budget import give_back
from graph_store.node_ids import NodeIds
from graph_store.row_chunks import Block, parts_of
from graph_store.row_places import place_of_edge
from graph_store.schema import Schema
from graph_store.shard import SortedFile
from graph_store.shard_lists import Layout, ListBuilder
from graph_store.spool import Spool


class Records(NamedTuple):
    """Records of an edge type (its number), with how many entries their lists have and how many are self loops."""

    number: int
    encoded: Encoded
    entries: int
    loops: int


@kernel
def _count_loops(indptr: np.ndarray, neighbors: np.ndarray, first: int, num_shards: int, shard: int) -> int:
    count = 0
    for i in range(indptr.size - 1):
        node = (first + i) * num_shards + shard
        for j in range(indptr[i], indptr[i + 1]):
            count += neighbors[j] == node
    return count


class ShardWriter:
    """Writes one shard after the other; several may be written side by side.

    Parameters
    ----------
    schema : Schema
        Where a row comes from that is refused.
    blocks : sequence of list of (Spool, list of Block)
        The rows of each group, of one rank after the other.
    folder : Path
        Where SST files and rows go that are sorted in several steps.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        nodes: dict[str, NodeIds],
        blocks: Sequence[Sequence[tuple[Spool, list[Block]]]],
        *,
        schema: Schema,
        folder: Path,
    ) -> None:
        self._groups, self._nodes, self._blocks, self._folder = groups, nodes, blocks, folder
        self._schema = schema

    def sst_path(self, shard: int) -> Path:
        """Return the SST file of a shard; absent where it got no record."""
        return self._folder / f"adj-{shard}.sst"

    def rows_of(self, shard: int) -> int:
        """Return how many rows there are of a shard."""
        return sum(
            int(block.starts[shard + 1] - block.starts[shard])
            for of_ranks in self._blocks
            for _, blocks in of_ranks
            for block in blocks
        )

    def write(self, shard: int, *, room: int, threads: int) -> Iterator[Records]:
        """Write a shard and yield its records, edge type by edge type.

        Raises
        ------
        BadInput
            Two rows are one edge where the edge type says that this is an error.
        """
        folder = self._folder / f"sorting-{shard}"
        folder.mkdir(exist_ok=True)
        file = SortedFile(self.sst_path(shard))
        for group, blocks in zip(self._groups, self._blocks):
            try:
                for records in self._group(group, blocks, shard, folder, room, threads):
                    file.put_records(records.number, records.encoded)
                    yield records
            except EqualEdges as error:
                raise self._equal(group, shard, error) from None
            except BadInput as error:
                raise BadInput(f"edge type {group.edge_type.name}: {error}") from None
        file.finish()
        folder.rmdir()

    def layout(self, group: Group, shard: int) -> Layout:
        """Return how rows of a group become lists."""
        base = self._nodes[group.src].base
        count = int(base[shard + 1] - base[shard])
        edge_type = group.edge_type
        return Layout(
            -(-count // GROUP_NODES) * GROUP_NODES,
            self._nodes[group.dst].highest.bit_length(),
            edge_type.duplicates,
            edge_type.weighted,
            edge_type.timed,
            group.numbered,
        )

    def _group(
        self,
        group: Group,
        blocks: Sequence[tuple[Spool, list[Block]]],
        shard: int,
        folder: Path,
        room: int,
        threads: int,
    ) -> Iterator[Records]:
        base, layout = self._nodes[group.src].base, self.layout(group, shard)
        num_shards, count, padded = base.size - 1, int(base[shard + 1] - base[shard]), layout.padded
        if count == 0 or not group.names:
            return
        builder = ListBuilder(layout, folder, room=room, threads=threads)
        kind, encoder = 0, ListEncoder(layout.bits, threads=threads)
        rows = [part for spool, of_rank in blocks for part in parts_of(spool, of_rank, shard)]
        for built in builder.build(rows, 0, padded * len(group.names)):
            give_back()
            low, high = built.low, built.low + built.lists.indptr.size - 1
            for kind in range(low // padded, (high - 1) // padded + 1):
                begin, end = max(low, kind * padded), min(high, (kind + 1) * padded)
                first = begin - kind * padded
                # The last ranks of a type may stand for no node.
                stop = min(end - kind * padded, count)
                lists = built.lists.part(begin - low, begin - low + stop - first)
                loops = 0
                if group.src == group.dst:
                    loops = int(_count_loops(lists.indptr, lists.neighbors, first, num_shards, shard))
                if first == 0:
                    encoder = ListEncoder(layout.bits, threads=threads)
                entries = lists.neighbors.size
                for encoded in encoder.add(lists, last=stop == count):
                    yield Records(group.first + kind, encoded, entries, loops)
                    entries = loops = 0
                if entries or loops:
                    yield Records(group.first + kind, encoder.nothing, entries, loops)

    def _equal(self, group: Group, shard: int, error: EqualEdges) -> BadInput:
        ids, padded = self._nodes[group.src], self.layout(group, shard).padded
        kind, local = divmod(error.rank, padded)
        src = ids.id_of_node(local * ids.num_shards + shard)
        dst = self._nodes[group.dst].id_of_node(error.node)
        if not group.forward:
            src, dst = dst, src
        name = self._names(group)[kind]
        same = "with the same ends and time" if group.edge_type.timed else "with the same ends"
        declared = list(self._schema.edge_types.values())[group.declared]
        place = "" if group.edge_type.timed else place_of_edge(self._schema, declared, src, dst, number=1)
        return BadInput(
            f"{place}edge type {name}: two rows from {src!r} to {dst!r} {same}, and duplicates is 'error'; "
            "remove one, or say duplicates = 'first', 'all', 'sum' or 'max'"
        )

    def _names(self, group: Group) -> tuple[str, ...]:
        """Return the names of the types as the files have them."""
        for each in self._groups:
            if each.declared == group.declared and each.forward:
                return each.names
        return group.names
