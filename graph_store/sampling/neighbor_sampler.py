"""Neighbour sampling over any edge types: seeds → the edges that each hop drew, merged or as trees, in time or not."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from graph_store.adjacency import first_bad_node
from graph_store.draws import NEIGHBORS, key_of, mixed
from graph_store.edge_positions import opposite_positions
from graph_store.errors import BadInput
from graph_store.kernels import int64_array, kernel
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.lists import Drawn, check_columns, draw_lists
from graph_store.sampling.plan import Choice, Way, plan_hops
from graph_store.sampling.relabel import Relabeller
from graph_store.sampling.subgraph import Hop, LabelIds, Subgraph

if TYPE_CHECKING:
    from graph_store.store import GraphStore


@kernel
def _units(positions, trees, nodes, out):
    for i in range(nodes.size):
        out[i] = mixed(np.uint64(positions[trees[i]]), np.uint64(nodes[i]))


class _Trees:
    """The seed in whose tree a node is, carried above the bits of the node."""

    def __init__(self, positions: np.ndarray, times: np.ndarray | None, shifts: Mapping[str, int]) -> None:
        self.positions, self.times, self.shifts = positions, times, shifts
        most = max(shifts.values())
        if positions.size >> (63 - most):
            raise BadInput(
                f"{positions.size:,} seeds with trees of their own in a graph of node ids of {most} bits: "
                f"at most {1 << (63 - most):,} can be sampled at once; make the batches smaller"
            )

    def join(self, node_type: str, trees: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        return trees << self.shifts[node_type] | nodes

    def split(self, node_type: str, keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        shift = self.shifts[node_type]
        return keys >> shift, keys & ((1 << shift) - 1)

    def units(self, trees: np.ndarray, nodes: np.ndarray) -> np.ndarray:
        out = np.empty(nodes.size, np.uint64)
        _units(self.positions, trees, nodes, out)
        return out


class NeighborSampler:
    """Samples neighbourhoods of seeds, hop by hop, reusing its workspace; one a thread.

    A hop expands the nodes that the hop before found first, along each edge type that starts at their type. A draw is a
    function of the seed, the step, the hop, the edge type and the node (in trees also of the seed's position), so
    batches do not depend on threads, on what is beside them, or on how the store was put on disk.

    Parameters
    ----------
    store : GraphStore
    fanouts : sequence of int, or dict of str to sequence of int
        Neighbours a node and hop, -1 for all and 0 for none; by edge type, each with as many hops.
    edge_types : str or sequence of str, optional
        One: each hop goes along it, or between two node types along it and its reverse in turn. Several: each hop goes
        along each. All of the store's when None.
    metapath : sequence of str, optional
        The edge type of each hop.
    direction : str
        `"out"`: neighbours are destinations; `"in"`: they are sources, read from the lists of the reverse type.
    method, replace
        See `Rule`; for all edge types, or by edge type, where one that is not named is drawn from uniformly and without
        replacement.
    disjoint : bool
        A tree of its own for each seed, with draws of its own.
    temporal : bool
        Each seed has a time, and its tree holds no edge after it, whatever the hop. Edges of a type without times count
        as there from the beginning.
    strict : bool
        With `temporal`: nor one at the time itself.
    window : int, optional
        With `temporal`: nor one of more than so long before it.
    columns : collection of str
        Which of `edge_ids`, `weights` and `times` come along.

    Raises
    ------
    UnknownEdgeType
    BadInput
        Arguments that contradict each other or ask for what the store has not; the message names them.
    """

    def __init__(
        self,
        store: "GraphStore",
        fanouts: Sequence[int] | Mapping[str, Sequence[int]],
        *,
        edge_types: str | Sequence[str] | None = None,
        metapath: Sequence[str] | None = None,
        direction: str = "out",
        method: str | Mapping[str, str] = "uniform",
        replace: bool | Mapping[str, bool] = False,
        disjoint: bool = False,
        temporal: bool = False,
        strict: bool = False,
        window: int | None = None,
        columns: Collection[str] = (),
    ) -> None:
        if not temporal and (strict or window is not None):
            raise BadInput("strict and window are for temporal sampling; say temporal=True and give the seeds times")
        for name, given in (("method", method), ("replace", replace)):
            for edge_type in given if isinstance(given, Mapping) else ():
                if edge_type not in store.edge_types:
                    raise BadInput(f"{name} is given for {edge_type!r}; the store has {', '.join(store.edge_types)}")
        self.ways = plan_hops(
            store.edge_types,
            fanouts,
            Choice(method, replace, strict, window),
            edge_types=edge_types,
            metapath=metapath,
            direction=direction,
        )
        if temporal and not any(way.entry.timed for way in self.ways):
            names = ", ".join(dict.fromkeys(way.entry.name for way in self.ways))
            raise BadInput(f"temporal sampling needs times, but edges of {names} have none")
        self.disjoint, self.temporal, self.strict = disjoint or temporal, temporal, strict
        self.columns = check_columns(columns)
        self.num_hops = 1 + self.ways[-1].depth
        self._edge_types = tuple(store.edge_types)
        self._adjacencies = {name: store.adjacency(name) for way in self.ways for name in (way.read, way.entry.name)}
        types = dict.fromkeys(name for way in self.ways for name in (way.expanded_type, way.neighbor_type))
        # Of the version that the adjacencies are of, wherever the store goes on to.
        self._id_maps = {name: store.id_map(name) for name in types}
        self._counts = {name: np.diff(ids.base) for name, ids in self._id_maps.items()}
        self._labels = {name: Relabeller() for name in types}
        # A key of a tree's node is the tree above the bits of the node.
        self._shifts = {
            name: max(1, int(counts.max()) * counts.size - 1).bit_length() for name, counts in self._counts.items()
        }

    def twin(self) -> "NeighborSampler":
        """Return a sampler of the same version with a workspace of its own, for another thread."""
        other = copy(self)
        other._labels = {name: Relabeller() for name in self._labels}
        return other

    @property
    def seed_type(self) -> str:
        """The node type that the first way of the first hop expands."""
        return self.ways[0].expanded_type

    def sample(
        self,
        seeds: np.ndarray | Mapping[str, np.ndarray],
        *,
        node_type: str | None = None,
        seed: int,
        step: int = 0,
        positions: np.ndarray | Mapping[str, np.ndarray] | None = None,
        times: np.ndarray | Mapping[str, np.ndarray] | None = None,
        exclude: Mapping[str, Exclusions] | None = None,
        threads: int | None = 1,
    ) -> Subgraph:
        """Sample the neighbourhoods of seeds.

        Parameters
        ----------
        seeds : int64[b], or dict of str to int64[b]
            Nodes; of one type, or by type. Merged, a repeated seed is expanded once; in trees each has its own.
        node_type : str, optional
            The type of the seeds; that which the first hop expands when None.
        seed, step : int
        positions : int64[b], optional
            The position of each seed in the global step, on which the draws of its tree depend; when None, positions
            count from 0 on through all seeds.
        times : int64[b], optional
            The time of each seed, where sampling is temporal.
        exclude : dict of str to Exclusions
            By edge type pairs of source and destination nodes whose edges are not drawn, whatever the direction.
        threads : int, optional
            Threads that draw; all cores when None.

        Raises
        ------
        ValueError, TypeError
            Seeds that are no nodes of their type; not as many positions or times as seeds; times that are missing or in
            vain.
        BadInput
            A type that the sampler does not reach.
        CorruptBlock
            A block that is read is damaged.
        """
        by_type = self._seeds_by_type(seeds, node_type)
        trees = self._trees(by_type, positions, times)
        seed_labels = self._label_seeds(by_type, trees)
        excluded = self._excluded(exclude or {})
        # Of each type the number of labels before each hop and behind the last: what a hop expands lies between two.
        ends = {name: [0, labels.num_nodes] for name, labels in self._labels.items()}
        hops = []
        for depth in range(self.num_hops):
            for way in self.ways:
                if way.depth == depth:
                    first, stop = ends[way.expanded_type][-2:]
                    keys = self._labels[way.expanded_type].nodes[first:stop].copy()
                    key = key_of(seed, step, NEIGHBORS, depth | way.number << 32)
                    drawn = self._draw(way, keys, key, trees, excluded.get(way.entry.name), threads)
                    hops.append((way, first, drawn))
            for name, labels in self._labels.items():
                ends[name].append(labels.num_nodes)
        return self._subgraph(seed_labels, hops, ends, trees)

    def _seeds_by_type(
        self, seeds: np.ndarray | Mapping[str, np.ndarray], node_type: str | None
    ) -> dict[str, np.ndarray]:
        if not isinstance(seeds, Mapping):
            seeds = {self.seed_type if node_type is None else node_type: seeds}
        found = {}
        for name, nodes in seeds.items():
            if name not in self._counts:
                raise BadInput(f"seeds of node type {name!r}; this sampler reaches {', '.join(self._counts)}")
            found[name] = int64_array(nodes, "seeds")
            bad = int(first_bad_node(found[name], self._counts[name]))
            if bad >= 0:
                raise ValueError(f"node {found[name][bad]} at position {bad} is no node of type {name}")
        return found

    def _trees(
        self,
        by_type: dict[str, np.ndarray],
        positions: np.ndarray | Mapping[str, np.ndarray] | None,
        times: np.ndarray | Mapping[str, np.ndarray] | None,
    ) -> _Trees | None:
        if self.temporal != (times is not None):
            raise ValueError(
                "temporal sampling needs the times of the seeds"
                if self.temporal
                else "times are given, but the sampler is not temporal; make it with temporal=True"
            )
        if not self.disjoint:
            return None
        count = sum(nodes.size for nodes in by_type.values())
        own = np.arange(count) if positions is None else _of_seeds(by_type, positions, "positions")
        bounds = None if times is None else _of_seeds(by_type, times, "times")
        return _Trees(own, bounds, self._shifts)

    def _label_seeds(self, by_type: dict[str, np.ndarray], trees: _Trees | None) -> dict[str, np.ndarray]:
        for labels in self._labels.values():
            labels.clear()
        first, seed_labels = 0, {}
        for name, nodes in by_type.items():
            keys = nodes if trees is None else trees.join(name, np.arange(first, first + nodes.size), nodes)
            first += nodes.size
            seed_labels[name] = self._labels[name].labels(keys)
        return seed_labels

    def _excluded(self, exclude: Mapping[str, Exclusions]) -> dict[str, Exclusions]:
        """Return the exclusions of each way's edge type, from what is expanded to what is drawn."""
        for name in exclude:
            if name not in self._edge_types:
                raise BadInput(f"exclude: no edge type {name!r}; the store has {', '.join(self._edge_types)}")
        if self.ways[0].direction == "out":
            return dict(exclude)
        return {name: given.reversed for name, given in exclude.items()}

    def _draw(
        self,
        way: Way,
        keys: np.ndarray,
        key: np.uint64,
        trees: _Trees | None,
        exclude: Exclusions | None,
        threads: int | None,
    ) -> Drawn:
        """Draw of the nodes of keys; the neighbours as labels."""
        nodes, owners, units, bounds = keys, None, None, None
        if trees is not None:
            owners, nodes = trees.split(way.expanded_type, keys)
            units = trees.units(owners, nodes)
            bounds = None if trees.times is None else trees.times[owners]
        adjacency = self._adjacencies[way.read]
        drawn = draw_lists(
            adjacency,
            nodes,
            way.rule,
            key=key,
            units=units,
            bounds=bounds,
            exclude=exclude,
            columns=self.columns,
            threads=threads,
        )
        found, edge_ids = drawn.neighbors, drawn.edge_ids
        if trees is not None and owners is not None:
            found = trees.join(way.neighbor_type, np.repeat(owners, np.diff(drawn.indptr)), found)
        if edge_ids is not None and way.direction == "in" and not adjacency.numbered:
            edge_ids = opposite_positions(adjacency, self._adjacencies[way.entry.name], edge_ids)
        return drawn._replace(neighbors=self._labels[way.neighbor_type].labels(found), edge_ids=edge_ids)

    def _subgraph(
        self,
        seed_labels: dict[str, np.ndarray],
        hops: list[tuple[Way, int, Drawn]],
        ends: dict[str, list[int]],
        trees: _Trees | None,
    ) -> Subgraph:
        nodes = {name: labels.nodes.copy() for name, labels in self._labels.items()}
        owners = None
        if trees is not None:
            split = {name: trees.split(name, keys) for name, keys in nodes.items()}
            owners = {name: own for name, (own, _) in split.items()}
            nodes = {name: found for name, (_, found) in split.items()}
        ids = LabelIds(nodes, self._id_maps)
        return Subgraph(
            seed_labels,
            nodes,
            ids,
            tuple(
                Hop(
                    way.entry.name,
                    way.entry.src,
                    way.entry.dst,
                    first,
                    drawn.indptr,
                    drawn.neighbors,
                    ids,
                    way.depth,
                    way.direction,
                    drawn.edge_ids,
                    drawn.weights,
                    drawn.times,
                )
                for way, first, drawn in hops
            ),
            {name: np.diff(own).tolist() for name, own in ends.items()},
            owners,
        )


def _of_seeds(by_type: dict[str, np.ndarray], given: np.ndarray | Mapping[str, np.ndarray], what: str) -> np.ndarray:
    """Return int64[b], one number for each seed, through all types."""
    if not isinstance(given, Mapping):
        if len(by_type) != 1:
            raise ValueError(f"{what} of seeds of several types must be a dict by node type")
        given = dict.fromkeys(by_type, given)
    parts = []
    for name, nodes in by_type.items():
        part = int64_array(given.get(name, ()), what)
        if part.size != nodes.size:
            raise ValueError(f"{what} must be as many as the {nodes.size} seeds of {name}, got {part.size}")
        parts.append(part)
    return np.concatenate(parts)
