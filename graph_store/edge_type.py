"""Edge types: their names, the files their edges come from, and how the edges are taken and stored."""

from collections import Counter
from dataclasses import dataclass, replace

from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.sources import EdgeSource, check_features
from graph_store.words import (
    BAD_ROWS_LIMIT,
    WILDCARD,
    check_bad_rows,
    check_choice,
    check_flag,
    check_name,
    check_relation,
    tuple_of,
)

TIME_UNITS = ("s", "ms", "us", "ns", "step")
# The choices of each policy, the default first.
POLICIES = {
    "duplicates": ("first", "all", "sum", "max", "error"),
    "self_loops": ("keep", "drop", "error"),
    "missing_nodes": ("create", "drop", "error"),
    "bad_weights": ("error", "drop"),
    "negative_weights": ("keep", "error", "drop"),
}


@dataclass(frozen=True, order=True)
class EdgeTypeName:
    """The three words of an edge type, written `src:relation:dst`, as in `user:clicks:item`.

    Raises
    ------
    BadInput
        A word that is no name.
    """

    src: str
    relation: str
    dst: str

    def __post_init__(self) -> None:
        check_name("node type", self.src)
        check_relation(self.relation)
        check_name("node type", self.dst)

    @classmethod
    def parse(cls, text: "str | EdgeTypeName") -> "EdgeTypeName":
        """Read `src:relation:dst`; `src:*:dst` stands for all relations that a column names.

        Raises
        ------
        BadInput
            Not three names with a colon between them.
        """
        if isinstance(text, EdgeTypeName):
            return text
        words = text.split(":") if isinstance(text, str) else []
        if len(words) != 3:
            raise BadInput(f"edge type {text!r}: expected 'src:relation:dst', as in 'user:clicks:item'")
        return cls(*words)

    @property
    def is_wildcard(self) -> bool:
        """True for `src:*:dst`."""
        return self.relation == WILDCARD

    def with_relation(self, relation: str) -> "EdgeTypeName":
        """Return the type of one relation of a wildcard.

        Raises
        ------
        BadInput
            The word can be no relation, or is `*` itself.
        """
        if relation == WILDCARD:
            raise BadInput(f"relation name {WILDCARD!r}: stands for all relations and can be none of them; rename it")
        return replace(self, relation=relation)

    def reversed(self) -> "EdgeTypeName":
        """Return the name of the opposite type: `user:clicks:item` gives `item:rev_clicks:user`."""
        return EdgeTypeName(self.dst, f"rev_{self.relation}", self.src)

    def __str__(self) -> str:
        return f"{self.src}:{self.relation}:{self.dst}"


@dataclass(frozen=True)
class EdgeType:
    """An edge type, the files its edges come from, and how they are taken and stored.

    Attributes
    ----------
    name : EdgeTypeName
        `src:relation:dst`; a string is parsed. `src:*:dst` where every source has a column `relation`: one edge
        type for each of its values.
    sources : tuple of EdgeSource
        One or more files; all weighted or none, all timed or none.
    reverse : bool
        Also store the type `name.reversed()`.
    undirected : bool
        Count each pair once, whichever end comes first, and store it both ways; both ends are one node type.
    features : tuple of FeatureType
        What the files tell of each edge; names differ.
    time_unit : str or None
        `"s"`, `"ms"`, `"us"`, `"ns"` or `"step"`; None when it is not known. Times by position are steps.
    duplicates : str
        Of rows with the same ends and time keep the `"first"` or `"all"`, one with the `"sum"` or the `"max"` of
        their weights, or `"error"`.
    self_loops : str
        `"keep"`, `"drop"` or `"error"`.
    missing_nodes : str
        What becomes of an edge whose end no file of nodes lists, where the node type has files: `"create"` the
        node, `"drop"` the edge, or `"error"`.
    bad_weights : str
        For weights that are NaN or infinite: `"error"`, or `"drop"` the edge.
    negative_weights : str
        `"keep"`, `"error"`, or `"drop"` the edge.
    bad_rows, bad_rows_limit
        As in `NodeType`.

    Raises
    ------
    BadInput
        No source, sources that disagree, or options that exclude each other.
    """

    name: EdgeTypeName
    sources: tuple[EdgeSource, ...]
    reverse: bool = False
    undirected: bool = False
    features: tuple[FeatureType, ...] = ()
    time_unit: str | None = None
    duplicates: str = "first"
    self_loops: str = "keep"
    missing_nodes: str = "create"
    bad_weights: str = "error"
    negative_weights: str = "keep"
    bad_rows: str = "stop"
    bad_rows_limit: int = BAD_ROWS_LIMIT

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", EdgeTypeName.parse(self.name))
        place = f"edge type {self.name}"
        object.__setattr__(self, "sources", tuple_of(EdgeSource, place, "sources", self.sources))
        object.__setattr__(self, "features", tuple_of(FeatureType, place, "features", self.features))
        if not self.sources:
            raise BadInput(f"{place}: no files; name at least one")
        self._check_directions(place)
        self._check_agreement(place)
        self._check_relation(place)
        for key, known in POLICIES.items():
            check_choice(place, key, getattr(self, key), known)
        self._check_weights(place)
        self._check_time(place)
        check_features(place, self.features, self.sources)
        check_bad_rows(place, self.bad_rows, self.bad_rows_limit)

    def _check_directions(self, place: str) -> None:
        for key in ("reverse", "undirected"):
            check_flag(place, key, getattr(self, key))
        if self.reverse and self.undirected:
            raise BadInput(
                f"{place}: reverse and undirected exclude each other; an undirected type is stored both ways already"
            )
        if self.undirected and self.name.src != self.name.dst:
            raise BadInput(
                f"{place}: undirected needs one node type at both ends, "
                f"got {self.name.src!r} and {self.name.dst!r}; did you mean reverse?"
            )

    def _check_agreement(self, place: str) -> None:
        for role in ("weight", "time"):
            with_column = [source for source in self.sources if getattr(source, role) is not None]
            if with_column and len(with_column) < len(self.sources):
                without = next(source for source in self.sources if getattr(source, role) is None)
                raise BadInput(
                    f"{place}: {with_column[0].path} has a {role} column, "
                    f"{without.path} has none; all files of a type must agree"
                )

        for source, count in Counter(self.sources).items():
            if count > 1 and source.table is None and self.duplicates in ("all", "sum", "error"):
                raise BadInput(
                    f"{place}: {source.path} is named twice and duplicates is {self.duplicates!r}, so its rows would "
                    "count twice; name it once"
                )

    def _check_relation(self, place: str) -> None:
        for source in self.sources:
            if self.name.is_wildcard and source.relation is None:
                raise BadInput(f"{place}: {source.path} has no relation column; '*' needs one, say relation")
            if not self.name.is_wildcard and source.relation is not None:
                raise BadInput(
                    f"{place}: {source.path} has a relation column, which is for edge types with '*'; "
                    f"say '{self.name.src}:*:{self.name.dst}' or leave relation out"
                )

    def _check_weights(self, place: str) -> None:
        if self.weighted:
            return
        if self.duplicates in ("sum", "max"):
            raise BadInput(f"{place}: duplicates is {self.duplicates!r}, but there are no weights; name their column")
        for key in ("bad_weights", "negative_weights"):
            if getattr(self, key) != POLICIES[key][0]:
                raise BadInput(f"{place}: {key} is {getattr(self, key)!r}, but there are no weights; name their column")

    def _check_time(self, place: str) -> None:
        if self.time_unit is not None:
            check_choice(place, "time_unit", self.time_unit, TIME_UNITS)
            if not self.timed:
                raise BadInput(f"{place}: time_unit is {self.time_unit!r}, but there are no times; name their column")
        by_position = [source for source in self.sources if source.timed_by_position]
        if len(by_position) == len(self.sources) and self.time_unit is None:
            object.__setattr__(self, "time_unit", "step")
        if by_position and self.time_unit != "step":
            raise BadInput(
                f"{place}: {by_position[0].path} has times by position, which are steps; "
                "say time_unit = 'step' if the other times are too"
            )

    @property
    def weighted(self) -> bool:
        """True when each edge has a weight."""
        return self.sources[0].weight is not None

    @property
    def timed(self) -> bool:
        """True when each edge has a time."""
        return self.sources[0].time is not None
