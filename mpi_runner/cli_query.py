"""The `query` commands that look up: neighbours, degrees, edges and features, by the ids a store was made from."""

from typing import TYPE_CHECKING, Any

import click

from mpi_runner.cli_draw import sample, walk
from mpi_runner.cli_output import misuse, print_json, table
from mpi_runner.cli_query_options import (
    SHOWN_NEIGHBORS,
    edge_type_option,
    end_types,
    ids_of,
    ids_option,
    known_ids,
    missing_option,
    named_type,
    only_known,
    opened_store,
    query_options,
)

if TYPE_CHECKING:
    from graph_store import GraphStore
    from graph_store.features import FeatureValues

_SHOWN_NUMBERS = 6
_LONGEST_TEXT = 60


@click.group(no_args_is_help=False)
def query() -> None:
    """Ask STORE for neighbours, samples, walks, degrees and features, by the ids it was made from."""


query.add_command(sample)
query.add_command(walk)


@query.command()
@query_options(edge_type_option, ids_option, missing_option)
@click.option("--limit", type=click.IntRange(0), metavar="K", help="At most so many neighbours each.")
def neighbors(
    store: str,
    edge_type: str | None,
    ids: str,
    missing: str,
    limit: int | None,
    as_of: int | None,
    as_json: bool,
) -> None:
    """List the neighbours of nodes, in the order asked.

    Example: gossamer query neighbors clicks.store --edge-type user:clicks:item --ids 17,42 --json
    """
    with opened_store(store, as_of) as opened:
        name = named_type(opened.edge_types, edge_type, "--edge-type")
        kind = end_types(opened, name)[0]
        asked, known = known_ids(opened, kind, ids_of(opened, kind, ids), missing)
        found = opened.neighbors(only_known(asked, known), name, limit=limit)
        degrees = opened.degree(only_known(asked, known), name).tolist()
    columns = {"neighbors": found.ids, "weights": found.weights, "times": found.times}
    lists = {key: values.tolist() for key, values in columns.items() if values is not None}
    results, row = [], 0
    for one, there in zip(asked, known):
        if not there:
            results.append({"id": one, "degree": None, **dict.fromkeys(lists)})
            continue
        span = slice(int(found.indptr[row]), int(found.indptr[row + 1]))
        results.append({"id": one, "degree": degrees[row], **{key: values[span] for key, values in lists.items()}})
        row += 1
    if as_json:
        print_json({"edge_type": name, "results": results})
        return
    for result in results:
        if result["degree"] is None:
            click.echo(f"{result['id']}: no such node")
            continue
        click.echo(f"{result['id']}: {result['degree']:,} neighbours")
        extras = [result[key] for key in ("weights", "times") if key in result]
        rows = list(zip(result["neighbors"], *extras))
        for cells in rows[:SHOWN_NEIGHBORS] if limit is None else rows:
            click.echo("  " + "  ".join(map(str, cells)))
        if limit is None and len(rows) > SHOWN_NEIGHBORS:
            click.echo(f"  … {len(rows) - SHOWN_NEIGHBORS:,} more; --limit or --json shows them")


@query.command()
@query_options(edge_type_option, ids_option, missing_option)
def degree(store: str, edge_type: str | None, ids: str, missing: str, as_of: int | None, as_json: bool) -> None:
    """Count the neighbours of nodes, in the order asked.

    Example: gossamer query degree clicks.store --edge-type user:clicks:item --ids 17,42
    """
    with opened_store(store, as_of) as opened:
        name = named_type(opened.edge_types, edge_type, "--edge-type")
        kind = end_types(opened, name)[0]
        asked, known = known_ids(opened, kind, ids_of(opened, kind, ids), missing)
        found = iter(opened.degree(only_known(asked, known), name).tolist())
    rows = [(one, next(found) if there else None) for one, there in zip(asked, known)]
    if as_json:
        print_json({"edge_type": name, "results": [{"id": one, "degree": count} for one, count in rows]})
        return
    table([("id", "degree"), *((str(one), "-" if count is None else count) for one, count in rows)])


_pair_options = (
    edge_type_option,
    click.option("--src", required=True, metavar="A,B,C", help="Ids of the sources, separated by commas."),
    click.option("--dst", required=True, metavar="D,E,F", help="As many ids of the destinations."),
)


def _pairs(opened: "GraphStore", edge_type: str, src: str, dst: str) -> tuple[list[Any], list[Any]]:
    """Return the ids of both ends of each pair asked for."""
    ends = end_types(opened, edge_type)
    sources, targets = ids_of(opened, ends[0], src, "--src"), ids_of(opened, ends[1], dst, "--dst")
    if len(sources) != len(targets):
        raise misuse(f"--src names {len(sources)} and --dst {len(targets)}; name as many of both, pair by pair")
    return sources, targets


@query.command()
@query_options(*_pair_options)
def contains(store: str, edge_type: str | None, src: str, dst: str, as_of: int | None, as_json: bool) -> None:
    """Say of pairs whether there is an edge; an id that is no node has none.

    Example: gossamer query contains clicks.store --edge-type user:clicks:item --src 17,42 --dst 5,6
    """
    with opened_store(store, as_of) as opened:
        name = named_type(opened.edge_types, edge_type, "--edge-type")
        sources, targets = _pairs(opened, name, src, dst)
        found = opened.contains(sources, targets, name).tolist()
    rows = list(zip(sources, targets, found))
    if as_json:
        results = [{"src": one, "dst": other, "contains": there} for one, other, there in rows]
        print_json({"edge_type": name, "results": results})
        return
    shown = ((str(one), str(other), "yes" if there else "no") for one, other, there in rows)
    table([("src", "dst", "contains"), *shown])


@query.command()
@query_options(*_pair_options)
@click.option("--features", "names", metavar="A,B", help="Features of edges, separated by commas.  [default: all]")
def edges(
    store: str, edge_type: str | None, src: str, dst: str, names: str | None, as_of: int | None, as_json: bool
) -> None:
    """Show the edges between pairs with their weights, times and features; an id that is no node has none.

    Example: gossamer query edges shop.store --edge-type user:buys:item --src 17,42 --dst 5,6 --json
    """
    with opened_store(store, as_of) as opened:
        name = named_type(opened.edge_types, edge_type, "--edge-type")
        sources, targets = _pairs(opened, name, src, dst)
        found, tables = opened.edges(sources, targets, name), opened.edge_features(name)
        chosen = tables.names if names is None else list(dict.fromkeys(word.strip() for word in names.split(",")))
        for feature in chosen:
            tables.place(feature)
        columns = {
            key: values.tolist()
            for key, values in (("weight", found.weights), ("time", found.times))
            if values is not None
        }
        features = {}
        if found.edge_ids is not None:
            features = {feature: _plain(tables.values(feature, found.edge_ids)) for feature in chosen}
    bounds = found.indptr.tolist()
    results: list[dict[str, Any]] = []
    for one, other, low, high in zip(sources, targets, bounds, bounds[1:]):
        own = [{key: values[at] for key, values in columns.items()} for at in range(low, high)]
        for at, edge in zip(range(low, high), own):
            if features:
                edge["features"] = {key: values[at] for key, values in features.items()}
        results.append({"src": one, "dst": other, "edges": own})
    if as_json:
        print_json({"edge_type": name, "results": results})
        return
    shown = [
        [str(one), str(other), *(_cell(values[at]) for values in [*columns.values(), *features.values()])]
        for one, other, low, high in zip(sources, targets, bounds, bounds[1:])
        for at in range(low, high)
    ]
    table([["src", "dst", *columns, *features], *shown])
    without = sum(low == high for low, high in zip(bounds, bounds[1:]))
    if without:
        click.echo(f"{without:,} of {len(sources):,} pairs without an edge")


@query.command()
@query_options(
    click.option("--node-type", metavar="TYPE", help="May be left out where there is one node type."),
    ids_option,
    missing_option,
)
@click.option("--features", "names", metavar="A,B", help="Names, separated by commas.  [default: all]")
def features(
    store: str,
    node_type: str | None,
    ids: str,
    missing: str,
    names: str | None,
    as_of: int | None,
    as_json: bool,
) -> None:
    """Show the features of nodes, in the order asked; one that a node has no value for is null.

    Example: gossamer query features shop.store --node-type item --ids 17,42 --features price,genres
    """
    with opened_store(store, as_of) as opened:
        name = named_type(opened.node_types, node_type, "--node-type")
        chosen = None if names is None else list(dict.fromkeys(word.strip() for word in names.split(",")))
        if chosen is None and name in opened.node_types and not opened.node_types[name].features:
            raise misuse(f"node type {name} has no features")
        asked, known = known_ids(opened, name, ids_of(opened, name, ids), missing)
        found = opened.features(only_known(asked, known), name, chosen)
        rows = iter(zip(*map(_plain, found.values())) if found else [()] * len(asked))
        values = [next(rows) if there else None for there in known]
    if as_json:
        results = [
            {"id": one, "features": None if own is None else dict(zip(found, own))} for one, own in zip(asked, values)
        ]
        print_json({"node_type": name, "results": results})
        return
    shown = [[str(one), *map(_cell, [None] * len(found) if own is None else own)] for one, own in zip(asked, values)]
    table([["id", *found], *shown])


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
