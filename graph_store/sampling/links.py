"""Link batches: positives, their negatives, and one subgraph around both that holds none of the edges to predict."""

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from graph_store.errors import BadInput
from graph_store.kernels import int64_array
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.gather import Features
from graph_store.sampling.leakage import Targets
from graph_store.sampling.loader import Share
from graph_store.sampling.negatives import Negatives, NegativeSampler
from graph_store.sampling.neighbor_sampler import NeighborSampler
from graph_store.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from graph_store.store import GraphStore


@dataclass(frozen=True)
class LinkBatch:
    """Positives and negatives of an edge type, and the neighbourhoods of all their ends.

    Attributes
    ----------
    subgraph : Subgraph
    src, dst : int64[n]
        The ends of each positive, as labels of the edge type's source and destination type.
    negatives : int64[n, k]
        Labels of destinations; -1 where `unmet` and there is none.
    unmet : bool[n, k]
        See `Negatives`.
    labels : array[n] or None
        What was given with the positives.
    times : int64[n] or None
    targets : Targets
        What `check_leakage` goes by.
    features : dict of str to dict of str to FeatureValues
        Of a batch that a loader made, see `Gatherer.of`.
    share : Share or None
        Of a batch that a loader made: the step, and which examples these are.
    """

    subgraph: Subgraph
    src: np.ndarray
    dst: np.ndarray
    negatives: np.ndarray
    unmet: np.ndarray
    labels: np.ndarray | None
    times: np.ndarray | None
    targets: Targets = field(repr=False)
    features: Features = field(default_factory=dict, repr=False)
    share: Share | None = field(default=None, repr=False)


class LinkSampler:
    """Makes batches of links, reusing its workspace; one a thread.

    Of no hop the engine draws a target of the batch, an edge parallel to one, the reverse of either, or a held-out edge
    or its reverse; with `temporal` nor an edge later than the positive in whose tree it is.

    Parameters
    ----------
    store : GraphStore
    edge_type : str
    fanouts : sequence of int, or dict of str to sequence of int
        As of `NeighborSampler`.
    negatives : NegativeSampler, optional
        Where negatives come from; none are drawn when None.
    num_negatives : int
        For each positive.
    held_out : Exclusions, optional
        Edges of the type that must not be seen, such as `split.held_out("train")`.
    edge_types : str or sequence of str, optional
        What each hop goes along: the type and its reverse when None.
    options
        `direction`, `method`, `replace`, `disjoint`, `temporal`, `strict`, `window` and `columns` of `NeighborSampler`.
        With `temporal` each end of a link has a tree up to the time of its positive, and a
        negative has no edge up to it.

    Raises
    ------
    UnknownEdgeType
    BadInput
        Two node types and no reverse type, though `edge_types` are not said; or what `NeighborSampler` refuses.
    """

    def __init__(
        self,
        store: "GraphStore",
        edge_type: str,
        fanouts: Sequence[int] | Mapping[str, Sequence[int]],
        *,
        negatives: NegativeSampler | None = None,
        num_negatives: int = 1,
        held_out: Exclusions | None = None,
        edge_types: str | Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        store.adjacency(edge_type)  # there is such a type
        self.edge_type = store.edge_types[edge_type]
        if num_negatives < 0:
            raise BadInput(f"num_negatives must be 0 or more, got {num_negatives}")
        if edge_types is None and not isinstance(fanouts, Mapping):
            if self.edge_type.reverse is None and self.edge_type.src != self.edge_type.dst:
                raise BadInput(
                    f"links of {edge_type}: neighbours of {self.edge_type.dst!r} need its reverse type; ingest with "
                    "--reverse, or say edge_types"
                )
            edge_types = list(dict.fromkeys([edge_type, self.edge_type.reverse or edge_type]))
        self.neighbors = NeighborSampler(store, fanouts, edge_types=edge_types, **options)
        self._negatives = negatives
        self._num_negatives = 0 if negatives is None else num_negatives
        self._one_type = self.edge_type.src == self.edge_type.dst
        self._held_out = None
        if held_out is not None:
            self._held_out = held_out.union(held_out.reversed) if self._one_type else held_out

    def twin(self) -> "LinkSampler":
        """Return a sampler of the same version with a workspace of its own, for another thread."""
        other = copy(self)
        other.neighbors = self.neighbors.twin()
        return other

    def sample(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        *,
        seed: int,
        step: int = 0,
        positions: np.ndarray | None = None,
        times: np.ndarray | None = None,
        labels: np.ndarray | None = None,
        whole: tuple[np.ndarray, np.ndarray] | None = None,
        threads: int | None = 1,
    ) -> LinkBatch:
        """Make the batch of some positives.

        Parameters
        ----------
        src, dst : int64[n]
            Nodes of the positives, which need not be edges of the store.
        seed, step : int
        positions : int64[n], optional
            The position of each positive in the global step; 0 … n − 1 when None. Negatives, and in trees the
            neighbourhoods too, depend on (seed, step, position).
        times : int64[n], optional
            Needed where sampling is temporal; otherwise they are only passed on.
        labels : array[n], optional
            Passed on.
        whole : two of int64[m], optional
            Sources and destinations of the whole step's positives, in order of position, where these are a rank's share
            of them: their edges are left out and in-batch negatives are among them, so that any number of ranks draws
            the same. These positives alone when None.
        threads : int, optional

        Raises
        ------
        TypeError, ValueError
            A node is none of its type, or arrays are not as many.
        """
        src, dst = int64_array(src, "src"), int64_array(dst, "dst")
        positions = np.arange(src.size) if positions is None else int64_array(positions, "positions")
        times = None if times is None else int64_array(times, "times")
        for name, column in (("dst", dst), ("positions", positions), ("times", times), ("labels", labels)):
            if column is not None and len(column) != src.size:
                raise ValueError(f"{name} must be as many as src, got {len(column)} and {src.size}")
        all_src, all_dst = (src, dst) if whole is None else (int64_array(ends, "whole") for ends in whole)
        negatives = self._draw_negatives(src, dst, positions, times, all_dst, seed=seed, step=step, threads=threads)
        met = negatives.nodes.ravel() >= 0
        # Each end is a seed of its own: which positive it is of, and which of that one's ends it is.
        each, numbers = np.arange(src.size), np.arange(2, 2 + self._num_negatives)
        rows = np.concatenate([each, each, np.repeat(each, numbers.size)[met]])
        roles = np.concatenate([0 * each, 0 * each + 1, np.tile(numbers, src.size)[met]])
        seeds = np.concatenate([src, dst, negatives.nodes.ravel()[met]])
        own = positions[rows] * (2 + self._num_negatives) + roles
        bounds = self._by_type(times[rows], src.size) if self.neighbors.temporal and times is not None else None
        subgraph = self.neighbors.sample(
            self._by_type(seeds, src.size),
            seed=seed,
            step=step,
            positions=self._by_type(own, src.size),
            times=bounds,
            exclude=self._exclude(all_src, all_dst),
            threads=threads,
        )
        found = np.concatenate(list(subgraph.labels_of_seeds.values()))
        negative_labels = np.full(negatives.nodes.size, -1, np.int64)
        negative_labels[met] = found[2 * src.size :]
        starts = [(name, subgraph.labels_of_seeds[name], own) for name, own in (bounds or {}).items()]
        return LinkBatch(
            subgraph,
            found[: src.size],
            found[src.size : 2 * src.size],
            negative_labels.reshape(negatives.nodes.shape),
            negatives.unmet,
            labels,
            times,
            Targets(
                self.edge_type,
                all_src,
                all_dst,
                times if whole is None else None,
                self._held_out,
                starts,
                self.neighbors.strict,
            ),
        )

    def _by_type(self, ends: np.ndarray, num_links: int) -> dict[str, np.ndarray]:
        """Share out to node types what there is of each seed: of the sources, then of the destinations."""
        if self._one_type:
            return {self.edge_type.src: ends}
        return {self.edge_type.src: ends[:num_links], self.edge_type.dst: ends[num_links:]}

    def _draw_negatives(
        self,
        src: np.ndarray,
        dst: np.ndarray,
        positions: np.ndarray,
        times: np.ndarray | None,
        candidates: np.ndarray,
        *,
        seed: int,
        step: int,
        threads: int | None,
    ) -> Negatives:
        if self._negatives is None or src.size == 0:
            shape = src.size, self._num_negatives
            return Negatives(np.empty(shape, np.int64), np.empty(shape, bool))
        return self._negatives.sample(
            src,
            positions,
            num_negatives=self._num_negatives,
            seed=seed,
            epoch=step,
            targets=dst,
            times=times if self.neighbors.temporal else None,
            candidates=candidates if self._negatives.in_batch else None,
            threads=threads,
        )

    def _exclude(self, src: np.ndarray, dst: np.ndarray) -> dict[str, Exclusions]:
        """Return what the engine leaves out of each edge type that holds an edge or its reverse."""
        targets = Exclusions(src, dst)
        if self._one_type:
            targets = targets.union(targets.reversed)
        excluded = targets if self._held_out is None else self._held_out.with_few(targets)
        if self.edge_type.reverse in (None, self.edge_type.name):
            return {self.edge_type.name: excluded}
        return {self.edge_type.name: excluded, self.edge_type.reverse: excluded.reversed}
