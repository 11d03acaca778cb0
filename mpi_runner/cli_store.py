"""The commands of a store: ingest, info, verify and query."""

import csv
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from graph_store import GraphStore, IngestReport, Schema

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30, "TIB": 1 << 40}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)")
_INTEGER = re.compile(r"-?[0-9]+")
_SHOWN_FILES = 5
_SHOWN_NEIGHBORS = 20

_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")


class Bytes(click.ParamType):
    """A number of bytes, such as `2GiB`, `500MB` or `1048576`."""

    name = "bytes"

    def convert(self, value: Any, param: click.Parameter | None, context: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        match = _SIZE.fullmatch(value.strip())
        unit = match.group(2).upper() if match else ""
        if match is None or unit not in _UNITS:
            self.fail(f"{value!r} is no number of bytes; expected something like 2GiB or 500MB", param, context)
        return int(float(match.group(1)) * _UNITS[unit])


@contextmanager
def _reported() -> Iterator[None]:
    """Turn an error of the data or the store into its one line on stderr and status 1."""
    from graph_store.errors import GraphStoreError

    try:
        yield
    except BrokenPipeError:
        raise
    except (GraphStoreError, OSError) as error:
        name = click.get_current_context().command_path
        click.echo(f"{name}: {' '.join(str(error).split()) or type(error).__name__}", err=True)
        raise click.exceptions.Exit(1) from None


def _misuse(message: str) -> click.UsageError:
    """Return the error of a command used wrongly: one line, status 2."""
    return click.UsageError(message, click.get_current_context())


def _table(rows: Sequence[Sequence[object]]) -> None:
    """Print rows in aligned columns, the first to the left and numbers to the right."""
    texts = [[f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*texts)]
    numeric = [isinstance(cell, int) for cell in rows[-1]]
    for row in texts:
        cells = (cell.rjust(width) if right else cell.ljust(width) for cell, width, right in zip(row, widths, numeric))
        click.echo("  ".join(cells).rstrip())


@click.command()
@click.argument("paths", nargs=-1, metavar="[SCHEMA.toml] STORE", type=click.Path())
@click.option("--edges", multiple=True, metavar="FILE", type=click.Path(), help="A file of edges; may be repeated.")
@click.option("--edge-type", metavar="SRC:RELATION:DST", help="What the edges are, as in user:clicks:item.")
@click.option("--format", "format_", metavar="parquet|csv|tsv|adjacency", help="Told from the file unless stated.")
@click.option("--src", metavar="COL", help="Column of the source: a name or a position from 0.  [default: 0]")
@click.option("--dst", metavar="COL", help="Column of the destination.  [default: 1]")
@click.option("--weight", metavar="COL", help="Column of the weights, if there is one.")
@click.option("--time", metavar="COL", help="Column of the times (integers), if there is one.")
@click.option("--header/--no-header", default=None, help="Whether the first row names the columns; told unless stated.")
@click.option("--delimiter", metavar="C", help="Between columns: a character, 'tab' or 'space'; told unless stated.")
@click.option("--id-type", metavar="integer|string", help="Type of the ids of both ends.  [default: integer]")
@click.option("--reverse", is_flag=True, help="Also store the opposite type, dst:rev_relation:src.")
@click.option("--undirected", is_flag=True, help="Count each pair once, store it both ways (one node type).")
@click.option(
    "--shards", default=16, show_default=True, type=click.IntRange(1, 65_536), help="Shards of the new store."
)
@click.option("--memory", default="2GiB", show_default=True, type=Bytes(), help="Memory for rows and sorting.")
@click.option("--threads", type=click.IntRange(1), help="Threads to use.  [default: all cores]")
@click.option("--overwrite", is_flag=True, help="Replace a store that is there, once the new one is whole.")
@click.option("--progress/--no-progress", default=None, help="Show a progress bar.  [default: on a terminal]")
@_json_option
def ingest(
    paths: tuple[str, ...],
    shards: int,
    memory: int,
    threads: int | None,
    overwrite: bool,
    progress: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a store from files of edges, or from a schema of several node and edge types.

    \b
    Examples:
      gossamer ingest --edges clicks.csv --edge-type user:clicks:item --reverse clicks.store
      gossamer ingest schema.toml shop.store --shards 64 --memory 8GiB
    """
    import graph_store

    schema, target = _schema(paths, options)
    with _reported():
        report = graph_store.ingest(
            schema,
            target,
            num_shards=shards,
            memory_bytes=memory,
            threads=threads,
            progress=sys.stderr.isatty() if progress is None else progress,
            overwrite=overwrite,
        )
        _say_layouts(schema)
        if as_json:
            click.echo(json.dumps({**report.info, "rows": report.rows, "seconds": round(report.seconds, 3)}))
        else:
            _say_ingested(target, report)


def _schema(paths: tuple[str, ...], options: dict[str, Any]) -> "tuple[Schema, str]":
    """Return the schema and the path of the store; what does not go together is wrong usage."""
    from graph_store import BadInput, Schema

    files, edge_type = options.pop("edges"), options.pop("edge_type")
    given = {
        "format" if name == "format_" else name: value for name, value in options.items() if value not in (None, False)
    }
    if options["header"] is False:
        given["header"] = False
    try:
        if not files:
            if len(paths) != 2:
                raise _misuse("expected SCHEMA.toml STORE, or --edges FILE --edge-type SRC:RELATION:DST STORE")
            stray = ["edge_type"] * (edge_type is not None) + list(given)
            if stray:
                flags = ", ".join(f"--{name.replace('_', '-')}" for name in stray)
                raise _misuse(f"{flags}: with a schema this stands in the schema, or --edges is missing")
            return Schema.from_toml(paths[0]), paths[1]
        if len(paths) != 1:
            raise _misuse(f"with --edges expected one STORE, got {len(paths)} paths; repeat --edges for each file")
        if edge_type is None:
            raise _misuse("--edges needs --edge-type SRC:RELATION:DST, as in user:clicks:item")
        return Schema.from_edges(list(files), edge_type, **given), paths[0]
    except BadInput as error:
        raise _misuse(str(error)) from None


def _say_layouts(schema: "Schema") -> None:
    """Say on stderr how the first files were read, as much of it was told from the files."""
    from graph_store.readers import describe

    for edge_type in schema.edge_types.values():
        types = {"src_type": schema.node_types[edge_type.name.src], "dst_type": schema.node_types[edge_type.name.dst]}
        for source in edge_type.sources[:_SHOWN_FILES]:
            click.echo(f"{source.path}: read as {describe(source, **types)}", err=True)
        if len(edge_type.sources) > _SHOWN_FILES:
            click.echo(f"{edge_type.name}: and {len(edge_type.sources) - _SHOWN_FILES} more files", err=True)


def _say_ingested(target: str, report: "IngestReport") -> None:
    rate = report.rows / max(report.seconds, 1e-9)
    click.echo(f"{target}: {report.rows:,} rows in {report.seconds:.2f} s ({rate:,.0f} rows/s)")
    _say_counts(report.info)


def _say_counts(info: dict[str, Any]) -> None:
    _table([("node type", "nodes"), *info["nodes"].items()])
    click.echo()
    edges = ((name, count, info["duplicates"][name], info["self_loops"][name]) for name, count in info["edges"].items())
    _table([("edge type", "edges", "duplicates dropped", "self loops"), *edges])


@click.command()
@click.argument("store", type=click.Path())
@_json_option
def info(store: str, as_json: bool) -> None:
    """Show what STORE holds: nodes, edges, shards, bytes.

    Example: gossamer info clicks.store --json
    """
    from graph_store.store import info as read_info

    with _reported():
        found = read_info(store)
    if as_json:
        click.echo(json.dumps(found))
        return
    for name, value in found.items():
        if not isinstance(value, dict):
            click.echo(f"{name.replace('_', ' '):<12} {value if isinstance(value, str) else format(value, ',')}")
    click.echo()
    _say_counts(found)


@click.command()
@click.argument("store", type=click.Path())
@_json_option
def verify(store: str, as_json: bool) -> None:
    """Read all of STORE, check checksums and invariants, and print each fault.

    Example: gossamer verify clicks.store
    """
    from graph_store.verify import verify as find_faults

    with _reported():
        faults = find_faults(store)
    if as_json:
        click.echo(json.dumps({"ok": not faults, "faults": faults}))
    else:
        for fault in faults:
            click.echo(fault)
        click.echo(
            f"{store}: {f'{len(faults)} fault' + 's' * (len(faults) > 1) if faults else 'no fault'}", err=bool(faults)
        )
    if faults:
        raise click.exceptions.Exit(1)


@click.group(no_args_is_help=False)
def query() -> None:
    """Ask STORE for neighbours, samples and degrees, by the ids it was made from."""


def _query_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add what every query takes."""
    for add in (
        _json_option,
        click.option(
            "--ids",
            required=True,
            metavar="A,B,C",
            help="Ids, separated by commas; string ids may stand in double quotes.",
        ),
        click.option("--edge-type", metavar="SRC:RELATION:DST", help="May be left out where there is one edge type."),
        click.argument("store", type=click.Path()),
    ):
        command = add(command)
    return command


@contextmanager
def _asked(store: str, edge_type: str | None, ids: str) -> "Iterator[tuple[GraphStore, str, list[Any]]]":
    """Open the store and give it with the edge type's name and the ids; report errors."""
    from graph_store.store import open as open_store

    with _reported(), open_store(store) as opened:
        name = edge_type or (next(iter(opened.edge_types)) if len(opened.edge_types) == 1 else None)
        if name is None:
            raise _misuse(f"--edge-type is needed; the store has {', '.join(opened.edge_types)}")
        known = opened.edge_types.get(name)
        id_type = "string" if known is None else opened.node_types[known.src].id_type
        yield opened, name, _parse_ids(ids, id_type)


def _parse_ids(text: str, id_type: str) -> list[Any]:
    """Read `a,b,c`; a string id may stand in double quotes, and then hold commas."""
    words = next(csv.reader([text]), [])
    if id_type == "string":
        return words
    wrong = next((word for word in words if not _INTEGER.fullmatch(word.strip())), None)
    if not words or wrong is not None:
        raise _misuse(
            f"--ids: {wrong if words else text!r} is no integer; the ids of this node type are integers, as in 17,42"
        )
    return [int(word) for word in words]


def _checked(ids: list[Any]) -> Any:
    """Return ids as a store takes them; an integer beyond int64 is the id of no node."""
    import numpy as np

    from graph_store.errors import UnknownId

    if not ids or isinstance(ids[0], str):
        return ids
    for one in ids:
        if not -(1 << 63) <= one < 1 << 63:
            raise UnknownId(f"id {one} is no node: it is out of the range of int64")
    return np.array(ids, np.int64)


@query.command()
@_query_options
@click.option("--limit", type=click.IntRange(0), metavar="K", help="At most so many neighbours each.")
def neighbors(store: str, edge_type: str | None, ids: str, limit: int | None, as_json: bool) -> None:
    """List the neighbours of nodes, in the order asked.

    Example: gossamer query neighbors clicks.store --edge-type user:clicks:item --ids 17,42 --json
    """
    with _asked(store, edge_type, ids) as (opened, name, asked):
        keys = _checked(asked)
        found = opened.neighbors(keys, name, limit=limit)
        degrees = opened.degree(keys, name).tolist()
        columns = {"neighbors": found.ids, "weights": found.weights, "times": found.times}
        lists = {key: values.tolist() for key, values in columns.items() if values is not None}
        results = []
        for row, (one, degree) in enumerate(zip(asked, degrees)):
            span = slice(int(found.indptr[row]), int(found.indptr[row + 1]))
            results.append({"id": one, "degree": degree, **{key: values[span] for key, values in lists.items()}})
    if as_json:
        click.echo(json.dumps({"edge_type": name, "results": results}))
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
@_query_options
def degree(store: str, edge_type: str | None, ids: str, as_json: bool) -> None:
    """Count the neighbours of nodes, in the order asked.

    Example: gossamer query degree clicks.store --edge-type user:clicks:item --ids 17,42
    """
    with _asked(store, edge_type, ids) as (opened, name, asked):
        degrees = opened.degree(_checked(asked), name).tolist()
    if as_json:
        results = [{"id": one, "degree": count} for one, count in zip(asked, degrees)]
        click.echo(json.dumps({"edge_type": name, "results": results}))
        return
    _table([("id", "degree"), *((str(one), count) for one, count in zip(asked, degrees))])


@query.command()
@_query_options
@click.option("--fanouts", required=True, metavar="10,5", help="Neighbours a node for each hop; -1 takes all.")
@click.option("--seed", default=0, show_default=True, type=int, help="The same seed draws the same sample.")
@click.option("--threads", type=click.IntRange(1), help="Threads to use; the sample does not depend on it.")
def sample(
    store: str, edge_type: str | None, ids: str, fanouts: str, seed: int, threads: int | None, as_json: bool
) -> None:
    """Sample the neighbourhood of nodes, without replacement.

    Example: gossamer query sample clicks.store --edge-type user:clicks:item --ids 17 --fanouts 10,5 --seed 7 --json
    """
    sizes = _parse_fanouts(fanouts)
    with _asked(store, edge_type, ids) as (opened, name, asked):
        found = opened.sample(_checked(asked), name, fanouts=sizes, seed=seed, threads=threads)
        hops = [{"src": _plain(hop.src), "dst": _plain(hop.dst)} for hop in found.hops]
        names = [hop.edge_type for hop in found.hops]
    if as_json:
        click.echo(json.dumps({"edge_type": name, "seeds": asked, "hops": hops}))
        return
    for number, (hop, way) in enumerate(zip(hops, names), 1):
        click.echo(f"hop {number}, {way}: {len(hop['src']):,} drawn")
        for src, dst in zip(hop["src"][:_SHOWN_NEIGHBORS], hop["dst"]):
            click.echo(f"  {src} -> {dst}")
        if len(hop["src"]) > _SHOWN_NEIGHBORS:
            click.echo(f"  … {len(hop['src']) - _SHOWN_NEIGHBORS:,} more; --json shows them")


def _plain(values: Any) -> list[Any]:
    return list(values.tolist())


def _parse_fanouts(text: str) -> list[int]:
    words: Iterable[str] = [word.strip() for word in text.split(",")]
    if not all(_INTEGER.fullmatch(word) and int(word) >= -1 for word in words):
        raise _misuse(f"--fanouts {text!r}: expected numbers from -1 (all) on with commas, as in 10,5")
    return [int(word) for word in words]
