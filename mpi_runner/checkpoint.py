"""The checkpoint of a run: the tables of all ranks and what they belong to, one cut an epoch."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mpi_runner.errors import RunFolderError, StoreMismatch
from mpi_runner.run_folder import RunFolder, write_whole
from mpi_runner.transport import Transport

if TYPE_CHECKING:
    from graph_store import GraphStore
    from sparse_tables import LocalTable

CURRENT = "current.json"
FORMAT = 1


def save(
    transport: Transport,
    folder: RunFolder,
    tables: Mapping[str, "LocalTable"],
    *,
    epoch: int,
    facts: dict[str, Any],
) -> None:
    """Write the tables of all ranks as the run's checkpoint. Collective.

    Each rank writes its own shards into `checkpoint/epoch-N`; when all are on disk rank 0 renames
    `current.json`, which names that folder, into place and removes the older one. A reader finds the
    checkpoint of before or of now.

    Parameters
    ----------
    transport : Transport
    folder : RunFolder
        On a disk that all ranks share.
    tables : mapping of str to LocalTable
        This rank's shards of each table.
    epoch : int
        Epochs done.
    facts : dict
        JSON values to keep: the store's uuid and version, whether the run has ended.
    """
    from sparse_tables.checkpoint import shard_entries, write_manifest, write_shard

    name = f"epoch-{epoch:04d}"
    place = folder.checkpoint / name
    for side, table in tables.items():
        (place / side).mkdir(parents=True, exist_ok=True)
        own = [asdict(write_shard(table, shard, place / side)) for shard in table.shards]
        gathered = transport.gather(json.dumps(own).encode(), what=f"checkpoint of table {side!r}")
        if transport.rank == 0:
            entries = [entry for part in gathered for entry in json.loads(part)]
            write_manifest(place / side, table.config, shard_entries(entries), {**facts, "epoch": epoch})
    if transport.rank == 0:
        current = {"format": FORMAT, "epoch": epoch, "folder": name, "tables": sorted(tables), **facts}
        write_whole(folder.checkpoint / CURRENT, json.dumps(current, indent=1) + "\n")
        for other in folder.checkpoint.glob("epoch-*"):
            if other.name != name:
                shutil.rmtree(other, ignore_errors=True)
    transport.barrier("the end of the checkpoint")


def read(folder: RunFolder) -> dict[str, Any]:
    """Return what `current.json` says: epoch, folder, tables, uuid and version of the store.

    Raises
    ------
    RunFolderError
        If there is no whole checkpoint, or it is damaged or of another format.
    """
    path = folder.checkpoint / CURRENT
    try:
        current = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise RunFolderError(
            f"the run at {folder.path} has no checkpoint: it has not come to one yet, or it failed"
        ) from None
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read ({error}); train again or restore it from a copy") from None
    if not isinstance(current, dict) or current.get("format") != FORMAT:
        raise RunFolderError(f"{path} is no checkpoint of format {FORMAT}, the one this version reads")
    name, tables = current.get("folder"), current.get("tables")
    named = isinstance(name, str) and re.fullmatch(r"epoch-\d+", name)
    if not (named and isinstance(tables, list) and all(isinstance(table, str) for table in tables)):
        raise RunFolderError(
            f"{path} is damaged: it names no folder or no tables; train again or restore it from a copy"
        )
    return current


def load(folder: RunFolder, *, threads: int | None = None) -> tuple[dict[str, "LocalTable"], dict[str, Any]]:
    """Return every shard of the tables of a run's checkpoint, in this process, and what `read` returns.

    Raises
    ------
    RunFolderError
        As `read`.
    sparse_tables.TableError
        If a file of a table is missing, truncated or changed.
    """
    from sparse_tables import LocalTable

    current = read(folder)
    place: Path = folder.checkpoint / current["folder"]
    return {side: LocalTable.load(place / side, threads=threads) for side in current["tables"]}, current


def check_store(current: Mapping[str, Any], store: "GraphStore") -> None:
    """Refuse a store that the checkpoint was not trained on.

    Raises
    ------
    StoreMismatch
        If the uuids differ: node ids mean something else there.
    """
    if current["store_uuid"] != store.uuid:
        raise StoreMismatch(
            f"the checkpoint was trained on store {current['store_uuid']}, but {store.path} is {store.uuid}; "
            "a store that was ingested again has other nodes: train again, or point data.store at the old one"
        )
