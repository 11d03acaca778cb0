"""Sampling from the arena against the same kernel on a plain CSR, DGL, torch-sparse and torch-cluster."""

import argparse
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

import graph_store
from benchmarks.gowalla import gowalla_file
from benchmarks.harness import Peer, figure, interleave, medians, peer_python, ratio, write_report
from benchmarks.rmat import add_options, folders, graph_file, read_graph
from benchmarks.sampling_csr import CsrSampler
from benchmarks.sampling_limit import lines_touched, read_lines
from graph_store.sampling.relabel import Relabeller

EDGE_TYPE = "node:links:node"
PARTS, VALUED = ("uniform", "limit", "walks", "relabel", "weighted", "temporal"), ("weighted", "temporal")
SEED, MAX_TIME = 7, 1000
WALK_LENGTH, NODE2VEC_LENGTH, P, Q = 20, 10, 0.5, 2.0
Cases = dict[str, Callable[[], float]]


def _plain_file(options: argparse.Namespace, data: Path) -> Path:
    return gowalla_file(data) if options.graph == "gowalla" else graph_file(data, options.scale)


def _valued(plain: Path, num_nodes: int) -> tuple[Path, np.ndarray]:
    """Return the graph with a weight an edge, and as its time the time of its target; and the times by id."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(4)
    times = rng.integers(0, MAX_TIME, num_nodes)
    path = plain.with_name(plain.name.replace("dense", "valued"))
    if not path.exists():
        src, dst = read_graph(plain)
        # Of two rows of an edge the first is kept: both sides see its weight.
        weights = rng.random(src.size, np.float32) + np.float32(0.01)
        beside = path.with_suffix(".partial")
        pq.write_table(pa.table({"src": src, "dst": dst, "w": weights, "t": times[dst]}), beside)
        beside.replace(path)
    return path, times


def _timed(call: Callable[[int, int], Any], batches: int, workers: int) -> Callable[[], float]:
    """Return what does `call(worker, batch)` of all batches, so many at a time, and measures its own seconds."""

    def work(worker: int) -> None:
        for batch in range(worker, batches, workers):
            call(worker, batch)

    def run() -> float:
        start = time.perf_counter()
        if workers == 1:
            work(0)
        else:
            with ThreadPoolExecutor(workers) as pool:
                list(pool.map(work, range(workers)))
        return time.perf_counter() - start

    return run


class Bench:
    """A store, the same graph in plain arrays, and the peers that have it.

    Parameters
    ----------
    valued : bool
        Whether edges have weights and times; lists are by time then.
    """

    def __init__(
        self, options: argparse.Namespace, data: Path, folder: Path, stack: ExitStack, *, valued: bool
    ) -> None:
        self.options, self.folder, self._stack = options, folder, stack
        self.rows: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []
        self._peers: dict[str, Peer] = {}
        source, times = _plain_file(options, data), None
        if valued:
            num_nodes = 1 + max(int(ends.max()) for ends in read_graph(source))
            source, times = _valued(source, max(num_nodes, 0 if options.graph == "gowalla" else 1 << options.scale))
        columns = {"weight": "w", "time": "t"} if valued else {}
        schema = graph_store.Schema.from_edges(source, edge_type=EDGE_TYPE, src="src", dst="dst", **columns)
        graph_store.ingest(schema, folder / "store")
        self.store = stack.enter_context(graph_store.open(folder / "store"))
        nodes = self.store.nodes("node")
        self.seeds = np.random.default_rng(3).choice(nodes, (options.batches, options.batch))
        self.node_times = None
        if times is not None:
            self.node_times = np.zeros(int(nodes.max()) + 1, np.int64)
            self.node_times[nodes] = times[self.store.to_ids("node", nodes)]
        self.indptr, self.indices, self.weights = self._plain(nodes)

    def _plain(self, nodes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Return `indptr` by node (gaps are empty), neighbours as nodes, and weights."""
        ordered = np.sort(nodes)
        ends, neighbors, weights, _, _ = self.store.adjacency(EDGE_TYPE).columns(ordered)
        degrees = np.zeros(int(ordered[-1]) + 1, np.int64)
        degrees[ordered] = np.diff(ends)
        return np.concatenate([[0], np.cumsum(degrees)]), neighbors, weights

    def peer(self, name: str) -> Peer | None:
        """Return a peer that has the graph, None where it is not installed."""
        if name not in self._peers:
            python = peer_python(name)
            if python is None:
                return None
            script = Path(__file__).with_name(f"sampling_{name}.py")
            peer = self._stack.enter_context(closing(Peer(python, script, environment={"OMP_NUM_THREADS": "1"})))
            answer = peer.ask({"do": "start", **self._files()})
            print(f"{name}: {answer}")
            self._peers[name] = peer
        return self._peers[name]

    def _files(self) -> dict[str, str]:
        """Write the arrays for the peers, once."""
        arrays = {
            "indptr": self.indptr,
            "indices": self.indices,
            "seeds": self.seeds,
            "weights": self.weights,
            "node_times": self.node_times,
        }
        files = {name: self.folder / f"{name}.npy" for name, array in arrays.items() if array is not None}
        for name, path in files.items():
            if not path.exists():
                np.save(path, arrays[name])
        return {name: str(path) for name, path in files.items()}

    def asked(self, cases: Cases, case: str, name: str, threads: int, **request: Any) -> None:
        """Add a case of a peer, if it is there; `edges` are kept beside."""
        peer = self.peer(name)
        if peer is None:
            return

        def run() -> float:
            answer = peer.ask({"threads": threads, "workers": threads, **request})
            self._edges[case] = answer.get("edges", 0)
            return float(answer["seconds"])

        cases[case] = run

    def report(self, part: str, threads: int, cases: Cases, per: str, amounts: dict[str, float]) -> dict[str, float]:
        """Run cases in turns and note what each did a second; returns the medians of their seconds."""
        seconds = medians(interleave(cases, self.options.repeats))
        for case, value in seconds.items():
            amount = amounts[case] if case in amounts else amounts[""]
            edges = self._edges.get(case)
            row = {"part": part, "threads": threads, "case": case, "what": per, "a second": amount / value}
            self.rows.append({**row, "edges/s": edges / value if edges else None})
        return seconds

    # Neighbours

    def samplers(self, count: int, **options: Any) -> list[Any]:
        """Return samplers of the arena, one a thread."""
        return [self.store.neighbor_sampler(self.options.fanouts, **options) for _ in range(count)]

    def uniform(self) -> None:
        """Three hops, relabelled, against the same draws from plain arrays and against the peers."""
        fanouts, batches = self.options.fanouts, len(self.seeds)
        narrow = self.indices.astype(np.int32)
        chain = [("node", "node", self.store.adjacency(EDGE_TYPE))] * len(fanouts)
        for threads in (1, 2):
            self._edges: dict[str, int] = {}
            ours = [self.store.sampler(EDGE_TYPE, fanouts) for _ in range(threads)]
            cases = {"gossamer": self._layers(ours)}
            for case, values in (("CSR int64", self.indices), ("CSR int32", narrow)):
                twins = [CsrSampler(chain, fanouts, self.indptr, values) for _ in range(threads)]
                cases[case] = self._layers(twins)
                self._edges[case] = self._same_draws(ours[0], twins[0])
            self._edges["gossamer"] = self._edges["CSR int64"]
            self.asked(cases, "DGL", "dgl", threads, do="blocks", fanouts=fanouts[::-1])
            self.asked(cases, "torch-sparse", "pyg", threads, do="blocks", fanouts=fanouts)
            seconds = self.report("uniform", threads, cases, "batches", {"": batches})
            suffix = f", {threads} thread{'s' * (threads > 1)}"
            peers = [case for case in ("DGL", "torch-sparse") if case in seconds]
            best = min(peers, key=seconds.__getitem__, default="")
            self.figures += [
                figure("uniform, times the CSR" + suffix, ratio(seconds, "gossamer", "CSR int64"), "x", least=0.85),
                figure("uniform, times the best peer" + suffix, ratio(seconds, "gossamer", best), "x", least=1.8),
            ]

    def limit(self) -> None:
        """Lines of memory that the hops touch at random, against as many read for nothing else."""
        fanouts, adjacency = self.options.fanouts, self.store.adjacency(EDGE_TYPE)
        count = 1 << 22
        sampler, lines, edges = self.store.sampler(EDGE_TYPE, fanouts), 0.0, 0
        for step in range(len(self.seeds)):
            _, layers, nodes = sampler.sample(self.seeds[step], seed=SEED, step=step)
            for layer, fanout in zip(layers, fanouts):
                expanded = nodes["node"][layer.first : layer.first + layer.indptr.size - 1]
                lines += lines_touched(adjacency, expanded, fanout, layer.neighbors.size)
                edges += layer.neighbors.size
        self.figures.append(figure("lines touched at random, an edge", lines / edges, "lines"))
        for threads in (1, 2):
            self._edges = {"gossamer": edges}
            cases = {
                "gossamer": self._layers([self.store.sampler(EDGE_TYPE, fanouts) for _ in range(threads)]),
                "reading": _timed(lambda _, batch: read_lines(adjacency, count, batch * count), 2 * threads, threads),
            }
            amounts = {"gossamer": lines, "reading": 2.0 * threads * count}
            seconds = self.report("limit", threads, cases, "lines", amounts)
            value = lines / seconds["gossamer"] / (amounts["reading"] / seconds["reading"])
            self.figures.append(
                figure(f"lines/s of sampling to those read, {threads} thread{'s' * (threads > 1)}", value, "x")
            )

    def _layers(self, samplers: list[Any]) -> Callable[[], float]:
        def sample(worker: int, batch: int) -> Any:
            return samplers[worker].sample(self.seeds[batch], seed=SEED, step=batch)

        return _timed(sample, len(self.seeds), len(samplers))

    def _same_draws(self, ours: Any, twin: CsrSampler) -> int:
        """Compare some batches bit for bit; returns the edges that all draw."""
        edges = 0
        for step in range(len(self.seeds)):
            layers = ours.sample(self.seeds[step], seed=SEED, step=step)[1]
            edges += sum(layer.neighbors.size for layer in layers)
            if step < 3:
                for left, right in zip(layers, twin.sample(self.seeds[step], seed=SEED, step=step)[1]):
                    assert np.array_equal(left.indptr, right.indptr), "the CSR's draws differ"
                    assert np.array_equal(left.neighbors, right.neighbors), "the CSR's draws differ"
        return edges

    def _against(self, part: str, peer: str, name: str, samplers: list[Any], times: bool, **request: Any) -> None:
        batches, threads = len(self.seeds), len(samplers)
        self._edges = {}

        def one(worker: int, batch: int) -> Any:
            bounds = {"times": self.node_times[self.seeds[batch]]} if times and self.node_times is not None else {}
            return samplers[worker].sample(self.seeds[batch], seed=SEED, step=batch, **bounds)

        cases = {"gossamer": _timed(one, batches, threads)}
        self._edges["gossamer"] = sum(sum(hop.neighbors.size for hop in one(0, batch).hops) for batch in range(batches))
        self.asked(cases, name, peer, threads, **request)
        seconds = self.report(part, threads, cases, "batches", {"": batches})
        rates = {case: self._edges[case] / value for case, value in seconds.items()}
        value = rates["gossamer"] / rates[name] if name in rates else None
        self.figures.append(
            figure(f"{part}, edges/s times {name}, {threads} thread{'s' * (threads > 1)}", value, "x", least=1.8)
        )

    def weighted(self) -> None:
        """The same in proportion to weights, without replacement."""
        for threads in (1, 2):
            samplers = self.samplers(threads, method="weighted")
            request = {"do": "blocks", "fanouts": self.options.fanouts[::-1], "weighted": True}
            self._against("weighted", "dgl", "DGL", samplers, False, **request)

    def temporal(self) -> None:
        """Neighbours that are not later than their seed; an edge is as old as its target."""
        for threads in (1, 2):
            samplers = self.samplers(threads, temporal=True)
            request = {"do": "temporal", "fanouts": self.options.fanouts}
            self._against("temporal", "pyg", "torch-sparse", samplers, True, **request)

    # Walks, labels, loaders

    def walks(self) -> None:
        """Uniform walks and node2vec, from all seeds at once."""
        starts = self.seeds.ravel()
        few = starts[:4096]
        for threads in (1, 2):
            self._edges = {}
            cases: Cases = {}
            for name, peer in (("torch-cluster", "pyg"), ("DGL", "dgl")):
                self.asked(
                    cases, f"uniform, {name}", peer, threads, do="uniform", length=WALK_LENGTH, walks=starts.size
                )
                self.asked(
                    cases,
                    f"node2vec, {name}",
                    peer,
                    threads,
                    do="node2vec",
                    length=NODE2VEC_LENGTH,
                    walks=few.size,
                    p=P,
                    q=Q,
                )
            cases["uniform, gossamer"] = self._walk(starts, threads, length=WALK_LENGTH)
            cases["node2vec, gossamer"] = self._walk(few, threads, length=NODE2VEC_LENGTH, p=P, q=Q)
            steps = {case: WALK_LENGTH * starts.size for case in cases if case.startswith("uniform")}
            steps |= {case: NODE2VEC_LENGTH * few.size for case in cases if case.startswith("node2vec")}
            seconds = self.report("walks", threads, cases, "steps", steps)
            pairs = (("uniform", "torch-cluster", 1.5), ("node2vec", "DGL", 20), ("node2vec", "torch-cluster", None))
            for kind, name, least in pairs:
                value = ratio(seconds, f"{kind}, gossamer", f"{kind}, {name}")
                self.figures.append(
                    figure(
                        f"{kind} walks, times {name}, {threads} thread{'s' * (threads > 1)}", value, "x", least=least
                    )
                )

    def _walk(self, starts: np.ndarray, threads: int, **options: Any) -> Callable[[], float]:
        from graph_store.sampling.walks import walk

        adjacency = self.store.adjacency(EDGE_TYPE)

        def run() -> float:
            start = time.perf_counter()
            walk([adjacency], starts, seed=SEED, threads=threads, **options)
            return time.perf_counter() - start

        return run

    def relabel(self) -> None:
        """Labels for what the last hop drew, against `np.unique`."""
        layers = self.store.sampler(EDGE_TYPE, self.options.fanouts).sample(self.seeds[0], seed=SEED)
        drawn = np.concatenate([layers[2]["node"][layer.neighbors] for layer in layers[1]])
        labels = Relabeller()

        def ours() -> float:
            start = time.perf_counter()
            for _ in range(20):
                labels.clear()
                labels.labels(drawn)
            return time.perf_counter() - start

        def unique() -> float:
            start = time.perf_counter()
            for _ in range(20):
                np.unique(drawn, return_inverse=True)
            return time.perf_counter() - start

        self._edges = {}
        seconds = self.report("relabel", 1, {"gossamer": ours, "np.unique": unique}, "nodes", {"": 20.0 * drawn.size})
        self.figures.append(
            figure("relabelling, times np.unique", ratio(seconds, "gossamer", "np.unique"), "x", least=5.0)
        )


def _fanouts(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, scale=20)
    parser.add_argument("--graph", choices=("rmat", "gowalla"), default="rmat", help="which graph (default: rmat)")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--fanouts", type=_fanouts, default=[15, 10, 5], help="of each hop (default 15,10,5)")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: all)")
    options = parser.parse_args()
    rows, figures = [], []
    with folders(options) as (data, folder):
        for valued in (False, True):
            parts = [part for part in PARTS if part in options.parts and (part in VALUED) == valued]
            own = folder / ("valued" if valued else "plain")
            own.mkdir()
            with ExitStack() as stack:
                bench = Bench(options, data, own, stack, valued=valued) if parts else None
                for part in parts:
                    getattr(bench, part)()
            if bench is not None:
                rows, figures = rows + bench.rows, figures + bench.figures
    extra = {name: getattr(options, name) for name in ("graph", "fanouts", "batch", "scale")}
    write_report("sampling", rows, extra, figures=figures)


if __name__ == "__main__":
    main()
