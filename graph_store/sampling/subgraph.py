"""What sampling returns: nodes, and the edges that each hop drew."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from graph_store.errors import BadInput
from graph_store.ids import IdMap

if TYPE_CHECKING:
    import scipy.sparse


class LabelIds(Mapping[str, np.ndarray]):
    """Original ids by node type, of each label; looked up when they are first asked for."""

    def __init__(self, nodes: Mapping[str, np.ndarray], id_maps: Mapping[str, IdMap]) -> None:
        self._nodes, self._id_maps = nodes, id_maps
        self._found: dict[str, np.ndarray] = {}

    def __getitem__(self, node_type: str) -> np.ndarray:
        if node_type not in self._found:
            self._found[node_type] = self._id_maps[node_type].to_ids(self._nodes[node_type])
        return self._found[node_type]

    def __iter__(self) -> Iterator[str]:
        return iter(self._nodes)

    def __len__(self) -> int:
        return len(self._nodes)


@dataclass(frozen=True)
class Hop:
    """What one hop drew along one edge type: nodes `first … first + f − 1` of one type, each with its neighbours.

    An edge is in the direction of its type, whichever end was expanded: it goes from `src` to `dst`.

    Attributes
    ----------
    edge_type, src_type, dst_type : str
    first : int
        The label of the first node expanded.
    indptr : int64[f + 1]
    neighbors : int64[m]
        Labels of `neighbor_type`, in the order of `lists.Drawn`.
    ids : mapping
        Original ids by node type and label.
    depth : int
        The hop, from 0 on; of several edge types each has its own.
    direction : str
        `"out"`: destinations were drawn of sources; `"in"`: sources of destinations.
    edge_ids : int64[m] or None
        The edge's row of the edge features; where the type has none, its position: see `Adjacency.edges_at` of the edge
        type.
    weights : float32[m] or None
    times : int64[m] or None
        None, as the others, where they were not asked for or the type has none.
    """

    edge_type: str
    src_type: str
    dst_type: str
    first: int
    indptr: np.ndarray
    neighbors: np.ndarray
    ids: Mapping[str, np.ndarray] = field(repr=False)
    depth: int = 0
    direction: str = "out"
    edge_ids: np.ndarray | None = None
    weights: np.ndarray | None = None
    times: np.ndarray | None = None

    @property
    def expanded_type(self) -> str:
        """The type of the nodes expanded."""
        return self.src_type if self.direction == "out" else self.dst_type

    @property
    def neighbor_type(self) -> str:
        """The type of the nodes drawn."""
        return self.dst_type if self.direction == "out" else self.src_type

    @property
    def expanded_labels(self) -> np.ndarray:
        """int64[m], the label of the node expanded, for each neighbour drawn."""
        return np.repeat(np.arange(self.first, self.first + self.indptr.size - 1), np.diff(self.indptr))

    @property
    def src_labels(self) -> np.ndarray:
        """int64[m], the label of the source of each edge."""
        return self.expanded_labels if self.direction == "out" else self.neighbors

    @property
    def dst_labels(self) -> np.ndarray:
        """int64[m], the label of the destination of each edge."""
        return self.neighbors if self.direction == "out" else self.expanded_labels

    @property
    def src_ids(self) -> np.ndarray:
        """Original ids of the source type by label."""
        return self.ids[self.src_type]

    @property
    def dst_ids(self) -> np.ndarray:
        """Original ids of the destination type by label."""
        return self.ids[self.dst_type]

    @property
    def src(self) -> np.ndarray:
        """The original id of the source of each edge."""
        return self.src_ids[self.src_labels]

    @property
    def dst(self) -> np.ndarray:
        """The original id of the destination of each edge."""
        return self.dst_ids[self.dst_labels]


@dataclass(frozen=True)
class Subgraph:
    """Sampled neighbourhoods: merged, each node once however often it was drawn, or a tree for each seed.

    Attributes
    ----------
    labels_of_seeds : dict of str to int64[b]
        By node type the label of each seed, in the order given.
    nodes : dict of str to int64[n]
        By node type the node of each label: the seeds first, then what each hop found new.
    ids : mapping of str to int64[n] or object[n]
        The original id of each label.
    hops : tuple of Hop
        By depth, and of one depth in the order of the edge types.
    num_sampled_nodes : dict of str to list of int
        By node type how many of the labels are of the seeds, and how many each depth found new.
    trees : dict of str to int64[n], or None
        By node type the seed in whose tree each label is, counted over all seeds; None where trees are merged.
    induced : bool
        Whether the edges are all those among the nodes, and not those that hops drew from the seeds on.
    """

    labels_of_seeds: dict[str, np.ndarray]
    nodes: dict[str, np.ndarray]
    ids: Mapping[str, np.ndarray]
    hops: tuple[Hop, ...]
    num_sampled_nodes: dict[str, list[int]]
    trees: dict[str, np.ndarray] | None = None
    induced: bool = False

    @property
    def seed_type(self) -> str:
        """The node type of the seeds; ValueError where there are several."""
        if len(self.labels_of_seeds) != 1:
            raise ValueError(f"the seeds are of types {', '.join(self.labels_of_seeds)}; see labels_of_seeds")
        return next(iter(self.labels_of_seeds))

    @property
    def seed_labels(self) -> np.ndarray:
        """int64[b], the label of each seed, of one type."""
        return self.labels_of_seeds[self.seed_type]

    @property
    def seeds(self) -> np.ndarray:
        """The original id of each seed, of one type."""
        return self.ids[self.seed_type][self.seed_labels]

    @property
    def edge_types(self) -> dict[str, tuple[Hop, ...]]:
        """The hops of each edge type, by depth."""
        names = dict.fromkeys(hop.edge_type for hop in self.hops)
        return {name: tuple(hop for hop in self.hops if hop.edge_type == name) for name in names}

    def edge_index(self, edge_type: str) -> np.ndarray:
        """Return int64[2, m], the labels of the source and destination of each edge, through the hops in turn.

        An edge that two hops drew, or that an undirected type has at both ends, is there twice. KeyError where no hop
        is of the type.
        """
        hops = self.edge_types[edge_type]
        found = np.empty((2, sum(hop.neighbors.size for hop in hops)), np.int64)
        at = 0
        for hop in hops:
            rows = slice(at, at + hop.neighbors.size)
            found[0, rows], found[1, rows] = hop.src_labels, hop.dst_labels
            at = rows.stop
        return found

    def column(self, edge_type: str, name: str) -> np.ndarray | None:
        """Return `edge_ids`, `weights` or `times` in the order of `edge_index`; None where they are not there."""
        parts = [getattr(hop, name) for hop in self.edge_types[edge_type]]
        return None if any(part is None for part in parts) else np.concatenate(parts)

    def to_scipy(self, edge_type: str | None = None) -> "scipy.sparse.coo_array":
        """Return the edges of a type as a matrix of source labels by destination labels.

        Entries are weights where they were sampled, 1 otherwise, float32; an edge that is there twice has two, which a
        conversion adds up. The edge type may be left out where there is one.

        Raises
        ------
        BadInput
            No such edge type was sampled, or none is named of several.
        """
        import scipy.sparse

        if edge_type is None and len(self.edge_types) == 1:
            edge_type = next(iter(self.edge_types))
        if edge_type not in self.edge_types:
            raise BadInput(f"edge_type must be one of {', '.join(self.edge_types)}, got {edge_type!r}")
        hop = self.edge_types[edge_type][0]
        index, weights = self.edge_index(edge_type), self.column(edge_type, "weights")
        values = np.ones(index.shape[1], np.float32) if weights is None else weights
        shape = self.nodes[hop.src_type].size, self.nodes[hop.dst_type].size
        return scipy.sparse.coo_array((values, tuple(index)), shape=shape)

    @property
    def num_sampled_edges(self) -> dict[str, list[int]]:
        """By edge type how many edges each depth drew."""
        depth = 1 + max((hop.depth for hop in self.hops), default=-1)
        counts = {hop.edge_type: [0] * depth for hop in self.hops}
        for hop in self.hops:
            counts[hop.edge_type][hop.depth] += hop.neighbors.size
        return counts


@dataclass(frozen=True)
class Layer:
    """One hop in labels, before ids: see `Hop`."""

    first: int
    indptr: np.ndarray
    neighbors: np.ndarray
