"""LightGCN keeps the contract, and its step is the paper's full-graph step."""

from typing import ClassVar

import numpy as np
import pytest

from models import LocalExchange, Trace
from models.batch import unique_rows
from models.propagation import Propagation
from tests.models import oracles
from tests.models.model_contract import ModelContract
from tests.models.planted import EDGE_TYPE, make_store, random_edges


class TestLightGCN(ModelContract):
    name = "lightgcn"
    keys: ClassVar = {"layers": 2, "learning_rate": 0.02, "l2": 1e-4}


class TestLightGCNWithCosineSoftmax(ModelContract):
    name = "lightgcn"
    keys: ClassVar = {
        "layers": 2,
        "loss": "softmax",
        "similarity": "cosine",
        "num_negatives": 8,
        "temperature": 0.3,
        "learning_rate": 0.05,
    }


class TestLightGCNWithPopularNegatives(ModelContract):
    name = "lightgcn"
    width = 9
    keys: ClassVar = {
        "layers": 2,
        "loss": "softmax",
        "similarity": "cosine",
        "negatives": "popular",
        "num_negatives": 30,
        "temperature": 0.3,
        "learning_rate": 0.05,
    }


class TestLightGCNWithoutLayers(ModelContract):
    name = "lightgcn"
    keys: ClassVar = {"layers": 0, "learning_rate": 0.05, "l2": 1e-3}


class TestLightGCNOnReverseEdges(ModelContract):
    name = "lightgcn"
    keys: ClassVar = {"layers": 1, "learning_rate": 0.02, "l2": 1e-4}

    @pytest.fixture
    def board(self, board_both_ways):  # type: ignore[no-untyped-def]
        return board_both_ways


@pytest.fixture(scope="module")
def sparse_store(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """A store with uneven degrees and shards without nodes."""
    with make_store(tmp_path_factory.mktemp("sparse"), random_edges(1, 14, 9, 40), num_shards=4) as store:
        yield store


@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_propagation_equals_the_dense_formula(sparse_store, layers: int) -> None:  # type: ignore[no-untyped-def]
    adjacency = oracles.dense_adjacency(sparse_store, EDGE_TYPE)
    num_users, num_items = adjacency.shape
    rows = np.random.default_rng(2).standard_normal((num_users + num_items, 5))
    expected = oracles.propagate(adjacency, rows, layers)
    propagation = Propagation(sparse_store, EDGE_TYPE, exchange=LocalExchange(), layers=layers, threads=1)
    single = rows.astype(np.float32)

    def split() -> dict[str, np.ndarray]:
        return {"user": single[:num_users].copy(), "item": single[num_users:].copy()}

    final = propagation.forward(split())
    np.testing.assert_allclose(np.concatenate([final["user"], final["item"]]), expected, rtol=1e-4, atol=1e-5)
    wanted = {"user": np.array([0, 3, num_users - 1]), "item": np.array([2], np.int64)}
    some = propagation.forward(split(), wanted)
    np.testing.assert_allclose(some["user"], expected[wanted["user"]], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(some["item"], expected[num_users + wanted["item"]], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_backward_is_the_adjoint_of_forward(sparse_store, layers: int) -> None:  # type: ignore[no-untyped-def]
    propagation = Propagation(sparse_store, EDGE_TYPE, exchange=LocalExchange(), layers=layers, threads=1)
    draws = np.random.default_rng(3)
    sizes = {side: part.nodes.size for side, part in propagation.sides.items()}
    initial = {side: draws.standard_normal((size, 4)).astype(np.float32) for side, size in sizes.items()}
    wanted = {"user": np.array([1, 2, 5]), "item": np.array([0, 4])}
    gradients = {side: draws.standard_normal((rows.size, 4)).astype(np.float32) for side, rows in wanted.items()}
    final = propagation.forward({side: rows.copy() for side, rows in initial.items()}, wanted)
    back = propagation.backward(gradients, wanted)
    forward_product = sum((final[side] * gradients[side]).sum() for side in sizes)
    assert sum((initial[side] * back[side]).sum() for side in sizes) == pytest.approx(forward_product, rel=1e-4)


def test_a_step_is_the_full_graph_step_with_dense_adam(sparse_store) -> None:  # type: ignore[no-untyped-def]
    contract = TestLightGCN()
    options = contract.options(layers=3, dim=4, batch_size=16, learning_rate=0.01, l2=0.05, init_scale=0.5)
    model, tables = contract.make(sparse_store, options)
    adjacency = oracles.dense_adjacency(sparse_store, EDGE_TYPE)
    nodes = {side: sparse_store.nodes(side) for side in ("user", "item")}
    num_users = nodes["user"].size
    rows = np.concatenate([tables[side].pull(nodes[side]) for side in nodes]).astype(np.float64)
    first, second = np.zeros_like(rows), np.zeros_like(rows)
    loader = model.loader()
    for step in range(2):
        batch = loader.batch(1, step)
        users = sparse_store.dense("user", batch.users)
        positives, negatives = (sparse_store.dense("item", part) for part in (batch.positives, batch.negatives))
        ego = np.concatenate([users, num_users + positives, num_users + negatives[:, 0]])

        def loss(at: np.ndarray) -> float:
            final = oracles.propagate(adjacency, at, 3)
            ranked = oracles.bpr_loss(final[:num_users], final[num_users:], users, positives, negatives)  # noqa: B023
            return (ranked + 0.05 / 2 * (at[ego] ** 2).sum()) / batch.num_total  # noqa: B023

        slope = oracles.gradient(loss, rows)
        plain = oracles.propagate(adjacency, rows, 3)
        expected = oracles.bpr_loss(plain[:num_users], plain[num_users:], users, positives, negatives)
        assert model.step(batch, trace=Trace()) == pytest.approx(expected, rel=1e-4)
        first, second = 0.9 * first + 0.1 * slope, 0.999 * second + 0.001 * slope**2
        moved = first / (1 - 0.9 ** (step + 1)), second / (1 - 0.999 ** (step + 1))
        rows -= 0.01 * moved[0] / (np.sqrt(moved[1]) + 1e-8)
        found = np.concatenate([tables[side].pull(nodes[side], insert=False) for side in nodes])
        # Adam turns a slope of nothing but rounding into a whole step: compare where there is one.
        clear = np.abs(slope) > 1e-6
        np.testing.assert_allclose(found[clear], rows[clear], rtol=1e-3, atol=1e-4)
        rows = found.astype(np.float64)
    assert unique_rows(batch).users.size > 1
