"""The `query` commands that draw: samples and walks, by the ids a store was made from."""

from typing import TYPE_CHECKING, Any

import click

from mpi_runner.cli_options import parse_fanouts, parse_times
from mpi_runner.cli_output import misuse, print_json, table
from mpi_runner.cli_query_options import (
    SHOWN_NEIGHBORS,
    edge_type_option,
    end_types,
    ids_of,
    ids_option,
    known_ids,
    named_type,
    only_known,
    opened_store,
    query_options,
    skip_option,
)

if TYPE_CHECKING:
    import numpy as np

    from graph_store import Hop

_POSITIVE = click.FloatRange(min=0, min_open=True)


@click.command()
@query_options(edge_type_option, ids_option, skip_option)
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
    missing: str,
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
    with opened_store(store, as_of) as opened:
        name = named_type(opened.edge_types, edge_type, "--edge-type")
        kind = end_types(opened, name)[how["direction"] == "in"]
        given = ids_of(opened, kind, ids)
        asked, _ = known_ids(opened, kind, given, missing)
        if times is not None:
            all_times = parse_times(times, len(given))
            there = opened.find_nodes(kind, given) >= 0 if missing == "skip" else [True] * len(given)
            how["times"] = only_known(all_times, list(there))
        found = opened.sample(asked, name, fanouts=sizes, **how)
        hops = [_edges(hop, found.trees) for hop in found.hops]
    if as_json:
        print_json({"edge_type": name, "seeds": asked, "hops": hops})
        return
    for number, (hop, way) in enumerate(zip(hops, found.hops), 1):
        click.echo(f"hop {number}, {way.edge_type}: {len(hop['src']):,} drawn")
        extras = [hop[key] for key in hop if key not in ("src", "dst")]
        for src, dst, *cells in zip(hop["src"][:SHOWN_NEIGHBORS], hop["dst"], *extras):
            click.echo("  ".join([f"  {src} -> {dst}", *map(str, cells)]))
        if len(hop["src"]) > SHOWN_NEIGHBORS:
            click.echo(f"  … {len(hop['src']) - SHOWN_NEIGHBORS:,} more; --json shows them")


def _edges(hop: "Hop", trees: "dict[str, np.ndarray] | None") -> dict[str, list[Any]]:
    """Return the edges of a hop as lists: both ends, the columns that are there, and in trees whose each edge is."""
    found = {"src": hop.src, "dst": hop.dst, "edge_ids": hop.edge_ids, "weights": hop.weights, "times": hop.times}
    if trees is not None:
        found["trees"] = trees[hop.neighbor_type][hop.neighbors]
    return {key: values.tolist() for key, values in found.items() if values is not None}


@click.command()
@query_options(edge_type_option, ids_option, skip_option)
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
    store: str,
    edge_type: str | None,
    ids: str,
    missing: str,
    metapath: str | None,
    as_of: int | None,
    as_json: bool,
    **how: Any,
) -> None:
    """Walk from nodes to neighbours, hop by hop; between two node types there and back.

    A walk that comes to a dead end is shorter.

    Example: gossamer query walk clicks.store --edge-type user:clicks:item --ids 17 --length 8 --walks 5 --seed 7 --json
    """
    with opened_store(store, as_of) as opened:
        if metapath is None:
            name, path = named_type(opened.edge_types, edge_type, "--edge-type"), None
        elif edge_type is None:
            name, path = None, [word.strip() for word in metapath.split(",")]
        else:
            raise misuse("--metapath names its edge types; leave --edge-type out")
        kind = end_types(opened, str(name if path is None else path[0]))[0]
        asked, _ = known_ids(opened, kind, ids_of(opened, kind, ids), missing)
        found = opened.walk(asked, name, metapath=path, **how).lists()
    if as_json:
        print_json({"walks": found})
        return
    numbers = [number for _ in asked for number in range(1, how["walks"] + 1)]
    shown = [(str(path[0]), number, " -> ".join(map(str, path[1:]))) for number, path in zip(numbers, found)]
    table([("id", "walk", "nodes"), *shown])
