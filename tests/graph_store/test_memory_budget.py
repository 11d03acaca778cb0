"""The budget is kept: a process grows by no more than it was told, whatever the ids and the rows."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from graph_store.memory_budget import Budget

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
# The second ingest is measured: compiling kernels takes memory once, on a machine that never ran them.
PROGRAM = """
import sys
import graph_store

def resident(name):
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) << 10 for line in file if line.startswith(name))

graph_store.kernels.mix64(1)  # what numba takes is not of the budget
base = resident("VmRSS:")
source, store, mebibytes, id_type = sys.argv[1:]
weighted = id_type == "weighted"
schema = graph_store.Schema.from_edges(
    source, "page:links:page", id_type="string" if id_type == "string" else "integer",
    weight="weight" if weighted else None, time="time" if weighted else None, undirected=weighted,
)
graph_store.ingest(schema, store, memory_bytes=int(mebibytes) << 20, num_shards=8, overwrite=True)
print((resident("VmHWM:") - base) / 2**20)
"""


@pytest.fixture(scope="module")
def edges(tmp_path_factory):
    """Return the files of some million rows: their columns alone take more than the smallest budget allows."""
    folder, random = tmp_path_factory.mktemp("edges"), np.random.default_rng(0)
    size = 4_000_000
    src, dst = (400_000 * random.random((2, size)) ** 2).astype(np.int64)
    kinds = {
        "dense": {"src": src, "dst": dst},
        "integer": {"src": src * 2**40, "dst": dst * 2**40},
        "weighted": {"src": src, "dst": dst, "weight": random.random(size, np.float32), "time": src * 7},
        "string": {
            "src": pa.array(np.char.add("page-", src[:1_000_000].astype(str))),
            "dst": pa.array(np.char.add("page-", dst[:1_000_000].astype(str))),
        },
    }
    for kind, columns in kinds.items():
        pq.write_table(pa.table(columns), folder / f"{kind}.parquet")
    return folder


@pytest.mark.long
@pytest.mark.parametrize("mebibytes", [128, 256])
@pytest.mark.parametrize("kind", ["dense", "integer", "weighted", "string"])
def test_a_process_grows_by_no_more_than_the_budget(edges, tmp_path, kind, mebibytes):
    arguments = [edges / f"{kind}.parquet", tmp_path / "store", mebibytes, kind]
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=True,
        )
    assert float(done.stdout) <= mebibytes


def test_memory_is_shared_out_beside_what_libraries_took():
    for memory in (64 * MIB, 128 * MIB, 1024 * MIB, 64 << 30):
        parts = Budget.of(memory, 40 * MIB)
        left = max(12 * MIB, memory - 40 * MIB)
        assert parts.waiting + 2 * parts.ids + parts.reading <= left
        assert parts.waiting + parts.ids + parts.work <= left
        assert min(parts) > 0
    assert Budget.of(1 << 30, 0).work > Budget.of(1 << 30, 100 * MIB).work


def test_batches_and_readers_are_fewer_where_memory_is_little():
    little, much = Budget.of(128 * MIB, 40 * MIB), Budget.of(4 << 30, 40 * MIB)
    assert little.readers(8) == 1
    assert much.readers(8) == 8
    assert much.batch_rows(16, 2) is None
    rows = little.batch_rows(16, 1)
    assert rows >= 4096
    assert rows * 16 * 3 <= little.reading
