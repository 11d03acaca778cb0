"""Tables and streams in memory, and Arrow IPC files: the same rows whatever the batches, once or twice."""

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.feather as feather
import pytest

from graph_store.arrow_source import spooled
from graph_store.errors import BadInput
from graph_store.readers import describe, describe_nodes, read_edges, read_nodes, source_bytes
from graph_store.schema import EdgeSource, EdgeType, FeatureType, NodeSource, NodeType

USER, NAMED = NodeType("user"), NodeType("user", "string")
TABLE = pa.table(
    {"u": range(1000), "i": range(1000, 2000), "w": [0.5] * 1000, "name": [f"n{row}" for row in range(1000)]}
)


def read(source, *, batch_rows=None, threads=2, edge_type=None, ids=USER):
    """Return src, dst and weight of all batches as lists, and the batches."""
    options = {"threads": threads, "batch_rows": batch_rows, "edge_type": edge_type}
    batches = list(read_edges(source, src_type=ids, dst_type=ids, **options))
    columns = []
    for role in ("src", "dst", "weight"):
        parts = [getattr(batch, role) for batch in batches]
        columns.append([value for part in parts if part is not None for value in part.tolist()])
    return (*columns, batches)


def refusal(source, **options):
    with pytest.raises(BadInput) as error:
        read(source, **options)
    message = str(error.value)
    assert "\n" not in message
    return message


def streams():
    """Yield the rows of TABLE as every kind of table there is, with what makes a new one each time."""
    small, uneven = TABLE.to_batches(max_chunksize=7), [TABLE.to_batches()[0][:900], TABLE.to_batches()[0][900:]]
    yield lambda: TABLE
    yield lambda: pa.Table.from_batches(small)
    yield lambda: pa.RecordBatchReader.from_batches(TABLE.schema, small)
    yield lambda: small
    yield lambda: tuple(uneven)
    yield lambda: iter(uneven)
    yield lambda: (batch for batch in small)
    yield lambda: TABLE.to_batches()[0]
    yield lambda: ds.dataset(TABLE)


@pytest.mark.parametrize("make", list(streams()))
@pytest.mark.parametrize("batch_rows", [None, 64])
def test_each_kind_of_table_gives_its_rows_in_order(make, batch_rows):
    src, dst, weight, batches = read(EdgeSource(table=make(), weight="w"), batch_rows=batch_rows)
    assert src == list(range(1000))
    assert dst == list(range(1000, 2000))
    assert weight == [0.5] * 1000
    if batch_rows:
        assert all(batch.num_rows <= batch_rows for batch in batches)


@pytest.mark.parametrize("make", list(streams()))
def test_a_bad_row_is_named_by_its_row_in_the_whole_table(make):
    ids = NodeType("user", "integer")
    edge_type = EdgeType("user:x:user", (EdgeSource(table=make()),), features=(FeatureType("name", "category"),))
    _, _, _, batches = read(edge_type.sources[0], edge_type=edge_type, ids=ids, batch_rows=64)
    assert sum(len(batch.features["name"].indptr) - 1 for batch in batches) == 1000
    bad = TABLE.set_column(0, "u", pa.array([*range(777), None, *range(778, 1000)]))
    reader = pa.RecordBatchReader.from_batches(bad.schema, bad.to_batches(max_chunksize=7))
    assert refusal(EdgeSource(table=reader), batch_rows=64).startswith("<table>: row 778, column 'u' (src): null")


@pytest.mark.parametrize("threads", [1, 3])
def test_a_stream_that_fails_says_so_behind_a_bad_row_before_it(threads):
    def fail(first):
        yield pa.record_batch({"a": [1, first], "b": [1, 2]})
        raise RuntimeError("lost the connection")

    with pytest.raises(RuntimeError, match="lost the connection"):
        read(EdgeSource(table=fail(5)), threads=threads)
    table = pa.record_batch({"a": pa.array([1, None]), "b": [1, 2]})
    with pytest.raises(BadInput, match="row 2, column 'a'"):
        read(EdgeSource(table=_then_fail(table)), threads=threads, batch_rows=2)


def _then_fail(batch):
    yield batch
    raise RuntimeError("lost the connection")


def test_a_stream_of_no_rows_has_no_edges():
    assert read(EdgeSource(table=iter(())))[3] == []
    assert read(EdgeSource(table=TABLE[:0]))[3] == []
    assert read(EdgeSource(table=[]))[3] == []


def test_batches_of_another_kind_or_schema_are_refused():
    assert "batch 2 is a builtins.int, expected a pyarrow.RecordBatch" in refusal(
        EdgeSource(table=iter([TABLE.to_batches()[0], 3]))
    )
    assert "batch 1 is a builtins.int" in refusal(EdgeSource(table=[1, 2]))
    other = pa.record_batch({"u": [1], "z": [2]})
    assert "batch 2 has other columns than the first" in refusal(EdgeSource(table=[TABLE.to_batches()[0], other]))


def test_a_table_is_described_and_measured():
    ends = {"src_type": USER, "dst_type": USER}
    assert describe(EdgeSource(table=TABLE), **ends) == "an Arrow table, src = column 'u', dst = column 'i'"
    assert describe(EdgeSource(table=TABLE.to_reader()), **ends) == "an Arrow table, src = column 'u', dst = column 'i'"
    assert describe(EdgeSource(table=iter(TABLE.to_batches())), **ends) == "Arrow batches"
    assert source_bytes(EdgeSource(table=TABLE)) == TABLE.nbytes
    assert source_bytes(EdgeSource(table=TABLE.to_reader())) == 0
    assert read(EdgeSource(table=TABLE), batch_rows=300)[3][-1].bytes_done == TABLE.nbytes
    assert "no column 'usr' for src; did you mean 'u'?" in refusal(EdgeSource(table=TABLE, src="usr", dst="i"))


@pytest.mark.parametrize("make", list(streams()))
def test_a_spooled_source_is_read_as_often_as_needed(make, tmp_path):
    source = spooled(EdgeSource(table=make(), weight="w"), tmp_path)
    assert source.weight == "w"
    for _ in range(2):
        src, dst, weight, _ = read(source)
        assert (src, dst, weight) == (list(range(1000)), list(range(1000, 2000)), [0.5] * 1000)


def test_only_streams_are_spooled(tmp_path):
    for source in (EdgeSource(table=TABLE), EdgeSource(table=TABLE.to_batches()), EdgeSource("edges.csv")):
        assert spooled(source, tmp_path) is source
    assert list(tmp_path.iterdir()) == []
    assert read(spooled(EdgeSource(table=iter(())), tmp_path))[3] == []
    spooled(EdgeSource(table=TABLE.to_reader()), tmp_path)
    assert len(list(tmp_path.iterdir())) == 1


def test_a_stream_whose_dictionaries_change_is_spooled(tmp_path):
    batches = [pa.record_batch({"id": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c", "a"])]
    source = spooled(NodeSource(table=iter(batches)), tmp_path)
    for _ in range(2):
        nodes = list(read_nodes(source, node_type=NAMED))
        assert [name for batch in nodes for name in batch.ids.to_pylist()] == ["a", "b", "c", "a"]


# Files


@pytest.fixture(params=["file", "stream", "feather", "lz4", "zstd"])
def arrow_file(request, tmp_path):
    """Return what writes a table to a file, in batches of a hundred rows."""

    def write(table, name="edges.arrow"):
        path = tmp_path / name
        if request.param == "feather":
            feather.write_feather(table, path, chunksize=100)
            return path
        compression = request.param if request.param in ("lz4", "zstd") else None
        new = pa.ipc.new_stream if request.param == "stream" else pa.ipc.new_file
        with new(path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
            writer.write_table(table, max_chunksize=100)
        return path

    return write


@pytest.mark.parametrize("batch_rows", [None, 64, 230])
def test_a_file_gives_the_columns_that_are_asked_for(arrow_file, batch_rows):
    path = arrow_file(TABLE)
    source = EdgeSource(path, src="i", dst="u", weight="w")
    src, dst, weight, batches = read(source, batch_rows=batch_rows)
    assert (src, dst, weight) == (list(range(1000, 2000)), list(range(1000)), [0.5] * 1000)
    done = [batch.bytes_done for batch in batches]
    assert done == sorted(done)
    assert 0.8 * source_bytes(source) < done[-1] <= source_bytes(source)


def test_a_file_is_described_and_read_as_nodes(arrow_file):
    path = arrow_file(TABLE)
    node_type = NodeType("user", "string", (NodeSource(path, id="name"),), (FeatureType("w", dtype="float64"),))
    source = node_type.sources[0]
    assert describe_nodes(source, node_type=node_type) == "Arrow IPC, id = column 'name', feature 'w' = column 'w'"
    batches = list(read_nodes(source, node_type=node_type))
    assert [name for batch in batches for name in batch.ids.to_pylist()] == TABLE.column("name").to_pylist()
    assert np.concatenate([batch.features["w"].values for batch in batches]).tolist() == [0.5] * 1000
    assert next(read_nodes(source, node_type=node_type, features=False)).features == {}


def test_a_file_is_told_by_its_name_or_its_first_bytes(tmp_path):
    for name in ("edges.arrow", "edges.ipc", "edges.feather", "edges.dat"):
        with pa.ipc.new_file(tmp_path / name, TABLE.schema) as writer:
            writer.write_table(TABLE)
        assert read(EdgeSource(tmp_path / name))[0] == list(range(1000))
    with pa.ipc.new_stream(tmp_path / "stream", TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert read(EdgeSource(tmp_path / "stream", format="arrow"))[0] == list(range(1000))


def test_what_is_no_arrow_file_is_refused(tmp_path):
    path = tmp_path / "edges.arrow"
    path.write_bytes(b"1,2\n3,4\n")
    assert "not a readable Arrow file" in refusal(EdgeSource(path))
    path.write_bytes(b"FEA1" + bytes(60))
    assert "is Feather version 1; write it again as version 2" in refusal(EdgeSource(path))


def test_a_cut_off_file_is_refused(arrow_file):
    path = arrow_file(TABLE)
    whole = path.read_bytes()
    for size in (len(whole) - 10, len(whole) // 2, 100):
        path.write_bytes(whole[:size])
        message = refusal(EdgeSource(path, src="u", dst="i"))
        assert "not a readable Arrow file" in message or "damaged" in message


def test_offsets_that_point_astray_are_refused_before_they_are_followed(tmp_path):
    path = tmp_path / "names.arrow"
    offsets = np.array([0, 2, 1 << 30, 6], np.int32)
    names = pa.StringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(b"aabbcc"))
    with pa.ipc.new_file(path, pa.schema({"id": pa.string()})) as writer:
        writer.write_batch(pa.RecordBatch.from_arrays([names], ["id"]))
    with pytest.raises(BadInput, match="damaged in rows 1 to 3"):
        list(read_nodes(NodeSource(path), node_type=NAMED))
