"""The `Table` protocol, and the table whose shards live in this process."""

import os
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from sparse_tables.allocator import Allocator, SharedAllocator, private_allocator
from sparse_tables.config import TableConfig
from sparse_tables.errors import ForeignId
from sparse_tables.index import ROOM, enter, partition
from sparse_tables.inputs import as_bags, as_counts, as_gradients, as_ids, as_out, as_weights
from sparse_tables.kernels import num_threads, run_parts
from sparse_tables.lookup import gather
from sparse_tables.optimizers import adam_corrections, update
from sparse_tables.pooling import MODES, pool
from sparse_tables.settings import plan_of, rates_of
from sparse_tables.shard import Shard, empty_directory

# Fewer ids than this are not worth waking a thread for.
_GRAIN = 1 << 13
# Up to this step a row's Adam corrections are looked up, and computed after.
_ADAM_STEPS = 1 << 14


class Table(Protocol):
    """An embedding table, in this process or on other ranks.

    In a distributed run every method is collective: each rank calls it the same number of times in the same
    order, with its own ids, possibly none.
    """

    @property
    def config(self) -> TableConfig:
        """What the table is."""
        ...

    def pull(self, ids: ArrayLike, *, insert: bool = True, out: np.ndarray | None = None) -> np.ndarray:
        """Return float32[n, dim], the rows of `ids` int64[n]."""
        ...

    def pull_pooled(
        self,
        ids: ArrayLike,
        indptr: ArrayLike,
        *,
        mode: str = "sum",
        weights: ArrayLike | None = None,
        insert: bool = True,
    ) -> np.ndarray:
        """Return float32[bags, dim], the sum or mean of each bag's rows."""
        ...

    def push(self, ids: ArrayLike, gradients: ArrayLike, counts: ArrayLike | None = None) -> None:
        """Sum the gradients float32[n, dim] of equal ids, then update each row once."""
        ...


class LocalTable:
    """Embedding rows of int64 ids, in the memory of this process, with their optimizer.

    One thread at a time may call it; it uses several itself. Results do not depend on how many, bit for bit.

    Parameters
    ----------
    config : TableConfig
    allocator : Allocator
        Where the memory comes from: `private_allocator`, or a `SharedAllocator` whose segments other
        processes read with `TableReader`.
    shards : iterable of int, optional
        The logical shards that live here; all of them by default.
    threads : int, optional
        Most threads a call may use; by default the cores this process may run on.

    Raises
    ------
    ValueError
        If a shard is out of 0..num_shards - 1 or given twice, or `threads` is below 1.
    """

    def __init__(
        self,
        config: TableConfig,
        *,
        allocator: Allocator = private_allocator,
        shards: Iterable[int] | None = None,
        threads: int | None = None,
    ) -> None:
        if threads is not None and threads < 1:
            raise ValueError(f"table {config.name!r}: threads must be at least 1, got {threads}")
        self._config = config
        self._allocator = allocator
        self._threads = num_threads(threads)
        self._pool: ThreadPoolExecutor | None = None
        self._scratch = threading.local()
        self._directory = empty_directory(config.num_shards)
        self._plan, self._rates = plan_of(config), rates_of(config)
        num_steps = _ADAM_STEPS if config.counts_steps else 0
        self._corrections = adam_corrections(config.learning_rate, config.betas, num_steps)
        self._shards: dict[int, Shard] = {}
        for number in _checked_shards(config, shards):
            self._shards[number] = Shard(number, config, allocator, self._directory[number])
        self.publish()

    def __repr__(self) -> str:
        return f"LocalTable({self._config.name!r}, dim={self._config.dim}, rows={len(self)})"

    def __len__(self) -> int:
        return sum(len(shard) for shard in self._shards.values())

    @property
    def config(self) -> TableConfig:
        """What the table is."""
        return self._config

    @property
    def shards(self) -> tuple[int, ...]:
        """The logical shards that live here, ascending."""
        return tuple(self._shards)

    @property
    def num_bytes(self) -> int:
        """Bytes allocated for indices, rows and optimizer state, unused room included."""
        return sum(shard.num_bytes for shard in self._shards.values())

    def ids(self) -> np.ndarray:
        """Return int64[n], the ids that have a row here, ascending; a copy."""
        found = [shard.ids for shard in self._shards.values()]
        return np.sort(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def shard(self, number: int) -> Shard:
        """Return a logical shard that lives here, for `checkpoint`.

        Raises
        ------
        KeyError
            If it does not.
        """
        return self._shards[number]

    def pull(self, ids: ArrayLike, *, insert: bool = True, out: np.ndarray | None = None) -> np.ndarray:
        """Return the rows of ids.

        Parameters
        ----------
        ids : int64[n]
            Any order, duplicates welcome.
        insert : bool
            Whether an id without a row gets one. If not, nothing changes, and such an id reads the initial
            value that it would get.
        out : float32[n, dim], optional
            Written to and returned in place of a new array.

        Returns
        -------
        float32[n, dim]
            A copy, in the order of `ids`.

        Raises
        ------
        TypeError
            If `ids` are not integers, or `out` is not a float32 array.
        ValueError
            If `ids` is not one-dimensional, an id does not fit int64, or `out` has another shape.
        ForeignId
            If an id's shard does not live here; nothing is inserted then.
        """
        wanted = as_ids(self._config, ids)
        result = as_out(self._config, len(wanted), out)
        missing = np.empty(len(wanted), np.int64)

        def call(start: int, stop: int) -> int:
            return gather(self._directory, self._plan, self._rates, wanted, (start, stop), result, missing)

        bounds = self._even_bounds(len(wanted))
        self._absent(run_parts(call, bounds, self._executor(bounds)), bounds, wanted, missing, insert)
        return result

    def pull_pooled(
        self,
        ids: ArrayLike,
        indptr: ArrayLike,
        *,
        mode: str = "sum",
        weights: ArrayLike | None = None,
        insert: bool = True,
    ) -> np.ndarray:
        """Return the sum or mean of each bag's rows, without writing the rows out.

        Parameters
        ----------
        ids : int64[m]
            The bags' ids, one bag after the other.
        indptr : int64[bags + 1]
            Bag b is `ids[indptr[b]:indptr[b + 1]]`; starts at 0, does not fall, ends at m.
        mode : {"sum", "mean"}
        weights : float32[m], optional
            Factors of the rows, in mode "sum" only.
        insert : bool
            As in `pull`.

        Returns
        -------
        float32[bags, dim]
            An empty bag is zeros. Rows are added in the order of `ids`, in float32.

        Raises
        ------
        TypeError, ValueError, ForeignId
            As `pull` does, and for an unknown mode, weights with "mean", or an `indptr` or `weights` that
            does not fit `ids`.
        """
        wanted = as_ids(self._config, ids)
        bags = as_bags(self._config, indptr, len(wanted))
        if mode not in MODES:
            raise ValueError(f"table {self._config.name!r}: mode must be one of {', '.join(MODES)}, got {mode!r}")
        if weights is not None and mode != "sum":
            raise ValueError(f"table {self._config.name!r}: weights go with mode 'sum', got mode {mode!r}")
        factors = as_weights(self._config, weights, len(wanted))
        result = np.empty((len(bags) - 1, self._config.dim), np.float32)
        missing = np.empty(len(wanted), np.int64)

        def call(start: int, stop: int) -> int:
            return pool(
                self._directory,
                self._plan,
                self._rates,
                wanted,
                bags,
                MODES.index(mode),
                factors,
                (start, stop),
                result,
                missing,
            )

        bounds = np.searchsorted(bags, self._even_bounds(len(wanted))).tolist()
        bounds[0], bounds[-1] = 0, len(bags) - 1
        starts = bags[bounds].tolist()
        self._absent(run_parts(call, bounds, self._executor(bounds)), starts, wanted, missing, insert)
        return result

    def push(self, ids: ArrayLike, gradients: ArrayLike, counts: ArrayLike | None = None) -> None:
        """Sum the gradients of equal ids, in order, then update each of their rows once.

        An id without a row gets its initial value first.

        Parameters
        ----------
        ids : int64[n]
            Any order, duplicates welcome.
        gradients : float32[n, dim]
            Other real kinds are rounded to float32. Finite: a NaN would stay in its row.
        counts : float32[n], optional
            The samples behind each gradient, 1 each by default; summed like the gradients. Only `config.l2`
            asks for them: a row's gradient becomes `gradient + l2 * count * row` before the optimizer sees
            it.

        Raises
        ------
        TypeError
            If `ids` are not integers or `gradients` or `counts` not real numbers.
        ValueError
            If a shape does not fit.
        ForeignId
            If an id's shard does not live here; nothing is changed then.
        TableFull, OSError
            If a shard cannot grow, or the allocator has no room; ids may have got rows then, but no row was updated.
        """
        wanted = as_ids(self._config, ids)
        slopes = as_gradients(self._config, gradients, len(wanted))
        samples = as_counts(self._config, counts, len(wanted))
        order, bounds, uniques = self._enter(wanted)

        def call(start: int, stop: int) -> None:
            shards = np.array([start, stop], np.int64)
            update(
                self._directory,
                self._plan,
                self._rates,
                slopes,
                samples,
                order,
                bounds,
                shards,
                uniques,
                self._corrections,
            )

        self._run_shards(call, bounds)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write rows, optimizer state and step counts to a folder; see `sparse_tables.checkpoint`.

        The folder is a complete checkpoint of before or of now at any moment.

        Raises
        ------
        OSError
            If it cannot be written.
        """
        from sparse_tables.checkpoint import save_table

        save_table(self, path)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        shards: Iterable[int] | None = None,
        allocator: Allocator = private_allocator,
        threads: int | None = None,
    ) -> "LocalTable":
        """Return the table saved at a path, bit for bit, or some of its shards.

        Raises
        ------
        CheckpointNotFound
            If there is no complete checkpoint at `path`.
        CorruptCheckpoint
            If a file is missing, truncated or changed; the message names it.
        ValueError
            If the checkpoint does not have one of `shards`.
        """
        from sparse_tables.checkpoint import load_table

        return load_table(path, shards=shards, allocator=allocator, threads=threads)

    def publish(self) -> None:
        """Tell the readers of shared memory where the shards lie now; growth does it by itself."""
        if isinstance(self._allocator, SharedAllocator):
            lines = [shard.published(self._allocator) for shard in self._shards.values()]
            self._allocator.publish(self._config.name, {"config": self._config.to_dict(), "shards": lines})
            for shard in self._shards.values():
                shard.settle()

    def _absent(
        self, results: list[int], starts: list[int], ids: np.ndarray, missing: np.ndarray, insert: bool
    ) -> None:
        """Give rows to the ids that a read did not find."""
        for result in results:
            if result < 0:
                self._refuse(ids, -1 - result)
        if insert and any(results):
            places = [missing[start : start + num] for start, num in zip(starts, results)]
            self._enter(ids[np.concatenate(places)])

    def _enter(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Partition ids by shard, find the unique ones and give rows to those that have none."""
        order = np.empty(len(ids), np.int64)
        bounds = np.empty(self._config.num_shards + 1, np.int64)
        foreign = partition(self._directory, self._plan, ids, order, bounds)
        if foreign >= 0:
            self._refuse(ids, foreign)
        uniques = np.empty((2, len(ids)), np.int32)
        generations = [shard.generation for shard in self._shards.values()]

        def call(start: int, stop: int) -> None:
            shards = np.array([start, stop], np.int64)
            while True:
                marks = self._marks(start, stop)
                full = enter(self._directory, self._plan, self._rates, ids, order, bounds, shards, uniques, marks)
                if full < 0:
                    return
                self._shards[full].grow()

        try:
            self._run_shards(call, bounds)
        finally:
            if generations != [shard.generation for shard in self._shards.values()]:
                self.publish()
        return order, bounds, uniques

    def _marks(self, start: int, stop: int) -> np.ndarray:
        """Return scratch of the calling thread for a range of shards: int32, as long as the roomiest."""
        room = int(self._directory[start:stop, ROOM].max())
        marks = getattr(self._scratch, "marks", None)
        if marks is None or len(marks) < room:
            marks = self._scratch.marks = np.zeros(room, np.int32)
        return marks

    def _refuse(self, ids: np.ndarray, position: int) -> None:
        raise ForeignId(
            f"table {self._config.name!r}: id {ids[position]} at position {position} belongs to a shard that "
            f"is not here; here are shards {list(self._shards)} of {self._config.num_shards}"
        )

    def _even_bounds(self, length: int) -> list[int]:
        parts = max(1, min(self._threads, length // _GRAIN))
        return [length * part // parts for part in range(parts + 1)]

    def _run_shards(self, call: Callable[[int, int], Any], bounds: np.ndarray) -> None:
        """Run `call(first, end)` over ranges of shards that hold about equally many ids."""
        even = np.searchsorted(bounds, self._even_bounds(int(bounds[-1])))
        cuts = sorted({0, *even[1:-1].tolist(), self._config.num_shards})
        run_parts(call, cuts, self._executor(cuts))

    def _executor(self, bounds: list[int]) -> ThreadPoolExecutor | None:
        if len(bounds) <= 2:
            return None
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self._threads - 1, thread_name_prefix=self._config.name)
        return self._pool


def _checked_shards(config: TableConfig, shards: Iterable[int] | None) -> list[int]:
    numbers = sorted(range(config.num_shards) if shards is None else (int(shard) for shard in shards))
    for number in numbers:
        if not 0 <= number < config.num_shards:
            raise ValueError(f"table {config.name!r}: shards must be in 0..{config.num_shards - 1}, got {number}")
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"table {config.name!r}: shards holds one twice: {numbers}")
    return numbers
