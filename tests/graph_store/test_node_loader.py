"""Loaders of neighbourhoods and links: each seed once, the batches of one rank on any ranks, and their features."""

import hashlib

import numpy as np
import pyarrow as pa
import pytest

import graph_store
from graph_store import BadInput, FeatureType, GraphWriter, NegativeSampler, Schema, UnknownNodeType
from graph_store.sampling.edge_part import Edges
from tests.graph_store.shop import ALL, BACK, CLICKS, FOLLOWS, LIKES, check_edge_ids, digest, tables

ITEMS = 30
WAYS = {CLICKS: [4, 2], BACK: [4, 2]}


def feature_tables():
    """Item i has the vector [i, 2 i], the size i (absent of every third), words and tags; a click has a bid."""
    items = list(range(ITEMS))
    table = pa.table(
        {
            "id": items,
            "vec": pa.array([[i, 2 * i] for i in items], pa.list_(pa.float32(), 2)),
            "size": pa.array([None if i % 3 == 0 else i for i in items], pa.int32()),
            "kind": [None if i == 4 else f"w{i % 4}" for i in items],
            "tags": pa.array([[i] * (i % 3) for i in items], pa.list_(pa.int64())),
            "name": [f"item {i}" for i in items],
        }
    )
    features = (
        FeatureType("vec", "vector", dim=2),
        FeatureType("size", dtype="int32"),
        FeatureType("kind", "category"),
        FeatureType("tags", "ids"),
        FeatureType("name", "string"),
    )
    given = tables()
    clicks = given[CLICKS]["table"]
    bids = clicks["src"].to_numpy() * 1000 + clicks["dst"].to_numpy()
    given[CLICKS]["table"] = clicks.append_column("bid", pa.array(bids.astype(np.float64)))
    given[CLICKS]["features"] = (FeatureType("bid", dtype="float64"),)
    return Schema.from_tables(given, {"item": {"table": table, "features": features}})


@pytest.fixture(scope="module")
def rich(tmp_path_factory):
    path = tmp_path_factory.mktemp("rich") / "shop.store"
    graph_store.ingest(feature_tables(), path, num_shards=3)
    with graph_store.open(path) as store:
        yield store


def test_every_node_is_a_seed_once_an_epoch_in_another_order(shop):
    loader = shop.node_loader(WAYS, node_type="user", batch_size=7, seed=3)
    epochs = []
    for _ in range(2):
        batches = list(loader)
        assert [batch.subgraph.seed_labels.size for batch in batches] == [7, 7, 7, 7, 7, 5]
        epochs.append(np.concatenate([batch.subgraph.nodes["user"][batch.subgraph.seed_labels] for batch in batches]))
        assert sorted(epochs[-1]) == sorted(shop.nodes("user"))
    assert epochs[0].tolist() != epochs[1].tolist()


def test_draws_differ_between_epochs_though_the_order_is_the_same(shop):
    loader = shop.node_loader([2], edge_types=CLICKS, batch_size=40, shuffle=False)
    (first,), (second,) = list(loader), list(loader)
    assert first.subgraph.seeds.tolist() == second.subgraph.seeds.tolist()
    assert digest(first.subgraph) != digest(second.subgraph)


def test_nodes_of_all_ids_are_found_without_a_list_of_them(shop):
    loader = shop.node_loader([1], edge_types=CLICKS, batch_size=11, shuffle=False)
    found = np.concatenate([batch.subgraph.nodes["user"][batch.subgraph.seed_labels] for batch in loader])
    assert found.tolist() == shop.nodes("user").tolist()


def test_deleted_nodes_are_no_seeds(tmp_path):
    graph_store.ingest(Schema.from_tables(tables()), tmp_path / "store", num_shards=2)
    with GraphWriter(tmp_path / "store") as writer:
        writer.delete_nodes("user", [3, 7])
    with graph_store.open(tmp_path / "store") as store:
        loader = store.node_loader([1], edge_types=CLICKS, batch_size=8)
        seeds = np.concatenate([batch.subgraph.seeds for batch in loader])
    assert sorted(seeds) == sorted({*range(40)} - {3, 7})


def test_a_loader_stays_with_the_version_it_was_made_of(tmp_path):
    graph_store.ingest(feature_tables(), tmp_path / "store", num_shards=2)
    with graph_store.open(tmp_path / "store") as store:
        loader = store.node_loader(WAYS, node_type="item", batch_size=8, features={"item": ["size"]}, threads=2)
        before = [(digest(batch.subgraph), batch.features["item"]["size"].values.tolist()) for batch in loader]
        with GraphWriter(tmp_path / "store") as writer:
            writer.delete_nodes("item", [5])
            writer.set_features("item", [6], {"size": [600]})
        store.refresh()
        loader.epoch = 0
        assert [(digest(b.subgraph), b.features["item"]["size"].values.tolist()) for b in loader] == before


# Features


def test_features_are_those_of_the_labels(rich):
    names = ["vec", "size", "kind", "tags"]
    for batch in rich.node_loader(WAYS, node_type="item", batch_size=4, features={"item": names, "user": []}):
        ids, found = batch.subgraph.ids["item"], batch.features["item"]
        assert found["vec"].values.tolist() == [[i, 2 * i] for i in ids]
        assert found["size"].present.tolist() == [i % 3 != 0 for i in ids]
        assert found["size"].values.tolist() == [0 if i % 3 == 0 else i for i in ids]
        assert found["kind"].values.tolist() == [-1 if i == 4 else i % 4 for i in ids]
        assert np.diff(found["tags"].indptr).tolist() == [i % 3 for i in ids]
        assert found["tags"].values.tolist() == [i for i in ids for _ in range(i % 3)]
        assert batch.features["user"] == {}
    assert rich.node_features("item").words("kind") == ["w0", "w1", "w2", "w3"]


def test_features_of_edges_are_in_the_order_of_the_edges(rich):
    edges = 0
    for batch in rich.node_loader(WAYS, node_type="user", batch_size=9, features={CLICKS: ["bid"], BACK: ["bid"]}):
        for kind in (CLICKS, BACK):
            src, dst = batch.subgraph.edge_index(kind)
            ends = kind.split(":")
            src, dst = batch.subgraph.ids[ends[0]][src], batch.subgraph.ids[ends[2]][dst]
            users, items = (src, dst) if kind == CLICKS else (dst, src)
            assert batch.features[kind]["bid"].values.tolist() == (users * 1000 + items).tolist()
            edges += src.size
    assert edges > 200


def test_words_that_came_later_have_their_place(tmp_path):
    graph_store.ingest(feature_tables(), tmp_path / "store", num_shards=2)
    with GraphWriter(tmp_path / "store") as writer:
        writer.set_features("item", [7, 8], {"kind": ["a new one", "w3"]})
    with graph_store.open(tmp_path / "store") as store:
        loader = store.node_loader([1], edge_types=BACK, batch_size=30, features={"item": ["kind"]})
        (batch,) = list(loader)
        words = store.node_features("item").words("kind")
    assert words == ["a new one", "w0", "w1", "w2", "w3"]
    found = dict(zip(batch.subgraph.ids["item"].tolist(), batch.features["item"]["kind"].values.tolist()))
    assert [found[item] for item in (7, 8, 4, 9)] == [0, 4, -1, 2]


@pytest.mark.parametrize(
    ("options", "error", "said"),
    [
        ({"features": {"thing": ["x"]}}, BadInput, "features are asked of 'thing'; the store has"),
        ({"features": {"item": ["vex"]}}, BadInput, "no feature 'vex'"),
        ({"node_type": "thing"}, UnknownNodeType, "no node type 'thing'"),
        ({"times": [1, 2]}, ValueError, "times must be as many as the 40 nodes, got 2"),
        ({"nodes": [10**9]}, ValueError, "is no node of type user"),
        ({"batch_size": 0}, BadInput, "batch_size must be at least 1"),
        ({"columns": "edge_id"}, BadInput, "columns may be edge_ids, weights, times, got edge_id"),
        ({"batch_size": 2.5}, BadInput, "batch_size must be an integer, got 2.5"),
        ({"seed": "a"}, BadInput, "seed must be an integer, got 'a'"),
        ({"threads": True}, BadInput, "threads must be an integer, got True"),
        ({"features": ["item"]}, BadInput, "features must be names by node type or edge type"),
        ({"temporal": True}, BadInput, "temporal sampling needs the times of the seeds; give times"),
        ({"times": [0.5] * 40}, TypeError, "times must be integers"),
        ({"rank": 2, "size": 2}, BadInput, "rank must be in"),
    ],
)
def test_wrong_arguments_are_refused_at_once(rich, options, error, said):
    with pytest.raises(error, match=said):
        graph_store.node_loader(rich, [2], **{"edge_types": CLICKS} | options)


@pytest.mark.parametrize(
    ("links", "error", "said"),
    [
        (None, TypeError, "links must be an EdgePart or Edges"),
        (Edges([1, 2], [1], None), ValueError, "links.dst must be as many as links.src, got 1 and 2"),
        (Edges([1, 2], [1, 2], [3]), ValueError, "links.times must be as many as links.src, got 1 and 2"),
        (Edges([1.5], [1], None), TypeError, "links.src must be integers"),
    ],
)
def test_links_that_are_none_are_refused_at_once(shop, links, error, said):
    with pytest.raises(error, match=said):
        shop.link_loader(FOLLOWS, [2], links, edge_types=[FOLLOWS])
    assert len(list(shop.link_loader(FOLLOWS, [2], Edges([1], [2], None), edge_types=[FOLLOWS]))) == 1


@pytest.mark.parametrize("fanout", [2.5, True, "2", None])
def test_a_fanout_that_is_no_integer_is_refused(shop, fanout):
    for fanouts in ([fanout], {CLICKS: [fanout]}):
        with pytest.raises(BadInput, match="fanout must be an integer, got"):
            shop.neighbor_sampler(fanouts, **({} if isinstance(fanouts, dict) else {"edge_types": CLICKS}))


def test_one_name_may_be_given_alone(rich):
    batch = next(iter(rich.node_loader([2], edge_types=BACK, columns="times", features={"item": "vec"})))
    assert batch.subgraph.hops[0].times is not None
    assert batch.features["item"]["vec"].values.shape[1] == 2


def test_a_feature_of_strings_is_refused(rich):
    with pytest.raises(BadInput, match="is of strings, which are no numbers"):
        rich.node_loader([2], edge_types=BACK, features={"item": ["name"]})


# Ranks, threads, resume


def tree_rows(subgraph, tree):
    rows = [subgraph.num_sampled_nodes.keys()]
    for hop in subgraph.hops:
        own = subgraph.trees[hop.expanded_type][hop.expanded_labels] == tree
        rows.append(list(zip(hop.src[own].tolist(), hop.dst[own].tolist())))
        rows += [column[own].tolist() for column in (hop.edge_ids, hop.weights, hop.times) if column is not None]
    return repr(rows)


def node_hashes(store, size, threads, temporal):
    """Return by step the hash of the trees of all ranks' shares together."""
    options = {"times": np.arange(40) % 12, "method": {CLICKS: "weighted"}} if temporal else {"disjoint": True}
    hashes = {}
    loaders = [
        graph_store.node_loader(
            store, WAYS, batch_size=9, seed=5, rank=rank, size=size, threads=threads, columns=ALL, **options
        )
        for rank in range(size)
    ]
    for step, shares in enumerate(zip(*loaders)):
        seeds = [seed for batch in shares for seed in batch.subgraph.seeds.tolist()]
        trees = [tree_rows(b.subgraph, tree) for b in shares for tree in range(b.subgraph.seed_labels.size)]
        hashes[step] = hashlib.sha256(repr((seeds, trees)).encode()).hexdigest()
    assert len(set(hashes.values())) == 5
    return hashes


@pytest.mark.parametrize("temporal", [False, True])
def test_the_shares_of_any_number_of_ranks_are_the_same_trees(shop, temporal):
    expected = node_hashes(shop, 1, 0, temporal)
    for size, threads in ((2, 1), (3, 2), (4, 0)):
        assert node_hashes(shop, size, threads, temporal) == expected


def link_hashes(store, size, threads):
    entry = store.edge_types[CLICKS]
    split = store.split_edges(CLICKS, valid=0.1, test=0.1, seed=2)
    negatives = NegativeSampler.of_type(store, CLICKS, method="in_batch")
    loaders = [
        store.link_loader(
            CLICKS, [3, 2], split.train, negatives=negatives, num_negatives=2, held_out=split.held_out(), batch_size=50,
            disjoint=True, rank=rank, size=size, threads=threads, seed=5, columns=["times"],
        )
        for rank in range(size)
    ]  # fmt: skip
    found = []
    for shares in zip(*loaders):
        rows = []
        for batch in shares:
            ids = batch.subgraph.ids
            negative = np.where(batch.negatives >= 0, ids[entry.dst][batch.negatives], -1)
            rows += zip(ids[entry.src][batch.src].tolist(), ids[entry.dst][batch.dst].tolist(), negative.tolist())
            assert graph_store.check_leakage(store, batch) == []
        found.append(rows)
    return found


def test_the_links_and_negatives_of_a_step_are_the_same_on_any_number_of_ranks(shop):
    expected = link_hashes(shop, 1, 0)
    positives = sum(len(rows) for rows in expected)
    assert positives == len(shop.split_edges(CLICKS, valid=0.1, test=0.1, seed=2).train)
    for size, threads in ((2, 0), (3, 1), (4, 2)):
        assert link_hashes(shop, size, threads) == expected


@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("depth", [1, 5])
def test_merged_batches_do_not_depend_on_threads_or_depth(shop, threads, depth):
    def hashes(**options):
        loader = shop.node_loader({**WAYS, LIKES: [2, 2]}, node_type="user", batch_size=6, columns=ALL, **options)
        return [digest(batch.subgraph) for _ in range(2) for batch in loader]

    expected = hashes(threads=0)
    assert len(set(expected)) == 14
    assert hashes(threads=threads, depth=depth) == expected


def test_a_loader_goes_on_where_another_stopped(shop):
    def make(**options):
        return shop.node_loader(WAYS, node_type="user", batch_size=6, columns=ALL, **options)

    whole = [digest(batch.subgraph) for batch in make()]
    first = make(threads=2, depth=3)
    begun = [digest(batch.subgraph) for batch, _ in zip(first, range(3))]
    other = make(threads=0)
    state = first.state_dict()
    other.load_state_dict({**state, "step": 3})
    assert begun + [digest(batch.subgraph) for batch in other] == whole
    with pytest.raises(BadInput, match="whose seed is 0, this one's is 1"):
        make(seed=1).load_state_dict(state)
    with pytest.raises(BadInput, match="whose shuffle is 1, this one's is False"):
        make(shuffle=False).load_state_dict(state)


def test_a_rank_with_fewer_seeds_than_steps_has_empty_batches(rich):
    batches = [
        list(
            rich.node_loader(
                WAYS, [1, 2, 3], node_type="user", batch_size=2, rank=rank, size=4, shuffle=False,
                features={"item": ["vec"], CLICKS: ["bid"]},
            )
        )
        for rank in range(4)
    ]  # fmt: skip
    assert {len(own) for own in batches} == {2}
    empty = batches[0][0]
    assert empty.subgraph.seed_labels.size == 0
    assert empty.features["item"]["vec"].values.shape == (0, 2)
    assert empty.features[CLICKS]["bid"].values.size == 0
    seen = [seed for step in range(2) for own in batches for seed in own[step].subgraph.seeds.tolist()]
    assert seen == [1, 2, 3]


def test_a_batch_of_links_comes_with_times_labels_and_features(rich):
    links = rich.split_edges(CLICKS, valid=0.2, test=0.2, seed=1).train
    loader = rich.link_loader(
        CLICKS, [3, 2], links, labels=np.arange(len(links)) * 2, temporal=True, columns=["times"], batch_size=32,
        features={"item": ["vec"]}, negatives=NegativeSampler.of_type(rich, CLICKS), num_negatives=1,
    )  # fmt: skip
    seen = []
    for batch in loader:
        assert graph_store.check_leakage(rich, batch) == []
        examples = batch.share.examples
        assert batch.labels.tolist() == (2 * examples).tolist()
        assert batch.times.tolist() == links.take(examples).times.tolist()
        assert batch.features["item"]["vec"].values[:, 0].tolist() == batch.subgraph.ids["item"].tolist()
        seen += examples.tolist()
    assert sorted(seen) == list(range(len(links)))


def test_links_can_be_given_as_edges(shop):
    edges = Edges(shop.to_nodes("user", [1, 2, 3]), shop.to_nodes("user", [4, 5, 6]), None)
    (batch,) = list(shop.link_loader(FOLLOWS, [2], edges, edge_types=[FOLLOWS], shuffle=False))
    assert batch.subgraph.ids["user"][batch.dst].tolist() == [4, 5, 6]
    with pytest.raises(BadInput, match="needs the times of the links"):
        shop.link_loader(CLICKS, [2], edges, temporal=True)
    with pytest.raises(ValueError, match="labels must be as many as the 3 links"):
        shop.link_loader(FOLLOWS, [2], edges, labels=[1], edge_types=[FOLLOWS])


def test_edge_ids_of_loaded_batches_name_their_edges(shop):
    for batch in shop.node_loader(WAYS, node_type="item", batch_size=10, columns=ALL):
        check_edge_ids(shop, batch.subgraph)
