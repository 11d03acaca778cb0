"""The `query` commands: what a store holds of nodes and edges, by the ids it was made from."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mpi_runner.cli_options import as_of_option, json_option, parse_fanouts, parse_ids, parse_times, store_argument
from mpi_runner.cli_output import misuse, print_json, reported, table

if TYPE_CHECKING:
    import numpy as np

    from graph_store import GraphStore, Hop
    from graph_store.features import FeatureValues

_SHOWN_NEIGHBORS = 20
_SHOWN_NUMBERS = 6
_LONGEST_TEXT = 60
_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.group(no_args_is_help=False)
def query() -> None:
    """Ask STORE for neighbours, samples, walks, degrees and features, by the ids it was made from."""


_ids_option = click.option(
    "--ids", required=True, metavar="A,B,C", help="Ids, separated by commas; string ids may stand in double quotes."
)
_edge_type_option = click.option(
    "--edge-type", metavar="SRC:RELATION:DST", help="May be left out where there is one edge type."
)


def _options(*options: Callable[[Any], Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add what every query takes, and the given ones."""

    def added(command: Callable[..., None]) -> Callable[..., None]:
        for add in (json_option, as_of_option, *reversed(options), store_argument):
            command = add(command)
        return command

    return added


@contextmanager
def _opened(store: str, as_of: int | None) -> "Iterator[GraphStore]":
    """Open the store; report errors."""
    from graph_store.store import open as open_store

    with reported(), open_store(store, as_of=as_of) as opened:
        yield opened


def _named(known: dict[str, Any], given: str | None, flag: str) -> str:
    """Return the type that is asked for; it may be left out where there is one."""
    if given is not None:
        return given
    if len(known) != 1:
        raise misuse(f"{flag} is needed; the store has {', '.join(known)}")
    return next(iter(known))


def _ids_of(opened: "GraphStore", node_type: str, text: str, flag: str = "--ids") -> list[Any]:
    known = opened.node_types.get(node_type)
    return parse_ids(text, "string" if known is None else known.id_type, flag)


def _ends(opened: "GraphStore", edge_type: str) -> tuple[str, str]:
    """Return the node types of an edge type; empty names where there is none of that name."""
    known = opened.edge_types.get(edge_type)
    return ("", "") if known is None else (known.src, known.dst)


@query.command()
@_options(_edge_type_option, _ids_option)
@click.option("--limit", type=click.IntRange(0), metavar="K", help="At most so many neighbours each.")
def neighbors(store: str, edge_type: str | None, ids: str, limit: int | None, as_of: int | None, as_json: bool) -> None:
    """List the neighbours of nodes, in the order asked.

    Example: gossamer query neighbors clicks.store --edge-type user:clicks:item --ids 17,42 --json
    """
    with _opened(store, as_of) as opened:
        name = _named(opened.edge_types, edge_type, "--edge-type")
        asked = _ids_of(opened, _ends(opened, name)[0], ids)
        found = opened.neighbors(asked, name, limit=limit)
        degrees = opened.degree(asked, name).tolist()
    columns = {"neighbors": found.ids, "weights": found.weights, "times": found.times}
    lists = {key: values.tolist() for key, values in columns.items() if values is not None}
    results = []
    for row, (one, degree) in enumerate(zip(asked, degrees)):
        span = slice(int(found.indptr[row]), int(found.indptr[row + 1]))
        results.append({"id": one, "degree": degree, **{key: values[span] for key, values in lists.items()}})
    if as_json:
        print_json({"edge_type": name, "results": results})
        return
    for result in results:
        click.echo(f"{result['id']}: {result['degree']:,} neighbours")
        extras = [result[key] for key in ("weights", "times") if key in result]
        rows = list(zip(result["neighbors"], *extras))
        for cells in rows[:_SHOWN_NEIGHBORS] if limit is None else rows:
            click.echo("  " + "  ".join(map(str, cells)))
        if limit is None and len(rows) > _SHOWN_NEIGHBORS:
            click.echo(f"  … {len(rows) - _SHOWN_NEIGHBORS:,} more; --limit or --json shows them")


@query.command()
@_options(_edge_type_option, _ids_option)
def degree(store: str, edge_type: str | None, ids: str, as_of: int | None, as_json: bool) -> None:
    """Count the neighbours of nodes, in the order asked.

    Example: gossamer query degree clicks.store --edge-type user:clicks:item --ids 17,42
    """
    with _opened(store, as_of) as opened:
        name = _named(opened.edge_types, edge_type, "--edge-type")
        asked = _ids_of(opened, _ends(opened, name)[0], ids)
        degrees = opened.degree(asked, name).tolist()
    if as_json:
        results = [{"id": one, "degree": count} for one, count in zip(asked, degrees)]
        print_json({"edge_type": name, "results": results})
        return
    table([("id", "degree"), *((str(one), count) for one, count in zip(asked, degrees))])


@query.command()
@_options(_edge_type_option)
@click.option("--src", required=True, metavar="A,B,C", help="Ids of the sources, separated by commas.")
@click.option("--dst", required=True, metavar="D,E,F", help="As many ids of the destinations.")
def contains(store: str, edge_type: str | None, src: str, dst: str, as_of: int | None, as_json: bool) -> None:
    """Say of pairs whether there is an edge; an id that is no node has none.

    Example: gossamer query contains clicks.store --edge-type user:clicks:item --src 17,42 --dst 5,6
    """
    with _opened(store, as_of) as opened:
        name = _named(opened.edge_types, edge_type, "--edge-type")
        ends = _ends(opened, name)
        sources, targets = _ids_of(opened, ends[0], src, "--src"), _ids_of(opened, ends[1], dst, "--dst")
        if len(sources) != len(targets):
            raise misuse(f"--src names {len(sources)} and --dst {len(targets)}; name as many of both, pair by pair")
        found = opened.contains(sources, targets, name).tolist()
    rows = list(zip(sources, targets, found))
    if as_json:
        results = [{"src": one, "dst": other, "contains": there} for one, other, there in rows]
        print_json({"edge_type": name, "results": results})
        return
    shown = ((str(one), str(other), "yes" if there else "no") for one, other, there in rows)
    table([("src", "dst", "contains"), *shown])


@query.command()
@_options(
    click.option("--node-type", metavar="TYPE", help="May be left out where there is one node type."), _ids_option
)
@click.option("--features", "names", metavar="A,B", help="Names, separated by commas.  [default: all]")
def features(store: str, node_type: str | None, ids: str, names: str | None, as_of: int | None, as_json: bool) -> None:
    """Show the features of nodes, in the order asked; one that a node has no value for is null.

    Example: gossamer query features shop.store --node-type item --ids 17,42 --features price,genres
    """
    with _opened(store, as_of) as opened:
        name = _named(opened.node_types, node_type, "--node-type")
        chosen = None if names is None else list(dict.fromkeys(word.strip() for word in names.split(",")))
        if chosen is None and name in opened.node_types and not opened.node_types[name].features:
            raise misuse(f"node type {name} has no features")
        asked = _ids_of(opened, name, ids)
        found = opened.features(asked, name, chosen)
        columns = {key: _plain(values) for key, values in found.items()}
    if as_json:
        results = [
            {"id": one, "features": {key: values[row] for key, values in columns.items()}}
            for row, one in enumerate(asked)
        ]
        print_json({"node_type": name, "results": results})
        return
    shown = [[str(one), *(_cell(values[row]) for values in columns.values())] for row, one in enumerate(asked)]
    table([["id", *columns], *shown])


def _plain(values: "FeatureValues") -> list[Any]:
    """Return a feature's values as lists, numbers and texts, None for an absent one."""
    rows: list[Any] = values.values.tolist()
    if values.indptr is not None:
        places = values.indptr.tolist()
        rows = [rows[low:high] for low, high in zip(places[:-1], places[1:])]
    return [value if there else None for value, there in zip(rows, values.present.tolist())]


def _cell(value: Any) -> str:
    """Return a value as a table shows it, cut where it is long."""
    if value is None:
        return "-"
    if isinstance(value, list):
        numbers = " ".join(
            f"{number:.6g}" if isinstance(number, float) else str(number) for number in value[:_SHOWN_NUMBERS]
        )
        return f"[{numbers}{f' … {len(value):,} in all' if len(value) > _SHOWN_NUMBERS else ''}]"
    text = f"{value:.6g}" if isinstance(value, float) else " ".join(str(value).split())
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


@query.command()
@_options(_edge_type_option, _ids_option)
@click.option("--fanouts", required=True, metavar="10,5", help="Neighbours a node for each hop; -1 takes all.")
@click.option(
    "--method",
    default="uniform",
    show_default=True,
    type=click.Choice(["uniform", "weighted", "top", "recent"]),
    help="Which neighbours: at random, by weight, the heaviest, the latest.",
)
@click.option("--replace", is_flag=True, help="Draw each time from all neighbours again.")
@click.option(
    "--direction",
    default="out",
    show_default=True,
    type=click.Choice(["out", "in"]),
    help="From sources to destinations or back.",
)
@click.option("--disjoint", is_flag=True, help="A tree of its own for each id.")
@click.option("--times", metavar="T,U", help="A time for each id, or one for all: no edge later than it.")
@click.option("--strict", is_flag=True, help="With --times: nor one at the time itself.")
@click.option("--window", type=click.IntRange(0), metavar="SPAN", help="With --times: nor one longer before it.")
@click.option("--columns", metavar="A,B", help="Of edge_ids, weights and times, what is shown of the edges.")
@click.option("--seed", default=0, show_default=True, type=int, help="The same seed draws the same sample.")
@click.option("--threads", type=click.IntRange(1), help="Threads to use; the sample does not depend on it.")
def sample(
    store: str,
    edge_type: str | None,
    ids: str,
    fanouts: str,
    times: str | None,
    columns: str | None,
    as_of: int | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Sample the neighbourhood of nodes.

    Example: gossamer query sample clicks.store --edge-type user:clicks:item --ids 17 --fanouts 10,5 --seed 7 --json
    """
    sizes = parse_fanouts(fanouts)
    how["columns"] = [] if columns is None else [word.strip() for word in columns.split(",")]
    with _opened(store, as_of) as opened:
        name = _named(opened.edge_types, edge_type, "--edge-type")
        asked = _ids_of(opened, _ends(opened, name)[how["direction"] == "in"], ids)
        if times is not None:
            how["times"] = parse_times(times, len(asked))
        found = opened.sample(asked, name, fanouts=sizes, **how)
        hops = [_edges(hop, found.trees) for hop in found.hops]
    if as_json:
        print_json({"edge_type": name, "seeds": asked, "hops": hops})
        return
    for number, (hop, way) in enumerate(zip(hops, found.hops), 1):
        click.echo(f"hop {number}, {way.edge_type}: {len(hop['src']):,} drawn")
        extras = [hop[key] for key in hop if key not in ("src", "dst")]
        for src, dst, *cells in zip(hop["src"][:_SHOWN_NEIGHBORS], hop["dst"], *extras):
            click.echo("  ".join([f"  {src} -> {dst}", *map(str, cells)]))
        if len(hop["src"]) > _SHOWN_NEIGHBORS:
            click.echo(f"  … {len(hop['src']) - _SHOWN_NEIGHBORS:,} more; --json shows them")


def _edges(hop: "Hop", trees: "dict[str, np.ndarray] | None") -> dict[str, list[Any]]:
    """Return the edges of a hop as lists: both ends, the columns that are there, and in trees whose each edge is."""
    found = {"src": hop.src, "dst": hop.dst, "edge_ids": hop.edge_ids, "weights": hop.weights, "times": hop.times}
    if trees is not None:
        found["trees"] = trees[hop.neighbor_type][hop.neighbors]
    return {key: values.tolist() for key, values in found.items() if values is not None}


@query.command()
@_options(_edge_type_option, _ids_option)
@click.option("--metapath", metavar="A,B", help="Edge types to go along in turn, with commas, and no --edge-type.")
@click.option("--length", required=True, type=click.IntRange(1), metavar="HOPS", help="Hops of a walk.")
@click.option("--walks", default=1, show_default=True, type=click.IntRange(1), help="Walks from each id.")
@click.option(
    "--method",
    default="uniform",
    show_default=True,
    type=click.Choice(["uniform", "weighted"]),
    help="How the next edge is drawn.",
)
@click.option("--p", default=1.0, show_default=True, type=_POSITIVE, help="node2vec: the edge back counts 1/p times.")
@click.option("--q", default=1.0, show_default=True, type=_POSITIVE, help="node2vec: an edge farther away, 1/q times.")
@click.option(
    "--restart",
    default=0.0,
    show_default=True,
    type=click.FloatRange(0, 1),
    help="The chance that a hop is taken from the start.",
)
@click.option("--seed", default=0, show_default=True, type=int, help="The same seed draws the same walks.")
@click.option("--threads", type=click.IntRange(1), help="Threads to use; the walks do not depend on it.")
def walk(
    store: str, edge_type: str | None, ids: str, metapath: str | None, as_of: int | None, as_json: bool, **how: Any
) -> None:
    """Walk from nodes to neighbours, hop by hop; between two node types there and back.

    A walk that comes to a dead end is shorter.

    Example: gossamer query walk clicks.store --edge-type user:clicks:item --ids 17 --length 8 --walks 5 --seed 7 --json
    """
    with _opened(store, as_of) as opened:
        if metapath is None:
            name, path = _named(opened.edge_types, edge_type, "--edge-type"), None
        elif edge_type is None:
            name, path = None, [word.strip() for word in metapath.split(",")]
        else:
            raise misuse("--metapath names its edge types; leave --edge-type out")
        asked = _ids_of(opened, _ends(opened, str(name if path is None else path[0]))[0], ids)
        found = opened.walk(asked, name, metapath=path, **how).lists()
    if as_json:
        print_json({"walks": found})
        return
    numbers = [number for _ in asked for number in range(1, how["walks"] + 1)]
    shown = [(str(path[0]), number, " -> ".join(map(str, path[1:]))) for number, path in zip(numbers, found)]
    table([("id", "walk", "nodes"), *shown])
