"""NumPy files: arrays of edges, arrays by name and records, mapped or decompressed, and never anything pickled."""

import io
import zipfile

import numpy as np
import pytest

from graph_store import array_pieces
from graph_store.errors import BadInput
from graph_store.readers import describe, describe_nodes, read_edges, read_nodes, source_bytes
from graph_store.schema import EdgeSource, EdgeType, FeatureType, NodeSource, NodeType

USER = NodeType("user")
EXTREMES = [-(2**63), 2**63 - 1, 2**53 + 1]


def read(path, *, ids=USER, edge_type=None, batch_rows=None, **options):
    """Return the columns of a file by role as lists."""
    source = EdgeSource(path, **options)
    found = {role: [] for role in ("src", "dst", "weight", "time", "relation")}
    batches = read_edges(source, src_type=ids, dst_type=ids, edge_type=edge_type, batch_rows=batch_rows)
    for batch in batches:
        for role, column in found.items():
            values = getattr(batch, role)
            if values is not None:
                column.extend(values.to_pylist() if hasattr(values, "to_pylist") else values.tolist())
    return {role: column for role, column in found.items() if column}


def refusal(path, **options):
    with pytest.raises(BadInput) as error:
        read(path, **options)
    message = str(error.value)
    assert "\n" not in message
    assert str(path) in message
    return message


@pytest.fixture
def save(tmp_path):
    def save(array, name="edges.npy"):
        np.save(tmp_path / name, array)
        return tmp_path / name

    return save


@pytest.fixture(params=[np.savez, np.savez_compressed], ids=["stored", "compressed"])
def savez(request, tmp_path):
    def savez(**arrays):
        request.param(tmp_path / "edges.npz", **arrays)
        return tmp_path / "edges.npz"

    return savez


# One array


@pytest.mark.parametrize("kind", ["int64", "int32", "uint16", ">i8", "float64"])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("batch_rows", [None, 2])
def test_an_array_of_two_columns(save, kind, order, batch_rows):
    path = save(np.array([[1, 2], [3, 4], [5, 6]], kind, order=order))
    assert read(path, batch_rows=batch_rows) == {"src": [1, 3, 5], "dst": [2, 4, 6]}


def test_int64_extremes_come_back_unchanged(save):
    path = save(np.array([EXTREMES, EXTREMES[::-1]]).T)
    assert read(path) == {"src": EXTREMES, "dst": EXTREMES[::-1]}


def test_unsigned_ids_are_bit_patterns(save):
    path = save(np.array([[2**64 - 1, 7]], np.uint64))
    assert read(path, ids=NodeType("user", "unsigned")) == {"src": [-1], "dst": [7]}
    assert "row 1, column '0' (src): 18446744073709551615 is above" in refusal(path)


def test_columns_are_taken_by_position(save):
    # head, relation, tail, as knowledge graphs are often kept, and a weight
    path = save(np.array([[1, 17, 3, 0.5], [4, 18, 6, 2]]))
    found = read(path, src=0, dst="2", weight=3)
    assert found == {"src": [1, 4], "dst": [3, 6], "weight": [0.5, 2]}
    path = save(np.array([[1, 17, 3], [4, 18, 6]]))
    assert read(path, src=0, dst=2, relation=1)["relation"] == ["17", "18"]
    assert "no column 5 for weight" in refusal(path, weight=5)


def test_two_long_rows_are_sources_and_targets(save):
    path = save(np.array([[1, 2, 3], [4, 5, 6]]))
    assert read(path, batch_rows=2) == {"src": [1, 2, 3], "dst": [4, 5, 6]}
    text = describe(EdgeSource(path), src_type=USER, dst_type=USER)
    assert text == "a NumPy array [2, 3], an edge in each column, src = row '0', dst = row '1'"
    assert read(path, weight=2) == {"src": [1, 4], "dst": [2, 5], "weight": [3, 6]}
    assert read(save(np.array([[1, 2], [3, 4]]))) == {"src": [1, 3], "dst": [2, 4]}


@pytest.mark.parametrize("batch_rows", [None, 1])
def test_records_are_taken_by_name(save, batch_rows):
    kinds = [("t", "M8[s]"), ("item", "u4"), ("user", ">i8"), ("w", "f4")]
    rows = [(np.datetime64("1970-01-02"), 4, 1, 0.5), (np.datetime64("1969-12-31T23:59:59"), 5, 2, 0.25)]
    path = save(np.array(rows, kinds))
    found = read(path, src="user", dst="item", weight="w", time="t", batch_rows=batch_rows)
    assert found == {"src": [1, 2], "dst": [4, 5], "weight": [0.5, 0.25], "time": [86400, -1]}
    assert "no column 'usr' for src; did you mean 'user'?" in refusal(path, src="usr", dst="item")


def test_an_array_without_rows_has_no_edges(save):
    assert read(save(np.empty((0, 2), np.int64))) == {}


@pytest.mark.parametrize(
    ("array", "says"),
    [
        (np.arange(5), "has shape [5], expected [n, 2] or more columns"),
        (np.zeros((2, 2, 2)), "has shape [2, 2, 2], expected [n, 2]"),
        (np.int64(3), "has shape [], expected [n, 2]"),
        (np.zeros((3, 2), np.complex64), "column '0' (src) has dtype complex64 and shape [3, 2]; expected numbers"),
        (np.array([[1, 2.5]]), "row 1, column '1' (dst): 2.5 is no whole number"),
        (np.array([["a", "b"]]), "has type string, but node type 'user' has integer ids"),
        (np.zeros((3, 2), bool), "has type bool, expected integer ids"),
    ],
)
def test_an_array_that_holds_no_edges_is_refused(save, array, says):
    assert says in refusal(save(array))


def test_python_objects_are_never_loaded(tmp_path):
    class Trap:
        def __reduce__(self):
            return (pytest.fail, ("unpickled",))

    trap = np.array([[Trap(), Trap()]], dtype=object)
    np.save(tmp_path / "edges.npy", trap, allow_pickle=True)
    assert "holds Python objects, which are never loaded" in refusal(tmp_path / "edges.npy")
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "edges.npz", src=trap, dst=trap)
        assert "holds Python objects, which are never loaded" in refusal(tmp_path / "edges.npz")


def test_a_damaged_array_is_refused(save):
    path = save(np.arange(2000).reshape(1000, 2))
    whole = path.read_bytes()
    headers = (whole.replace(b"}", b" ", 1), whole.replace(b"{", b"(", 1), whole.replace(b"1000, 2", b"1000,-2", 1))
    for data in (whole[:-8], whole[:50], b"\x93NUMPY", b"nonsense", *headers):
        path.write_bytes(data)
        assert "not a readable NumPy file" in refusal(path)


# Arrays by name


@pytest.mark.parametrize("batch_rows", [None, 2])
def test_arrays_by_name(savez, batch_rows):
    path = savez(w=np.array([0.5, 1, 2]), to=np.array([1, 2, 3], ">i4"), fro=np.array(EXTREMES), t=np.array([7, 8, 9]))
    found = read(path, src="fro", dst="to", weight="w", time="t", batch_rows=batch_rows)
    assert found == {"src": EXTREMES, "dst": [1, 2, 3], "weight": [0.5, 1, 2], "time": [7, 8, 9]}
    assert "no column 'frm' for src; did you mean 'fro'?" in refusal(path, src="frm", dst="to")


def test_arrays_called_src_and_dst_are_the_ends_unless_stated(savez):
    path = savez(dst=np.array([3]), src=np.array([1]), other=np.array([5]))
    assert read(path) == {"src": [1], "dst": [3]}
    assert read(path, src="other") == {"src": [5], "dst": [1]}
    path = savez(users=np.array([1]), items=np.array([3]))
    assert read(path) == {"src": [1], "dst": [3]}


def test_a_single_array_is_read_as_if_it_stood_alone(savez):
    assert read(savez(edge_index=np.array([[1, 2, 3], [4, 5, 6]]))) == {"src": [1, 2, 3], "dst": [4, 5, 6]}
    assert read(savez(edges=np.array([[1, 4], [2, 5]], order="F")), batch_rows=1) == {"src": [1, 2], "dst": [4, 5]}


def test_arrays_of_other_lengths_are_refused_where_they_are_read(savez):
    path = savez(src=np.arange(3), dst=np.arange(4), w=np.arange(5))
    assert "array 'dst' has 4 rows, 'src' has 3; all must have as many" in refusal(path)


def test_an_array_that_is_no_column_is_refused_where_it_is_read(savez):
    path = savez(src=np.arange(3), dst=np.arange(3), odd=np.zeros((3, 2, 2)), name=np.array("x"))
    assert read(path) == {"src": [0, 1, 2], "dst": [0, 1, 2]}
    assert "array 'odd' (weight) has dtype float64 and shape [3, 2, 2]" in refusal(path, weight="odd")


def test_plain_arrays_are_mapped_and_compressed_ones_come_in_pieces(tmp_path):
    np.savez(tmp_path / "plain.npz", a=np.arange(10), b=np.zeros((10, 3), np.float32))
    plain = array_pieces.open_npz(tmp_path / "plain.npz")
    assert isinstance(plain["b"].rows(2, 5), np.memmap)
    assert plain["a"].rows(2, 5).tolist() == [2, 3, 4]
    np.savez_compressed(tmp_path / "packed.npz", a=np.arange(10))
    packed = array_pieces.open_npz(tmp_path / "packed.npz")["a"]
    assert [packed.rows(0, 4).tolist(), packed.rows(4, 10).tolist()] == [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]]


def test_a_damaged_archive_of_arrays_is_refused(tmp_path):
    path = tmp_path / "edges.npz"
    for save in (np.savez, np.savez_compressed):
        save(path, src=np.arange(1000), dst=np.arange(1000)[::-1])
        whole = path.read_bytes()
        path.write_bytes(whole[:-30])
        assert "not a readable NumPy file" in refusal(path)
    damaged = bytearray(whole)
    damaged[200:900] = bytes(700)
    path.write_bytes(damaged)
    assert "not a readable NumPy file" in refusal(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    assert "holds no arrays; expected what numpy.savez writes" in refusal(path)


def test_a_header_that_claims_more_than_there_is_is_refused(tmp_path):
    claim = io.BytesIO()
    np.lib.format.write_array_header_1_0(claim, {"descr": "<i8", "fortran_order": False, "shape": (1 << 40,)})
    with zipfile.ZipFile(tmp_path / "edges.npz", "w") as archive:
        for name in ("src.npy", "dst.npy"):
            archive.writestr(name, claim.getvalue() + bytes(80))
    assert "is of another size than its header says" in refusal(tmp_path / "edges.npz")


def test_edge_features_and_bytes_done(savez):
    path = savez(src=np.arange(10), dst=np.arange(10), x=np.arange(30.0).reshape(10, 3), kind=np.array(["a", "bc"] * 5))
    features = (FeatureType("x", "vector", dim=3), FeatureType("kind", "category"))
    source = EdgeSource(path)
    edge_type = EdgeType("user:x:user", (source,), features=features)
    batches = list(read_edges(source, src_type=USER, dst_type=USER, edge_type=edge_type, batch_rows=4))
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert batches[2].bytes_done == source_bytes(source)
    np.testing.assert_array_equal(batches[1].features["x"].values, np.arange(12, 24, dtype=np.float32).reshape(4, 3))
    words = batches[2].features["kind"]
    assert (words.values.tobytes(), words.indptr.tolist()) == (b"abc", [0, 1, 3])


# Nodes


@pytest.mark.parametrize("batch_rows", [None, 2])
def test_nodes_with_their_features(savez, batch_rows):
    path = savez(
        emb=np.array([[0.5, 1], [2, 3], [4, 5]], np.float16),
        ids=np.array([30, 10, 20]),
        age=np.array([1, 2, 3], np.uint8),
        near=np.array([[1, 2], [3, 4], [5, 6]]),
    )
    features = (
        FeatureType("emb", "vector", dtype="float16", dim=2),
        FeatureType("years", dtype="int16", columns="age"),
        FeatureType("near", "ids"),
    )
    node_type = NodeType("user", sources=(NodeSource(path, id="ids"),), features=features)
    source = node_type.sources[0]
    batches = list(read_nodes(source, node_type=node_type, batch_rows=batch_rows))
    assert np.concatenate([batch.ids for batch in batches]).tolist() == [30, 10, 20]
    emb = np.concatenate([batch.features["emb"].values for batch in batches])
    assert emb.dtype == np.float16
    assert emb.tolist() == [[0.5, 1], [2, 3], [4, 5]]
    assert np.concatenate([batch.features["years"].values for batch in batches]).tolist() == [1, 2, 3]
    assert np.concatenate([batch.features["near"].values for batch in batches]).tolist() == [1, 2, 3, 4, 5, 6]
    assert describe_nodes(source, node_type=node_type).startswith(
        "NumPy arrays, id = array 'ids', feature 'emb' = array"
    )
    assert next(read_nodes(source, node_type=node_type, features=False)).features == {}


def test_an_array_called_id_is_the_id_unless_stated(savez):
    path = savez(emb=np.zeros(2), id=np.array([7, 8]))
    assert next(read_nodes(NodeSource(path), node_type=USER)).ids.tolist() == [7, 8]


def test_an_array_of_ids_alone(save):
    path = save(np.array([3, 1, 2]), "nodes.npy")
    assert next(read_nodes(NodeSource(path), node_type=USER)).ids.tolist() == [3, 1, 2]
    path = save(np.array(["b", "é"]), "nodes.npy")
    names = NodeType("user", "string")
    assert next(read_nodes(NodeSource(path), node_type=names)).ids.to_pylist() == ["b", "é"]


def test_nodes_whose_vectors_have_another_length_are_refused(savez):
    path = savez(id=np.arange(3), emb=np.zeros((3, 4)))
    node_type = NodeType("user", sources=(NodeSource(path),), features=(FeatureType("emb", "vector", dim=5),))
    with pytest.raises(BadInput, match=r"expected lists of 5 numbers"):
        read_nodes(node_type.sources[0], node_type=node_type)
