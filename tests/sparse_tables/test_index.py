"""The kernels from id to slot, against Python."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparse_tables import LocalTable, TableConfig
from sparse_tables.index import enter, partition
from sparse_tables.kernels import mix64
from tests.sparse_tables import oracle

INT64 = st.integers(-(2**63), 2**63 - 1)


@given(value=st.integers(0, 2**64 - 1))
@settings(max_examples=50, deadline=None)
def test_mix64_is_that_of_splitmix(value):
    assert int(mix64(np.uint64(value))) == oracle.mix64(value)


def test_mix64_gives_the_published_stream():
    # The first outputs of splitmix64 from state 1234567 (Rosetta Code, "Pseudo-random numbers/Splitmix64").
    step = 0x9E3779B97F4A7C15
    found = [int(mix64(np.uint64((1234567 + (draw + 1) * step) % 2**64))) for draw in range(3)]
    assert found == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@settings(max_examples=40, deadline=None)
@given(
    ids=st.lists(INT64, max_size=200),
    num_shards=st.sampled_from([1, 2, 3, 7, 16]),
    placement=st.sampled_from(["modulo", "mix"]),
)
def test_partition_orders_positions_by_shard_stably(ids, num_shards, placement):
    table = LocalTable(TableConfig("t", 1, num_shards=num_shards, placement=placement))
    order, bounds = np.empty(len(ids), np.int64), np.empty(num_shards + 1, np.int64)
    assert partition(table._directory, table._plan, np.array(ids, np.int64), order, bounds) == -1
    shards = [(oracle.mix64(id) if placement == "mix" else id) % num_shards for id in ids]
    assert order.tolist() == sorted(range(len(ids)), key=lambda position: shards[position])
    assert bounds.tolist() == [sum(shard < end for shard in shards) for end in range(num_shards + 1)]


@settings(max_examples=40, deadline=None)
@given(calls=st.lists(st.lists(st.integers(-20, 20), max_size=150), min_size=1, max_size=4))
def test_enter_numbers_the_unique_ids_of_each_call_by_their_first_place(calls):
    table = LocalTable(TableConfig("t", 1, num_shards=1), threads=1)
    slots = {}
    marks = np.random.default_rng(0).integers(-(2**31), 2**31, 1000).astype(np.int32)
    for ids in calls:
        order, bounds = np.arange(len(ids)), np.array([0, len(ids)])
        uniques = np.full((2, len(ids)), 12345, np.int32)
        shards = np.array([0, 1])
        arguments = (table._directory, table._plan, table._rates, np.array(ids, np.int64), order, bounds)
        while enter(*arguments, shards, uniques, marks) >= 0:
            table.shard(0).grow()
        first_seen = list(dict.fromkeys(ids))
        for id in first_seen:
            slots.setdefault(id, len(slots))
        num = len(first_seen)
        assert uniques[0].tolist() == [first_seen.index(id) for id in ids]
        assert uniques[1, :num].tolist() == [slots[id] for id in first_seen]
        assert num == len(ids) or uniques[1, num] == -1


@pytest.mark.parametrize("stride", [1, 16, 1 << 20, 1 << 40, -(1 << 33)])
def test_strided_ids_do_not_pile_up(stride):
    """The longest search stays short of what a poor hash of strided ids gives (thousands of cells)."""
    table = LocalTable(TableConfig("t", 1, num_shards=1))
    ids = np.arange(50_000, dtype=np.int64) * stride
    table.pull(ids)
    cells = table.shard(0).slabs.cells.reshape(-1, 2)
    places = {int(key): cell for cell, (key, word) in enumerate(cells) if word != 0}
    shift = 65 - len(cells).bit_length()
    longest = max((places[int(id)] - (oracle.mix64(int(id)) >> shift)) % len(cells) for id in ids)
    assert longest < 150


def test_nothing_heavy_is_imported_with_the_package():
    import subprocess
    import sys

    program = "import sys, sparse_tables; print([m for m in ('torch', 'pyarrow', 'mpi4py') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
