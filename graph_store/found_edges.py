"""The edges between given pairs of nodes, with what is known of each."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graph_store.ragged import starts_of

if TYPE_CHECKING:
    from graph_store.adjacency import Adjacency


class FoundEdges(NamedTuple):
    """The edges between each of n pairs; parallel ones in the order of their list.

    Attributes
    ----------
    indptr : int64[n + 1]
        Where the edges of each pair begin.
    weights : float32[m] or None
    times : int64[m] or None
    edge_ids : int64[m] or None
        Rows of the features of edges, of a type that has some; see `GraphStore.edge_features`.
    """

    indptr: np.ndarray
    weights: np.ndarray | None
    times: np.ndarray | None
    edge_ids: np.ndarray | None


def find_edges(adjacency: "Adjacency", src: np.ndarray, dst: np.ndarray) -> FoundEdges:
    """Return the edges between pairs of int64[n] nodes; -1 is a node without edges.

    The whole list of each source is read, once for all its pairs.
    """
    known = (src >= 0) & (dst >= 0)
    sources, lists = np.unique(src[known], return_inverse=True)
    indptr, neighbors, *columns = adjacency.columns(sources)
    counts, places = np.zeros(src.size, np.int64), []
    for row, one in zip(np.flatnonzero(known).tolist(), lists.tolist()):
        low, high = int(indptr[one]), int(indptr[one + 1])
        own = low + np.flatnonzero(neighbors[low:high] == dst[row])
        counts[row] = own.size
        places.append(own)
    found = np.concatenate([np.empty(0, np.int64), *places])
    return FoundEdges(starts_of(counts), *(None if column is None else column[found] for column in columns))
