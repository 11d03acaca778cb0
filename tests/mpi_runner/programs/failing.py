"""Run by test_guard: one rank fails in some way while the others wait for it."""

import os
import signal
import sys

import numpy as np

from mpi_runner import guard
from mpi_runner.errors import ConfigError, RunError
from mpi_runner.transport import Transport

WAY = sys.argv[1]


def fail() -> None:
    if WAY == "exception":
        raise ZeroDivisionError("one rank divided by zero")
    if WAY == "user error":
        raise RunError("the disk of this rank is full")
    if WAY == "exit":
        sys.exit(3)
    if WAY == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if WAY == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)


def call(transport: Transport) -> int:
    for step in range(1000):
        transport.at(f"step {step}")
        if WAY == "agreed":
            guard.together(transport, lambda: refuse(transport), what="the check")
        if step == 20 and transport.rank == transport.size - 1:
            fail()
        transport.swap([np.arange(5)] * transport.size, what="ids of table 'item'")
    return 0


def refuse(transport: Transport) -> None:
    if transport.rank > 0:
        raise ConfigError("no such thing")


world = Transport.world(timeout=2.0 if WAY == "stop" else 60.0)
sys.exit(guard.run(world, lambda: call(world)))
