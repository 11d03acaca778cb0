"""Neighbour sampling over any edge types, against a plain twin that walks dicts; public faults of other samplers."""

import hashlib
import itertools

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, Exclusions, FeatureType, GraphWriter, Schema, UnknownEdgeType
from graph_store.draws import NEIGHBORS, key_of
from graph_store.sampling.neighbor_sampler import NeighborSampler
from graph_store.sampling.rule import Rule
from tests.graph_store.list_twin import mixed, pick
from tests.oracles import chi_square

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


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    path = tmp_path_factory.mktemp("shop") / "store"
    graph_store.ingest(Schema.from_tables(tables()), path, num_shards=3)
    with graph_store.open(path, threads=1) as store:
        yield store


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


@pytest.fixture(scope="module")
def twin(shop):
    return Twin(shop)


READ = {("out", name): name for name in (CLICKS, BACK, FOLLOWS, LIKES)} | {
    ("in", CLICKS): BACK, ("in", BACK): CLICKS, ("in", LIKES): LIKES
}  # fmt: skip


def test_edge_types_of_the_twin_are_those_of_the_store(shop):
    assert set(shop.edge_types) == {CLICKS, BACK, FOLLOWS, LIKES}


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_a_heterogeneous_sample_is_that_of_the_twin(shop, twin, data):
    direction = data.draw(st.sampled_from(["out", "in"]), "direction")
    names = [name for way, name in READ if way == direction]
    chosen = data.draw(st.lists(st.sampled_from(names), min_size=1, unique=True), "edge types")
    num_hops = data.draw(st.integers(1, 3), "hops")
    fanouts = {
        name: data.draw(st.lists(st.sampled_from([-1, 0, 1, 2, 5]), min_size=num_hops, max_size=num_hops))
        for name in chosen
    }
    temporal = data.draw(st.booleans(), "temporal") and bool({CLICKS, BACK} & set(chosen))
    disjoint = temporal or data.draw(st.booleans(), "disjoint")
    rule = {}
    if temporal:
        rule = {"strict": data.draw(st.booleans()), "window": data.draw(st.sampled_from([None, 0, 3]))}
    methods = {name: data.draw(st.sampled_from(METHODS), name) for name in chosen}
    for name, (method, _) in list(methods.items()):
        if (method in ("weighted", "top") and name == FOLLOWS) or (method == "recent" and name in (FOLLOWS, LIKES)):
            methods[name] = "uniform", True
    types = sorted({end for name in chosen for end in name.split(":")[::2]})
    seeds = data.draw(st.lists(st.tuples(st.sampled_from(types), st.integers(0, 19)), max_size=8), "seeds")
    seeds = [(kind, int(shop.nodes(kind)[place])) for kind, place in sorted(seeds)]
    by_type = {kind: np.array([node for own, node in seeds if own == kind], np.int64) for kind in types}
    positions = [3 + 7 * at for at in range(len(seeds))]
    times = data.draw(st.lists(st.integers(-1, 13), min_size=len(seeds), max_size=len(seeds)), "times")
    exclude = {}
    for name in chosen:
        pairs = list(
            itertools.islice(((node, row[0]) for node, rows in twin.lists[name].items() for row in rows), 0, 40, 3)
        )
        if data.draw(st.booleans(), "exclude"):
            exclude[name] = pairs
    hops = [
        [(name, READ[direction, name], direction, fanouts[name][hop], *methods[name]) for name in chosen]
        for hop in range(num_hops)
    ]

    def share(values):
        return {kind: [value for value, (own, _) in zip(values, seeds) if own == kind] for kind in types}

    sampler = NeighborSampler(
        shop,
        fanouts,
        direction=direction,
        method={name: method for name, (method, _) in methods.items()},
        replace={name: replace for name, (_, replace) in methods.items()},
        disjoint=disjoint,
        temporal=temporal,
        columns=ALL,
        **rule,
    )
    left_out = {name: Exclusions(*np.array(pairs, np.int64).reshape(-1, 2).T) for name, pairs in exclude.items()}
    given = {"positions": share(positions)} | ({"times": share(times)} if temporal else {})
    labels, drawn = twin.sample(
        hops,
        seeds,
        seed=5,
        step=2,
        positions=positions,
        times=times if temporal else None,
        exclude=exclude,
        disjoint=disjoint,
        **rule,
    )
    for _ in range(2):  # the workspace is used again
        found = sampler.sample(by_type, seed=5, step=2, exclude=left_out, **given)
        for kind in types:
            known = list(labels[kind])
            assert found.nodes[kind].tolist() == [node for _, node in known]
            if disjoint:
                assert found.trees[kind].tolist() == [tree for tree, _ in known]
            own = [node for of, node in seeds if of == kind]
            assert found.nodes[kind][found.labels_of_seeds[kind]].tolist() == own
            assert sum(found.num_sampled_nodes[kind]) == len(known)
        assert [(hop.depth, hop.edge_type) for hop in found.hops] == [
            (depth, way[0]) for depth, ways in enumerate(hops) for way in ways
        ]
        assert [edges_of(hop) for hop in found.hops] == drawn
        for name, counts in found.num_sampled_edges.items():
            assert counts == [hop.neighbors.size for hop in found.hops if hop.edge_type == name]
        check_edge_ids(shop, found)
        if temporal:
            check_times(found, times, **rule)


def check_times(found, times, *, strict, window):
    for hop in found.hops:
        if hop.times is not None:
            bound = np.array(times, np.int64)[found.trees[hop.expanded_type][hop.expanded_labels]]
            assert (hop.times < bound if strict else hop.times <= bound).all()
            if window is not None:
                assert (hop.times >= bound - window).all()


@pytest.mark.parametrize("fanouts", [[5, -1, 5], [-1, 5], [0, 3], [-1, -1, -1]])
def test_a_number_a_hop_stands_for_every_edge_type(shop, fanouts):
    named = [CLICKS, BACK, LIKES]
    seeds = shop.nodes("user")[:5]
    every = NeighborSampler(shop, fanouts, edge_types=named).sample(seeds, seed=1)
    each = NeighborSampler(shop, dict.fromkeys(named, fanouts)).sample(seeds, seed=1)
    assert digest(every) == digest(each)
    for hop in every.hops:
        degrees = shop.adjacency(hop.edge_type).degrees(
            every.nodes[hop.src_type][hop.first : hop.first + hop.indptr.size - 1]
        )
        fanout = fanouts[hop.depth]
        assert np.array_equal(np.diff(hop.indptr), degrees if fanout < 0 else np.minimum(degrees, fanout))


def test_a_metapath_goes_along_one_edge_type_a_hop(shop, twin):
    path = [CLICKS, LIKES, BACK, FOLLOWS]
    found = NeighborSampler(shop, [3, 2, -1, 2], metapath=path).sample(shop.nodes("user")[:4], seed=9)
    assert [hop.edge_type for hop in found.hops] == path
    hops = [[(name, name, "out", fanout, "uniform", False)] for name, fanout in zip(path, [3, 2, -1, 2])]
    _, drawn = twin.sample(hops, [("user", int(node)) for node in shop.nodes("user")[:4]], seed=9)
    assert [[edge[:2] for edge in edges_of(hop)] for hop in found.hops] == [[edge[:2] for edge in hop] for hop in drawn]


def test_a_metapath_goes_against_its_edges_in_direction_in(shop):
    found = NeighborSampler(shop, [-1, -1], metapath=[CLICKS, BACK], direction="in", columns=ALL).sample(
        shop.nodes("item")[:3], seed=0
    )
    first, second = found.hops
    assert (first.expanded_type, first.neighbor_type, second.expanded_type) == ("item", "user", "user")
    check_edge_ids(shop, found)
    whole = shop.adjacency(CLICKS)
    _, targets = whole.edges_at(np.arange(whole.num_edges))
    wanted = np.flatnonzero(np.isin(targets, shop.nodes("item")[:3]))
    assert sorted(first.edge_ids.tolist()) == wanted.tolist()


def test_one_edge_type_alternates_with_its_reverse_as_the_merged_sampler_does(shop):
    seeds = shop.nodes("user")[:6]
    ours = NeighborSampler(shop, [4, 3, 2], edge_types=CLICKS).sample(seeds, seed=3)
    assert [hop.edge_type for hop in ours.hops] == [CLICKS, BACK, CLICKS]
    by_ids = shop.sample(shop.to_ids("user", seeds), CLICKS, fanouts=[4, 3, 2], seed=3)
    assert digest(ours) == digest(by_ids)


def test_trees_differ_where_merged_draws_are_the_same(shop):
    hub = shop.nodes("user")[np.argmax(shop.adjacency(FOLLOWS).degrees(shop.nodes("user")))]
    seeds = np.repeat(hub, 200)
    merged = NeighborSampler(shop, [3], edge_types=FOLLOWS).sample(seeds, seed=1)
    assert merged.num_sampled_nodes["user"][0] == 1
    assert merged.seed_labels.tolist() == [0] * 200
    assert merged.hops[0].neighbors.size == 3
    trees = NeighborSampler(shop, [3], edge_types=FOLLOWS, disjoint=True).sample(seeds, seed=1)
    assert trees.seed_labels.tolist() == list(range(200))
    drawn = trees.nodes["user"][trees.hops[0].neighbors].reshape(200, 3)
    assert len({tuple(sorted(row)) for row in drawn.tolist()}) > 100
    assert np.array_equal(trees.trees["user"][trees.hops[0].neighbors], np.repeat(np.arange(200), 3))


def test_two_trees_of_one_seed_are_independent(make_store):
    # A node with 4 neighbours: of two draws each pair has a chance of 1/16.
    rows = [(0, target, None, None) for target in range(1, 5)]
    with graph_store.open(make_store(rows, edge_type="a:r:a", num_shards=1)) as store:
        sampler = NeighborSampler(store, [1], disjoint=True)
        seeds = store.to_nodes("a", [0] * 40_000)
        found = sampler.sample(seeds, seed=4)
        drawn = found.nodes["a"][found.hops[0].neighbors].reshape(-1, 2)
        pairs = np.unique(drawn, axis=0, return_counts=True)[1]
    assert pairs.size == 16
    assert abs(chi_square(pairs)) < 4


def test_a_tree_depends_on_its_position_and_not_on_what_is_beside_it(shop):
    sampler = NeighborSampler(shop, [3, 2], edge_types=CLICKS, disjoint=True)
    seeds = shop.nodes("user")[:10]
    whole = sampler.sample(seeds, seed=1, positions=np.arange(50, 60))
    for part in (slice(0, 4), slice(4, 10), slice(7, 8)):
        own = sampler.sample(seeds[part], seed=1, positions=np.arange(50, 60)[part])
        for tree in range(own.seed_labels.size):
            assert tree_edges(own, tree) == tree_edges(whole, part.start + tree)
    moved = sampler.sample(seeds, seed=1, positions=np.arange(51, 61))
    assert [tree_edges(moved, tree) for tree in range(10)] != [tree_edges(whole, tree) for tree in range(10)]


def tree_edges(found, tree):
    edges = []
    for hop in found.hops:
        own = found.trees[hop.expanded_type][hop.expanded_labels] == tree
        assert np.array_equal(own, found.trees[hop.neighbor_type][hop.neighbors] == tree)
        edges.append(list(zip(hop.src[own].tolist(), hop.dst[own].tolist())))
    return edges


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


OPTIONS = [
    {},
    {"disjoint": True, "replace": True},
    {"temporal": True, "window": 6},
    {"method": {CLICKS: "weighted", BACK: "recent"}, "temporal": True},
    {"method": {CLICKS: "top", LIKES: "weighted"}},
]


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("direction", ["out", "in"])
def test_a_batch_does_not_depend_on_threads(shop, options, direction):
    seeds = np.tile(shop.nodes("user"), 150)  # enough that the lists are shared out
    given = {"times": np.arange(seeds.size) % 13} if options.get("temporal") else {}
    exclude = {CLICKS: Exclusions(shop.nodes("user")[:30], shop.nodes("item")[:30])}
    hashes = set()
    for threads in (1, 2, 4):
        sampler = NeighborSampler(
            shop, [2, 1, 1], edge_types=[CLICKS, BACK, LIKES], direction=direction, columns=ALL, **options
        )
        hashes.add(
            digest(sampler.sample(seeds, node_type="user", seed=2, step=1, exclude=exclude, threads=threads, **given))
        )
    assert len(hashes) == 1


@pytest.mark.parametrize("numbered", [False, True])
def test_a_batch_is_the_same_in_the_overlay_and_after_it_is_folded(tmp_path, numbered):
    """Edges are added and deleted, and a node gets so many that it becomes a hub."""
    random, given = np.random.default_rng(3), tables(seed=1)
    if numbered:
        table = given[CLICKS]["table"]
        given[CLICKS]["table"] = table.append_column("score", pa.array(random.random(len(table)).astype(np.float32)))
        given[CLICKS]["features"] = FeatureType("score")
    graph_store.ingest(Schema.from_tables(given), tmp_path / "store", num_shards=3)
    with GraphWriter(tmp_path / "store") as writer, graph_store.open(tmp_path / "store") as store:
        table, size = given[CLICKS]["table"], 700
        added = {"weight": random.random(size).astype(np.float32), "time": random.integers(0, 12, size)}
        if numbered:
            added["features"] = {"score": random.random(size).astype(np.float32)}
        src = np.where(np.arange(size) < 600, 7, random.integers(0, 50, size))
        writer.add_edges(CLICKS, src, random.integers(0, 60, size), **added)
        writer.delete_edges(CLICKS, table["src"].to_numpy()[:50], table["dst"].to_numpy()[:50])
        writer.add_edges(FOLLOWS, [1, 45, 3], [45, 2, 3])
        writer.delete_nodes("item", [2, 17])
        store.refresh()
        scores = store.edge_features(CLICKS) if numbered else None
        before = [digest(found, scores) for found in batches(store)]
        assert len(set(before)) == 2 * 2 * len(OPTIONS)
        writer.fold()
    with graph_store.open(tmp_path / "store", threads=2) as store:
        assert store.view.base is None
        scores = store.edge_features(CLICKS) if numbered else None
        assert [digest(found, scores) for found in batches(store)] == before
        assert store.adjacency(CLICKS).degrees(store.to_nodes("user", [7])) > 512


def batches(store):
    for direction, options in itertools.product(("out", "in"), OPTIONS):
        sampler = NeighborSampler(
            store, [5, 3], edge_types=[CLICKS, BACK, LIKES], direction=direction, columns=ALL, **options
        )
        for start in ("user", "item"):
            seeds = store.to_nodes(start, np.array([7, 1, 3, 4, 5, 25]))
            given = {"times": np.arange(6) + 5} if options.get("temporal") else {}
            found = sampler.sample(seeds, node_type=start, seed=8, **given)
            if not store.adjacency(CLICKS).numbered:
                check_edge_ids(store, found)
            else:
                check_numbers(store, found)
            yield found


def check_numbers(store, found):
    """Stored edge ids: each is of one edge, and its ends are those in the lists of the type itself."""
    ends = {}
    for name, entry in store.edge_types.items():
        nodes = store.nodes(entry.src)
        indptr, neighbors, _, _, ids = store.adjacency(name).columns(nodes)
        if ids is not None:
            ends[name] = dict(zip(ids.tolist(), zip(np.repeat(nodes, np.diff(indptr)).tolist(), neighbors.tolist())))
    for hop in found.hops:
        if hop.edge_type in ends:
            src, dst = (
                found.nodes[kind][labels].tolist()
                for kind, labels in ((hop.src_type, hop.src_labels), (hop.dst_type, hop.dst_labels))
            )
            assert [ends[hop.edge_type][edge] for edge in hop.edge_ids.tolist()] == list(zip(src, dst))


@pytest.mark.parametrize("fanout", [-1, 1, 5])
@pytest.mark.parametrize("method", ["uniform", "recent"])
def test_no_neighbour_is_later_than_the_seed_on_unsorted_input(make_store, fanout, method):
    edges = [(1, 0), (0, 1), (1, 2), (1, 0), (2, 0)]
    rows = [(src, dst, None, time) for (src, dst), time in zip(edges, range(1, 6))]
    for order in ([0, 1, 2, 3, 4], [4, 2, 0, 3, 1], [3, 4, 1, 2, 0]):
        path = make_store([rows[place] for place in order], edge_type="a:r:a", reverse=True, num_shards=2)
        with graph_store.open(path) as store:
            for time in range(7):
                for direction in ("out", "in"):
                    found = store.sample(
                        [1],
                        "a:r:a",
                        fanouts=[fanout] * 3,
                        seed=0,
                        times=[time],
                        direction=direction,
                        columns=ALL,
                        method=method,
                    )
                    assert all((hop.times <= time).all() for hop in found.hops)
                    near = [
                        t
                        for (src, dst), t in zip(edges, range(1, 6))
                        if (src if direction == "out" else dst) == 1 and t <= time
                    ]
                    size = len(near) if fanout < 0 else min(fanout, len(near))
                    assert found.hops[0].neighbors.size == size
            found = store.sample([1], "a:r:a", fanouts=[-1, -1], seed=0, times=[1], columns=["times"])
            assert found.hops[0].dst.tolist() == [0]
            assert found.hops[0].times.tolist() == [1]
            assert store.sample([1], "a:r:a", fanouts=[-1], seed=0, times=[1], strict=True).hops[0].dst.size == 0


def test_seeds_without_an_edge_give_none_in_any_mode(make_store):
    rows = [(1, 2, 1.0, 5), (2, 2, 2.0, 6)]
    with graph_store.open(make_store(rows, edge_type="a:r:a", reverse=True)) as store:
        lonely = store.to_nodes("a", [1])  # nothing leads to it
        for method, replace in METHODS:
            for more in ({"direction": "in"}, {"direction": "in", "temporal": True}, {"temporal": True}):
                sampler = NeighborSampler(
                    store, [3, -1], edge_types="a:r:a", method=method, replace=replace, columns=ALL, **more
                )
                times = {"times": [4, 4]} if "temporal" in more else {}
                found = sampler.sample(np.repeat(lonely, 2), seed=0, **times)
                assert [hop.neighbors.size for hop in found.hops] == [0, 0]
                assert found.nodes["a"].size == (2 if "temporal" in more else 1)
                check_edge_ids(store, found)


def test_a_self_loop_is_drawn_once_and_leads_to_its_own_label(make_store):
    with graph_store.open(
        make_store([(1, 1, None, None), (1, 2, None, None)], edge_type="a:r:a", undirected=True)
    ) as store:
        for options in ({}, {"direction": "in"}, {"disjoint": True}):
            found = NeighborSampler(store, [-1, -1], columns=ALL, **options).sample(store.to_nodes("a", [1]), seed=0)
            assert sorted(zip(found.hops[0].src.tolist(), found.hops[0].dst.tolist())) == (
                [(1, 1), (2, 1)] if options.get("direction") else [(1, 1), (1, 2)]
            )
            assert found.nodes["a"].size == 2
            check_edge_ids(store, found)


def test_no_more_neighbours_than_the_fanout(shop):
    for method, replace in METHODS:
        for fanout in (1, 4, 600):
            sampler = NeighborSampler(shop, [fanout], edge_types=CLICKS, method=method, replace=replace, disjoint=True)
            found = sampler.sample(np.tile(shop.nodes("user"), 3), seed=1)
            assert np.diff(found.hops[0].indptr).max() <= fanout


def test_exclusions_hold_at_every_hop_and_for_every_copy(shop):
    clicks = shop.adjacency(CLICKS)
    src, dst = clicks.edges_at(np.arange(0, clicks.num_edges, 3))
    exclude = {CLICKS: Exclusions(src, dst), BACK: Exclusions(dst, src)}
    for direction, (method, replace) in itertools.product(("out", "in"), METHODS):
        sampler = NeighborSampler(
            shop, [-1, 3, 3], edge_types=[CLICKS, BACK], direction=direction, method=method, replace=replace
        )
        found = sampler.sample(shop.nodes("user"), node_type="user", seed=0, exclude=exclude)
        for hop in found.hops:
            ends = found.nodes[hop.src_type][hop.src_labels], found.nodes[hop.dst_type][hop.dst_labels]
            assert not exclude[hop.edge_type].has(*ends).any()
        assert sum(hop.neighbors.size for hop in found.hops)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fanouts": []}, "fanouts must be one or more numbers from -1"),
        ({"fanouts": [-2]}, "fanouts must be one or more numbers from -1"),
        ({"fanouts": {CLICKS: [1], BACK: [1, 2]}}, "must be equally many"),
        ({"fanouts": {}}, "must be equally many"),
        ({"fanouts": {CLICKS: [-3]}}, "fanouts must be numbers from -1"),
        ({"fanouts": {CLICKS: [1]}, "edge_types": CLICKS}, "leave edge_types and metapath out"),
        ({"fanouts": [1], "metapath": [CLICKS, BACK]}, "a metapath of 2 edge types needs as many fanouts, got 1"),
        ({"fanouts": [1, 1], "metapath": [CLICKS, CLICKS]}, "to nodes of item, user:clicks:item goes on from user"),
        ({"fanouts": [1], "metapath": [CLICKS], "edge_types": CLICKS}, "leave edge_types out"),
        ({"fanouts": [1], "edge_types": FOLLOWS, "direction": "in"}, "'in' along user:follows:user needs its rev"),
        ({"fanouts": [1], "edge_types": CLICKS, "direction": "up"}, "direction must be one of out, in"),
        ({"fanouts": [1], "edge_types": FOLLOWS, "method": "weighted"}, "'weighted' needs weights, but edges of use"),
        ({"fanouts": [1], "edge_types": LIKES, "method": "recent"}, "'recent' needs times"),
        ({"fanouts": [1], "edge_types": LIKES, "temporal": True}, "needs times, but edges of item:like:item have none"),
        ({"fanouts": [1], "edge_types": CLICKS, "strict": True}, "strict and window are for temporal"),
        ({"fanouts": [1], "edge_types": CLICKS, "columns": ["age"]}, "columns may be edge_ids, weights, times, got ag"),
        ({"fanouts": [1], "edge_types": CLICKS, "method": {"x:y:z": "top"}}, "method is given for 'x:y:z'"),
    ],
)  # fmt: skip
def test_what_cannot_be_sampled_is_refused_with_what_there_is(shop, options, message):
    with pytest.raises(BadInput, match=message):
        NeighborSampler(shop, **options)


def test_an_unknown_edge_type_is_named(shop):
    for options in ({"edge_types": "a:b:c"}, {"metapath": ["a:b:c"]}, {"fanouts": {"a:b:c": [1]}}):
        with pytest.raises(UnknownEdgeType, match=f"no edge type 'a:b:c'; the store has .*{CLICKS}"):
            NeighborSampler(shop, **({"fanouts": [1]} | options))


def test_seeds_positions_and_times_that_do_not_fit_are_refused(shop):
    user = shop.nodes("user")[:2]
    plain = NeighborSampler(shop, [1], edge_types=CLICKS)
    timed = NeighborSampler(shop, [1], edge_types=CLICKS, temporal=True)
    for call, message in [
        (lambda: plain.sample([10**6], seed=0), "node 1000000 at position 0 is no node of type user"),
        (lambda: plain.sample([-1], seed=0), "node -1 at position 0"),
        (lambda: plain.sample(user, seed=0, times=[1, 2]), "make it with temporal=True"),
        (lambda: timed.sample(user, seed=0), "needs the times of the seeds"),
        (lambda: timed.sample(user, seed=0, times=[1]), "times must be as many as the 2 seeds of user, got 1"),
        (lambda: timed.sample(user, seed=0, times=[1, 2], positions=[0]), "positions must be as many as the 2 seeds"),
        (lambda: plain.sample(user, node_type="shop", seed=0), "seeds of node type 'shop'; this sampler reaches"),
        (lambda: plain.sample(user, seed=0, exclude={"x": Exclusions([], [])}), "exclude: no edge type 'x'"),
    ]:
        with pytest.raises(ValueError, match=message):
            call()
    with pytest.raises(TypeError, match="seeds must be integers"):
        plain.sample([0.5], seed=0)
    assert plain.sample([], seed=0).hops[0].neighbors.size == 0


def test_seeds_of_several_types_are_sampled_together(shop):
    sampler = NeighborSampler(shop, {CLICKS: [2, 2], BACK: [2, 2]}, disjoint=True)
    seeds = {"user": shop.nodes("user")[:3], "item": shop.nodes("item")[:2]}
    found = sampler.sample(seeds, seed=0)
    assert found.trees["user"][:3].tolist() == [0, 1, 2]
    assert found.trees["item"][:2].tolist() == [3, 4]
    with pytest.raises(ValueError, match="the seeds are of types user, item"):
        found.seed_labels.sum()
    with pytest.raises(ValueError, match="must be a dict by node type"):
        sampler.sample(seeds, seed=0, positions=np.arange(5))


def test_the_store_samples_by_ids_whatever_the_rule(shop, twin):
    found = shop.sample(
        [3, 8],
        CLICKS,
        fanouts=[4, 2],
        seed=1,
        times=[6, 9],
        exclude={CLICKS: ([3], [shop.neighbors([3], CLICKS).ids[0]])},
        method="weighted",
        window=5,
        columns=ALL,
    )
    assert found.seeds.tolist() == [3, 8]
    check_times(found, [6, 9], strict=False, window=5)
    check_edge_ids(shop, found)
    with pytest.raises(BadInput, match="leave it out"):
        shop.sample([3], CLICKS, fanouts={CLICKS: [1]}, seed=0)
    along = shop.sample([3], fanouts=[1, 1], metapath=[CLICKS, LIKES], seed=0)
    assert [hop.edge_type for hop in along.hops] == [CLICKS, LIKES]
    into = shop.sample([3], CLICKS, fanouts=[-1], direction="in", seed=0)
    assert into.seed_type == "item"
    assert set(into.hops[0].dst.tolist()) <= {3}
