"""Published graphs, through ingest and out again: counts and every line."""

import csv
import gzip

import numpy as np
import pytest

import graph_store
from graph_store import Schema
from tests.oracles import Twin, lists_of

CLICKS, BACK, LINKS = "user:clicks:item", "item:rev_clicks:user", "page:links:page"


def lines(path):
    return [list(map(int, line.split())) for line in path.read_text().splitlines() if line.split()]


def ingested(folder, path, edge_type, **options):
    graph_store.ingest(Schema.from_edges(path, edge_type, **options), folder / "store", num_shards=4)
    assert graph_store.verify(folder / "store") == []
    return folder / "store"


@pytest.mark.parametrize(
    ("name", "num_users", "num_items", "num_edges"),
    [("gowalla", 29858, 40981, 810128), ("electronics", 1435, 1522, 31887)],
)
def test_every_line_of_interactions_comes_back(real, tmp_path, name, num_users, num_items, num_edges):
    path = real(f"{name}/train.txt")
    store_path = ingested(tmp_path, path, CLICKS, reverse=True)
    info = graph_store.info(store_path)
    assert info["nodes"] == {"item": num_items, "user": num_users}
    assert info["edges"] == {CLICKS: num_edges, BACK: num_edges}
    assert info["duplicates"] == info["self_loops"] == {CLICKS: 0, BACK: 0}
    words = lines(path)
    with graph_store.open(store_path) as store:
        found = store.neighbors([line[0] for line in words], CLICKS)
        assert np.diff(found.indptr).tolist() == [len(line) - 1 for line in words]
        assert found.ids.tolist() == [item for line in words for item in sorted(line[1:])]
        pairs = sorted((item, line[0]) for line in words for item in line[1:])
        found = store.neighbors(sorted(store.ids("item")), BACK)
        assert found.ids.tolist() == [user for _, user in pairs]
        matrix = store.to_scipy(CLICKS)
        assert (matrix.shape, matrix.nnz, matrix.sum()) == ((num_users, num_items), num_edges, num_edges)


# Of them float64 would change each (the data's page lists them).
ABOVE_FLOAT = [
    10150093035685641, 10150096495755651, 10150101343025475, 10150125867040707,
    10150125874235531, 10150130150045573, 10150136203045543, 10150144130895123,
]  # fmt: skip


def test_edges_between_facebook_ids_come_back_exactly(real, tmp_path):
    with open(real("facebook/facebook_target.csv"), newline="", encoding="utf-8") as text:
        ids = {int(row["id"]): int(row["facebook_id"]) for row in csv.DictReader(text)}
    with open(real("facebook/facebook_edges.csv"), newline="") as text:
        edges = [(ids[int(row["id_1"])], ids[int(row["id_2"])]) for row in csv.DictReader(text)]
    (tmp_path / "edges.csv").write_text("a,b\n" + "".join(f"{src},{dst}\n" for src, dst in edges))
    path = ingested(tmp_path, tmp_path / "edges.csv", LINKS, undirected=True)
    info = graph_store.info(path)
    assert info["nodes"] == {"page": 22470}
    assert (info["edges"], info["self_loops"], info["duplicates"]) == ({LINKS: 171002}, {LINKS: 179}, {LINKS: 0})
    twin = Twin([(src, dst, None, None) for src, dst in edges], undirected=True)
    with graph_store.open(path) as store:
        assert sorted(store.ids("page").tolist()) == sorted(ids.values())
        assert lists_of(store, LINKS) == dict(twin.lists)
        assert [int(float(value)) == value for value in ABOVE_FLOAT] == [False] * 8
        assert store.to_ids("page", store.to_nodes("page", ABOVE_FLOAT)).tolist() == ABOVE_FLOAT
        # Each is among the neighbours of its neighbours, by value.
        for value in ABOVE_FLOAT:
            for neighbor in store.neighbors([value]).ids.tolist():
                assert value in store.neighbors([neighbor]).ids.tolist()


@pytest.mark.parametrize(
    ("name", "num_nodes", "num_rows", "num_pairs", "self_loops"),
    [("chameleon", 2277, 36101, 31421, 50), ("crocodile", 11631, 180020, 170918, 145)],
)
def test_pairs_of_wikipedia_are_counted_once(real, tmp_path, name, num_nodes, num_rows, num_pairs, self_loops):
    path = ingested(tmp_path, real(f"wikipedia/{name}/{name}_edges.csv"), LINKS, undirected=True)
    info = graph_store.info(path)
    assert info["nodes"] == {"page": num_nodes}
    assert info["edges"] == {LINKS: num_pairs}
    assert info["self_loops"] == {LINKS: self_loops}
    assert info["duplicates"] == {LINKS: num_rows - num_pairs}
    with open(real(f"wikipedia/{name}/{name}_edges.csv"), newline="") as text:
        rows = [(int(row[0]), int(row[1]), None, None) for row in list(csv.reader(text))[1:]]
    with graph_store.open(path) as store:
        assert lists_of(store, LINKS) == dict(Twin(rows, undirected=True).lists)
        matrix = store.to_scipy()
        assert (abs(matrix - matrix.T)).nnz == 0
        assert matrix.nnz == 2 * num_pairs - self_loops


@pytest.mark.long
@pytest.mark.parametrize(
    ("name", "num_nodes", "num_rows", "num_distinct"),
    [("CollegeMsg", 1899, 59835, 59798), ("sx-mathoverflow", 24818, 506550, 506523)],
)
def test_timed_messages_are_kept_by_time(real, tmp_path, name, num_nodes, num_rows, num_distinct):
    path = ingested(tmp_path, real(f"temporal/{name}.txt.gz"), "user:writes:user", time=2, reverse=True)
    info = graph_store.info(path)
    assert info["nodes"] == {"user": num_nodes}
    assert set(info["edges"].values()) == {num_distinct}
    assert set(info["duplicates"].values()) == {num_rows - num_distinct}
    with gzip.open(real(f"temporal/{name}.txt.gz"), "rt") as text:
        loops = sum(row[0] == row[1] for row in {tuple(line.split()) for line in text})
    assert set(info["self_loops"].values()) == {loops}
