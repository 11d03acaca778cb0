"""A store of an R-MAT graph: bytes an edge, the arena's making, the first query, memory, lookups against LMDB."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

import graph_store
from benchmarks.child import KEPT, Child, in_child, rollup
from benchmarks.harness import (
    ROOT,
    Peer,
    figure,
    interleave,
    medians,
    peer_python,
    print_table,
    ratio,
    write_report,
)
from benchmarks.ingest import EDGE_TYPE, make_store
from benchmarks.rmat import add_options, folders, graph_file

WARM_UP_SCALE = 12
BATCH = 1024


def write_arena(store: str, warm_up: str) -> float:
    """Delete the arena and open the store, in a process that has the kernels; returns the seconds of the opening."""
    for path in (warm_up, store):
        shutil.rmtree(Path(path) / "arena")
        os.sync()
        start = time.perf_counter()
        with graph_store.open(path):
            seconds = time.perf_counter() - start
    return seconds


def hold(store: str) -> dict[str, int]:
    """Open a store, read every page of its lists, sample, stay open; returns what this process's mappings take."""
    opened = KEPT[store] = graph_store.open(store, threads=1)
    words = opened.adjacency(EDGE_TYPE).words
    KEPT["sum"] = int(words[::512].sum(dtype=np.uint64))
    nodes, sampler = opened.nodes("node"), opened.sampler(EDGE_TYPE, [10, 10])
    rng = np.random.default_rng(5)
    for step in range(50):
        sampler.sample(rng.choice(nodes, BATCH), seed=1, step=step)
    del nodes
    return rollup()


def _first_query(store: Path, ids: Path, *, arena: bool) -> dict[str, float]:
    """Ask in a fresh process; returns the seconds of each step and, as `whole`, of the process."""
    if not arena:
        shutil.rmtree(store / "arena")
    # An installed package has its bytecode; the first round of this one writes it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-m", "benchmarks.first_query", str(store), str(ids)]
    start = time.perf_counter()
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True)
    return {**json.loads(done.stdout), "whole": time.perf_counter() - start}


def _first_queries(store: Path, ids: Path, repeats: int) -> list[dict[str, Any]]:
    steps = ("whole", "import", "open", "query")
    rows = []
    for arena in (True, False):
        rounds = [_first_query(store, ids, arena=arena) for _ in range(1 + repeats)][1:]
        middle = medians({step: [each[step] for each in rounds] for step in steps})
        rows.append({"first query": "with an arena" if arena else "without", **middle})
    return rows


def _memory(store: Path, small: Path) -> dict[str, int]:
    """Return what a second process of the store takes, and of that what it takes for a small store too."""
    with Child() as first, Child() as second, Child() as other:
        first.call(hold, store=str(store))
        found = second.call(hold, store=str(store))
        base = other.call(hold, store=str(small))
    return {
        "anonymous": found["Anonymous"],
        "anonymous of a small store": base["Anonymous"],
        "resident": found["Rss"],
        "proportional": found["Pss"],
    }


def _lookups(store: graph_store.GraphStore, graph: Path, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Time neighbour lookups of random nodes in batches; returns the medians of the seconds of all batches."""
    ids = np.random.default_rng(3).choice(store.ids("node"), (options.batches, BATCH))
    nodes = np.stack([store.to_nodes("node", batch) for batch in ids])
    adjacency = store.adjacency(EDGE_TYPE)

    def by_id() -> None:
        for batch in ids:
            store.neighbors(batch)

    def by_node() -> None:
        for batch in nodes:
            adjacency.neighbors(batch)

    cases: dict[str, Callable[[], Any]] = {"store.neighbors, by id": by_id, "adjacency.neighbors, by node": by_node}
    with ExitStack() as peers:
        python = peer_python("lmdb")
        if python is not None:
            peer = peers.enter_context(closing(Peer(python, Path(__file__).with_name("lmdb_peer.py"))))
            np.save(folder / "batches.npy", ids)
            database = {"database": str(folder / "peer.lmdb")}
            peer.ask({"do": "load", **database, "parquet": str(graph)})
            peer.ask({"do": "open", **database, "batches": str(folder / "batches.npy")})
            edges = sum(int(store.degree(batch).sum()) for batch in ids)
            assert peer.ask({"do": "lists"})["edges"] == edges, "LMDB finds another number of neighbours"
            cases["LMDB get, one array of all lists"] = lambda: peer.ask({"do": "lists"})["seconds"]
            cases["LMDB get, values left in place"] = lambda: peer.ask({"do": "values"})["seconds"]
        return medians(interleave(cases, options.repeats))


def _sizes(store: Path) -> list[dict[str, Any]]:
    found = graph_store.info(store)
    edges = found["edges"][EDGE_TYPE]
    parts = {**found["parts"], "all": found["bytes"]}
    return [{"part": part, "bytes": size, "bytes an edge": size / edges} for part, size in parts.items() if size]


def _figures(
    sizes: list[dict[str, Any]],
    first: list[dict[str, Any]],
    memory: Mapping[str, int],
    lookups: Mapping[str, float],
    written: float,
) -> list[dict[str, Any]]:
    each = {row["part"]: row["bytes an edge"] for row in sizes}
    peer = "LMDB get, one array of all lists"
    return [
        figure("adjacency of one direction", each["adjacency"], "bytes an edge", most=3.3),
        figure("store", each["all"], "bytes an edge"),
        figure("arena written", written / 1e6, "M edges/s", least=150),
        figure("process of a first query, arena there", first[0]["whole"], "s", most=1),
        figure("process of a first query, no arena", first[1]["whole"], "s"),
        figure(
            "anonymous memory a second process takes for the graph",
            (memory["anonymous"] - memory["anonymous of a small store"]) / (1 << 20),
            "MiB",
        ),
        figure("lookups by id, times LMDB", ratio(lookups, "store.neighbors, by id", peer), "x", least=4),
        figure("lookups by node, times LMDB", ratio(lookups, "adjacency.neighbors, by node", peer), "x", least=4),
    ]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, scale=22)
    parser.add_argument("--batches", type=int, default=200, help=f"lookups of {BATCH} ids a round (default 200)")
    options = parser.parse_args()
    with folders(options) as (data, folder):
        graph, store, small = graph_file(data, options.scale), folder / "graph.store", folder / "small.store"
        make_store(graph, store)
        make_store(graph_file(data, WARM_UP_SCALE), small)
        arguments = {"store": str(store), "warm_up": str(small)}
        # The first answer is the warm-up: by then the shards are in the page cache.
        arena = medians({"s": [in_child(write_arena, **arguments) for _ in range(1 + options.repeats)][1:]})["s"]
        sizes, memory = _sizes(store), _memory(store, small)
        with graph_store.open(store, threads=1) as opened:
            entries = opened.edge_types[EDGE_TYPE].num_entries
            bits = opened.edge_types[EDGE_TYPE].bits
            lookups = _lookups(opened, graph, folder, options)
            np.save(folder / "asked.npy", opened.ids("node")[:BATCH])
        first = _first_queries(store, folder / "asked.npy", options.repeats)
    print_table(sizes)
    print()
    print_table(first)
    print()
    print_table([{"second process": name, "MiB": size / (1 << 20)} for name, size in memory.items()])
    print()
    asked = BATCH * options.batches
    rows = [{"lookups": case, "lookups/s": asked / seconds, "seconds": seconds} for case, seconds in lookups.items()]
    figures = _figures(sizes, first, memory, lookups, entries / arena)
    extra = {"sizes": sizes, "first_query": first, "second_process": memory, "scale": options.scale, "bits": bits}
    write_report("store", rows, {**extra, "edges": entries}, figures=figures)


if __name__ == "__main__":
    main()
