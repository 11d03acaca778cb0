"""Slow twins of the table, in Python and numpy float64, written from the papers and the docstrings."""

import math

import numpy as np

MASK = (1 << 64) - 1


def mix64(value: int) -> int:
    """The finaliser of splitmix64."""
    value &= MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK
    return value ^ (value >> 31)


def unit(stream: int, draw: int) -> float:
    """A number in [0, 1) from the top 53 bits of a draw."""
    return (mix64(stream + (draw + 1) * 0x9E3779B97F4A7C15) >> 11) / 2.0**53


def initial_row(key: int, id: int, dim: int, initial: str, scale: float) -> np.ndarray:
    """float64[dim]: a new row."""
    stream = mix64((key & MASK) ^ mix64(id + 0x9E3779B97F4A7C15))
    if initial == "zeros":
        return np.zeros(dim)
    if initial == "constant":
        return np.full(dim, scale)
    if initial == "uniform":
        return np.array([scale * (2 * unit(stream, column) - 1) for column in range(dim)])
    row = []
    for column in range(0, dim, 2):
        radius = scale * math.sqrt(-2 * math.log(1 - unit(stream, column)))
        angle = 2 * math.pi * unit(stream, column + 1)
        row += [radius * math.cos(angle), radius * math.sin(angle)]
    return np.array(row[:dim])


class TableOracle:
    """A dict of rows with the optimizers of the docstring, one id at a time."""

    def __init__(self, config, initial_rows):
        self.config = config
        self.initial = initial_rows
        self.rows = {}
        self.state = {}

    def pull(self, ids, insert=True):
        result = []
        for id in ids:
            if insert:
                self.enter(id)
            result.append(self.rows[id] if id in self.rows else self.initial(id))
        return np.array(result).reshape(len(ids), self.config.dim)

    def enter(self, id):
        if id not in self.rows:
            start = self.config.initial_accumulator
            self.rows[id] = np.array(self.initial(id), dtype=np.float64)
            self.state[id] = {"a": np.full(self.config.dim, start), "r": start, "m": 0.0, "v": 0.0, "t": 0}

    def push(self, ids, gradients, counts=None):
        counts = np.ones(len(ids)) if counts is None else counts
        totals, samples = {}, {}
        for id, gradient, count in zip(ids, np.asarray(gradients, dtype=np.float64), counts):
            totals[id] = totals.get(id, 0.0) + gradient
            samples[id] = samples.get(id, 0.0) + count
        for id, total in totals.items():
            self.enter(id)
            self.update(id, total + self.config.l2 * samples[id] * self.rows[id])

    def update(self, id, gradient):
        config, state = self.config, self.state[id]
        rate, eps = config.learning_rate, config.eps
        if config.optimizer == "sgd":
            step = rate * gradient
        elif config.optimizer == "adagrad":
            state["a"] = state["a"] + gradient**2
            step = rate * gradient / (np.sqrt(state["a"]) + eps)
        elif config.optimizer == "row_adagrad":
            state["r"] = state["r"] + np.mean(gradient**2)
            step = rate * gradient / (np.sqrt(state["r"]) + eps)
        else:
            first, second = config.betas
            state["t"] += 1
            state["m"] = first * state["m"] + (1 - first) * gradient
            state["v"] = second * state["v"] + (1 - second) * gradient**2
            mean = state["m"] / (1 - first ** state["t"])
            square = state["v"] / (1 - second ** state["t"])
            step = rate * mean / (np.sqrt(square) + eps)
        self.rows[id] = self.rows[id] - step
