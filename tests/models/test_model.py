"""What all models share: decay by row."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models import MODELS, LocalExchange, Model, ModelOptions
from models.batch import unique_rows
from sparse_tables import LocalTable
from tests.models.planted import EDGE_TYPE, make_store, random_edges


def make(store: Any, **keys: Any) -> Model:
    options = ModelOptions(dim=4, batch_size=64, **keys)
    kind = MODELS["bpr"]
    tables = {side: LocalTable(config) for side, config in kind.tables(options, num_shards=store.num_shards).items()}
    return kind(store, EDGE_TYPE, tables, exchange=LocalExchange(), options=options)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("loss", ["bpr", "softmax"])
def test_per_row_every_row_counts_the_same_over_an_epoch(tmp_path: Path, reverse: bool, loss: str) -> None:
    edges = random_edges(5, 40, 30, 500)
    with make_store(tmp_path, edges, reverse=reverse) as store:
        model = make(store, loss=loss, l2=0.1, l2_per="row", num_negatives=3)
        loader = model.loader()
        sums = {"user": {}, "item": {}}  # type: dict[str, dict[int, float]]
        for step in range(loader.num_steps):
            batch = loader.batch(0, step)
            rows = unique_rows(batch)
            draws = np.random.default_rng(step)
            users, items = (draws.normal(size=(nodes.size, 4)).astype(np.float32) for nodes in (rows.users, rows.items))
            found = model.loss(users, items, rows=rows, num_total=batch.num_total)
            for side, nodes, counts in (
                ("user", rows.users, found.user_counts),
                ("item", rows.items, found.item_counts),
            ):
                for node, count in zip(nodes.tolist(), counts.tolist()):
                    sums[side][node] = sums[side].get(node, 0.0) + count * batch.num_total
        for side, column in (("user", 0), ("item", 1)):
            trained = store.to_nodes(side, np.unique(edges[:, column])).tolist()
            average = len(edges) / len(trained)
            assert [sums[side][node] for node in trained] == pytest.approx([average] * len(trained), rel=1e-5)


def test_per_sample_a_row_counts_as_often_as_it_occurs(tmp_path: Path) -> None:
    edges = np.array([[0, 0], [0, 1], [1, 0]])
    with make_store(tmp_path, np.concatenate([edges, [[2, 2]]])) as store:
        model = make(store, l2=0.1)
        batch = model.loader().batch(0, 0)
        rows = unique_rows(batch)
        zeros = (np.zeros((rows.users.size, 4), np.float32), np.zeros((rows.items.size, 4), np.float32))
        found = model.loss(*zeros, rows=rows, num_total=4)
        by_id = dict(zip(store.to_ids("user", rows.users).tolist(), found.user_counts.tolist()))
        assert by_id == {0: 0.5, 1: 0.25, 2: 0.25}


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_popular_negatives_rank_by_similarity_and_popularity(tmp_path: Path, similarity: str) -> None:
    edges = random_edges(6, 20, 12, 90)
    with make_store(tmp_path, edges) as store:
        model = make(store, loss="softmax", negatives="popular", similarity=similarity, temperature=0.5)
        users, items = store.nodes("user"), store.nodes("item")
        left, right = model.representations("user", users), model.representations("item", items)
        if similarity == "cosine":
            left, right = (rows / np.linalg.norm(rows, axis=1, keepdims=True) for rows in (left, right))
        edges_of = np.array([(edges[:, 1] == item).sum() for item in store.to_ids("item", items)])
        expected = left @ right.T / 0.5 + np.log(np.maximum(edges_of, 1))
        np.testing.assert_allclose(
            model.rows("user", users) @ model.rows("item", items).T, expected, rtol=1e-4, atol=1e-5
        )
