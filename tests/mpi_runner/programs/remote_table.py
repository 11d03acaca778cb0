"""Run by test_client on any number of ranks: remote tables equal one local table that is given all ranks' ids."""

import sys

import numpy as np

from mpi_runner.client import RemoteTable
from mpi_runner.layout import Layout
from mpi_runner.transport import Transport
from sparse_tables import LocalTable, TableConfig

DIM = 5


def ids_of(rank: int, step: int, kind: str) -> np.ndarray:
    """Return the ids that a rank asks for in a step, duplicates and none at all included."""
    draws = np.random.default_rng([rank, step])
    size = [0, 1, 7, 300][(rank + step) % 4]
    low, high = {"many": (0, 10_000), "few": (0, 20), "negative": (-(1 << 62), 1 << 62)}[kind]
    return draws.integers(low, high, size)


def check(transport: Transport, config: TableConfig, kind: str) -> None:
    """Pull and push on all ranks, and the same on a local table that gets the ranks' arrays in rank order."""
    whole = LocalTable(config, threads=1)
    shards = Layout(transport.size, config.num_shards).shards(transport.rank)
    remote = RemoteTable(LocalTable(config, shards=shards, threads=1), transport)
    for step in range(6):
        transport.at(f"step {step}")
        parts = [ids_of(rank, step, kind) for rank in range(transport.size)]
        mine = parts[transport.rank]
        unseen = remote.pull(mine, insert=False)
        np.testing.assert_array_equal(unseen, whole.pull(mine, insert=False))
        rows = remote.pull(mine, out=np.empty((mine.size, DIM), np.float32))
        whole.pull(np.concatenate(parts))
        np.testing.assert_array_equal(rows, whole.pull(mine, insert=False))
        # Eighths add up exactly in float32, so the order of sums does not matter here.
        gradients = [np.outer(part % 8, np.arange(DIM)).astype(np.float32) / 8 for part in parts]
        counts = [np.full(part.size, 0.25, np.float32) for part in parts]
        remote.push(mine, gradients[transport.rank], counts[transport.rank])
        whole.push(np.concatenate(parts), np.concatenate(gradients), np.concatenate(counts))
        np.testing.assert_array_equal(remote.pull(mine), whole.pull(mine))
        check_pooled(remote, whole, mine)
    np.testing.assert_array_equal(remote.local.ids(), [id for id in whole.ids() if belongs(id, remote)])


def belongs(id: int, remote: RemoteTable) -> bool:
    from mpi_runner.client import shards_of

    return int(shards_of(np.array([id]), remote.config)[0]) in remote.local.shards


def check_pooled(remote: RemoteTable, whole: LocalTable, ids: np.ndarray) -> None:
    indptr = np.array([0, ids.size // 3, ids.size // 3, ids.size])
    for mode in ("sum", "mean"):
        expected = whole.pull_pooled(ids, indptr, mode=mode, insert=False)
        np.testing.assert_allclose(remote.pull_pooled(ids, indptr, mode=mode), expected, rtol=1e-4, atol=1e-4)


def main() -> None:
    world = Transport.world(timeout=60)
    for piece_bytes in (1 << 30, 512):
        transport = Transport(world.comm, timeout=60, piece_bytes=piece_bytes)
        for optimizer, l2, placement, num_shards, kind in [
            ("sgd", 0.0, "modulo", 16, "many"),
            ("adam", 0.5, "mix", 16, "few"),
            ("row_adagrad", 0.0, "mix", 7, "negative"),
            ("adagrad", 0.25, "modulo", 3, "negative"),
        ]:
            config = TableConfig(
                "rows", DIM, optimizer=optimizer, l2=l2, placement=placement, num_shards=num_shards, seed=3
            )
            check(transport, config, kind)
    sys.stdout.write(f"good {world.rank}\n")


main()
