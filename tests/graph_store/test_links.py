"""Link batches hold none of what is to be predicted, at any hop; and check_leakage finds what does."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.leakage import Leak, check_leakage
from graph_store.sampling.links import LinkSampler
from graph_store.sampling.negatives import NegativeSampler

CLICKS, BACK, LINKS, LINKED = "user:clicks:item", "item:rev_clicks:user", "page:links:page", "page:rev_links:page"
KINDS = {
    "two types": {"edge_type": CLICKS, "reverse": True, "duplicates": "all"},
    "one type": {"edge_type": LINKS, "reverse": True, "duplicates": "all"},
    "undirected": {"edge_type": LINKS, "undirected": True, "duplicates": "all"},
}


@pytest.fixture(scope="module")
def stores(make_store):
    random = np.random.default_rng(0)
    found = {}
    for kind in KINDS:
        rows = [(*ends, None, time) for time, ends in enumerate(random.integers(0, 30, (400, 2)).tolist())]
        found[kind] = graph_store.open(make_store(rows, **KINDS[kind]))
    yield found
    for store in found.values():
        store.close()


def first_type(store):
    return next(iter(store.edge_types.values()))


def drawn_edges(subgraph):
    """(hop, edge type, src, dst, time, label expanded) of every edge, by nodes and with plain loops."""
    for number, hop in enumerate(subgraph.hops, 1):
        for i in range(hop.indptr.size - 1):
            for j in range(hop.indptr[i], hop.indptr[i + 1]):
                expanded, other = hop.first + i, hop.neighbors[j]
                labels = (expanded, other) if hop.direction == "out" else (other, expanded)
                src, dst = subgraph.nodes[hop.src_type][labels[0]], subgraph.nodes[hop.dst_type][labels[1]]
                time = None if hop.times is None else int(hop.times[j])
                yield number, hop.edge_type, int(src), int(dst), time, (hop.expanded_type, expanded)


@settings(max_examples=80, deadline=None)
@given(
    kind=st.sampled_from(list(KINDS)),
    direction=st.sampled_from(["out", "in"]),
    fanout=st.sampled_from([-1, 2, 5]),
    disjoint=st.booleans(),
    temporal=st.booleans(),
    strict=st.booleans(),
    with_held_out=st.booleans(),
    seed=st.integers(0, 999),
)
def test_no_hop_of_a_batch_leaks(stores, kind, direction, fanout, disjoint, temporal, strict, with_held_out, seed):
    store = stores[kind]
    entry, random = first_type(store), np.random.default_rng(seed)
    split = store.split_edges(entry.name, valid=0.1, test=0.2, seed=seed)
    held_out = split.held_out() if with_held_out else None
    sampler = LinkSampler(
        store, entry.name, [fanout, fanout, 2], negatives=NegativeSampler.of_type(store, entry.name), num_negatives=2,
        held_out=held_out, direction=direction, disjoint=disjoint, temporal=temporal, strict=strict and temporal,
        columns=["times"],
    )  # fmt: skip
    links = split.train.take(random.integers(0, len(split.train), 6))
    batch = sampler.sample(links.src, links.dst, times=links.times, seed=seed, step=3, labels=np.arange(6.0))
    subgraph, one_type = batch.subgraph, entry.src == entry.dst
    assert subgraph.nodes[entry.src][batch.src].tolist() == links.src.tolist()
    assert subgraph.nodes[entry.dst][batch.dst].tolist() == links.dst.tolist()
    assert batch.labels.tolist() == list(range(6))
    negatives = subgraph.nodes[entry.dst][batch.negatives]
    assert batch.negatives.shape == (6, 2)
    adjacency = store.adjacency(entry.name)
    if not temporal:
        assert not adjacency.has_edges(np.repeat(links.src, 2), negatives.ravel())[~batch.unmet.ravel()].any()
    targets = set(zip(links.src.tolist(), links.dst.tolist()))
    bad = targets | (set(zip(*(end.tolist() for end in held_out.pairs))) if held_out else set())
    bounds = {}
    if temporal:
        labels = [(entry.src, batch.src, links.times), (entry.dst, batch.dst, links.times)]
        labels += [(entry.dst, batch.negatives[:, k], links.times) for k in (0, 1)]
        for name, own, times in labels:
            bounds |= {(name, int(subgraph.trees[name][label])): time for label, time in zip(own, times) if label >= 0}
    num_edges = 0
    for _, edge_type, src, dst, time, (name, expanded) in drawn_edges(subgraph):
        num_edges += 1
        ends = (src, dst) if edge_type == entry.name else (dst, src)
        assert ends not in bad
        assert not one_type or ends[::-1] not in bad
        if temporal:
            tree = int(subgraph.trees[name][expanded])
            bound = next(bounds[key] for key in ((entry.src, tree), (entry.dst, tree)) if key in bounds)
            assert time < bound + (not strict)
    assert num_edges or fanout >= 0 or temporal
    assert check_leakage(store, batch) == []


def test_the_reverse_of_a_target_is_found_at_hop_two_where_nothing_excluded_it(make_store):
    # User 1 has items 10 and 11, and user 2 has 10: from user 1 over 10 there is a way back along the target's reverse.
    rows = [(1, 10, None, None), (1, 11, None, None), (2, 10, None, None)]
    with graph_store.open(make_store(rows, reverse=True)) as store:
        subgraph = store.sample([1], CLICKS, fanouts=[-1, -1], seed=0)
        assert check_leakage(store, subgraph, CLICKS, src=[1], dst=[10]) == [
            Leak("target", 1, CLICKS, 1, 10, None),
            Leak("reverse", 2, BACK, 10, 1, None),
        ]
        user, item = store.to_nodes("user", [1]), store.to_nodes("item", [10])
        for direction in ("out", "in"):
            batch = LinkSampler(store, CLICKS, [-1, -1, -1], direction=direction).sample(user, item, seed=0)
            assert check_leakage(store, batch) == []
            found = {(name, src, dst) for _, name, src, dst, _, _ in drawn_edges(batch.subgraph)}
            assert len(found) == 4  # both other edges, both ways


def test_each_kind_of_leak_is_named(make_store):
    rows = [(1, 2, None, 5), (1, 2, None, 3), (2, 1, None, 4), (1, 3, None, 6), (3, 1, None, 1), (1, 4, None, 9)]
    with graph_store.open(make_store(rows, edge_type=LINKS, duplicates="all")) as store:
        sampler = store.neighbor_sampler([-1], edge_types=LINKS, columns=["times"])
        subgraph = sampler.sample(store.to_nodes("page", [1, 2, 3]), seed=0)
        held_out = Exclusions(store.to_nodes("page", [1]), store.to_nodes("page", [3]))
        found = check_leakage(store, subgraph, src=[1], dst=[2], times=[5], held_out=held_out, seed_times=[6, 6, 6])
        assert sorted(found) == sorted(
            [
                Leak("target", 1, LINKS, 1, 2, 5),
                Leak("duplicate", 1, LINKS, 1, 2, 3),
                Leak("reverse", 1, LINKS, 2, 1, 4),
                Leak("held_out", 1, LINKS, 1, 3, 6),
                Leak("held_out", 1, LINKS, 3, 1, 1),
                Leak("later", 1, LINKS, 1, 4, 9),
            ]
        )
        strict = check_leakage(store, subgraph, seed_times=[6, 6, 6], strict=True)
        assert [leak[4:] for leak in strict] == [(3, 6), (4, 9)]
        assert check_leakage(store, subgraph) == []


def test_an_edge_later_than_one_of_the_seeds_that_reach_it_is_found(make_store):
    # 1 → 2 → 3 at times 1, 7. Seed 1 is of time 5 and seed 2 of time 9: merged, 2 is expanded for both.
    rows = [(1, 2, None, 1), (2, 3, None, 7)]
    with graph_store.open(make_store(rows, edge_type=LINKS)) as store:
        for seeds, times, late in (([1, 2], [5, 9], 1), ([2], [9], 0), ([1], [9], 0), ([1], [5], 1)):
            sampler = store.neighbor_sampler([-1, -1], edge_types=LINKS, columns=["times"])
            subgraph = sampler.sample(store.to_nodes("page", seeds), seed=0)
            found = check_leakage(store, subgraph, seed_times=times)
            assert [(leak.kind, leak.src, leak.dst) for leak in found] == [("later", 2, 3)] * late
            temporal = store.sample(seeds, LINKS, fanouts=[-1, -1], times=times, columns=["times"], seed=0)
            assert check_leakage(store, temporal, seed_times=times) == []


def test_a_batch_may_be_checked_for_more_than_its_sampler_was_told(stores):
    store = stores["two types"]
    split = store.split_edges(CLICKS, valid=0.3, test=0.3)
    links = split.train.take(np.arange(20))
    batch = LinkSampler(store, CLICKS, [-1, -1]).sample(links.src, links.dst, seed=1)
    assert check_leakage(store, batch) == []
    found = check_leakage(store, batch, held_out=split.held_out())
    assert {leak.kind for leak in found} == {"held_out"}
    assert {leak.edge_type for leak in found} == {CLICKS, BACK}
    held = {pair for part in (split.valid, split.test) for pair in zip(part.src_ids.tolist(), part.dst_ids.tolist())}
    assert {leak[3:5] if leak.edge_type == CLICKS else leak[3:5][::-1] for leak in found} <= held


def around(batch, rows):
    """The edges drawn in the trees of some ends of a batch, by nodes."""
    graph, found = batch.subgraph, []
    roots = {
        int(graph.trees[name][label])
        for name, ends in (("user", batch.src), ("item", batch.dst), ("item", batch.negatives))
        for label in ends[rows].ravel()
        if label >= 0
    }
    for _, name, src, dst, _, (kind, expanded) in drawn_edges(graph):
        if int(graph.trees[kind][expanded]) in roots:
            found.append((name, src, dst))
    return sorted(found)


@pytest.mark.parametrize("method", ["uniform", "in_batch"])
def test_ranks_that_share_a_step_make_the_batch_of_one(stores, method):
    store = stores["two types"]
    negatives = NegativeSampler.of_type(store, CLICKS, method=method)
    sampler = LinkSampler(store, CLICKS, [3, 2], negatives=negatives, disjoint=True)
    links = store.split_edges(CLICKS, seed=2).train.take(np.arange(30))
    positions = np.arange(100, 130)
    whole = sampler.sample(links.src, links.dst, seed=5, step=2, positions=positions)
    for begin, end in ((0, 0), (0, 11), (11, 30)):
        rows = slice(begin, end)
        own = sampler.sample(links.src[rows], links.dst[rows], seed=5, step=2, positions=positions[rows], threads=2,
                             whole=(links.src, links.dst))  # fmt: skip
        expected, found = (
            graph.nodes["item"][labels].tolist()
            for graph, labels in ((whole.subgraph, whole.negatives[rows]), (own.subgraph, own.negatives))
        )
        assert found == expected
        assert around(own, slice(None)) == around(whole, rows)
        assert check_leakage(store, own) == []


def test_in_the_batch_negatives_are_others_targets(stores):
    store = stores["two types"]
    sampler = LinkSampler(
        store, CLICKS, [2], negatives=NegativeSampler.of_type(store, CLICKS, method="in_batch"), num_negatives=4
    )
    links = store.split_edges(CLICKS).train.take(np.arange(12))
    batch = sampler.sample(links.src, links.dst, seed=0)
    found = batch.subgraph.nodes["item"][batch.negatives[~batch.unmet]]
    assert set(found.tolist()) <= set(links.dst.tolist())
    assert not store.adjacency(CLICKS).has_edges(np.repeat(links.src, 4)[~batch.unmet.ravel()], found).any()
    none = np.empty(0, np.int64)
    assert sampler.sample(none, none, seed=0).negatives.shape == (0, 4)


def test_where_a_source_has_every_node_its_negatives_are_marked(make_store):
    rows = [(1, item, None, None) for item in range(4)] + [(2, 0, None, None)]
    with graph_store.open(make_store(rows, reverse=True)) as store:
        sampler = LinkSampler(store, CLICKS, [-1], negatives=NegativeSampler.of_type(store, CLICKS), num_negatives=3)
        batch = sampler.sample(store.to_nodes("user", [1, 2]), store.to_nodes("item", [0, 0]), seed=0)
        assert batch.unmet.tolist() == [[True] * 3, [False] * 3]
        assert batch.negatives[0].tolist() == [-1] * 3
        items = store.to_ids("item", batch.subgraph.nodes["item"][batch.negatives[1]])
        assert set(items.tolist()) <= {1, 2, 3}


def test_negatives_of_a_temporal_batch_have_no_edge_up_to_then(make_store):
    rows = [(1, 10, None, 1), (1, 11, None, 5), (2, 12, None, 2)]
    with graph_store.open(make_store(rows, reverse=True)) as store:
        user, item = store.to_nodes("user", [1] * 60), store.to_nodes("item", [10] * 60)
        negatives = NegativeSampler.of_type(store, CLICKS)
        for time, left in ((1, {11, 12}), (4, {11, 12}), (5, {12})):
            sampler = LinkSampler(store, CLICKS, [-1], negatives=negatives, temporal=True)
            batch = sampler.sample(user, item, times=np.full(60, time), seed=2)
            assert set(store.to_ids("item", batch.subgraph.nodes["item"][batch.negatives.ravel()]).tolist()) == left


def test_what_cannot_be_is_refused_in_a_line(make_store, stores):
    with graph_store.open(make_store([(1, 10, None, 5)])) as store:
        with pytest.raises(BadInput, match="neighbours of 'item' need its reverse type; ingest with --reverse"):
            LinkSampler(store, CLICKS, [2])
        assert LinkSampler(store, CLICKS, [2], edge_types=[CLICKS]).edge_type.name == CLICKS
        subgraph = store.sample([1], fanouts=[1], seed=0)
        with pytest.raises(BadInput, match=r"drawn without their times; sample with columns=\('times',\)"):
            check_leakage(store, subgraph, seed_times=[3])
        with pytest.raises(BadInput, match="as many dst as src are needed, got 1 and 0"):
            check_leakage(store, subgraph, dst=[10])
    store = stores["two types"]
    with pytest.raises(BadInput, match="num_negatives must be 0 or more, got -1"):
        LinkSampler(store, CLICKS, [2], num_negatives=-1)
    with pytest.raises(graph_store.UnknownEdgeType):
        LinkSampler(store, "user:buys:item", [2])
    sampler, one, two = LinkSampler(store, CLICKS, [2]), np.zeros(1, np.int64), np.zeros(2, np.int64)
    for name in ("positions", "times", "labels"):
        with pytest.raises(ValueError, match=f"{name} must be as many as src, got 2 and 1"):
            sampler.sample(one, one, **{name: two}, seed=0)
    with pytest.raises(ValueError, match="dst must be as many as src, got 2 and 1"):
        sampler.sample(one, two, seed=0)
    with pytest.raises(ValueError, match="node 99999 at position 0 is no node of type item"):
        sampler.sample(one, np.array([99999]), seed=0)
    with pytest.raises(ValueError, match="temporal sampling needs the times of the seeds"):
        LinkSampler(store, CLICKS, [2], temporal=True).sample(one, one, seed=0)
