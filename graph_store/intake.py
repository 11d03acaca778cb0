"""The intake: reads the sources of a schema, gives ids their codes and puts rows, codes and features away."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graph_store.dictionary import LISTED, NODE
from graph_store.edge_type import EdgeType
from graph_store.errors import BadInput
from graph_store.feature_spool import FeatureChunk, put_columns, take_rows
from graph_store.id_collector import IdCollector
from graph_store.kernels import kernel
from graph_store.progress import Progress
from graph_store.readers import read_edges, read_nodes
from graph_store.rejects import Rejects
from graph_store.row_batch import EdgeBatch
from graph_store.row_chunks import Chunk
from graph_store.row_places import place_of_edge
from graph_store.schema import NodeType, Schema
from graph_store.spool import Spool

MAX_RELATIONS = 1 << 15


@dataclass
class Intake:
    """What was read so far.

    Attributes
    ----------
    chunks : list of Chunk
    features : list of FeatureChunk of nodes, and of edges
    lone : list of (edge type, segment, Piece): codes of sources without an edge that must be listed nodes
    relations : list of dict, of each edge type the number of each relation in the order of appearance; "" is the
        only one of a type that is no wildcard
    relation_rows : list of int64[relations], the rows that were put away
    counts : by type, the rows that a rule left out
    rows_read : int, with those left out
    """

    schema: Schema
    spool: Spool
    collectors: dict[str, IdCollector]
    rejects: Rejects
    threads: int
    chunks: list[Chunk] = field(default_factory=list)
    node_features: list[FeatureChunk] = field(default_factory=list)
    edge_features: list[FeatureChunk] = field(default_factory=list)
    lone: list[tuple] = field(default_factory=list)
    relations: list[dict[str, int]] = field(default_factory=list)
    relation_rows: list[np.ndarray] = field(default_factory=list)
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    rows_read: int = 0

    def __post_init__(self) -> None:
        if not self.relations:
            wild = [edge_type.name.is_wildcard for edge_type in self.schema.edge_types.values()]
            self.relations = [{} if each else {"": 0} for each in wild]
            self.relation_rows = [np.zeros(len(known), np.int64) for known in self.relations]
        for name in (*self.schema.node_types, *self.schema.edge_types):
            self.counts.setdefault(name, {})

    def read_nodes(
        self, name: str, place: int, *, skip: int, batch_rows: int | None, progress: Progress
    ) -> Iterator[int]:
        """Read source number `place` of a node type but its first `skip` batches; yield how many batches are done."""
        node_type = self.schema.node_types[name]
        batches = read_nodes(node_type.sources[place], node_type=node_type, threads=self.threads, batch_rows=batch_rows)
        number, done = list(self.schema.node_types).index(name), 0
        for count, batch in enumerate(batches, 1):
            if count <= skip:
                continue
            segment, codes = self.collectors[name].add(batch.ids, NODE | LISTED)
            if batch.features:
                keys = self.spool.put(codes)
                columns = put_columns(self.spool, batch.features)
                self.node_features.append(FeatureChunk(number, codes.size, 0, segment, keys, None, columns))
            self.rejects.add(name, batch.rejected, node_type.bad_rows_limit)
            progress.advance(batch.bytes_done - done, rows=batch.num_rows)
            done = batch.bytes_done
            yield count

    def read_edges(
        self, name: str, place: int, *, skip: int, batch_rows: int | None, progress: Progress
    ) -> Iterator[int]:
        """Read source number `place` of an edge type but its first `skip` batches; yield how many batches are done."""
        types, edge_type = self.schema.node_types, self.schema.edge_types[name]
        batches = read_edges(
            edge_type.sources[place],
            src_type=types[edge_type.name.src],
            dst_type=types[edge_type.name.dst],
            edge_type=edge_type,
            threads=self.threads,
            batch_rows=batch_rows,
        )
        done = 0
        for count, batch in enumerate(batches, 1):
            if count <= skip:
                continue
            self._take(name, edge_type, batch)
            progress.advance(batch.bytes_done - done, rows=batch.num_rows)
            done = batch.bytes_done
            yield count

    def _take(self, name: str, edge_type: EdgeType, batch: EdgeBatch) -> None:
        self.rejects.add(name, batch.rejected, edge_type.bad_rows_limit)
        counts = self.counts[name]
        for reason, dropped in batch.dropped.items():
            counts[reason] = counts.get(reason, 0) + dropped
        self.rows_read += batch.num_rows + sum(batch.dropped.values())
        number = list(self.schema.edge_types).index(name)
        if batch.relation is not None:
            self._know(number, edge_type, batch.relation)
        batch = self._without_loops(edge_type, batch, counts)
        src_segment, src = self._codes(edge_type, edge_type.name.src, batch.src)
        dst_segment, dst = self._codes(edge_type, edge_type.name.dst, batch.dst)
        if batch.src_only is not None and len(batch.src_only):
            segment, codes = self._codes(edge_type, edge_type.name.src, batch.src_only)
            if edge_type.missing_nodes == "error":
                self.lone.append((number, segment, self.spool.put(codes)))
        first, size = int(self.relation_rows[number].sum()), src.size
        relations = edge_ids = None
        if batch.relation is None:
            self.relation_rows[number][0] += size
        else:
            relations, edge_ids = self._relations(number, edge_type, batch.relation)
        put = self.spool.put
        pieces = [None if column is None else put(column) for column in (batch.weight, batch.time, relations, edge_ids)]
        self.chunks.append(Chunk(number, size, first, src_segment, dst_segment, put(src), put(dst), *pieces))
        if batch.features:
            columns = put_columns(self.spool, batch.features)
            self.edge_features.append(FeatureChunk(number, size, first, 0, pieces[3], pieces[2], columns))

    def _codes(self, edge_type: EdgeType, node_type: str, values: Any) -> tuple[int, np.ndarray]:
        strict = is_strict(edge_type, self.schema.node_types[node_type])
        return self.collectors[node_type].add(values, 0 if strict else NODE)

    def _without_loops(self, edge_type: EdgeType, batch: EdgeBatch, counts: dict[str, int]) -> EdgeBatch:
        """Leave out, or refuse, the edges from a node to itself."""
        if edge_type.self_loops == "keep" or edge_type.name.src != edge_type.name.dst or not len(batch.src):
            return batch
        loops = _equal(batch.src, batch.dst)
        count = int(np.count_nonzero(loops))
        if not count:
            return batch
        if edge_type.self_loops == "error":
            loop = batch.src[int(np.argmax(loops))]
            node = loop.as_py() if hasattr(loop, "as_py") else loop
            if self.schema.node_types[edge_type.name.src].id_type == "unsigned":
                node = np.int64(node).view(np.uint64)
            node = node if isinstance(node, str) else int(node)
            place = place_of_edge(self.schema, edge_type, node, node)
            raise BadInput(
                f"{place}edge type {edge_type.name}: an edge from {node!r} to itself, "
                "and self_loops is 'error'; remove the row, or say self_loops = 'drop' or 'keep'"
            )
        counts["self_loops"] = counts.get("self_loops", 0) + count
        return _only(batch, ~loops)

    def _know(self, number: int, edge_type: EdgeType, names: Any) -> None:
        """Give each new relation its number, also one of which a rule leaves out every row."""
        known = self.relations[number]
        for relation in names.unique().to_pylist():
            if relation not in known:
                if len(known) == MAX_RELATIONS:
                    raise BadInput(
                        f"edge type {edge_type.name}: more than {MAX_RELATIONS:,} relations; is the relation column "
                        "the right one?"
                    )
                edge_type.name.with_relation(relation)
                known[relation] = len(known)

    def _relations(self, number: int, edge_type: EdgeType, names: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return the number of each row's relation, and edge ids where rows have features."""
        known = self.relations[number]
        encoded = names.dictionary_encode()
        numbers = np.empty(max(1, len(encoded.dictionary)), np.uint16)
        for place, relation in enumerate(encoded.dictionary.to_pylist()):
            numbers[place] = known[relation]
        relations = numbers[encoded.indices.to_numpy()]
        counted = np.zeros(len(known), np.int64)
        counted[: self.relation_rows[number].size] = self.relation_rows[number]
        edge_ids = np.empty(relations.size, np.int64)
        _count_up(relations, counted, edge_ids)
        self.relation_rows[number] = counted
        return relations, edge_ids if edge_type.features else None


def is_strict(edge_type: EdgeType, node_type: NodeType) -> bool:
    """Say whether the ends of an edge of that node type must be listed in files of nodes."""
    return edge_type.missing_nodes != "create" and bool(node_type.sources)


@kernel
def _count_up(relations: np.ndarray, counted: np.ndarray, edge_ids: np.ndarray) -> None:
    for i in range(relations.size):
        edge_ids[i] = counted[relations[i]]
        counted[relations[i]] += 1


def _equal(src: Any, dst: Any) -> np.ndarray:
    if isinstance(src, np.ndarray):
        return src == dst
    import pyarrow.compute as pc

    return pc.equal(src, dst).to_numpy(zero_copy_only=False)


def _only(batch: EdgeBatch, keep: np.ndarray) -> EdgeBatch:
    """Return the rows of a batch that are to be kept."""
    from dataclasses import replace

    def taken(column: Any) -> Any:
        if column is None or isinstance(column, np.ndarray):
            return None if column is None else column[keep]
        import pyarrow as pa

        return column.filter(pa.array(keep))

    rows = np.flatnonzero(keep)
    return replace(
        batch,
        **{name: taken(getattr(batch, name)) for name in ("src", "dst", "weight", "time", "relation")},
        features={name: take_rows(column, rows) for name, column in batch.features.items()},
    )
