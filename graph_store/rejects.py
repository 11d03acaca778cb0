"""Rows set aside: counted, and written to a file that ends beside the store."""

import json
import os
from collections.abc import Sequence
from pathlib import Path

from graph_store.errors import BadInput
from graph_store.row_batch import Rejected


class Rejects:
    """Rows that could not be taken.

    Attributes
    ----------
    counts : dict of str to int
        By type.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.counts: dict[str, int] = {}

    def add(self, name: str, rejected: Sequence[Rejected], limit: int) -> None:
        """Take rows of a type.

        Raises
        ------
        BadInput
            There are more than `limit`.
        """
        if not rejected:
            return
        before = self.counts.get(name, 0)
        self.counts[name] = before + len(rejected)
        if self.counts[name] > limit:
            one = rejected[limit - before]
            raise BadInput(
                f"{one.path}: {one.place}, {one.reason}; {limit:,} rows of {name} were set aside before, and "
                "bad_rows_limit allows no more"
            )
        with open(self.path, "a", encoding="utf-8") as file:
            for row in rejected:
                line = {"path": str(row.path), "place": row.place, "reason": row.reason, "text": row.text}
                file.write(json.dumps(line, ensure_ascii=False) + "\n")

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size if self.path.exists() else 0

    def restore(self, counts: dict[str, int], size: int) -> None:
        """Go on from so many rows and bytes."""
        self.counts = counts
        if self.path.exists():
            os.truncate(self.path, size)

    def check(self, name: str, count: int, limit: int) -> None:
        """Raise BadInput where all ranks together set aside too many rows."""
        if count > limit:
            raise BadInput(f"{name}: {count:,} rows cannot be taken, and bad_rows_limit is {limit:,}")

    @property
    def total(self) -> int:
        """Rows set aside."""
        return sum(self.counts.values())
