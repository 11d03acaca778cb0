"""Run by test_training under plain mpiexec: `gossamer ARGUMENTS` with a model that fails on rank 1 after a while."""

import models
from models import MODELS, Batch, Trace
from mpi_runner import launch
from mpi_runner.cli import main

KIND = MODELS["bpr"]
ORDINARY = KIND.step


def step(self: models.Model, batch: Batch, *, trace: Trace) -> float:
    step.calls += 1  # type: ignore[attr-defined]
    if step.calls == 25 and launch.world_rank() == 1:  # type: ignore[attr-defined]
        raise FloatingPointError("the loss is not finite")
    return ORDINARY(self, batch, trace=trace)


step.calls = 0  # type: ignore[attr-defined]
KIND.step = step  # type: ignore[method-assign]
main()
