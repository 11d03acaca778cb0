"""Updates of a store with a reverse type: batches, sampling through the overlay, folding, refreshing a reader."""

import argparse
import os
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

import graph_store
from benchmarks.child import Child, in_child
from benchmarks.harness import Peer, figure, interleave, medians, peer_python, print_table, ratio, write_report
from benchmarks.ingest import EDGE_TYPE, make_store
from benchmarks.rmat import add_options, folders, graph_file, read_graph

ROWS = 10_000
WARM_UP_SCALE = 12
SEEDS, STEPS = 1024, 40
OURS, LMDB = "gossamer, add_edges", "LMDB, put"


def fresh_edges(scale: int, batches: int, seed: int) -> np.ndarray:
    """Return int64[batches, 2, ROWS], edges between nodes drawn at random."""
    return np.random.default_rng(seed).integers(0, 1 << scale, (batches, 2, ROWS))


def copied(store: Path, to: Path) -> Path:
    """Copy a store, in place of what is there."""
    shutil.rmtree(to, ignore_errors=True)
    shutil.copytree(store, to)
    os.sync()
    return to


def _add(store: Path, batches: np.ndarray) -> float:
    """Commit every batch; returns the seconds, without the opening of the writer."""
    with graph_store.GraphWriter(store, fold_rows=0) as writer:
        start = time.perf_counter()
        for src, dst in batches:
            writer.add_edges(EDGE_TYPE, src, dst)
        return time.perf_counter() - start


def _append(path: Path, batches: np.ndarray) -> float:
    """Append the bare ids of every batch to a file and sync it: what any log costs at least."""
    start = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for batch in batches:
            file.write(batch.data)
            os.fdatasync(file.fileno())
    seconds = time.perf_counter() - start
    path.unlink()
    return seconds


def _rocksdb(path: Path, batches: np.ndarray) -> float:
    """Put one key an edge and direction into RocksDB, each batch one synced write."""
    from rocksdict import Options, Rdict, WriteBatch, WriteOptions

    shutil.rmtree(path, ignore_errors=True)
    database, synced = Rdict(str(path), Options(raw_mode=True)), WriteOptions()
    synced.sync = True
    start = time.perf_counter()
    for src, dst in batches:
        both = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])], axis=1).astype(">i8").tobytes()
        rows = WriteBatch(raw_mode=True)
        for at in range(0, len(both), 16):
            rows.put(both[at : at + 16], b"")
        database.write(rows, synced)
    seconds = time.perf_counter() - start
    database.close()
    return seconds


def _puts(store: Path, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    """Time batches of new edges in the store and in what could keep them; returns the medians."""
    batches = fresh_edges(options.scale, options.batches, 1)
    cases: dict[str, Callable[[], float]] = {
        OURS: lambda: _add(copied(store, folder / "put.store"), batches),
        "RocksDB, put": lambda: _rocksdb(folder / "put.rocksdb", batches),
        "bare appends to a file": lambda: _append(folder / "put.log", batches),
    }
    with ExitStack() as peers:
        python = peer_python("lmdb")
        if python is not None:
            np.save(folder / "batches.npy", batches)
            peer = peers.enter_context(closing(Peer(python, Path(__file__).with_name("lmdb_peer.py"))))
            request = {"do": "put", "database": str(folder / "put.lmdb"), "batches": str(folder / "batches.npy")}
            cases[LMDB] = lambda: peer.ask(request)["seconds"]
        return medians(interleave(cases, options.repeats))


def _check(base: Path, store: Path, graph: Path, batches: np.ndarray) -> None:
    """Compare the lists of some nodes, both ways, with the rows of the file and of the batches."""
    src, dst = (np.concatenate([old, new.ravel()]) for old, new in zip(read_graph(graph), batches.swapaxes(0, 1)))
    with graph_store.open(base) as before, graph_store.open(store) as after:
        assert after.version == before.version + len(batches), "another number of versions"
        for name, own, other in ((EDGE_TYPE, src, dst), (before.edge_types[EDGE_TYPE].reverse, dst, src)):
            asked = np.unique(batches[0, int(name != EDGE_TYPE), :20])
            found = after.neighbors(asked, name)
            for i, node in enumerate(asked):
                expected = np.unique(other[own == node])
                assert np.array_equal(found.ids[found.indptr[i] : found.indptr[i + 1]], expected), f"list of {node}"


def sampled(store: str) -> list[float]:
    """Sample two hops from random seeds, in a process of its own; returns edges and seconds."""
    with graph_store.open(store, threads=1) as opened:
        nodes, sampler = opened.nodes("node"), opened.sampler(EDGE_TYPE, [10, 10])
        seeds = np.random.default_rng(2).choice(nodes, (STEPS, SEEDS))
        for _ in range(2):  # the first is the warm-up
            edges, start = 0, time.perf_counter()
            for step in range(STEPS):
                layers = sampler.sample(seeds[step], seed=7, step=step)[1]
                edges += sum(layer.neighbors.size for layer in layers)
            seconds = time.perf_counter() - start
    return [edges, seconds]


def _dirtied(store: Path, to: Path, *, share: float, busy: bool) -> float:
    """Add an edge at `share` of the nodes, drawn evenly or (busy) by their edges; returns the share that is dirty."""
    rng = np.random.default_rng(4)
    with graph_store.open(copied(store, to), threads=1) as opened:
        ids, degrees = opened.ids("node"), opened.degree(opened.ids("node"), EDGE_TYPE)
        size = int(share * ids.size)
        if busy:
            # The first of a random order of edges until so many nodes are hit.
            rows = rng.permutation(int(degrees.sum()))[: 20 * size]
            hit = np.searchsorted(np.cumsum(degrees), rows, side="right")
            places = hit[np.sort(np.unique(hit, return_index=True)[1])][:size]
        else:
            places = rng.choice(ids.size, size, replace=False)
        src, dst = ids[places], rng.choice(ids, places.size)
    with graph_store.GraphWriter(to, fold_rows=0) as writer:
        for low in range(0, src.size, ROWS):
            writer.add_edges(EDGE_TYPE, src[low : low + ROWS], dst[low : low + ROWS])
    return float(places.size / ids.size)


def _sampling(store: Path, folder: Path, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Sample a clean store and stores with dirty nodes in turns; returns rows with the medians."""
    stores, shares = {"clean": store}, {"clean": 0.0}
    for name, busy in (("dirty, nodes at random", False), ("dirty, nodes by their edges", True)):
        stores[name] = folder / f"dirty-{busy}.store"
        shares[name] = _dirtied(store, stores[name], share=options.dirty, busy=busy)
    edges: dict[str, float] = {}
    with ExitStack() as children:
        running = {name: children.enter_context(Child()) for name in stores}

        def case(name: str) -> Callable[[], float]:
            def run() -> float:
                edges[name], seconds = running[name].call(sampled, store=str(stores[name]))
                return float(seconds)

            return run

        seconds = medians(interleave({name: case(name) for name in stores}, options.repeats))
    speeds = {name: edges[name] / seconds[name] for name in stores}
    return [
        {"sampling": name, "dirty": shares[name], "edges/s": speed, "against clean": speed / speeds["clean"]}
        for name, speed in speeds.items()
    ]


def folded(store: str, warm_up: str) -> float:
    """Fold what is in the log of a store, in a process that has the kernels; returns the seconds."""
    for path in (warm_up, store):
        with graph_store.GraphWriter(path, fold_rows=0) as writer:
            os.sync()
            start = time.perf_counter()
            writer.fold()
            seconds = time.perf_counter() - start
    return seconds


def _fold(store: Path, small: Path, folder: Path, options: argparse.Namespace) -> float:
    """Fold the batches of `--batches` into copies of the store; returns the median of the seconds."""
    batches, few = fresh_edges(options.scale, options.batches, 1), fresh_edges(WARM_UP_SCALE, 1, 1)
    rounds = []
    for _ in range(options.repeats):
        for base, name, rows in ((store, "fold.store", batches), (small, "fold-small.store", few)):
            _add(copied(base, folder / name), rows)
        arguments = {"store": str(folder / "fold.store"), "warm_up": str(folder / "fold-small.store")}
        rounds.append(in_child(folded, **arguments))
    with graph_store.open(folder / "put.store") as added, graph_store.open(folder / "fold.store") as done:
        for name, entry in added.edge_types.items():
            assert done.edge_types[name].num_entries == entry.num_entries, "the fold has another number of edges"
    return medians({"fold": rounds})["fold"]


def refreshed(store: str, scale: int, sizes: Sequence[int], repeats: int) -> list[float]:
    """Fill the log up to each size, then time how a reader takes up one batch more; returns seconds a size."""
    medians_of_sizes, seed = [], 100
    with graph_store.GraphWriter(store, fold_rows=0) as writer, graph_store.open(store) as reader:
        rows = 0
        for size in sizes:
            rounds = []
            while rows < size:
                seed, rows = seed + 1, rows + ROWS
                writer.add_edges(EDGE_TYPE, *fresh_edges(scale, 1, seed)[0])
            reader.refresh()
            for _ in range(repeats):
                seed, rows = seed + 1, rows + ROWS
                version = writer.add_edges(EDGE_TYPE, *fresh_edges(scale, 1, seed)[0]).version
                start = time.perf_counter()
                found = reader.refresh()
                rounds.append(time.perf_counter() - start)
                assert found == version, "the reader has another version"
            medians_of_sizes.append(medians({"s": rounds})["s"])
    return medians_of_sizes


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, scale=20)
    parser.add_argument("--batches", type=int, default=100, help=f"batches of {ROWS:,} edges (default 100)")
    parser.add_argument("--dirty", type=float, default=0.01, help="share of the nodes in the overlay (default 0.01)")
    parser.add_argument("--deltas", type=int, nargs="+", default=[ROWS, 10 * ROWS, 100 * ROWS], help="rows in the log")
    options = parser.parse_args()
    with folders(options) as (data, folder):
        graph, store, small = graph_file(data, options.scale), folder / "base.store", folder / "small.store"
        make_store(graph, store, reverse=True)
        make_store(graph_file(data, WARM_UP_SCALE), small, reverse=True)
        puts = _puts(store, folder, options)
        _check(store, folder / "put.store", graph, fresh_edges(options.scale, options.batches, 1))
        sampling = _sampling(store, folder, options)
        fold = _fold(store, small, folder, options)
        edges = graph_store.info(folder / "fold.store")["edges"][EDGE_TYPE]
        arguments = {"scale": options.scale, "sizes": options.deltas, "repeats": options.repeats}
        delays = in_child(refreshed, store=str(copied(store, folder / "refresh.store")), **arguments)
    added = ROWS * options.batches
    print_table([{"puts": case, "edges/s": added / spent, "seconds": spent} for case, spent in puts.items()])
    print()
    print_table(sampling)
    print()
    rows = [{"rows in the log": size, "refresh, s": delay} for size, delay in zip(options.deltas, delays)]
    figures = [
        figure("updates, synced batches", added / puts[OURS] / 1e6, "M edges/s", least=0.7),
        figure("updates, times LMDB", ratio(puts, OURS, LMDB), "x"),
        figure("updates, times RocksDB", ratio(puts, OURS, "RocksDB, put"), "x"),
        figure("updates, times bare appends", ratio(puts, OURS, "bare appends to a file"), "x"),
        figure("sampling with dirty nodes, at random", sampling[1]["against clean"], "x clean", least=0.9),
        figure("sampling with dirty nodes, by their edges", sampling[2]["against clean"], "x clean"),
        figure("fold with its overlay, edges of one direction", edges / fold / 1e6, "M edges/s", least=5),
        figure("fold with its overlay, both directions", 2 * edges / fold / 1e6, "M entries/s"),
    ]
    extra = {"puts": puts, "sampling": sampling, "fold_seconds": fold, "scale": options.scale, "edges": edges}
    write_report("updates", rows, {**extra, "batch": ROWS, "batches": options.batches}, figures=figures)


if __name__ == "__main__":
    main()
