"""Published files, by counts that their publishers or a plain Python reading give."""

import csv
import gzip
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from graph_store.feature_type import FeatureType
from graph_store.readers import describe, read_edges, read_nodes
from graph_store.schema import EdgeSource, NodeSource, NodeType

DATA = Path(__file__).parents[2].parent / "shared" / "data"


def file(name):
    path = DATA / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def read(name, *, ids="integer", **options):
    """Return the ends of all edges of a file, and the last batch."""
    ends = {"src_type": NodeType("a", ids), "dst_type": NodeType("b", ids)}
    batches = list(read_edges(EdgeSource(file(name), **options), **ends))
    join = np.concatenate if ids == "integer" else pa.concat_arrays
    time = None if batches[0].time is None else np.concatenate([batch.time for batch in batches])
    return join([batch.src for batch in batches]), join([batch.dst for batch in batches]), time


def lines(name):
    return [list(map(int, line.split())) for line in file(name).read_text().splitlines() if line.split()]


@pytest.mark.parametrize(
    ("name", "num_users", "num_edges"),
    [
        ("gowalla/train.txt", 29858, 810128),
        ("gowalla/test.txt", 29858, 217242),
        ("electronics/train.txt", 1435, 31887),
        ("electronics/test.txt", 1435, 4044),
        ("beauty/Beauty.txt", 22363, 198502),
    ],
)
def test_adjacency_files_are_told_and_come_back_line_by_line(name, num_users, num_edges):
    assert describe(EdgeSource(file(name)), src_type=NodeType("a"), dst_type=NodeType("b")).startswith("adjacency")
    src, dst, _ = read(name)
    words = lines(name)
    assert len(src) == len(dst) == num_edges
    np.testing.assert_array_equal(src, np.repeat([line[0] for line in words], [len(line) - 1 for line in words]))
    np.testing.assert_array_equal(dst, [item for line in words for item in line[1:]])
    assert len(np.unique(src)) <= num_users


@pytest.mark.parametrize(
    ("name", "num_edges"),
    [
        ("facebook/facebook_edges.csv", 171002),
        ("wikipedia/chameleon/chameleon_edges.csv", 36101),
        ("wikipedia/crocodile/crocodile_edges.csv", 180020),
        ("blogcatalog/edges.csv", 333983),
        ("blogcatalog/group-edges.csv", 14476),
        ("heco-acm/pa.txt", 13407),
        ("heco-acm/ps.txt", 4019),
        ("gowalla/user_list.txt", 29858),
    ],
)
def test_columns_are_told_with_their_delimiter_and_header(name, num_edges):
    src, dst, _ = read(name)
    rows = [line.replace(",", " ").split() for line in file(name).read_text().splitlines()]
    rows = [row for row in rows if row[0].isdecimal()]
    assert len(src) == len(rows) == num_edges
    np.testing.assert_array_equal(np.stack([src, dst], 1), np.array(rows, np.int64))


@pytest.mark.parametrize(
    ("name", "num_rows", "num_distinct"), [("CollegeMsg", 59835, 59798), ("sx-mathoverflow", 506550, 506523)]
)
def test_compressed_times_come_back(name, num_rows, num_distinct):
    columns = np.stack(read(f"temporal/{name}.txt.gz", time=2), 1)
    assert len(columns) == num_rows
    assert len(np.unique(columns, axis=0)) == num_distinct
    with gzip.open(file(f"temporal/{name}.txt.gz"), "rt") as text:
        assert columns.tolist() == [list(map(int, line.split())) for line in text]


def test_facebook_ids_above_2_to_the_53_and_names_in_quotes_come_back():
    with open(file("facebook/facebook_target.csv"), newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    ids, positions, _ = read("facebook/facebook_target.csv", src="facebook_id", dst="id")
    assert ids.tolist() == [int(row["facebook_id"]) for row in rows]
    assert positions.tolist() == list(range(22470))
    above = ids[ids > 2**53]
    assert len(above) == 17
    assert sorted(value for value in above.tolist() if int(float(value)) != value) == [
        10150093035685641, 10150096495755651, 10150101343025475, 10150125867040707,
        10150125874235531, 10150130150045573, 10150136203045543, 10150144130895123,
    ]  # fmt: skip
    names, kinds, _ = read("facebook/facebook_target.csv", ids="string", src="page_name", dst="page_type")
    assert names.to_pylist() == [row["page_name"] for row in rows]
    assert kinds.to_pylist() == [row["page_type"] for row in rows]


def test_facebook_pages_come_back_with_their_names_and_types():
    with open(file("facebook/facebook_target.csv"), newline="", encoding="utf-8") as text:
        rows = list(csv.DictReader(text))
    features = (
        FeatureType("page_name", "string"),
        FeatureType("page_type", "category"),
        FeatureType("id", dtype="int32"),
    )
    node_type = NodeType(
        "page", sources=[NodeSource(file("facebook/facebook_target.csv"), id="facebook_id")], features=features
    )
    batches = list(read_nodes(node_type.sources[0], node_type=node_type))
    assert [id for batch in batches for id in batch.ids.tolist()] == [int(row["facebook_id"]) for row in rows]
    for name in ("page_name", "page_type"):
        found = []
        for column in (batch.features[name] for batch in batches):
            assert column.present is None
            text = column.values.tobytes()
            found += [text[a:b].decode() for a, b in zip(column.indptr.tolist()[:-1], column.indptr.tolist()[1:])]
        assert found == [row[name] for row in rows]
    assert np.concatenate([batch.features["id"].values for batch in batches]).tolist() == list(range(22470))


@pytest.mark.parametrize(("member", "num_edges"), [("train.txt", 272115), ("valid.txt", 17535), ("test.txt", 20466)])
def test_freebase_triples_are_read_out_of_their_archive(member, num_edges):
    path = file("fb15k-237/FB15k-237.tar.gz")
    source = EdgeSource(path, member=member, src=0, relation=1, dst=2)
    end = NodeType("entity", "string")
    batches = list(read_edges(source, src_type=end, dst_type=end))
    with tarfile.open(path) as archive:
        text = archive.extractfile(member).read().decode()
    triples = [tuple(line.split("\t")) for line in text.splitlines()]
    found = [
        triple
        for batch in batches
        for triple in zip(*(part.to_pylist() for part in (batch.src, batch.relation, batch.dst)))
    ]
    assert found == triples
    assert len(found) == num_edges
    assert member != "train.txt" or len({relation for _, relation, _ in found}) == 237


def test_contacts_are_read_out_of_their_zip_archive():
    path = file("temporal/tij_pres_LH10.txt.zip")
    src, dst, time = read("temporal/tij_pres_LH10.txt.zip", time=2)
    with zipfile.ZipFile(path) as archive:
        rows = np.array([line.split() for line in archive.read("tij_pres_LH10.txt").splitlines()], np.int64)
    np.testing.assert_array_equal(np.stack([src, dst, time], 1), rows)
    assert (len(rows), len(np.unique(rows[:, :2])), time.max()) == (150126, 73, 259180)


def test_beauty_sequences_have_the_places_of_their_items_as_times():
    src, dst, time = read("beauty/Beauty.txt", format="adjacency", time="position")
    words = lines("beauty/Beauty.txt")
    expected = [(line[0], item, place) for line in words for place, item in enumerate(line[1:])]
    np.testing.assert_array_equal(np.stack([src, dst, time], 1), expected)
