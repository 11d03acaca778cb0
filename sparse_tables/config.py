"""What a table is: its width, its optimizer, its shards and how a new row starts."""

import math
import re
from dataclasses import KW_ONLY, asdict, dataclass
from typing import Any

OPTIMIZERS = ("sgd", "adagrad", "row_adagrad", "adam")
PLACEMENTS = ("modulo", "mix")
INITIALS = ("normal", "uniform", "zeros", "constant")

_EPS = {"sgd": 0.0, "adagrad": 1e-10, "row_adagrad": 1e-8, "adam": 1e-8}


@dataclass(frozen=True)
class TableConfig:
    """One embedding table, checked once here and trusted afterwards.

    Parameters
    ----------
    name : str
        Names the table in errors, files and draws: letters, digits, `_`, `-` and `.`, at most 100 of them.
    dim : int
        Floats a row, 1 to 65,536.
    optimizer : {"sgd", "adagrad", "row_adagrad", "adam"}
        The update of a pushed row; see `sparse_tables.optimizers`. Keyword only, as is all that follows.
    learning_rate : float
        Positive and finite.
    seed : int
        With `name` and a row's id it determines the row's initial value. Any 64-bit integer.
    num_shards : int
        Logical shards, 1 to 65,536. Fixed for the life of the table and its checkpoints.
    placement : {"modulo", "mix"}
        The shard of an id: `id % num_shards` (node ids carry their shard so), or a mixed hash of the id
        modulo `num_shards`, for raw ids that may be strided.
    initial : {"normal", "uniform", "zeros", "constant"}
        A new row's values: normal with standard deviation `scale`, uniform in [-scale, scale), 0, or `scale`.
    scale : float
        Finite; at least 0 unless `initial` is "constant".
    l2 : float
        At least 0. A push adds `l2 * count * row` to a row's summed gradient before the optimizer sees it.
    betas : tuple of two floats
        Adam's decay rates, each in [0, 1).
    eps : float, optional
        Added to the root in the denominator, at least 0. By default 1e-10 for adagrad and 1e-8 for
        row_adagrad and adam (the defaults of torch and of fbgemm).
    initial_accumulator : float
        Where the sums of squares of adagrad and row_adagrad start; at least 0.

    Raises
    ------
    TypeError
        If a field is of another kind.
    ValueError
        If a field is out of its range.
    """

    name: str
    dim: int
    _: KW_ONLY
    optimizer: str = "sgd"
    learning_rate: float = 0.01
    seed: int = 0
    num_shards: int = 16
    placement: str = "modulo"
    initial: str = "normal"
    scale: float = 0.1
    l2: float = 0.0
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float | None = None
    initial_accumulator: float = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise TypeError(f"TableConfig: name must be a str, got {self.name!r}")
        if not re.fullmatch(r"[A-Za-z0-9_.-]{1,100}", self.name) or self.name.startswith("."):
            raise ValueError(
                f"TableConfig: name must be 1 to 100 letters, digits, '_', '-' or '.', not '.' first, got {self.name!r}"
            )
        for field, low, high in (
            ("dim", 1, 1 << 16),
            ("num_shards", 1, 1 << 16),
            ("seed", -(1 << 63), 1 << 64),
        ):
            self._check_integer(field, low, high)
        for field, choices in (("optimizer", OPTIMIZERS), ("placement", PLACEMENTS), ("initial", INITIALS)):
            if getattr(self, field) not in choices:
                raise ValueError(
                    f"TableConfig {self.name!r}: {field} must be one of {', '.join(choices)}, "
                    f"got {getattr(self, field)!r}"
                )
        if self.eps is None:
            object.__setattr__(self, "eps", _EPS[self.optimizer])
        for field in ("learning_rate", "scale", "l2", "eps", "initial_accumulator"):
            self._check_number(field)
        if self.learning_rate <= 0:
            raise ValueError(f"TableConfig {self.name!r}: learning_rate must be positive, got {self.learning_rate}")
        self._check_betas()

    def _check_integer(self, field: str, low: int, high: int) -> None:
        value = getattr(self, field)
        if isinstance(value, bool) or not hasattr(value, "__index__"):
            raise TypeError(f"TableConfig {self.name!r}: {field} must be an int, got {value!r}")
        value = value.__index__()
        if not low <= value <= high:
            raise ValueError(f"TableConfig {self.name!r}: {field} must be in {low}..{high}, got {value}")
        object.__setattr__(self, field, value)

    def _check_number(self, field: str) -> None:
        value = getattr(self, field)
        if isinstance(value, bool | str) or not hasattr(value, "__float__"):
            raise TypeError(f"TableConfig {self.name!r}: {field} must be a float, got {value!r}")
        value = float(value)
        signed = field == "scale" and self.initial == "constant"
        if not math.isfinite(value) or (value < 0 and not signed):
            raise ValueError(f"TableConfig {self.name!r}: {field} must be finite and at least 0, got {value}")
        object.__setattr__(self, field, value)

    def _check_betas(self) -> None:
        try:
            first, second = (float(beta) for beta in self.betas)
        except (TypeError, ValueError):
            raise TypeError(f"TableConfig {self.name!r}: betas must be two floats, got {self.betas!r}") from None
        if not (0 <= first < 1 and 0 <= second < 1):
            raise ValueError(f"TableConfig {self.name!r}: betas must be in [0, 1), got {self.betas!r}")
        object.__setattr__(self, "betas", (first, second))

    @property
    def state_width(self) -> int:
        """Floats of optimizer state a row: 0, `dim` (adagrad), 1 (row_adagrad) or `2 * dim` (adam)."""
        return {"sgd": 0, "adagrad": self.dim, "row_adagrad": 1, "adam": 2 * self.dim}[self.optimizer]

    @property
    def counts_steps(self) -> bool:
        """Whether a row counts its updates (adam does, for its bias correction)."""
        return self.optimizer == "adam"

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values; `TableConfig.from_dict` takes them back."""
        return {**asdict(self), "betas": list(self.betas)}

    @classmethod
    def from_dict(cls, fields: dict[str, Any]) -> "TableConfig":
        """Make a config of what `to_dict` returned.

        Raises
        ------
        TypeError, ValueError
            As the constructor does, an unknown field included.
        """
        return cls(**{**fields, "betas": tuple(fields.get("betas", cls.betas))})
