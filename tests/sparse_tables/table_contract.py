"""What every `Table` must do, in this process or across ranks: a mixin for test classes.

A subclass defines `make(config)`.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparse_tables import Table, TableConfig
from sparse_tables.draws import table_key
from tests.sparse_tables.oracle import TableOracle, initial_row

OPTIMIZERS = ("sgd", "adagrad", "row_adagrad", "adam")
# Few enough to collide, spread over both signs and the ends of int64.
IDS = st.one_of(st.integers(-5, 20), st.sampled_from([-(2**63), 2**63 - 1, 2**53 + 1, 2**32]))


def make_oracle(config: TableConfig) -> TableOracle:
    """Return the dict twin of a table."""
    key = table_key(config.name, config.seed)
    return TableOracle(config, lambda id: initial_row(key, id, config.dim, config.initial, config.scale))


@st.composite
def pushes(draw, dim=3):
    """A few rounds of (ids, gradients, counts)."""
    rounds = []
    for _ in range(draw(st.integers(1, 4))):
        ids = draw(st.lists(IDS, max_size=12))
        numbers = st.floats(-2, 2, width=32).filter(lambda number: number == 0 or abs(number) > 1e-3)
        gradients = draw(st.lists(st.lists(numbers, min_size=dim, max_size=dim), min_size=len(ids), max_size=len(ids)))
        counts = draw(st.one_of(st.none(), st.lists(st.integers(0, 3), min_size=len(ids), max_size=len(ids))))
        rounds.append((ids, np.array(gradients).reshape(len(ids), dim), counts))
    return rounds


class TableContract:
    """Facts about a table that `make` makes."""

    def make(self, config: TableConfig) -> Table:
        raise NotImplementedError

    @pytest.mark.parametrize("optimizer", OPTIMIZERS)
    @settings(max_examples=25, deadline=None)
    @given(rounds=pushes(), l2=st.sampled_from([0.0, 0.01]), num_shards=st.sampled_from([1, 3, 16]))
    def test_pushes_move_rows_as_the_oracle_says(self, optimizer, rounds, l2, num_shards):
        config = TableConfig("user", 3, optimizer=optimizer, learning_rate=0.1, l2=l2, num_shards=num_shards)
        table, oracle = self.make(config), make_oracle(config)
        for ids, gradients, counts in rounds:
            table.push(ids, gradients, counts)
            oracle.push(ids, gradients, counts)
            np.testing.assert_allclose(table.pull(ids), oracle.pull(ids), rtol=2e-4, atol=2e-5)

    def test_a_pull_returns_rows_in_the_order_asked_duplicates_included(self):
        table = self.make(TableConfig("user", 5))
        rows = table.pull([3, 1, 3, 2])
        np.testing.assert_array_equal(rows[0], rows[2])
        np.testing.assert_array_equal(table.pull([1, 2, 3]), rows[[1, 3, 0]])
        assert rows.dtype == np.float32
        assert rows.shape == (4, 5)

    def test_a_read_without_insertion_changes_nothing_and_reads_what_insertion_would_give(self):
        table = self.make(TableConfig("user", 5))
        before = table.pull([1, 2], insert=False)
        pooled = table.pull_pooled([1, 2], [0, 2], insert=False)
        np.testing.assert_array_equal(table.pull([1, 2]), before)
        np.testing.assert_allclose(pooled[0], before.sum(axis=0), rtol=1e-6)

    def test_duplicate_ids_are_summed_then_update_once(self):
        # By hand: adagrad from a = 0 moves by rate * g / |g|, so by the rate, for the summed gradient 3.
        table = self.make(TableConfig("user", 1, optimizer="adagrad", learning_rate=0.5))
        start = table.pull([7])
        table.push([7, 7], [[1.0], [2.0]])
        np.testing.assert_allclose(table.pull([7]), start - 0.5, atol=1e-6)
        # A second push of 4: a = 9 + 16, so the row moves by 0.5 * 4 / 5.
        table.push([7], [[4.0]])
        np.testing.assert_allclose(table.pull([7]), start - 0.9, atol=1e-6)

    def test_no_ids_is_no_work(self):
        table = self.make(TableConfig("user", 5))
        assert table.pull([]).shape == (0, 5)
        table.push([], np.zeros((0, 5)))
        assert table.pull_pooled([], [0, 0, 0]).tolist() == [[0.0] * 5] * 2

    def test_out_is_filled_and_returned(self):
        table = self.make(TableConfig("user", 5))
        out = np.empty((3, 5), np.float32)
        assert table.pull([1, 2, 3], out=out) is out
        np.testing.assert_array_equal(out, table.pull([1, 2, 3]))

    def test_counts_scale_the_weight_decay(self):
        # By hand: sgd with rate 1 and l2 0.1 moves a row w by -(g + 0.1 * count * w), here with g = 0 and count 2 + 3.
        table = self.make(TableConfig("user", 2, learning_rate=1.0, l2=0.1, initial="constant", scale=1.0))
        table.push([4, 4], np.zeros((2, 2)), [2.0, 3.0])
        np.testing.assert_allclose(table.pull([4]), [[0.5, 0.5]], atol=1e-6)
        table.push([4, 4], np.zeros((2, 2)))
        np.testing.assert_allclose(table.pull([4]), [[0.4, 0.4]], atol=1e-6)

    def test_a_pooled_pull_sums_and_averages_bags(self):
        table = self.make(TableConfig("user", 3))
        rows = table.pull([1, 2, 3])
        ids, indptr = [1, 2, 3, 3], [0, 2, 2, 4]
        zero = np.zeros(3)
        summed = np.array([rows[0] + rows[1], zero, 2 * rows[2]])
        np.testing.assert_allclose(table.pull_pooled(ids, indptr), summed, atol=1e-6)
        mean = np.array([(rows[0] + rows[1]) / 2, zero, rows[2]])
        np.testing.assert_allclose(table.pull_pooled(ids, indptr, mode="mean"), mean, atol=1e-6)
        weighted = np.array([2 * rows[0] - rows[1], zero, 1.5 * rows[2]])
        found = table.pull_pooled(ids, indptr, weights=[2.0, -1.0, 0.5, 1.0])
        np.testing.assert_allclose(found, weighted, atol=1e-6)

    @pytest.mark.parametrize(
        ("ids", "error"), [([1.0], TypeError), (["a"], TypeError), ([[1]], ValueError), ([True], TypeError)]
    )
    def test_ids_of_another_kind_are_refused(self, ids, error):
        with pytest.raises(error, match="ids"):
            self.make(TableConfig("user", 2)).pull(ids)

    def test_gradients_of_another_shape_are_refused(self):
        table = self.make(TableConfig("user", 2))
        with pytest.raises(ValueError, match=r"gradients must have shape \(2, 2\), got \(2, 3\)"):
            table.push([1, 2], np.zeros((2, 3)))
        with pytest.raises(ValueError, match="counts"):
            table.push([1, 2], np.zeros((2, 2)), [1.0])

    def test_gradients_and_counts_that_are_no_real_numbers_are_refused(self):
        table = self.make(TableConfig("user", 2))
        for wrong in ([["1", "2"]], [[1j, 2j]], [[None, 1.0]], [[True, False]]):
            with pytest.raises(TypeError, match="gradients"):
                table.push([1], wrong)
        with pytest.raises(TypeError, match="counts"):
            table.push([1], [[1.0, 2.0]], ["1"])
        with pytest.raises(TypeError, match="weights"):
            table.pull_pooled([1], [0, 1], weights=["1"])

    def test_the_ends_of_int64_are_ids_like_others_and_beyond_is_refused_not_wrapped(self):
        table = self.make(TableConfig("user", 2, learning_rate=1.0, initial="zeros"))
        ids = np.array([-(2**63), -1, 0, 2**63 - 1])
        gradients = np.arange(8, dtype=np.float32).reshape(4, 2)
        table.push(ids, gradients)
        np.testing.assert_array_equal(table.pull(ids[::-1]), -gradients[::-1])
        # -1 and -(2**63) as the uint64 of the same bits: wrapped, they would read the rows above.
        for beyond in (2**64 - 1, 2**63):
            with pytest.raises(ValueError, match=str(beyond)):
                table.pull(np.array([beyond], np.uint64))

    def test_what_is_refused_changes_nothing(self):
        table = self.make(TableConfig("user", 2))
        before = table.pull([1, 2], insert=False)
        for call in (
            lambda: table.push([1, 2], np.ones((2, 3))),
            lambda: table.push([1, 2], np.ones((2, 2)), [1.0]),
            lambda: table.push([[1, 2]], np.ones((2, 2))),
            lambda: table.pull_pooled([1, 2], [0, 1]),
            lambda: table.pull_pooled([1, 2], [0, 2], mode="max"),
        ):
            with pytest.raises(ValueError, match=r"gradients|counts|ids|indptr|mode"):
                call()
        np.testing.assert_array_equal(table.pull([1, 2], insert=False), before)
