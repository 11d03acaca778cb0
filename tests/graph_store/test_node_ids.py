"""Ids in batches → nodes: dictionaries put away and merged are the set of ids, whatever their limits and order."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.arena import ArenaFile
from graph_store.dictionary import LISTED, NODE
from graph_store.id_collector import IdCollector
from graph_store.id_file import write_id_pieces, write_node_file
from graph_store.ids import IdMap
from graph_store.node_ids import NodeIds
from graph_store.resident import id_pieces
from graph_store.row_chunks import nodes_of
from graph_store.schema import NodeType
from graph_store.shard import id_key
from graph_store.spool import Allowance, Spool
from graph_store.string_dictionary import HashedStrings

EXTREMES = [-(2**63), -1, 0, 1, 2**53 + 1, 2**63 - 1]
NUMBERS = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(0, 300), st.sampled_from(EXTREMES))
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
ROOMS = [1 << 30, 3000]


class Pairs:
    """Stands for a SortedFile."""

    def __init__(self):
        self.pairs = []

    def put(self, key, value):
        self.pairs.append((key, value))


def array_of(batch, id_type):
    return pa.array(batch, pa.large_string()) if id_type == "string" else np.array(batch, np.int64)


def collected(folder, batches, *, id_type="integer", flags=None, limit=1 << 30, dense_limit=0, room=1 << 30, **options):
    """Return the node ids of batches, and the node of each id in their order."""
    num_shards, threads = options.pop("num_shards", 3), options.pop("threads", 1)
    spool = Spool(folder / "ids", Allowance(options.pop("allowance", 1 << 30)))
    collector = IdCollector(
        NodeType("user", id_type),
        spool,
        num_shards=num_shards,
        limit=limit,
        dense_limit=dense_limit,
        threads=threads,
        **options,
    )
    flags = [NODE] * len(batches) if flags is None else flags
    coded = [collector.add(array_of(batch, id_type), flag) for batch, flag in zip(batches, flags)]
    collector.put_away()
    ids = NodeIds(collector, spool, num_shards=num_shards, listed=any(flag != NODE for flag in flags))
    ids.set_counts(ids.merge(range(num_shards), ids.sources, room=room, threads=threads))
    nodes = [nodes_of(ids.table(ids.sources[number]), codes) for number, codes in coded]
    return ids, nodes, coded


def mapped(ids, id_type, num_shards, mask=(1 << 64) - 1):
    """Return the map of a set of ids, made at once."""
    if id_type != "string":
        return IdMap.build("user", np.array(sorted(ids), np.int64), num_shards, id_type)
    strings = HashedStrings("user", hash_mask=mask)
    strings.add(pa.array(sorted(ids), pa.string()))
    return strings.finish(num_shards)[0]


def check(folder, ids, nodes, batches, expected, *, room):
    """Compare node ids, their arena file and their pieces with the map of all ids."""
    assert ids.count == expected.count
    assert ids.base.tolist() == expected.base.tolist()
    for batch, found in zip(batches, nodes):
        kept = np.array(batch, np.int64).view(np.uint64) if expected.id_type == "unsigned" else batch
        assert found.astype(np.int64).tolist() == expected.find(kept).tolist()
    write_node_file(folder / "nodes", ids, room=room)
    sections = ArenaFile(folder / "nodes").sections
    assert list(sections) == list(expected.sections)
    for name, section in expected.sections.items():
        assert sections[name].dtype == section.dtype, name
        assert np.array_equal(sections[name], section), name
    for shard in range(ids.num_shards):
        file = Pairs()
        write_id_pieces(file, 5, ids, shard)
        assert file.pairs == [(id_key(5, first), piece) for first, piece in id_pieces(expected, shard)]


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(NUMBERS, max_size=30), max_size=6),
    limit=st.sampled_from([1, 1 << 30]),
    dense_limit=st.sampled_from([0, 100, 10**6]),
    room=st.sampled_from(ROOMS),
    num_shards=st.sampled_from([1, 2, 7]),
    threads=st.integers(1, 3),
    unsigned=st.booleans(),
)
def test_integers_are_mapped_alike_by_any_limits(
    tmp_path_factory, batches, limit, dense_limit, room, num_shards, threads, unsigned
):
    folder = tmp_path_factory.mktemp("ids")
    id_type = "unsigned" if unsigned else "integer"
    ids, nodes, _ = collected(
        folder,
        batches,
        id_type=id_type,
        limit=limit,
        dense_limit=dense_limit,
        room=room,
        num_shards=num_shards,
        threads=threads,
    )
    expected = mapped({value for batch in batches for value in batch}, id_type, num_shards)
    check(folder, ids, nodes, batches, expected, room=room)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(st.lists(TEXTS, max_size=15), max_size=6),
    limit=st.sampled_from([1, 1 << 30]),
    room=st.sampled_from(ROOMS),
    num_shards=st.sampled_from([1, 3]),
    threads=st.integers(1, 3),
    mask=st.sampled_from([(1 << 64) - 1, 0, 1, 0xFF]),
)
def test_strings_are_mapped_alike_by_any_limits(tmp_path_factory, batches, limit, room, num_shards, threads, mask):
    folder = tmp_path_factory.mktemp("ids")
    ids, nodes, _ = collected(
        folder,
        batches,
        id_type="string",
        limit=limit,
        room=room,
        num_shards=num_shards,
        threads=threads,
        hash_mask=mask,
    )
    expected = mapped({value for batch in batches for value in batch}, "string", num_shards, mask)
    check(folder, ids, nodes, batches, expected, room=room)


@pytest.mark.parametrize("spread", [1, 3, 2**40])
@pytest.mark.parametrize("room", [1 << 30, 20_000])
def test_many_ids_make_the_same_file_in_one_step_or_in_many(tmp_path, spread, room):
    random = np.random.default_rng(0)
    values = random.integers(0, 20_000, 50_000) * spread - 100
    batches = [part.tolist() for part in np.split(values, 10)]
    ids, nodes, _ = collected(tmp_path, batches, limit=100_000, room=room, allowance=0, threads=2)
    assert len(ids.sources) > 1
    check(tmp_path, ids, nodes, batches, mapped(set(values.tolist()), "integer", 3), room=room)


@pytest.mark.parametrize("room", [1 << 30, 100_000])
def test_many_strings_make_the_same_file_in_one_step_or_in_many(tmp_path, room):
    random = np.random.default_rng(0)
    values = [f"{number:x}" * (1 + number % 40) for number in random.integers(0, 9000, 20_000).tolist()]
    batches = [values[low : low + 2000] for low in range(0, 20_000, 2000)]
    ids, nodes, _ = collected(tmp_path, batches, id_type="string", limit=200_000, room=room, allowance=0, threads=2)
    assert len(ids.sources) > 1
    check(tmp_path, ids, nodes, batches, mapped(set(values), "string", 3), room=room)


@settings(max_examples=60, deadline=None)
@given(
    batches=st.lists(
        st.tuples(st.lists(st.integers(-5, 20), max_size=12), st.sampled_from([0, NODE, NODE | LISTED])), max_size=8
    ),
    limit=st.sampled_from([1, 1 << 30]),
    dense_limit=st.sampled_from([0, 1000]),
    room=st.sampled_from(ROOMS),
    strings=st.booleans(),
)
def test_ids_that_nothing_makes_nodes_are_none_and_listed_ones_are_known(
    tmp_path_factory, batches, limit, dense_limit, room, strings
):
    folder = tmp_path_factory.mktemp("ids")
    id_type = "string" if strings else "integer"
    values = [[str(each) for each in batch] if strings else batch for batch, _ in batches]
    flags = [flag for _, flag in batches]
    ids, nodes, coded = collected(
        folder, values, id_type=id_type, flags=flags, limit=limit, dense_limit=dense_limit, room=room
    )
    there = {each for batch, flag in zip(values, flags) if flag for each in batch}
    listed = {each for batch, flag in zip(values, flags) if flag & LISTED for each in batch}
    expected = mapped(there, id_type, 3)
    highest = np.iinfo(np.uint32).max
    assert ids.count == len(there)
    for batch, found, (number, codes) in zip(values, nodes, coded):
        wanted = [highest if node < 0 else node for node in expected.find(batch).tolist()]
        assert found.tolist() == wanted
        if any(flag != NODE for flag in flags):
            assert ids.listed(ids.sources[number])[codes].tolist() == [each in listed for each in batch]
        for each, code in zip(batch, codes.tolist()):
            assert ids.id_of_code(ids.sources[number], code) == each
    for each, node in zip(sorted(there), expected.find(sorted(there)).tolist()):
        assert ids.id_of_node(node) == each


def test_small_ids_are_their_own_codes_until_another_comes(tmp_path):
    batches = [[9_999, 0, 17], [5_000, 17], [10_000], [3, -7, 2**63 - 1, 17]]
    ids, nodes, coded = collected(tmp_path, batches, dense_limit=10_000)
    assert [number for number, _ in coded] == [0, 0, 1, 1]
    assert coded[0][1].tolist() == batches[0]
    check(
        tmp_path, ids, nodes, batches, mapped({each for batch in batches for each in batch}, "integer", 3), room=1 << 30
    )


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_dictionaries_grow(tmp_path, threads):
    random = np.random.default_rng(threads)
    values = random.integers(-(2**63), 2**63 - 1, 60_000, endpoint=True)
    batches = [part.tolist() for part in np.array_split(np.concatenate([values, values[::3], [0, -1]]), 5)]
    ids, nodes, _ = collected(tmp_path, batches, threads=threads)
    assert len(ids.sources) == 1
    check(
        tmp_path, ids, nodes, batches, mapped({each for batch in batches for each in batch}, "integer", 3), room=1 << 30
    )
