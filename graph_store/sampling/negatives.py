"""Negative samples: nodes that a source has no edge to."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.draws import NEGATIVES, key_of
from graph_store.errors import BadInput
from graph_store.kernels import int64_array, run_ranges
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.negative_draws import Request, strict_uniform, units_of

if TYPE_CHECKING:
    from graph_store.store import GraphStore

TRIES, ALPHA = 32, 0.75
METHODS, FALLBACKS = ("uniform", "degree", "in_batch"), ("mark", "any")


class Negatives(NamedTuple):
    """Negative samples by nodes.

    Attributes
    ----------
    nodes : int64[n, k]
        Repeats are possible.
    unmet : bool[n, k]
        Where there was no candidate without an edge: `nodes` has -1 there, or by fallback `"any"` a candidate that the
        source may have an edge to.
    """

    nodes: np.ndarray
    unmet: np.ndarray

    @property
    def num_unmet(self) -> int:
        """How many the fallback had to fill."""
        return int(np.count_nonzero(self.unmet))


class NegativeIds(NamedTuple):
    """Negative samples by original ids.

    Attributes
    ----------
    ids
        int64[n, k], uint64[n, k] or object[n, k] of str. Where there is none: -1, 2^64 - 1 or None.
    unmet : bool[n, k]
        Where there was no candidate without an edge.
    """

    ids: np.ndarray
    unmet: np.ndarray

    @classmethod
    def of(cls, drawn: Negatives, to_ids: Callable[[np.ndarray], np.ndarray]) -> "NegativeIds":
        """Translate nodes."""
        found = to_ids(drawn.nodes[drawn.nodes >= 0])
        none = None if found.dtype == object else np.array(-1).astype(found.dtype)
        ids = np.full(drawn.nodes.shape, none, found.dtype)
        ids[drawn.nodes >= 0] = found
        return cls(ids, drawn.unmet)


class NegativeSampler:
    """Draws nodes that a source has no edge to; safe to use from many threads.

    A candidate that may not be is refused and another drawn, up to `tries` times. After them the choice is made among
    all that are left, so that it is exact for a source which has nearly all of them, and one that has all gets the
    fallback.

    Parameters
    ----------
    candidates : int64[m] or None
        Nodes to draw from, each as often as it is given. None: those of each call, such as the destinations of the
        step's positives.
    known : sequence of Adjacency
        Edges that a negative must not be among; empty where any node may be one.
    held_out : Exclusions, optional
        Edges among `known` that count as if they were not there, as for a model that knows the training edges only.
    taken : Exclusions, optional
        Further pairs that are no negatives, such as the negatives of another part.
    weights : float64[m], optional
        Draw each candidate in proportion to its weight, by inverting the cumulated weights (8 bytes a candidate).
    fallback : str
        For a source with an edge to every candidate: `"mark"` gives -1, `"any"` a candidate all the same, and its own
        target only where there is no other. Both are marked in the answer.
    tries : int

    Raises
    ------
    TypeError
        Candidates that are no integers.
    ValueError
        No candidate, a negative one, weights that do not fit them, or a fallback that there is not.
    """

    def __init__(
        self,
        candidates: np.ndarray | None,
        *,
        known: Sequence[Adjacency] = (),
        held_out: Exclusions | None = None,
        taken: Exclusions | None = None,
        weights: np.ndarray | None = None,
        fallback: str = "mark",
        tries: int = TRIES,
    ) -> None:
        if fallback not in FALLBACKS:
            raise BadInput(f"fallback must be one of {', '.join(FALLBACKS)}, got {fallback!r}")
        if tries < 0:
            raise BadInput(f"tries must be 0 or more, got {tries}")
        if weights is not None and candidates is None:
            raise BadInput("weights need candidates that they are of, got candidates None")
        self._candidates = None if candidates is None else _checked(candidates)
        self._sums = np.empty(0)
        if weights is not None and self._candidates is not None:
            self._sums = _cumulated(weights, self._candidates.size)
        self._known, self._held_out, self._taken = tuple(known), held_out, taken
        self._fallback, self._tries = fallback, tries

    @classmethod
    def of_type(
        cls,
        store: "GraphStore",
        edge_type: str,
        *,
        method: str = "uniform",
        alpha: float = ALPHA,
        strict: bool = True,
        held_out: Exclusions | None = None,
        taken: Exclusions | None = None,
        fallback: str = "mark",
        tries: int = TRIES,
    ) -> "NegativeSampler":
        """Return a sampler of destinations of an edge type; sources come from its reverse type.

        Parameters
        ----------
        method : str
            `"uniform"`: all nodes of the destination type, alike. `"degree"`: in proportion to their number of edges of
            this type, less held-out ones, to the power `alpha`; 0.75 is that of Mikolov et al., NeurIPS 2013.
            `"in_batch"`: candidates are given to each call.
        strict : bool
            Whether negatives must not be edges of the type, held-out ones excepted.

        Raises
        ------
        UnknownEdgeType
        ValueError
            As the constructor; and where the type has no nodes or, by degree, no edges.
        """
        if method not in METHODS:
            raise BadInput(f"method must be one of {', '.join(METHODS)}, got {method!r}")
        adjacency = store.adjacency(edge_type)
        candidates = None if method == "in_batch" else store.nodes(store.edge_types[edge_type].dst)
        weights = None
        if method == "degree":
            weights = popularity(store, edge_type, held_out=held_out) ** float(alpha)
            weights[~np.isfinite(weights)] = 0  # a negative power of no edges
        return cls(
            candidates,
            known=(adjacency,) if strict else (),
            held_out=held_out,
            taken=taken,
            weights=weights,
            fallback=fallback,
            tries=tries,
        )

    @property
    def in_batch(self) -> bool:
        """Whether each call has candidates of its own."""
        return self._candidates is None

    def sample(
        self,
        sources: np.ndarray,
        positions: np.ndarray,
        *,
        num_negatives: int = 1,
        seed: int,
        epoch: int = 0,
        targets: np.ndarray | None = None,
        times: np.ndarray | None = None,
        candidates: np.ndarray | None = None,
        threads: int | None = None,
    ) -> Negatives:
        """Draw for each source.

        Parameters
        ----------
        sources : int64[n]
            The node of each sample.
        positions : int64[n]
            Each sample's position in the epoch, over all ranks: a draw depends on (seed, epoch, position, which of its
            negatives) only, and negatives of one sample are independent.
        num_negatives : int
        targets : int64[n], optional
            The positive of each sample, which is never drawn for it, whether there is a known edge or not.
        times : int64[n], optional
            A negative of this time has no edge up to then, that moment included; a later edge does not count. Edges of
            a type without times always count.
        candidates : int64[m], optional
            Where the sampler has none: of the whole step over all ranks, in order of position, so that any number of
            ranks draws the same.
        threads : int, optional

        Raises
        ------
        TypeError
            An array is not of integers.
        ValueError
            A source is no source node, there is no candidate, or arrays are not as many as sources.
        """
        sources, positions = int64_array(sources, "sources"), int64_array(positions, "positions")
        for adjacency in self._known:
            sources = adjacency.check_nodes(sources)
        targets = None if targets is None else int64_array(targets, "targets")
        times = None if times is None else int64_array(times, "times")
        for name, column in (("positions", positions), ("targets", targets), ("times", times)):
            if column is not None and column.size != sources.size:
                raise ValueError(f"{name} must be as many as sources, got {column.size} and {sources.size}")
        if (candidates is None) == (self._candidates is None):
            raise ValueError("candidates are needed once: when the sampler is made, or for each call where it has none")
        among = self._candidates if candidates is None else _checked(candidates)
        assert among is not None
        if num_negatives < 0:
            raise ValueError(f"num_negatives must be 0 or more, got {num_negatives}")
        key = key_of(seed, epoch, NEGATIVES)

        def request() -> Request:
            units = units_of(key, positions, num_negatives)
            rules = self._sums, self._known, self._held_out, self._taken
            return Request(sources, among, *rules, targets, times, units, self._tries)

        if self._is_plain and targets is None:
            nodes = np.empty((sources.size, num_negatives), np.int64)
            arrays, tries = self._known[0].arrays, self._tries
            run_ranges(
                lambda start, stop: strict_uniform(arrays, sources, among, positions, key, tries, nodes, start, stop),
                sources.size,
                threads=threads,
                grain=1 << 11,
            )
        else:
            nodes = request().drawn()
        unmet = nodes < 0
        if self._fallback == "any" and unmet.any():
            request().fill(nodes)
        return Negatives(nodes, unmet)

    @property
    def _is_plain(self) -> bool:
        """Whether one pass of `strict_uniform` draws the same, in two thirds of the time."""
        simple = self._sums.size == 0 and self._held_out is None and self._taken is None
        return simple and len(self._known) == 1 and not self._known[0].timed


def _checked(candidates: np.ndarray) -> np.ndarray:
    candidates = int64_array(candidates, "candidates")
    if candidates.size == 0:
        raise ValueError("candidates must hold at least one node")
    if candidates.min() < 0:
        raise ValueError(f"candidates must be nodes, got {candidates.min()}")
    return candidates


def _cumulated(weights: np.ndarray, size: int) -> np.ndarray:
    """Return float64[m], the sums of the weights up to each."""
    weights = np.asarray(weights, np.float64)
    if weights.shape != (size,):
        raise BadInput(f"weights must be one for each of {size} candidates, got shape {weights.shape}")
    sums = np.cumsum(weights)
    if not (np.isfinite(sums[-1]) and weights.min() >= 0 and sums[-1] > 0):
        raise BadInput(f"weights must be finite, 0 or more and not all 0, got {weights.min()} … {weights.max()}")
    return sums


def popularity(store: "GraphStore", edge_type: str, *, held_out: Exclusions | None = None) -> np.ndarray:
    """Return float64[m], how many edges of a type, less held-out ones, end at each node of its destination type.

    The order is that of `store.nodes`. Read from the reverse type where there is one and nothing is held out, else
    counted in a pass over all edges.
    """
    entry, adjacency = store.edge_types[edge_type], store.adjacency(edge_type)
    nodes = store.nodes(entry.dst)
    if entry.reverse is not None and held_out is None:
        return store.adjacency(entry.reverse).degrees(nodes).astype(np.float64)
    from graph_store.scan import entries  # pyarrow, which a sampler needs not

    counts = np.zeros(int(store.node_base(entry.dst)[-1]))
    for part in entries(adjacency, batch_rows=1 << 20, edge_ids=False):
        seen = slice(None) if held_out is None else ~held_out.has(part.sources, part.targets)
        counts += np.bincount(store.dense(entry.dst, part.targets[seen]), minlength=counts.size)
    return counts[store.dense(entry.dst, nodes)]


def sample_negatives(
    adjacency: Adjacency,
    sources: np.ndarray,
    candidates: np.ndarray,
    positions: np.ndarray,
    *,
    num_negatives: int = 1,
    seed: int,
    epoch: int = 0,
    tries: int = TRIES,
    threads: int | None = None,
) -> np.ndarray:
    """Draw nodes uniformly from those candidates that a source has no edge to: a `NegativeSampler` for one call.

    Parameters
    ----------
    adjacency : Adjacency
        The edges that a negative must not be among.
    sources : int64[n]
        The node of each sample.
    candidates : int64[m]
        Nodes to draw from.
    positions : int64[n]
        Each sample's position in the epoch, over all ranks: a draw depends on (seed, epoch, position) only.

    Returns
    -------
    int64[n, num_negatives]
        Repeats are possible. -1 where a source has an edge to every candidate.

    Raises
    ------
    TypeError
        An array is not of integers.
    ValueError
        A source is no source node here, a candidate is negative, there is no candidate, or positions are not as many
        as sources.
    """
    sampler = NegativeSampler(candidates, known=(adjacency,), tries=tries)
    return sampler.sample(
        sources, positions, num_negatives=num_negatives, seed=seed, epoch=epoch, threads=threads
    ).nodes
