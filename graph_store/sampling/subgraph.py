"""What sampling returns: nodes, and the edges that each hop drew."""

from dataclasses import dataclass, field

import numpy as np


@dataclass(frozen=True)
class Hop:
    """What one hop drew: nodes `first … first + f − 1` of the source type, each with its sampled neighbours.

    Attributes
    ----------
    edge_type, src_type, dst_type : str
    first : int
        The label of the first node expanded.
    indptr : int64[f + 1]
    neighbors : int64[m]
        Labels of the destination type.
    src_ids, dst_ids
        Original ids by label, of either type.
    """

    edge_type: str
    src_type: str
    dst_type: str
    first: int
    indptr: np.ndarray
    neighbors: np.ndarray
    src_ids: np.ndarray = field(repr=False)
    dst_ids: np.ndarray = field(repr=False)

    @property
    def src_labels(self) -> np.ndarray:
        """int64[m], the label of the node expanded, for each neighbour drawn."""
        return np.repeat(np.arange(self.first, self.first + self.indptr.size - 1), np.diff(self.indptr))

    @property
    def src(self) -> np.ndarray:
        """The original id of the node expanded, for each neighbour drawn."""
        return self.src_ids[self.src_labels]

    @property
    def dst(self) -> np.ndarray:
        """The original id of each neighbour drawn."""
        return self.dst_ids[self.neighbors]


@dataclass(frozen=True)
class Subgraph:
    """Sampled neighbourhoods, each node once however often it was drawn.

    Attributes
    ----------
    seeds
        Original ids, as given.
    seed_labels : int64[b]
        The label of each seed.
    nodes, ids : dict
        By node type: the node of each label, int64[n], and its original id; the seeds come first.
    hops : tuple of Hop
    """

    seeds: np.ndarray
    seed_labels: np.ndarray
    nodes: dict[str, np.ndarray]
    ids: dict[str, np.ndarray]
    hops: tuple[Hop, ...]


@dataclass(frozen=True)
class Layer:
    """One hop in labels, before ids: see `Hop`."""

    first: int
    indptr: np.ndarray
    neighbors: np.ndarray
