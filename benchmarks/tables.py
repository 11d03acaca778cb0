"""Pull and push of embedding rows, against torch's sparse optimizers and `numpy.take`.

Run `python -m benchmarks.tables`. torch is looked for in the environment that `GOSSAMER_PEER_TORCH` names, or
in `.venv-torch`, and skipped with a message where neither is there.
"""

import argparse
import tempfile
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


def measure(dim: int, optimizer: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Check and time one width and optimizer; return its rows of the report."""
    python = harness.peer_python("torch")
    workload = Workload(dim, optimizer, options)
    cases: dict[str, Any] = {"pull": workload.pull, "take": workload.take, "push": workload.push}
    cases |= {"pull+push": workload.train, "pooled": workload.pool}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        peer = None
        if python is not None:
            # Its idle threads would spin, through our turns too.
            quiet = {"OMP_WAIT_POLICY": "PASSIVE"}
            peer = harness.Peer(python, Path(__file__).with_name("tables_torch.py"), environment=quiet)
            for what in ("rows", "ids", "gradients"):
                np.save(folder / f"{what}.npy", getattr(workload, what))
            files = {what: str(folder / f"{what}.npy") for what in ("rows", "ids", "gradients")}
            settings = {"threads": options.threads, "optimizer": optimizer, "learning_rate": RATE}
            peer.ask({"do": "start", **files, **settings})
            for case, verb in (("pull", "pull"), ("pull+push", "train"), ("pooled", "pool")):
                request = {"do": verb, "bag": BAG}
                cases[f"torch {case}"] = lambda request=request: peer.ask(request)["seconds"]
        workload.check(peer, folder)
        seconds = harness.medians(harness.interleave(cases, options.repeats))
        if peer is not None:
            peer.close()
    num_ids = options.batch * options.batches
    report = []
    for case in ("pull", "push", "pull+push", "pooled"):
        row = {"case": case, "dim": dim, "optimizer": optimizer, "threads": options.threads}
        row["ids_per_second"] = num_ids / seconds[case]
        row["torch"] = num_ids / seconds[f"torch {case}"] if f"torch {case}" in seconds else None
        row["ratio"] = row["ids_per_second"] / row["torch"] if row["torch"] else None
        row["numpy_take"] = num_ids / seconds["take"] if case == "pull" else None
        row["ratio_take"] = seconds["take"] / seconds[case] if case == "pull" else None
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
