"""Loaders: the batches of an epoch in seeded order, made ahead by threads, from any step on and for any rank."""

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from graph_store.checks import check_integers
from graph_store.draws import permute
from graph_store.errors import BadInput
from graph_store.sampling.prefetch import prefetched

T = TypeVar("T")
# What says which examples a step has.
_ORDER = ("length", "batch_size", "shuffle", "seed", "drop_last")


class Share(NamedTuple):
    """What a rank does of one step.

    Attributes
    ----------
    epoch, step : int
    positions : int64[b]
        Positions in the epoch, over all ranks; draws are made for these.
    examples : int64[b]
        Which example, 0 … length − 1, is at each position.
    """

    epoch: int
    step: int
    positions: np.ndarray
    examples: np.ndarray


@dataclass(frozen=True)
class Plan:
    """Which examples are in a batch: a pure function of epoch, step and rank, in constant memory.

    Attributes
    ----------
    length : int
        Examples of an epoch.
    batch_size : int
        Examples of a step over all ranks; the last step of an epoch may have fewer.
    shuffle : bool
        By a permutation that depends on `seed` and the epoch.
    rank, size : int
        The equal shares of a step's ranks, in rank order, make the whole step; a share may be empty.
    drop_last : bool
        Leave out a last step that is not full.
    """

    length: int
    batch_size: int
    shuffle: bool = True
    seed: int = 0
    rank: int = 0
    size: int = 1
    drop_last: bool = False

    def __post_init__(self) -> None:
        names = ("length", "batch_size", "seed", "rank", "size")
        check_integers(**{name: getattr(self, name) for name in names})
        if self.length < 0:
            raise BadInput(f"length must be 0 or more, got {self.length}")
        if self.batch_size < 1:
            raise BadInput(f"batch_size must be at least 1, got {self.batch_size}")
        if not 0 <= self.rank < self.size:
            raise BadInput(f"rank must be in 0 … size − 1, got rank {self.rank} of {self.size}")

    @property
    def num_steps(self) -> int:
        """Steps of an epoch, the same on all ranks."""
        return self.length // self.batch_size if self.drop_last else -(-self.length // self.batch_size)

    @property
    def whole(self) -> "Plan":
        """The same epochs on one rank."""
        return replace(self, rank=0, size=1)

    def share(self, epoch: int, step: int) -> Share:
        """Return what this rank does of a step; BadInput where there is no such step."""
        if not 0 <= step < self.num_steps:
            raise BadInput(f"step must be in 0 … {self.num_steps - 1}, got {step}")
        first = step * self.batch_size
        total = min(self.batch_size, self.length - first)
        low, high = (total * rank // self.size for rank in (self.rank, self.rank + 1))
        positions = np.arange(first + low, first + high, dtype=np.int64)
        examples = positions
        if self.shuffle:
            examples = permute(positions, self.length, seed=self.seed, epoch=epoch, threads=1)
        return Share(epoch, step, positions, examples)


class Loader(Generic[T]):
    """Batches of epochs, in order; iterating it gives the rest of its epoch and moves on to the next.

    Parameters
    ----------
    plan : Plan
    make_worker : callable
        Returns what makes a batch of a `Share`; each thread has one of its own.
    threads : int
        Threads that make batches ahead; 0 makes each when it is asked for. A batch does not depend on it.
    depth : int
        Batches that may be made ahead.

    Attributes
    ----------
    epoch, step : int
        Where the next iteration begins; they count as batches are handed over.

    Raises
    ------
    BadInput
        A number is out of its range.
    """

    def __init__(
        self, plan: Plan, make_worker: Callable[[], Callable[[Share], T]], *, threads: int = 1, depth: int = 2
    ) -> None:
        check_integers(threads=threads, depth=depth)
        if threads < 0 or depth < 0:
            raise BadInput(f"threads and depth must be 0 or more, got {threads} and {depth}")
        self.plan, self._make_worker = plan, make_worker
        self._threads, self._depth = threads, depth
        self.epoch = self.step = 0

    def __len__(self) -> int:
        """Steps of an epoch."""
        return self.plan.num_steps

    def __iter__(self) -> Iterator[T]:
        for batch in self.batches(self.epoch, self.step):
            self.step += 1
            yield batch
        self.epoch, self.step = self.epoch + 1, 0

    def batches(self, epoch: int, first: int = 0) -> Generator[T, None, None]:
        """Yield the batches of an epoch from step `first` on; `epoch` and `step` stay as they are.

        Raises
        ------
        BadInput
            There is no such step.
        """
        if not 0 <= first <= self.plan.num_steps:
            raise BadInput(f"the first step must be in 0 … {self.plan.num_steps}, got {first}")
        shares = (self.plan.share(epoch, step) for step in range(first, self.plan.num_steps))
        return prefetched(shares, self._make_worker, threads=self._threads, depth=self._depth)

    def batch(self, epoch: int, step: int) -> T:
        """Make one batch, here and now; it is that of the iteration."""
        return self._make_worker()(self.plan.share(epoch, step))

    def state_dict(self) -> dict[str, int]:
        """Return where it is, to go on from; another number of ranks or threads may."""
        return {"epoch": self.epoch, "step": self.step} | {name: int(getattr(self.plan, name)) for name in _ORDER}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Go on from where another loader was.

        Raises
        ------
        BadInput
            Its steps were others: of another seed, batch size or number of examples, or in another order; or it is no
            state of a loader.
        """
        absent = [name for name in ("epoch", "step", *_ORDER) if name not in state]
        if absent:
            raise BadInput(f"this is no state of a loader: {', '.join(absent)} are missing")
        for name in _ORDER:
            if state[name] != getattr(self.plan, name):
                own = getattr(self.plan, name)
                raise BadInput(f"the state is of a loader whose {name} is {state[name]}, this one's is {own}")
        self.epoch, self.step = state["epoch"], state["step"]
