"""The rule by which a hop draws from a list."""

from dataclasses import dataclass

from graph_store.checks import check_integers
from graph_store.errors import BadInput

METHODS = ("uniform", "weighted", "top", "recent")
UNIFORM, WEIGHTED, TOP, RECENT = range(4)
_MOST_REPLACED = 1 << 31


@dataclass(frozen=True)
class Rule:
    """How many neighbours of each list are drawn, and which.

    Attributes
    ----------
    fanout : int
        Neighbours a list; -1 takes all that can be drawn, each once, and 0 none.
    replace : bool
        Each draw is from the whole list again, so that one neighbour may come several times.
    method : str
        `"uniform"`; `"weighted"`: the next draw is in proportion to the weight among what is left, and an edge whose
        weight is zero, negative or NaN is never drawn; `"top"`: the heaviest, those of NaN weight never; `"recent"`:
        the latest.
    strict : bool
        Of a list with a time bound: only edges before it, not at it.
    window : int, optional
        Of a list with a time bound: no edges of more than so long before it.

    Raises
    ------
    BadInput
        A value that is out of its range, or that goes with none of the others.
    """

    fanout: int
    replace: bool = False
    method: str = "uniform"
    strict: bool = False
    window: int | None = None

    def __post_init__(self) -> None:
        check_integers(fanout=self.fanout, window=0 if self.window is None else self.window)
        if self.fanout < -1:
            raise BadInput(f"fanouts must be numbers from -1 (all) on, got {self.fanout}")
        if self.method not in METHODS:
            raise BadInput(f"method must be one of {', '.join(METHODS)}, got {self.method!r}")
        if self.replace and self.method in ("top", "recent"):
            raise BadInput(f"method {self.method!r} takes each neighbour once; leave replace out")
        if self.replace and self.fanout > _MOST_REPLACED:
            raise BadInput(f"a fanout with replacement must be at most {_MOST_REPLACED}, got {self.fanout}")
        if self.window is not None and not 0 <= self.window < 1 << 63:
            raise BadInput(f"window must be a time span from 0 on, got {self.window}")

    @property
    def is_plain(self) -> bool:
        """True when it draws uniformly, each neighbour at most once."""
        return self.method == "uniform" and not self.replace

    def check_columns(self, name: str, *, weighted: bool, timed: bool) -> None:
        """Raise BadInput where the edges of a type have not what the method looks at."""
        if self.method in ("weighted", "top") and not weighted:
            raise BadInput(f"method {self.method!r} needs weights, but edges of {name} have none; say 'uniform' for it")
        if self.method == "recent" and not timed:
            raise BadInput(f"method 'recent' needs times, but edges of {name} have none; say 'uniform' for it")
