"""Batches as torch tensors over the same memory, and as PyG's Data and HeteroData."""

import warnings

import numpy as np
import pytest

import graph_store
from graph_store import BadInput, FeatureType, NegativeSampler, Schema
from tests.graph_store.shop import ALL, BACK, CLICKS, FOLLOWS, LIKES
from tests.graph_store.test_node_loader import WAYS, rich  # noqa: F401

KINDS = {CLICKS: ("user", "clicks", "item"), BACK: ("item", "rev_clicks", "user"), LIKES: ("item", "like", "item")}


torch = pytest.importorskip("torch", reason="torch is not installed (it is in the extra 'torch')")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch_geometric imports what torch calls old
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed (it is in the extra 'torch')")
    from torch_geometric import typing as pyg_typing
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.loader import NeighborLoader
    from torch_geometric.nn import SAGEConv, to_hetero
    from torch_geometric.utils import trim_to_layer

    from graph_store.pyg import pyg_data


def same_memory(array, tensor):
    same = tensor.data_ptr() == array.__array_interface__["data"][0]
    return tensor.numel() == array.size and (same or array.size == 0)


def test_tensors_share_the_memory_of_the_batch(rich):  # noqa: F811
    names = ["vec", "size", "kind", "tags"]
    loader = rich.node_loader(
        WAYS, node_type="user", batch_size=9, disjoint=True, columns=ALL, features={"item": names, CLICKS: ["bid"]}
    )
    batch = next(iter(loader))
    found, tensors = batch.subgraph, graph_store.to_torch(batch)
    pairs = [(found.nodes[kind], tensors.nodes[kind]) for kind in ("user", "item")]
    pairs += [(found.trees[kind], tensors.trees[kind]) for kind in ("user", "item")]
    pairs += [(found.labels_of_seeds["user"], tensors.labels_of_seeds["user"])]
    for hop, own in zip(found.hops, tensors.hops, strict=True):
        assert (hop.edge_type, hop.first, hop.depth, hop.direction) == (
            own.edge_type,
            own.first,
            own.depth,
            own.direction,
        )
        for column in ("indptr", "neighbors", "edge_ids", "weights", "times"):
            if getattr(hop, column) is not None:
                pairs.append((getattr(hop, column), getattr(own, column)))
    for kind, values in batch.features.items():
        for name, value in values.items():
            own = tensors.features[kind][name]
            pairs += [(value.values, own.values), (value.present, own.present)]
            if value.indptr is not None:
                pairs.append((value.indptr, own.indptr))
    assert len(pairs) > 30
    for array, tensor in pairs:
        assert same_memory(array, tensor)
        assert tensor.numpy().dtype == array.dtype


def test_a_link_batch_becomes_tensors(shop):
    links = shop.split_edges(CLICKS, valid=0.1, test=0.1, seed=1).train
    negatives = NegativeSampler.of_type(shop, CLICKS)
    batch = next(iter(shop.link_loader(CLICKS, [2], links, negatives=negatives, num_negatives=3, batch_size=20)))
    tensors = graph_store.to_torch(batch)
    assert tensors.links["src"].tolist() == batch.src.tolist()
    assert tensors.links["negatives"].shape == (20, 3)
    assert "labels" not in tensors.links
    assert same_memory(batch.negatives, tensors.links["negatives"])


# PyG


def full_data(store):
    """The whole of a store as PyG data, nodes by dense rank."""
    data = HeteroData()
    for kind in store.node_types:
        data[kind].num_nodes = store.node_types[kind].count
    for name, kind in KINDS.items():
        nodes = store.nodes(kind[0])
        indptr, neighbors = store.adjacency(name).neighbors(nodes)
        rows = np.repeat(np.arange(nodes.size), np.diff(indptr))
        cols = store.dense(kind[2], neighbors)
        data[kind].edge_index = torch.from_numpy(np.stack([rows, cols]))
    return data


def ends_of(data, kind, to_rank):
    """The edges of a type, sorted, by dense ranks."""
    labels = data[kind].edge_index.numpy()
    ends = (to_rank(end, data[end].n_id.numpy()[own]).tolist() for end, own in zip(kind[::2], labels))
    return sorted(zip(*ends))


@pytest.mark.skipif(
    not (pyg_typing.WITH_PYG_LIB or pyg_typing.WITH_TORCH_SPARSE),
    reason="NeighborLoader's sampler needs pyg-lib or torch-sparse, neither is installed",
)
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.filterwarnings("ignore:Using 'NeighborSampler' without a 'pyg-lib'")
def test_pyg_data_has_what_its_own_loader_gives(shop):
    """With all neighbours taken: the same nodes, the same edges, the same counts a hop."""
    fanouts = {name: [-1, -1] for name in KINDS}
    sampler = shop.neighbor_sampler(fanouts, direction="in", columns=["edge_ids"])
    seeds = shop.nodes("item")[:5]
    ours = graph_store.to_pyg(sampler.sample(seeds, node_type="item", seed=1))
    loader = NeighborLoader(
        full_data(shop),
        {kind: [-1, -1] for kind in KINDS.values()},
        input_nodes=("item", torch.from_numpy(shop.dense("item", seeds))),
        batch_size=5,
        shuffle=False,
    )
    theirs = next(iter(loader))
    for kind in ("user", "item"):
        own = shop.dense(kind, ours[kind].n_id.numpy())
        assert sorted(own) == sorted(theirs[kind].n_id.tolist())
        assert sum(ours[kind].num_sampled_nodes) == own.size
    assert ours["item"].n_id[:5].tolist() == seeds.tolist()
    assert ours["item"].batch_size == theirs["item"].batch_size == 5
    assert ours["item"].input_id.tolist() == theirs["item"].input_id.tolist()
    for name, kind in KINDS.items():
        assert ends_of(ours, kind, shop.dense) == ends_of(theirs, kind, lambda _, ranks: ranks)
        assert sum(ours[kind].num_sampled_edges) == theirs[kind].num_edges
        src, dst = shop.adjacency(name).edges_at(ours[kind].e_id.numpy())
        row, col = ours[kind].edge_index.numpy()
        assert np.array_equal(src, ours[kind[0]].n_id.numpy()[row])
        assert np.array_equal(dst, ours[kind[2]].n_id.numpy()[col])


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = SAGEConv((-1, -1), 4), SAGEConv((-1, -1), 3)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def test_a_hetero_model_gives_seeds_what_it_gives_on_the_whole_graph(rich):  # noqa: F811
    torch.manual_seed(1)
    data = full_data(rich)
    del data[KINDS[LIKES]]
    values = rich.node_features("item").values("vec", rich.nodes("item")).values
    data["item"].x = torch.from_numpy(values)
    data["user"].x = torch.from_numpy(rich.dense("user", rich.nodes("user"))[:, None].astype(np.float32))
    model = to_hetero(Net(), data.metadata())
    with torch.no_grad():
        whole = model(data.x_dict, data.edge_index_dict)
        loader = rich.node_loader(
            {CLICKS: [-1, -1], BACK: [-1, -1]},
            node_type="user",
            direction="in",
            batch_size=7,
            features={"item": ["vec"]},
        )
        seen = 0
        for batch in loader:
            own = graph_store.to_pyg(batch)
            ranks = rich.dense("user", own["user"].n_id.numpy())
            own["user"].x = torch.from_numpy(ranks[:, None].astype(np.float32))
            found = model(own.x_dict, own.edge_index_dict)["user"][: own["user"].batch_size]
            expected = whole["user"][torch.from_numpy(ranks[: own["user"].batch_size])]
            torch.testing.assert_close(found, expected)
            seen += found.shape[0]
        assert seen == 40


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """Five nodes and five edges i → i + 1, each node and edge with a vector of its own: [i, 10], and [i, 20]."""
    import pyarrow as pa

    vectors = {kind: pa.array([[i, kind] for i in range(5)], pa.list_(pa.float32(), 2)) for kind in (10, 20)}
    edges = pa.table({"src": range(5), "dst": [1, 2, 3, 4, 0], "attr": vectors[20], "score": [i / 2 for i in range(5)]})
    nodes = pa.table({"id": range(5), "vec": vectors[10], "score": range(5)})
    schema = Schema.from_tables(
        {"n:to:n": {"table": edges, "features": (FeatureType("attr", "vector", dim=2), FeatureType("score"))}},
        {"n": {"table": nodes, "features": (FeatureType("vec", "vector", dim=2), FeatureType("score"))}},
    )
    path = tmp_path_factory.mktemp("ring") / "store"
    graph_store.ingest(schema, path, num_shards=2)
    with graph_store.open(path) as store:
        yield store


def test_attributes_of_nodes_and_edges_are_not_confused_when_they_are_as_many(ring):
    loader = ring.node_loader(
        [-1], direction="out", batch_size=5, features={"n": ["vec", "score"], "n:to:n": ["attr", "score"]}
    )
    (batch,) = list(loader)
    data = graph_store.to_pyg(batch, y={"n": "score"}, flow="target_to_source")
    assert isinstance(data, Data)
    ids = ring.to_ids("n", data.n_id.numpy())
    assert data.x.tolist() == [[i, 10] for i in ids]
    assert data.y.tolist() == ids.tolist()
    src, dst = (ids[end] for end in data.edge_index.numpy())
    assert ((src + 1) % 5).tolist() == dst.tolist()
    assert data.edge_attr.tolist() == [[i, 20] for i in src]
    assert data.score.tolist() == (src / 2).tolist()
    assert data.num_edges == data.num_nodes == 5
    # Where a name is taken, by nodes here, the feature of edges has another.
    data = graph_store.to_pyg(batch, flow="target_to_source")
    assert data.score.tolist() == ids.tolist()
    assert data.feature_score.tolist() == (src / 2).tolist()


@pytest.mark.parametrize("kind", ["neighbors", "trees", "times"])
def test_one_type_becomes_data_that_layers_can_trim(shop, kind):
    options = {"times": np.arange(30) % 12} if kind == "times" else {"disjoint": kind == "trees"}
    edge_types = [LIKES] if kind != "times" else None
    if kind == "times":
        loader = graph_store.node_loader(
            shop, {CLICKS: [3, 2], BACK: [3, 2]}, node_type="item", direction="in", **options
        )
        data = graph_store.to_pyg(next(iter(loader)))
        assert data["item"].seed_time.tolist() == (data["item"].input_id.numpy() % 12).tolist()
        for name in (CLICKS, BACK):
            ends = KINDS[name]
            trees = data[ends[2]].batch[data[ends].edge_index[1]]
            assert (data[ends[0]].batch[data[ends].edge_index[0]] == trees).all()
        return
    loader = shop.node_loader(
        [3, 2], edge_types=edge_types, direction="in", batch_size=10, columns=["weights"], **options
    )
    for batch in loader:
        data = graph_store.to_pyg(batch)
        assert ("batch" in data) == (kind == "trees")
        assert data.edge_weight.numel() == data.num_edges == sum(data.num_sampled_edges)
        assert sum(data.num_sampled_nodes) == data.num_nodes
        x, index = torch.randn(data.num_nodes, 4), data.edge_index
        conv = SAGEConv(4, 4)
        with torch.no_grad():
            untrimmed = conv(conv(x, index), index)[: data.batch_size]
            for layer in range(2):
                x, index, _ = trim_to_layer(layer, data.num_sampled_nodes, data.num_sampled_edges, x, index)
                x = conv(x, index)
            torch.testing.assert_close(x[: data.batch_size], untrimmed)


def test_a_seed_given_twice_is_one_node_merged_and_two_in_trees(shop):
    seeds = shop.to_nodes("item", [3, 8, 3, 3, 1])
    for disjoint, ids, first in ((False, [3, 8, 1], [0, 1, 4]), (True, [3, 8, 3, 3, 1], [0, 1, 2, 3, 4])):
        sampler = shop.neighbor_sampler([2], edge_types=LIKES, direction="in", disjoint=disjoint)
        data = graph_store.to_pyg(sampler.sample(seeds, seed=1))
        assert data.batch_size == len(ids)
        assert shop.to_ids("item", data.n_id[: data.batch_size].numpy()).tolist() == ids
        assert data.input_id.tolist() == first


def test_links_become_triplets_or_labelled_edges(shop):
    links = shop.split_edges(CLICKS, valid=0.1, test=0.1, seed=1).train
    negatives = NegativeSampler.of_type(shop, CLICKS)
    for many in (1, 3):
        loader = shop.link_loader(
            CLICKS, [2], links, negatives=negatives, num_negatives=many, batch_size=20, direction="in"
        )
        batch = next(iter(loader))
        data = graph_store.to_pyg(batch)
        assert data["user"].src_index.tolist() == batch.src.tolist()
        assert data["item"].dst_pos_index.tolist() == batch.dst.tolist()
        assert data["item"].dst_neg_index.shape == ((20,) if many == 1 else (20, 3))
        assert data[KINDS[CLICKS]].input_id.tolist() == batch.share.examples.tolist()
    batch = next(iter(shop.link_loader(CLICKS, [2], links, labels=np.ones(len(links)), direction="in", batch_size=20)))
    data = graph_store.to_pyg(batch)
    assert data[KINDS[CLICKS]].edge_label_index.tolist() == [batch.src.tolist(), batch.dst.tolist()]
    assert data[KINDS[CLICKS]].edge_label.tolist() == [1.0] * 20
    assert data[KINDS[CLICKS]].edge_label_time.tolist() == batch.times.tolist()


def test_messages_that_would_leave_the_seeds_are_refused(shop):
    found = shop.sample([1, 2], FOLLOWS, fanouts=[2], seed=1)
    with pytest.raises(BadInput, match="would go away from the seeds; sample with direction='in'"):
        graph_store.to_pyg(found)
    assert graph_store.to_pyg(found, flow="target_to_source").num_edges == found.hops[0].neighbors.size
    with pytest.raises(BadInput, match="flow must be one of"):
        graph_store.to_pyg(found, flow="up")
    among = shop.induced_subgraph({"user": [1, 2, 3, 4, 5, 6]}, edge_types=[FOLLOWS])
    assert graph_store.to_pyg(among).num_nodes == 6


def test_a_feature_that_did_not_come_along_is_no_x(rich):  # noqa: F811
    loader = rich.node_loader([2], edge_types=BACK, features={"item": ["size"]}, direction="out")
    with pytest.raises(BadInput, match="x of 'item' is to be 'vec', which did not come along; those that did: size"):
        graph_store.to_pyg(next(iter(loader)), x={"item": "vec"}, flow="target_to_source")


def test_the_node_numbers_of_a_store_behind_pyg_are_others(shop):
    """`n_id` of a batch is the store's node; behind PyG's own loaders it is the dense rank."""
    features, _ = pyg_data(shop)
    assert features.get_tensor(("item", "node", None)).tolist() == shop.nodes("item").tolist()
