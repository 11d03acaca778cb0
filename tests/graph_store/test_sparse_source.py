"""Sparse matrices as edges: row, column and value of each stored entry, from memory and from saved files."""

import numpy as np
import pytest
import scipy.sparse as sparse

from graph_store.errors import BadInput
from graph_store.readers import describe, read_edges, source_bytes
from graph_store.schema import EdgeSource, NodeType

USER = NodeType("user")
#     0  1  2
# 0 [ .  2  . ]
# 1 [ .  .  . ]
# 2 [ 1  .  4 ]
# 3 [ .  3  . ]
ENTRIES = [(0, 1, 2.0), (2, 0, 1.0), (2, 2, 4.0), (3, 1, 3.0)]
FORMATS = ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"]


def matrix(form, dtype=np.float64):
    row, col, data = zip(*ENTRIES)
    return sparse.coo_array((np.array(data, dtype), (row, col)), shape=(4, 3)).asformat(form)


def read(source, **options):
    """Return (src, dst, weight) of each edge."""
    batches = list(read_edges(source, src_type=USER, dst_type=USER, **options))
    assert all(batch.src.dtype == batch.dst.dtype == np.int64 for batch in batches)
    columns = [
        np.concatenate([getattr(batch, role) for batch in batches]).tolist() for role in ("src", "dst", "weight")
    ]
    return list(zip(*columns))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("batch_rows", [None, 1, 3])
def test_every_format_gives_its_entries(form, batch_rows):
    source = EdgeSource(table=matrix(form), weight="data")
    found = read(source, batch_rows=batch_rows)
    assert sorted(found) == ENTRIES
    if form == "csr":
        assert found == ENTRIES
    if form == "csc":
        assert found == sorted(ENTRIES, key=lambda entry: (entry[1], entry[0]))


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "bsr", "dia"])
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("batch_rows", [None, 1, 3])
def test_every_saved_format_gives_its_entries(tmp_path, form, compressed, batch_rows):
    path = tmp_path / "edges.npz"
    sparse.save_npz(path, matrix(form), compressed=compressed)
    source = EdgeSource(path, weight="data")
    assert sorted(read(source, batch_rows=batch_rows)) == ENTRIES
    expected = "a sparse matrix, src = column 'row', dst = column 'col', weight = column 'data'"
    assert describe(source, src_type=USER, dst_type=USER) == expected


@pytest.mark.parametrize("dtype", [np.float32, np.int8, np.uint16, np.bool_])
def test_weights_of_every_number_type(dtype):
    data = [value if dtype is not np.bool_ else 1.0 for _, _, value in ENTRIES]
    assert [weight for _, _, weight in read(EdgeSource(table=matrix("csr", dtype), weight=2))] == data


def test_ends_can_be_exchanged_and_weights_left_out():
    batch = next(read_edges(EdgeSource(table=matrix("csr"), src="col", dst="row"), src_type=USER, dst_type=USER))
    assert list(zip(batch.src.tolist(), batch.dst.tolist())) == [(col, row) for row, col, _ in ENTRIES]
    assert batch.weight is None


def test_stored_zeros_and_duplicates_are_edges():
    entries = ([0.0, 1.0, 1.0], ([1, 2, 2], [5, 6, 6]))
    found = read(EdgeSource(table=sparse.coo_array(entries, shape=(9, 9)), weight="data"))
    assert found == [(1, 5, 0.0), (2, 6, 1.0), (2, 6, 1.0)]


def test_a_matrix_without_entries_has_no_edges():
    source = EdgeSource(table=sparse.csr_array((3, 3)))
    assert list(read_edges(source, src_type=USER, dst_type=USER)) == []


def test_rows_before_the_first_and_behind_the_last_entry_are_passed_over():
    big = sparse.csr_array(([1.0, 2.0], ([500, 700], [1, 2])), shape=(1000, 3))
    assert read(EdgeSource(table=big, weight="data"), batch_rows=1) == [(500, 1, 1.0), (700, 2, 2.0)]


def test_bytes_count_up_to_the_size():
    source = EdgeSource(table=matrix("csr"))
    batches = list(read_edges(source, src_type=USER, dst_type=USER, batch_rows=3))
    assert [batch.bytes_done for batch in batches] == [72, 96]  # of 4 entries of 16 + 8 bytes
    assert source_bytes(source) == 96


def test_a_bad_weight_is_named_by_its_row():
    nan = sparse.coo_array(([1.0, np.nan], ([0, 1], [1, 2])), shape=(3, 3))
    with pytest.raises(BadInput, match=r"<table>: row 2, column 'data' \(weight\): nan"):
        read(EdgeSource(table=nan, weight="data"))


def test_complex_weights_and_other_dimensions_are_refused():
    with pytest.raises(BadInput, match="expected floats or integers"):
        read(EdgeSource(table=matrix("csr", np.complex128), weight="data"))
    with pytest.raises(BadInput, match="1 dimensions"):
        read(EdgeSource(table=sparse.coo_array(np.ones(3))))


def test_a_saved_matrix_whose_parts_do_not_fit_is_refused(tmp_path):
    path = tmp_path / "edges.npz"
    parts = {"indices": [0, 1], "data": [1.0, 2.0], "format": np.array(b"csr"), "shape": [2, 2]}
    for indptr in ([0, 1, 3], [1, 1, 2], [0, 2, 1, 2]):
        np.savez(path, **{key: np.asarray(value) for key, value in parts.items()}, indptr=np.array(indptr))
        with pytest.raises(BadInput, match="damaged: indptr, indices and data of the matrix do not fit"):
            read(EdgeSource(path))


@pytest.mark.parametrize(
    "changed", [{"indptr": []}, {"indptr": [["a"]]}, {"data": 1.0}, {"format": np.array([b"csr", b"csc"])}]
)
def test_a_saved_matrix_of_other_parts_is_refused(tmp_path, changed):
    path = tmp_path / "edges.npz"
    parts = {"indices": [0, 1], "indptr": [0, 1, 2], "data": [1.0, 2.0], "format": np.array(b"csr"), "shape": [2, 2]}
    np.savez(path, **{key: np.asarray(value) for key, value in (parts | changed).items()})
    with pytest.raises(BadInput, match=r"edges.npz: .*save it again"):
        read(EdgeSource(path))


@pytest.mark.parametrize("form", ["coo", "csr", "csc", "dia", "bsr", "none"])
def test_a_saved_matrix_without_its_parts_is_refused(tmp_path, form):
    path = tmp_path / "edges.npz"
    np.savez(path, format=np.array(form.encode()), shape=np.array([2, 2]))
    with pytest.raises(BadInput, match=r"edges.npz: not a readable NumPy file .*save it again"):
        read(EdgeSource(path))
