"""What all `query` commands share: their options, and the ids that are asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mpi_runner.cli_options import as_of_option, json_option, parse_ids, store_argument
from mpi_runner.cli_output import misuse, reported

if TYPE_CHECKING:
    from graph_store import GraphStore

SHOWN_NEIGHBORS = 20

ids_option = click.option(
    "--ids", required=True, metavar="A,B,C", help="Ids, separated by commas; string ids may stand in double quotes."
)
missing_option = click.option(
    "--missing",
    default="error",
    show_default=True,
    type=click.Choice(["error", "skip", "null"]),
    help="An id that is no node ends the query, is left out, or has null.",
)
skip_option = click.option(
    "--missing",
    default="error",
    show_default=True,
    type=click.Choice(["error", "skip"]),
    help="An id that is no node ends the query, or is left out.",
)
edge_type_option = click.option(
    "--edge-type", metavar="SRC:RELATION:DST", help="May be left out where there is one edge type."
)


def query_options(*options: Callable[[Any], Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add what every query takes, and the given ones."""

    def added(command: Callable[..., None]) -> Callable[..., None]:
        for add in (json_option, as_of_option, *reversed(options), store_argument):
            command = add(command)
        return command

    return added


@contextmanager
def opened_store(store: str, as_of: int | None) -> "Iterator[GraphStore]":
    """Open the store; report errors."""
    from graph_store.store import open as open_store

    with reported(), open_store(store, as_of=as_of) as opened:
        yield opened


def named_type(known: dict[str, Any], given: str | None, flag: str) -> str:
    """Return the type that is asked for; it may be left out where there is one."""
    if given is not None:
        return given
    if len(known) != 1:
        raise misuse(f"{flag} is needed; the store has {', '.join(known)}")
    return next(iter(known))


def ids_of(opened: "GraphStore", node_type: str, text: str, flag: str = "--ids") -> list[Any]:
    known = opened.node_types.get(node_type)
    return parse_ids(text, "string" if known is None else known.id_type, flag)


def known_ids(opened: "GraphStore", node_type: str, asked: list[Any], missing: str) -> tuple[list[Any], list[bool]]:
    """Return the ids to answer for, and which of them are nodes; with "error" the query refuses others."""
    if missing == "error" or node_type not in opened.node_types:
        return asked, [True] * len(asked)
    known = (opened.find_nodes(node_type, asked) >= 0).tolist()
    if missing == "skip":
        asked = [one for one, there in zip(asked, known) if there]
        return asked, [True] * len(asked)
    return asked, known


def only_known(asked: list[Any], known: list[bool]) -> list[Any]:
    return [one for one, there in zip(asked, known) if there]


def end_types(opened: "GraphStore", edge_type: str) -> tuple[str, str]:
    """Return the node types of an edge type; empty names where there is none of that name."""
    known = opened.edge_types.get(edge_type)
    return ("", "") if known is None else (known.src, known.dst)
