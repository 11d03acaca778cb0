"""Loaders end to end: batches with their features against DGL and PyG, link batches, negatives and splits."""

import argparse
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import numpy as np

import graph_store
from benchmarks.harness import Peer, figure, interleave, medians, peer_python, ratio, timed, write_report
from benchmarks.rmat import add_options, folders, graph_file
from graph_store import FeatureType, NegativeSampler, Schema

EDGE_TYPE = "node:links:node"
PARTS = ("nodes", "links", "negatives", "splits")
DIM, SEED, BATCH = 64, 7, 1024
FANOUTS, LINK_FANOUTS = [15, 10, 5], [10, 5]


class Bench:
    """A store whose nodes have vectors, and the peers that have the same graph.

    Parameters
    ----------
    options : argparse.Namespace
    data, folder : Path
        Where graphs are kept, and where everything else goes.
    stack : ExitStack
        Closes the store and the peers.
    """

    def __init__(self, options: argparse.Namespace, data: Path, folder: Path, stack: ExitStack) -> None:
        self.options, self.folder, self._stack = options, folder, stack
        self.rows: list[dict[str, Any]] = []
        self.figures: list[dict[str, Any]] = []
        self._peers: dict[str, Peer | None] = {}
        self._ingest(graph_file(data, options.scale))
        self.store = stack.enter_context(graph_store.open(folder / "store"))
        self.nodes = self.store.nodes("node")
        self.seeds = np.random.default_rng(3).choice(self.nodes, (options.batches, BATCH))

    def _ingest(self, edges: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        count = 1 << self.options.scale
        vectors = np.random.default_rng(5).random((count, DIM), np.float32)
        column = pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), DIM)
        nodes = {"table": pa.table({"id": np.arange(count), "vec": column})}
        nodes["features"] = (FeatureType("vec", "vector", dim=DIM),)
        schema = Schema.from_tables({EDGE_TYPE: {"table": pq.read_table(edges), "reverse": True}}, {"node": nodes})
        graph_store.ingest(schema, self.folder / "store")

    def _files(self) -> dict[str, str]:
        """Write the arrays for the peers, once: the sources of each node, empty where a number is no node."""
        files = {name: self.folder / f"{name}.npy" for name in ("indptr", "indices", "seeds", "features")}
        if not files["features"].exists():
            ordered = np.sort(self.nodes)
            ends, neighbors = self.store.adjacency(self.store.edge_types[EDGE_TYPE].reverse).neighbors(ordered)
            degrees, size = np.zeros(int(ordered[-1]) + 1, np.int64), int(ordered[-1]) + 1
            degrees[ordered] = np.diff(ends)
            features = np.zeros((size, DIM), np.float32)
            features[ordered] = self.store.node_features("node").values("vec", ordered).values
            arrays = (np.concatenate([[0], np.cumsum(degrees)]), neighbors, self.seeds, features)
            for path, array in zip(files.values(), arrays):
                np.save(path, array)
        return {name: str(path) for name, path in files.items()}

    def peer(self, name: str) -> Peer | None:
        """Return a peer that has the graph, None where it is not installed."""
        if name not in self._peers:
            python = peer_python(name)
            self._peers[name] = None
            if python is not None:
                script = Path(__file__).with_name(f"sampling_{name}.py")
                peer = self._stack.enter_context(closing(Peer(python, script, environment={"OMP_NUM_THREADS": "1"})))
                print(f"{name}: {peer.ask({'do': 'start', **self._files()})}")
                self._peers[name] = peer
        return self._peers[name]

    def _asked(self, name: str, **request: Any) -> Callable[[], float] | None:
        peer = self.peer(name)
        return None if peer is None else lambda: float(peer.ask(request)["seconds"])

    def _report(
        self, part: str, threads: int, cases: Mapping[str, Callable[[], float] | None], what: str, amount: float
    ) -> dict[str, float]:
        there = {case: call for case, call in cases.items() if call is not None}
        seconds = medians(interleave(there, self.options.repeats))
        for case, value in seconds.items():
            row = {"part": part, "threads": threads, "case": case, "what": what, "a second": amount / value}
            self.rows.append(row)
        return seconds

    def nodes_part(self) -> None:
        """Three hops with a vector of each node; of ours one thread or two make batches ahead."""
        features = self._files()["features"]
        for threads in (1, 2):
            loader = graph_store.node_loader(
                self.store, FANOUTS, self.seeds.ravel(), batch_size=BATCH, shuffle=False, seed=SEED, direction="in",
                edge_types=EDGE_TYPE, features={"node": ["vec"]}, threads=threads, depth=threads,
            )  # fmt: skip
            cases = {
                "gossamer": _through(loader),
                "DGL": self._asked("dgl", do="load", fanouts=FANOUTS[::-1], workers=threads, features=features),
                "PyG": self._asked("pyg", do="load", fanouts=FANOUTS, threads=threads, features=features),
            }
            seconds = self._report("nodes", threads, cases, "batches", len(self.seeds))
            for name in ("DGL", "PyG"):
                text = f"loader with {DIM} floats a node, times {name}, {threads} thread{'s' * (threads > 1)}"
                self.figures.append(figure(text, ratio(seconds, "gossamer", name), "x"))

    def links_part(self) -> None:
        """Link batches with a negative each; the targets are left out, and in another case held-out edges too."""
        split = self.store.split_edges(EDGE_TYPE, valid=0.05, test=0.05, seed=SEED)
        examples = np.random.default_rng(6).integers(0, len(split.train), len(self.seeds) * BATCH)
        links = split.train.take(examples)
        features = self._files()["features"]
        np.save(self.folder / "links.npy", np.stack([links.src, links.dst]))
        shared = {"num_negatives": 1, "batch_size": BATCH, "shuffle": False, "seed": SEED, "direction": "in"}
        negatives = NegativeSampler.of_type(self.store, EDGE_TYPE)
        for threads in (1, 2):
            shared |= {"threads": threads, "depth": threads, "features": {"node": ["vec"]}, "negatives": negatives}
            cases = {
                case: _through(self.store.link_loader(EDGE_TYPE, LINK_FANOUTS, links, **shared, **options))
                for case, options in (
                    ("gossamer", {"edge_types": EDGE_TYPE}),
                    ("gossamer, held-out edges too", {"edge_types": EDGE_TYPE, "held_out": split.held_out()}),
                )
            }
            request = {"fanouts": LINK_FANOUTS, "links": str(self.folder / "links.npy"), "batch": BATCH}
            cases["PyG"] = self._asked("pyg", do="load_links", threads=threads, features=features, **request)  # type: ignore[assignment]
            seconds = self._report("links", threads, cases, "batches", len(self.seeds))
            for case in list(cases)[:2]:
                text = f"links, {case}, times PyG, {threads} thread{'s' * (threads > 1)}"
                self.figures.append(figure(text, ratio(seconds, case, "PyG"), "x"))

    def negatives_part(self) -> None:
        """Five negatives for each of many positives, against as many random numbers that are checked for nothing."""
        sources = self.seeds.ravel()
        positions, many = np.arange(sources.size), 5
        random = np.random.default_rng(1)
        samplers = {
            "strict, uniform": NegativeSampler.of_type(self.store, EDGE_TYPE),
            "strict, degree^0.75": NegativeSampler.of_type(self.store, EDGE_TYPE, method="degree", alpha=0.75),
            "not strict": NegativeSampler.of_type(self.store, EDGE_TYPE, strict=False),
        }
        for threads in (1, 2):

            def drawn(sampler: NegativeSampler, threads: int = threads) -> Callable[[], Any]:
                return lambda: sampler.sample(sources, positions, num_negatives=many, seed=SEED, threads=threads)

            cases = {case: timed(drawn(sampler)) for case, sampler in samplers.items()}
            cases["numpy, random numbers"] = timed(lambda: random.integers(0, self.nodes.size, many * sources.size))
            self._report("negatives", threads, cases, "negatives", many * sources.size)

    def splits_part(self) -> None:
        """Splits of all edges, against a permutation of as many numbers."""
        size = self.store.edge_types[EDGE_TYPE].num_entries
        random = np.random.default_rng(1)

        def split(**options: Any) -> Callable[[], Any]:
            return lambda: self.store.split_edges(EDGE_TYPE, valid=0.1, test=0.1, seed=SEED, **options)

        cases = {
            "by edge": timed(split()),
            "each user": timed(split(by="each_user", latest=False)),
            "numpy, permutation": timed(lambda: random.permutation(size)),
        }
        self._report("splits", 2, cases, "edges", size)


def _through(loader: Any) -> Callable[[], float]:
    """Return what goes through the first epoch and measures its seconds."""

    def run() -> float:
        start = time.perf_counter()
        for _ in loader.batches(0):
            pass
        return time.perf_counter() - start

    return run


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, scale=20)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="what to measure (default: all)")
    options = parser.parse_args()
    with folders(options) as (data, folder), ExitStack() as stack:
        bench = Bench(options, data, folder, stack)
        for part in PARTS:
            if part in options.parts:
                getattr(bench, f"{part}_part")()
    write_report("loading", bench.rows, {"scale": options.scale, "batch": BATCH, "dim": DIM}, figures=bench.figures)


if __name__ == "__main__":
    main()
