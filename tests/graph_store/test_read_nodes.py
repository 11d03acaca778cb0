"""One door for all formats: the same nodes and edges come out of each, and files are told apart by what they are."""

import gzip
import io
import json
import tarfile
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from graph_store.errors import BadInput
from graph_store.readers import describe_nodes, read_edges, read_nodes, source_bytes, told_format
from graph_store.schema import EdgeSource, EdgeType, FeatureType, NodeSource, NodeType

IDS = [9007199254740993, -5, 7, 0]
AGES = [33, None, 8, 120]
VECTORS = [[0.5, 1.0], [-2.0, 3.0], None, [0.0, 4.0]]
TAGS = [[1, 2], [], [3], [2]]
KINDS = ["x", None, "é", "x"]
FEATURES = (
    FeatureType("age", dtype="int16"),
    FeatureType("emb", "vector", dim=2),
    FeatureType("tags", "ids"),
    FeatureType("kind", "category"),
)
TABLE = pa.table(
    {
        "id": IDS,
        "age": pa.array(AGES, pa.int32()),
        "emb": pa.array(VECTORS, pa.list_(pa.float32())),
        "tags": pa.array(TAGS, pa.list_(pa.int64())),
        "kind": pa.array(KINDS),
    }
)


def text(cell):
    if isinstance(cell, list):
        return " ".join(map(str, cell))
    return "" if cell is None else str(cell)


def write_text(path, delimiter):
    rows = [TABLE.column_names, *([text(cell) for cell in row.values()] for row in TABLE.to_pylist())]
    path.write_text("".join(delimiter.join(row) + "\n" for row in rows))


def write_lines(path):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in TABLE.to_pylist()))


WRITERS = {
    "nodes.parquet": lambda path: pq.write_table(TABLE, path),
    "nodes.csv": lambda path: write_text(path, ","),
    "nodes.tsv": lambda path: write_text(path, "\t"),
    "nodes.jsonl": write_lines,
    "nodes.feather": lambda path: feather.write_feather(TABLE, path),
}


@pytest.fixture(params=[*WRITERS, "table", "stream"])
def source(request, tmp_path):
    if request.param == "table":
        return NodeSource(table=TABLE)
    if request.param == "stream":
        return NodeSource(table=TABLE.to_reader(max_chunksize=1))
    WRITERS[request.param](tmp_path / request.param)
    return NodeSource(tmp_path / request.param)


def lists(column):
    """Return the items of each row of a column, None where absent."""
    present = np.ones(len(column.indptr) - 1, bool) if column.present is None else column.present
    cells = [column.values[a:b] for a, b in zip(column.indptr[:-1], column.indptr[1:])]
    return [cell.tolist() if there else None for cell, there in zip(cells, present)]


def test_the_same_nodes_come_out_of_every_format(source):
    node_type = NodeType("user", sources=(source,), features=FEATURES)
    (batch,) = read_nodes(source, node_type=node_type)
    assert batch.num_rows == 4
    assert batch.ids.dtype == np.int64
    assert batch.ids.tolist() == IDS
    found = batch.features
    assert list(found) == ["age", "emb", "tags", "kind"]
    assert found["age"].values.dtype == np.int16
    assert found["age"].values.tolist() == [33, 0, 8, 120]
    assert found["age"].present.tolist() == [True, False, True, True]
    assert found["emb"].values.dtype == np.float32
    assert found["emb"].values.tolist() == [[0.5, 1], [-2, 3], [0, 0], [0, 4]]
    assert found["emb"].present.tolist() == [True, True, False, True]
    assert lists(found["tags"]) == TAGS
    assert lists(found["kind"]) == [[120], None, [195, 169], [120]]
    assert batch.rejected == ()


def test_ids_alone_are_read_where_features_are_not_wanted(source):
    node_type = NodeType("user", sources=(source,), features=FEATURES)
    (batch,) = read_nodes(source, node_type=node_type, features=False)
    assert (batch.ids.tolist(), batch.features) == (IDS, {})


@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("batch_rows", [1, 1_000_000])
def test_bytes_count_up_to_the_size_of_the_file(tmp_path, name, batch_rows):
    WRITERS[name](tmp_path / name)
    source = NodeSource(tmp_path / name)
    batches = list(read_nodes(source, node_type=NodeType("user"), batch_rows=batch_rows))
    assert np.concatenate([batch.ids for batch in batches]).tolist() == IDS
    assert batches[-1].bytes_done == source_bytes(source)


@pytest.mark.parametrize("name", WRITERS)
def test_how_nodes_are_read_can_be_said_before(tmp_path, name):
    WRITERS[name](tmp_path / name)
    node_type = NodeType("user", sources=(NodeSource(tmp_path / name),), features=FEATURES[:1])
    said = describe_nodes(node_type.sources[0], node_type=node_type)
    assert "'id'" in said
    assert "feature 'age' = " in said


BAD = pa.table({"id": [1, None, 3], "age": [300, 1, 2]})
BAD_WRITERS = {
    "nodes.parquet": lambda path: pq.write_table(BAD, path),
    "nodes.csv": lambda path: path.write_text("id,age\n1,300\n,1\n3,2\n"),
    "nodes.jsonl": lambda path: path.write_text('{"id":1,"age":300}\n{"id":null,"age":1}\n{"id":3,"age":2}\n'),
    "nodes.feather": lambda path: feather.write_feather(BAD, path),
}


@pytest.mark.parametrize("name", BAD_WRITERS)
def test_nodes_that_cannot_be_taken_are_set_aside_or_stop(tmp_path, name):
    path = tmp_path / name
    BAD_WRITERS[name](path)
    age = (FeatureType("age", dtype="int8"),)
    stops = NodeType("user", sources=(NodeSource(path),), features=age)
    with pytest.raises(BadInput, match=r"(row|line) [12], column 'age' \(feature 'age'\): '?300"):
        list(read_nodes(stops.sources[0], node_type=stops))
    goes_on = NodeType("user", sources=(NodeSource(path),), features=age, bad_rows="aside")
    (batch,) = read_nodes(goes_on.sources[0], node_type=goes_on)
    assert (batch.ids.tolist(), batch.features["age"].values.tolist()) == ([3], [2])
    assert len(batch.rejected) == 2
    assert "column 'id' (id)" in batch.rejected[1].reason


# Which format a file is


def test_files_are_told_by_their_first_bytes_whatever_their_name(tmp_path):
    path = tmp_path / "file.dat"
    pq.write_table(TABLE, path)
    assert told_format(NodeSource(path)) == "parquet"
    with pa.ipc.new_file(path, TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert told_format(NodeSource(path)) == "arrow"
    with open(path, "wb") as file:
        np.save(file, np.arange(3))
    assert told_format(NodeSource(path)) == "array"
    for data, way in ((b'{"a":1}', "jsonl"), (b' {\n"a"', "jsonl"), (b"{a},1\n", "text"), (b"1,2\n", "text")):
        path.write_bytes(data)
        assert told_format(NodeSource(path)) == way
        path.write_bytes(gzip.compress(data))
        assert told_format(NodeSource(path)) == way


@pytest.mark.parametrize(
    ("name", "way"),
    [
        ("a.parquet", "parquet"),
        ("a.JSONL", "jsonl"),
        ("a.ndjson.gz", "jsonl"),
        ("a.npy", "array"),
        ("a.npz", "array"),
        ("a.arrow", "arrow"),
        ("a.feather", "arrow"),
        ("a.ipc", "arrow"),
        ("a.csv", "text"),
        ("a", "text"),
    ],
)
def test_files_are_told_by_their_name_where_their_bytes_do_not_tell(tmp_path, name, way):
    (tmp_path / name).write_bytes(b"1,2\n")
    assert told_format(NodeSource(tmp_path / name)) == way


def test_a_stated_format_or_header_is_believed(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"1,2\n")
    assert told_format(NodeSource(path, format="csv")) == "text"
    assert told_format(NodeSource(path, header=False)) == "text"
    assert told_format(NodeSource(path, format="arrow")) == "arrow"


def test_binary_formats_within_archives_are_refused(tmp_path):
    inner = io.BytesIO()
    pq.write_table(TABLE, inner)
    path = tmp_path / "nodes.parquet.gz"
    path.write_bytes(gzip.compress(inner.getvalue()))
    with pytest.raises(BadInput, match=r"holds 'nodes.parquet', which is not read out of .* unpack it first"):
        told_format(NodeSource(path))
    with zipfile.ZipFile(tmp_path / "nodes.zip", "w") as archive:
        archive.writestr("deep/nodes.npy", b"\x93NUMPY...")
    with pytest.raises(BadInput, match="unpack it first"):
        told_format(NodeSource(tmp_path / "nodes.zip"))


def test_lines_of_objects_come_out_of_archives(tmp_path):
    data = b'{"id":1}\n{"id":2}\n'
    path = tmp_path / "nodes.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in ("nodes.jsonl", "readme.txt"):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    source = NodeSource(path, member="nodes.jsonl")
    assert next(read_nodes(source, node_type=NodeType("user"))).ids.tolist() == [1, 2]


def test_an_absent_or_empty_file_and_a_directory_are_refused(tmp_path):
    node_type = NodeType("user")
    with pytest.raises(BadInput, match="No such file"):
        read_nodes(NodeSource(tmp_path / "absent.parquet"), node_type=node_type)
    with pytest.raises(BadInput, match="is a directory"):
        read_nodes(NodeSource(tmp_path), node_type=node_type)
    (tmp_path / "empty.csv").touch()
    with pytest.raises(BadInput, match="the file is empty; expected nodes"):
        read_nodes(NodeSource(tmp_path / "empty.csv"), node_type=node_type)
    (tmp_path / "one.csv").write_text("1,2\n")
    with pytest.raises(BadInput, match="batch_rows is 0, expected 1 or more"):
        read_nodes(NodeSource(tmp_path / "one.csv"), node_type=node_type, batch_rows=0)


EDGES = pa.table({"src": IDS, "dst": IDS[::-1], "w": [0.5, 1, -2, 3], "t": [7, 8, 9, -1]})
EDGE_WRITERS = {
    "edges.parquet": lambda path: pq.write_table(EDGES, path),
    "edges.csv": lambda path: path.write_text(
        "src,dst,w,t\n" + "".join(",".join(map(str, row.values())) + "\n" for row in EDGES.to_pylist())
    ),
    "edges.npz": lambda path: np.savez(path, **{name: EDGES.column(name).to_numpy() for name in EDGES.column_names}),
    "edges.jsonl": lambda path: path.write_text("".join(json.dumps(row) + "\n" for row in EDGES.to_pylist())),
    "edges.arrow": lambda path: feather.write_feather(EDGES, path),
}


@pytest.mark.parametrize("name", EDGE_WRITERS)
def test_the_same_edges_come_out_of_every_format(tmp_path, name):
    EDGE_WRITERS[name](tmp_path / name)
    source = EdgeSource(tmp_path / name, src="src", dst="dst", weight="w", time="t")
    user = NodeType("user")
    edge_type = EdgeType("user:x:user", (source,), negative_weights="drop", features=(FeatureType("t", dtype="int64"),))
    (batch,) = read_edges(source, src_type=user, dst_type=user, edge_type=edge_type)
    assert (batch.src.tolist(), batch.dst.tolist()) == ([IDS[0], IDS[1], IDS[3]], [IDS[3], IDS[2], IDS[0]])
    assert (batch.weight.tolist(), batch.time.tolist()) == ([0.5, 1, 3], [7, 8, -1])
    assert batch.features["t"].values.tolist() == [7, 8, -1]
    assert batch.dropped == {"negative_weights": 1}
