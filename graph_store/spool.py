"""Where rows of edges wait until all ids are known: in memory, or in one file a shard once they outgrow it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from graph_store.edge_lists import Columns
from graph_store.kernels import kernel


@kernel
def _shard_order(shards: np.ndarray, num_shards: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the stable order of rows by shard, and where each shard's rows start."""
    starts = np.zeros(num_shards + 1, np.int64)
    for shard in shards:
        starts[shard + 1] += 1
    for shard in range(num_shards):
        starts[shard + 1] += starts[shard]
    places, order = starts[:-1].copy(), np.empty(shards.size, np.int64)
    for i in range(shards.size):
        order[places[shards[i]]] = i
        places[shards[i]] += 1
    return order, starts


class EdgeSpool:
    """Rows of one edge type, in the order of the input.

    Parameters
    ----------
    folder : Path
        Where files go; made when they are needed.
    num_shards : int
    limit : int
        Bytes of rows that may stay in memory.
    shards : callable
        Gives the shard of each kept id of the source type.
    """

    def __init__(
        self, folder: Path, *, num_shards: int, limit: int, shards: Callable[[np.ndarray, int], np.ndarray]
    ) -> None:
        self._folder, self._num_shards, self._limit, self._shards = folder, num_shards, limit, shards
        self._chunks: list[Columns] = []
        self._bytes = 0
        self._names: tuple[str, ...] = ()
        self.rows = np.zeros(num_shards, np.int64)
        self.num_rows = 0
        self.spilled = False

    def add(self, columns: Columns) -> None:
        """Take rows."""
        self.num_rows += columns.src.size
        self._chunks.append(columns)
        self._bytes += columns.num_bytes
        if self._bytes > self._limit:
            self.spill()

    def spill(self) -> None:
        """Move what is in memory to the files of its shards."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.spilled = True
        chunks, self._chunks, self._bytes = self._chunks, [], 0
        for columns in chunks:
            order, starts = _shard_order(self._shards(columns.src, self._num_shards), self._num_shards)
            for shard in np.flatnonzero(np.diff(starts)):
                part = columns.take(order[starts[shard] : starts[shard + 1]])
                self.rows[shard] += part.src.size
                with open(self._folder / f"{shard}.rows", "ab") as file:
                    file.write(int(part.src.size).to_bytes(8, "little"))
                    for column in part:
                        if column is not None:
                            file.write(memoryview(column))
            self._names = tuple(name for name, column in zip(columns._fields, columns) if column is not None)

    def in_memory(self) -> list[Columns]:
        """Return all rows; only when nothing was spilled."""
        assert not self.spilled
        return self._chunks

    def of_shard(self, shard: int) -> Iterator[Columns]:
        """Yield the rows of one shard's sources, chunk by chunk; after `spill` only."""
        path = self._folder / f"{shard}.rows"
        if not path.exists():
            return
        with open(path, "rb") as file:
            while head := file.read(8):
                size = int(np.frombuffer(head, np.int64)[0])
                columns = {
                    name: np.fromfile(file, np.float32 if name == "weight" else np.int64, size) for name in self._names
                }
                yield Columns(**columns)

    def empty(self) -> Columns:
        """Return no rows, of the same columns."""
        return Columns(**{name: np.empty(0, np.float32 if name == "weight" else np.int64) for name in self._names})

    def drop(self, shard: int) -> None:
        """Remove the file of a shard that is done with."""
        (self._folder / f"{shard}.rows").unlink(missing_ok=True)
