"""Trace: where the seconds of a run went and how many rows travelled."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class Trace:
    """Seconds by span and counts by name, added up until `reset`.

    Spans do not nest: the seconds of an inner span would be counted twice.

    Attributes
    ----------
    seconds : dict of str to float
        Wall seconds of each span so far.
    counts : dict of str to int
        What was counted so far, rows for `pulled_rows` and `pushed_rows`.
    """

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.counts: dict[str, int] = {}

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """Add the wall seconds of the block to `seconds[name]`, whether or not it raises."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start

    def count(self, name: str, number: int) -> None:
        """Add `number` to `counts[name]`."""
        self.counts[name] = self.counts.get(name, 0) + int(number)

    def reset(self) -> None:
        """Forget all seconds and counts."""
        self.seconds.clear()
        self.counts.clear()
