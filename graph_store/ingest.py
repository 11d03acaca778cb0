"""Ingest: edge files → a new store, streaming, within a memory budget, whole or not at all.

Rows are read once; the ids of both ends are collected while the rows wait in a spool (in memory, or by shard on disk).
Then nodes are assigned, and each edge type is sorted into lists, packed and written to its shards (as SST files that
RocksDB takes over) and to the arena. Everything happens in a folder beside the store, which is renamed at the end.
"""

import errno
import os
import shutil
import uuid
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import numpy as np

from graph_store.blocks import Encoded, encode
from graph_store.edge_lists import Columns, Finder, Lists, build_lists, map_rows
from graph_store.errors import BadInput, GraphStoreError
from graph_store.ids import IdMap, IntegerIds
from graph_store.kernels import num_threads
from graph_store.manifest import Manifest, StoredEdgeType, StoredNodeType, fsync_folder
from graph_store.progress import Progress
from graph_store.readers import read_edges, source_bytes
from graph_store.resident import (
    arena_folder,
    edge_file,
    id_pieces,
    node_file,
    shard_folder,
    write_edges,
    write_nodes,
)
from graph_store.schema import EdgeType, Schema
from graph_store.shard import Shard, SortedFile, id_key
from graph_store.spool import EdgeSpool
from graph_store.string_ids import StringIds
from graph_store.workplace import workplace

MIN_MEMORY = 64 << 20
# Shards are sealed side by side, more than there are cores: each mostly waits for the disk.
SEALED_AT_ONCE = 8


@dataclass(frozen=True)
class IngestReport:
    """What an ingest did.

    Attributes
    ----------
    rows : int
        Rows read.
    seconds : float
    info : dict
        As of `graph_store.info`.
    """

    rows: int
    seconds: float
    info: dict


class _Job:
    """One ingest: its settings and what it has collected so far."""

    def __init__(self, schema: Schema, folder: Path, *, num_shards: int, memory: int, threads: int) -> None:
        self.schema, self.folder = schema, folder
        self.num_shards, self.memory, self.threads = num_shards, memory, threads
        self.ids: dict[str, IntegerIds | StringIds] = {
            name: StringIds(name)
            if node_type.id_type == "string"
            else IntegerIds(name, dense_limit=memory // 16, threads=threads)
            for name, node_type in schema.node_types.items()
        }
        self.spools: dict[str, list[EdgeSpool]] = {}
        self.rows = dict.fromkeys(schema.edge_types, 0)
        self.maps: dict[str, IdMap] = {}
        self.finders: dict[str, Finder] = {}

    def spools_of(self, name: str, edge_type: EdgeType) -> list[EdgeSpool]:
        """Return the spool of an edge type and, where rows go both ways by shard, that of its reverse."""
        limit = self.memory * 35 // 100 // len(self.schema.edge_types)
        ends = [edge_type.name.src] + ([edge_type.name.dst] if edge_type.reverse else [])
        return [
            EdgeSpool(
                self.folder / "spool" / f"{len(self.spools)}-{way}",
                num_shards=self.num_shards,
                limit=limit,
                shards=self.ids[end].shards,
            )
            for way, end in enumerate(ends)
        ]


def _read(job: _Job, progress: Progress) -> None:
    """Read all files: collect ids, spool rows."""
    types = job.schema.node_types
    sources = [source for edge_type in job.schema.edge_types.values() for source in edge_type.sources]
    progress.phase("reading", sum(source_bytes(source) for source in sources), unit="B")
    for name, edge_type in job.schema.edge_types.items():
        src_type, dst_type = edge_type.name.src, edge_type.name.dst
        spools = job.spools[name] = job.spools_of(name, edge_type)
        for source in edge_type.sources:
            done = 0
            for batch in read_edges(source, src_type=types[src_type], dst_type=types[dst_type], threads=job.threads):
                src, dst = job.ids[src_type].add(batch.src), job.ids[dst_type].add(batch.dst)
                if batch.src_only is not None:
                    job.ids[src_type].add(batch.src_only)
                columns = Columns(src, dst, batch.weight, batch.time)
                _spool(spools, columns, edge_type)
                job.rows[name] += batch.num_rows
                progress.advance(batch.bytes_done - done, rows=batch.num_rows)
                done = batch.bytes_done


def _spool(spools: list[EdgeSpool], columns: Columns, edge_type: EdgeType) -> None:
    spools[0].add(columns.both_ways() if edge_type.undirected else columns)
    if len(spools) > 1:
        # The columns are shared while both spools keep them in memory.
        spools[1].add(columns.swapped())


def _finish_ids(job: _Job) -> None:
    for name, collected in job.ids.items():
        ids, direct, low, index = collected.finish(job.num_shards)
        job.maps[name] = ids
        job.finders[name] = Finder(direct, low, index, ids.base)


def _id_files(job: _Job, shard: int) -> SortedFile:
    """Write the ids of all node types of one shard."""
    file = SortedFile(job.folder / f"ids-{shard}.sst")
    for number, ids in enumerate(job.maps.values()):
        for first, piece in id_pieces(ids, shard):
            file.put(id_key(number, first), piece)
    file.finish()
    return file


def _lists(job: _Job, spool: EdgeSpool, ends: tuple[str, str], bits: int) -> Iterator[tuple[int, int, Lists]]:
    """Yield (first dense rank, last + 1, lists) over all ranks of the source type, in order."""
    source, target = job.finders[ends[0]], job.finders[ends[1]]
    base = source.base

    def build(chunks: list[Columns], low: int, high: int) -> Lists:
        return build_lists(chunks, source, target, ranks=(low, high), bits=bits, threads=job.threads)

    if not spool.spilled:
        yield 0, int(base[-1]), build(spool.in_memory(), 0, int(base[-1]))
        return
    spool.spill()
    for shard in range(job.num_shards):
        low, high = int(base[shard]), int(base[shard + 1])
        cuts = _cuts(job, spool, shard, source, target)
        for first, last in zip(cuts[:-1], cuts[1:]):
            chunks = [spool.empty()]
            for chunk in spool.of_shard(shard):
                if len(cuts) > 2:
                    ranks = map_rows([chunk], source, target, bits=0, ranks_low=low, threads=job.threads)
                    chunk = chunk.take((ranks >= first) & (ranks < last))
                chunks.append(chunk)
            yield low + first, low + last, build(chunks, low + first, low + last)
        if high == low:
            yield low, high, build([spool.empty()], low, high)
        spool.drop(shard)


def _cuts(job: _Job, spool: EdgeSpool, shard: int, source: Finder, target: Finder) -> list[int]:
    """Cut a shard's local ids (at multiples of 16) into ranges whose rows fit the budget."""
    size = int(source.base[shard + 1] - source.base[shard])
    # A row needs about 64 bytes: its columns, key, sorted key, neighbour and packed words.
    room = max(1 << 16, job.memory // 2 // 64)
    if size == 0:
        return [0]
    if spool.rows[shard] <= room:
        return [0, size]
    degrees = np.zeros(size, np.int64)
    for chunk in spool.of_shard(shard):
        ranks = map_rows([chunk], source, target, bits=0, ranks_low=int(source.base[shard]), threads=job.threads)
        degrees += np.bincount(ranks.astype(np.int64), minlength=size)
    cuts, rows = [0], 0
    for group, count in enumerate(np.add.reduceat(degrees, np.arange(0, size, 16)).tolist()):
        if rows and rows + count > room:
            cuts.append(16 * group)
            rows = 0
        rows += count
    return [*cuts, size]


def _encoded(
    job: _Job, base: np.ndarray, low: int, high: int, lists: Lists, bits: int
) -> Iterator[tuple[int, Encoded]]:
    """Yield (shard, records) for the shards that ranks `low … high − 1` cover, encoding in threads."""
    first_shard = int(np.searchsorted(base, low, side="right")) - 1
    spans = []
    for shard in range(first_shard, job.num_shards):
        start, stop = max(low, int(base[shard])), min(high, int(base[shard + 1]))
        if start < stop:
            spans.append((shard, start, stop))

    def pack(span: tuple[int, int, int]) -> tuple[int, Encoded]:
        shard, start, stop = span
        indptr = lists.indptr[start - low : stop - low + 1]
        edges = slice(int(indptr[0]), int(indptr[-1]))
        return shard, encode(
            indptr - indptr[0],
            lists.neighbors[edges],
            None if lists.weights is None else lists.weights[edges],
            None if lists.times is None else lists.times[edges],
            first=start - int(base[shard]),
            bits=bits,
        )

    with ThreadPoolExecutor(job.threads) as pool:
        yield from pool.map(pack, spans)


def _self_loops(base: np.ndarray, low: int, lists: Lists) -> int:
    """Count the entries of lists whose neighbour is the node itself."""
    num_shards = base.size - 1
    ranks = np.arange(low, low + lists.indptr.size - 1)
    shards = np.searchsorted(base, ranks, side="right") - 1
    nodes = (ranks - base[shards]) * num_shards + shards
    return int(np.count_nonzero(np.repeat(nodes, np.diff(lists.indptr)) == lists.neighbors))


def _write_edges(
    job: _Job, number: int, spool: EdgeSpool, ends: tuple[str, str], progress: Progress
) -> tuple[int, int, int, list[SortedFile]]:
    """Write one edge type; returns (bits, entries, self loops, the SST file of each shard)."""
    base, target_base = job.finders[ends[0]].base, job.finders[ends[1]].base
    highest = max(1, (int(np.diff(target_base).max()) if target_base[-1] else 1) * job.num_shards - 1)
    bits = highest.bit_length()
    files = [SortedFile(job.folder / f"adj-{number}-{shard}.sst") for shard in range(job.num_shards)]
    entries = loops = 0

    def pieces() -> Iterator[tuple[int, Encoded]]:
        nonlocal entries, loops
        for low, high, lists in _lists(job, spool, ends, bits):
            entries += lists.neighbors.size
            if ends[0] == ends[1]:
                loops += _self_loops(base, low, lists)
            for shard, encoded in _encoded(job, base, low, high, lists, bits):
                files[shard].put_records(number, encoded)
                yield shard, encoded
            progress.advance(lists.neighbors.size)

    write_edges(edge_file(job.folder, 1, number), base, pieces())
    return bits, entries, loops, files


def _finish_all(files: list[SortedFile]) -> None:
    for file in files:
        file.finish()


def _write_all(job: _Job, progress: Progress) -> tuple[list[StoredEdgeType], list[list[SortedFile]]]:
    """Write all edge types and their reverses."""
    stored: list[StoredEdgeType] = []
    files: list[list[SortedFile]] = []
    sealed: list[Future[None]] = []
    progress.phase(
        "sorting and packing", sum(s.num_rows for spools in job.spools.values() for s in spools), unit="edge"
    )
    with ThreadPoolExecutor(1) as sealing:
        for name, edge_type in job.schema.edge_types.items():
            first, counted = edge_type.name, 0
            opposite = str(first.reversed()) if edge_type.reverse else None
            ways = [(name, (first.src, first.dst), opposite)]
            if opposite is not None:
                ways.append((opposite, (first.dst, first.src), name))
            for spool, (way, ends, other) in zip(job.spools[name], ways):
                number = len(stored)
                bits, entries, loops, sst = _write_edges(job, number, spool, ends, progress)
                counted = (entries + loops) // 2 if edge_type.undirected else entries
                stored.append(
                    StoredEdgeType(
                        name=way,
                        undirected=edge_type.undirected,
                        reverse=name if edge_type.undirected else other,
                        weighted=edge_type.weighted,
                        timed=edge_type.timed,
                        bits=bits,
                        num_edges=counted,
                        num_entries=entries,
                        duplicates=job.rows[name] - counted,
                        self_loops=loops,
                    )
                )
                files.append(sst)
                sealed.append(sealing.submit(_finish_all, sst))
        for done in sealed:
            done.result()
    return stored, files


def _seal_shard(job: _Job, shard: int, files: list[SortedFile], ids: SortedFile) -> dict[str, dict[str, int]]:
    """Make a shard's database of its files; returns their sizes and checksums."""
    folder = shard_folder(job.folder, 1, shard)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with Shard(folder, read_only=False) as database:
        for file in files:
            if file.path.exists():
                database.ingest("adj", [file.path])
        if ids.path.exists():
            database.ingest("ids", [ids.path])
    sealed = {}
    for path in sorted(folder.glob("*.sst")):
        data = path.read_bytes()
        sealed[str(path.relative_to(job.folder))] = {"bytes": len(data), "crc32": crc32(data)}
    # RocksDB has synced its own files.
    with open(folder / "rocksdict-config.json", "rb") as config:
        os.fsync(config.fileno())
    fsync_folder(folder)
    return sealed


def _run(job: _Job, progress: Progress) -> None:
    """Fill the folder with a whole store."""
    arena_folder(job.folder).mkdir()
    _read(job, progress)
    _finish_ids(job)
    with ThreadPoolExecutor(job.threads) as pool:
        ids = pool.map(lambda shard: _id_files(job, shard), range(job.num_shards))
        nodes = [
            pool.submit(write_nodes, node_file(job.folder, 1, number), ids_map)
            for number, ids_map in enumerate(job.maps.values())
        ]
        stored, files = _write_all(job, progress)
        for written in nodes:
            written.result()
        id_files = list(ids)
    progress.phase("sealing shards", job.num_shards, unit="shard")
    sealed: dict[str, dict[str, int]] = {}
    with ThreadPoolExecutor(SEALED_AT_ONCE) as pool:
        for part in pool.map(
            lambda shard: _seal_shard(job, shard, [sst[shard] for sst in files], id_files[shard]), range(job.num_shards)
        ):
            sealed |= part
            progress.advance(1)
    shutil.rmtree(job.folder / "spool", ignore_errors=True)
    fsync_folder(arena_folder(job.folder))
    fsync_folder(job.folder / "gen-1")
    Manifest(
        uuid=str(uuid.uuid4()),
        num_shards=job.num_shards,
        node_types=[
            StoredNodeType(name, ids_map.id_type, ids_map.count, np.diff(ids_map.base).tolist())
            for name, ids_map in job.maps.items()
        ],
        edge_types=stored,
        files=sealed,
    ).save(job.folder)


def ingest(
    schema: Schema,
    path: str | os.PathLike[str],
    *,
    num_shards: int = 16,
    memory_bytes: int = 2 << 30,
    threads: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
) -> IngestReport:
    """Make a store from the files that a schema names.

    Parameters
    ----------
    schema : Schema
    path : path
        Where the store will be. It appears whole, or not at all.
    num_shards : int
        1 to 65,536; fixed for the store's life.
    memory_bytes : int
        What rows and sorting may take, at least 64 MiB. Ids come on top: up to about 45 bytes each (strings 40
        and their length, twice).
    threads : int, optional
        All cores that this process may use when None. The store's content does not depend on it.
    progress : bool
        Show a bar on stderr.
    overwrite : bool
        Replace a store at `path` at the very end.

    Returns
    -------
    IngestReport

    Raises
    ------
    BadInput
        A file, a row or a setting that cannot be taken; nothing is left behind.
    GraphStoreError
        The disk is full, or the folder of `path` cannot be written.
    """
    import time

    from graph_store.store import info

    if not 1 <= num_shards <= 1 << 16:
        raise BadInput(f"num_shards must be 1 to 65536, got {num_shards}")
    if memory_bytes < MIN_MEMORY:
        raise BadInput(f"the memory budget must be at least 64 MiB, got {memory_bytes} bytes")
    target, start = Path(path), time.monotonic()
    try:
        with workplace(target, overwrite=overwrite) as folder, Progress(progress) as bar:
            job = _Job(schema, folder, num_shards=num_shards, memory=memory_bytes, threads=num_threads(threads))
            _run(job, bar)
    except GraphStoreError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and type(error) is not Exception:  # RocksDB's are plain
            raise
        full = "No space left" in str(error) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        cause = "no space left on the disk" if full else f"cannot write the store: {error}"
        raise GraphStoreError(f"{target}: {cause}; nothing was stored") from error
    return IngestReport(sum(job.rows.values()), time.monotonic() - start, info(target))
