"""What an ingest was told and what its sources were like: one goes on only from another of the same settings."""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from graph_store.checkpoints import MAPPED, READ, READING, WRITTEN
from graph_store.errors import BadInput
from graph_store.schema import Schema
from graph_store.sources import EdgeSource, NodeSource
from graph_store.workplace import STATE, STORE, WORK

Settings = dict[str, Any]


def settings_of(schema: Schema, *, num_shards: int, ranks: int) -> Settings:
    """Return the settings that the content of a store depends on, and the sizes and times of the sources' files."""
    files = {}
    for source in _sources(schema):
        if source.table is None and source.path.exists():
            status = source.path.stat()
            files[str(source.path)] = [status.st_size, status.st_mtime_ns]
    return {"num_shards": num_shards, "ranks": ranks, "schema": repr(schema), "files": files}


def _sources(schema: Schema) -> Iterator[EdgeSource | NodeSource]:
    for node_type in schema.node_types.values():
        yield from node_type.sources
    for edge_type in schema.edge_types.values():
        yield from edge_type.sources


def check_repeatable(schema: Schema, target: Path) -> None:
    """Refuse to go on with sources that cannot be read again as they were."""
    if any(source.table is not None for source in _sources(schema)):
        raise BadInput(f"{target}: an ingest of tables in memory cannot be resumed; leave resume out")


def comparison(settings: Settings, target: Path) -> Callable[[Path], None]:
    """Return what refuses a folder of an ingest of other settings."""

    def compare(folder: Path) -> None:
        state = read_state(folder)
        if state is None or state["phase"] == WRITTEN:
            return
        difference = _difference(json.loads(json.dumps(settings)), state["settings"])
        if difference:
            raise BadInput(
                f"{target}: the interrupted ingest in {folder} cannot be resumed: {difference}; make it as it was, or "
                "leave resume out to begin anew"
            )

    return compare


def _difference(now: Settings, before: Settings) -> str | None:
    for key, name in (("num_shards", "num_shards"), ("ranks", "the number of ranks")):
        if now[key] != before[key]:
            return f"{name} was {before[key]} and is {now[key]}"
    for path, seen in before["files"].items():
        if now["files"].get(path, seen) != seen:
            return f"{path} was changed since"
    if now["files"].keys() != before["files"].keys():
        other = sorted(now["files"].keys() ^ before["files"].keys())[0]
        return f"{other} is not among the files of both" if now["schema"] != before["schema"] else f"{other} is gone"
    return "the schema is another" if now["schema"] != before["schema"] else None


def read_state(folder: Path) -> dict[str, Any] | None:
    """Return what `STATE` of a folder says, None where there is none."""
    try:
        return json.loads((folder / STATE).read_bytes())
    except (OSError, ValueError):
        return None


def tidy(folder: Path, state: dict[str, Any], ranks: int) -> None:
    """Remove what was made after the last checkpoint, as far as it would be in the way."""
    store, work = folder / STORE, folder / WORK
    phase = state["phase"]
    if phase in (READING, READ):
        shutil.rmtree(store, ignore_errors=True)
    keep = {"rows", "ids", "sorted", "tables", "adj", "rejected", f"state-{phase}"}
    for path in work.iterdir() if work.exists() else ():
        if path.name.rpartition("-")[0] not in keep:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    if phase == MAPPED:
        shutil.rmtree(store / "gen-1", ignore_errors=True)
        if not all(_has_all_lists(work / f"state-{phase}-{rank}.json") for rank in range(ranks)):
            for path in (store / "arena").glob("gen-1.edges-*"):
                if ".part-" not in path.name:
                    path.unlink()


def _has_all_lists(path: Path) -> bool:
    """Say whether a state is of all lists of its rank."""
    try:
        values = json.loads(path.read_bytes())["values"]
    except (OSError, ValueError):
        return False
    return "lists" in values and bool(values["lists"][4])
