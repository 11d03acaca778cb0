"""ModelOptions: what a model is and how it learns, checked once."""

import math
from dataclasses import dataclass
from typing import Any

LOSSES = ("bpr", "softmax")
SIMILARITIES = ("dot", "cosine")
L2_PER = ("sample", "row")
NEGATIVES = ("uniform", "popular")
_DEFAULT_NEGATIVES = {"bpr": 1, "softmax": 1024}


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The options of a model, in the names of the configuration's keys.

    Parameters
    ----------
    dim : int
        Floats a representation, 1 … 4096.
    layers : int
        Propagations of LightGCN, 0 … 8; no other model reads it.
    init_scale : float
        Standard deviation of the normal initial rows; positive.
    loss : {"bpr", "softmax"}
        The pairwise loss, or the softmax over the positive and negatives shared by a step.
    num_negatives : int, optional
        Of each sample under "bpr" (default 1), shared by all samples of a step under "softmax" (default 1024);
        1 … 65,536.
    negatives : {"uniform", "popular"}
        How items are drawn as negatives: all alike, or under "softmax" in proportion to their training edges: the
        distinct items of `num_negatives` edges. That teaches preference beyond popularity; ranking adds popularity.
    temperature : float
        Divides the similarities under "softmax"; positive.
    similarity : {"dot", "cosine"}
        What "softmax" compares; "bpr" knows only "dot".
    optimizer : str
        One of `sparse_tables.TableConfig`.
    learning_rate : float
        Positive.
    l2 : float
        At least 0. A sample adds `l2 / 2 * |row|²` of its own initial rows (user, positive and, under "bpr", negative)
        to its loss.
    l2_per : {"sample", "row"}
        Whether a row is decayed each time it occurs, as in LightGCN's published code, or over an epoch as much as a row
        of average frequency: a positive counts for its user by the inverse of the user's degree, for its item by that
        of the item's, negatives do not count. Frequent rows then keep their length, which ranks popular items.
    seed : int
        Of initial rows, order and negatives; 0 … 2⁶³ − 1.
    batch_size : int
        Samples of a step over all ranks, at least 1.

    Raises
    ------
    TypeError, ValueError
        A value is of the wrong kind or out of range; the message names it.
    """

    dim: int = 64
    layers: int = 3
    init_scale: float = 0.1
    loss: str = "bpr"
    num_negatives: int | None = None
    negatives: str = "uniform"
    temperature: float = 0.1
    similarity: str = "dot"
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    l2: float = 1e-4
    l2_per: str = "sample"
    seed: int = 0
    batch_size: int = 2048

    def __post_init__(self) -> None:
        _check_choice("loss", self.loss, LOSSES)
        _check_choice("similarity", self.similarity, SIMILARITIES)
        _check_choice("l2_per", self.l2_per, L2_PER)
        _check_choice("negatives", self.negatives, NEGATIVES)
        if self.num_negatives is None:
            object.__setattr__(self, "num_negatives", _DEFAULT_NEGATIVES[self.loss])
        for name, low, high in (
            ("dim", 1, 4096),
            ("layers", 0, 8),
            ("num_negatives", 1, 65536),
            ("seed", 0, (1 << 63) - 1),
            ("batch_size", 1, 1 << 31),
        ):
            _check_integer(name, getattr(self, name), low, high)
        for name in ("init_scale", "temperature", "learning_rate", "l2"):
            object.__setattr__(self, name, _checked_number(name, getattr(self, name), zero=name == "l2"))
        if self.loss == "bpr" and self.similarity != "dot":
            raise ValueError('similarity must be "dot" with loss = "bpr"; "cosine" goes with loss = "softmax"')

        if self.loss == "bpr" and self.negatives != "uniform":
            raise ValueError('negatives must be "uniform" with loss = "bpr"; "popular" goes with loss = "softmax"')

    @property
    def negatives_drawn(self) -> int:
        """`num_negatives`, its default filled in."""
        assert self.num_negatives is not None
        return self.num_negatives


def _check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def _check_integer(name: str, value: Any, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be in {low} … {high}, got {value}")


def _checked_number(name: str, value: Any, *, zero: bool) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
        raise ValueError(f"{name} must be finite and {'at least' if zero else 'above'} 0, got {value}")
    return float(value)
