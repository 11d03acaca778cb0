"""The edge types of a store and their numbers: a declared type stands for one or for many relations, and reverses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graph_store.edge_type import EdgeType
from graph_store.errors import BadInput
from graph_store.schema import Schema

MAX_TYPES = 1 << 16


@dataclass(frozen=True)
class Group:
    """Edge types of consecutive numbers that come from one declared type and go the same way.

    Attributes
    ----------
    declared : int
        The number of the declared type in the schema.
    edge_type : EdgeType
    forward : bool
        False for the reverses.
    first : int
        The number of the first.
    names : tuple of str
        Ascending by relation.
    """

    declared: int
    edge_type: EdgeType
    forward: bool
    first: int
    names: tuple[str, ...]

    @property
    def src(self) -> str:
        """The node type where these edges start."""
        return self.edge_type.name.src if self.forward else self.edge_type.name.dst

    @property
    def dst(self) -> str:
        """The node type where these edges end."""
        return self.edge_type.name.dst if self.forward else self.edge_type.name.src

    @property
    def numbered(self) -> bool:
        """True where edges have edge ids, the rows of their features."""
        return bool(self.edge_type.features)


def groups_of(schema: Schema, relations: Sequence[Mapping[str, int]]) -> list[Group]:
    """Name and number all edge types.

    Parameters
    ----------
    relations : sequence
        Of each declared type the relations that its files name, where it is a wildcard.

    Raises
    ------
    BadInput
        Two types of one name, or too many.
    """
    groups: list[Group] = []
    taken: dict[str, EdgeType] = {}
    first = 0
    for declared, edge_type in enumerate(schema.edge_types.values()):
        name = edge_type.name
        types = [name.with_relation(each) for each in sorted(relations[declared])] if name.is_wildcard else [name]
        ways = [tuple(map(str, types))]
        if edge_type.reverse:
            ways.append(tuple(str(each.reversed()) for each in types))
        for forward, names in zip((True, False), ways):
            for each in names:
                if each in taken:
                    raise BadInput(
                        f"edge type {edge_type.name}: {each} is an edge type of {taken[each].name} already; "
                        "rename the relation, or leave it out of one of them"
                    )
                taken[each] = edge_type
            groups.append(Group(declared, edge_type, forward, first, names))
            first += len(names)
    if first > MAX_TYPES:
        raise BadInput(f"{first:,} edge types; a store has at most {MAX_TYPES:,}")
    return groups
