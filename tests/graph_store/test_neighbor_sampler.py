"""Neighbour sampling over any edge types, against a plain twin that walks dicts."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, Exclusions, UnknownEdgeType
from graph_store.sampling.neighbor_sampler import NeighborSampler
from tests.graph_store.shop import (
    ALL,
    BACK,
    CLICKS,
    FOLLOWS,
    LIKES,
    METHODS,
    Twin,
    check_edge_ids,
    check_times,
    digest,
    edges_of,
)
from tests.oracles import chi_square


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
