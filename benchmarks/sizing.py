"""What a store takes, bytes, seconds and machines: the arithmetic of docs/sizing.md, checked at three real sizes."""

import argparse
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import graph_store
from benchmarks.child import DiskWatch, in_child
from benchmarks.harness import figure, medians, print_table, write_report
from benchmarks.ingest import EDGE_TYPE, ingest_once
from benchmarks.rmat import folders, graph_file

# Bytes that follow from the layout (docs/store.md).
INDPTR, DIRECTORY, BLOCK_ROW = 4, 8 / 16, 24  # a node; a node; a block
BLOCK, BLOCK_FRAME = 3300, 44  # a block's mean size on R-MAT; its header, guard word and the padding to words
SHARD_COPY = 1.035  # a block in RocksDB against one in the arena: heads of hub chunks, keys, RocksDB's index
ID, INDEX_SLOT = 8, 16
SHARD_FIXED = 110_000  # a shard: RocksDB's own files, its LOG and OPTIONS above all
SPOOL_ROW = 16  # a row and direction that waits on disk during an ingest

# Seconds of one process on two cores (AMD EPYC, Zen 4), rows of an edge type with its reverse; see docs/sizing.md.
SECONDS_FIXED = 0.35
SECONDS_A_ROW = {"in memory": 0.09e-6, "spilled": 0.12e-6}
# Of a second process beside the first, as measured by `benchmarks.ingest`.
EFFICIENCY = 0.05

PREDICTED = ("adjacency", "ids", "shards")


@dataclass(frozen=True)
class Graph:
    """A graph whose store is to be sized.

    Attributes
    ----------
    nodes, edges : int
        Distinct; each edge is stored in as many `directions` (2 with a reverse type).
    spread : int
        Largest id minus smallest, plus 1; ids that fill a quarter of it or more are found in a table by value.
    rows : int
        Rows of the files, duplicates included.
    """

    nodes: int
    edges: int
    spread: int
    rows: int
    directions: int = 2
    shards: int = 16

    @property
    def bits(self) -> int:
        """Bits of a neighbour: those of the last node of the fullest shard."""
        fullest = self.nodes / self.shards + 2 * math.sqrt(self.nodes / self.shards)
        return max(1, math.ceil(fullest * self.shards) - 1).bit_length()

    @property
    def words(self) -> float:
        """Bytes of the packed lists of one direction."""
        packed = self.edges * self.bits / 8 + INDPTR * self.nodes
        return packed * (1 + BLOCK_FRAME / BLOCK)

    def parts(self) -> dict[str, float]:
        """Return the predicted bytes of each part that `graph_store.info` tells apart."""
        blocks = self.words / BLOCK
        adjacency = self.directions * (self.words + DIRECTORY * self.nodes + BLOCK_ROW * blocks)
        slots = 1 << (2 * self.nodes - 1).bit_length()
        index = 8 * self.spread if self.spread <= 4 * self.nodes + 1024 else INDEX_SLOT * slots
        shards = self.directions * self.words * SHARD_COPY + ID * self.nodes + SHARD_FIXED * self.shards
        return {"adjacency": adjacency, "ids": ID * self.nodes + index, "shards": shards}

    def peak_disk(self) -> float:
        """Return the predicted bytes on disk at the peak of an ingest that spills.

        The rows that wait are more than what is written of them, and go shard by shard: the peak is when all wait.
        """
        return max(sum(self.parts().values()), SPOOL_ROW * self.rows * self.directions)

    def seconds(self, way: str) -> float:
        """Return the predicted seconds of an ingest by one process on two cores."""
        return SECONDS_FIXED + SECONDS_A_ROW[way] * self.rows


def _measured(source: Path, store: Path, small: Path, memory: int, repeats: int) -> dict[str, float]:
    """Ingest a file with its reverse; returns the median of the seconds and the most bytes on disk."""
    rounds, disk = [], 0
    for _ in range(repeats):
        with DiskWatch(store.parent) as watch:
            arguments = {"source": str(source), "store": str(store), "warm_up": str(small), "memory": memory}
            found = in_child(ingest_once, **arguments, id_type="integer", threads=2, reverse=True)
        rounds.append(found["seconds"])
        disk = max(disk, watch.bytes)
    return {"seconds": medians({"s": rounds})["s"], "disk": disk}


def _check_size(scale: int, data: Path, folder: Path, repeats: int) -> list[dict[str, Any]]:
    """Build stores of one size, in memory and spilled; returns predicted beside measured."""
    source, small = graph_file(data, scale), graph_file(data, min(scale, 17))
    rows = 16 << scale
    (folder / "work").mkdir(exist_ok=True)
    store = folder / "work" / "graph.store"
    taken = {}
    for way, memory in (("in memory", 16 * SPOOL_ROW * rows), ("spilled", 2 * SPOOL_ROW * rows)):
        taken[way] = _measured(source, store, small, max(memory, 64 << 20), repeats)
    info = graph_store.info(store)
    graph = Graph(info["nodes"]["node"], info["edges"][EDGE_TYPE], 1 << scale, rows)
    pairs = {f"bytes: {part}": (graph.parts()[part], info["parts"][part]) for part in PREDICTED}
    pairs["bytes: all"] = (sum(graph.parts().values()), info["bytes"])
    pairs["disk: at the peak of an ingest"] = (graph.peak_disk(), taken["spilled"]["disk"])
    pairs |= {f"seconds: {way}": (graph.seconds(way), found["seconds"]) for way, found in taken.items()}
    return [
        {"scale": scale, "what": what, "predicted": float(one), "measured": float(other), "ratio": one / other}
        for what, (one, other) in pairs.items()
    ]


def table(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Return what graphs of 10^9 to 10^12 edges take, with hashed ids and a reverse type."""
    rows = []
    for power in range(9, 13):
        edges = 10**power
        graph = Graph(edges // options.degree, edges, 1 << 64, edges, shards=max(16, edges // 10**9))
        parts = graph.parts()
        arena = parts["adjacency"] + parts["ids"]
        machines = max(math.ceil(arena / options.memory), math.ceil(graph.peak_disk() / options.disk))
        workers = machines * options.cores // 2
        alone = graph.seconds("spilled") / 3600
        rows.append(
            {
                "edges": f"10^{power}",
                "nodes": f"{graph.nodes:.0e}".replace("e+", " 10^"),
                "bits": graph.bits,
                "bytes an edge, one way": parts["adjacency"] / graph.directions / edges,
                "arena, GB": arena / 1e9,
                "shards, GB": parts["shards"] / 1e9,
                "peak disk, GB": graph.peak_disk() / 1e9,
                "hours, 2 cores": alone,
                "machines": machines,
                "hours, all": alone / (1 + EFFICIENCY * (workers - 1)),
            }
        )
    return rows


def _figures(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for kind, within in (("bytes", 0.1), ("seconds", 0.3)):
        off = max(abs(row["ratio"] - 1) for row in rows if row["what"].startswith(kind))
        found.append(figure(f"largest error of the predicted {kind}", off, "of measured", most=within))
    return found


def main() -> None:
    """Check the arithmetic and print the table, or (`--table`) the table alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scales", type=int, nargs="+", default=[18, 20, 22], help="sizes to build (default 18 20 22)")
    parser.add_argument("--repeats", type=int, default=3, help="rounds of each (default 3)")
    parser.add_argument("--folder", type=Path, help="where stores go while it runs (default: a temporary folder)")
    parser.add_argument("--data", type=Path, help="where graphs are kept for the next run (default: not at all)")
    parser.add_argument("--table", action="store_true", help="print the table of 10^9 to 10^12 edges, build nothing")
    parser.add_argument("--degree", type=int, default=25, help="edges a node in the table (default 25)")
    parser.add_argument("--cores", type=int, default=16, help="cores of a machine in the table (default 16)")
    parser.add_argument("--memory", type=float, default=100e9, help="page cache of a machine, bytes (default 1e11)")
    parser.add_argument("--disk", type=float, default=4e12, help="disk of a machine, bytes (default 4e12)")
    options = parser.parse_args()
    print_table(table(options))
    if options.table:
        return
    print()
    with folders(options) as (data, folder):
        rows = [row for scale in options.scales for row in _check_size(scale, data, folder, options.repeats)]
    constants = {"fixed": SECONDS_FIXED, "a_row": SECONDS_A_ROW}
    write_report("sizing", rows, {"table": table(options), "seconds": constants}, figures=_figures(rows))


if __name__ == "__main__":
    main()
