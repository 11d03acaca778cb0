"""Published graphs by the schemas of examples/: the counts of their publishers, and every value back unchanged."""

import csv
import gzip
import json
import tarfile
import zipfile
from collections import Counter, defaultdict

import numpy as np
import pytest
import scipy.sparse

import graph_store
from graph_store import BadInput
from tests.graph_store.published import Published, assert_same_rows, edges_of


@pytest.fixture(scope="session")
def published(tmp_path_factory, real):
    """Return the published data sets, or skip the test where they are absent."""
    return Published(tmp_path_factory.mktemp("published"), real("README.md").parent.resolve())


def numbers(path, delimiter=None):
    """Return int64[n, columns] of a text file without a header."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            data = archive.read(archive.namelist()[0])
    else:
        data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return np.array(data.replace(b",", b" ").split(), np.int64).reshape(data.count(b"\n") + (data[-1:] != b"\n"), -1)


def sequences(path):
    """Return the lines of a file of adjacency text."""
    return [list(map(int, line.split())) for line in path.read_text().splitlines() if line.split()]


def table(path):
    """Return the rows of a CSV file with a header."""
    with open(path, newline="", encoding="utf-8") as text:
        return list(csv.DictReader(text))


def lists_of(values):
    """Return the list of each node, of a feature of ids."""
    return [part.tolist() for part in np.split(values.values, values.indptr[1:-1])]


# Rows, nodes, nodes without self loops, ordered pairs with and without self loops, rows that are self loops, rows that
# repeat (src, dst, time).
TEMPORAL = {
    "temporal-collegemsg": ("CollegeMsg.txt.gz", 59835, 1899, 1899, 20296, 20296, 0, 37),
    "temporal-mathoverflow": ("sx-mathoverflow.txt.gz", 506550, 24818, 24759, 239978, 227991, 116109, 27),
    "temporal-lh10": ("tij_pres_LH10.txt.zip", 150126, 73, 73, 1381, 1381, 0, 0),
}


@pytest.fixture(params=TEMPORAL)
def temporal(request, real):
    """Return the name of a schema, the rows of its file, and its counts."""
    file, *counts = TEMPORAL[request.param]
    return request.param, numbers(real(f"temporal/{file}")), counts


def only(counts):
    """Return the one count of a dict: a type and its reverse have the same."""
    assert len(set(counts.values())) == 1
    return next(iter(counts.values()))


def test_every_row_of_a_temporal_graph_comes_back(published, temporal):
    name, rows, (num_rows, num_nodes, *_, num_loops, _) = temporal
    report = published.report(name, duplicates="all", self_loops="keep")
    assert (report.rows, only(report.info["edges"]), only(report.info["duplicates"])) == (num_rows, num_rows, 0)
    assert report.info["nodes"] == {next(iter(report.info["nodes"])): num_nodes}
    assert only(report.info["self_loops"]) == num_loops
    assert only(report.info["time_units"]) == "s"
    with graph_store.open(published.path(name, duplicates="all", self_loops="keep")) as store:
        edge_type = next(iter(store.edge_types))
        src, dst, time = edges_of(store, edge_type)
        if store.edge_types[edge_type].undirected:
            src, dst, rows = np.minimum(src, dst), np.maximum(src, dst), rows.copy()
            rows[:, :2] = np.sort(rows[:, :2], axis=1)
        assert_same_rows((src, dst, time), rows.T)
        found = store.neighbors(rows[:100, 0], edge_type)
        for low, high in zip(found.indptr[:-1], found.indptr[1:]):
            assert (np.diff(found.times[low:high]) >= 0).all()


def test_rows_with_the_same_ends_and_time_count_once(published, temporal):
    name, rows, (num_rows, *_, num_repeated) = temporal
    report = published.report(name, duplicates="first", self_loops="keep")
    assert only(report.info["edges"]) == num_rows - num_repeated == len(np.unique(rows, axis=0))
    assert only(report.info["duplicates"]) == num_repeated
    if num_repeated:
        with pytest.raises(BadInput, match="duplicate"):
            graph_store.ingest(published.schema(name, duplicates="error"), published.folder / "no.store")


def test_ordered_pairs_are_counted_without_times(published, temporal):
    name, _, (num_rows, num_nodes, _, num_pairs, _, *_) = temporal
    untimed = {"source": {"time": None}, "time_unit": None, "duplicates": "first"}
    info = published.report(name, self_loops="keep", **untimed).info
    assert (only(info["edges"]), only(info["duplicates"])) == (num_pairs, num_rows - num_pairs)
    assert info["nodes"] == {next(iter(info["nodes"])): num_nodes}


def test_pairs_of_different_nodes_are_counted_when_self_loops_are_dropped(published, temporal):
    name, _, (_, _, num_nodes, _, num_pairs, num_loops, _) = temporal
    options = {"source": {"time": None}, "time_unit": None, "duplicates": "first", "self_loops": "drop"}
    info = published.report(name, **options).info
    assert (only(info["edges"]), only(info["self_loops"])) == (num_pairs, 0)
    assert num_loops == sum(counts.get("self_loops", 0) for counts in info["left_out"].values())
    # Who is at both ends of every row of theirs is in none that is left.
    assert info["nodes"] == {next(iter(info["nodes"])): num_nodes}
    with graph_store.open(published.path(name, **options)) as store:
        src, dst = edges_of(store, next(iter(store.edge_types)))
        assert not (src == dst).any()
        assert np.union1d(src, dst).size == num_nodes


def test_questions_are_not_in_order_of_time_and_some_users_answer_themselves(published, real):
    rows = numbers(real("temporal/sx-mathoverflow.txt.gz"))
    assert np.count_nonzero(np.diff(rows[:, 2]) < 0) == 629
    assert np.unique(rows[rows[:, 0] == rows[:, 1], 0]).size == 11987
    with pytest.raises(BadInput, match="self_loops"):
        graph_store.ingest(published.schema("temporal-mathoverflow", self_loops="error"), published.folder / "no.store")
    assert not (published.folder / "no.store").exists()


@pytest.mark.parametrize(("self_loops", "num_edges"), [("keep", 171002), ("drop", 170823)])
def test_facebook_pages_are_counted_with_and_without_self_loops(published, self_loops, num_edges):
    info = published.report("facebook", self_loops=self_loops).info
    assert info["nodes"] == {"page": 22470}
    assert only(info["edges"]) == num_edges
    assert only(info["duplicates"]) == 0
    assert only(info["self_loops"]) == (179 if self_loops == "keep" else 0)


def test_facebook_names_kinds_and_ids_come_back_byte_for_byte(published, real):
    rows = table(real("facebook/facebook_target.csv"))
    names = [row["page_name"] for row in rows]
    commas = [name for name in names if "," in name]
    assert (sum(not name.isascii() for name in names), len(commas)) == (3903, 840)
    assert (sum('"' in name for name in names), sum(name != name.rstrip() for name in names)) == (22, 2)
    with graph_store.open(published.path("facebook", self_loops="keep")) as store:
        assert sorted(store.ids("page").tolist()) == list(range(22470))
        found = store.features(range(22470), "page")
        assert [name.encode() for name in found["page_name"].values] == [name.encode() for name in names]
        assert found["page_type"].values.tolist() == [row["page_type"] for row in rows]
        assert found["facebook_id"].values.dtype == np.int64
        ids = found["facebook_id"].values.tolist()
        assert ids == [int(row["facebook_id"]) for row in rows]
        assert (sum(value > 2**53 for value in ids), sum(int(float(value)) != value for value in ids)) == (17, 8)
        assert all(values.present.all() for values in found.values())
        # In any order, and again.
        assert store.features([7, 0, 7], "page", ["page_name"])["page_name"].values.tolist() == [
            names[7],
            names[0],
            names[7],
        ]


def test_facebook_pages_have_the_degrees_of_their_file_both_ways(published, real):
    rows = [(int(row["id_1"]), int(row["id_2"])) for row in table(real("facebook/facebook_edges.csv"))]
    degrees = Counter(src for src, _ in rows) + Counter(dst for src, dst in rows if src != dst)
    src, dst = np.array(rows).T
    with graph_store.open(published.path("facebook", self_loops="keep")) as store:
        assert store.degree(range(22470)).tolist() == [degrees[node] for node in range(22470)]
        assert store.contains(src, dst).all()
        assert store.contains(dst, src).all()
        assert not store.contains([0, 0], [0, 99999]).any()
        assert_same_rows(np.sort(edges_of(store), axis=0), np.sort([src, dst], axis=0))


TRIPLES = {"train": (272115, 14505, 237), "valid": (17535, None, None), "test": (20466, None, None)}


@pytest.fixture(scope="session")
def triples(real):
    """Return the (head, relation, tail) of a part of FB15k-237."""
    with tarfile.open(real("fb15k-237/FB15k-237.tar.gz")) as archive:
        return {
            part: [tuple(line.split("\t")) for line in archive.extractfile(f"{part}.txt").read().decode().splitlines()]
            for part in TRIPLES
        }


def by_relation(triples):
    """Return the (heads, tails) of each relation."""
    found = defaultdict(list)
    for head, relation, tail in triples:
        found[relation].append((head, tail))
    return {relation: list(zip(*pairs)) for relation, pairs in found.items()}


@pytest.mark.parametrize("part", TRIPLES)
def test_each_relation_of_freebase_is_an_edge_type(published, triples, part):
    num_triples, num_entities, num_relations = TRIPLES[part]
    info = published.report("fb15k-237", source={"member": f"{part}.txt"}).info
    expected = Counter(relation for _, relation, _ in triples[part])
    assert info["edges"] == {f"entity:{relation}:entity": count for relation, count in expected.items()}
    assert (sum(info["edges"].values()), sum(info["duplicates"].values())) == (num_triples, 0)
    if part == "train":
        assert (info["nodes"], len(info["edges"])) == ({"entity": num_entities}, num_relations)


def test_freebase_entities_and_facts_come_back(published, triples):
    with graph_store.open(published.path("fb15k-237", source={"member": "train.txt"})) as store:
        assert set(store.ids("entity")) == {end for head, _, tail in triples["train"] for end in (head, tail)}
        for relation, (heads, tails) in by_relation(triples["train"]).items():
            src, dst = edges_of(store, f"entity:{relation}:entity")
            assert sorted(zip(src, dst)) == sorted(zip(heads, tails))


def test_relations_that_only_lead_from_an_entity_to_itself_have_no_edge_without_self_loops(published, triples):
    options = {"source": {"member": "train.txt"}, "self_loops": "drop"}
    report = published.report("fb15k-237", **options)
    loops = Counter(relation for head, relation, tail in triples["train"] if head == tail)
    expected = Counter(relation for _, relation, _ in triples["train"])
    assert report.counts == {"entity:*:entity": {"self_loops": loops.total()}}
    assert report.info["edges"] == {f"entity:{name}:entity": expected[name] - loops[name] for name in expected}
    assert min(report.info["edges"].values()) == 0


@pytest.mark.parametrize(("part", "num_unknown", "num_entities"), [("valid", 9, 8), ("test", 28, 29)])
def test_held_out_facts_of_freebase_are_not_in_the_store(published, triples, part, num_unknown, num_entities):
    with graph_store.open(published.path("fb15k-237", source={"member": "train.txt"})) as store:
        known = set(store.ids("entity"))
        ends = {end for head, _, tail in triples[part] for end in (head, tail)}
        assert sum(head not in known or tail not in known for head, _, tail in triples[part]) == num_unknown
        assert len(ends - known) == num_entities
        for relation, (heads, tails) in by_relation(triples[part]).items():
            assert not store.contains(heads, tails, f"entity:{relation}:entity").any()


def test_beauty_users_have_their_items_in_order_of_time(published, real):
    words = sequences(real("beauty/Beauty.txt"))
    info = published.report("beauty").info
    assert info["nodes"] == {"item": 12101, "user": 22363}
    assert only(info["edges"]) == 198502
    assert only(info["duplicates"]) == 0
    assert only(info["time_units"]) == "step"
    with graph_store.open(published.path("beauty")) as store:
        found = store.neighbors([line[0] for line in words], "user:buys:item")
        assert np.diff(found.indptr).tolist() == [len(line) - 1 for line in words]
        assert found.ids.tolist() == [item for line in words for item in line[1:]]
        assert found.times.tolist() == [place for line in words for place in range(len(line) - 1)]
        degrees = store.degree([line[0] for line in words], "user:buys:item")
        assert (degrees.min(), degrees.max()) == (5, 204)
        bought = Counter(item for line in words for item in line[1:])
        assert store.degree(range(1, 12102), "item:rev_buys:user").tolist() == [bought[i] for i in range(1, 12102)]


def test_beauty_items_have_their_attributes(published, real):
    expected = json.loads(real("beauty/Beauty_item2attributes.json").read_text())
    with graph_store.open(published.path("beauty")) as store:
        found = store.features([int(item) for item in expected], "item")["attributes"]
        assert lists_of(found) == list(expected.values())
        assert (found.values.size, np.unique(found.values).size, found.present.all()) == (45037, 637, True)
        assert sum(len(values) - len(set(values)) for values in lists_of(found)) == 5


def test_acm_papers_have_their_authors_subject_label_and_split(published, real):
    info = published.report("heco-acm").info
    assert info["nodes"] == {"author": 7167, "paper": 4019, "subject": 60, "word": 1902}
    assert {name: info["edges"][name] for name in info["edges"] if "rev_" not in name} == {
        "paper:by:author": 13407,
        "paper:on:subject": 4019,
        "paper:has:word": 340377,
        "author:has:word": 888869,
    }
    assert set(info["duplicates"].values()) == {0}
    labels = np.load(real("heco-acm/labels.npy"))
    with graph_store.open(published.path("heco-acm")) as store:
        for name, edge_type in (("pa", "paper:by:author"), ("ps", "paper:on:subject")):
            assert_same_rows(edges_of(store, edge_type), numbers(real(f"heco-acm/{name}.txt")).T)
        assert (store.degree(range(4019), "paper:on:subject") == 1).all()
        found = store.features(range(4019), "paper")
        assert (found["label"].values == labels).all()
        assert np.bincount(found["label"].values).tolist() == [1993, 965, 1061]
        assert Counter(found["split"].values.tolist()) == {None: 1959, "train": 60, "val": 1000, "test": 1000}
        for part in ("train", "val", "test"):
            papers = np.load(real(f"heco-acm/{part}_20.npy"))
            assert set(store.features(papers, "paper", ["split"])["split"].values) == {part}


@pytest.mark.parametrize(("file", "kind", "num_nodes"), [("p_feat", "paper", 4019), ("a_feat", "author", 7167)])
def test_sparse_matrices_of_words_come_back(published, real, file, kind, num_nodes):
    expected = scipy.sparse.load_npz(real(f"heco-acm/{file}.npz")).tocsr()
    expected.sort_indices()
    with graph_store.open(published.path("heco-acm")) as store:
        found = store.neighbors(range(num_nodes), f"{kind}:has:word")
        np.testing.assert_array_equal(found.indptr, expected.indptr)
        np.testing.assert_array_equal(found.ids, expected.indices)
        np.testing.assert_array_equal(found.weights, expected.data.astype(np.float32))
        if kind == "paper":
            words = store.features(range(num_nodes), "paper", ["words"])["words"]
            np.testing.assert_array_equal(words.indptr, expected.indptr)
            np.testing.assert_array_equal(words.values, expected.indices)


def test_bloggers_know_each_other_and_are_in_groups(published, real):
    info = published.report("blogcatalog").info
    assert info["nodes"] == {"blogger": 10312, "group": 39}
    assert info["edges"] == {
        "blogger:knows:blogger": 333983,
        "blogger:in:group": 14476,
        "group:rev_in:blogger": 14476,
    }
    assert set(info["duplicates"].values()) == set(info["self_loops"].values()) == {0}
    bloggers = np.arange(1, 10313)
    with graph_store.open(published.path("blogcatalog")) as store:
        assert sorted(store.ids("group").tolist()) == list(range(1, 40))
        friends, groups = (numbers(real(f"blogcatalog/{name}.csv")).T for name in ("edges", "group-edges"))
        assert_same_rows(np.sort(edges_of(store, "blogger:knows:blogger"), axis=0), friends)
        assert_same_rows(edges_of(store, "blogger:in:group"), groups)
        assert store.degree(bloggers, "blogger:in:group").min() == 1
        degrees = store.degree(bloggers, "blogger:knows:blogger")
        assert (degrees.min() > 0, degrees.sum()) == (True, 667966)


@pytest.mark.parametrize(
    ("name", "num_nodes", "num_rows", "num_pairs", "num_loops"),
    [("chameleon", 2277, 36101, 31421, 50), ("crocodile", 11631, 180020, 170918, 145)],
)
@pytest.mark.parametrize("self_loops", ["keep", "drop"])
def test_wikipedia_pages_are_linked_once_a_pair(
    published, real, name, num_nodes, num_rows, num_pairs, num_loops, self_loops
):
    info = published.report("wikipedia", self_loops=self_loops).info
    links = f"{name}:links:{name}"
    assert info["nodes"][name] == num_nodes
    assert info["edges"][links] == num_pairs - (num_loops if self_loops == "drop" else 0)
    assert info["duplicates"][links] == num_rows - num_pairs
    targets = table(real(f"wikipedia/{name}/{name}_target.csv"))
    with graph_store.open(published.path("wikipedia", self_loops=self_loops)) as store:
        found = store.features([int(row["id"]) for row in targets], name, ["target"])["target"]
        assert found.values.tolist() == [int(row["target"]) for row in targets]


def test_pages_on_chameleons_have_their_nouns(published, real):
    expected = json.loads(real("wikipedia/chameleon/chameleon_features.json").read_text())
    with graph_store.open(published.path("wikipedia", self_loops="keep")) as store:
        assert lists_of(store.features([int(page) for page in expected], "chameleon", ["nouns"])["nouns"]) == list(
            expected.values()
        )


def test_users_and_places_of_gowalla_have_their_original_ids(published, real):
    info = published.report("gowalla").info
    assert (info["nodes"], only(info["edges"])) == ({"item": 40981, "user": 29858}, 810128)
    with graph_store.open(published.path("gowalla")) as store:
        for kind in ("user", "item"):
            org_ids, remap_ids = np.array(
                [line.split() for line in real(f"gowalla/{kind}_list.txt").read_text().splitlines()[1:]], np.int64
            ).T
            np.testing.assert_array_equal(store.features(remap_ids, kind)["org_id"].values, org_ids)


def test_electronics_come_back(published, real):
    words = sequences(real("electronics/train.txt"))
    info = published.report("electronics").info
    assert (info["nodes"], only(info["edges"])) == ({"item": 1522, "user": 1435}, 31887)
    with graph_store.open(published.path("electronics")) as store:
        found = store.neighbors([line[0] for line in words], "user:buys:item")
        assert found.ids.tolist() == [item for line in words for item in sorted(line[1:])]
