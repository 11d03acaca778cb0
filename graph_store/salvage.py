"""A damaged generation, to be read as far as it goes: from its shards, and from its arena where they are damaged."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

import numpy as np

from graph_store.arena import ArenaFile
from graph_store.errors import CorruptBlock
from graph_store.loose_shard import LooseShard
from graph_store.manifest import Manifest
from graph_store.resident import shard_folder


class Salvage:
    """What a salvage reads, and what it could not.

    Attributes
    ----------
    manifest : Manifest
    store : Path
    lost : list of str
        One line for each place whose content is lost.
    """

    def __init__(self, manifest: Manifest, store: Path) -> None:
        self.manifest, self.store = manifest, store
        self.lost: list[str] = []
        # Those of which copies had to be made.
        self._loose: dict[Path, LooseShard] = {}

    def folder(self, shard: int) -> Path:
        """Return the folder of a shard."""
        return shard_folder(self.store, self.manifest.generation, shard)

    @contextmanager
    def shard(self, number: int) -> Iterator[LooseShard]:
        """Give a shard to read."""
        path = self.folder(number)
        if path in self._loose:
            yield self._loose[path]
            return
        shard = LooseShard(path)
        if shard.is_loose:
            self._loose[path] = shard
        try:
            yield shard
        finally:
            if not shard.is_loose:
                shard.close()

    def lose(self, what: str, where: object, missing: np.ndarray, unit: str) -> None:
        """Note which of ascending numbers, int64[n], are lost; nothing where none are."""
        if missing.size == 0:
            return
        breaks = np.flatnonzero(np.diff(missing) > 1)
        firsts, lasts = missing[np.append(0, breaks + 1)], missing[np.append(breaks, missing.size - 1)]
        spans = [f"{low}" if low == high else f"{low}–{high}" for low, high in zip(firsts[:10], lasts[:10])]
        more = ", …" if firsts.size > 10 else ""
        self.lost.append(f"{where}: {what}: {missing.size} {unit} ({', '.join(spans)}{more})")

    def __enter__(self) -> "Salvage":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for shard in self._loose.values():
            shard.close()


def arena_file(path: Path) -> ArenaFile | None:
    """Map an arena file, damaged sections and all; None where its table is damaged or it is absent."""
    try:
        return ArenaFile(path)
    except (CorruptBlock, OSError):
        return None


def sound_section(file: ArenaFile | None, name: str) -> np.ndarray | None:
    """Return a section that is sound as a whole, else None."""
    if file is None or name not in file.sections or file.checks[name].damaged():
        return None
    return file.sections[name]
