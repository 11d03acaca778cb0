"""The commands that change a store, or make another of it: update, changes, compact, repair, reshard, export."""

import time as clock
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from mpi_runner.cli_options import (
    as_of_option,
    given_layout,
    json_option,
    layout_options,
    progress_option,
    shown_progress,
    store_argument,
    threads_option,
)
from mpi_runner.cli_output import misuse, print_json, reported, table

if TYPE_CHECKING:
    from graph_store import Changes, EdgeSet, GraphWriter
    from graph_store.file_updates import EdgeFile, FileUpdates, NodeFile

_OF_EDGES = ("src", "dst", "weight", "time", "relation")


@click.command()
@store_argument
@click.option("--edges", multiple=True, metavar="FILE", type=click.Path(), help="A file of edges; may be repeated.")
@click.option("--edge-type", metavar="SRC:RELATION:DST", help="May be left out where there is one edge type.")
@click.option("--nodes", multiple=True, metavar="FILE", type=click.Path(), help="A file of nodes; may be repeated.")
@click.option("--node-type", metavar="TYPE", help="May be left out where there is one node type.")
@click.option("--delete", is_flag=True, help="Delete what the files name instead of adding it.")
@click.option("--expire-before", type=int, metavar="TIME", help="At last delete the edges of earlier times.")
@click.option(
    "--batch-rows", default=10_000, show_default=True, type=click.IntRange(1), help="About how many rows a commit has."
)
@click.option("--skip-rows", default=0, type=click.IntRange(0), metavar="N", help="Leave out rows that are in already.")
@layout_options
@click.option("--id", metavar="COL", help="Column of the ids in a file of nodes.  [default: 0]")
@click.option("--separator", metavar="C", help="Between the numbers of a cell, for vectors and ids.  [default: blanks]")
@click.option("--keep", default=0, type=click.IntRange(0), metavar="K", help="Older generations that a fold keeps.")
@threads_option
@progress_option
@json_option
def update(
    store: str,
    edges: tuple[str, ...],
    edge_type: str | None,
    nodes: tuple[str, ...],
    node_type: str | None,
    delete: bool,
    expire_before: int | None,
    batch_rows: int,
    skip_rows: int,
    separator: str | None,
    keep: int,
    threads: int | None,
    progress: bool | None,
    as_json: bool,
    **layout: Any,
) -> None:
    """Add edges and nodes to STORE from files, or delete them; each commit is durable, all or nothing.

    \b
    Examples:
      gossamer update clicks.store --edges today.csv --edge-type user:clicks:item
      gossamer update clicks.store --edges wrong.csv --delete
      gossamer update shop.store --nodes items.parquet --node-type item
      gossamer update clicks.store --expire-before 1700000000
    """
    given = given_layout(layout)
    _check_use(given, edges=edges, nodes=nodes, expire=expire_before is not None)
    _check_separator(separator)
    from graph_store.file_updates import FileUpdates
    from graph_store.progress import Progress
    from graph_store.readers import source_bytes
    from graph_store.writer import GraphWriter

    start = clock.monotonic()
    with reported():
        with GraphWriter(store, threads=threads, keep=keep) as writer, Progress(shown_progress(progress)) as bar:
            of_edges = _edge_type(writer, edge_type) if edges or expire_before is not None else ""
            of_nodes = _node_type(writer, node_type) if nodes else ""
            how: dict[str, Any] = {"separator": separator, "delete": delete}
            edge_files = [_edge_file(writer, of_edges, source, **how) for source in _sources(edges, given, nodes=False)]
            node_files = [_node_file(writer, of_nodes, source, **how) for source in _sources(nodes, given, nodes=True)]
            parts: list[list[Any]] = [edge_files, node_files] if delete else [node_files, edge_files]
            files: list[EdgeFile | NodeFile] = [file for part in parts for file in part]
            updates = FileUpdates(writer, batch_rows=batch_rows, skip_rows=skip_rows, progress=bar)
            bar.phase("updating", sum(source_bytes(file.source) for file in files), unit="B")
            for file in files:
                updates.run(file, delete=delete)
            updates.finish()
            if expire_before is not None:
                updates.expire(of_edges, expire_before)
            removed = updates.removed()
        for file in files:
            click.echo(str(file), err=True)
    _say_updated(store, updates, removed, clock.monotonic() - start, as_json=as_json)


def _check_use(given: dict[str, Any], *, edges: Sequence[str], nodes: Sequence[str], expire: bool) -> None:
    """Raise the error of a wrong use where options do not go together."""
    if not edges and not nodes and not expire:
        raise misuse("nothing to do; expected --edges FILE, --nodes FILE or --expire-before TIME")
    stray = [name for name in given if name in _OF_EDGES and not edges]
    if stray:
        raise misuse(f"--{stray[0]} is for a file of edges; --edges is missing")
    if "id" in given and not nodes:
        raise misuse("--id is for a file of nodes; --nodes is missing")


def _check_separator(separator: str | None) -> None:
    from graph_store.errors import BadInput
    from graph_store.feature_type import FeatureType

    try:
        FeatureType("separator", kind="ids", separator=separator)
    except BadInput as error:
        raise misuse(f"--separator: {error}") from None


def _edge_type(writer: "GraphWriter", given: str | None) -> str:
    names = [entry.name for entry in writer.manifest.edge_types]
    forward = [name for number, name in enumerate(names) if writer.manifest.forward(number) == number]
    if given is None and len(forward) == 1:
        return forward[0]
    if given is None:
        raise misuse(f"--edge-type is needed; the store has {', '.join(names)}")
    return given


def _node_type(writer: "GraphWriter", given: str | None) -> str:
    names = [entry.name for entry in writer.manifest.node_types]
    if given is None and len(names) > 1:
        raise misuse(f"--node-type is needed; the store has {', '.join(names)}")
    return given or names[0]


def _sources(paths: Sequence[str], given: dict[str, Any], *, nodes: bool) -> list[Any]:
    """Return the sources of the files that paths stand for."""
    from graph_store.errors import BadInput
    from graph_store.sources import EdgeSource, NodeSource, expand

    kind: Any = NodeSource if nodes else EdgeSource
    options = {name: value for name, value in given.items() if name not in (_OF_EDGES if nodes else ("id",))}
    files = [file for path in paths for file in expand(path)]
    try:
        return [kind(file, **options) for file in files]
    except BadInput as error:
        raise misuse(str(error)) from None


def _edge_file(writer: "GraphWriter", name: str, source: Any, *, separator: str | None, delete: bool) -> "EdgeFile":
    from graph_store.edge_type import EdgeTypeName
    from graph_store.errors import BadInput
    from graph_store.file_updates import EdgeFile, stored_types

    try:
        words = EdgeTypeName.parse(name)
    except BadInput as error:
        raise misuse(str(error)) from None
    if words.is_wildcard != (source.relation is not None):
        raise misuse("--relation COL and an --edge-type SRC:*:DST go together; give both or neither")
    entry = stored_types(writer, words, source)[0]
    if delete and source.weight is not None:
        raise misuse("--weight: edges are deleted by their ends, and by --time where it is given; leave it out")
    for role, has in (("weight", entry.weighted), ("time", entry.timed)):
        if getattr(source, role) is not None and not has:
            raise misuse(f"--{role}: {entry.name} has no {role}s; leave it out")
        if getattr(source, role) is None and has and not delete:
            raise misuse(f"{entry.name} has {role}s; name their column by --{role} COL")
    return EdgeFile.of_store(writer, name, source, separator=separator, ends_only=delete)


def _node_file(writer: "GraphWriter", name: str, source: Any, *, separator: str | None, delete: bool) -> "NodeFile":
    from graph_store.file_updates import NodeFile

    return NodeFile.of_store(writer, name, source, separator=separator, ids_only=delete)


def _say_updated(store: str, updates: "FileUpdates", removed: dict[str, int], seconds: float, *, as_json: bool) -> None:
    report = updates.report
    if as_json:
        answer = {"version": report.version, "rows": report.rows, "new_nodes": report.new_nodes}
        answer |= {"removed": removed, "dropped": report.dropped, "batches": updates.num_batches}
        answer["seconds"] = round(seconds, 3)
        print_json(answer)
        return
    rate = report.rows / max(seconds, 1e-9)
    click.echo(
        f"{store}: version {report.version}, {_counted(report.rows, 'row')} in "
        f"{_counted(updates.num_batches, 'commit')}, "
        f"{seconds:.2f} s ({rate:,.0f} rows/s)"
    )
    for name, count in report.new_nodes.items():
        click.echo(f"new {name}: {count:,}")
    for name, count in removed.items():
        click.echo(f"removed {name}: {count:,}")
    for name, count in report.dropped.items():
        click.echo(f"left out, {name.replace('_', ' ')}: {count:,}")


def _counted(number: int, word: str) -> str:
    return f"{number:,} {word}{'s' * (number != 1)}"


@click.command()
@store_argument
@click.option("--since", required=True, type=click.IntRange(1), metavar="VERSION", help="A version that is kept.")
@click.option("--until", type=click.IntRange(1), metavar="VERSION", help="A later one.  [default: the newest]")
@click.option("--list", "listed", is_flag=True, help="Also the edges and nodes themselves.")
@threads_option
@json_option
def changes(store: str, since: int, until: int | None, listed: bool, threads: int | None, as_json: bool) -> None:
    """Count what came and went in STORE after a version, edges of reverse types left out.

    Example: gossamer changes clicks.store --since 3 --list --json
    """
    if until is not None and until < since:
        raise misuse(f"--until {until} is before --since {since}; give the older version as --since")
    from graph_store.changes import changes as find_changes

    with reported():
        found = find_changes(store, since, until, threads=threads)
    if as_json:
        print_json(_changes_object(found, listed))
        return
    click.echo(f"{store}: from version {found.since} to {found.until}")
    types = ((name, len(found.added[name]), len(found.removed[name])) for name in found.added)
    table([("edge type", "added", "removed"), *types])
    click.echo()
    ends = ((name, len(found.new_nodes[name]), len(found.gone_nodes[name])) for name in found.new_nodes)
    table([("node type", "added", "removed"), *ends])
    if listed:
        for mark, sets in (("+", found.added), ("-", found.removed)):
            for name, edges in sets.items():
                _say_edges(mark, name, edges)
        for mark, ids in (("+", found.new_nodes), ("-", found.gone_nodes)):
            for name, nodes in ids.items():
                for one in nodes.tolist():
                    click.echo(f"{mark} {name}  {one}")


def _changes_object(found: "Changes", listed: bool) -> dict[str, Any]:
    edges: dict[str, dict[str, Any]] = {}
    for name in found.added:
        sets = {"added": found.added[name], "removed": found.removed[name]}
        edges[name] = {key: len(each) for key, each in sets.items()}
        if listed:
            edges[name] |= {f"{key}_edges": _edge_lists(each) for key, each in sets.items()}
    nodes: dict[str, dict[str, Any]] = {}
    for name in found.new_nodes:
        ids = {"added": found.new_nodes[name], "removed": found.gone_nodes[name]}
        nodes[name] = {key: len(each) for key, each in ids.items()}
        if listed:
            nodes[name] |= {f"{key}_ids": each.tolist() for key, each in ids.items()}
    return {"since": found.since, "until": found.until, "edges": edges, "nodes": nodes}


def _edge_lists(edges: "EdgeSet") -> dict[str, list[Any]]:
    columns = {"src": edges.src, "dst": edges.dst, "weights": edges.weights, "times": edges.times}
    return {name: column.tolist() for name, column in columns.items() if column is not None}


def _say_edges(mark: str, name: str, edges: "EdgeSet") -> None:
    for cells in zip(*_edge_lists(edges).values()):
        click.echo(f"{mark} {name}  {'  '.join(map(str, cells))}")


@click.command()
@store_argument
@click.option("--keep", default=0, type=click.IntRange(0), metavar="K", help="Older generations to keep.  [default: 0]")
@threads_option
@progress_option
@json_option
def compact(store: str, keep: int, threads: int | None, progress: bool | None, as_json: bool) -> None:
    """Fold all updates of STORE into a new generation, and give back the space of what was deleted.

    Readers go on meanwhile; a generation that one of them has open stays until the next fold.

    Example: gossamer compact clicks.store --keep 1
    """
    from graph_store.info import bytes_by_part
    from graph_store.writer import GraphWriter

    start = clock.monotonic()
    with reported():
        with GraphWriter(store, threads=threads, fold_rows=0, keep=keep) as writer:
            before = sum(bytes_by_part(writer.path).values())
            version = writer.fold(progress=shown_progress(progress))
            generation = writer.manifest.generation
        after = sum(bytes_by_part(writer.path).values())
    seconds = clock.monotonic() - start
    if as_json:
        answer = {"version": version, "generation": generation, "bytes_before": before, "bytes_after": after}
        print_json({**answer, "seconds": round(seconds, 3)})
        return
    sizes = f"{before:,} bytes before, {after:,} after"
    click.echo(f"{store}: version {version} is generation {generation}, {sizes}, {seconds:.2f} s")


@click.command()
@store_argument
@threads_option
@json_option
def repair(store: str, threads: int | None, as_json: bool) -> None:
    """Make a damaged STORE sound with all of it that can be read; say what was done and what is lost.

    A sound store is left as it is. Damaged files that held data are put aside in STORE/damaged. Ends with status 1
    where faults are left.

    Example: gossamer repair clicks.store
    """
    from graph_store.repair import repair as make_sound

    with reported():
        report = make_sound(store, threads=threads)
    if as_json:
        answer = {"version": report.version, "faults": report.faults, "done": report.done, "lost": report.lost}
        print_json({**answer, "left": report.left, "kept": None if report.kept is None else str(report.kept)})
    else:
        for head, lines in (("done", report.done), ("lost", report.lost), ("left", report.left)):
            for line in lines:
                click.echo(f"{head}: {line}")
        if report.kept is not None:
            click.echo(f"put aside: {report.kept}")
        found = (
            f"{_counted(len(report.faults), 'fault')} found, {len(report.left):,} left" if report.faults else "sound"
        )
        click.echo(f"{store}: {found}; version {report.version}")
    if report.left:
        raise click.exceptions.Exit(1)


@click.command()
@store_argument
@click.argument("out", type=click.Path())
@click.option("--shards", required=True, type=click.IntRange(1, 65_536), help="Shards of the new store.")
@click.option("--overwrite", is_flag=True, help="Replace a store that is at OUT, once the new one is whole.")
@threads_option
@progress_option
@json_option
def reshard(
    store: str, out: str, shards: int, overwrite: bool, threads: int | None, progress: bool | None, as_json: bool
) -> None:
    """Make a store OUT of the newest version of STORE, the same but for the number of its shards.

    Example: gossamer reshard clicks.store wide.store --shards 64
    """
    from graph_store.reshard import reshard as make_resharded

    with reported():
        shown = shown_progress(progress)
        found = make_resharded(store, out, num_shards=shards, threads=threads, overwrite=overwrite, progress=shown)
    if as_json:
        print_json({**found, "seconds": round(found["seconds"], 3)})
        return
    edges = sum(found["edges"].values())
    click.echo(f"{out}: {edges:,} edges in {found['num_shards']:,} shards, {found['seconds']:.2f} s")


@click.command()
@store_argument
@click.argument("folder", type=click.Path())
@as_of_option
@progress_option
@json_option
def export(store: str, folder: str, as_of: int | None, progress: bool | None, as_json: bool) -> None:
    """Write STORE into a new FOLDER: Parquet files, and the schema that makes the same store of them again.

    Example: gossamer export clicks.store clicks && gossamer ingest clicks/schema.toml again.store
    """
    from graph_store.parquet_export import export as write_files
    from graph_store.store import open as open_store

    start = clock.monotonic()
    with reported(), open_store(store, as_of=as_of) as opened:
        schema = write_files(opened, folder, progress=shown_progress(progress))
        version = opened.version
    files = sorted(path.name for path in schema.parent.iterdir())
    seconds = clock.monotonic() - start
    if as_json:
        print_json({"version": version, "schema": str(schema), "files": files, "seconds": round(seconds, 3)})
        return
    click.echo(
        f"{folder}: version {version} of {store} in {len(files):,} files, {seconds:.2f} s; {schema} makes it again"
    )
