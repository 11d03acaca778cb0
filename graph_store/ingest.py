"""Ingest: files and tables of nodes and edges → a new store, within a memory budget, whole or not at all.

The sources are read once. Ids get codes, and rows wait with codes for ends (`intake`). Then ids become nodes
(`id_merge`), rows go to the shard of their source (`row_mapper`), and each shard's rows become sorted lists
(`shard_lists`), which are packed and written to the shards and the arena (`store_output`). What outgrows memory waits
in files (`spool`). Everything happens in a folder beside the store (`workplace`).
"""

import os
import shutil
import time
import uuid
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from graph_store.checkpoints import WRITTEN, Checkpoints, begin
from graph_store.errors import BadInput
from graph_store.ingest_run import IngestRun
from graph_store.ingest_settings import Settings, check_repeatable, comparison, read_state, settings_of, tidy
from graph_store.kernels import num_threads
from graph_store.manifest import NAME as MANIFEST
from graph_store.manifest import Manifest
from graph_store.memory_budget import MIN_MEMORY, Budget, anonymous_bytes, let_go_of_code, thrifty_pool
from graph_store.progress import Progress
from graph_store.ranks import OneRank, Ranks, gather_json, together
from graph_store.resident import arena_folder
from graph_store.run_context import RunContext
from graph_store.schema import Schema
from graph_store.shared_folder import shared_job_folder
from graph_store.source_parts import in_parts
from graph_store.store_output import StoreOutput
from graph_store.workplace import REJECTS, STORE, WORK, rejects_path
from graph_store.write_errors import write_errors


@dataclass(frozen=True)
class IngestReport:
    """What an ingest did.

    Attributes
    ----------
    rows : int
        Rows of edges read.
    seconds : float
    info : dict
        As of `graph_store.info`.
    counts : dict of str to dict of str to int
        By type the rows that were left out: "self_loops", "missing_nodes", "bad_weights", "negative_weights" as the
        type's rules say, and "bad_rows" that were set aside.
    rejected : Path or None
        The file of the rows that were set aside, a JSON object a line.
    """

    rows: int
    seconds: float
    info: dict
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    rejected: Path | None = None


def ingest(
    schema: Schema,
    path: str | os.PathLike[str],
    *,
    num_shards: int = 16,
    memory_bytes: int = 2 << 30,
    threads: int | None = None,
    progress: bool = False,
    overwrite: bool = False,
    resume: bool = False,
    ranks: Ranks | None = None,
) -> IngestReport:
    """Make a store from the files and tables that a schema names.

    Parameters
    ----------
    schema : Schema
    path : path
        Where the store will be. It appears whole, or not at all.
    num_shards : int
        1 to 65,536; fixed for the store's life.
    memory_bytes : int
        What this process may grow by, once it has numba; kept from 128 MiB on, at least 64 MiB. The store does not
        depend on it.
    threads : int, optional
        All cores that this process may use when None. The store does not depend on it.
    progress : bool
        Show a bar on stderr.
    overwrite : bool
        Replace a store at `path` at the very end.
    resume : bool
        Go on with an ingest into `path` that was killed, from its last checkpoint (about one a minute is made), to the
        same store; begin anew where there is none. Without it what such an ingest left is removed.
    ranks : Ranks, optional
        The processes that make the store together: all call this with the same arguments, and see the same disk.

    Returns
    -------
    IngestReport

    Raises
    ------
    BadInput
        A source, a row or a setting that cannot be taken; nothing is left behind. With `resume` settings or sources
        that are not those of the killed ingest, which is left as it is.
    GraphStoreError
        The disk is full, or the folder of `path` cannot be written.
    """
    from graph_store.info import info

    if not 1 <= num_shards <= 1 << 16:
        raise BadInput(f"num_shards must be 1 to 65536, got {num_shards}")
    if memory_bytes < MIN_MEMORY:
        raise BadInput(f"the memory budget must be at least {MIN_MEMORY >> 20} MiB, got {memory_bytes} bytes")
    target, start = Path(path), time.monotonic()
    _load_kernels()
    before = anonymous_bytes()
    ranks = OneRank() if ranks is None else ranks
    settings = settings_of(schema, num_shards=num_shards, ranks=ranks.size)
    if resume:
        check_repeatable(schema, target)
    with (
        write_errors(target),
        shared_job_folder(
            target, ranks, overwrite=overwrite, resume=comparison(settings, target) if resume else None
        ) as folder,
        Progress(progress and ranks.rank == 0) as bar,
        thrifty_pool(memory_bytes),
    ):
        found = together(ranks, partial(_state, folder, settings, ranks))
        checkpoints = Checkpoints(folder, ranks, gather_json(ranks, found)[0])
        if checkpoints.phase < WRITTEN:
            _load_libraries()
            let_go_of_code(memory_bytes)
            budget = Budget.of(memory_bytes, anonymous_bytes() - before)
            parts = in_parts(schema, ranks.size)
            store, work, cores = folder / STORE, folder / WORK, num_threads(threads)
            context = RunContext(parts, store, work, num_shards, budget, cores, ranks, bar, checkpoints)
            report = _make(context, folder)
        else:
            report = checkpoints.report
            together(ranks, partial(_forget_replaced, folder, target, checkpoints.identity, ranks))
    rejected = rejects_path(target.resolve()) if report["rejected"] else None
    return IngestReport(report["rows"], time.monotonic() - start, info(target), report["counts"], rejected)


def _state(folder: Path, settings: Settings, ranks: Ranks) -> dict | None:
    """Return where the ingest is, as rank 0 finds it in its folder; what is in its way is removed."""
    if ranks.rank:
        return None
    state = read_state(folder)
    if state is None:
        state = begin(folder, str(uuid.uuid4()), settings)
    elif state["phase"] < WRITTEN:
        tidy(folder, state, ranks.size)
    if state["phase"] < WRITTEN:
        for path in (arena_folder(folder / STORE), folder / WORK):
            path.mkdir(parents=True, exist_ok=True)
    return state


def _make(context: RunContext, folder: Path) -> dict:
    """Make the store, as far as it is not made; returns what is told of it."""
    run, ranks = IngestRun(context), context.ranks
    run.run()
    StoreOutput(run).write(context.checkpoints.identity)
    counts = {name: count for name, count in run.counts.items() if count}
    report = {"rows": run.rows_read, "counts": counts, "rejected": any("bad_rows" in each for each in counts.values())}
    together(ranks, partial(_finish, context.checkpoints, context.work, folder / REJECTS, ranks, report))
    return report


def _finish(checkpoints: Checkpoints, work: Path, rejects: Path, ranks: Ranks, report: dict) -> None:
    """Put the rows that the ranks set aside into one file, in the order of the ranks, and say that all is done."""
    if ranks.rank:
        return
    rejects.unlink(missing_ok=True)
    for path in [work / f"rejected-{rank}.jsonl" for rank in range(ranks.size)]:
        if path.exists() and path.stat().st_size:
            with open(path, "rb") as rows, open(rejects, "ab") as joined:
                shutil.copyfileobj(rows, joined)
    checkpoints.finish(report)


def _forget_replaced(folder: Path, target: Path, identity: str, ranks: Ranks) -> None:
    """Remove the store that was at the target, where the new one had taken its place before the kill."""
    if ranks.rank == 0 and (target / MANIFEST).exists() and Manifest.load(target).uuid == identity:
        shutil.rmtree(folder / STORE, ignore_errors=True)


def _load_kernels() -> None:
    """Load numba, with the first kernel that is called: it is not of the memory that an ingest is given."""
    import numpy as np

    from graph_store.ids import shards_of

    shards_of(np.empty(1, np.int64), 1)


def _load_libraries() -> None:
    """Load what is loaded when it is first needed, so that it is known how much memory it takes."""
    import pyarrow.compute
    import pyarrow.parquet  # noqa: F401
