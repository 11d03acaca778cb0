"""Loaders of sampled neighbourhoods and of link batches, with their features."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from graph_store.adjacency import first_bad_node
from graph_store.errors import BadInput
from graph_store.ids import nodes_of_ranks
from graph_store.kernels import int64_array
from graph_store.sampling.edge_part import EdgePart, Edges
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.gather import Features, Gatherer
from graph_store.sampling.links import LinkBatch, LinkSampler
from graph_store.sampling.lists import check_columns
from graph_store.sampling.loader import Loader, Plan, Share
from graph_store.sampling.neighbor_sampler import NeighborSampler
from graph_store.sampling.subgraph import Subgraph

if TYPE_CHECKING:
    from graph_store.store import GraphStore


@dataclass(frozen=True)
class NodeBatch:
    """The neighbourhoods of some seeds, with features.

    Attributes
    ----------
    subgraph : Subgraph
    share : Share
        The step, and which examples the seeds are.
    times : int64[b] or None
        The times of the seeds.
    features : dict of str to dict of str to FeatureValues
        See `Gatherer.of`.
    """

    subgraph: Subgraph
    share: Share
    times: np.ndarray | None = None
    features: Features = field(default_factory=dict, repr=False)


def node_loader(
    store: "GraphStore",
    fanouts: Sequence[int] | Mapping[str, Sequence[int]],
    nodes: np.ndarray | None = None,
    *,
    node_type: str | None = None,
    batch_size: int = 1024,
    shuffle: bool = True,
    drop_last: bool = False,
    seed: int = 0,
    times: np.ndarray | None = None,
    features: Mapping[str, Sequence[str]] | None = None,
    exclude: Mapping[str, Exclusions] | None = None,
    rank: int = 0,
    size: int = 1,
    threads: int = 1,
    depth: int = 2,
    columns: Collection[str] = (),
    **options: Any,
) -> Loader[NodeBatch]:
    """Return a loader of the neighbourhoods of nodes, of the version that the store is at.

    Parameters
    ----------
    store : GraphStore
    fanouts : sequence of int, or dict of str to sequence of int
        As of `NeighborSampler`.
    nodes : int64[n], optional
        The seeds of an epoch; all nodes of the type when None, which takes no memory unless some were deleted.
    node_type : str, optional
        The type of the seeds; that which the first hop expands when None.
    batch_size, shuffle, drop_last, seed, rank, size
        See `Plan`. In trees the shares of the ranks are together what one rank would draw; merged, each is a batch.
    times : int64[n], optional
        The time of each seed: sampling is temporal.
    features : dict of str to sequence of str, optional
        By node type or edge type the features that come along.
    exclude : dict of str to Exclusions, optional
        Edges that are not drawn, such as those that are held out.
    threads, depth
        See `Loader`.
    columns, options
        `edge_types`, `metapath`, `direction`, `method`, `replace`, `disjoint`, `strict`, `window` and `columns` of
        `NeighborSampler`.

    Raises
    ------
    UnknownEdgeType, UnknownNodeType
    BadInput
        What `NeighborSampler`, `Gatherer` or `Plan` refuses.
    ValueError
        One is no node of its type, or there are not as many times as nodes.
    """
    gatherer = Gatherer(store, features or {})
    columns = check_columns(columns) | gatherer.columns
    if options.pop("temporal", times is not None) and times is None:
        raise BadInput("temporal sampling needs the times of the seeds; give times")
    sampler = NeighborSampler(store, fanouts, temporal=times is not None, columns=columns, **options)
    name = sampler.seed_type if node_type is None else node_type
    length, nodes_at = _examples(store, name, nodes)
    if times is not None:
        times = int64_array(times, "times")
        if times.size != length:
            raise ValueError(f"times must be as many as the {length} nodes, got {times.size}")
    plan = Plan(length, batch_size, shuffle, seed, rank, size, drop_last)

    def make(sampler: NeighborSampler, share: Share) -> NodeBatch:
        own = None if times is None else times[share.examples]
        subgraph = sampler.sample(
            nodes_at(share.examples),
            node_type=name,
            seed=seed,
            step=share.epoch * plan.num_steps + share.step,
            positions=share.positions,
            times=own,
            exclude=exclude,
        )
        return NodeBatch(subgraph, share, own, gatherer.of(subgraph))

    return Loader(plan, lambda: partial(make, sampler.twin()), threads=threads, depth=depth)


def link_loader(
    store: "GraphStore",
    edge_type: str,
    fanouts: Sequence[int] | Mapping[str, Sequence[int]],
    links: EdgePart | Edges,
    *,
    labels: np.ndarray | None = None,
    batch_size: int = 1024,
    shuffle: bool = True,
    drop_last: bool = False,
    seed: int = 0,
    features: Mapping[str, Sequence[str]] | None = None,
    rank: int = 0,
    size: int = 1,
    threads: int = 1,
    depth: int = 2,
    columns: Collection[str] = (),
    **options: Any,
) -> Loader[LinkBatch]:
    """Return a loader of link batches, of the version that the store is at.

    Parameters
    ----------
    store : GraphStore
    edge_type : str
    fanouts : sequence of int, or dict of str to sequence of int
        As of `NeighborSampler`.
    links : EdgePart or Edges
        The positives of an epoch, such as `split.train`.
    labels : array[n], optional
        One for each positive, passed on.
    batch_size, shuffle, drop_last, seed, features, rank, size, threads, depth
        See `node_loader`. Targets of the whole step are left out of each rank's share of it.
    columns, options
        The rest of `LinkSampler`: `negatives`, `num_negatives`, `held_out`, `edge_types`, `temporal` and so on.

    Raises
    ------
    UnknownEdgeType
    BadInput
        What `LinkSampler`, `Gatherer` or `Plan` refuses; temporal sampling of links without times.
    TypeError, ValueError
        Links that are no edges; not as many labels, destinations or times as sources.
    """
    gatherer = Gatherer(store, features or {})
    sampler = LinkSampler(store, edge_type, fanouts, columns=check_columns(columns) | gatherer.columns, **options)
    if not isinstance(links, EdgePart):
        links = _checked_links(links)
    length = len(links) if isinstance(links, EdgePart) else links.src.size
    if labels is not None and len(labels) != length:
        raise ValueError(f"labels must be as many as the {length} links, got {len(labels)}")
    if sampler.neighbors.temporal and isinstance(links, Edges) and links.times is None:
        raise BadInput("temporal sampling needs the times of the links")
    plan = Plan(length, batch_size, shuffle, seed, rank, size, drop_last)

    def take(examples: np.ndarray) -> Edges:
        if isinstance(links, EdgePart):
            return links.take(examples)
        return Edges(*(None if column is None else column[examples] for column in links))  # type: ignore[arg-type]

    def make(sampler: LinkSampler, share: Share) -> LinkBatch:
        own, whole = take(share.examples), None
        if size > 1:
            whole = take(plan.whole.share(share.epoch, share.step).examples)[:2]
        batch = sampler.sample(
            own.src,
            own.dst,
            seed=seed,
            step=share.epoch * plan.num_steps + share.step,
            positions=share.positions,
            times=own.times,
            labels=None if labels is None else labels[share.examples],
            whole=whole,
        )
        return replace(batch, features=gatherer.of(batch.subgraph), share=share)

    return Loader(plan, lambda: partial(make, sampler.twin()), threads=threads, depth=depth)


def _checked_links(links: Edges) -> Edges:
    """Return links as arrays, as many of each."""
    if not isinstance(links, Edges):
        raise TypeError(f"links must be an EdgePart or Edges(src, dst, times), got {type(links).__name__}")
    src, dst = int64_array(links.src, "links.src"), int64_array(links.dst, "links.dst")
    times = None if links.times is None else int64_array(links.times, "links.times")
    for name, column in (("dst", dst), ("times", times)):
        if column is not None and column.size != src.size:
            raise ValueError(f"links.{name} must be as many as links.src, got {column.size} and {src.size}")
    return Edges(src, dst, times)


def _examples(
    store: "GraphStore", node_type: str, nodes: np.ndarray | None
) -> tuple[int, Callable[[np.ndarray], np.ndarray]]:
    """Return how many seeds there are, and what gives those of some examples."""
    ids = store.id_map(node_type)
    if nodes is None and ids.dead.size == 0:
        return ids.count, lambda examples: nodes_of_ranks(ids.base, examples)
    known = store.nodes(node_type) if nodes is None else int64_array(nodes, "nodes")
    bad = int(first_bad_node(known, np.diff(ids.base)))
    if bad >= 0:
        raise ValueError(f"node {known[bad]} at position {bad} is no node of type {node_type}")
    return known.size, lambda examples: known[examples]
