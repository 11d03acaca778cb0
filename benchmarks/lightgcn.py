"""LightGCN's step against the plain formulation: seconds of a pass and of a propagation, on the same rows."""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graph_store
from benchmarks.gowalla import TRAIN
from benchmarks.harness import interleave, medians, timed, write_report
from models import LightGCN, LocalExchange, ModelOptions, Trace
from models.batch import unique_rows
from sparse_tables import LocalTable

EDGE_TYPE = "user:clicks:item"


def _write_edges(folder: Path, size: str) -> Path:
    """Write clicks with Zipf-like popularity, of Gowalla's size or a hundredth of it; return the file."""
    num_users, num_items, num_edges = (29_858, 40_981, 900_000) if size == "full" else (3_000, 4_000, 60_000)
    draws = np.random.default_rng(0)
    users = draws.integers(0, num_users, num_edges)
    items = np.minimum((num_items * draws.random(num_edges) ** 2.5).astype(np.int64), num_items - 1)
    pairs = np.unique(np.stack([users, items], axis=1), axis=0)
    path = folder / "clicks.csv"
    path.write_text("user,item\n" + "\n".join(f"{user},{item}" for user, item in pairs.tolist()) + "\n")
    return path


class Plain:
    """The plain step: scipy's product over the whole graph for each layer, forward and backward; no l2, no update."""

    def __init__(self, store: graph_store.GraphStore, layers: int) -> None:
        import scipy.sparse as sp

        clicks = store.to_scipy(EDGE_TYPE)
        whole = sp.block_array([[None, clicks], [clicks.T, None]]).tocsr().astype(np.float32)
        scale = sp.diags_array(1 / np.sqrt(np.maximum(whole.sum(axis=1), 1)).astype(np.float32))
        self.matrix = sp.csr_array(scale @ whole @ scale)
        self.layers = layers
        self.num_users = clicks.shape[0]

    def propagate(self, rows: np.ndarray) -> np.ndarray:
        total, layer = rows.copy(), rows
        for _ in range(self.layers):
            layer = self.matrix @ layer
            total += layer
        return total / np.float32(self.layers + 1)

    def step(self, model: LightGCN, rows: np.ndarray, batch: Any) -> tuple[float, np.ndarray]:
        """Return the loss and the gradient of all initial rows."""
        final = self.propagate(rows)
        store, slots = model.store, unique_rows(batch)
        users = store.dense("user", slots.users)
        items = self.num_users + store.dense("item", slots.items)
        found = model.loss(final[users], final[items], rows=slots, num_total=batch.num_total)
        gradient = np.zeros_like(rows)
        gradient[users], gradient[items] = found.users, found.items
        return found.loss, self.propagate(gradient)


def _build(store: graph_store.GraphStore, options: ModelOptions) -> LightGCN:
    tables = {
        side: LocalTable(config) for side, config in LightGCN.tables(options, num_shards=store.num_shards).items()
    }
    return LightGCN(store, EDGE_TYPE, tables, exchange=LocalExchange(), options=options)


def _check(store: graph_store.GraphStore, plain: Plain, options: ModelOptions) -> None:
    """Compare one step of SGD with the plain step's gradient."""
    model = _build(store, ModelOptions(**{**options.__dict__, "optimizer": "sgd", "learning_rate": 1.0, "l2": 0.0}))
    nodes = {side: store.nodes(side) for side in ("user", "item")}

    def rows() -> np.ndarray:
        return np.concatenate([model._tables[side].pull(nodes[side], insert=False) for side in nodes])

    before, batch = rows(), model.loader().batch(1, 0)
    loss, gradient = plain.step(model, before, batch)
    found = model.step(batch, trace=Trace())
    np.testing.assert_allclose(found, loss, rtol=1e-4)
    # float32 rows near 0.1 resolve a step to about 1e-8.
    np.testing.assert_allclose(before - rows(), gradient, rtol=2e-2, atol=3e-8)
    print(f"checked: the step equals the plain one on {len(before):,} rows")


def main() -> None:
    """Run the benchmark; see `--help`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--edges", type=Path, default=TRAIN, help="an interaction file (default: Gowalla, else made)")
    parser.add_argument("--size", choices=("full", "small"), default="full", help="of the clicks made without a file")
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        small = arguments.size == "small" or not arguments.edges.exists()
        edges = _write_edges(folder, arguments.size) if small else arguments.edges
        graph_store.ingest(graph_store.Schema.from_edges(edges, edge_type=EDGE_TYPE), folder / "store")
        with graph_store.open(folder / "store") as store:
            _measure(store, arguments.repeats, "made" if small else edges.parent.name)


def _measure(store: graph_store.GraphStore, repeats: int, data: str) -> None:
    options = ModelOptions(dim=64, layers=3, batch_size=2048, seed=2020)
    plain = Plain(store, options.layers)
    _check(store, plain, options)
    model = _build(store, options)
    loader, trace = model.loader(), Trace()
    softmax = _build(
        store, ModelOptions(**{**options.__dict__, "loss": "softmax", "num_negatives": 1024, "batch_size": 8192})
    )
    wide = softmax.loader()
    rows = np.concatenate([model._tables[side].pull(store.nodes(side)) for side in ("user", "item")])
    batch = loader.batch(1, 0)
    cases: dict[str, Callable[[], Any]] = {
        "plain step, scipy, BPR, batch 2048, no update": lambda: plain.step(model, rows, batch),
        "our step, BPR, batch 2048": timed(lambda: model.step(loader.batch(1, 1), trace=trace)),
        "our step, softmax, batch 8192": timed(lambda: softmax.step(wide.batch(1, 1), trace=trace)),
    }
    steps = dict.fromkeys(cases, loader.num_steps) | {"our step, softmax, batch 8192": wide.num_steps}
    spent = medians(interleave(cases, repeats))
    first = next(iter(cases))
    report = [
        {
            "case": name,
            "step ms": 1e3 * spent[name],
            "steps a pass": steps[name],
            "pass s": spent[name] * steps[name],
            "times plain": spent[first] * steps[first] / (spent[name] * steps[name]),
        }
        for name in cases
    ]
    start = time.perf_counter()
    model.rows("user", store.nodes("user")[:1])
    extra = {"data": data, "edges": loader.num_samples, "propagation_for_evaluation_s": time.perf_counter() - start}
    write_report("lightgcn", report, extra)


if __name__ == "__main__":
    main()
