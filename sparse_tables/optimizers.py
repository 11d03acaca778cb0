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
from sparse_tables.kernels import add_floats, copy_floats, floats_at, kernel, load_word, prefetch_bytes, store_word

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
    uniques : int64[3, n]
        What `enter` filled. Its third row is used up.
    corrections : float32[t, 2]
        Adam's rates and roots by step; see `adam_corrections`.
    """
    dim, width = plan[DIM], plan[STATE_WIDTH]
    total = np.empty(dim, np.float32)
    base_gradient, row_bytes = gradients.ctypes.data, 4 * dim
    numbers, slots, ends = uniques[0], uniques[1], uniques[2]
    members = np.empty(bounds[shards[1]] - bounds[shards[0]], np.int64)
    for shard in range(shards[0], shards[1]):
        first, last = bounds[shard], bounds[shard + 1]
        line = directory[shard]
        num_unique = 0
        while first + num_unique < last and slots[first + num_unique] >= 0:
            num_unique += 1
        base = first - bounds[shards[0]]
        _group(numbers[first:last], ends[first : first + num_unique], order[first:last], members[base:])
        begin = base
        for number in range(num_unique):
            if number + _AHEAD < num_unique:
                slot = slots[first + number + _AHEAD]
                prefetch_bytes(line[ROWS] + row_bytes * slot, row_bytes)
                prefetch_bytes(line[STATE] + 4 * width * slot, 4 * width)
            end = base + ends[first + number]
            slot = slots[first + number]
            row = floats_at(line[ROWS] + row_bytes * slot, dim)
            state = floats_at(line[STATE] + 4 * width * slot, width)
            prefetch_bytes(base_gradient + row_bytes * members[min(begin + _AHEAD, len(members) - 1)], row_bytes)
            if end - begin == 1 and rates[L2] == 0.0:
                gradient = floats_at(base_gradient + row_bytes * members[begin], dim)
            else:
                gradient = total
                _sum(total, base_gradient, members, begin, end)
            if rates[L2] != 0.0:
                decay = np.float32(rates[L2] * _count(counts, members, begin, end))
                for column in range(dim):
                    total[column] += decay * row[column]
            _step(plan[OPTIMIZER], rates, row, state, gradient, line[STEPS] + 8 * slot, corrections)
            begin = end


@kernel
def _group(numbers: Any, ends: Any, order: Any, members: Any) -> None:
    """Order a shard's positions by unique number, stably; `ends` turns from occurrences into ends."""
    before = 0
    for number in range(len(ends)):
        before += ends[number]
        ends[number] = before - ends[number]
    for at in range(len(order)):
        number = numbers[at]
        members[ends[number]] = order[at]
        ends[number] += 1


@kernel
def _sum(total: Any, gradients: int, members: Any, begin: int, end: int) -> None:
    """Sum the gradients of `members[begin:end]`, rows at the address `gradients`, into `total`, in order."""
    row_bytes, last = 4 * len(total), len(members) - 1
    copy_floats(total.ctypes.data, gradients + row_bytes * members[begin], len(total))
    for at in range(begin + 1, end):
        prefetch_bytes(gradients + row_bytes * members[min(at + _AHEAD, last)], row_bytes)
        add_floats(total.ctypes.data, gradients + row_bytes * members[at], len(total))


@kernel
def _count(counts: Any, members: Any, begin: int, end: int) -> float:
    if len(counts) == 0:
        return np.float64(end - begin)
    count = 0.0
    for at in range(begin, end):
        count += counts[members[at]]
    return count


# "reassoc" lets the compiler sum in lanes: the order then depends on the processor, never on the threads.
@numba.njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def _squares(gradient: Any) -> Any:
    square = np.float32(0.0)
    for column in range(len(gradient)):
        square += gradient[column] * gradient[column]
    return square


@kernel
def _step(optimizer: int, rates: Any, row: Any, state: Any, gradient: Any, steps: int, corrections: Any) -> None:
    rate, eps = np.float32(rates[LEARNING_RATE]), np.float32(rates[EPS])
    dim = len(row)
    if optimizer == SGD:
        for column in range(dim):
            row[column] -= rate * gradient[column]
    elif optimizer == ADAGRAD:
        for column in range(dim):
            state[column] += gradient[column] * gradient[column]
            row[column] -= rate * gradient[column] / (np.sqrt(state[column]) + eps)
    elif optimizer == ROW_ADAGRAD:
        state[0] += _squares(gradient) / np.float32(dim)
        factor = rate / (np.sqrt(state[0]) + eps)
        for column in range(dim):
            row[column] -= factor * gradient[column]
    else:
        step = load_word(steps) + 1
        store_word(steps, step)
        if step < len(corrections):
            rate, root = corrections[step, 0], corrections[step, 1]
        else:
            rate = np.float32(rates[LEARNING_RATE] / (1.0 - math.pow(rates[BETA1], step)))
            root = np.float32(1.0 / math.sqrt(1.0 - math.pow(rates[BETA2], step)))
        first, second = np.float32(rates[BETA1]), np.float32(rates[BETA2])
        rest1, rest2 = np.float32(1.0 - rates[BETA1]), np.float32(1.0 - rates[BETA2])
        means, squares = state[:dim], state[dim:]
        for column in range(dim):
            moment = first * means[column] + rest1 * gradient[column]
            spread = second * squares[column] + rest2 * gradient[column] * gradient[column]
            means[column] = moment
            squares[column] = spread
            row[column] -= rate * moment / (np.sqrt(spread) * root + eps)
