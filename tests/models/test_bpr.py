"""Matrix factorisation keeps the contract with each loss, and makes the step of Rendle et al."""

from typing import ClassVar

import numpy as np
import pytest

from models import Batch, Trace
from tests.models.model_contract import ModelContract


class TestMatrixFactorization(ModelContract):
    name = "bpr"
    keys: ClassVar = {"learning_rate": 0.05, "l2": 1e-3}

    def test_a_step_by_hand(self, board) -> None:  # type: ignore[no-untyped-def]
        model, tables = self.make(board, self.options(dim=1, optimizer="sgd", learning_rate=0.5, l2=0.25))
        user, items = board.nodes("user")[:1], board.nodes("item")[:2]
        u = float(tables["user"].pull(user)[0, 0])
        i, j = (float(row[0]) for row in tables["item"].pull(items))
        loss = model.step(Batch(user, items[:1], items[1:].reshape(1, 1), 1), trace=Trace())
        slope = 1 / (1 + np.exp(u * (i - j)))
        assert loss == pytest.approx(np.log1p(np.exp(-u * (i - j))), rel=1e-5)
        assert tables["user"].pull(user)[0, 0] == pytest.approx(u + 0.5 * (slope * (i - j) - 0.25 * u), rel=1e-5)
        rows = tables["item"].pull(items)[:, 0]
        assert rows[0] == pytest.approx(i + 0.5 * (slope * u - 0.25 * i), rel=1e-5)
        assert rows[1] == pytest.approx(j + 0.5 * (-slope * u - 0.25 * j), rel=1e-5)


class TestMatrixFactorizationWithSoftmax(ModelContract):
    name = "bpr"
    keys: ClassVar = {"loss": "softmax", "num_negatives": 8, "temperature": 1.0, "learning_rate": 0.05}


class TestMatrixFactorizationWithSeveralNegatives(ModelContract):
    name = "bpr"
    keys: ClassVar = {"num_negatives": 3, "learning_rate": 0.05, "l2": 1e-3}
