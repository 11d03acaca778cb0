"""The plan of a neighbour sampler: which edge types each hop goes along, and by which rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graph_store.checks import check_integers
from graph_store.errors import BadInput, UnknownEdgeType
from graph_store.manifest import StoredEdgeType
from graph_store.sampling.rule import Rule

DIRECTIONS = ("out", "in")


@dataclass(frozen=True)
class Way:
    """One edge type of one hop.

    Attributes
    ----------
    depth : int
        The hop, from 0 on.
    entry : StoredEdgeType
    number : int
        Which of the store's edge types it is; draws depend on it.
    direction : str
        `"out"`: from sources to destinations; `"in"`: from destinations to sources.
    read : str
        The edge type whose lists hold the neighbours: for `"in"` the reverse type, or an undirected type itself.
    rule : Rule
    """

    depth: int
    entry: StoredEdgeType
    number: int
    direction: str
    read: str
    rule: Rule

    @property
    def expanded_type(self) -> str:
        """The node type whose nodes are expanded."""
        return self.entry.src if self.direction == "out" else self.entry.dst

    @property
    def neighbor_type(self) -> str:
        """The node type of what is drawn."""
        return self.entry.dst if self.direction == "out" else self.entry.src


@dataclass(frozen=True)
class Choice:
    """How neighbours are drawn; `method` and `replace` for all edge types, or each by the name of its type."""

    method: str | Mapping[str, str] = "uniform"
    replace: bool | Mapping[str, bool] = False
    strict: bool = False
    window: int | None = None

    def rule(self, entry: StoredEdgeType, fanout: int) -> Rule:
        """Return the rule of a type; BadInput where the type has not what the method looks at."""
        method = self.method if isinstance(self.method, str) else self.method.get(entry.name, "uniform")
        replace = self.replace.get(entry.name, False) if isinstance(self.replace, Mapping) else self.replace
        rule = Rule(fanout, replace, method, self.strict, self.window)
        rule.check_columns(entry.name, weighted=entry.weighted, timed=entry.timed)
        return rule


def plan_hops(
    known: Mapping[str, StoredEdgeType],
    fanouts: Sequence[int] | Mapping[str, Sequence[int]],
    choice: Choice,
    *,
    edge_types: str | Sequence[str] | None = None,
    metapath: Sequence[str] | None = None,
    direction: str = "out",
) -> tuple[Way, ...]:
    """Return the ways of all hops, in the order in which they are gone; see `NeighborSampler`.

    Raises
    ------
    UnknownEdgeType
    BadInput
        Arguments that contradict each other, or a way that the store has no lists for.
    """
    if direction not in DIRECTIONS:
        raise BadInput(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction!r}")
    by_type = _by_hop(known, fanouts, edge_types, metapath, direction)
    numbers = {name: number for number, name in enumerate(known)}
    return tuple(
        Way(
            depth,
            known[name],
            numbers[name],
            direction,
            read_type(known[name], direction),
            choice.rule(known[name], fanout),
        )
        for depth, hop in enumerate(by_type)
        for name, fanout in hop.items()
    )


def _by_hop(
    known: Mapping[str, StoredEdgeType],
    fanouts: Sequence[int] | Mapping[str, Sequence[int]],
    edge_types: str | Sequence[str] | None,
    metapath: Sequence[str] | None,
    direction: str,
) -> list[dict[str, int]]:
    """Return of each hop the fanout of each edge type."""
    if isinstance(fanouts, Mapping):
        if edge_types is not None or metapath is not None:
            raise BadInput("fanouts by edge type say which types there are; leave edge_types and metapath out")
        return _each_hop(known, fanouts)
    hops = list(fanouts)
    for fanout in hops:
        check_integers(fanout=fanout)
    if not hops or min(hops) < -1:
        raise BadInput(f"fanouts must be one or more numbers from -1 (all) on, got {hops}")
    if metapath is not None:
        if edge_types is not None:
            raise BadInput("a metapath names its edge types; leave edge_types out")
        return _along(known, metapath, hops, direction)
    if edge_types is None:
        edge_types = next(iter(known)) if len(known) == 1 else list(known)
    if isinstance(edge_types, str):
        return [{name: fanout} for name, fanout in zip(chain(known, edge_types, len(hops)), hops)]
    return _each_hop(known, dict.fromkeys(edge_types, hops))


def _each_hop(known: Mapping[str, StoredEdgeType], fanouts: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    lengths = {len(own) for own in fanouts.values()}
    if len(lengths) != 1 or 0 in lengths:
        given = {name: list(own) for name, own in fanouts.items()}
        raise BadInput(f"fanouts of all edge types must be equally many, one a hop and at least one, got {given}")
    for name in fanouts:
        known_type(known, name)
    return [dict(zip(fanouts, hop)) for hop in zip(*fanouts.values())]


def _along(
    known: Mapping[str, StoredEdgeType], metapath: Sequence[str], fanouts: Sequence[int], direction: str
) -> list[dict[str, int]]:
    if len(metapath) != len(fanouts):
        raise BadInput(f"a metapath of {len(metapath)} edge types needs as many fanouts, got {len(fanouts)}")
    ends = [(entry.src, entry.dst) for entry in (known_type(known, name) for name in metapath)]
    if direction == "in":
        ends = [(dst, src) for src, dst in ends]
    check_path(metapath, ends)
    return [{name: fanout} for name, fanout in zip(metapath, fanouts)]


def check_path(metapath: Sequence[str], ends: Sequence[tuple[str, str]]) -> None:
    """Raise BadInput where an edge type does not go on from the node type that the one before leads to.

    Parameters
    ----------
    ends : sequence of (str, str)
        Of each edge type the node types that it goes from and to.
    """
    for hop, ((_, reached), (expanded, _)) in enumerate(zip(ends[:-1], ends[1:])):
        if reached != expanded:
            raise BadInput(
                f"metapath: {metapath[hop]} leads to nodes of {reached}, {metapath[hop + 1]} goes on from {expanded}"
            )


def known_type(known: Mapping[str, StoredEdgeType], name: str) -> StoredEdgeType:
    """Return an edge type; UnknownEdgeType where there is none of that name."""
    if name not in known:
        raise UnknownEdgeType(f"no edge type {str(name)!r}; the store has {', '.join(known)}")
    return known[name]


def chain(known: Mapping[str, StoredEdgeType], name: str, hops: int) -> list[str]:
    """Return the edge type of each hop: the type itself, or between two node types the type and its reverse in turn.

    Raises
    ------
    BadInput
        More than one hop, two node types and no reverse type.
    """
    entry = known_type(known, name)
    if entry.src == entry.dst or hops <= 1:
        return [name] * hops
    if entry.reverse is None:
        raise BadInput(
            f"{hops} hops along {name} need its reverse for the way back from {entry.dst!r}; "
            "ingest with --reverse, or ask for one hop"
        )
    return [name if hop % 2 == 0 else entry.reverse for hop in range(hops)]


def read_type(entry: StoredEdgeType, direction: str) -> str:
    """Return the edge type whose lists hold the neighbours in a direction; BadInput where there is none."""
    if direction == "out" or entry.undirected:
        return entry.name
    if entry.reverse is None:
        raise BadInput(f"direction 'in' along {entry.name} needs its reverse type; ingest with --reverse")
    return entry.reverse
