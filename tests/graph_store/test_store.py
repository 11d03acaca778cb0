"""The store that users open: ids in, ids out, against dicts; what it refuses, and how it says so."""

import shutil
import threading

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store import BadInput, CorruptBlock, StoreClosed, StoreNotFound, UnknownEdgeType, UnknownId, UnknownNodeType
from tests.graph_store.stores import BACK, CLICKS, many_rows
from tests.oracles import Twin

LINKS = "page:links:page"


@pytest.fixture(scope="module")
def clicks_rows():
    return many_rows(4000)


@pytest.fixture(scope="module")
def clicks_path(make_store, clicks_rows):
    return make_store(clicks_rows, num_shards=7, reverse=True)


@pytest.fixture
def clicks(clicks_path):
    with graph_store.open(clicks_path) as store:
        yield store


@pytest.fixture(scope="module")
def names_path(make_store):
    """A store of string ids with times: a follows b twice, c, ü, itself; z is only followed."""
    rows = [("a", "c", 1.0, 5), ("a", "b", 2.0, 7), ("a", "b", 3.0, -9), ("a", "ü", 4.0, 7), ("a", "a", 5.0, 6),
            ("c", "z", 6.0, 2**63 - 1), ("c", "z", 7.0, -(2**63))]  # fmt: skip
    return make_store(rows, edge_type=LINKS, id_type="string")


def test_what_a_store_is_made_of(clicks, clicks_path, clicks_rows):
    twin = Twin(clicks_rows)
    assert clicks.path == clicks_path
    assert repr(clicks) == f"GraphStore({str(clicks_path)!r})"
    assert (clicks.num_shards, clicks.version) == (7, 1)
    assert list(clicks.node_types) == ["item", "user"]
    assert [(entry.id_type, entry.count) for entry in clicks.node_types.values()] == [
        ("integer", len(twin.reversed)), ("integer", len(twin.lists)),
    ]  # fmt: skip
    forth, back = clicks.edge_types[CLICKS], clicks.edge_types[BACK]
    assert (forth.src, forth.relation, forth.dst) == ("user", "clicks", "item")
    assert (back.src, back.relation, back.dst) == ("item", "rev_clicks", "user")
    assert (forth.reverse, back.reverse) == (BACK, CLICKS)
    for entry in (forth, back):
        assert (entry.num_edges, entry.num_entries, entry.duplicates) == (twin.num_edges,) * 2 + (twin.duplicates,)
        assert (entry.weighted, entry.timed, entry.undirected) == (True, False, False)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_neighbours_and_degrees_are_answered_in_the_order_asked(clicks_path, clicks_rows, data):
    lists = Twin(clicks_rows).lists
    asked = data.draw(st.lists(st.sampled_from(sorted(lists)), max_size=12))
    limit = data.draw(st.one_of(st.none(), st.integers(0, 600)))
    with graph_store.open(clicks_path) as store:
        found = store.neighbors(asked, CLICKS, limit=limit)
        assert store.degree(asked, CLICKS).tolist() == [len(lists[node]) for node in asked]
    kept = [lists[node][:limit] for node in asked]
    assert found.indptr.tolist() == np.cumsum([0, *map(len, kept)]).tolist()
    assert found.ids.tolist() == [entry[0] for entries in kept for entry in entries]
    assert found.weights.tolist() == [entry[1] for entries in kept for entry in entries]
    assert found.times is None


def test_neighbours_of_a_timed_type_are_in_the_order_of_time(names_path):
    with graph_store.open(names_path) as store:
        found = store.neighbors(["a", "z", "c"])
        assert found.indptr.tolist() == [0, 5, 5, 7]
        assert found.times.tolist() == [-9, 5, 6, 7, 7, -(2**63), 2**63 - 1]
        assert found.ids[[0, 1, 2, 5, 6]].tolist() == ["b", "c", "a", "z", "z"]
        assert dict(zip(found.ids[3:5], found.weights[3:5])) == {"b": 2.0, "ü": 4.0}
        first = store.neighbors(["a", "c"], limit=1)
        assert (first.indptr.tolist(), first.ids.tolist()) == ([0, 1, 2], ["b", "z"])
        assert (first.weights.tolist(), first.times.tolist()) == ([3.0, 7.0], [-9, -(2**63)])


def test_neighbours_of_strings_ascend(make_store):
    rows = [("x", name, None, None) for name in ("b", "ab", "", "日本", "B", "a", "ü") if name]
    with graph_store.open(make_store(rows, edge_type=LINKS, id_type="string")) as store:
        assert store.neighbors(["x"]).ids.tolist() == ["B", "a", "ab", "b", "ü", "日本"]
        assert store.neighbors(["x"], limit=2).ids.tolist() == ["B", "a"]


def test_ids_nodes_and_dense_ranks_agree(clicks, names_path):
    with graph_store.open(names_path) as names:
        for store, node_type in ((clicks, "user"), (clicks, "item"), (names, "page")):
            ids, nodes = store.ids(node_type), store.nodes(node_type)
            base = store.node_base(node_type)
            assert np.array_equal(store.to_nodes(node_type, ids), nodes)
            assert np.array_equal(store.to_ids(node_type, nodes), ids)
            assert np.array_equal(store.dense(node_type, nodes), np.arange(ids.size))
            assert np.array_equal(base[nodes % store.num_shards] + nodes // store.num_shards, np.arange(ids.size))
            assert (base[0], base[-1], base.size) == (0, store.node_types[node_type].count, store.num_shards + 1)
        assert sorted(names.ids("page")) == ["a", "b", "c", "z", "ü"]


def test_adjacency_and_edges_at_agree_with_the_rows(clicks, clicks_rows):
    twin, adjacency = Twin(clicks_rows), clicks.adjacency(CLICKS)
    assert adjacency.num_edges == twin.num_edges
    sources, targets = adjacency.edges_at(np.arange(twin.num_edges))
    assert np.array_equal(clicks.dense("user", sources), np.sort(clicks.dense("user", sources)))
    pairs = zip(clicks.to_ids("user", sources).tolist(), clicks.to_ids("item", targets).tolist())
    assert set(pairs) == {(src, entry[0]) for src, entries in twin.lists.items() for entry in entries}
    assert adjacency.has_edges(sources, targets).all()
    assert clicks.adjacency(BACK).has_edges(targets, sources).all()


def test_to_scipy_is_the_matrix_of_the_rows_in_dense_order(clicks, clicks_rows, names_path):
    users, items = clicks.ids("user").tolist(), clicks.ids("item").tolist()
    row, column = {value: i for i, value in enumerate(users)}, {value: i for i, value in enumerate(items)}
    entries = [(row[src], column[dst], w) for src, found in Twin(clicks_rows).lists.items() for dst, w, _ in found]
    rows, columns, weights = zip(*entries)
    expected = scipy.sparse.coo_array((weights, (rows, columns)), (len(users), len(items)), np.float32).tocsr()
    matrix = clicks.to_scipy(CLICKS)
    assert matrix.dtype == np.float32
    assert matrix.has_sorted_indices
    assert (abs(matrix - expected)).nnz == 0
    assert matrix.nnz == len(entries)
    assert (abs(clicks.to_scipy(BACK) - expected.T)).nnz == 0
    with graph_store.open(names_path) as names:
        place = {name: i for i, name in enumerate(names.ids("page"))}
        # Parallel edges of two times are added up.
        assert names.to_scipy()[place["a"], place["b"]] == 5.0
        assert names.to_scipy().nnz == 5


def test_to_scipy_without_weights_holds_ones(make_store):
    with graph_store.open(make_store([(1, 2, None, None), (1, 3, None, None), (4, 2, None, None)])) as store:
        matrix = store.to_scipy()
        assert matrix.data.tolist() == [1.0, 1.0, 1.0]
        assert matrix.dtype == np.float32


def test_a_sample_is_edges_of_the_store_expanding_each_node_once(clicks, clicks_rows):
    twin = Twin(clicks_rows)
    lists = {CLICKS: twin.lists, BACK: twin.reversed}
    seeds = sorted(twin.lists)[:20]
    fanouts = [5, 3, 2]
    found = clicks.sample(seeds, CLICKS, fanouts=fanouts, seed=7)
    assert found.seeds.tolist() == seeds
    assert found.ids["user"][found.seed_labels].tolist() == seeds
    assert [hop.edge_type for hop in found.hops] == [CLICKS, BACK, CLICKS]
    expanded, fresh = {"user": [], "item": []}, set(seeds)
    for hop, fanout in zip(found.hops, fanouts):
        sources = hop.src_ids[hop.first : hop.first + hop.indptr.size - 1].tolist()
        drawn = [hop.dst[hop.indptr[i] : hop.indptr[i + 1]].tolist() for i in range(len(sources))]
        for source, targets in zip(sources, drawn):
            known = [entry[0] for entry in lists[hop.edge_type][source]]
            assert len(set(targets)) == len(targets) == min(fanout, len(known))
            assert set(targets) <= set(known)
        assert hop.src.tolist() == [source for source, targets in zip(sources, drawn) for _ in targets]
        assert set(sources) == fresh
        expanded[hop.src_type] += sources
        fresh = {target for targets in drawn for target in targets} - set(expanded[hop.dst_type])
    for name, ids in found.ids.items():
        assert len(set(ids.tolist())) == ids.size
        assert np.array_equal(clicks.to_nodes(name, ids), found.nodes[name])


def test_a_sample_depends_on_its_seed_and_not_on_threads_or_seeds_beside(clicks_path):
    def pairs(found, *, of=None):
        return [
            [pair for pair in zip(hop.src.tolist(), hop.dst.tolist()) if of is None or pair[0] in of]
            for hop in found.hops
        ]

    with graph_store.open(clicks_path, threads=1) as one, graph_store.open(clicks_path, threads=3) as three:
        seeds = one.ids("user")
        first = pairs(one.sample(seeds, CLICKS, fanouts=[10, 5], seed=7))
        assert pairs(three.sample(seeds, CLICKS, fanouts=[10, 5], seed=7)) == first
        assert pairs(three.sample(seeds, CLICKS, fanouts=[10, 5], seed=7, threads=2)) == first
        assert pairs(one.sample(seeds, CLICKS, fanouts=[10, 5], seed=8)) != first
        few = seeds[:3].tolist()
        assert pairs(one.sample(few, CLICKS, fanouts=[10], seed=7))[0] == pairs_of_seeds(first[0], few)


def pairs_of_seeds(pairs, seeds):
    return [pair for seed in seeds for pair in pairs if pair[0] == seed]


def test_a_repeated_seed_is_expanded_once_and_minus_one_takes_all(clicks, clicks_rows):
    lists = Twin(clicks_rows).lists
    found = clicks.sample([1003, 5, 1003], CLICKS, fanouts=[-1], seed=0)
    assert found.seeds.tolist() == [1003, 5, 1003]
    assert found.seed_labels.tolist() == [0, 1, 0]
    (hop,) = found.hops
    assert hop.src.tolist() == [1003] * len(lists[1003]) + [5] * len(lists[5])
    assert sorted(hop.dst[: len(lists[1003])].tolist()) == [entry[0] for entry in lists[1003]]


def test_no_seeds_are_no_hops_of_anything(clicks):
    found = clicks.sample([], CLICKS, fanouts=[3, 2], seed=0)
    assert [hop.src.size for hop in found.hops] == [0, 0]
    assert found.seeds.size == 0


def test_a_way_back_needs_a_reverse_type_between_two_node_types(make_store):
    with graph_store.open(make_store([(1, 2, None, None)])) as store:
        assert store.sample([1], fanouts=[1], seed=0).hops[0].dst.tolist() == [2]
        with pytest.raises(BadInput, match="2 hops along user:clicks:item need its reverse"):
            store.sample([1], fanouts=[1, 1], seed=0)
    rows = [(1, 2, None, None), (2, 3, None, None), (3, 1, None, None)]
    with graph_store.open(make_store(rows, edge_type=LINKS)) as store:
        hops = store.sample([1], fanouts=[1, 1, 1, 1], seed=0).hops
        assert [list(zip(hop.src.tolist(), hop.dst.tolist())) for hop in hops] == [[(1, 2)], [(2, 3)], [(3, 1)], []]


@pytest.mark.parametrize("fanouts", [[], [-2], [3, -5]])
def test_impossible_fanouts_are_refused(clicks, fanouts):
    with pytest.raises(BadInput, match="fanouts must be one or more numbers from -1"):
        clicks.sample([5], CLICKS, fanouts=fanouts, seed=0)


def test_unknown_names_and_ids_are_named_with_what_there_is(clicks, clicks_path, names_path):
    for ask in (clicks.degree, clicks.neighbors, lambda ids, kind: clicks.sample(ids, kind, fanouts=[1], seed=0)):
        with pytest.raises(UnknownId, match=r"^no user has the id 424242$"):
            ask([5, 424242], CLICKS)
        with pytest.raises(UnknownEdgeType, match="no edge type 'user:buys:item'; it has user:clicks:item, item:rev"):
            ask([5], "user:buys:item")
        with pytest.raises(UnknownEdgeType, match="it has user:clicks:item"):
            ask([5], None)
    with pytest.raises(UnknownNodeType, match="no node type 'page'; it has item, user"):
        clicks.ids("page")
    with pytest.raises(TypeError, match="ids of user are integers"):
        clicks.degree(["5"], CLICKS)
    with graph_store.open(names_path) as names, pytest.raises(UnknownId, match="no page has the id 'q'"):
        names.degree(["a", "q"])
    # Half a character: what bytes that are not UTF-8 become on a command line.
    with graph_store.open(names_path) as names, pytest.raises(UnknownId, match=r"no page has the id 'a.udcff'"):
        names.degree(["a", "a\udcff"])
    with pytest.raises(ValueError, match="limit must be 0 or more, got -1"):
        clicks.neighbors([5], CLICKS, limit=-1)


def test_a_closed_store_says_so(clicks_path):
    store = graph_store.open(clicks_path)
    adjacency, nodes = store.adjacency(CLICKS), store.nodes("user")
    store.close()
    store.close()
    for ask in (
        lambda: store.degree([5], CLICKS),
        lambda: store.neighbors([5], CLICKS),
        lambda: store.ids("user"),
        lambda: store.adjacency(CLICKS),
        lambda: store.sample([5], CLICKS, fanouts=[1], seed=0),
        lambda: store.to_scipy(CLICKS),
    ):
        with pytest.raises(StoreClosed, match="was closed; open it again"):
            ask()
    # What was handed out lives on.
    assert adjacency.degrees(nodes).sum() == adjacency.num_edges


def test_no_store_is_an_error_that_names_the_path(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none", tmp_path, tmp_path / "file"):
        with pytest.raises(StoreNotFound, match=f"^{path}: no store is here"):
            graph_store.open(path)
        with pytest.raises(StoreNotFound, match="gossamer ingest"):
            graph_store.info(path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"format": 1}', '{"format": 99}', "\udcff"])
def test_a_damaged_manifest_is_an_error_that_names_it(clicks_path, tmp_path, text):
    store = tmp_path / "clicks.store"
    shutil.copytree(clicks_path, store)
    (store / "manifest.json").write_text(text, errors="surrogateescape")
    for ask in (graph_store.open, graph_store.info):
        with pytest.raises(CorruptBlock, match=r"manifest\.json: .*(ingest again|upgrade this one)"):
            ask(store)
    assert len(graph_store.verify(store)) == 1


def test_info_counts_bytes(clicks_path):
    info = graph_store.info(str(clicks_path))
    sizes = [file.stat().st_size for file in clicks_path.rglob("*") if file.is_file()]
    assert info["bytes"] == sum(sizes)
    assert info["arena_bytes"] == sum(file.stat().st_size for file in (clicks_path / "arena").iterdir())
    assert (info["format"], info["num_shards"]) == (2, 7)
    assert info["uuid"] == graph_store.open(clicks_path).uuid


def test_threads_may_ask_one_store_at_once(clicks_path, clicks_rows):
    lists = Twin(clicks_rows).lists
    asked = sorted(lists)
    expected = [entry[0] for node in asked for entry in lists[node]]
    wrong = []
    with graph_store.open(clicks_path) as store:

        def ask():
            for _ in range(5):
                found = store.neighbors(asked, CLICKS)
                if found.ids.tolist() != expected:
                    wrong.append(found)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert wrong == []


def test_an_id_past_all_that_ids_can_be_has_no_edge(tmp_path):
    (tmp_path / "edges.csv").write_text("1,2\n")
    graph_store.ingest(graph_store.Schema.from_edges(tmp_path / "edges.csv", "a:r:b"), tmp_path / "store")
    with graph_store.open(tmp_path / "store") as store:
        found = store.contains([1, 2**63, 1, 1], [2, 2, -(2**70), 3])
        assert found.tolist() == [True, False, False, False]
