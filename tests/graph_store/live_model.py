"""A slow twin of a store under updates: dicts of nodes and edges, and what a reader must answer for them."""

from collections import Counter
from copy import deepcopy
from dataclasses import dataclass, field

import numpy as np

import graph_store


@dataclass
class Edges:
    """An edge type: by (src, dst, time) the weight and features of each equal edge, in the order they came."""

    name: str
    rule: str
    undirected: bool
    reverse: str | None
    weighted: bool
    timed: bool
    features: tuple
    found: dict = field(default_factory=dict)

    @property
    def ends(self):
        src, _, dst = self.name.split(":")
        return src, dst

    def key(self, src, dst, time):
        return (*sorted((src, dst)), time) if self.undirected else (src, dst, time)

    def add(self, src, dst, weight, time, features):
        known = self.found.setdefault(self.key(src, dst, time), [])
        if known and self.rule != "all":
            if self.rule == "sum":
                known[0][0] += weight
            elif self.rule == "max":
                known[0][0] = max(known[0][0], weight)
        else:
            known.append([weight, features])

    def remove(self, gone):
        self.found = {key: value for key, value in self.found.items() if not gone(key)}

    @property
    def num_edges(self):
        return sum(map(len, self.found.values()))

    @property
    def self_loops(self):
        same = self.ends[0] == self.ends[1]
        return sum(len(value) for (src, dst, _), value in self.found.items() if same and src == dst)

    def lists(self, *, swapped=False):
        """Return {source: Counter of (neighbour, weight, time, features)}."""
        lists = {}
        for (src, dst, time), known in self.found.items():
            for weight, features in known:
                ways = {(dst, src) if swapped else (src, dst)}
                if self.undirected:
                    ways.add((dst, src))
                for one, other in ways:
                    lists.setdefault(one, Counter())[other, weight, time, features] += 1
        return lists


class Model:
    """All of a store."""

    def __init__(self, node_types, edge_types):
        self.nodes = {each["name"]: {} for each in node_types}
        self.features = {each["name"]: tuple(each["features"]) for each in node_types}
        self.edges = {}
        for each in edge_types:
            src, relation, dst = each["name"].split(":")
            back = f"{dst}:rev_{relation}:{src}" if each["reverse"] else None
            rule = each["rules"].get("duplicates", "first")
            kinds = each["undirected"], back, each["weighted"], each["timed"], tuple(each["features"])
            self.edges[each["name"]] = Edges(each["name"], rule, *kinds)

    def copy(self):
        return deepcopy(self)

    def add_nodes(self, name, ids):
        for each in ids:
            self.nodes[name].setdefault(each, {})

    def delete_nodes(self, name, ids):
        for each in ids:
            self.nodes[name].pop(each, None)
        gone = set(ids)
        for edges in self.edges.values():
            sides = [side for side, end in enumerate(edges.ends) if end == name]
            edges.remove(lambda key, sides=sides: any(key[side] in gone for side in sides))

    def set_features(self, name, ids, values):
        for feature, column in values.items():
            for each, value in zip(ids, column):
                self.nodes[name][each].pop(feature, None)
                if value is not None:
                    self.nodes[name][each][feature] = value

    def add_edges(self, name, rows):
        """Take rows (src, dst, weight, time, features)."""
        edges = self.edges[name]
        for src, dst, weight, time, features in rows:
            self.add_nodes(edges.ends[0], [src])
            self.add_nodes(edges.ends[1], [dst])
            edges.add(src, dst, weight, time, features)

    def delete_edges(self, name, rows, *, timed):
        edges = self.edges[name]
        keys = {edges.key(*row) for row in rows}
        gone = keys if timed else {key[:2] for key in keys}
        edges.remove(lambda key: (key if timed else key[:2]) in gone)

    def expire(self, name, before):
        self.edges[name].remove(lambda key: key[2] < before)

    def has_duplicate(self, name, rows):
        """Say whether a row is there already, or twice among the rows."""
        edges = self.edges[name]
        keys = [edges.key(*row[:2], row[3]) for row in rows]
        return len(set(keys)) < len(keys) or any(key in edges.found for key in keys)


def _value(feature, values, row):
    if not values.present[row]:
        return None
    if feature.kind == "ids":
        return tuple(values.values[values.indptr[row] : values.indptr[row + 1]].tolist())
    found = values.values[row]
    return tuple(found.tolist()) if feature.kind == "vector" else found if isinstance(found, str) else found.item()


def _check_lists(store, name, edges, lists, ids):
    """Compare all lists of an edge type with those of the model, by every way to ask for them."""
    src_type, _, dst_type = name.split(":")
    adjacency, entry = store.adjacency(name), store.edge_types[name]
    nodes = store.to_nodes(src_type, ids)
    indptr, neighbors, weights, times, edge_ids = adjacency.columns(nodes)
    found = store.to_ids(dst_type, neighbors).tolist()
    none = [None] * neighbors.size
    given = [()] * neighbors.size
    if edges.features:
        tables = store.edge_features(name)
        columns = [(feature, tables.values(feature.name, edge_ids)) for feature in edges.features]
        given = [tuple(_value(*column, row) for column in columns) for row in range(neighbors.size)]
    weights = none if weights is None else weights.tolist()
    times = none if times is None else times.tolist()
    entries = list(zip(found, weights, times, given))
    for row, each in enumerate(ids):
        span = slice(indptr[row], indptr[row + 1])
        assert Counter(entries[span]) == lists.get(each, Counter()), (name, each)
        order = list(zip(times[span] if edges.timed else neighbors[span].tolist(), neighbors[span].tolist()))
        assert order == sorted(order)
    assert adjacency.degrees(nodes).tolist() == np.diff(indptr).tolist()
    assert (store.degree(ids, name) if ids else np.empty(0)).tolist() == np.diff(indptr).tolist()
    assert entry.num_entries == neighbors.size == adjacency.num_edges
    assert (entry.num_edges, entry.self_loops) == (edges.num_edges, edges.self_loops)
    sources, targets = adjacency.edges_at(np.arange(adjacency.num_edges))
    pairs = Counter(zip(np.repeat(nodes, np.diff(indptr)).tolist(), neighbors.tolist()))
    assert Counter(zip(sources.tolist(), targets.tolist())) == pairs
    others = store.ids(dst_type).tolist()
    sides = [one for one in ids for _ in others], [other for _ in ids for other in others]
    if len(sides[0]) < 5000 and sides[0]:
        there = [other in {entry[0] for entry in lists.get(one, ())} for one, other in zip(*sides)]
        assert store.contains(*sides, name).tolist() == there
    answer = store.neighbors(ids, name)
    assert answer.indptr.tolist() == indptr.tolist()
    assert Counter(answer.ids.tolist()) == Counter(found)


def check(store, model):
    """Ask a reader for everything and compare it with the model."""
    for name, known in model.nodes.items():
        ids = store.ids(name).tolist()
        assert sorted(ids) == sorted(known), name
        assert store.node_types[name].count == len(known)
        nodes = store.to_nodes(name, ids)
        assert sorted(nodes.tolist()) == sorted(store.nodes(name).tolist())
        assert store.to_ids(name, nodes).tolist() == ids
        for feature in model.features[name]:
            values = store.features(ids, name, [feature.name])[feature.name]
            found = [_value(feature, values, row) for row in range(len(ids))]
            assert found == [known[each].get(feature.name) for each in ids], (name, feature.name)
    for name, edges in model.edges.items():
        src, dst = edges.ends
        _check_lists(store, name, edges, edges.lists(), sorted(model.nodes[src]))
        if edges.reverse:
            _check_lists(store, edges.reverse, edges, edges.lists(swapped=True), sorted(model.nodes[dst]))


def check_changes(found, before, after):
    """Compare what came and went between two models."""
    for name, edges in after.edges.items():
        sides = [
            Counter((*key[:2], weight, key[2]) for key, known in model.edges[name].found.items() for weight, _ in known)
            for model in (before, after)
        ]
        for each, expected in ((found.removed[name], sides[0] - sides[1]), (found.added[name], sides[1] - sides[0])):
            none = [None] * len(each)
            columns = [none if column is None else column.tolist() for column in (each.weights, each.times)]
            rows = zip(each.src.tolist(), each.dst.tolist(), *columns)
            assert (
                Counter((*edges.key(src, dst, time)[:2], weight, time) for src, dst, weight, time in rows) == expected
            )
    for name, known in after.nodes.items():
        assert sorted(found.new_nodes[name].tolist()) == sorted(set(known) - set(before.nodes[name]))
        assert sorted(found.gone_nodes[name].tolist()) == sorted(set(before.nodes[name]) - set(known))


def check_path(path, model, **options):
    """Open a store and compare it with the model."""
    with graph_store.open(path, threads=1, **options) as store:
        check(store, model)
        return store.version
