"""Rows that wait: in memory, or by shard in files, always in the order of the input."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.edge_lists import Columns
from graph_store.spool import EdgeSpool


def by_modulo(values, num_shards):
    return values % num_shards


def chunk(low, high, *, weighted=True, timed=True):
    rows = np.arange(low, high)
    return Columns(
        rows * 7 % 64,
        -rows,
        rows.astype(np.float32) if weighted else None,
        rows - 2**62 if timed else None,
    )


def rows_of(chunks):
    """Return rows of chunks as tuples."""
    rows = []
    for part in chunks:
        none = [None] * part.src.size
        rows += zip(*(none if column is None else column.tolist() for column in part))
    return rows


def spool(folder, *, num_shards=4, limit=1 << 30):
    return EdgeSpool(folder, num_shards=num_shards, limit=limit, shards=by_modulo)


def test_rows_stay_in_memory_up_to_the_limit(tmp_path):
    rows = spool(tmp_path / "spool", limit=chunk(0, 20).num_bytes)
    rows.add(chunk(0, 20))
    assert not rows.spilled
    assert rows_of(rows.in_memory()) == rows_of([chunk(0, 20)])
    assert not (tmp_path / "spool").exists()
    rows.add(chunk(20, 21))
    assert rows.spilled
    assert rows.num_rows == 21


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 40), max_size=8),
    weighted=st.booleans(),
    timed=st.booleans(),
    limit=st.sampled_from([0, 500, 2000]),
    num_shards=st.sampled_from([1, 2, 3, 7, 16]),
)
def test_rows_come_back_by_shard_in_order(tmp_path_factory, sizes, weighted, timed, limit, num_shards):
    rows = spool(tmp_path_factory.mktemp("spool") / "edges", limit=limit, num_shards=num_shards)
    ends = np.cumsum([0, *sizes]).tolist()
    for low, high in zip(ends, ends[1:]):
        rows.add(chunk(low, high, weighted=weighted, timed=timed))
    rows.spill()
    everything = rows_of([chunk(0, ends[-1], weighted=weighted, timed=timed)])
    assert rows.num_rows == len(everything)
    for shard in range(num_shards):
        expected = [row for row in everything if row[0] % num_shards == shard]
        assert rows_of(rows.of_shard(shard)) == expected
        assert rows_of(rows.of_shard(shard)) == expected  # it may be read twice
        assert rows.rows[shard] == len(expected)
        rows.drop(shard)
        rows.drop(shard)
        assert rows_of(rows.of_shard(shard)) == []


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("timed", [False, True])
def test_memory_and_files_hold_the_same_rows_of_a_shard_in_the_same_order(tmp_path, weighted, timed):
    def filled(name, limit):
        rows = spool(tmp_path / name, limit=limit, num_shards=3)
        for low in range(0, 200, 33):
            rows.add(chunk(low, low + 33, weighted=weighted, timed=timed))
        return rows

    kept = rows_of(filled("memory", 1 << 30).in_memory())
    for limit in (0, 33 * 28 * 2, 33 * 28 * 6):  # each chunk goes to files, two at a time, six and the last
        rows = filled(str(limit), limit)
        assert rows.num_rows == 231
        if not rows.spilled:
            assert rows_of(rows.in_memory()) == kept
        rows.spill()
        for shard in range(3):
            assert rows_of(rows.of_shard(shard)) == [row for row in kept if row[0] % 3 == shard]


def test_no_rows_have_the_columns_of_the_others(tmp_path):
    rows = spool(tmp_path / "spool", limit=0)
    rows.add(chunk(0, 9, timed=False))
    assert [None if column is None else column.dtype.name for column in rows.empty()] == [
        "int64", "int64", "float32", None,
    ]  # fmt: skip
    assert all(column is None or column.size == 0 for column in rows.empty())


def test_types_of_columns_come_back(tmp_path):
    rows = spool(tmp_path / "spool", limit=0)
    rows.add(chunk(0, 50))
    part = next(rows.of_shard(0))
    assert [column.dtype for column in part] == [np.int64, np.int64, np.float32, np.int64]


def test_rows_that_were_spilled_are_not_in_memory(tmp_path):
    rows = spool(tmp_path / "spool", limit=0)
    rows.add(chunk(0, 5))
    with pytest.raises(AssertionError):
        rows.in_memory()
