"""Ranks as threads of one process: the exchange and the tables of a distributed run, without MPI."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from sparse_tables import LocalTable, TableConfig


class Meeting:
    """Where `size` threads meet to see what each of them brought."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.barrier = threading.Barrier(size, timeout=60)
        self.brought: list[Any] = [None] * size

    def gather(self, rank: int, value: Any) -> list[Any]:
        self.brought[rank] = value
        self.barrier.wait()
        everything = list(self.brought)
        self.barrier.wait()
        return everything


class ThreadPlan:
    def __init__(self, meeting: Meeting, rank: int, needed: np.ndarray, owned: np.ndarray) -> None:
        self.meeting, self.rank, self.needed, self.owned = meeting, rank, needed, owned
        everything = meeting.gather(rank, needed)
        self.requested = np.flatnonzero(np.isin(owned, np.concatenate(everything)))

    def fetch(self, rows: np.ndarray) -> np.ndarray:
        assert len(rows) == self.requested.size
        everything = self.meeting.gather(self.rank, (self.owned[self.requested], rows))
        found = {node: row for nodes, part in everything for node, row in zip(nodes.tolist(), part)}
        return np.array([found[node] for node in self.needed.tolist()], np.float32).reshape(-1, rows.shape[1])

    def give_back(self, rows: np.ndarray) -> np.ndarray:
        assert len(rows) == self.needed.size
        total = np.zeros((self.requested.size, rows.shape[1]), np.float32)
        place = {node: at for at, node in enumerate(self.owned[self.requested].tolist())}
        for nodes, part in self.meeting.gather(self.rank, (self.needed, rows)):
            for node, row in zip(nodes.tolist(), part):
                if node in place:
                    total[place[node]] += row
        return total


class ThreadExchange:
    def __init__(self, meeting: Meeting, rank: int) -> None:
        self.meeting, self.rank, self.size = meeting, rank, meeting.size

    def owned(self, num_shards: int) -> range:
        return range(num_shards * self.rank // self.size, num_shards * (self.rank + 1) // self.size)

    def plan(self, needed: np.ndarray, owned: np.ndarray, *, num_shards: int) -> ThreadPlan:
        assert np.unique(needed).size == needed.size
        assert set((owned % num_shards).tolist()) <= set(self.owned(num_shards))
        return ThreadPlan(self.meeting, self.rank, needed, owned)

    def sum(self, values: np.ndarray) -> np.ndarray:
        return np.sum(self.meeting.gather(self.rank, np.array(values, np.float64)), axis=0)


class ThreadTable:
    """One table that all ranks share; each call is collective, and a push is applied once."""

    def __init__(self, table: LocalTable, meeting: Meeting, rank: int) -> None:
        self.table, self.meeting, self.rank = table, meeting, rank

    @property
    def config(self) -> TableConfig:
        return self.table.config

    def pull(self, ids: np.ndarray, *, insert: bool = True) -> np.ndarray:
        everything = self.meeting.gather(self.rank, ids)
        answers = None
        if self.rank == 0:
            answers = [self.table.pull(part, insert=insert) for part in everything]
        return self.meeting.gather(self.rank, answers)[0][self.rank]

    def push(self, ids: np.ndarray, gradients: np.ndarray, counts: np.ndarray) -> None:
        everything = self.meeting.gather(self.rank, (ids, gradients, counts))
        if self.rank == 0:
            self.table.push(*(np.concatenate(parts) for parts in zip(*everything)))
        self.meeting.barrier.wait()


def run_ranks(size: int, tables: dict[str, TableConfig], run: Callable[[Any, dict[str, Any]], Any]) -> list[Any]:
    """Call `run(exchange, tables)` on `size` ranks and return what each returned."""
    meeting = Meeting(size)
    local = {side: LocalTable(config, threads=1) for side, config in tables.items()}

    def one(rank: int) -> Any:
        try:
            return run(
                ThreadExchange(meeting, rank),
                {side: ThreadTable(table, meeting, rank) for side, table in local.items()},
            )
        except BaseException:
            meeting.barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return [call.result() for call in [pool.submit(one, rank) for rank in range(size)]]
