"""The progress bar of a run, on stderr of rank 0."""

import sys
from types import TracebackType
from typing import Any


class Progress:
    """One bar a run that counts steps; a context manager, which closes the bar.

    Parameters
    ----------
    shown : bool
        Whether there is a bar at all.
    """

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown
        self._bar: Any = None

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def start(self, epoch: int, num_epochs: int, num_steps: int) -> None:
        """Begin an epoch."""
        if not self._shown:
            return
        if self._bar is None:
            from tqdm import tqdm

            # A log file gets a line every ten seconds, a terminal ten a second.
            interval = 0.1 if sys.stderr.isatty() else 10.0
            self._bar = tqdm(
                total=num_epochs * num_steps,
                unit="step",
                file=sys.stderr,
                mininterval=interval,
                dynamic_ncols=True,
            )
        self._bar.set_description(f"epoch {epoch}/{num_epochs}", refresh=False)

    def step(self) -> None:
        """Count one step."""
        if self._bar is not None:
            self._bar.update()

    def finish(self, line: dict[str, Any]) -> None:
        """Show the loss and the scores of an epoch's line of metrics."""
        if self._bar is not None:
            scores = {key: f"{value:.4f}" for key, value in line.items() if "@" in key}
            self._bar.set_postfix({"loss": f"{line['loss']:.4f}", **scores}, refresh=False)
