"""A batch is the same at any number of threads, for any cut of its seeds, in the overlay and after a fold."""

import itertools

import numpy as np
import pyarrow as pa
import pytest

import graph_store
from graph_store import Exclusions, FeatureType, GraphWriter, Schema
from graph_store.sampling.neighbor_sampler import NeighborSampler
from tests.graph_store.shop import (
    ALL,
    BACK,
    CLICKS,
    FOLLOWS,
    LIKES,
    check_edge_ids,
    digest,
    tables,
)


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


def test_a_sampler_stays_with_its_version(tmp_path):
    graph_store.ingest(Schema.from_tables(tables(seed=4)), tmp_path / "store", num_shards=2)
    with graph_store.open(tmp_path / "store") as store:
        sampler = NeighborSampler(store, [3, 3], edge_types=CLICKS, columns=ALL)
        seeds = store.nodes("user")[:9]
        before = sampler.sample(seeds, seed=1)
        ids = before.ids["item"].tolist()
        with GraphWriter(tmp_path / "store") as writer:
            writer.delete_nodes("item", ids[:3])
        store.refresh()
        after = sampler.sample(seeds, seed=1)
        assert digest(after) == digest(before)
        newer = NeighborSampler(store, [3, 3], edge_types=CLICKS, columns=ALL).sample(seeds, seed=1)
        assert not set(ids[:3]) & set(newer.ids["item"].tolist())
    assert after.ids["item"].tolist() == ids
    assert sampler.sample(seeds, seed=1).ids["item"].tolist() == ids
