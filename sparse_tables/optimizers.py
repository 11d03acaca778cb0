"""The updates of rows, one fused pass a unique row, its duplicates' gradients summed first.

With g the summed gradient of a row (plus `l2 * count * row`), r the learning rate:

sgd          row -= r g
adagrad      a += g²;  row -= r g / (√a + eps)  (Duchi, Hazan and Singer, JMLR 2011; as in torch)
row_adagrad  a += mean(g²), one number a row;  row -= r g / (√a + eps)  (as in fbgemm)
adam         m = b₁ m + (1 − b₁) g;  v = b₂ v + (1 − b₂) g²;  row -= r m̂ / (√v̂ + eps)   (Kingma and Ba,
2015)

m̂ and v̂ divide by 1 − bᵗ where t counts the updates of that row: a row that every push holds moves exactly
as dense Adam moves it; one that a push leaves out keeps its moments.
"""

import math
from typing import Any

import numba
import numpy as np

from sparse_tables.index import (
    BETA1,
    BETA2,
    DIM,
    EPS,
    L2,
    LEARNING_RATE,
    OPTIMIZER,
    ROWS,
    STATE,
    STATE_WIDTH,
    STEPS,
)
from sparse_tables.kernels import (
    add_floats,
    fill_floats,
    kernel,
    load_float,
    load_word,
    prefetch_bytes,
    store_float,
    store_word,
)

SGD, ADAGRAD, ROW_ADAGRAD, ADAM = range(4)
_AHEAD = 8


def adam_corrections(learning_rate: float, betas: tuple[float, float], num_steps: int) -> np.ndarray:
    """Return float32[num_steps, 2]: for step t, `learning_rate / (1 - b1**t)` and `1 / sqrt(1 - b2**t)`.

    A power costs as much as a row's update. Row 0 is not for use.
    """
    steps = np.arange(num_steps, dtype=np.float64)
    with np.errstate(divide="ignore"):
        rates = learning_rate / (1.0 - betas[0] ** steps)
        roots = 1.0 / np.sqrt(1.0 - betas[1] ** steps)
    return np.stack([rates, roots], axis=1).astype(np.float32)


@kernel
def update(
    directory: Any,
    plan: Any,
    rates: Any,
    gradients: Any,
    counts: Any,
    order: Any,
    bounds: Any,
    shards: Any,
    uniques: Any,
    corrections: Any,
) -> None:
    """Sum the gradients of each unique row of some shards and apply the table's optimizer to it once.

    Parameters
    ----------
    gradients : float32[n, dim]
    counts : float32[n], or float32[0] for a count of 1 each
    order, bounds
        What `partition` filled.
    shards : int64[2]
        The first shard and the end of the range.
    uniques : int32[2, n]
        What `enter` filled.
    corrections : float32[t, 2]
        Adam's rates and roots by step; see `adam_corrections`.
    """
    dim, width = plan[DIM], plan[STATE_WIDTH]
    row_bytes, state_bytes = 4 * dim, 4 * width
    numbers, slots = uniques
    most = np.max(np.diff(bounds[shards[0] : shards[1] + 1]))
    spare = np.empty(most * dim + 16, np.float32)
    sums = (spare.ctypes.data + 63) & ~63
    samples = np.empty(most if rates[L2] != 0.0 else 0, np.float64)
    for shard in range(shards[0], shards[1]):
        first, last = bounds[shard], bounds[shard + 1]
        num_unique = 0
        while first + num_unique < last and slots[first + num_unique] >= 0:
            num_unique += 1
        _sum(sums, num_unique, gradients, order[first:last], numbers[first:last])
        _count(samples, counts, order[first:last], numbers[first:last])
        line = directory[shard]
        for number in range(num_unique):
            ahead = slots[first + min(number + _AHEAD, num_unique - 1)]
            prefetch_bytes(line[ROWS] + row_bytes * ahead, row_bytes)
            prefetch_bytes(line[STATE] + state_bytes * ahead, state_bytes)
            slot = slots[first + number]
            row, state = line[ROWS] + row_bytes * slot, line[STATE] + state_bytes * slot
            gradient = sums + row_bytes * number
            if len(samples) > 0:
                _decay(gradient, row, np.float32(rates[L2] * samples[number]), dim)
            if plan[OPTIMIZER] == SGD:
                _sgd(row, gradient, dim, np.float32(rates[LEARNING_RATE]))
            elif plan[OPTIMIZER] == ADAGRAD:
                _adagrad(row, state, gradient, dim, rates)
            elif plan[OPTIMIZER] == ROW_ADAGRAD:
                _row_adagrad(row, state, gradient, dim, rates)
            else:
                _adam(row, state, gradient, dim, rates, line[STEPS] + 8 * slot, corrections)
    # The kernels above know only the address of `spare`: without this use numba would free it before they run.
    spare[0] = 0.0


@kernel
def _sum(sums: int, num_unique: int, gradients: Any, order: Any, numbers: Any) -> None:
    """Sum the gradients at the positions `order` by unique number, in order, into the rows at address `sums`."""
    dim = gradients.shape[1]
    row_bytes, source, last = 4 * dim, gradients.ctypes.data, len(order) - 1
    fill_floats(sums, 0.0, num_unique * dim)
    for at in range(len(order)):
        prefetch_bytes(source + row_bytes * order[min(at + _AHEAD, last)], row_bytes)
        add_floats(sums + row_bytes * numbers[at], source + row_bytes * order[at], dim)


@kernel
def _count(samples: Any, counts: Any, order: Any, numbers: Any) -> None:
    """Sum the counts, 1 each where there are none, by unique number; `samples` is empty where nobody asks."""
    if len(samples) == 0:
        return
    samples[:] = 0.0
    for at in range(len(order)):
        samples[numbers[at]] += counts[order[at]] if len(counts) > 0 else 1.0


@kernel
def _decay(gradient: int, row: int, decay: float, dim: int) -> None:
    for column in range(dim):
        store_float(gradient, column, load_float(gradient, column) + decay * load_float(row, column))


@kernel
def _sgd(row: int, gradient: int, dim: int, rate: float) -> None:
    for column in range(dim):
        store_float(row, column, load_float(row, column) - rate * load_float(gradient, column))


@kernel
def _adagrad(row: int, state: int, gradient: int, dim: int, rates: Any) -> None:
    rate, eps = np.float32(rates[LEARNING_RATE]), np.float32(rates[EPS])
    for column in range(dim):
        slope = load_float(gradient, column)
        square = load_float(state, column) + slope * slope
        store_float(state, column, square)
        store_float(row, column, load_float(row, column) - rate * slope / (np.sqrt(square) + eps))


# "reassoc" lets the compiler sum in lanes: the order then depends on the processor, never on the threads.
@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _squares(gradient: int, dim: int) -> Any:
    square = np.float32(0.0)
    for column in range(dim):
        square += load_float(gradient, column) * load_float(gradient, column)
    return square


@kernel
def _row_adagrad(row: int, state: int, gradient: int, dim: int, rates: Any) -> None:
    square = load_float(state, 0) + _squares(gradient, dim) / np.float32(dim)
    store_float(state, 0, square)
    rate = np.float32(rates[LEARNING_RATE]) / (np.sqrt(square) + np.float32(rates[EPS]))
    _sgd(row, gradient, dim, rate)


@kernel
def _adam(row: int, state: int, gradient: int, dim: int, rates: Any, steps: int, corrections: Any) -> None:
    step = load_word(steps) + 1
    store_word(steps, step)
    if step < len(corrections):
        rate, root = corrections[step, 0], corrections[step, 1]
    else:
        rate = np.float32(rates[LEARNING_RATE] / (1.0 - math.pow(rates[BETA1], step)))
        root = np.float32(1.0 / math.sqrt(1.0 - math.pow(rates[BETA2], step)))
    eps = np.float32(rates[EPS])
    first, second = np.float32(rates[BETA1]), np.float32(rates[BETA2])
    rest1, rest2 = np.float32(1.0 - rates[BETA1]), np.float32(1.0 - rates[BETA2])
    squares = state + 4 * dim
    for column in range(dim):
        slope = load_float(gradient, column)
        mean = first * load_float(state, column) + rest1 * slope
        square = second * load_float(squares, column) + rest2 * slope * slope
        store_float(state, column, mean)
        store_float(squares, column, square)
        store_float(row, column, load_float(row, column) - rate * mean / (np.sqrt(square) * root + eps))
