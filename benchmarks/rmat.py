"""Graph500 R-MAT graphs, the input of the graph benchmarks (Chakrabarti, Zhan and Faloutsos, SDM 2004)."""

import argparse
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

A, B, C = 0.57, 0.19, 0.19
ROW_GROUP = 1 << 20


def rmat(scale: int, *, edge_factor: int = 16, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return int64[m] sources and targets of a graph of 2^scale nodes, m = edge_factor · 2^scale.

    The probabilities and the edge factor are those of Graph500; node ids are permuted, so that hubs are spread out.
    """
    rng = np.random.default_rng(seed)
    size = edge_factor << scale
    src, dst = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for bit in range(scale):
        draw = rng.random(size, dtype=np.float32)
        low = draw >= A + B  # the source's half
        high = ((draw >= A) & (draw < A + B)) | (draw >= A + B + C)  # the target's half
        src |= low.astype(np.int64) << bit
        dst |= high.astype(np.int64) << bit
    names = rng.permutation(1 << scale)
    return names[src], names[dst]


def scrambled(ids: np.ndarray) -> np.ndarray:
    """Map ids to int64 spread over all 64 bits, by an odd multiplication and a shift (a bijection)."""
    values = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (values ^ (values >> np.uint64(29))).view(np.int64)


def write_parquet(path: Path, src: np.ndarray, dst: np.ndarray) -> None:
    """Write two int64 columns, `src` and `dst`, with pyarrow's defaults (snappy, dictionaries where they help)."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"src": src, "dst": dst}), path, row_group_size=ROW_GROUP)


def write_named(path: Path, src: np.ndarray, dst: np.ndarray) -> None:
    """Write the same with strings for ids: `user-` and the number."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = pa.array([f"user-{number}" for number in range(int(max(src.max(), dst.max())) + 1)])
    schema = pa.schema([("src", pa.string()), ("dst", pa.string())])
    with pq.ParquetWriter(path, schema) as writer:
        for low in range(0, src.size, ROW_GROUP):
            rows = slice(low, low + ROW_GROUP)
            writer.write_table(pa.table([names.take(pa.array(src[rows])), names.take(pa.array(dst[rows]))], schema))


def read_graph(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the columns of a file of integer ids, int64[m] each."""
    import pyarrow.parquet as pq

    table = pq.read_table(path)
    return table["src"].to_numpy(), table["dst"].to_numpy()


def graph_file(folder: Path, scale: int, kind: str = "dense") -> Path:
    """Return the graph's file in `folder`, made unless it is there.

    Parameters
    ----------
    kind : str
        Of the ids: `dense` (0 to 2^scale - 1), `scrambled` over 64 bits, or `string`.
    """
    path = folder / f"rmat-{scale}-{kind}.parquet"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    if kind == "dense":
        write_parquet(beside, *rmat(scale))
    else:
        src, dst = read_graph(graph_file(folder, scale))
        if kind == "scrambled":
            write_parquet(beside, scrambled(src), scrambled(dst))
        else:
            write_named(beside, src, dst)
    os.replace(beside, path)
    return path


def add_options(parser: argparse.ArgumentParser, *, scale: int) -> None:
    """Add what every benchmark of the store is told: the size, the rounds, the folders."""
    parser.add_argument("--scale", type=int, default=scale, help=f"2^SCALE nodes, 16 edges a node (default {scale})")
    parser.add_argument("--repeats", type=int, default=5, help="rounds that count (default 5)")
    parser.add_argument("--folder", type=Path, help="where stores go while it runs (default: a temporary folder)")
    parser.add_argument("--data", type=Path, help="where graphs are kept for the next run (default: not at all)")


@contextmanager
def folders(options: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """Give a folder for the graphs and an empty one for everything else, which is removed at the end."""
    with tempfile.TemporaryDirectory(prefix="gossamer-bench-", dir=options.folder) as name:
        yield options.data or Path(name), Path(name)
