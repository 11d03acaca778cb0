"""One ingest, phase by phase, by one rank or by several; `StoreOutput` does the last ones.

Each phase is done by every rank for its part and has ended on all before the next begins. First the sources are read:
each rank has some of them. Then ids become nodes and rows get their shard: each rank has some shards.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property, partial

import numpy as np

from graph_store.checkpoints import MAPPED, READ, READING
from graph_store.edge_groups import Group, groups_of
from graph_store.feature_records import EDGES, NODES, feature_file
from graph_store.feature_spool import FeatureChunk, drop_columns
from graph_store.feature_type import FeatureType
from graph_store.feature_writer import TableWriter
from graph_store.id_collector import IdCollector
from graph_store.id_merge import Source
from graph_store.ingest_state import mapped_values, restore_mapped, restore_reading, save_reading
from graph_store.intake import Intake, is_strict
from graph_store.memory_budget import give_back, row_bytes
from graph_store.node_ids import NodeIds
from graph_store.readers import source_bytes
from graph_store.rejects import Rejects
from graph_store.row_chunks import Block
from graph_store.row_mapper import RowMapper, not_listed
from graph_store.run_context import RunContext
from graph_store.schema import EdgeType, NodeType
from graph_store.spool import Spool

# Where a source of a schema is: True for nodes, the type's name, the source's place.
Task = tuple[bool, str, int]


class IngestRun:
    """Reads what a schema names, until the rows of each shard are together.

    Attributes
    ----------
    groups : list of Group
    nodes : dict of str to NodeIds
    blocks : of each group the blocks of each rank, (Spool, list of Block)
    edge_rows : of each declared type the rows of each relation that were read
    rows : of each declared type the edges of each of its relations that stay, int64
    own_rows : the blocks of this rank by group, `rows` and the edges left out for their ends, before they are shared
    counts : of each node type and declared edge type the rows that were left out, by rule
    rows_read : int
    """

    def __init__(self, context: RunContext) -> None:
        self.context = context
        schema, budget = context.schema, context.budget
        self.spools = {name: context.spool(name) for name in ("rows", "ids", "sorted")}
        self._rows, self._ids, self._sorted = self.spools.values()
        share = budget.ids // max(1, len(schema.node_types))
        collectors = {
            name: IdCollector(
                node_type,
                self._ids,
                num_shards=context.num_shards,
                limit=share,
                dense_limit=budget.dense_limit(),
                threads=context.threads,
            )
            for name, node_type in schema.node_types.items()
        }
        rejects = Rejects(context.work / f"rejected-{context.ranks.rank}.jsonl")
        self.intake = Intake(schema, self._rows, collectors, rejects, budget.readers(context.threads))
        self.groups: list[Group] = []
        self.nodes: dict[str, NodeIds] = {}
        self.blocks: list[list[tuple[Spool, list[Block]]]] = []
        self.rows: list[np.ndarray] = []
        self.counts: dict[str, dict[str, int]] = {}
        self.rows_read = 0
        self.edge_rows: list[dict[str, int]] = []
        self.own_rows: list = []
        self.batch_rows = [self._batch_rows(task) for task in self.tasks]
        self._sources: dict[str, list[list[Source]]] = {}

    def close_rows(self) -> None:
        """Let the rows of shards go."""
        self.context.checkpoints.let_go(self._sorted)

    def run(self) -> None:
        """Do all phases that are not done."""
        checkpoints = self.context.checkpoints
        if self.context.together(partial(restore_mapped, self)):
            self._tell_relations()
            self._share_ids()
        else:
            if checkpoints.phase < READ:
                self.context.together(self._read)
                if checkpoints.due_together:
                    save_reading(self, task=len(self.batch_rows), batches=0, phase=READ)
            else:
                restore_reading(self)
            self._tell_relations()
            self._merge_ids()
            self._write_features()
            self._map_rows()
            if checkpoints.due_together:
                checkpoints.save(MAPPED, mapped_values(self), spools=self.mapped_spools, alone=False)
            checkpoints.let_go(self._rows)
        self._share_rows()

    @property
    def mapped_spools(self) -> dict[str, Spool]:
        """The spools that are needed once rows are by shard."""
        return {name: self.spools[name] for name in ("ids", "sorted")}

    # Reading

    @cached_property
    def tasks(self) -> list[Task]:
        """Return the sources that this rank reads, in the order of the input."""
        schema, ranks = self.context.schema, self.context.ranks
        types = [(True, name, node_type.sources) for name, node_type in schema.node_types.items()]
        edges = [(False, name, edge_type.sources) for name, edge_type in schema.edge_types.items()]
        tasks = [(of_nodes, name, place) for of_nodes, name, sources in types + edges for place in range(len(sources))]
        sizes = [self._bytes(task) for task in tasks]
        # A source goes to the rank in whose part of all bytes its middle lies.
        middles = np.cumsum(sizes) - np.array(sizes) / 2
        owners = np.minimum(middles * ranks.size / max(1, sum(sizes)), ranks.size - 1).astype(int)
        return [task for task, owner in zip(tasks, owners) if owner == ranks.rank]

    def _bytes(self, task: Task) -> int:
        of_nodes, name, place = task
        schema = self.context.schema
        owner = schema.node_types[name] if of_nodes else schema.edge_types[name]
        return source_bytes(owner.sources[place])

    def _read(self) -> None:
        tasks, progress, checkpoints = self.tasks, self.context.progress, self.context.checkpoints
        done, skip = restore_reading(self)
        progress.phase("reading", sum(map(self._bytes, tasks)), unit="B")
        progress.advance(sum(map(self._bytes, tasks[:done])))
        for number in range(done, len(tasks)):
            of_nodes, name, place = tasks[number]
            read = self.intake.read_nodes if of_nodes else self.intake.read_edges
            for batches in read(name, place, skip=skip, batch_rows=self.batch_rows[number], progress=progress):
                give_back()
                if checkpoints.due:
                    save_reading(self, task=number, batches=batches, phase=READING)
            skip = 0
        for collector in self.intake.collectors.values():
            collector.put_away()

    def _batch_rows(self, task: Task) -> int | None:
        of_nodes, name, _ = task
        schema = self.context.schema
        if of_nodes:
            node_type = schema.node_types[name]
            texts, features = int(not node_type.is_integer), _width(node_type.features)
            size = row_bytes(ids=1 - texts, texts=texts, features=features)
        else:
            edge_type = schema.edge_types[name]
            ends = [schema.node_types[end].is_integer for end in (edge_type.name.src, edge_type.name.dst)]
            texts = ends.count(False) + edge_type.name.is_wildcard
            features = _width(edge_type.features)
            size = row_bytes(
                ids=sum(ends), texts=texts, weighted=edge_type.weighted, timed=edge_type.timed, features=features
            )
        budget = self.context.budget
        return budget.batch_rows(size, budget.readers(self.context.threads))

    def _tell_relations(self) -> None:
        """Name all edge types, and find out how many rows of each other ranks read before this one's."""
        intake, rank = self.intake, self.context.ranks.rank
        own = [dict(zip(known, rows.tolist())) for known, rows in zip(intake.relations, intake.relation_rows)]
        self._told = told = self.context.exchange(own)
        self._sum_up(self.context.exchange([intake.counts, intake.rejects.counts, intake.rows_read]))
        self.edge_rows = [_sum_up([each[declared] for each in told]) for declared in range(len(own))]
        before = [_sum_up([each[declared] for each in told[:rank]]) for declared in range(len(own))]
        self._offsets = [np.array([seen.get(name, 0) for name in known]) for seen, known in zip(before, own)]
        self.groups = self.context.together(lambda: groups_of(self.context.schema, self.edge_rows))

    def _sum_up(self, told: list) -> None:
        """Sum up what was left out and set aside on all ranks."""
        schema = self.context.schema
        self.rows_read = sum(rows for _, _, rows in told)
        self.counts = {name: _sum_up([counts[name] for counts, _, _ in told]) for name in self.intake.counts}
        for name, count in _sum_up([rejected for _, rejected, _ in told]).items():
            self.counts[name]["bad_rows"] = count
            types: dict[str, NodeType | EdgeType] = {**schema.node_types, **schema.edge_types}
            self.intake.rejects.check(name, count, types[name].bad_rows_limit)

    # Ids

    def _merge_ids(self) -> None:
        """Give every id its node: each rank for its shards."""
        context, shards = self.context, self.context.shards
        progress, spools = context.progress, context.spools(self._ids, "ids")
        progress.phase("mapping ids", len(shards) * len(self.intake.collectors), unit="shard")
        for name, collector in self.intake.collectors.items():
            ids = NodeIds(
                collector,
                self._ids,
                num_shards=context.num_shards,
                listed=self._any_strict(name),
                several=context.ranks.size > 1,
            )
            told = context.exchange([source[1:] for source in ids.sources])
            sources = [[Source(spool, *parts) for parts in each] for spool, each in zip(spools, told)]
            work, threads = context.budget.work, context.threads
            merge = partial(ids.merge, shards, [each for of_rank in sources for each in of_rank])
            counts = context.together(partial(merge, room=work, threads=threads))
            ids.set_counts(np.sum(context.exchange(counts), axis=0))
            self.nodes[name], self._sources[name] = ids, sources
            give_back()
            progress.advance(len(shards))
        self._share_ids()
        context.together(self._check_lone)

    def _share_ids(self) -> None:
        """Tell the ranks where the ids of all shards are."""
        context = self.context
        spools = context.spools(self._ids, "ids")
        for ids in self.nodes.values():
            told = context.exchange([ids.blocks[shard][1] for shard in context.shards])
            ids.blocks = [(spool, list(block)) for spool, blocks in zip(spools, told) for block in blocks]

    def _any_strict(self, name: str) -> bool:
        node_type, edge_types = self.context.schema.node_types[name], self.context.schema.edge_types.values()
        return any(name in (each.name.src, each.name.dst) and is_strict(each, node_type) for each in edge_types)

    def _check_lone(self) -> None:
        """Refuse sources without an edge that no file of nodes lists, where the edge type says so."""
        edge_types = list(self.context.schema.edge_types.values())
        for number, segment, piece in self.intake.lone:
            edge_type, codes = edge_types[number], self._rows.get(piece)
            ids = self.nodes[edge_type.name.src]
            wrong = np.flatnonzero(~ids.listed(ids.sources[segment])[codes])
            if wrong.size:
                raise not_listed(self.context.schema, edge_type, ids, segment, int(codes[wrong[0]]))

    # Features

    def _write_features(self) -> None:
        """Write the arena files of features: each rank some of the types."""
        context, intake = self.context, self.intake
        featured = [(NODES, place) for place, ids in enumerate(self.nodes.values()) if ids.node_type.features]
        featured += [(EDGES, group.declared) for group in self.groups if group.forward and group.numbered]
        if not featured:
            return
        told = context.exchange([intake.node_features, intake.edge_features])
        spools = context.spools(self._rows, "rows")
        context.progress.phase("writing features", sum(len(part) for each in told for part in each), unit="batch")
        mine = featured[context.ranks.rank :: context.ranks.size]

        def write() -> None:
            for kind, key in mine:
                chunks = [(rank, chunk) for rank, each in enumerate(told) for chunk in each[kind == EDGES]]
                (self._node_tables if kind == NODES else self._edge_tables)(key, chunks, spools)

        context.together(write)
        for chunk in (*intake.node_features, *intake.edge_features):
            drop_columns(self._rows, chunk.columns)

    def _writer(self, kind: bytes, number: int, features: Sequence[FeatureType], rows: int) -> TableWriter:
        folder = self.context.work / f"features-{kind.decode()}{number}"
        return TableWriter(feature_file(self.context.store, 1, kind, number), features, rows, folder)

    def _node_tables(self, number: int, chunks: Sequence[tuple[int, FeatureChunk]], spools: Sequence[Spool]) -> None:
        name = list(self.nodes)[number]
        ids = self.nodes[name]
        writer = self._writer(NODES, number, ids.node_type.features, ids.count)
        held, table = None, np.empty(0, np.uint32)
        for rank, chunk in chunks:
            if chunk.number != number or chunk.keys is None:
                continue
            if held != (rank, chunk.segment):
                held, table = (rank, chunk.segment), ids.table(self._sources[name][rank][chunk.segment])
            local, shard = np.divmod(table[spools[rank].get(chunk.keys)].astype(np.int64), ids.num_shards)
            writer.add(ids.base[shard] + local, spools[rank], chunk.columns)
            self.context.progress.advance(1)
        writer.finish()

    def _edge_tables(self, declared: int, chunks: Sequence[tuple[int, FeatureChunk]], spools: Sequence[Spool]) -> None:
        group = next(each for each in self.groups if each.declared == declared and each.forward)
        features = group.edge_type.features
        relations = sorted(self.edge_rows[declared])
        writers = {
            relation: self._writer(EDGES, group.first + place, features, self.edge_rows[declared][relation])
            for place, relation in enumerate(relations)
        }
        for rank, chunk in chunks:
            if chunk.number != declared:
                continue
            before = [each[declared] for each in self._told[:rank]]
            for relation, rows, chosen in self._edge_rows_of(chunk, list(self._told[rank][declared]), spools[rank]):
                first = sum(each.get(relation, 0) for each in before)
                writers[relation].add(rows + first, spools[rank], chunk.columns, chosen)
            self.context.progress.advance(1)
        for writer in writers.values():
            writer.finish()

    def _edge_rows_of(
        self, chunk: FeatureChunk, relations: Sequence[str], spool: Spool
    ) -> Iterator[tuple[str, np.ndarray, np.ndarray | None]]:
        """Yield (relation, edge ids, places in the chunk or None for all) of each relation of a chunk."""
        if chunk.relations is None or chunk.keys is None:
            yield "", np.arange(chunk.first, chunk.first + chunk.num_rows), None
            return
        numbers, keys = spool.get(chunk.relations), spool.get(chunk.keys)
        order = np.argsort(numbers, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
            if places.size:
                yield relations[numbers[places[0]]], keys[places], places

    # Rows

    def _map_rows(self) -> None:
        """Put all rows away by the shard of their source."""
        context, schema = self.context, self.context.schema
        mapper = RowMapper(
            schema,
            self.groups,
            self.nodes,
            relations=self.intake.relations,
            all_relations=self.edge_rows,
            offsets=self._offsets,
            source=self._rows,
            target=self._sorted,
            threads=context.threads,
        )
        place = {(group.declared, group.forward): number for number, group in enumerate(self.groups)}
        blocks: list[list[Block]] = [[] for _ in self.groups]
        rows = [np.zeros(max(1, len(known)), np.int64) for known in self.edge_rows]
        missing = [0] * len(schema.edge_types)
        context.progress.phase("sorting rows by shard", sum(c.num_rows for c in self.intake.chunks), unit="edge")

        def map_all() -> None:
            for chunk, mapped in zip(self.intake.chunks, mapper.map(self.intake.chunks)):
                for forward, block in zip((True, False), mapped.blocks):
                    blocks[place[mapped.declared, forward]].append(block)
                rows[mapped.declared] += mapped.rows
                missing[mapped.declared] += mapped.missing
                give_back()
                context.progress.advance(chunk.num_rows)

        context.together(map_all)
        self.own_rows = [blocks, rows, missing]

    def _share_rows(self) -> None:
        """Tell the ranks where the rows of their shards are, and add up what became of all."""
        context = self.context
        told = context.exchange(self.own_rows)
        spools = context.spools(self._sorted, "sorted")
        self.blocks = [
            [(spool, list(each[0][number])) for spool, each in zip(spools, told)] for number in range(len(self.groups))
        ]
        self.rows = [np.sum([each[1][declared] for each in told], axis=0) for declared in range(len(self.edge_rows))]
        for declared, name in enumerate(context.schema.edge_types):
            count = sum(each[2][declared] for each in told)
            if count:
                self.counts[name]["missing_nodes"] = count


def _sum_up(counts: Sequence[dict[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for each in counts:
        for name, count in each.items():
            total[name] = total.get(name, 0) + count
    return total


def _width(features: Sequence[FeatureType]) -> int:
    """Return about how many bytes the features of a row take."""
    return sum(8 * (feature.dim or 2) for feature in features)
