"""Walks from the same start differ wherever the graph lets them, on R-MAT graphs."""

import numpy as np
import pytest

import graph_store
from benchmarks.rmat import graph_file
from graph_store.sampling.walks import walk

LINKS = "node:links:node"
LENGTH, WALKS, STARTS = 8, 5, 2000


def chance_of_the_same(adjacency, nodes, hops):
    """By node, the chance that two independent walks of so many hops are the same: it adds up along the edges."""
    same = np.ones(int(nodes.max()) + 1)
    for _ in range(hops):
        longer = np.ones(same.size)
        for low in range(0, nodes.size, 1 << 17):
            own = nodes[low : low + (1 << 17)]
            indptr, neighbors = adjacency.neighbors(own)
            degrees = np.diff(indptr)
            sums = np.concatenate([[0], np.cumsum(same[neighbors])])
            some = degrees > 0
            longer[own[some]] = np.diff(sums[indptr])[some] / degrees[some] ** 2
        same = longer
    return same[nodes]


@pytest.mark.parametrize("scale", [14, pytest.param(22, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", [{}, {"p": 0.5, "q": 2.0}])
def test_of_walks_from_one_start_nearly_all_are_distinct(tmp_path_factory, scale, how):
    folder = tmp_path_factory.getbasetemp() / "rmat"
    path = folder / f"{scale}.store"
    if not path.exists():
        schema = graph_store.Schema.from_edges(graph_file(folder, scale), LINKS, src="src", dst="dst")
        graph_store.ingest(schema, path)
    with graph_store.open(path) as store:
        adjacency, nodes = store.adjacency(LINKS), store.nodes("node")
        # Four hops alone make two walks differ all but once in a thousand.
        free = nodes[chance_of_the_same(adjacency, nodes, 4) < 0.001]
        starts = np.random.default_rng(1).choice(free, STARTS, replace=False)
        paths = walk([adjacency], starts, length=LENGTH, walks=WALKS, seed=7, threads=2, **how)
    assert paths.shape == (STARTS * WALKS, LENGTH + 1)
    assert len(set(map(bytes, paths))) >= 0.99 * STARTS * WALKS
    for own in paths[: 100 * WALKS].reshape(100, WALKS, -1):
        assert (own[:, 0] == own[0, 0]).all()


@pytest.mark.parametrize("scale", [14, pytest.param(22, marks=pytest.mark.long)])
@pytest.mark.parametrize("replace", [False, True])
def test_of_trees_of_one_seed_nearly_all_are_distinct(tmp_path_factory, scale, replace):
    folder = tmp_path_factory.getbasetemp() / "rmat"
    path = folder / f"{scale}.store"
    if not path.exists():
        schema = graph_store.Schema.from_edges(graph_file(folder, scale), LINKS, src="src", dst="dst")
        graph_store.ingest(schema, path)
    with graph_store.open(path) as store:
        nodes = store.nodes("node")
        # Of 20 neighbours 5 are one of 15,504 subsets: two of five trees start alike once in 1,550 seeds.
        free = nodes[store.adjacency(LINKS).degrees(nodes) >= 20]
        seeds = np.repeat(np.random.default_rng(1).choice(free, STARTS, replace=False), WALKS)
        sampler = store.neighbor_sampler([5, 5], disjoint=True, replace=replace)
        found = sampler.sample(seeds, seed=7)
    first = np.sort(found.nodes["node"][found.hops[0].neighbors].reshape(seeds.size, 5), axis=1)
    rows = np.column_stack([seeds, first])
    assert len(set(map(bytes, rows))) >= 0.99 * seeds.size
