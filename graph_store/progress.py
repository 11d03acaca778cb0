"""A progress bar on stderr that long work reports to; silent unless asked for."""

from types import TracebackType
from typing import Any


class Progress:
    """Phases of work, each with a total and a unit; rows a second are shown while reading."""

    def __init__(self, shown: bool) -> None:
        self._shown = shown
        self._bar: Any = None
        self._rows = 0

    def phase(self, name: str, total: int, *, unit: str) -> None:
        """Begin a phase of `total` units."""
        if not self._shown:
            return
        from tqdm import tqdm

        self._close()
        self._rows = 0
        self._bar = tqdm(total=total, desc=name, unit=unit, unit_scale=True, dynamic_ncols=True, mininterval=0.2)

    def advance(self, amount: int, *, rows: int = 0) -> None:
        """Count units done, and rows."""
        if self._bar is None:
            return
        self._rows += rows
        if self._rows:
            elapsed = max(self._bar.format_dict["elapsed"], 1e-3)
            self._bar.set_postfix_str(f"{self._rows:,} rows, {self._rows / elapsed:,.0f} rows/s", refresh=False)
        self._bar.update(amount)

    def _close(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
