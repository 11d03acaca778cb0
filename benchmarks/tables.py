"""Pull and push of embedding rows, against torch's sparse optimizers and `numpy.take`.

Run `python -m benchmarks.tables`. torch is looked for in the environment that `GOSSAMER_PEER_TORCH` names, or
in `.venv-torch`, and skipped with a message where neither is there.
"""

import argparse
import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import harness
from sparse_tables import LocalTable, TableConfig

RATE = 0.05
BAG = 16


def zipf_ids(generator: np.random.Generator, num_rows: int, shape: tuple[int, int]) -> np.ndarray:
    """Return int64 ids below `num_rows`, the k-th most frequent with probability proportional to 1/k."""
    weights = np.cumsum(1.0 / np.arange(1, num_rows + 1))
    ranks = np.searchsorted(weights, generator.random(shape) * weights[-1])
    return generator.permutation(num_rows)[ranks]


def oracle(rows: np.ndarray, ids: np.ndarray, gradients: np.ndarray, optimizer: str) -> np.ndarray:
    """Return the rows of `ids` after their first push, in float64."""
    unique, inverse = np.unique(ids, return_inverse=True)
    total = np.zeros((len(unique), rows.shape[1]))
    np.add.at(total, inverse, gradients.astype(np.float64))
    if optimizer == "sgd":
        moved = total
    elif optimizer == "row_adagrad":
        moved = total / (np.sqrt((total**2).mean(axis=1, keepdims=True)) + 1e-8)
    elif optimizer == "adagrad":
        moved = total / (np.sqrt(total**2) + 1e-10)
    else:
        moved = total / (np.abs(total) + 1e-8)
    return (rows[unique] - RATE * moved)[inverse]


class Workload:
    """One table's rows, ids and gradients, and the cases that run over them."""

    def __init__(self, dim: int, optimizer: str, options: argparse.Namespace) -> None:
        self.options = options
        generator = np.random.default_rng(1)
        self.ids = zipf_ids(generator, options.rows, (options.batches, options.batch))
        self.gradients = generator.normal(size=(options.batch, dim)).astype(np.float32)
        self.optimizer = optimizer
        config = TableConfig("bench", dim, optimizer=optimizer, learning_rate=RATE, seed=3)
        self.table = LocalTable(config, threads=options.threads)
        self.rows = self.table.pull(np.arange(options.rows))
        self.indptr = np.arange(0, options.batch + 1, BAG)

    def pull(self) -> None:
        """Pull every batch."""
        for ids in self.ids:
            self.table.pull(ids)

    def take(self) -> None:
        """Take every batch's rows from a matrix, the slots known."""
        for ids in self.ids:
            self.rows.take(ids, axis=0)

    def push(self) -> None:
        """Push every batch."""
        for ids in self.ids:
            self.table.push(ids, self.gradients)

    def train(self) -> None:
        """Pull and push every batch."""
        for ids in self.ids:
            self.table.pull(ids)
            self.table.push(ids, self.gradients)

    def pool(self) -> None:
        """Sum every batch in bags."""
        for ids in self.ids:
            self.table.pull_pooled(ids, self.indptr)

    def check(self, peer: harness.Peer | None, folder: Path) -> None:
        """Compare the rows after a first push with the oracle's, torch's too where its optimizer is the same."""
        expected = oracle(self.rows, self.ids[0], self.gradients, self.optimizer)
        self.table.push(self.ids[0], self.gradients)
        np.testing.assert_allclose(self.table.pull(self.ids[0]), expected, rtol=1e-3, atol=2e-4)
        if peer is not None:
            peer.ask({"do": "one", "out": str(folder / "after.npy")})
            if self.optimizer != "row_adagrad":
                np.testing.assert_allclose(np.load(folder / "after.npy"), expected, rtol=1e-3, atol=2e-4)


class Torch(harness.Peer):
    """torch's table with one of its sparse optimizers, on the rows, ids and gradients that a workload saved."""

    def __init__(self, python: Path, folder: Path, optimizer: str, threads: int) -> None:
        # Its idle threads would spin, through our turns too.
        super().__init__(
            python, Path(__file__).with_name("tables_torch.py"), environment={"OMP_WAIT_POLICY": "PASSIVE"}
        )
        files = {what: str(folder / f"{what}.npy") for what in ("rows", "ids", "gradients")}
        settings = {"threads": threads, "optimizer": optimizer, "learning_rate": RATE}
        self.ask({"do": "start", **files, **settings})

    def case(self, verb: str) -> Callable[[], float]:
        """Return a callable that runs every batch through `verb` and returns the seconds it took."""
        return lambda: self.ask({"do": verb, "bag": BAG})["seconds"]


def measure(dim: int, optimizer: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Check and time one width and optimizer; return its rows of the report."""
    python = harness.peer_python("torch")
    workload = Workload(dim, optimizer, options)
    cases: dict[str, Any] = {"pull": workload.pull, "take": workload.take, "push": workload.push}
    cases |= {"pull+push": workload.train, "pooled": workload.pool}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as peers:
        folder = Path(name)
        peer = None
        if python is not None:
            for what in ("rows", "ids", "gradients"):
                np.save(folder / f"{what}.npy", getattr(workload, what))
            peer = peers.enter_context(contextlib.closing(Torch(python, folder, optimizer, options.threads)))
            for case, verb in (("pull", "pull"), ("pull+push", "train"), ("pooled", "pool")):
                cases[f"torch {case}"] = peer.case(verb)
            if optimizer == "row_adagrad":
                # torch has no row-wise Adagrad: `peer` is its Adagrad, and its SparseAdam goes beside.
                other = peers.enter_context(contextlib.closing(Torch(python, folder, "adam", options.threads)))
                cases["SparseAdam pull+push"] = other.case("train")
        workload.check(peer, folder)
        seconds = harness.medians(harness.interleave(cases, options.repeats))
    num_ids = options.batch * options.batches
    speeds = {case: num_ids / spent for case, spent in seconds.items()}
    report = []
    for case in ("pull", "push", "pull+push", "pooled"):
        row = {"case": case, "dim": dim, "optimizer": optimizer, "threads": options.threads}
        row["ids_per_second"] = speeds[case]
        for column, other_case in (
            ("torch", f"torch {case}"),
            ("sparse_adam", f"SparseAdam {case}"),
            ("take", "take" if case == "pull" else ""),
        ):
            row[column] = speeds.get(other_case)
            row[f"ratio_{column}"] = speeds[case] / speeds[other_case] if other_case in speeds else None
        report.append(row)
    return report


def main() -> None:
    """Run what the command line asks for and write `benchmarks/results/tables.json`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=65_536, help="ids a call")
    parser.add_argument("--batches", type=int, default=10, help="calls a round")
    parser.add_argument("--repeats", type=int, default=5, help="rounds that count")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--dims", type=int, nargs="+", default=[16, 64])
    parser.add_argument("--optimizers", nargs="+", default=["row_adagrad", "sgd", "adagrad", "adam"])
    options = parser.parse_args()
    report = []
    for threads in options.threads:
        for optimizer in options.optimizers:
            for dim in options.dims:
                report += measure(dim, optimizer, argparse.Namespace(**{**vars(options), "threads": threads}))
    sizes = {"num_rows": options.rows, "batch": options.batch, "batches": options.batches, "bag": BAG}
    harness.write_report("tables", report, {"sizes": sizes, "repeats": options.repeats})


if __name__ == "__main__":
    main()
