"""The states of an ingest: what `IngestRun` has at a checkpoint, and how it goes on from there."""

from typing import TYPE_CHECKING, Any

import numpy as np

from graph_store.checkpoints import MAPPED, READ, READING
from graph_store.node_ids import NodeIds
from graph_store.spool import Spool

if TYPE_CHECKING:
    from graph_store.ingest_run import IngestRun

Values = dict[str, tuple[Any, Spool | None]]


def _told(run: "IngestRun") -> Values:
    """What is told of the rows that were read."""
    intake = run.intake
    counts = [intake.relations, intake.relation_rows, intake.counts, intake.rejects.counts, intake.rows_read]
    return {"told": (counts, None), "rejected": (intake.rejects.size, None)}


def save_reading(run: "IngestRun", *, task: int, batches: int, phase: int) -> None:
    """Save what was read so far: all tasks before number `task`, and of that so many batches."""
    intake, checkpoints = run.intake, run.context.checkpoints
    for collector in intake.collectors.values():
        collector.put_away()
    rows = [intake.chunks, intake.node_features, intake.edge_features, [list(lone) for lone in intake.lone]]
    values: Values = {
        **_told(run),
        "position": ([task, batches, run.batch_rows], None),
        "rows": (rows, run.spools["rows"]),
        "ids": ({name: list(each.state) for name, each in intake.collectors.items()}, run.spools["ids"]),
    }
    needed = {name: run.spools[name] for name in ("rows", "ids")}
    checkpoints.save(phase, values, spools=needed, alone=phase == checkpoints.phase)


def restore_reading(run: "IngestRun") -> tuple[int, int]:
    """Go on from a state of reading; returns the task and how many of its batches are done."""
    checkpoints = run.context.checkpoints
    if not checkpoints.has_state or checkpoints.phase not in (READING, READ):
        run.intake.rejects.restore({}, 0)
        return 0, 0
    _restore_told(run)
    intake = run.intake
    intake.chunks, intake.node_features, intake.edge_features, lone = checkpoints.value("rows")
    intake.lone = [tuple(each) for each in lone]
    for name, (segments, dense_limit) in checkpoints.value("ids").items():
        intake.collectors[name].restore(segments, dense_limit)
    task, batches, run.batch_rows = checkpoints.value("position")
    return task, batches


def _restore_told(run: "IngestRun") -> None:
    intake, checkpoints = run.intake, run.context.checkpoints
    intake.relations, intake.relation_rows, intake.counts, rejected, intake.rows_read = checkpoints.value("told")
    intake.rejects.restore(rejected, checkpoints.value("rejected"))


def mapped_values(run: "IngestRun") -> Values:
    """What is needed once rows are by shard."""
    shards = run.context.shards
    nodes = {name: [np.diff(ids.base), [ids.blocks[shard][1] for shard in shards]] for name, ids in run.nodes.items()}
    return {**_told(run), "nodes": (nodes, run.spools["ids"]), "mapped": (run.own_rows, run.spools["sorted"])}


def restore_mapped(run: "IngestRun") -> bool:
    """Go on from a state of rows by shard; says whether there is one."""
    checkpoints, context = run.context.checkpoints, run.context
    if not checkpoints.has_state or checkpoints.phase != MAPPED:
        return False
    _restore_told(run)
    for name, (counts, blocks) in checkpoints.value("nodes").items():
        every: list[list] = [[] for _ in range(context.num_shards)]
        every[context.shards.start : context.shards.stop] = blocks
        run.nodes[name] = NodeIds.restored(run.intake.collectors[name], run.spools["ids"], counts, every)
    run.own_rows = checkpoints.value("mapped")
    return True
