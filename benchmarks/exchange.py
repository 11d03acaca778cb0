"""Pull and push of unique rows between ranks, against a memcpy of the same bytes and against a local table.

    python -m benchmarks.exchange [--ranks 2] [--rows 20000] [--dim 64]

Each rank pulls `rows` unique rows of a sharded table, of which the other ranks own their share, and pushes a gradient
for each. The memcpy copies the same number of bytes, once for the pull and once for the push, between two arrays that
every rank has already touched. All cases take turns in one run.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np

from benchmarks.harness import ROOT, interleave, medians, write_report
from mpi_runner import launch
from mpi_runner.client import RemoteTable
from mpi_runner.layout import Layout
from mpi_runner.transport import Transport
from sparse_tables import LocalTable, TableConfig

STEPS = 20


class Job:
    """One rank's tables, ids and gradients."""

    def __init__(self, transport: Transport, options: argparse.Namespace) -> None:
        self.transport = transport
        self.rows, self.dim = options.rows, options.dim
        draws = np.random.default_rng(transport.rank)
        self.ids = draws.permutation(options.table_rows)[: options.rows]
        self.gradients = draws.standard_normal((options.rows, options.dim), dtype=np.float32)
        self.source = np.ones_like(self.gradients)
        self.target = np.ones_like(self.gradients)
        self.remote = {name: self._remote(name, options) for name in ("sgd", "row_adagrad")}
        self.local = LocalTable(self._config("sgd"), threads=launch.num_threads())
        self.local.pull(np.arange(options.table_rows))

    def _config(self, optimizer: str) -> TableConfig:
        return TableConfig("rows", self.dim, optimizer=optimizer, learning_rate=0.01, seed=1)

    def _remote(self, optimizer: str, options: argparse.Namespace) -> RemoteTable:
        config = self._config(optimizer)
        shards = Layout(self.transport.size, config.num_shards).shards(self.transport.rank)
        table = LocalTable(config, shards=shards, threads=launch.num_threads())
        everything = np.arange(options.table_rows)
        table.pull(everything[np.isin(everything % config.num_shards, list(shards))])
        return RemoteTable(table, self.transport)

    def check(self) -> None:
        """Compare the pulled rows with those of a table that one process holds whole, before and after a push."""
        whole = LocalTable(self._config("sgd"))
        np.testing.assert_array_equal(self.remote["sgd"].pull(self.ids), whole.pull(self.ids))
        everyone = self.transport.swap([self.ids] * self.transport.size, what="ids of the check")
        gradients = self.transport.swap([self.gradients.reshape(-1)] * self.transport.size, what="the check")
        self.remote["sgd"].push(self.ids, self.gradients)
        whole.push(np.concatenate(everyone), np.concatenate(gradients).reshape(-1, self.dim))
        np.testing.assert_allclose(self.remote["sgd"].pull(self.ids), whole.pull(self.ids), rtol=1e-6, atol=1e-6)

    def per_step(self, call: Callable[[], object]) -> Callable[[], float]:
        """Return a callable that gives the seconds of one step, all ranks starting together."""

        def measure() -> float:
            self.transport.barrier("the start of a round")
            start = time.perf_counter()
            for _ in range(STEPS):
                call()
            self.transport.barrier("the end of a round")
            return (time.perf_counter() - start) / STEPS

        return measure

    def cases(self) -> dict[str, Callable[[], float]]:
        """Return what is measured: name to seconds a step."""
        return {name: self.per_step(call) for name, call in self._calls().items()}

    def _calls(self) -> dict[str, Callable[[], object]]:
        def memcpy() -> None:
            self.target[...] = self.source
            self.source[...] = self.target

        def both(table: RemoteTable | LocalTable) -> Callable[[], None]:
            def call() -> None:
                table.pull(self.ids)
                table.push(self.ids, self.gradients)

            return call

        return {
            "memcpy": memcpy,
            "pull": lambda: self.remote["sgd"].pull(self.ids),
            "push sgd": lambda: self.remote["sgd"].push(self.ids, self.gradients),
            "pull + push sgd": both(self.remote["sgd"]),
            "pull + push row_adagrad": both(self.remote["row_adagrad"]),
            "local pull + push sgd": both(self.local),
        }


def measure(options: argparse.Namespace) -> None:
    """Run on every rank; rank 0 reports."""
    transport = Transport.world(timeout=120) if launch.world_size() > 1 else Transport()
    job = Job(transport, options)
    job.check()
    seconds = medians(interleave(job.cases(), options.repeats, warmup=2))
    if transport.rank:
        return
    rows = [
        {
            "case": case,
            "ms/step": 1000 * spent,
            "steps/s": 1 / spent,
            "million rows/s a rank": (1 + ("+" in case or case == "memcpy")) * options.rows / spent / 1e6,
            "memcpy / case": seconds["memcpy"] / spent,
        }
        for case, spent in seconds.items()
    ]
    facts = {"ranks": transport.size, "unique_rows": options.rows, "dim": options.dim, "steps_a_round": STEPS}
    write_report("exchange", rows, {**facts, "repeats": options.repeats})


def main() -> None:
    """Start the ranks, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--rows", type=int, default=20_000, help="unique rows that each rank pulls and pushes")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--table-rows", type=int, default=200_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    if launch.world_size() or options.ranks == 1:
        measure(options)
        return
    command = [launch.find_mpiexec(), "-n", str(options.ranks), sys.executable, "-m", "benchmarks.exchange"]
    environment = launch.rank_environment(options.ranks)
    sys.exit(subprocess.run([*command, *sys.argv[1:]], env=environment, cwd=ROOT, check=False).returncode)


if __name__ == "__main__":
    main()
