"""A hub is sampled right by every rule, and in a few reads however long its list is."""

import mmap
import resource

import numpy as np
import pyarrow as pa
import pytest

import graph_store
from graph_store import Schema
from graph_store.draws import NEIGHBORS, key_of
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.lists import COLUMNS, draw_lists
from graph_store.sampling.rule import Rule
from tests.oracles import chi_square

LINKS = "a:r:b"
SIZES = [100_000, pytest.param(10_000_000, marks=pytest.mark.long)]
BOUND, WINDOW = 700_000, 400_000  # of times up to 1,000,000


@pytest.fixture(scope="module", params=SIZES)
def star(request, tmp_path_factory):
    """The adjacency of a node with that many neighbours, the node, and the columns of its list."""
    random, size = np.random.default_rng(1), request.param
    columns = {
        "src": np.zeros(size, np.int64),
        "dst": np.arange(size),
        "weight": random.random(size, np.float32) + np.float32(0.1),
        "time": random.integers(0, 1_000_000, size),
    }
    path = tmp_path_factory.mktemp("star") / "store"
    table = {"table": pa.table(columns), "weight": "weight", "time": "time"}
    graph_store.ingest(Schema.from_tables({LINKS: table}), path, num_shards=2)
    with graph_store.open(path, threads=2) as store:
        adjacency = store.adjacency(LINKS)
        adjacency.check_blocks()
        _, neighbors, weights, times, _ = adjacency.columns(store.nodes("a"))
        yield adjacency, store.nodes("a"), neighbors, weights, times


def draw(star, rule, step=0, *, exclude=None):
    adjacency, nodes, *_ = star
    key = key_of(1, step, NEIGHBORS)
    return draw_lists(adjacency, nodes, rule, key=key, bounds=np.array([BOUND]), exclude=exclude, columns=COLUMNS)


@pytest.mark.parametrize("method", ["uniform", "weighted", "top", "recent"])
def test_edges_of_a_hub_are_in_time_and_have_their_own_columns(star, method):
    _, _, neighbors, weights, times = star
    drawn = draw(star, Rule(50, method=method, window=WINDOW))
    seen = np.flatnonzero((times <= BOUND) & (times >= BOUND - WINDOW))
    assert set(drawn.edge_ids.tolist()) <= set(seen.tolist())
    assert len(set(drawn.edge_ids.tolist())) == 50
    for column, whole in ((drawn.neighbors, neighbors), (drawn.weights, weights), (drawn.times, times)):
        assert np.array_equal(column, whole[drawn.edge_ids])
    if method == "recent":
        assert drawn.edge_ids.tolist() == seen[-50:].tolist()
    if method == "top":
        assert drawn.edge_ids.tolist() == seen[np.argsort(-weights[seen], kind="stable")[:50]].tolist()


@pytest.mark.parametrize("method", ["uniform", "weighted"])
@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("excluded", [False, True])
def test_parts_of_a_hub_are_drawn_as_often_as_they_weigh(star, method, replace, excluded):
    _, nodes, neighbors, weights, times = star
    seen = (times <= BOUND) & (times >= BOUND - WINDOW)
    left_out = neighbors[np.flatnonzero(seen)[: 200 if excluded else 0]]
    exclude = Exclusions(np.repeat(nodes, left_out.size), left_out)
    share = np.where(seen & ~np.isin(neighbors, left_out), weights if method == "weighted" else 1.0, 0.0)
    counts, parts = np.zeros(100), np.arange(share.size) * 100 // share.size
    for step in range(400):
        drawn = draw(star, Rule(40, replace, method, window=WINDOW), step, exclude=exclude)
        assert drawn.neighbors.size == 40
        assert not np.isin(drawn.neighbors, left_out).any()
        counts += np.bincount(parts[drawn.edge_ids], minlength=100)
    expected = np.bincount(parts, share)
    expected *= counts.sum() / expected.sum()
    assert not counts[expected == 0].any()
    there = expected > 10
    # Forty of a hundred thousand are drawn at a time: without replacement is nearly with.
    assert chi_square(counts[there], expected[there]) < 4


def mapping_of(array):
    """Return the mmap that an array lies in."""
    while not isinstance(array, mmap.mmap):
        array = array.obj if isinstance(array, memoryview) else array.base
    return array


@pytest.mark.long
@pytest.mark.parametrize("star", [10_000_000], indirect=True)
@pytest.mark.parametrize("method", ["uniform", "weighted", "top", "recent"])
@pytest.mark.parametrize("excluded", [False, True])
def test_a_draw_from_a_hub_reads_little_of_it(star, method, excluded):
    adjacency, nodes, neighbors, *_ = star
    exclude = Exclusions(np.repeat(nodes, 3), neighbors[[5, 500, 5000]]) if excluded else None
    rule = Rule(10, method=method, window=WINDOW)
    draw(star, rule, exclude=exclude)  # what is made once is made
    mapping_of(adjacency.words).madvise(mmap.MADV_DONTNEED)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    draw(star, rule, 1, exclude=exclude)
    faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
    # The list lies on 25,000 pages, of which a fault brings at most 16: to read it takes 1,500.
    assert faults < 100
