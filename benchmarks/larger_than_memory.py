"""Sampling a graph of four times the memory that the process may have, its file in the page cache, against memory.

Ours runs in a process whose private memory is limited (RLIMIT_DATA, which counts heap, stacks of threads and anonymous
mappings whether they were touched or not) to what Python, its packages and compiled kernels hold after a warm-up on a
small graph, and a quarter of the graph's arena on top. The other process has no limit: it reads the same arena into
arrays of its own and samples from those. Both draw the same neighbours.
"""

import argparse
import resource
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import graph_store
from benchmarks.child import KEPT, Child, rollup, status
from benchmarks.harness import figure, interleave, medians, write_report
from benchmarks.ingest import EDGE_TYPE, make_store
from benchmarks.rmat import add_options, folders, graph_file
from graph_store.adjacency import Adjacency
from graph_store.arena import ArenaFile
from graph_store.sampling.sampler import Sampler

WARM_UP_SCALE = 12
MAPPED, PRIVATE = "mapped, memory limited", "private memory"


def _seeds(batches: int, batch: int, limit: np.ndarray) -> np.ndarray:
    """Return int64[batches, batch], nodes drawn at random; `limit` are the nodes of each shard."""
    rng = np.random.default_rng(3)
    ranks = rng.integers(0, int(limit.sum()), (batches, batch))
    base = np.concatenate([[0], np.cumsum(limit)])
    shards = np.searchsorted(base, ranks, side="right") - 1
    return (ranks - base[shards]) * limit.size + shards


def prepare(store: str, small: str, fanouts: list[int], batches: int, batch: int, budget: int | None) -> dict[str, Any]:
    """Open the store, its memory limited by `budget` bytes or (None) its arena copied; returns bytes.

    The warm-up on a small store comes before the limit.
    """
    with graph_store.open(small, threads=1) as opened:
        counts = opened.adjacency(EDGE_TYPE).counts
        for step, seeds in enumerate(_seeds(4, batch, counts)):
            opened.sampler(EDGE_TYPE, fanouts).sample(seeds, seed=7, step=step)
    before = status()["VmData"]
    if budget is not None:
        resource.setrlimit(resource.RLIMIT_DATA, (before + budget, before + budget))
    opened = KEPT["store"] = graph_store.open(store, threads=1)
    adjacency = opened.adjacency(EDGE_TYPE)
    if budget is None:
        path = next((Path(store) / "arena").glob("gen-*.edges-0"))
        sections = {name: np.array(section) for name, section in ArenaFile(path).sections.items()}
        adjacency = Adjacency(sections, weighted=False, timed=False, threads=1)
    KEPT["sampler"] = Sampler([("node", "node", adjacency)] * len(fanouts), fanouts)
    KEPT["seeds"] = _seeds(batches, batch, adjacency.counts)
    return {"base": before, "budget": budget}


def sampled() -> dict[str, Any]:
    """Sample all batches; returns edges, a sum over all neighbours drawn, seconds, and this process's memory."""
    edges, total, spent = 0, 0, 0.0
    for step, seeds in enumerate(KEPT["seeds"]):
        start = time.perf_counter()
        _, layers, nodes = KEPT["sampler"].sample(seeds, seed=7, step=step)
        spent += time.perf_counter() - start
        edges += sum(layer.neighbors.size for layer in layers)
        total += int(nodes["node"].sum()) + sum(int(layer.neighbors.sum()) for layer in layers)
    return {"edges": edges, "sum": total, "seconds": spent, "data": status()["VmData"], **rollup()}


def refuses(size: int) -> bool:
    """Say whether the process is refused so many bytes more: that the limit holds."""
    try:
        np.empty(size, np.uint8)
    except MemoryError:
        return True
    return False


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description="Sampling a graph larger than memory against one in memory.")
    add_options(parser, scale=22)
    parser.add_argument("--times", type=float, default=4, help="the arena's size, times the budget (default 4)")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--fanouts", default="10,10")
    options = parser.parse_args()
    if options.scale < 20:
        parser.error("below --scale 20 the arrays of a batch alone take more than a quarter of the graph")
    fanouts = [int(fanout) for fanout in options.fanouts.split(",")]
    with folders(options) as (data, folder), Child() as mapped, Child() as private:
        store, small = folder / "graph.store", folder / "small.store"
        make_store(graph_file(data, options.scale), store)
        make_store(graph_file(data, WARM_UP_SCALE), small)
        arena = graph_store.info(store)["arena_bytes"]
        budget = int(arena / options.times)
        arguments = {"store": str(store), "small": str(small), "fanouts": fanouts}
        arguments |= {"batches": options.batches, "batch": options.batch}
        base = mapped.call(prepare, **arguments, budget=budget)["base"]
        private.call(prepare, **arguments, budget=None)
        assert mapped.call(refuses, size=arena), "the whole arena fits: the limit does not hold"
        answers: dict[str, dict[str, Any]] = {}

        def case(name: str, child: Child) -> Callable[[], float]:
            def run() -> float:
                answers[name] = child.call(sampled)
                return float(answers[name]["seconds"])

            return run

        seconds = medians(interleave({MAPPED: case(MAPPED, mapped), PRIVATE: case(PRIVATE, private)}, options.repeats))
    assert answers[MAPPED]["sum"] == answers[PRIVATE]["sum"], "other neighbours were drawn"
    rows = [
        {
            "sampling from": name,
            "edges/s": answers[name]["edges"] / spent,
            "batches/s": options.batches / spent,
            "anonymous, MiB": answers[name]["Anonymous"] / (1 << 20),
            "private, MiB": answers[name]["data"] / (1 << 20),
            "limit, MiB": (base + budget) / (1 << 20) if name == MAPPED else None,
        }
        for name, spent in seconds.items()
    ]
    figures = [
        figure("sampling, graph of several times the memory", seconds[PRIVATE] / seconds[MAPPED], "x", least=0.85),
        figure("arena", arena / (1 << 20), "MiB"),
        figure("memory beyond Python's own", budget / (1 << 20), "MiB"),
    ]
    extra = {"scale": options.scale, "fanouts": fanouts, "batch": options.batch, "arena": arena, "budget": budget}
    write_report("larger_than_memory", rows, {**extra, "base": base, "answers": answers}, figures=figures)


if __name__ == "__main__":
    main()
