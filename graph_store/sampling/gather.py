"""Features of what a batch holds, read from the version that its sampler is of."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from graph_store.errors import BadInput
from graph_store.features import FeatureValues
from graph_store.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from graph_store.store import GraphStore

Features = dict[str, dict[str, FeatureValues]]


class Gatherer:
    """Reads some features of all nodes and edges of subgraphs; for any number of threads.

    Parameters
    ----------
    store : GraphStore
    features : dict of str to sequence of str
        By node type or edge type the names of the features.

    Raises
    ------
    BadInput
        There is no such type, it has no feature of that name, or one of strings.
    """

    def __init__(self, store: "GraphStore", features: Mapping[str, Sequence[str]]) -> None:
        self._nodes, self._edges = {}, {}
        if not isinstance(features, Mapping):
            raise BadInput(
                f"features must be names by node type or edge type, such as {{'item': ['x']}}, got {features!r}"
            )
        for kind, names in features.items():
            names = (names,) if isinstance(names, str) else names
            if kind in store.node_types:
                tables = store.node_features(kind)
                self._nodes[kind] = tables, list(names)
            elif kind in store.edge_types:
                tables = store.edge_features(kind)
                self._edges[kind] = tables, list(names)
            else:
                known = ", ".join([*store.node_types, *store.edge_types])
                raise BadInput(f"features are asked of {kind!r}; the store has {known}")
            for name in names:
                tables.numbers(name, np.empty(0, np.int64))

    @property
    def columns(self) -> set[str]:
        """The columns to sample: features of edges are found by edge ids."""
        return {"edge_ids"} if self._edges else set()

    def of(self, subgraph: Subgraph) -> Features:
        """Return by type and name the values of each label, and of each edge of a type through all its hops in turn.

        Categories are int64 places in `FeatureTables.words`, -1 where absent.
        """
        found = {}
        for kind, (tables, names) in self._nodes.items():
            nodes = subgraph.nodes.get(kind, np.empty(0, np.int64))
            found[kind] = {name: tables.numbers(name, nodes) for name in names}
        for kind, (tables, names) in self._edges.items():
            hops = [hop.edge_ids for hop in subgraph.hops if hop.edge_type == kind and hop.edge_ids is not None]
            edges = np.concatenate([np.empty(0, np.int64), *hops])
            found[kind] = {name: tables.numbers(name, edges) for name in names}
        return found
