"""What can be read of a shard, its database whole or not: pairs of keys and values, damage left out."""

import shutil
import struct
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from graph_store.errors import CorruptBlock
from graph_store.shard import Shard

# The families' keys differ in length: those of `meta` are the others.
_BY_LENGTH = {16: "adj", 10: "ids", 13: "feat"}


class LooseShard:
    """Reads a shard's database; where it cannot be opened, each of its files in a database of its own.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._parts: list[tuple[str | None, Shard]] = []
        try:
            self._parts = [(None, Shard(path))]
        except (CorruptBlock, OSError):
            self._folder = tempfile.TemporaryDirectory(prefix="gossamer-repair-")
            for file in sorted(path.glob("*.sst")) if path.is_dir() else []:
                self._take(file, Path(self._folder.name) / file.stem)

    def _take(self, file: Path, folder: Path) -> None:
        """Put a file into a database of its own; one that RocksDB does not take is left out."""
        copy = folder.with_suffix(".sst")
        database = Shard(folder, read_only=False)
        try:
            shutil.copyfile(file, copy)
            database.ingest("adj", [copy])
            key = next((key for key, _ in database.readable("adj", b"", _bytes())), None)
        except OSError:
            key = None
        except Exception as error:
            if type(error) is not Exception:  # RocksDB's are plain
                raise
            key = None
        if key is None:
            database.close()
        else:
            self._parts.append((_BY_LENGTH.get(len(key), "meta"), database))

    def readable(
        self, family: str, prefix: bytes, probes: Callable[[], Iterable[bytes]] = tuple
    ) -> list[tuple[bytes, bytes]]:
        """Return the pairs of a family that can be read whose keys begin with `prefix`, in order.

        Parameters
        ----------
        probes : callable
            Gives ascending keys, behind damage reading goes on at the next of them.
        """
        found: dict[bytes, bytes] = {}
        for own, database in self._parts:
            if own in (None, family):
                found |= dict(database.readable(family if own is None else "adj", prefix, probes()))
        return sorted(found.items())

    @property
    def is_loose(self) -> bool:
        """True when the database cannot be opened."""
        return self._folder is not None

    def close(self) -> None:
        """Release the databases."""
        for _, database in self._parts:
            database.close()
        if self._folder is not None:
            self._folder.cleanup()


def _bytes() -> Iterator[bytes]:
    return (bytes([value]) for value in range(256))


def probes_from(head: bytes, count: int, step: int) -> Callable[[], Iterator[bytes]]:
    """Return a callable for `readable`: a key each `step` rows of `count`, 8 bytes behind `head`."""
    return lambda: (head + struct.pack(">Q", row) for row in range(0, count, step))
