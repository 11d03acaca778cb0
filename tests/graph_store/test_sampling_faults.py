"""Public faults of other samplers, each as its whole kind."""

import itertools

import numpy as np
import pytest

import graph_store
from graph_store import Exclusions
from graph_store.sampling.neighbor_sampler import NeighborSampler
from tests.graph_store.shop import (
    ALL,
    BACK,
    CLICKS,
    LIKES,
    METHODS,
    check_edge_ids,
    digest,
)


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
