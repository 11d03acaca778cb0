"""The initial values of a row: a pure function of the table's seed and name and the row's id.

A row's stream is splitmix64 (Steele, Lea and Flood, OOPSLA 2014) started at a mix of the table's key and the
id, so a row starts the same on every rank, in every process, in whatever order ids arrive.
"""

import hashlib
import math

import numpy as np

from sparse_tables.kernels import fill_floats, kernel, mix64, store_float

NORMAL, UNIFORM, ZEROS, CONSTANT = range(4)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_MASK = (1 << 64) - 1


def table_key(name: str, seed: int) -> int:
    """Return the 64-bit key of a table's draws, as the int64 of the same bits."""
    words = (seed & _MASK).to_bytes(8, "little") + name.encode()
    return int.from_bytes(hashlib.blake2b(words, digest_size=8).digest(), "little", signed=True)


@kernel
def _unit(stream: np.uint64, draw: int) -> float:
    """Return the stream's draw number `draw` as a float64 in [0, 1)."""
    return np.float64(mix64(stream + np.uint64(draw + 1) * _STEP) >> np.uint64(11)) * 2.0**-53


@kernel
def draw_row(row: int, dim: int, key: int, id: int, kind: int, scale: float) -> None:
    """Write the initial value of the row of `id` to the address `row`, float32[dim].

    Normal draws are those of Box and Muller, "A note on the generation of random normal deviates", 1958.
    """
    if kind in (CONSTANT, ZEROS):
        fill_floats(row, scale if kind == CONSTANT else 0.0, dim)
        return
    stream = mix64(np.uint64(key) ^ mix64(np.uint64(id) + _STEP))
    if kind == UNIFORM:
        for column in range(dim):
            store_float(row, column, np.float32(scale * (2.0 * _unit(stream, column) - 1.0)))
        return
    for column in range(0, dim, 2):
        radius = scale * math.sqrt(-2.0 * math.log(1.0 - _unit(stream, column)))
        angle = 2.0 * math.pi * _unit(stream, column + 1)
        store_float(row, column, np.float32(radius * math.cos(angle)))
        if column + 1 < dim:
            store_float(row, column + 1, np.float32(radius * math.sin(angle)))
