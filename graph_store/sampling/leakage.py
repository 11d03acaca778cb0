"""Leakage: edges in a sampled subgraph that give away what a model is to predict."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from graph_store.errors import BadInput
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.first_times import NEVER
from graph_store.sampling.subgraph import Hop, Subgraph

if TYPE_CHECKING:
    from graph_store.manifest import StoredEdgeType
    from graph_store.sampling.links import LinkBatch
    from graph_store.store import GraphStore

KINDS = ("target", "duplicate", "reverse", "held_out", "later")


class Leak(NamedTuple):
    """One edge that should not have been drawn.

    Attributes
    ----------
    kind : str
        `"target"`: a target itself; `"duplicate"`: an edge parallel to one, at another time; `"reverse"`: either of
        them the other way; `"held_out"`: a held-out edge either way; `"later"`: an edge later than a seed that it is
        reached from.
    hop : int
        Its place in `Subgraph.hops`, from 1 on.
    edge_type : str
        The type that it was drawn of.
    src, dst
        Original ids, in the direction of that type.
    time : int or None
        None where the hop has no times.
    """

    kind: str
    hop: int
    edge_type: str
    src: Any
    dst: Any
    time: int | None


class Targets(NamedTuple):
    """What a model is to predict from a subgraph.

    Attributes
    ----------
    edge_type : StoredEdgeType
    src, dst : int64[n]
        Nodes.
    times : int64[n] or None
        Given, an edge of another time than its target's is called a duplicate.
    held_out : Exclusions or None
        Further edges of the type that must not be seen.
    starts : sequence of (node type, int64[s] labels, int64[s] times)
        From when on edges are later, for the nodes that the subgraph begins with.
    strict : bool
        Whether an edge of that very time is later too.
    """

    edge_type: "StoredEdgeType"
    src: np.ndarray
    dst: np.ndarray
    times: np.ndarray | None = None
    held_out: Exclusions | None = None
    starts: Sequence[tuple[str, np.ndarray, np.ndarray]] = ()
    strict: bool = False


def find_leaks(store: "GraphStore", subgraph: Subgraph, targets: Targets) -> list[Leak]:
    """List the edges of a subgraph that leak, hop by hop.

    It looks at the edges that were drawn and at nothing that the engine did to leave some out.
    """
    latest = _latest(store, subgraph, targets) if targets.starts else None
    found: list[Leak] = []
    for number, hop in enumerate(subgraph.hops, 1):
        ends = (hop.src_type, hop.src_labels), (hop.dst_type, hop.dst_labels)
        src, dst = (subgraph.nodes[name][labels] for name, labels in ends)
        kinds = _kinds(targets, hop, src, dst)
        if latest is not None and hop.times is not None:
            bounds = latest[hop.expanded_type][hop.expanded_labels]
            kinds["later"] = hop.times >= bounds if targets.strict else hop.times > bounds
        for kind in KINDS:
            at = np.flatnonzero(kinds.get(kind, ()))
            times = [None] * at.size if hop.times is None else hop.times[at].tolist()
            ids = [store.to_ids(name, nodes[at]).tolist() for name, nodes in ((hop.src_type, src), (hop.dst_type, dst))]
            found += [Leak(kind, number, hop.edge_type, *row) for row in zip(*ids, times)]
    return found


def _kinds(targets: Targets, hop: Hop, src: np.ndarray, dst: np.ndarray) -> dict[str, np.ndarray]:
    """Return of each kind bool[m], which edges of a hop are that; times aside."""
    entry = targets.edge_type
    if hop.edge_type not in (entry.name, entry.reverse):
        return {}
    # The reverse type holds each edge the other way; between nodes of one type so may the type itself.
    backward = hop.edge_type != entry.name
    if backward:
        src, dst = dst, src
    same, opposite = _among(targets.src, targets.dst, src, dst), np.zeros(src.size, bool)
    held_out = np.zeros(src.size, bool) if targets.held_out is None else targets.held_out.has(src, dst)
    if entry.src == entry.dst:
        opposite = _among(targets.src, targets.dst, dst, src) & ~same
        if targets.held_out is not None:
            held_out |= targets.held_out.has(dst, src)
    kinds = {"reverse": same | opposite if backward else opposite, "held_out": held_out}
    if not backward:
        other = np.zeros(src.size, bool)
        if targets.times is not None and hop.times is not None:
            at = np.flatnonzero(same)
            other[at] = ~_among_three(targets, src[at], dst[at], hop.times[at])
        kinds |= {"target": same & ~other, "duplicate": other}
    return kinds


def _among(known_src: np.ndarray, known_dst: np.ndarray, src: np.ndarray, dst: np.ndarray) -> np.ndarray:
    """Return bool[m], which pairs are among the known ones."""
    return Exclusions(known_src, known_dst).has(src, dst)


def _among_three(targets: Targets, src: np.ndarray, dst: np.ndarray, times: np.ndarray) -> np.ndarray:
    """Return bool[m], which (src, dst, time) are those of a target."""
    assert targets.times is not None
    known = set(zip(targets.src.tolist(), targets.dst.tolist(), targets.times.tolist()))
    return np.array([row in known for row in zip(src.tolist(), dst.tolist(), times.tolist())], bool)


def _latest(store: "GraphStore", subgraph: Subgraph, targets: Targets) -> dict[str, np.ndarray]:
    """Return by node type int64[n], the earliest of the times of the seeds that each label is reached from."""
    for hop in subgraph.hops:
        if hop.times is None and store.edge_types[hop.edge_type].timed:
            raise BadInput(
                f"check_leakage: edges of {hop.edge_type} were drawn without their times; sample with "
                "columns=('times',) to have later ones found"
            )
    latest = {name: np.full(nodes.size, NEVER) for name, nodes in subgraph.nodes.items()}
    for name, labels, times in targets.starts:
        np.minimum.at(latest[name], labels, times)
    for _ in subgraph.hops:  # a node may be reached again behind the hop that expanded it
        for hop in subgraph.hops:
            np.minimum.at(latest[hop.neighbor_type], hop.neighbors, latest[hop.expanded_type][hop.expanded_labels])
    return latest


def check_leakage(
    store: "GraphStore",
    sampled: "LinkBatch | Subgraph",
    edge_type: str | None = None,
    *,
    src: Any = None,
    dst: Any = None,
    times: Any = None,
    held_out: Exclusions | None = None,
    seed_times: np.ndarray | Mapping[str, np.ndarray] | None = None,
    strict: bool = False,
) -> list[Leak]:
    """List every edge of a sampled subgraph that gives away what is to be predicted; an empty list is as it should be.

    It goes through the edges of every hop and compares them, whatever was done to leave some out.

    Parameters
    ----------
    store : GraphStore
    sampled : LinkBatch or Subgraph
        A batch brings all the rest along. `held_out` may be given with it, to check more than its sampler was told.
    edge_type : str, optional
        Of a subgraph the type of the targets; may be left out where the store has one.
    src, dst
        Original ids of the targets' ends.
    times : int64[n], optional
        Of the targets: an edge of another time is then called a duplicate.
    held_out : Exclusions, optional
        Edges of the type, by nodes.
    seed_times : int64[b], or dict of str to int64[b], optional
        The time of each seed, by node type where seeds are of several: later edges are looked for.
    strict : bool
        Whether an edge of the time itself is later.

    Returns
    -------
    list of Leak
        By hop, then by kind.

    Raises
    ------
    UnknownEdgeType, UnknownId
    BadInput
        Times are to be checked that the subgraph has not.
    """
    if isinstance(sampled, Subgraph):
        entry = store.chain(edge_type, 1)[0]
        ends = (
            store.to_nodes(entry.src, [] if src is None else src),
            store.to_nodes(entry.dst, [] if dst is None else dst),
        )
        if ends[0].size != ends[1].size:
            raise BadInput(f"as many dst as src are needed, got {ends[1].size} and {ends[0].size}")
        starts = []
        if seed_times is not None:
            by_type = seed_times if isinstance(seed_times, Mapping) else {sampled.seed_type: seed_times}
            starts = [(kind, sampled.labels_of_seeds[kind], np.asarray(own)) for kind, own in by_type.items()]
        own_times = None if times is None else np.asarray(times)
        return find_leaks(store, sampled, Targets(entry, *ends, own_times, held_out, starts, strict))
    targets = sampled.targets if held_out is None else sampled.targets._replace(held_out=held_out)
    return find_leaks(store, sampled.subgraph, targets)
