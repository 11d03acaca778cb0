"""One rank's part in a training job, from its first message to its exit status."""

import json
import sys
import time
from typing import Any

from mpi_runner import config as configuration
from mpi_runner import guard, launch
from mpi_runner.config import Config
from mpi_runner.transport import Transport
from mpi_runner.warm_up import warm_up


def train(path: str, *, as_json: bool = False) -> int:
    """Train by a configuration file on the ranks that `mpiexec` started, or in this process alone.

    Rank 0 prints the result on stdout. Collective.

    Returns
    -------
    int
        The exit status.

    Raises
    ------
    ConfigError
        In a single process, if the file cannot be used. Several ranks report it and return a status.
    """
    if launch.world_size() <= 1:
        config = configuration.load(path)
        transport = Transport(timeout=config.run.timeout)
        return guard.run(transport, lambda: _train(config, transport, as_json))
    # MPI first: the others wait in it for this rank, and only through it can a failure end them.
    transport = Transport.world()
    return guard.run(transport, lambda: _train_together(path, transport, as_json))


def _train_together(path: str, transport: Transport, as_json: bool) -> int:
    config: Config = guard.together(transport, lambda: configuration.load(path), what="the configuration")
    transport.timeout = config.run.timeout
    return _train(config, transport, as_json)


def _train(config: Config, transport: Transport, as_json: bool) -> int:
    from mpi_runner.trainer import Trainer

    started = time.perf_counter()
    trainer = Trainer(config, transport, threads=launch.num_threads(), quiet=as_json)
    try:
        compile_once(config, transport)
        line = trainer.run()
    finally:
        trainer.close()
    if transport.rank == 0:
        wall = time.perf_counter() - started
        _show({"run": config.run.dir, "ranks": transport.size, "wall_seconds": wall, **line}, as_json)
    return 0


def compile_once(config: Config, transport: Transport) -> None:
    """Let one rank of each node compile the kernels; the others wait, then load them. Collective."""
    if transport.size > 1 and launch.local_rank() == 0:
        warm_up(config)
    transport.barrier("the compilation of kernels")


def _show(result: dict[str, Any], as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
    else:
        scores = "".join(f"  {name} {value:.4f}" for name, value in result.items() if "@" in name)
        loss = f"  loss {result['loss']:.4f}" if "loss" in result else ""
        sys.stdout.write(f"epoch {result['epoch']}{loss}{scores}\n")
        ranks = "1 rank" if result["ranks"] == 1 else f"{result['ranks']} ranks"
        sys.stdout.write(f"trained on {ranks} in {result['wall_seconds']:.1f} s; run folder {result['run']}\n")
    sys.stdout.flush()
