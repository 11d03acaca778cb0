"""How the commands of a store speak: errors as one line with a status, tables for people."""

import json
import math
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import click


@contextmanager
def reported() -> Iterator[None]:
    """Turn an error of the data or the store into its one line on stderr and status 1."""
    from graph_store.errors import GraphStoreError
    from graph_store.kernels import Kernel

    Kernel.before_loading = _say_compiling
    try:
        yield
    except BrokenPipeError:
        raise
    except (GraphStoreError, OSError) as error:
        name = click.get_current_context().command_path
        click.echo(f"{name}: {' '.join(str(error).split()) or type(error).__name__}", err=True)
        raise click.exceptions.Exit(1) from None


def _say_compiling(anew: bool) -> None:
    """Tell a person at a terminal why nothing happens for a while."""
    if anew and sys.stderr.isatty():
        click.echo("compiling kernels, once after an installation: some 20 seconds …", err=True)


def misuse(message: str) -> click.UsageError:
    """Return the error of a command used wrongly: one line, status 2."""
    return click.UsageError(message, click.get_current_context())


def print_json(answer: dict[str, Any]) -> None:
    """Print one JSON object on one line; numbers that JSON has no word for are "NaN", "Infinity" and "-Infinity"."""
    try:
        text = json.dumps(answer, allow_nan=False)
    except ValueError:
        text = json.dumps(_with_words(answer))
    click.echo(text)


def _with_words(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _with_words(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_words(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def table(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns, the first of them names; numbers stand to the right."""
    texts = [[f"{cell:,}" if _is_number(cell) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    numeric = [_is_number(cell) for cell in rows[-1]]
    for row in texts:
        cells = (cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, numeric))
        click.echo("  ".join(cells).rstrip())


def _is_number(cell: object) -> bool:
    return isinstance(cell, int) and not isinstance(cell, bool)
