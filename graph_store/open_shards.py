"""Shards that stay open from one type to the next: opening takes milliseconds, and there may be hundreds of types."""

from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType

from graph_store.shard import Shard

# Each holds some files open, of which a process may have about a thousand; more shards are opened anew each time.
MAX_OPEN = 32


class OpenShards:
    """Databases of shards, open for reading; closed with the context.

    Parameters
    ----------
    limit : int, optional
        How many stay open, `MAX_OPEN` when None; 0 for none: then there is nothing to close.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = MAX_OPEN if limit is None else limit
        self._open: dict[Path, Shard] = {}

    def get(self, path: Path) -> AbstractContextManager[Shard]:
        """Return a context with the shard in a folder; CorruptBlock where RocksDB cannot open it."""
        if path not in self._open:
            if len(self._open) == self._limit:
                return Shard(path)
            self._open[path] = Shard(path)
        return nullcontext(self._open[path])

    def __enter__(self) -> "OpenShards":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for shard in self._open.values():
            shard.close()
        self._open.clear()
