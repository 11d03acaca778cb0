"""Fixtures of all packages: stores made of rows, adjacencies made of lists, real data."""

import itertools
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import graph_store
from graph_store.adjacency import Adjacency
from graph_store.arena import ArenaFile
from graph_store.blocks import encode
from graph_store.resident import write_edges

DATA = Path(__file__).parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def real():
    """Return `real(name)`, the path of a published file, or skip the test where it is absent."""

    def find(name):
        path = DATA / name
        if not path.exists():
            pytest.skip(f"{path} is not here")
        return path

    return find


@pytest.fixture(scope="session")
def write_rows(tmp_path_factory):
    """Return `write_rows(rows)`, which writes (src, dst, weight, time) rows to Parquet and returns the path."""
    numbers = itertools.count()
    folder = tmp_path_factory.mktemp("rows")

    def write(rows, *, strings=False):
        ids = pa.string() if strings else pa.int64()
        types = {"src": ids, "dst": ids, "weight": pa.float32(), "time": pa.int64()}
        columns = list(zip(*rows)) or [(), (), (), ()]
        table = {
            name: pa.array(values, kind)
            for (name, kind), values in zip(types.items(), columns)
            if name in ("src", "dst") or (values and values[0] is not None)
        }
        path = folder / f"{next(numbers)}.parquet"
        pq.write_table(pa.table(table), path, row_group_size=1000)
        return path

    return write


@pytest.fixture(scope="session")
def make_store(tmp_path_factory, write_rows):
    """Return `make_store(rows, …)`, which ingests rows and returns the path of the store."""
    numbers = itertools.count()
    folder = tmp_path_factory.mktemp("stores")

    def make(rows, *, edge_type="user:clicks:item", id_type="integer", path=None, num_shards=3, **options):
        settings = {name: options.pop(name) for name in ("threads", "memory_bytes", "overwrite") if name in options}
        with_weight, with_time = (bool(rows) and rows[0][column] is not None for column in (2, 3))
        schema = graph_store.Schema.from_edges(
            write_rows(rows, strings=id_type == "string"),
            edge_type,
            weight="weight" if with_weight else None,
            time="time" if with_time else None,
            id_type=id_type,
            **options,
        )
        path = folder / f"{next(numbers)}.store" if path is None else path
        graph_store.ingest(schema, path, num_shards=num_shards, **settings)
        return path

    return make


@pytest.fixture(scope="session")
def make_adjacency(tmp_path_factory):
    """Return `make_adjacency(lists, …)`: an Adjacency over packed words, without RocksDB.

    `lists` are those of the dense ranks, shard by shard; each a sequence of neighbours or of (neighbour, weight, time).
    """
    numbers = itertools.count()
    folder = tmp_path_factory.mktemp("adjacencies")

    def make(lists, *, num_shards=1, bits=None, threads=1, weighted=False, timed=False, numbered=False):
        rows = [[entry if isinstance(entry, tuple) else (entry, None, None) for entry in entries] for entries in lists]
        flat = [entry for entries in rows for entry in entries]
        bits = max([1, *(int(entry[0]).bit_length() for entry in flat)]) if bits is None else bits
        base = np.array([len(rows) * shard // num_shards for shard in range(num_shards + 1)])

        def pieces():
            for shard in range(num_shards):
                part = rows[base[shard] : base[shard + 1]]
                indptr = np.cumsum([0, *map(len, part)]).astype(np.int64)
                columns = list(zip(*(entry for entries in part for entry in entries))) or [(), (), (), ()]
                yield (
                    shard,
                    encode(
                        indptr,
                        np.array(columns[0], np.int64),
                        np.array(columns[1], np.float32) if weighted else None,
                        np.array(columns[2], np.int64) if timed else None,
                        np.array(columns[3], np.int64) if numbered else None,
                        bits=bits,
                    ),
                )

        path = folder / str(next(numbers))
        write_edges(path, base, pieces())
        return Adjacency(ArenaFile(path).sections, weighted=weighted, timed=timed, numbered=numbered, threads=threads)

    return make
