"""Run by test_exchange on any number of ranks: plans fetch the owners' rows and give back their sums."""

import sys
from contextlib import nullcontext

import numpy as np
import pytest

from mpi_runner.exchange import MpiExchange
from mpi_runner.transport import Transport

NUM_SHARDS = 7


def row(node: int, dim: int) -> np.ndarray:
    return (node + np.arange(dim)).astype(np.float32)


def check(exchange: MpiExchange, dim: int, *, shuffle: bool, seed: int) -> None:
    nodes = np.arange(0, 200, 3)
    shards = exchange.owned(NUM_SHARDS)
    owned = nodes[np.isin(nodes % NUM_SHARDS, list(shards))]
    if shuffle:
        owned = np.random.default_rng(seed).permutation(owned)
    needs = [np.random.default_rng([seed, rank]).permutation(nodes)[: 11 * rank] for rank in range(exchange.size)]
    needed = needs[exchange.rank]
    plan = exchange.plan(needed, owned, num_shards=NUM_SHARDS)
    wanted = np.isin(owned, np.concatenate(needs))
    np.testing.assert_array_equal(plan.requested, np.flatnonzero(wanted))
    requested = owned[plan.requested]
    rows = np.array([row(node, dim) for node in requested], np.float32).reshape(-1, dim)
    expected = np.array([row(node, dim) for node in needed], np.float32).reshape(-1, dim)
    for _ in range(2):
        np.testing.assert_array_equal(plan.fetch(rows), expected)
        given = plan.give_back(expected * (exchange.rank + 1))
        factors = [sum(rank + 1 for rank, need in enumerate(needs) if node in need) for node in requested]
        np.testing.assert_array_equal(given, rows * np.array(factors, np.float32).reshape(-1, 1))


def check_missing(exchange: MpiExchange) -> None:
    """A node that its owner does not hold is an error on the owner, rank 0 here."""
    refused = pytest.raises(ValueError, match="rank 0 needs node 0, whose row its owner does not hold")
    with refused if exchange.rank == 0 else nullcontext():
        exchange.plan(np.array([0]), np.array([], np.int64), num_shards=NUM_SHARDS)


def main() -> None:
    exchange = MpiExchange(Transport.world(timeout=60))
    for seed, dim in enumerate((1, 64, 65)):
        for shuffle in (False, True):
            check(exchange, dim, shuffle=shuffle, seed=seed)
    total = exchange.sum(np.array([1.0, exchange.rank]))
    np.testing.assert_array_equal(total, [exchange.size, sum(range(exchange.size))])
    if exchange.size > 1:
        check_missing(exchange)
    sys.stdout.write(f"good {exchange.rank}\n")


main()
