"""Ingest of an R-MAT graph from Parquet: edges/s against duckdb (the same table sorted by source) and `np.sort`."""

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

import graph_store
from benchmarks.harness import Peer, interleave, medians, peer_python, write_report
from benchmarks.rmat import rmat, scrambled, write_parquet
from graph_store.kernels import num_threads


def _ours(source: Path, store: Path, threads: int) -> Callable[[], None]:
    schema = graph_store.Schema.from_edges(source, edge_type="node:links:node", src="src", dst="dst")

    def run() -> None:
        shutil.rmtree(store, ignore_errors=True)
        graph_store.ingest(schema, store, threads=threads)

    return run


def _check(store: Path, src: np.ndarray, dst: np.ndarray) -> None:
    """Compare counts with a plain sort, and the lists of some nodes with the rows."""
    distinct = np.unique(src * (1 << 32) + dst).size
    with graph_store.open(store) as opened:
        assert opened.edge_types["node:links:node"].num_edges == distinct, "another number of distinct edges"
        asked = np.unique(src[:50])
        found = opened.neighbors(asked)
        for i, node in enumerate(asked):
            expected = np.unique(dst[src == node])
            assert np.array_equal(found.ids[found.indptr[i] : found.indptr[i + 1]], expected), f"neighbours of {node}"


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=int, default=20, help="2^SCALE nodes, 16 edges a node (default 20)")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="where files go (default: a temporary folder)")
    options = parser.parse_args()
    threads = num_threads()
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        src, dst = rmat(options.scale)
        write_parquet(folder / "dense.parquet", src, dst)
        write_parquet(folder / "scrambled.parquet", scrambled(src), scrambled(dst))
        keys = src << options.scale | dst
        cases: dict[str, Callable[[], object]] = {
            "gossamer, dense ids": _ours(folder / "dense.parquet", folder / "dense.store", threads),
            "gossamer, scrambled 64-bit ids": _ours(folder / "scrambled.parquet", folder / "scrambled.store", threads),
            "np.sort of the keys": lambda: np.sort(keys),
        }
        python = peer_python("duckdb")
        peer = Peer(python, Path(__file__).with_name("ingest_duckdb.py")) if python else None
        if peer is not None:
            base = {
                "database": str(folder / "peer.duckdb"),
                "parquet": str(folder / "dense.parquet"),
                "threads": threads,
            }
            cases["duckdb, sorted"] = lambda: peer.ask({**base, "sorted": True})["seconds"]
            cases["duckdb, unsorted"] = lambda: peer.ask({**base, "sorted": False})["seconds"]
        seconds = interleave(cases, options.repeats)
        if peer is not None:
            peer.close()
        _check(folder / "dense.store", src, dst)
        sizes = graph_store.info(folder / "dense.store")
    middle = medians(seconds)
    reference = middle.get("duckdb, sorted")
    rows = [
        {
            "case": case,
            "seconds": value,
            "edges/s": src.size / value,
            "x duckdb sorted": None if reference is None else reference / value,
        }
        for case, value in middle.items()
    ]
    write_report(
        "ingest",
        rows,
        {"edges": src.size, "threads": threads, "rounds": seconds, "store_bytes": sizes["bytes"], "target": 0.8},
    )


if __name__ == "__main__":
    main()
