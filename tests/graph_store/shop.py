"""A store of several edge types, the plain twin of sampling from it, and what is true of every sample."""

import hashlib

import numpy as np
import pyarrow as pa

from graph_store.draws import NEIGHBORS, key_of
from graph_store.sampling.rule import Rule
from tests.graph_store.list_twin import mixed, pick

CLICKS, BACK, FOLLOWS, LIKES = "user:clicks:item", "item:rev_clicks:user", "user:follows:user", "item:like:item"
ALL = ("edge_ids", "weights", "times")
METHODS = [
    ("uniform", False),
    ("uniform", True),
    ("weighted", False),
    ("weighted", True),
    ("top", False),
    ("recent", False),
]


def tables(seed=0, rows=400):
    """Three edge types: timed and weighted, plain, undirected with weights; with parallel edges and self loops."""
    random = np.random.default_rng(seed)

    def table(src, dst, **columns):
        return pa.table({"src": random.integers(0, src, rows), "dst": random.integers(0, dst, rows), **columns})

    weight = random.choice([0.0, 0.5, 1.0, 2.0, 8.0], rows).astype(np.float32)
    times = random.integers(0, 12, rows)
    return {
        CLICKS: {
            "table": table(40, 30, weight=weight, time=times),
            "weight": "weight",
            "time": "time",
            "reverse": True,
            "duplicates": "all",
        },
        FOLLOWS: {"table": table(40, 40), "duplicates": "all"},
        LIKES: {"table": table(30, 30, weight=weight), "weight": "weight", "undirected": True, "duplicates": "all"},
    }


class Twin:
    """A store in dicts: of each edge type the list of each node as (neighbour, weight, time, position)."""

    def __init__(self, store):
        self.types = store.edge_types
        self.numbers = {name: number for number, name in enumerate(self.types)}
        self.lists = {}
        for name, entry in self.types.items():
            nodes = store.nodes(entry.src)
            indptr, neighbors, weights, times, ids = store.adjacency(name).columns(nodes)
            none = [None] * neighbors.size
            ids = np.arange(neighbors.size) if ids is None else ids
            rows = list(
                zip(
                    neighbors.tolist(),
                    none if weights is None else weights.tolist(),
                    none if times is None else times.tolist(),
                    ids.tolist(),
                )
            )
            self.lists[name] = {
                node: rows[indptr[i] : indptr[i + 1]] for i, node in enumerate(nodes.tolist())
            }  # fmt: skip

    def sample(self, hops, seeds, *, seed, step=0, positions=None, times=None, exclude=None, disjoint=False, **rule):
        """Expand seeds [(type, node)]; `hops` are lists of (edge type, read, direction, fanout, method, replace).

        Returns the labels by type as {(tree or None, node): label}, and of each way its edges as (expanded label,
        neighbour label, weight, time).
        """
        labels = {name: {} for entry in self.types.values() for name in (entry.src, entry.dst)}
        frontier = []
        for at, (kind, node) in enumerate(seeds):
            item = at if disjoint else None, node
            if item not in labels[kind]:
                labels[kind][item] = len(labels[kind])
                frontier.append((kind, item))
        drawn = []
        for depth, ways in enumerate(hops):
            fresh = []
            for edge_type, read, direction, fanout, method, replace in ways:
                entry = self.types[edge_type]
                expanded, other = (entry.src, entry.dst) if direction == "out" else (entry.dst, entry.src)
                key = int(key_of(seed, step, NEIGHBORS, depth | self.numbers[edge_type] << 32))
                edges = []
                for kind, (tree, node) in frontier:
                    if kind != expanded:
                        continue
                    unit = node if tree is None else mixed(positions[tree], node)
                    pairs = (exclude or {}).get(edge_type, ())
                    left_out = {pair[direction == "out"] for pair in pairs if pair[direction == "in"] == node}
                    entries = self.lists[read][node]
                    places = pick(
                        entries,
                        Rule(fanout, replace, method, **rule),
                        mixed(key, unit),
                        bound=None if times is None else times[tree],
                        excluded=left_out,
                    )
                    for place in places:
                        item = tree, entries[place][0]
                        if item not in labels[other]:
                            labels[other][item] = len(labels[other])
                            fresh.append((other, item))
                        edges.append((labels[expanded][tree, node], labels[other][item], *entries[place][1:3]))
                drawn.append(edges)
            frontier = fresh
        return labels, drawn


def edges_of(hop):
    none = [None] * hop.neighbors.size
    columns = (none if column is None else column.tolist() for column in (hop.weights, hop.times))
    return list(zip(hop.expanded_labels.tolist(), hop.neighbors.tolist(), *columns))


def check_edge_ids(store, found):
    """`(src, dst)[e_id] == n_id[edge_index]`, and the time and weight of that edge are the hop's."""
    for hop in found.hops:
        adjacency = store.adjacency(hop.edge_type)
        src, dst = adjacency.edges_at(hop.edge_ids)
        assert np.array_equal(src, found.nodes[hop.src_type][hop.src_labels])
        assert np.array_equal(dst, found.nodes[hop.dst_type][hop.dst_labels])
        assert np.array_equal(found.ids[hop.src_type][hop.src_labels], hop.src)
        assert np.array_equal(found.ids[hop.dst_type][hop.dst_labels], hop.dst)
        _, _, weights, times, _ = adjacency.columns(store.nodes(hop.src_type))
        for kept, whole in ((hop.weights, weights), (hop.times, times)):
            assert (kept is None) == (whole is None)
            if whole is not None:
                assert np.array_equal(kept, whole[hop.edge_ids])


def check_times(found, times, *, strict, window):
    for hop in found.hops:
        if hop.times is not None:
            bound = np.array(times, np.int64)[found.trees[hop.expanded_type][hop.expanded_labels]]
            assert (hop.times < bound if strict else hop.times <= bound).all()
            if window is not None:
                assert (hop.times >= bound - window).all()


def digest(found, scores=None):
    """Hash all that a subgraph holds; with `scores` those of edges instead of their ids, which a fold counts anew."""
    parts = [*found.labels_of_seeds.values(), *found.nodes.values(), *(found.trees or {}).values()]
    for hop in found.hops:
        edges = hop.edge_ids
        if scores is not None and hop.edge_type in (CLICKS, BACK):
            edges = scores.values("score", hop.edge_ids).values
        columns = (edges, hop.weights, hop.times)
        parts += [hop.indptr, hop.neighbors, *(column for column in columns if column is not None)]
    return hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
