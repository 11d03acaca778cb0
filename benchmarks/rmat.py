"""Graph500 R-MAT graphs, the input of the graph benchmarks (Chakrabarti, Zhan and Faloutsos, SDM 2004)."""

from pathlib import Path

import numpy as np

A, B, C = 0.57, 0.19, 0.19


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
    pq.write_table(pa.table({"src": src, "dst": dst}), path, row_group_size=1 << 20)
