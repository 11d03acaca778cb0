"""The table of one process."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from sparse_tables import ForeignId, LocalTable, TableConfig
from tests.sparse_tables.table_contract import IDS, OPTIMIZERS, TableContract, make_oracle


class TestLocalTable(TableContract):
    def make(self, config):
        return LocalTable(config, threads=2)


class TableMachine(RuleBasedStateMachine):
    """Any sequence of calls leaves the rows a dict would hold."""

    @initialize(
        optimizer=st.sampled_from(OPTIMIZERS),
        placement=st.sampled_from(["modulo", "mix"]),
        num_shards=st.sampled_from([1, 5, 16]),
    )
    def start(self, optimizer, placement, num_shards):
        self.config = TableConfig(
            "machine", 2, optimizer=optimizer, placement=placement, num_shards=num_shards, learning_rate=0.1
        )
        self.table, self.oracle = LocalTable(self.config), make_oracle(self.config)

    @rule(ids=st.lists(IDS, max_size=8), insert=st.booleans())
    def pull(self, ids, insert):
        np.testing.assert_allclose(
            self.table.pull(ids, insert=insert), self.oracle.pull(ids, insert), rtol=1e-4, atol=1e-5
        )

    @rule(first=st.integers(-1000, 1000), num=st.integers(1, 300))
    def push_many(self, first, num):
        ids = list(range(first, first + num))
        gradients = np.linspace(-1, 1, 2 * num).reshape(num, 2) + 0.01
        self.table.push(ids, gradients)
        self.oracle.push(ids, gradients)

    @rule(ids=st.lists(IDS, max_size=8))
    def push(self, ids):
        gradients = np.ones((len(ids), 2))
        self.table.push(ids, gradients)
        self.oracle.push(ids, gradients)

    @invariant()
    def holds_the_ids_of_the_dict(self):
        if hasattr(self, "table"):
            assert self.table.ids().tolist() == sorted(self.oracle.rows)
            assert len(self.table) == len(self.oracle.rows)


TestTableMachine = TableMachine.TestCase
TestTableMachine.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)


def zipf_pushes(num_rows, num_ids, dim, rounds=3):
    generator = np.random.default_rng(0)
    for _ in range(rounds):
        ids = np.minimum(generator.zipf(1.3, num_ids), num_rows).astype(np.int64)
        yield ids, generator.normal(size=(num_ids, dim)).astype(np.float32)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_rows_do_not_depend_on_the_number_of_threads(optimizer):
    config = TableConfig("t", 19, optimizer=optimizer, l2=1e-3)
    tables = [LocalTable(config, threads=threads) for threads in (1, 2, 3)]
    for ids, gradients in zipf_pushes(5_000, 40_000, 19):
        pulled = []
        for table in tables:
            table.push(ids, gradients)
            pulled.append(table.pull(ids))
        np.testing.assert_array_equal(pulled[0], pulled[1])
        np.testing.assert_array_equal(pulled[0], pulled[2])
    bags = np.arange(0, 40_001, 8)
    pooled = [table.pull_pooled(ids, bags, mode="mean") for table in tables]
    np.testing.assert_array_equal(pooled[0], pooled[1])
    np.testing.assert_array_equal(pooled[0], pooled[2])
    for shard in range(config.num_shards):
        np.testing.assert_array_equal(tables[0].shard(shard).ids, tables[1].shard(shard).ids)
        np.testing.assert_array_equal(tables[0].shard(shard).state, tables[2].shard(shard).state)


@pytest.mark.parametrize("num_shards", [1, 2, 16])
def test_a_large_push_into_one_crowded_shard_equals_many_small_sums(num_shards):
    # Every id lies in shard 0, whatever the number of shards; gradients of whole numbers sum exactly.
    ids = np.random.default_rng(0).integers(0, 500, 60_000) * 16
    gradients = np.random.default_rng(1).integers(-5, 6, (60_000, 4)).astype(np.float32)
    config = TableConfig("t", 4, learning_rate=1.0, initial="zeros", num_shards=num_shards)
    table = LocalTable(config, threads=3)
    table.push(ids, gradients)
    expected = np.zeros((500, 4))
    np.add.at(expected, ids // 16, gradients)
    np.testing.assert_array_equal(table.pull(np.arange(500) * 16), -expected)


def test_growth_keeps_every_row():
    table = LocalTable(TableConfig("t", 3, optimizer="adagrad", num_shards=4), threads=2)
    first = table.pull(np.arange(100))
    table.push(np.arange(100), np.ones((100, 3)))
    moved = table.pull(np.arange(100))
    generations = [table.shard(shard).generation for shard in table.shards]
    more = table.pull(np.arange(200_000))
    assert all(table.shard(shard).generation > before for shard, before in enumerate(generations))
    np.testing.assert_array_equal(more[:100], moved)
    np.testing.assert_allclose(moved, first - 0.01, atol=1e-6)
    assert len(table) == 200_000
    np.testing.assert_array_equal(table.ids(), np.arange(200_000))
    # adagrad's sums came along: a second gradient of 1 moves a row by rate / sqrt(2)
    table.push(np.arange(100), np.ones((100, 3)))
    np.testing.assert_allclose(table.pull(np.arange(100)), moved - 0.01 / np.sqrt(2), atol=1e-6)


def test_growth_during_one_call_does_not_show():
    ids = np.random.default_rng(1).integers(-(2**62), 2**62, 50_000)
    at_once, one_by_one = (LocalTable(TableConfig("t", 2, placement="mix")) for _ in range(2))
    whole = at_once.pull(ids)
    for part in range(0, 50_000, 500):
        np.testing.assert_array_equal(one_by_one.pull(ids[part : part + 500]), whole[part : part + 500])
    np.testing.assert_array_equal(at_once.ids(), np.unique(ids))
    np.testing.assert_array_equal(at_once.pull(ids), whole)


def test_reads_without_insertion_leave_the_table_empty():
    table = LocalTable(TableConfig("t", 4), threads=2)
    before = table.num_bytes
    rows = table.pull(np.arange(100_000), insert=False)
    table.pull_pooled(np.arange(100_000), [0, 100_000], insert=False)
    assert len(table) == 0
    assert table.num_bytes == before
    np.testing.assert_array_equal(table.pull(np.arange(100_000)), rows)


@pytest.mark.parametrize("placement", ["modulo", "mix"])
@pytest.mark.parametrize("num_shards", [5, 8])
def test_tables_of_some_shards_hold_between_them_what_one_table_holds(placement, num_shards):
    config = TableConfig("t", 4, optimizer="adam", num_shards=num_shards, placement=placement)
    whole = LocalTable(config)
    parts = [LocalTable(config, shards=range(3)), LocalTable(config, shards=range(3, num_shards))]
    ids = np.arange(-500, 500)
    whole.push(ids, np.ones((1000, 4)))
    mine = np.array([is_here(parts[0], id) for id in ids])
    parts[0].push(ids[mine], np.ones((mine.sum(), 4)))
    parts[1].push(ids[~mine], np.ones(((~mine).sum(), 4)))
    assert 0 < mine.sum() < 1000
    np.testing.assert_array_equal(parts[0].pull(ids[mine]), whole.pull(ids[mine]))
    np.testing.assert_array_equal(parts[1].pull(ids[~mine]), whole.pull(ids[~mine]))
    if placement == "modulo":
        np.testing.assert_array_equal(mine, ids % num_shards < 3)


def is_here(table, id):
    try:
        table.pull([id], insert=False)
    except ForeignId:
        return False
    return True


def test_an_id_of_a_shard_elsewhere_is_named_and_changes_nothing():
    table = LocalTable(TableConfig("t", 2, num_shards=4), shards=[1, 3])
    assert table.shards == (1, 3)
    for call in (
        lambda: table.pull([1, 3, 6]),
        lambda: table.push([1, 3, 6], np.ones((3, 2))),
        lambda: table.pull_pooled([1, 3, 6], [0, 3]),
    ):
        with pytest.raises(ForeignId, match=r"id 6 at position 2 .* shards \[1, 3\] of 4"):
            call()
    assert len(table) == 0


@pytest.mark.parametrize(
    ("fields", "word"),
    [({"shards": [4]}, "shards"), ({"shards": [1, 1]}, "twice"), ({"threads": 0}, "threads")],
)
def test_impossible_arguments_are_named(fields, word):
    with pytest.raises(ValueError, match=word):
        LocalTable(TableConfig("t", 2, num_shards=4), **fields)


def test_ids_beyond_int64_are_refused_not_wrapped():
    table = LocalTable(TableConfig("t", 2))
    with pytest.raises(ValueError, match="18446744073709551615"):
        table.pull(np.array([2**64 - 1], dtype=np.uint64))
    table.pull(np.array([2**63 - 1], dtype=np.uint64))
    assert table.ids().tolist() == [2**63 - 1]


def test_ids_that_a_float_would_merge_stay_apart():
    table = LocalTable(TableConfig("t", 2))
    rows = table.pull([2**53, 2**53 + 1])
    assert (rows[0] != rows[1]).any()
    assert table.ids().tolist() == [2**53, 2**53 + 1]


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint16, np.uint64, np.int64])
def test_every_integer_kind_names_the_same_rows(kind):
    table = LocalTable(TableConfig("t", 2))
    np.testing.assert_array_equal(table.pull(np.arange(100).astype(kind)), table.pull(range(100)))
    assert len(table) == 100


def test_strided_and_foreign_order_arrays_are_read_right():
    table = LocalTable(TableConfig("t", 3, learning_rate=1.0, initial="zeros"))
    ids = np.arange(20)[::2]
    gradients = np.asfortranarray(np.arange(60, dtype=">f8").reshape(20, 3)[::2])
    table.push(ids, gradients)
    np.testing.assert_array_equal(table.pull(ids), -gradients)


@pytest.mark.parametrize(
    "out", [np.empty((3, 2), np.float64), np.empty((2, 2), np.float32), np.empty((2, 3), np.float32).T]
)
def test_an_out_that_does_not_fit_is_refused(out):
    with pytest.raises((TypeError, ValueError), match="out must be"):
        LocalTable(TableConfig("t", 2)).pull([1, 2, 3], out=out)


@settings(max_examples=30, deadline=None)
@given(sizes=st.lists(st.integers(0, 90), max_size=12), mode=st.sampled_from(["sum", "mean"]), seed=st.integers(0, 99))
def test_pooled_bags_equal_pulled_rows_added_up(sizes, mode, seed):
    table = LocalTable(TableConfig("t", 17))
    indptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    ids = np.random.default_rng(seed).integers(0, 50, indptr[-1])
    rows = table.pull(ids, insert=False).astype(np.float64)
    expected = np.zeros((len(sizes), 17))
    for bag, size in enumerate(sizes):
        expected[bag] = rows[indptr[bag] : indptr[bag + 1]].sum(axis=0) / (max(size, 1) if mode == "mean" else 1)
    np.testing.assert_allclose(table.pull_pooled(ids, indptr, mode=mode), expected, atol=1e-5)
    assert table.ids().tolist() == np.unique(ids).tolist()


@pytest.mark.parametrize(
    ("indptr", "fields"),
    [
        ([0, 2], {}),
        ([1, 3], {}),
        ([0, 2, 1, 3], {}),
        ([], {}),
        ([0, 3], {"mode": "max"}),
        ([0, 3], {"mode": "mean", "weights": [1, 1, 1]}),
        ([0, 3], {"weights": [1, 1]}),
    ],
)
def test_bags_that_do_not_fit_are_refused(indptr, fields):
    with pytest.raises(ValueError, match=r"indptr|mode|weights"):
        LocalTable(TableConfig("t", 2)).pull_pooled([1, 2, 3], indptr, **fields)


def test_accumulators_start_where_the_config_says():
    # By hand: a = 3 + 1, so the row moves by rate * 1 / 2.
    for optimizer in ("adagrad", "row_adagrad"):
        config = TableConfig("t", 4, optimizer=optimizer, learning_rate=0.5, initial="zeros", initial_accumulator=3.0)
        table = LocalTable(config)
        table.push([1], np.ones((1, 4)))
        np.testing.assert_allclose(table.pull([1]), [[-0.25] * 4], rtol=1e-6)


def test_adam_counts_the_steps_of_each_row_by_itself():
    # By hand: the first step of Adam moves every coordinate by rate, whenever it comes.
    table = LocalTable(TableConfig("t", 3, optimizer="adam", learning_rate=0.5, initial="zeros"))
    for _ in range(20):
        table.push([1], np.full((1, 3), 0.7))
    table.push([2], np.full((1, 3), -0.7))
    np.testing.assert_allclose(table.pull([2]), [[0.5] * 3], rtol=1e-5)
    assert sorted(np.concatenate([table.shard(shard).steps for shard in table.shards]).tolist()) == [1, 20]


def test_adam_goes_on_right_past_its_table_of_corrections():
    config = TableConfig("t", 1, optimizer="adam", learning_rate=0.1, betas=(0.9, 0.9999), initial="zeros")
    table, oracle = LocalTable(config), make_oracle(config)
    table.push([1], [[1.0]])
    oracle.push([1], [[1.0]])
    for step in (1 << 14, (1 << 14) - 1, 1 << 20):
        table.shard(1).steps[0] = oracle.state[1]["t"] = step - 1
        table.push([1], [[0.5]])
        oracle.push([1], [[0.5]])
        np.testing.assert_allclose(table.pull([1]), oracle.pull([1]), rtol=1e-4)
