"""The optimizers against torch, where it is installed, on pushes that hold every row; and their memory."""

import os
import subprocess
import sys

import numpy as np
import pytest

from sparse_tables import LocalTable, TableConfig


@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_a_table_whose_rows_are_all_pushed_moves_as_torch_moves_it(optimizer):
    torch = pytest.importorskip("torch")
    config = TableConfig("t", 12, optimizer=optimizer, learning_rate=0.05)
    table, ids = LocalTable(config), np.arange(50)
    weights = torch.nn.Parameter(torch.from_numpy(table.pull(ids)))
    make = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "adam": torch.optim.Adam}[optimizer]
    peer = make([weights], lr=0.05)
    for gradients in np.random.default_rng(0).normal(size=(10, 50, 12)).astype(np.float32):
        table.push(ids, gradients)
        weights.grad = torch.from_numpy(gradients)
        peer.step()
    np.testing.assert_allclose(table.pull(ids), weights.detach().numpy(), rtol=1e-4, atol=1e-6)


def test_adam_by_hand():
    # Kingma and Ba's algorithm 1 with rate 0.1 on gradients 1 and 3: m = .1, then .39; v = .001, then .009999.
    # m̂ = 1, then .39/.19; v̂ = 1, then .009999/.001999. Steps: 0.1, then 0.1 * 2.0526316 / 2.2364962.
    table = LocalTable(TableConfig("t", 1, optimizer="adam", learning_rate=0.1, initial="zeros"))
    table.push([1], [[1.0]])
    np.testing.assert_allclose(table.pull([1]), [[-0.1]], rtol=1e-6)
    table.push([1], [[3.0]])
    np.testing.assert_allclose(table.pull([1]), [[-0.1 - 0.1 * 2.0526316 / 2.2364962]], rtol=1e-5)


def test_row_adagrad_by_hand():
    # a = mean(9, 16) = 12.5; the row moves by rate * g / sqrt(12.5).
    table = LocalTable(TableConfig("t", 2, optimizer="row_adagrad", learning_rate=1.0, initial="zeros"))
    table.push([1], [[3.0, 4.0]])
    np.testing.assert_allclose(table.pull([1]), [[-3 / 12.5**0.5, -4 / 12.5**0.5]], rtol=1e-6)


@pytest.mark.parametrize("dim", [1, 2, 15, 16, 17, 31, 32, 33, 64, 100])
def test_every_width_is_updated_to_its_last_column(dim):
    table = LocalTable(TableConfig("t", dim, learning_rate=1.0, initial="zeros"), threads=1)
    gradients = np.arange(3 * dim, dtype=np.float32).reshape(3, dim)
    table.push([1, 2, 1], gradients)
    np.testing.assert_array_equal(table.pull([1, 2]), [-(gradients[0] + gradients[2]), -gradients[1]])
    np.testing.assert_array_equal(table.pull_pooled([1, 2], [0, 2])[0], -gradients.sum(axis=0))


@pytest.mark.parametrize("dim", [64, 1024, 4096])
def test_a_push_writes_into_no_memory_that_was_freed(dim: int) -> None:
    # With this threshold freed pages are unmapped at once, so that touching them ends the process.
    code = f"""
import numpy as np
from sparse_tables import LocalTable, TableConfig
ids = np.concatenate([np.arange(0, 20000 if {dim} == 64 else 120, 2)] * 2)
for optimizer in ("sgd", "adagrad", "row_adagrad", "adam"):
    table = LocalTable(TableConfig("rows", {dim}, optimizer=optimizer, l2=1e-4), threads=2)
    for _ in range(3):
        table.pull(ids)
        table.pull_pooled(ids, [0, 3, ids.size], insert=False)
        table.push(ids, np.ones((ids.size, {dim}), np.float32), np.ones(ids.size, np.float32))
    assert np.isfinite(table.pull(ids)).all()
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "MALLOC_MMAP_THRESHOLD_": "4096"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
