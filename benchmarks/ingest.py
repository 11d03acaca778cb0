"""Ingest of an R-MAT graph from Parquet, ids, duplicates and fsync included, against duckdb and LMDB; memory, ranks."""

import argparse
import filecmp
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
from benchmarks.child import MemoryWatch, in_child
from benchmarks.harness import Peer, figure, interleave, medians, peer_python, ratio, write_report
from benchmarks.rmat import add_options, folders, graph_file, read_graph
from graph_store.kernels import num_threads

EDGE_TYPE = "node:links:node"
PARTS = ("duckdb", "lmdb", "memory", "mpi", "strings")
# Rows enough that the smallest budget spills them.
WARM_UP_SCALE, WARM_UP_MEMORY = 17, 64 << 20
DENSE, SCRAMBLED, STRINGS = "gossamer, dense ids", "gossamer, scrambled ids", "gossamer, string ids"
Cases = dict[str, Callable[[], float]]


def make_store(
    source: Path,
    store: Path,
    *,
    id_type: str = "integer",
    reverse: bool = False,
    threads: int | None = None,
    memory: int = 2 << 30,
) -> None:
    """Ingest a file of the graph, in place of what is there."""
    schema = graph_store.Schema.from_edges(
        source, edge_type=EDGE_TYPE, src="src", dst="dst", id_type=id_type, reverse=reverse
    )
    shutil.rmtree(store, ignore_errors=True)
    graph_store.ingest(schema, store, threads=threads, memory_bytes=memory)


def ingest_once(
    source: str, store: str, *, warm_up: str, id_type: str, threads: int, memory: int, reverse: bool = False
) -> dict[str, Any]:
    """Ingest a file in a process that has its kernels loaded; returns the seconds, and bytes of memory at the peak."""
    settings: dict[str, Any] = {"id_type": id_type, "reverse": reverse, "threads": threads}
    other = Path(store + "-warm-up")
    for budget in (WARM_UP_MEMORY, memory):
        make_store(Path(warm_up), other, memory=budget, **settings)
    shutil.rmtree(other)
    shutil.rmtree(store, ignore_errors=True)
    os.sync()
    with MemoryWatch() as watch:
        start = time.perf_counter()
        make_store(Path(source), Path(store), memory=memory, **settings)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "resident": watch.resident, "anonymous": watch.anonymous}


def _ingest_command(source: Path, store: Path, memory: int) -> list[str]:
    where = ["--edges", str(source), "--edge-type", EDGE_TYPE, "--src", "src", "--dst", "dst"]
    how = ["--threads", "1", "--memory", str(memory), "--json"]
    return [sys.executable, "-P", "-m", "mpi_runner", "ingest", *where, *how, str(store)]


def _run_command(command: list[str], store: Path) -> float:
    """Run `gossamer ingest` and return the seconds that it states."""
    shutil.rmtree(store, ignore_errors=True)
    os.sync()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip().rpartition("\n")[2] or f"ended with status {done.returncode}")
    return float(json.loads(done.stdout)["seconds"])


def _of_ranks(source: Path, warm_up: Path, folder: Path, memory: int) -> Cases:
    """Return the cases of one and of two processes, of one thread each; none where two cannot be started."""
    mpiexec = shutil.which("mpiexec", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if mpiexec is None:
        print("two processes: skipped, there is no mpiexec", file=sys.stderr)
        return {}

    def case(size: int, file: Path) -> Callable[[], float]:
        store = folder / f"ranks-{size}.store"
        launch = [mpiexec, "-n", str(size)] if size > 1 else []
        return lambda: _run_command(launch + _ingest_command(file, store, memory), store)

    try:
        case(2, warm_up)()
    except (RuntimeError, ValueError) as error:
        print(f"two processes: skipped: {error}", file=sys.stderr)
        return {}
    return {"gossamer, one process, 1 thread": case(1, source), "gossamer, two processes": case(2, source)}


def _check(store: Path, src: np.ndarray, dst: np.ndarray, distinct: int) -> None:
    """Compare counts with a plain sort, and the lists of some nodes with the rows."""
    with graph_store.open(store) as opened:
        assert opened.edge_types[EDGE_TYPE].num_edges == distinct, "another number of distinct edges"
        asked = np.unique(src[:50])
        found = opened.neighbors(asked)
        for i, node in enumerate(asked):
            expected = np.unique(dst[src == node])
            assert np.array_equal(found.ids[found.indptr[i] : found.indptr[i + 1]], expected), f"neighbours of {node}"


def _same_arena(one: Path, other: Path) -> None:
    """Compare the arenas of two stores byte by byte."""
    names = sorted(path.name for path in (one / "arena").iterdir())
    _, different, absent = filecmp.cmpfiles(one / "arena", other / "arena", names, shallow=False)
    assert not different, f"two processes made another {different[0]}"
    assert not absent, f"two processes made no {absent[0]}"


class Run:
    """The cases that were asked for, and the memory that ours took.

    Attributes
    ----------
    cases : dict of str to callable
        What is measured, each returns seconds.
    peaks : dict of str to dict
        Of our cases, the most `resident` and `anonymous` bytes of any round.
    """

    def __init__(self, options: argparse.Namespace, data: Path, folder: Path, peers: ExitStack) -> None:
        self._options, self._data, self._folder = options, data, folder
        self.cases: Cases = {}
        self.peaks: dict[str, dict[str, int]] = {}
        self.distinct: int | None = None
        graph, scale = graph_file(data, options.scale), options.scale
        self._ours(DENSE, "dense", options.memory[-1])
        if "duckdb" in options.parts:
            self._ours(SCRAMBLED, "scrambled", options.memory[-1])
            src, dst = read_graph(graph)
            keys = src << scale | dst
            self.cases["np.sort of the keys"] = lambda: _seconds(lambda: np.sort(keys))
            self._duckdb(peers)
        if "lmdb" in options.parts:
            self._lmdb(peers)
        if "memory" in options.parts:
            for kind, name in (("dense", DENSE), ("scrambled", SCRAMBLED)):
                for memory in options.memory[:-1]:
                    self._ours(f"{name}, {gib(memory)}", kind, memory)
        if "strings" in options.parts:
            self._ours(STRINGS, "string", options.memory[-1])
        if "mpi" in options.parts:
            self.cases |= _of_ranks(graph, self._warm_up("dense"), folder, options.memory[-1])

    def _warm_up(self, kind: str) -> Path:
        return graph_file(self._data, min(WARM_UP_SCALE, self._options.scale), kind)

    def _ours(self, name: str, kind: str, memory: int) -> None:
        arguments = {
            "source": str(graph_file(self._data, self._options.scale, kind)),
            "store": str(self._folder / f"{kind}.store"),
            "warm_up": str(self._warm_up(kind)),
            "id_type": "string" if kind == "string" else "integer",
            "threads": self._options.threads,
            "memory": memory,
        }

        def run() -> float:
            answer = in_child(ingest_once, **arguments)
            peak = self.peaks.setdefault(name, {"resident": 0, "anonymous": 0})
            for key in peak:
                peak[key] = max(peak[key], answer[key])
            return float(answer["seconds"])

        self.cases[name] = run

    def _duckdb(self, peers: ExitStack) -> None:
        python = peer_python("duckdb")
        if python is None:
            return
        peer = peers.enter_context(closing(Peer(python, Path(__file__).with_name("ingest_duckdb.py"))))
        for name, kind, by_source in (
            ("duckdb, sorted, dense", "dense", True),
            ("duckdb, sorted, scrambled", "scrambled", True),
            ("duckdb, unsorted, dense", "dense", False),
        ):
            request = {
                "database": str(self._folder / "peer.duckdb"),
                "parquet": str(graph_file(self._data, self._options.scale, kind)),
                "threads": self._options.threads,
                "sorted": by_source,
            }
            self.cases[name] = lambda request=request: peer.ask(request)["seconds"]  # type: ignore[misc]

    def _lmdb(self, peers: ExitStack) -> None:
        python = peer_python("lmdb")
        if python is None:
            return
        peer = peers.enter_context(closing(Peer(python, Path(__file__).with_name("lmdb_peer.py"))))
        parquet = str(graph_file(self._data, self._options.scale))

        def run() -> float:
            answer = peer.ask({"do": "load", "database": str(self._folder / "peer.lmdb"), "parquet": parquet})
            self.distinct = answer["edges"]
            return float(answer["seconds"])

        self.cases["LMDB, sorted adjacency"] = run

    def check(self) -> None:
        """Compare what came out with the rows, with LMDB's count, and the stores of one and two processes."""
        src, dst = read_graph(graph_file(self._data, self._options.scale))
        distinct = int(np.unique(src << self._options.scale | dst).size)
        assert self.distinct in (None, distinct), "LMDB holds another number of edges"
        _check(self._folder / "dense.store", src, dst, distinct)
        for kind in ("scrambled", "string"):
            if (self._folder / f"{kind}.store").exists():
                counted = graph_store.info(self._folder / f"{kind}.store")["edges"][EDGE_TYPE]
                assert counted == distinct, f"another number of distinct edges of {kind} ids"
        if "gossamer, two processes" in self.cases:
            _same_arena(self._folder / "ranks-1.store", self._folder / "ranks-2.store")


def _seconds(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def gib(size: float) -> str:
    """Write bytes as GiB."""
    return f"{size / (1 << 30):g} GiB"


def _size(text: str) -> int:
    """Read `2GiB` or `512MiB`."""
    units = {"GiB": 1 << 30, "MiB": 1 << 20}
    if text[-3:] not in units:
        raise argparse.ArgumentTypeError(f"{text!r} is no size such as 2GiB or 512MiB")
    return int(float(text[:-3]) * units[text[-3:]])


def _figures(middle: Mapping[str, float], peaks: Mapping[str, Mapping[str, int]]) -> list[dict[str, Any]]:
    found = [
        figure("dense ids, times duckdb sorted", ratio(middle, DENSE, "duckdb, sorted, dense"), "x", least=1.0),
        figure("scrambled ids, times duckdb", ratio(middle, SCRAMBLED, "duckdb, sorted, scrambled"), "x", least=0.7),
        figure("dense ids, times LMDB", ratio(middle, DENSE, "LMDB, sorted adjacency"), "x", least=3.0),
        figure(
            "two processes, times one",
            ratio(middle, "gossamer, two processes", "gossamer, one process, 1 thread"),
            "x",
            least=1.6,
        ),
        figure("string ids, times int64", ratio(middle, STRINGS, DENSE), "x", least=0.4),
    ]
    for name, peak in peaks.items():
        limit = 1.0 if name.endswith(", 1 GiB") else None
        found.append(figure(f"peak memory of {name}", peak["resident"] / (1 << 30), "GiB", most=limit))
    return found


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, scale=22)
    parser.add_argument("--threads", type=int, default=min(2, num_threads()), help="ours and duckdb's (default 2)")
    parser.add_argument(
        "--memory",
        type=_size,
        nargs="+",
        default=[1 << 30, 2 << 30],
        help="budgets (default 1GiB 2GiB); the last is used",
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: all)")
    options = parser.parse_args()
    with folders(options) as (data, folder), ExitStack() as peers:
        run = Run(options, data, folder, peers)
        seconds = interleave(run.cases, options.repeats)
        run.check()
        sizes = graph_store.info(folder / "dense.store")
        edges = read_graph(graph_file(data, options.scale))[0].size
    middle = medians(seconds)
    rows = [
        {
            "case": case,
            "seconds": value,
            "edges/s": edges / value,
            "peak RSS, GiB": run.peaks[case]["resident"] / (1 << 30) if case in run.peaks else None,
            "anonymous, GiB": run.peaks[case]["anonymous"] / (1 << 30) if case in run.peaks else None,
        }
        for case, value in middle.items()
    ]
    extra = {"scale": options.scale, "edges": edges, "threads": options.threads, "rounds": seconds, "peaks": run.peaks}
    write_report("ingest", rows, {**extra, "store_bytes": sizes["bytes"]}, figures=_figures(middle, run.peaks))


if __name__ == "__main__":
    main()
