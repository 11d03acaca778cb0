"""ModelContract: what every model must do; a model's test class inherits it and says which model it is."""

from typing import Any, ClassVar

import numpy as np
import pytest

import graph_store
import models
from graph_store import GraphWriter
from models import LocalExchange, Model, ModelOptions, Trace
from sparse_tables import LocalTable
from tests.models import oracles
from tests.models.planted import EDGE_TYPE, NUM_ITEMS, NUM_USERS, checkerboard, make_store
from tests.models.thread_ranks import run_ranks


class ModelContract:
    """Inherit, set `name` and `keys`, and take the fixture `board` of `conftest.py`.

    Attributes
    ----------
    name : str
        A key of `models.MODELS`.
    keys : dict
        Options under which the model learns the checkerboard within `epochs` epochs.
    width : int
        Columns of its rows: `dim`, and one for popularity where that is added.
    """

    name: str
    keys: ClassVar[dict[str, Any]]
    epochs = 20
    width = 8

    def options(self, **keys: Any) -> ModelOptions:
        return ModelOptions(**{"dim": 8, "batch_size": 100, "seed": 5, **self.keys, **keys})

    def make(self, store, options: ModelOptions, threads: int = 1) -> tuple[Model, dict[str, LocalTable]]:  # type: ignore[no-untyped-def]
        kind = models.MODELS[self.name]
        tables = {
            side: LocalTable(config, threads=threads)
            for side, config in kind.tables(options, num_shards=store.num_shards).items()
        }
        model = kind(store, EDGE_TYPE, tables, exchange=LocalExchange(), options=options, threads=threads)
        return model, tables

    def train(self, model: Model, epochs: int, rank: int = 0, size: int = 1) -> list[float]:
        loader, losses = model.loader(), []
        for epoch in range(1, epochs + 1):
            total = 0.0
            for step in range(loader.num_steps):
                total += model.step(loader.batch(epoch, step, rank=rank, size=size), trace=Trace())
            losses.append(total / loader.num_samples)
        return losses

    def all_rows(self, model: Model) -> np.ndarray:
        return np.concatenate(
            [model.rows(side, model.store.nodes(model.node_types[side])) for side in ("user", "item")]
        )

    def test_it_recommends_the_hole_of_the_checkerboard(self, board) -> None:  # type: ignore[no-untyped-def]
        model, _ = self.make(board, self.options())
        losses = self.train(model, self.epochs)
        assert losses[-1] < losses[0]
        _, held_out = checkerboard()
        users = board.to_nodes("user", np.arange(NUM_USERS))
        nodes, scores = models.recommend(model, users, 3)
        assert (np.diff(scores, axis=1) <= 0).all()
        right = board.to_ids("item", nodes[:, 0]) == held_out
        assert right.mean() >= 0.95
        truth = np.arange(NUM_USERS + 1), board.to_nodes("item", held_out)
        scored = models.evaluate(model, users, truth, ks=(1, 3), exchange=LocalExchange())
        assert scored["recall@1"] == pytest.approx(right.mean())

    def test_a_store_that_was_updated_trains_and_no_deleted_item_is_recommended(self, tmp_path) -> None:  # type: ignore[no-untyped-def]
        clicks, held_out = checkerboard()
        make_store(tmp_path, clicks[: len(clicks) // 2], reverse=True, num_shards=3).close()
        with GraphWriter(tmp_path / "store") as writer:
            writer.add_edges(EDGE_TYPE, np.arange(NUM_USERS), np.full(NUM_USERS, 999))
            writer.add_edges(EDGE_TYPE, *clicks[len(clicks) // 2 :].T)
            writer.delete_nodes("item", [999])
        for folded in (False, True):
            if folded:
                with GraphWriter(tmp_path / "store") as writer:
                    writer.fold()
            with graph_store.open(tmp_path / "store", threads=1) as store:
                model, _ = self.make(store, self.options())
                self.train(model, self.epochs)
                users = store.to_nodes("user", np.arange(NUM_USERS))
                nodes, _ = models.recommend(model, users, 1)
                assert (store.to_ids("item", nodes[:, 0]) == held_out).mean() >= 0.9
                everything, _ = models.recommend(model, users, NUM_ITEMS + 2, exclude_seen=False)
                assert (everything[:, -2:] == -1).all()
                ids = store.to_ids("item", everything[:, :-2].ravel())
                assert sorted(set(ids.tolist())) == list(range(NUM_ITEMS))

    def test_recommendations_may_include_what_was_seen(self, board) -> None:  # type: ignore[no-untyped-def]
        model, _ = self.make(board, self.options())
        users = board.to_nodes("user", np.arange(5))
        nodes, _ = models.recommend(model, users, NUM_ITEMS, exclude_seen=False)
        assert (np.sort(nodes, axis=1) == np.sort(board.nodes("item"))).all()
        without, scores = models.recommend(model, users, NUM_ITEMS)
        seen = NUM_ITEMS // 2 - 1
        assert (without[:, -seen:] == -1).all()
        assert np.isneginf(scores[:, -seen:]).all()
        assert (without[:, :-seen] >= 0).all()

    def test_rows_come_in_the_order_asked_and_insert_nothing(self, board) -> None:  # type: ignore[no-untyped-def]
        model, tables = self.make(board, self.options())
        nodes = board.nodes("item")
        whole = model.rows("item", nodes)
        assert whole.dtype == np.float32
        assert whole.shape == (NUM_ITEMS, self.width)
        order = np.array([3, 0, 3, 7])
        assert (model.rows("item", nodes[order]) == whole[order]).all()
        assert model.rows("user", nodes[:0]).shape == (0, self.width)
        assert [len(table) for table in tables.values()] == [0, 0]

    def test_a_step_changes_the_rows_that_it_returns(self, board) -> None:  # type: ignore[no-untyped-def]
        model, _ = self.make(board, self.options())
        before = self.all_rows(model)
        model.step(model.loader().batch(1, 0), trace=Trace())
        assert (self.all_rows(model) != before).any()

    def test_the_same_seed_gives_the_same_bits_on_any_threads(self, board) -> None:  # type: ignore[no-untyped-def]
        results = []
        for threads in (1, 1, 2):
            model, _ = self.make(board, self.options(), threads)
            self.train(model, 1)
            results.append(self.all_rows(model))
        assert (results[0] == results[1]).all()
        assert (results[0] == results[2]).all()

    def test_an_empty_share_is_a_step(self, board) -> None:  # type: ignore[no-untyped-def]
        model, _ = self.make(board, self.options(l2=0.0))
        assert model.step(model.loader().batch_range(1, 0, 0, 0), trace=Trace()) == 0.0
        assert np.isfinite(self.all_rows(model)).all()

    def test_a_trace_counts_rows_and_seconds(self, board) -> None:  # type: ignore[no-untyped-def]
        model, _ = self.make(board, self.options())
        trace = Trace()
        model.step(model.loader().batch(1, 0), trace=trace)
        assert {"pull", "compute", "push"} <= set(trace.seconds)
        assert min(trace.seconds.values()) > 0
        assert trace.counts["pulled_rows"] == trace.counts["pushed_rows"] > 0

    @pytest.mark.parametrize("size", [2, 3, 4])
    def test_ranks_together_equal_one(self, board, size: int) -> None:  # type: ignore[no-untyped-def]
        options = self.options(optimizer="adagrad")
        alone, _ = self.make(board, options)
        losses = self.train(alone, 2)
        expected = self.all_rows(alone)
        users = board.to_nodes("user", np.arange(NUM_USERS))
        truth = np.arange(NUM_USERS + 1), board.to_nodes("item", checkerboard()[1])
        scores = models.evaluate(alone, users, truth, ks=(2,), exchange=LocalExchange())
        kind = models.MODELS[self.name]

        def run(exchange: Any, tables: Any) -> Any:
            model = kind(board, EDGE_TYPE, tables, exchange=exchange, options=options, threads=1)
            own = self.train(model, 2, exchange.rank, exchange.size)
            rows = self.all_rows(model)
            return exchange.sum(own), rows, models.evaluate(model, users, truth, ks=(2,), exchange=exchange)

        for total, rows, found in run_ranks(size, kind.tables(options, num_shards=board.num_shards), run):
            np.testing.assert_allclose(total, losses, rtol=1e-4)
            np.testing.assert_allclose(rows, expected, rtol=2e-3, atol=2e-4)
            assert found == pytest.approx(scores, abs=0.05)

    def test_evaluation_agrees_with_the_oracle(self, board) -> None:  # type: ignore[no-untyped-def]
        model, _ = self.make(board, self.options())
        self.train(model, 1)
        clicks, _ = checkerboard()
        draws = np.random.default_rng(0)
        held_out = [draws.choice(NUM_ITEMS, draws.integers(0, 4), replace=False).tolist() for _ in range(NUM_USERS)]
        users, items = board.nodes("user"), board.nodes("item")
        item_ids = board.to_ids("item", items).tolist()
        scores = model.rows("user", users) @ model.rows("item", items).T
        ranked, truths = [], []
        for row, user in enumerate(board.to_ids("user", users).tolist()):
            seen = [item_ids.index(item) for item in clicks[clicks[:, 0] == user, 1].tolist()]
            ranked.append([item_ids[place] for place in oracles.ranking(scores[row], 5, seen)])
            truths.append(held_out[user])
        indptr = np.concatenate([[0], np.cumsum([len(truth) for truth in truths])])
        flat = board.to_nodes("item", np.array([item for truth in truths for item in truth], np.int64))
        found = models.evaluate(model, users, (indptr, flat), ks=(5,), exchange=LocalExchange())
        assert found == pytest.approx(oracles.metrics(ranked, truths, 5), abs=1e-6)
