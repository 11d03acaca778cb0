"""Tables of features: values in and out, builders, records in shards and the arena."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.arena import ArenaFile
from graph_store.errors import CorruptBlock
from graph_store.feature_builder import FeatureBuilder
from graph_store.feature_records import (
    EDGES,
    NODES,
    dictionary_piece,
    piece_rows,
    prefix,
    read_tables,
    records_of_shard,
    tables_from_shards,
    write_tables,
)
from graph_store.feature_table import FeatureTables
from graph_store.feature_type import FeatureType
from graph_store.features import concatenate, stored, take, values_of
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.row_batch import Column

VECTOR = FeatureType("x", "vector", "float32", dim=3)
QUANTISED = FeatureType("q", "vector", "int8", dim=2, scale=0.5)
HALF = FeatureType("h", "vector", "float16", dim=2)
PRICE = FeatureType("price", "scalar", "int32")
BRAND = FeatureType("brand", "category")
TAGS = FeatureType("tags", "ids")
TITLE = FeatureType("title", "string")
ALL = [VECTOR, QUANTISED, HALF, PRICE, BRAND, TAGS, TITLE]
GIVEN = {
    "x": [[1, 2, 3], None, [-1, 0.5, 2.25]],
    "q": [[1.5, -3], [0, 63.5], None],
    "h": [[0.5, 1], [2, 3], [4, 5]],
    "price": [7, None, -(2**31)],
    "brand": ["zeta", "älpha", None],
    "tags": [[2**62, 1, 1], [], None],
    "title": ["", 'a, "b"\n', None],
}


def plain(feature, found):
    """Return values as Python objects, None where absent."""
    there = found.present.tolist()
    if found.indptr is not None:
        rows = [found.values[low:high].tolist() for low, high in zip(found.indptr[:-1], found.indptr[1:])]
    else:
        rows = found.values.tolist()
    return [row if present else None for row, present in zip(rows, there)]


def tables_of(values=GIVEN, features=ALL):
    return [stored(feature, values[feature.name], len(values[feature.name])) for feature in features]


@pytest.mark.parametrize("feature", ALL, ids=lambda feature: feature.name)
def test_values_come_back_as_they_were_given(feature):
    given = GIVEN[feature.name]
    sections = stored(feature, given, len(given))
    assert plain(feature, values_of(feature, sections)) == given
    twice = concatenate(feature, [sections, take(feature, sections, np.array([2, -1, 0]))])
    assert plain(feature, values_of(feature, twice)) == [*given, given[2], None, given[0]]
    none = take(feature, sections, np.empty(0, np.int64))
    assert plain(feature, values_of(feature, none)) == []


def test_int8_vectors_are_stored_divided_by_their_scale():
    sections = stored(QUANTISED, [[1.5, -63.5]], 1)
    assert sections["values"].dtype == np.int8
    assert sections["values"].tolist() == [3, -127]
    assert stored(QUANTISED, np.array([[3, -127]], np.int8), 1)["values"].tolist() == [3, -127]
    assert values_of(QUANTISED, sections).values.dtype == np.float32


@pytest.mark.parametrize(
    ("feature", "values", "match"),
    [
        (VECTOR, [[1, 2]], r"'x': expected numbers of shape \[1, 3\], got int64 \[1, 2\]"),
        (VECTOR, [["a", "b", "c"]], "'x': expected numbers of shape"),
        (QUANTISED, [[64, 0]], "'q': 128.0 is no int8: expected whole numbers from -127 to 127 after division"),
        (HALF, [[1e6, 0]], "'h': a value is out of the range of float16"),
        (PRICE, [2**31], "'price': 2147483648 is no int32: expected whole numbers from -2147483648 to 2147483647"),
        (PRICE, [1.5], "'price': 1.5 is no int32"),
        (BRAND, [3], "'brand': row 0 is 3, expected a string or None"),
        (BRAND, "word", "'brand': expected 1 values in a sequence, got str"),
        (TAGS, [[1.5]], r"'tags': row 0 is \[1.5\], expected a list of integers"),
        (TITLE, ["a", "b"], "'title': expected 1 values in a sequence, got list of 2"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(feature, values, match):
    with pytest.raises((TypeError, ValueError), match=match):
        stored(feature, values, 1)


def test_arrow_arrays_are_taken():
    assert plain(TITLE, values_of(TITLE, stored(TITLE, pa.array(["a", None]), 2))) == ["a", None]
    assert plain(TAGS, values_of(TAGS, stored(TAGS, pa.array([[1], None]), 2))) == [[1], None]


def column_of(feature, values):
    """Return values as the readers hand them over."""
    sections = stored(feature, values, len(values))
    present = sections["present"].astype(bool)
    if feature.kind in ("vector", "scalar"):
        shape = (len(values), feature.dim) if feature.dim else (len(values),)
        return Column(sections["values"].reshape(shape), None, present)
    if feature.kind == "category":
        texts = ["" if value is None else value for value in values]
        sections = stored(FeatureType("t", "string"), texts, len(values))
    return Column(sections["values"], sections["starts"], present)


@pytest.mark.parametrize("feature", ALL, ids=lambda feature: feature.name)
def test_a_builder_puts_values_in_the_order_of_their_rows_and_keeps_the_last(tmp_path, feature):
    given = GIVEN[feature.name]
    builder = FeatureBuilder(feature, tmp_path, rows=6)
    builder.add(np.array([4, 0, 2]), column_of(feature, [given[0], given[1], given[2]]))
    builder.add(np.array([0, -1]), column_of(feature, [given[0], given[1]]))
    expected = [given[0], None, given[2], None, given[0], None]
    assert plain(feature, values_of(feature, builder.sections())) == expected


def test_the_words_of_a_category_are_in_order_whatever_the_order_of_the_input(tmp_path):
    found = []
    for name, order in (("a", [0, 1, 2, 3]), ("b", [3, 1, 0, 2])):
        (tmp_path / name).mkdir()
        builder = FeatureBuilder(BRAND, tmp_path / name)
        words = ["kiwi", "apple", "kiwi", "fig"]
        for row in order:
            builder.add(np.array([row]), column_of(BRAND, [words[row]]))
        found.append({key: part.tolist() for key, part in builder.sections().items()})
    assert found[0] == found[1]
    assert bytes(found[0]["words"]) == b"applefigkiwi"
    assert found[0]["values"] == [2, 0, 2, 1]


def in_shards(features, tables, kind, *, num_shards, base):
    """Put tables into pretended shards; returns what `tables_from_shards` reads them by."""
    held: list[dict] = [{} for _ in range(num_shards)]
    for shard in range(num_shards):
        where = num_shards if kind == EDGES else base
        for key, piece in records_of_shard(features, tables, kind, 7, shard=shard, base=where):
            assert key not in held[shard]
            held[shard][key] = piece
    for place, (feature, table) in enumerate(zip(features, tables)):
        if feature.kind == "category":
            held[0][b"w" + prefix(kind, 7, place) + bytes(8)] = dictionary_piece(table)

    def read(shard, family, key):
        return [(at, held[shard][at], f"shard {shard}") for at in sorted(held[shard]) if at.startswith(key)]

    return held, read


def equal(first, second):
    assert len(first) == len(second)
    for one, other in zip(first, second):
        assert one.keys() == other.keys()
        for name in one:
            assert one[name].dtype == other[name].dtype, name
            assert np.array_equal(one[name], other[name]), name


def random_tables(rows, seed):
    random = np.random.default_rng(seed)
    values = {
        "x": random.standard_normal((rows, 3)).astype(np.float32),
        "q": random.integers(-127, 128, (rows, 2)).astype(np.int8),
        "h": random.standard_normal((rows, 2)).astype(np.float16),
        "price": random.integers(-1000, 1000, rows),
        "brand": [f"brand {number}" for number in random.integers(0, 5, rows)],
        "tags": [random.integers(0, 9, size).tolist() for size in random.integers(0, 4, rows)],
        "title": ["é" * size for size in random.integers(0, 4, rows)],
    }
    tables = [stored(feature, values[feature.name], rows, random.random(rows) < 0.9) for feature in ALL]
    return [concatenate(feature, [table]) for feature, table in zip(ALL, tables)]


def of(features):
    return [{"name": f.name, "kind": f.kind, "dtype": f.dtype, "dim": f.dim, "scale": f.scale} for f in features]


@settings(max_examples=10, deadline=None)
@given(counts=st.lists(st.integers(0, 3000), min_size=1, max_size=4))
def test_features_of_nodes_come_back_from_their_shards(counts):
    tables = random_tables(sum(counts), len(counts))
    base = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    _, read = in_shards(ALL, tables, NODES, num_shards=len(counts), base=base)
    entry = StoredNodeType("item", "integer", sum(counts), counts, of(ALL))
    equal(tables_from_shards(entry, NODES, 7, len(counts), read), tables)


@settings(max_examples=10, deadline=None)
@given(rows=st.sampled_from([0, 1, 1023, 1024, 5000, 40_000]), num_shards=st.sampled_from([1, 2, 3]))
def test_features_of_edges_come_back_from_their_shards(rows, num_shards):
    features = [PRICE, TAGS, BRAND]
    random = np.random.default_rng(rows)
    values = {
        "price": random.integers(0, 9, rows),
        "tags": [[int(value)] for value in random.integers(0, 9, rows)],
        "brand": ["a"] * rows,
    }
    tables = tables_of(values, features)
    held, read = in_shards(features, tables, EDGES, num_shards=num_shards, base=None)
    entry = StoredEdgeType("a:b:a", False, None, False, False, 3, 0, 0, 0, 0, rows, of(features))
    equal(tables_from_shards(entry, EDGES, 7, num_shards, read), tables)
    if rows > piece_rows(PRICE) * num_shards:
        assert all(held)


def test_a_damaged_or_missing_piece_is_named():
    tables = tables_of()
    base = np.array([0, 3])
    held, read = in_shards(ALL, tables, NODES, num_shards=1, base=base)
    entry = StoredNodeType("item", "integer", 3, [3], of(ALL))
    for key in list(held[0]):
        whole = held[0][key]
        held[0][key] = whole[:-1] + bytes([whole[-1] ^ 1])
        with pytest.raises(CorruptBlock, match="shard 0: damaged"):
            tables_from_shards(entry, NODES, 7, 1, read)
        del held[0][key]
        with pytest.raises(CorruptBlock, match=r"the manifest says 3|dictionary of feature 'brand' is missing"):
            tables_from_shards(entry, NODES, 7, 1, read)
        held[0][key] = whole


def test_the_arena_file_holds_all_features_of_a_type(tmp_path):
    tables = random_tables(100, 3)
    write_tables(tmp_path / "features", tables)
    equal(read_tables(tmp_path / "features", len(ALL))[0], tables)
    assert ArenaFile(tmp_path / "features").damaged_sections() == []


def test_changed_rows_hide_those_of_the_base():
    tables = tables_of()
    changed = {}
    for place, feature in enumerate(ALL):
        changed[place] = stored(feature, [GIVEN[feature.name][0], None], 2) | {"nodes": np.array([12, 30])}
    view = FeatureTables("item", ALL, tables, lambda nodes: np.where(nodes < 30, nodes - 11, -1), changed)
    for feature in ALL:
        given = GIVEN[feature.name]
        found = plain(feature, view.values(feature.name, np.array([13, 30, 12, 11])))
        assert found == [given[2], None, given[0], given[0]]
