"""Three-hop sampling from the arena against the same kernel on a plain CSR in memory, with relabelling."""

import argparse
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

import graph_store
from benchmarks.harness import interleave, medians, write_report
from benchmarks.rmat import rmat, write_parquet
from graph_store.adjacency import LOOK_AHEAD
from graph_store.draws import NEIGHBORS, key_of, mixed
from graph_store.kernels import kernel, prefetch
from graph_store.sampling.picks import floyd
from graph_store.sampling.sampler import Sampler
from graph_store.sampling.subgraph import Layer

EDGE_TYPE = "node:links:node"


@kernel
def _sample_csr(indptr_in, indices, nodes, fanout, key, indptr, out):
    """The arena's sampling kernel on `indptr` and `indices`: the same passes over 64 nodes, the same draws."""
    starts = np.empty(LOOK_AHEAD, np.int64)
    count = 0
    indptr[0] = 0
    for low in range(0, nodes.size, LOOK_AHEAD):
        size = min(LOOK_AHEAD, nodes.size - low)
        for i in range(size):
            prefetch(indptr_in, nodes[low + i])
        begin = count
        for i in range(size):
            node = nodes[low + i]
            starts[i] = indptr_in[node]
            degree = indptr_in[node + 1] - starts[i]
            if degree <= fanout:
                for j in range(degree):
                    out[count + j] = j
                if degree:
                    prefetch(indices, starts[i])
                count += degree
            else:
                floyd(mixed(key, np.uint64(node)), degree, fanout, out, count)
                for j in range(fanout):
                    prefetch(indices, starts[i] + out[count + j])
                count += fanout
            indptr[low + i + 1] = count
        for i in range(size):
            end = indptr[low + i + 1]
            for j in range(begin, end):
                out[j] = indices[starts[i] + out[j]]
            begin = end
    return count


class _CsrSampler(Sampler):
    """The sampler with its draws from arrays by node id."""

    def __init__(self, chain: Any, fanouts: list[int], indptr: np.ndarray, indices: np.ndarray) -> None:
        super().__init__(chain, fanouts)
        self._arrays = indptr, indices

    def _draw(self, adjacency: Any, nodes: np.ndarray, fanout: int, *, seed, step, hop, threads):  # type: ignore[no-untyped-def, override]
        indptr, out = np.empty(nodes.size + 1, np.int64), np.empty(nodes.size * fanout, np.int64)
        used = _sample_csr(*self._arrays, nodes, fanout, key_of(seed, step, NEIGHBORS, hop), indptr, out)
        return indptr, out[:used]


def _plain_csr(store: graph_store.GraphStore) -> tuple[np.ndarray, np.ndarray]:
    """Return `indptr` int64 by node id (gaps are empty) and `indices` int64, neighbours as nodes."""
    nodes = np.sort(store.nodes("node"))
    ends, neighbors = store.adjacency(EDGE_TYPE).neighbors(nodes)
    degrees = np.zeros(int(nodes[-1]) + 1, np.int64)
    degrees[nodes] = np.diff(ends)
    return np.concatenate([[0], np.cumsum(degrees)]), neighbors


def _run(samplers: list[Sampler], seeds: np.ndarray) -> Callable[[], float]:
    """Sample all batches, each sampler in a thread of its own; measures its own seconds."""

    def work(worker: int) -> None:
        for step in range(worker, len(seeds), len(samplers)):
            samplers[worker].sample(seeds[step], seed=7, step=step)

    def run() -> float:
        start = time.perf_counter()
        if len(samplers) == 1:
            work(0)
        else:
            with ThreadPoolExecutor(len(samplers)) as pool:
                list(pool.map(work, range(len(samplers))))
        return time.perf_counter() - start

    return run


def _check(ours: Sampler, plain: Sampler, seeds: np.ndarray) -> int:
    """Compare all layers of some batches bit for bit; returns the edges that all batches draw."""
    edges = 0
    for step in range(len(seeds)):
        layers: list[Layer] = ours.sample(seeds[step], seed=7, step=step)[1]
        edges += sum(layer.neighbors.size for layer in layers)
        if step < 3:
            for left, right in zip(layers, plain.sample(seeds[step], seed=7, step=step)[1]):
                assert np.array_equal(left.indptr, right.indptr), "the CSR's draws differ"
                assert np.array_equal(left.neighbors, right.neighbors), "the CSR's draws differ"
    return edges


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2^SCALE nodes, 16 edges a node (default 20)")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--fanouts", default="15,10,5")
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    fanouts = [int(fanout) for fanout in options.fanouts.split(",")]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_parquet(folder / "edges.parquet", *rmat(options.scale))
        schema = graph_store.Schema.from_edges(folder / "edges.parquet", edge_type=EDGE_TYPE, src="src", dst="dst")
        graph_store.ingest(schema, folder / "store")
        with graph_store.open(folder / "store") as store:
            rows = _measure(store, fanouts, options)
    write_report("sampling", rows, {"fanouts": fanouts, "batch": options.batch, "scale": options.scale, "target": 0.85})


def _measure(store: graph_store.GraphStore, fanouts: list[int], options: argparse.Namespace) -> list[dict[str, Any]]:
    nodes = store.nodes("node")
    seeds = np.random.default_rng(3).choice(nodes, (options.batches, options.batch))
    indptr, indices = _plain_csr(store)
    chain = [("node", "node", store.adjacency(EDGE_TYPE))] * len(fanouts)
    narrow = indices.astype(np.int32)

    def arena(count: int) -> list[Sampler]:
        return [store.sampler(EDGE_TYPE, fanouts) for _ in range(count)]

    def csr(count: int, values: np.ndarray) -> list[Sampler]:
        return [_CsrSampler(chain, fanouts, indptr, values) for _ in range(count)]

    edges = _check(arena(1)[0], csr(1, indices)[0], seeds)
    rows = []
    for threads in (1, 2):
        seconds = medians(
            interleave(
                {
                    "arena": _run(arena(threads), seeds),
                    "CSR int64": _run(csr(threads, indices), seeds),
                    "CSR int32": _run(csr(threads, narrow), seeds),
                },
                options.repeats,
            )
        )
        rows += [
            {
                "threads": threads,
                "from": case,
                "edges/s": edges / value,
                "batches/s": len(seeds) / value,
                "arena / this": value / seconds["arena"],
            }
            for case, value in seconds.items()
        ]
    return rows


if __name__ == "__main__":
    main()
