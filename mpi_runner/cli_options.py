"""What the commands of a store are given: sizes, lists of ids, the layout of files."""

import csv
import re
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import click

from mpi_runner.cli_output import misuse

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_INTEGER = re.compile(r"-?[0-9]+")

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
store_argument = click.argument("store", type=click.Path())
as_of_option = click.option(
    "--as-of", type=click.IntRange(1), metavar="VERSION", help="An older version.  [default: the newest]"
)
progress_option = click.option(
    "--progress/--no-progress", default=None, help="Show a progress bar.  [default: on a terminal]"
)
threads_option = click.option("--threads", type=click.IntRange(1), help="Threads to use.  [default: all cores]")

# How a file is laid out, the same for files of edges and of nodes.
_LAYOUT = (
    click.option("--format", "format_", metavar="FORMAT", help="parquet, csv, … ; told from the file unless stated."),
    click.option("--header/--no-header", default=None, help="Whether the first row names the columns; told if not."),
    click.option("--delimiter", metavar="C", help="Between columns: a character, 'tab' or 'space'; told if not."),
    click.option("--member", metavar="NAME", help="The file within an archive.  [default: the only one]"),
)
# Where the parts of an edge are.
_COLUMNS = (
    click.option("--src", metavar="COL", help="Column of the source: a name or a position from 0.  [default: 0]"),
    click.option("--dst", metavar="COL", help="Column of the destination.  [default: 1]"),
    click.option("--weight", metavar="COL", help="Column of the weights, if there is one."),
    click.option("--time", metavar="COL", help="Column of the times (integers), if there is one."),
    click.option("--relation", metavar="COL", help="Column of the relation, for an edge type SRC:*:DST."),
)


def layout_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say where in a file of edges to find what."""
    for add in reversed((*_LAYOUT[:1], *_COLUMNS, *_LAYOUT[1:])):
        command = add(command)
    return command


def given_layout(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options that were given, by the names that `EdgeSource` and `EdgeType` have for them."""
    given = {name.rstrip("_"): value for name, value in options.items() if value is not None and value is not False}
    if options.get("header") is False:
        given["header"] = False
    return given


def shown_progress(stated: bool | None) -> bool:
    """Say whether to show a progress bar."""
    return sys.stderr.isatty() if stated is None else stated


class Bytes(click.ParamType):
    """A number of bytes, such as `2GiB`, `500MB` or `1048576`.

    Parameters
    ----------
    least : int
        Fewer are refused.
    """

    name = "bytes"

    def __init__(self, least: int = 1) -> None:
        self.least = least

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        unit = match.group(2).upper() if match else ""
        if match is None or unit not in _UNITS:
            self.fail(f"{value!r} is no number of bytes; expected something like 2GiB or 500MB", param, context)
        size = int(Decimal(match.group(1)) * _UNITS[unit])
        if size < self.least:
            self.fail(f"{value!r} is too little; expected at least {self.least >> 20} MiB", param, context)
        return size


def parse_ids(text: str, id_type: str, flag: str = "--ids") -> list[Any]:
    """Read `a,b,c`; a string id may stand in double quotes, and then hold commas."""
    try:
        words = next(csv.reader([text], strict=True), [])
    except csv.Error as error:
        raise misuse(f"{flag}: {text!r} is no list of ids: {error}") from None
    if words and id_type == "string":
        return words
    if not words and id_type == "string":
        raise misuse(f"{flag}: no ids; name some, with commas between them")
    wrong = next((word for word in words if not _INTEGER.fullmatch(word.strip())), None)
    if not words or wrong is not None:
        raise misuse(
            f"{flag}: {wrong if words else text!r} is no integer; the ids of this node type are integers, as in 17,42"
        )
    return [int(word) for word in words]


def parse_times(text: str, count: int) -> list[int]:
    """Read `t,u`, as many as `count`, or one that stands for all."""
    words = [word.strip() for word in text.split(",")]
    if not all(_INTEGER.fullmatch(word) for word in words):
        raise misuse(f"--times {text!r}: expected integers with commas, as in 5,9")
    if len(words) not in (1, count):
        raise misuse(f"--times has {len(words)} and --ids {count}; give as many, or one for all")
    return [int(word) for word in words] * (count if len(words) == 1 else 1)


def parse_fanouts(text: str) -> list[int]:
    """Read `10,5`."""
    words = [word.strip() for word in text.split(",")]
    if not all(_INTEGER.fullmatch(word) and int(word) >= -1 for word in words):
        raise misuse(f"--fanouts {text!r}: expected numbers from -1 (all) on with commas, as in 10,5")
    return [int(word) for word in words]
