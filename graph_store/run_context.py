"""What all phases of an ingest share: schema, folders, memory, ranks and what they tell each other."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from graph_store.checkpoints import Checkpoints
from graph_store.job_state import decode, encode
from graph_store.memory_budget import Budget
from graph_store.progress import Progress
from graph_store.ranks import Ranks, gather_json, shards_of_rank, together
from graph_store.schema import Schema
from graph_store.spool import Allowance, Piece, Spool

T = TypeVar("T")


@dataclass
class RunContext:
    """One ingest of one rank.

    Attributes
    ----------
    store, work : Path
        The folder that becomes the store, and the one for everything else; the same on all ranks.
    checkpoints : Checkpoints
        What is durable, to go on from.
    """

    schema: Schema
    store: Path
    work: Path
    num_shards: int
    budget: Budget
    threads: int
    ranks: Ranks
    progress: Progress
    checkpoints: Checkpoints
    allowance: Allowance = field(init=False)

    def __post_init__(self) -> None:
        # What waits is read by other ranks, from files.
        self.allowance = Allowance(self.budget.waiting if self.ranks.size == 1 else 0)

    @property
    def shards(self) -> range:
        """The shards that this rank makes."""
        return shards_of_rank(self.num_shards, self.ranks.rank, self.ranks.size)

    def spool(self, name: str) -> Spool:
        """Return a spool of this rank, with what an earlier ingest left in it."""
        end = self.checkpoints.end_of(name)
        return Spool(self._path(name, self.ranks.rank), self.allowance, end=end)

    def spools(self, own: Spool, name: str) -> list[Spool]:
        """Return the spool of that name of every rank."""
        return [
            own if rank == self.ranks.rank else Spool(self._path(name, rank), Allowance(0), own=False)
            for rank in range(self.ranks.size)
        ]

    def _path(self, name: str, rank: int) -> Path:
        return self.work / f"{name}-{rank}"

    def together(self, call: Callable[[], T]) -> T:
        """Return what `call` returns once it has ended on all ranks; see `ranks.together`."""
        return together(self.ranks, call)

    def exchange(self, value: Any) -> list[Any]:
        """Return the value of every rank, in rank order; of others as `job_state.decode` returns it."""
        if self.ranks.size == 1:
            return [value]
        values = [decode(each) for each in gather_json(self.ranks, encode(value, _on_disk))]
        values[self.ranks.rank] = value
        return values


def _on_disk(piece: Piece) -> Piece:
    assert piece.number < 0
    return piece
