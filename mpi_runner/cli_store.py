"""The commands that make a store, say what it holds, and check it: ingest, info, verify."""

import sys
from typing import TYPE_CHECKING, Any

import click

from mpi_runner import launch
from mpi_runner.cli_options import (
    Bytes,
    given_layout,
    json_option,
    layout_options,
    progress_option,
    store_argument,
    threads_option,
)
from mpi_runner.cli_output import misuse, print_json, reported, table

if TYPE_CHECKING:
    from graph_store import IngestReport, Schema

_SHOWN_FILES = 5
_LEAST_MEMORY = 64 << 20


def _policy(name: str, choices: str, text: str) -> Any:
    """Return an option that says what becomes of some rows."""
    return click.option(f"--{name}", metavar=choices, help=f"{text}  [default: {choices.partition('|')[0]}]")


@click.command()
@click.argument("paths", nargs=-1, metavar="[SCHEMA.toml] STORE", type=click.Path())
@click.option("--edges", multiple=True, metavar="FILE", type=click.Path(), help="A file of edges; may be repeated.")
@click.option("--edge-type", metavar="SRC:RELATION:DST", help="What the edges are, as in user:clicks:item.")
@layout_options
@click.option("--id-type", metavar="integer|unsigned|string", help="Type of the ids of both ends.  [default: integer]")
@click.option("--time-unit", metavar="s|ms|us|ns|step", help="What the times count, for whoever reads them.")
@_policy("duplicates", "first|all|sum|max|error", "Rows with the same ends and time.")
@_policy("self-loops", "keep|drop|error", "Edges from a node to itself.")
@_policy("missing-nodes", "create|drop|error", "Ends that no file of nodes lists.")
@_policy("bad-weights", "error|drop", "Weights that are NaN or infinite.")
@_policy("negative-weights", "keep|error|drop", "Weights below zero.")
@_policy("bad-rows", "stop|aside", "Rows that cannot be taken.")
@click.option("--bad-rows-limit", type=click.IntRange(0), metavar="N", help="Rows set aside at most.  [default: 1000]")
@click.option("--reverse", is_flag=True, help="Also store the opposite type, dst:rev_relation:src.")
@click.option("--undirected", is_flag=True, help="Count each pair once, store it both ways (one node type).")
@click.option(
    "--shards", default=16, show_default=True, type=click.IntRange(1, 65_536), help="Shards of the new store."
)
@click.option(
    "--memory", default="2GiB", show_default=True, type=Bytes(_LEAST_MEMORY), help="Memory for rows and sorting."
)
@threads_option
@click.option("--overwrite", is_flag=True, help="Replace a store that is there, once the new one is whole.")
@click.option("--resume", is_flag=True, help="Go on with an ingest that was killed; begin anew where there is none.")
@progress_option
@json_option
def ingest(
    paths: tuple[str, ...],
    shards: int,
    memory: int,
    threads: int | None,
    overwrite: bool,
    resume: bool,
    progress: bool | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Make a store from files of edges, or from a schema of several node and edge types.

    \b
    Examples:
      gossamer ingest --edges clicks.csv --edge-type user:clicks:item --reverse clicks.store
      gossamer ingest schema.toml shop.store --shards 64 --memory 8GiB
      mpiexec -n 4 gossamer ingest schema.toml shop.store
    """
    schema, target = _schema(paths, options)
    shown = sys.stderr.isatty() if progress is None else progress
    settings = {"num_shards": shards, "memory_bytes": memory, "progress": shown}
    settings |= {"overwrite": overwrite, "resume": resume}
    if launch.world_size() > 1:
        from mpi_runner import ingest_ranks

        settings["threads"] = ingest_ranks.threads(threads)
        raise SystemExit(ingest_ranks.run(lambda ranks: _ingest(schema, target, as_json, ranks=ranks, **settings)))
    with reported():
        _ingest(schema, target, as_json, threads=threads, **settings)


def _ingest(schema: "Schema", target: str, as_json: bool, **settings: Any) -> None:
    """Make the store and say what it holds; of several ranks the first says it."""
    import graph_store

    report = graph_store.ingest(schema, target, **settings)
    if launch.world_rank():
        return
    _say_layouts(schema)
    if as_json:
        rejected = None if report.rejected is None else str(report.rejected)
        print_json({**report.info, "rows": report.rows, "seconds": round(report.seconds, 3), "rejected": rejected})
    else:
        _say_ingested(target, report)


def _schema(paths: tuple[str, ...], options: dict[str, Any]) -> "tuple[Schema, str]":
    """Return the schema and the path of the store; what does not go together is wrong usage."""
    from graph_store import BadInput, Schema

    files, edge_type = options.pop("edges"), options.pop("edge_type")
    given = given_layout(options)
    try:
        if not files:
            if len(paths) != 2:
                raise misuse("expected SCHEMA.toml STORE, or --edges FILE --edge-type SRC:RELATION:DST STORE")
            stray = ["edge_type"] * (edge_type is not None) + list(given)
            if stray:
                flags = ", ".join(f"--{name.replace('_', '-')}" for name in stray)
                raise misuse(f"{flags}: with a schema this stands in the schema, or --edges is missing")
            return Schema.from_toml(paths[0]), paths[1]
        if len(paths) != 1:
            raise misuse(f"with --edges expected one STORE, got {len(paths)} paths; repeat --edges for each file")
        if edge_type is None:
            raise misuse("--edges needs --edge-type SRC:RELATION:DST, as in user:clicks:item")
        return Schema.from_edges(list(files), edge_type, **given), paths[0]
    except BadInput as error:
        raise misuse(str(error)) from None


def _say_layouts(schema: "Schema") -> None:
    """Say on stderr how the first files were read, as much of it was told from the files."""
    from graph_store.readers import describe, describe_nodes

    for node_type in schema.node_types.values():
        for listed in node_type.sources[:_SHOWN_FILES]:
            click.echo(f"{listed.path}: read as {describe_nodes(listed, node_type=node_type)}", err=True)
        if len(node_type.sources) > _SHOWN_FILES:
            click.echo(f"{node_type.name}: and {len(node_type.sources) - _SHOWN_FILES} more files", err=True)
    for edge_type in schema.edge_types.values():
        types = {"src_type": schema.node_types[edge_type.name.src], "dst_type": schema.node_types[edge_type.name.dst]}
        for source in edge_type.sources[:_SHOWN_FILES]:
            click.echo(f"{source.path}: read as {describe(source, **types, edge_type=edge_type)}", err=True)
        if len(edge_type.sources) > _SHOWN_FILES:
            click.echo(f"{edge_type.name}: and {len(edge_type.sources) - _SHOWN_FILES} more files", err=True)


def _say_ingested(target: str, report: "IngestReport") -> None:
    rate = report.rows / max(report.seconds, 1e-9)
    click.echo(f"{target}: {report.rows:,} rows in {report.seconds:.2f} s ({rate:,.0f} rows/s)")
    if report.rejected is not None:
        click.echo(f"rows set aside: {report.rejected}")
    _say_counts(report.info)


def _say_counts(info: dict[str, Any]) -> None:
    table([("node type", "nodes"), *info["nodes"].items()])
    click.echo()
    edges = ((name, count, info["duplicates"][name], info["self_loops"][name]) for name, count in info["edges"].items())
    table([("edge type", "edges", "duplicates dropped", "self loops"), *edges])
    left_out = [
        (name, rule.replace("_", " "), rows) for name, rules in info["left_out"].items() for rule, rows in rules.items()
    ]
    if left_out:
        click.echo()
        table([("type", "rows left out", "count"), *left_out])


@click.command()
@store_argument
@json_option
def info(store: str, as_json: bool) -> None:
    """Show what STORE holds: nodes, edges, features, versions, bytes.

    Example: gossamer info clicks.store --json
    """
    from graph_store.info import info as read_info

    with reported():
        found = read_info(store)
    if as_json:
        print_json(found)
        return
    for name in ("format", "uuid", "version", "generation", "num_shards", "bytes", "arena_bytes", "log_bytes"):
        value = found[name]
        click.echo(f"{name.replace('_', ' '):<12} {value if isinstance(value, str) else format(value, ',')}")
    kept = ", ".join(f"{each['generation']} (versions from {each['version']} on)" for each in found["generations"])
    click.echo(f"{'kept':<12} generations {kept}")
    click.echo()
    _say_counts(found)
    for name, rules in found["rules"].items():
        unusual = [f"{rule.replace('_', ' ')}: {choice}" for rule, choice in rules.items()]
        click.echo(f"{name}: {', '.join(unusual)}")
    for name, unit in found["time_units"].items():
        click.echo(f"{name}: times in {unit or 'a unit that nobody stated'}")
    listed = [(name, each) for name, features in found["features"].items() for each in features]
    if listed:
        click.echo()
        table([("type", "feature", "kind", "values"), *((name, *_feature_row(each)) for name, each in listed)])
    click.echo()
    table([("part", "bytes"), *found["parts"].items()])


def _feature_row(feature: dict[str, Any]) -> tuple[str, str, str]:
    """Return name, kind and what its values are."""
    values = feature["dtype"] or {"ids": "int64", "category": "words"}.get(feature["kind"], "text")
    if feature["dim"]:
        values += f"[{feature['dim']}]"
    if feature["scale"]:
        values += f" x {feature['scale']:g}"
    return feature["name"], feature["kind"], values


@click.command()
@store_argument
@json_option
def verify(store: str, as_json: bool) -> None:
    """Read all of STORE, check checksums and invariants, and print each fault.

    Example: gossamer verify clicks.store
    """
    from graph_store.verify import verify as find_faults

    with reported():
        faults = find_faults(store)
    if as_json:
        print_json({"ok": not faults, "faults": faults})
    else:
        for fault in faults:
            click.echo(fault)
        click.echo(
            f"{store}: {f'{len(faults)} fault' + 's' * (len(faults) > 1) if faults else 'no fault'}", err=bool(faults)
        )
    if faults:
        raise click.exceptions.Exit(1)
