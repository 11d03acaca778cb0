"""Reading a table whose shards lie in segments that another process shares."""

import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparse_tables.allocator import map_segment, read_published
from sparse_tables.config import TableConfig
from sparse_tables.errors import ForeignId, SegmentNotFound
from sparse_tables.inputs import as_ids, as_out
from sparse_tables.lookup import gather
from sparse_tables.settings import plan_of, rates_of
from sparse_tables.shard import Slabs, empty_directory


class TableReader:
    """The rows of a `LocalTable` that another process of this machine keeps in a `SharedAllocator`.

    Reads see the owner's updates as they happen: a row read while its owner updates it may be half of each.
    (The owner's growth is safe: it never moves what is mapped here, and the next `refresh` finds the new
    segments.)

    Parameters
    ----------
    folder : path
        The allocator's `folder`.
    name : str
        The table's name.

    Raises
    ------
    SegmentNotFound
        If no such table is published there.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str) -> None:
        self._folder, self._name = Path(folder), name
        self._generations: dict[int, int] = {}
        self._slabs: dict[int, Slabs] = {}
        published = read_published(self._folder, name)
        self.config = TableConfig.from_dict(published["config"])
        self._plan, self._rates = plan_of(self.config), rates_of(self.config)
        self._directory = empty_directory(self.config.num_shards)
        self.refresh()

    def refresh(self) -> None:
        """Map the segments of the shards that have grown since.

        Raises
        ------
        SegmentNotFound
            If the table or a segment of it is gone.
        """
        seen = None
        while True:
            published = read_published(self._folder, self._name)
            try:
                for line in published["shards"]:
                    if self._generations.get(line["shard"]) != line["generation"]:
                        self._map(line)
                return
            except FileNotFoundError as error:
                # The owner may have replaced a segment since; then it has published its successor.
                if published == seen:
                    raise SegmentNotFound(f"table {self._name!r}: segment {error.filename} is gone") from None
                seen = published

    def _map(self, line: dict[str, Any]) -> None:
        num_bytes = Slabs.num_bytes(self.config, line["cells"])
        slabs = Slabs.cut(self.config, line["cells"], map_segment(self._folder / line["segment"], num_bytes))
        slabs.enter(self._directory[line["shard"]])
        self._slabs[line["shard"]] = slabs
        self._generations[line["shard"]] = line["generation"]

    def pull(self, ids: ArrayLike, *, out: np.ndarray | None = None) -> np.ndarray:
        """Return float32[n, dim] as `LocalTable.pull` does with `insert=False`.

        Raises
        ------
        TypeError, ValueError, ForeignId
            As `LocalTable.pull` does.
        """
        wanted = as_ids(self.config, ids)
        result = as_out(self.config, len(wanted), out)
        missing = np.empty(len(wanted), np.int64)
        whole = (0, len(wanted))
        absent = gather(self._directory, self._plan, self._rates, wanted, whole, result, missing)
        if absent < 0:
            raise ForeignId(f"table {self._name!r}: id {wanted[-1 - absent]} is not in the shards shared here")
        return result
