"""A store behind the interfaces of PyTorch Geometric: edge indices, tensors of features, NeighborLoader."""

import subprocess
import sys
import warnings

import numpy as np
import pyarrow as pa
import pytest

import graph_store
from graph_store import BadInput, FeatureType, Schema

torch = pytest.importorskip("torch", reason="torch is not installed (it is in the extra 'torch')")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch_geometric imports what torch calls old
    pytest.importorskip("torch_geometric", reason="torch_geometric is not installed (it is in the extra 'torch')")
    from torch_geometric import typing as pyg_typing
    from torch_geometric.data.graph_store import EdgeLayout
    from torch_geometric.loader import NeighborLoader

    from graph_store.pyg import PygFeatureStore, PygGraphStore, pyg_data

CLICKS, BACK = ("user", "clicks", "item"), ("item", "rev_clicks", "user")
NEAR, FOLLOWS = ("item", "near", "item"), ("user", "follows", "user")
# user, item, weight, time
CLICK_ROWS = [("ann", 1, 1.0, 9), ("ann", 2, 2.0, 8), ("bob", 1, 4.0, 7), ("ann", 1, 8.0, 3)]
NEAR_ROWS = [(1, 2), (3, 3)]
FOLLOW_ROWS = [("ann", "bob", 5), ("cy", "bob", 4), ("bob", "ann", 1)]
PRICES = {1: 0.5, 2: None, 3: 2.0, 4: 3.0}
LABELS = {1: 7, 2: 8, 3: None, 4: 9}
KINDS = {1: "book", 2: "toy", 3: None, 4: "book"}


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    items = pa.table(
        {
            "id": list(PRICES),
            "emb": pa.array([[item, item / 2] for item in PRICES], pa.list_(pa.float32(), 2)),
            "code": pa.array([[0.5 * item] for item in PRICES], pa.list_(pa.float32(), 1)),
            "label": pa.array(list(LABELS.values()), pa.int64()),
            "price": pa.array(list(PRICES.values()), pa.float32()),
            "kind": list(KINDS.values()),
            "title": ["t"] * 4,
        }
    )
    features = (
        FeatureType("emb", "vector", dim=2),
        FeatureType("code", "vector", dtype="int8", dim=1, scale=0.5),
        FeatureType("label", dtype="int64"),
        FeatureType("price"),
        FeatureType("kind", "category"),
        FeatureType("title", "string"),
    )
    clicks = pa.table(dict(zip(("src", "dst", "w", "t"), map(list, zip(*CLICK_ROWS)))))
    clicks = clicks.append_column("bid", pa.array([row[2] * 10 for row in CLICK_ROWS], pa.float32()))
    follows = pa.table(dict(zip(("src", "dst", "t"), map(list, zip(*FOLLOW_ROWS)))))
    schema = Schema.from_tables(
        {
            ":".join(CLICKS): {
                "table": clicks,
                "weight": "w",
                "time": "t",
                "reverse": True,
                "features": (FeatureType("bid"),),
            },
            ":".join(NEAR): {"table": pa.table(dict(zip("ab", map(list, zip(*NEAR_ROWS))))), "undirected": True},
            ":".join(FOLLOWS): {"table": follows, "time": "t"},
        },
        {"item": {"table": items, "features": features}},
        id_types={"user": "string"},
    )
    path = tmp_path_factory.mktemp("pyg") / "shop.store"
    graph_store.ingest(schema, path, num_shards=2)
    return path


@pytest.fixture
def store(path):
    with graph_store.open(path) as store:
        yield store


def named(store, edge_type, row, col):
    """Return (source id, destination id) of an edge index."""
    src, dst = store.ids(edge_type[0]), store.ids(edge_type[2])
    return list(zip(src[row.numpy()].tolist(), dst[col.numpy()].tolist()))


def pairs(rows, *, both=False):
    found = [tuple(row[:2]) for row in rows]
    return sorted(found + [pair[::-1] for pair in found if both and pair[0] != pair[1]])


ALL = {
    CLICKS: pairs(CLICK_ROWS),
    BACK: sorted(pair[::-1] for pair in pairs(CLICK_ROWS)),
    NEAR: pairs(NEAR_ROWS, both=True),
    FOLLOWS: pairs(FOLLOW_ROWS),
}


@pytest.mark.parametrize("edge_type", ALL)
def test_an_edge_index_is_in_the_numbers_of_ids_in_every_layout(store, edge_type):
    edges = PygGraphStore(store)
    row, col = edges.get_edge_index(edge_type, "coo")
    assert row.dtype == col.dtype == torch.int64
    assert sorted(named(store, edge_type, row, col)) == ALL[edge_type]
    rowptr, col = edges.get_edge_index(edge_type, "csr")
    assert rowptr.numel() == store.node_types[edge_type[0]].count + 1
    row = torch.repeat_interleave(torch.arange(rowptr.numel() - 1), rowptr.diff())
    assert sorted(named(store, edge_type, row, col)) == ALL[edge_type]
    row, colptr = edges.get_edge_index(edge_type, "csc")
    assert colptr.numel() == store.node_types[edge_type[2]].count + 1
    col = torch.repeat_interleave(torch.arange(colptr.numel() - 1), colptr.diff())
    assert sorted(named(store, edge_type, row, col)) == ALL[edge_type]


def test_edge_attributes_say_layout_and_size(store):
    attrs = {attr.edge_type: attr for attr in PygGraphStore(store).get_all_edge_attrs()}
    assert set(attrs) == set(ALL)
    assert all(attr.layout == EdgeLayout.CSC and attr.is_sorted for attr in attrs.values())
    assert attrs[CLICKS].size == (3, 4)
    assert attrs[NEAR].size == (4, 4)


def test_pyg_turns_the_layouts_into_each_other(store):
    edges = PygGraphStore(store)
    for edge_type, expected in ALL.items():
        rows, cols, _ = edges.coo([edge_type])
        assert sorted(named(store, edge_type, rows[edge_type], cols[edge_type])) == expected
    pointers, cols, perms = edges.csr()
    row = torch.repeat_interleave(torch.arange(3), pointers[CLICKS].diff())
    assert sorted(named(store, CLICKS, row, cols[CLICKS])) == ALL[CLICKS]
    # The permutation leads from the edges' own order, that of csc, to csr.
    own = PygFeatureStore(store)[CLICKS, "edge_weight", None]
    found = zip(named(store, CLICKS, row, cols[CLICKS]), own[perms[CLICKS]].tolist())
    assert sorted(found) == sorted(((src, dst), weight) for src, dst, weight, _ in CLICK_ROWS)


def test_edges_into_a_node_are_in_order_of_time(store):
    for edge_type, rows in ((CLICKS, CLICK_ROWS), (FOLLOWS, FOLLOW_ROWS)):
        row, colptr = PygGraphStore(store).get_edge_index(edge_type, "csc")
        times = PygFeatureStore(store)[edge_type, "edge_time", None]
        col = torch.repeat_interleave(torch.arange(colptr.numel() - 1), colptr.diff())
        found = list(zip(named(store, edge_type, row, col), times.tolist()))
        assert sorted(found) == sorted(((each[0], each[1]), each[-1]) for each in rows)
        for low, high in zip(colptr[:-1].tolist(), colptr[1:].tolist()):
            assert times[low:high].tolist() == sorted(times[low:high].tolist())


def test_an_edge_type_that_is_not_there_and_changes_are_refused(store):
    edges, features = pyg_data(store)[::-1]
    with pytest.raises(KeyError, match="likes"):
        edges.get_edge_index(("user", "likes", "item"), "coo")
    index = (torch.zeros(1, dtype=torch.int64),) * 2
    for change in (
        lambda: edges.put_edge_index(index, CLICKS, "coo"),
        lambda: edges.remove_edge_index(CLICKS, "coo"),
        lambda: features.put_tensor(torch.zeros(4), "item", "price", None),
        lambda: features.remove_tensor("item", "price", None),
    ):
        with pytest.raises(TypeError, match=r"read only; change the store with graph_store.GraphWriter"):
            change()


def test_x_is_the_first_vector_and_y_the_first_number(store):
    features, ids = PygFeatureStore(store), store.ids("item").tolist()
    assert features["item", "x", None].tolist() == [[item, item / 2] for item in ids]
    assert features["item", "y", None].tolist() == [LABELS[item] or 0 for item in ids]
    assert features["item", "y", None].dtype == torch.int64
    assert features["item", "code", None].tolist() == [[item / 2] for item in ids]
    assert features["item", "price", None].tolist() == [PRICES[item] or 0 for item in ids]
    assert features["item", "kind", None].tolist() == [{"book": 0, "toy": 1, None: -1}[KINDS[item]] for item in ids]
    assert features["user", "node", None].tolist() == store.nodes("user").tolist()


def test_x_and_y_can_be_other_features(store):
    features, ids = PygFeatureStore(store, x={"item": "code"}, y={"item": "kind"}), store.ids("item").tolist()
    assert features["item", "x", None].tolist() == [[item / 2] for item in ids]
    assert features["item", "y", None].tolist() == [{"book": 0, "toy": 1, None: -1}[KINDS[item]] for item in ids]
    with pytest.raises(BadInput, match="item has no feature 'ebm'; did you mean 'emb'"):
        PygFeatureStore(store, x={"item": "ebm"})
    with pytest.raises(BadInput, match="feature 'title' of item is a string and can be no tensor"):
        PygFeatureStore(store, y={"item": "title"})


def test_absent_values_are_zero_and_a_tensor_of_their_own_says_so(store):
    features, ids = PygFeatureStore(store), store.ids("item").tolist()
    assert features["item", "y_present", None].tolist() == [LABELS[item] is not None for item in ids]
    assert features["item", "price_present", None].tolist() == [PRICES[item] is not None for item in ids]
    assert {attr.attr_name for attr in features.get_all_tensor_attrs() if attr.group_name == "item"} == {
        *("node", "x", "y", "code", "price", "kind", "y_present", "price_present")
    }
    assert {attr.attr_name for attr in features.get_all_tensor_attrs() if attr.group_name == "user"} == {"node"}
    assert features.get_tensor_size("item", "x") == (4, 2)
    assert features.get_tensor_size("item", "y") == (4,)
    assert features.get_tensor_size("item", "x", torch.tensor([2, 2])) == (2, 2)
    assert features.get_tensor_size("item", "nothing") is None


def test_rows_are_chosen_by_any_index(store):
    features = PygFeatureStore(store)
    x = features["item", "x", None]
    for index in (
        torch.tensor([3, 0, 0]),
        slice(1, None),
        slice(None, None, 2),
        2,
        torch.tensor([True, False, True, False]),
        torch.empty(0, dtype=torch.int64),
    ):
        assert torch.equal(features.get_tensor("item", "x", index), x[index])
    found = features.multi_get_tensor([features.view("item", "x", torch.tensor([1]))._attr])
    assert torch.equal(found[0], x[[1]])
    with pytest.raises(KeyError, match=r"no tensor 'z' of 'item'; it has .*'x'"):
        features.get_tensor("item", "z", None)
    with pytest.raises(IndexError, match="4 is out of"):
        features.get_tensor("item", "x", torch.tensor([4]))


def test_tensors_of_edges_are_in_the_order_of_csc(store):
    edges, features = PygGraphStore(store), PygFeatureStore(store)
    for edge_type in (CLICKS, BACK):
        row, colptr = edges.get_edge_index(edge_type, "csc")
        col = torch.repeat_interleave(torch.arange(colptr.numel() - 1), colptr.diff())
        weight, time, bid = (features[edge_type, name, None].tolist() for name in ("edge_weight", "edge_time", "bid"))
        found = sorted(zip(named(store, edge_type, row, col), weight, time, bid))
        turned = [(row[:2] if edge_type == CLICKS else row[1::-1], *row[2:]) for row in CLICK_ROWS]
        assert found == sorted((ends, weight, time, 10 * weight) for ends, weight, time in turned)
        assert features[edge_type, "edge_weight", torch.tensor([2])].tolist() == [weight[2]]
    assert {attr.attr_name for attr in features.get_all_tensor_attrs() if attr.group_name == CLICKS} == {
        "edge_weight", "edge_time", "bid",
    }  # fmt: skip


def test_deleted_nodes_have_no_number_and_new_ones_have_no_features(path, tmp_path):
    with graph_store.open(path) as store:
        graph_store.export(store, tmp_path / "out")
    graph_store.ingest(Schema.from_toml(tmp_path / "out" / "schema.toml"), tmp_path / "s.store", num_shards=2)
    with graph_store.GraphWriter(tmp_path / "s.store") as writer:
        writer.delete_nodes("item", [1])
        writer.add_edges("item:near:item", [9], [2])
        writer.set_features("item", [2], {"kind": ["car"]})
    with graph_store.open(tmp_path / "s.store") as store:
        features, edges = pyg_data(store)
        ids = store.ids("item").tolist()
        assert sorted(ids) == [2, 3, 4, 9]
        assert features["item", "x", None].tolist() == [[item, item / 2] if item < 9 else [0, 0] for item in ids]
        assert features["item", "x_present", None].tolist() == [item < 9 for item in ids]
        # The words in order: book, car, toy.
        assert features["item", "kind", None].tolist() == [{2: 1, 3: -1, 4: 0, 9: -1}[item] for item in ids]
        for layout in ("coo", "csc"):
            found = edges.get_edge_index(NEAR, layout)
            assert found[0].numel() == 3
        assert sorted(named(store, NEAR, *edges.get_edge_index(NEAR, "coo"))) == [(2, 9), (3, 3), (9, 2)]
        assert edges.get_edge_index(NEAR, "csr")[0].numel() == 5


def loaded(store, seeds, **options):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*without a 'pyg-lib' installation.*")
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        return list(NeighborLoader(pyg_data(store), input_nodes=seeds, **options))


@pytest.mark.skipif(
    not (pyg_typing.WITH_PYG_LIB or pyg_typing.WITH_TORCH_SPARSE),
    reason="NeighborLoader's sampler needs pyg-lib or torch-sparse, neither is installed",
)
class TestNeighborLoader:
    def test_a_batch_holds_the_neighbourhood_with_its_features(self, store):
        ids = {name: store.ids(name) for name in ("user", "item")}
        seed = int(np.flatnonzero(ids["item"] == 2)[0])
        (batch,) = loaded(store, ("item", torch.tensor([seed])), num_neighbors=[-1, -1], batch_size=1)
        # Into item 2 come ann by a click and item 1 by near; into these item 1 and item 2, and bob and ann.
        items, users = ids["item"][batch["item"].n_id.numpy()], ids["user"][batch["user"].n_id.numpy()]
        assert items[0] == 2
        assert sorted(items.tolist()) == [1, 2]
        assert sorted(users.tolist()) == ["ann", "bob"]
        assert batch["item"].x.tolist() == [[item, item / 2] for item in items.tolist()]
        assert batch["item"].y.tolist() == [LABELS[item] for item in items.tolist()]
        assert store.to_ids("user", batch["user"].node.numpy()).tolist() == users.tolist()
        row, col = batch[CLICKS].edge_index
        found = sorted(zip(users[row.numpy()].tolist(), items[col.numpy()].tolist()))
        assert found == [("ann", 1), ("ann", 1), ("ann", 2), ("bob", 1)]
        weights = PygFeatureStore(store)[CLICKS, "edge_weight", batch[CLICKS].e_id]
        assert sorted(weights.tolist()) == [1, 2, 4, 8]

    def test_every_node_is_a_seed_once(self, store):
        batches = loaded(store, "user", num_neighbors=[2], batch_size=2)
        seeds = [batch["user"].n_id[: batch["user"].batch_size].tolist() for batch in batches]
        assert [len(each) for each in seeds] == [2, 1]
        assert sorted(seeds[0] + seeds[1]) == [0, 1, 2]

    def test_workers_read_the_same_store(self, store):
        alone = loaded(store, "item", num_neighbors=[-1], batch_size=1)
        helped = loaded(store, "item", num_neighbors=[-1], batch_size=1, num_workers=2)
        for one, other in zip(alone, helped, strict=True):
            assert torch.equal(one["item"].x, other["item"].x)
            assert torch.equal(one[CLICKS].edge_index, other[CLICKS].edge_index)


def test_without_torch_geometric_the_error_says_how_to_get_it():
    code = (
        "import sys; sys.modules['torch_geometric'] = None\n"
        "try:\n    import graph_store.pyg\nexcept ImportError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == (
        "graph_store.pyg needs torch and torch_geometric, which are not installed: pip install 'gossamer[torch]'\n"
    )
