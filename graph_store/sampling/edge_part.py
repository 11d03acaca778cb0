"""EdgePart: some edges of a type by their positions; their ends and times are read when they are asked for."""

from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graph_store.kernels import int64_array

if TYPE_CHECKING:
    from graph_store.store import GraphStore


class Edges(NamedTuple):
    """Edges by nodes.

    Attributes
    ----------
    src, dst : int64[n]
        Nodes.
    times : int64[n] or None
        None where the edge type has no times.
    """

    src: np.ndarray
    dst: np.ndarray
    times: np.ndarray | None


class EdgePart:
    """Some edges of a type of one version of a store.

    Parameters
    ----------
    store : GraphStore
    edge_type : str
    positions : int64[n]
        Positions of the edges, see `Adjacency.edges_at`; 8 bytes an edge are all that is kept until `src`, `dst`,
        `times`, `src_ids` or `dst_ids` is asked for.
    """

    def __init__(self, store: "GraphStore", edge_type: str, positions: np.ndarray) -> None:
        self.edge_type, self.positions = edge_type, int64_array(positions, "positions")
        entry = store.edge_types[edge_type]
        self._adjacency = store.adjacency(edge_type)
        self._ids = store.id_map(entry.src), store.id_map(entry.dst)

    def __len__(self) -> int:
        return self.positions.size

    def __repr__(self) -> str:
        return f"EdgePart({self.edge_type!r}, {len(self):,} edges)"

    def take(self, examples: np.ndarray) -> Edges:
        """Return the edges at int64[b] places 0 … n − 1 of this part; IndexError where there is no such place."""
        return self._edges(self.positions[int64_array(examples, "examples")])

    def _edges(self, positions: np.ndarray) -> Edges:
        adjacency = self._adjacency
        return Edges(*adjacency.edges_at(positions), adjacency.times_at(positions) if adjacency.timed else None)

    @cached_property
    def _all(self) -> Edges:
        return self._edges(self.positions)

    @property
    def src(self) -> np.ndarray:
        """int64[n], the source nodes."""
        return self._all.src

    @property
    def dst(self) -> np.ndarray:
        """int64[n], the destination nodes."""
        return self._all.dst

    @property
    def times(self) -> np.ndarray | None:
        """int64[n], or None where the edge type has no times."""
        return self._all.times

    @property
    def src_ids(self) -> Any:
        """The sources' original ids: int64[n], uint64[n] or object[n] of str."""
        return self._ids[0].to_ids(self.src)

    @property
    def dst_ids(self) -> Any:
        """The destinations' original ids."""
        return self._ids[1].to_ids(self.dst)
