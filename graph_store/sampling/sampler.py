"""Neighbour sampling: seeds → fanned-out subgraphs."""

from collections.abc import Sequence

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.sampling.neighbors import draw_neighbors
from graph_store.sampling.relabel import Relabeller
from graph_store.sampling.subgraph import Layer


class Sampler:
    """Samples merged subgraphs over a chain of adjacencies, reusing its workspace; one a thread.

    Parameters
    ----------
    chain : sequence of (src_type, dst_type, Adjacency)
        What each hop walks along; the source type of a hop is the destination type of the one before.
    fanouts : sequence of int
        Neighbours a node and hop; -1 takes all, 0 none.
    """

    def __init__(self, chain: Sequence[tuple[str, str, Adjacency]], fanouts: Sequence[int]) -> None:
        if len(chain) != len(fanouts):
            raise ValueError(f"{len(fanouts)} fanouts for {len(chain)} hops")
        self.chain, self.fanouts = tuple(chain), tuple(fanouts)
        self._labels = {name: Relabeller() for src, dst, _ in chain for name in (src, dst)}

    # What draws a hop: a benchmark puts another layout's kernel in its place.
    _draw = staticmethod(draw_neighbors)

    def sample(
        self, seeds: np.ndarray, *, seed: int, step: int = 0, threads: int | None = 1
    ) -> tuple[np.ndarray, list[Layer], dict[str, np.ndarray]]:
        """Expand seed nodes, int64[b], hop by hop; each hop expands what the one before found first.

        Returns
        -------
        seed_labels : int64[b]
        layers : list of Layer
        nodes : dict of str to int64[n]
            The node of each label, by node type.
        """
        for labels in self._labels.values():
            labels.clear()
        origin = self._labels[self.chain[0][0]]
        seed_labels = origin.labels(self.chain[0][2].check_nodes(seeds))
        first, layers = 0, []
        for hop, ((src_type, dst_type, adjacency), fanout) in enumerate(zip(self.chain, self.fanouts)):
            frontier = self._labels[src_type].nodes[first:].copy()
            known = self._labels[dst_type].num_nodes
            indptr, drawn = self._draw(adjacency, frontier, fanout, seed=seed, step=step, hop=hop, threads=threads)
            layers.append(Layer(first, indptr, self._labels[dst_type].labels(drawn)))
            first = known
        return seed_labels, layers, {name: labels.nodes.copy() for name, labels in self._labels.items()}
