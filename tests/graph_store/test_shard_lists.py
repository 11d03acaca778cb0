"""Rows of a shard → lists in ranges → records and the arena file: as if all came at once."""

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.arena import ArenaFile
from graph_store.arena_layout import Section, joined_sums, write_part
from graph_store.blocks import encode
from graph_store.edge_file import EdgeFile
from graph_store.edge_lists import EqualEdges, Lists, Rows
from graph_store.list_encoder import ListEncoder
from graph_store.resident import write_edges
from graph_store.row_chunks import Columns, both_ways, parts_of, put_block
from graph_store.section_check import PART_BYTES
from graph_store.shard_lists import Layout, ListBuilder
from graph_store.spool import Allowance, Spool
from graph_store.valued_lists import build_lists


def random_rows(random, num_rows, num_locals, num_types, *, weighted, timed, numbered):
    """Return sources (local ids of one shard), targets and columns."""
    local = (num_locals * random.random(num_rows) ** 3).astype(np.uint32)
    nodes = random.integers(0, 500, num_rows).astype(np.uint32)
    kinds = random.integers(0, num_types, num_rows).astype(np.uint16) if num_types > 1 else None
    weights = random.integers(0, 9, num_rows).astype(np.float32) if weighted else None
    times = random.integers(-2, 3, num_rows) if timed else None
    return local, nodes, Columns(kinds, weights, times, np.arange(num_rows) if numbered else None)


@pytest.mark.parametrize(("weighted", "timed", "numbered"), [(0, 0, 0), (1, 0, 0), (0, 1, 1), (1, 1, 1)])
@pytest.mark.parametrize("num_types", [1, 3])
@pytest.mark.parametrize("rule", ["first", "all"])
def test_lists_in_ranges_are_those_made_at_once(tmp_path, weighted, timed, numbered, num_types, rule):
    random = np.random.default_rng(7)
    num_locals, padded = 205, 208
    local, nodes, columns = random_rows(
        random, 30_000, num_locals, num_types, weighted=weighted, timed=timed, numbered=numbered
    )
    ranks = local.astype(np.uint64) + (0 if columns.kinds is None else columns.kinds * np.uint64(padded))
    expected = build_lists(Rows(ranks, nodes.astype(np.uint64), *columns[1:]), padded * num_types, rule=rule)
    spool = Spool(tmp_path / "rows", Allowance(0))
    blocks = [
        put_block(spool, local[part], nodes[part], columns.take(part), 1)
        for part in np.split(np.arange(30_000), [1, 9000, 20_000])
    ]
    layout = Layout(padded, 9, rule, bool(weighted), bool(timed), bool(numbered))
    for room in (1 << 30, 600_000, 100_000, 20_000, 1):
        builder = ListBuilder(layout, tmp_path, room=room, threads=2)
        built = list(builder.build(parts_of(spool, blocks, 0), 0, padded * num_types))
        assert sum(each.num_rows for each in built) == 30_000
        assert (len(built) == 1) == (room == 1 << 30)
        at = 0
        for each in built:
            size = each.lists.indptr.size - 1
            assert each.low == at
            assert at % 16 == 0
            for found, wanted in zip(each.lists, expected.part(at, at + size)):
                assert (found is None) == (wanted is None)
                assert found is None or np.array_equal(found, wanted)
            at += size
        assert at == padded * num_types
    spool.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("room", [1 << 30, 3000])
@pytest.mark.parametrize("weighted", [False, True])
def test_equal_edges_have_their_rank_in_the_shard(tmp_path, room, weighted):
    spool = Spool(tmp_path / "rows", Allowance(0))
    local, nodes = np.arange(100, dtype=np.uint32), np.arange(100, dtype=np.uint32)
    local, nodes = np.append(local, np.uint32(77)), np.append(nodes, np.uint32(77))
    columns = Columns(np.full(101, 1, np.uint16), np.ones(101, np.float32) if weighted else None)
    parts = parts_of(spool, [put_block(spool, local, nodes, columns, 1)], 0)
    builder = ListBuilder(Layout(112, 7, "error", weighted), tmp_path, room=room, threads=1)
    with pytest.raises(EqualEdges) as caught:
        list(builder.build(parts, 0, 224))
    assert (caught.value.rank, caught.value.node) == (112 + 77, 77)


def lists_with_hubs(random, num_nodes):
    degrees = random.integers(0, 40, num_nodes)
    degrees[random.random(num_nodes) < 0.3] = 0
    degrees[random.random(num_nodes) < 0.01] = 700
    indptr = np.concatenate([[0], np.cumsum(degrees)])
    neighbors = np.sort(random.integers(0, 2**20, indptr[-1]))
    return Lists(indptr, neighbors, random.random(indptr[-1]).astype(np.float32), None, None)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 700), st.lists(st.integers(0, 43), max_size=6), st.integers(0, 2**32), st.integers(1, 3))
def test_blocks_are_cut_as_if_all_lists_came_at_once(num_nodes, cuts, seed, threads):
    lists = lists_with_hubs(np.random.default_rng(seed), num_nodes)
    expected = encode(*lists, bits=20)
    bounds = sorted({0, num_nodes, *(16 * cut for cut in cuts if 16 * cut < num_nodes)})
    encoder, words, records = ListEncoder(20, threads=threads), [], []
    for low, high in zip(bounds, bounds[1:]):
        for encoded in encoder.add(lists.part(low, high), last=high == num_nodes):
            rows = encoded.records.copy()
            rows[:, 0] += sum(part.size for part in words)
            words.append(encoded.words)
            records.append(rows)
    if num_nodes:
        assert np.array_equal(np.concatenate(words), expected.words)
        assert np.array_equal(np.concatenate(records), expected.records)


def test_many_lists_are_packed_by_several_threads_alike():
    lists = lists_with_hubs(np.random.default_rng(1), 40_000)
    one, three = (list(ListEncoder(20, threads=threads).add(lists, last=True)) for threads in (1, 3))
    assert len(one) == 1
    assert len(three) == 3
    assert np.array_equal(np.concatenate([part.words for part in three]), one[0].words)


@pytest.mark.parametrize("num_ranks", [1, 2, 3, 5])
@pytest.mark.parametrize("counts", [[100, 0, 333, 16], [0, 0, 0, 0], [1, 700, 50, 3]])
def test_an_arena_file_made_in_parts_has_the_bytes_of_one_made_at_once(tmp_path, num_ranks, counts):
    random = np.random.default_rng(3)
    pieces = [(shard, lists_with_hubs(random, count)) for shard, count in enumerate(counts) if count]
    encoded = []
    for shard, lists in pieces:
        middle = 16 * (counts[shard] // 32)
        for low, high in ((0, middle), (middle, counts[shard])):
            if low < high:
                encoded.append((shard, encode(*lists.part(low, high), bits=20, first=low)))
    base = np.concatenate([[0], np.cumsum(counts)])
    write_edges(tmp_path / "whole", base, encoded)
    spool = Spool(tmp_path / "tables", Allowance(0))
    bounds = [len(counts) * rank // num_ranks for rank in range(num_ranks + 1)]
    files = [
        EdgeFile(tmp_path / "parts", np.array(counts), range(low, high), spool, rank=rank)
        for rank, (low, high) in enumerate(zip(bounds, bounds[1:]))
    ]
    for file in files:
        for shard, each in encoded:
            if shard in file.shards:
                file.add(shard, each)
    sizes = [file.end() for file in files]
    blocks = np.sum([file.shard_blocks for file in files], axis=0)
    sums = [file.write_part(sizes, blocks) for file in files]
    files[0].seal(sizes, blocks, sums)
    for file in files:
        assert file.sealed
        file.drop()
    assert (tmp_path / "parts").read_bytes() == (tmp_path / "whole").read_bytes()
    assert ArenaFile(tmp_path / "parts").damaged_sections() == []
    spool.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["parts", "whole"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 3 * PART_BYTES), max_size=6), st.binary(min_size=1, max_size=50))
def test_the_checksums_of_parts_are_those_of_the_whole(tmp_path_factory, sizes, text):
    data = np.frombuffer((text * (sum(sizes) // len(text) + 1))[: sum(sizes)], np.uint8)
    path = tmp_path_factory.mktemp("sums") / "file"
    bounds, sums = np.cumsum([0, *sizes]).tolist(), []
    with open(path, "wb") as file:
        for low, high in zip(bounds, bounds[1:]):
            parts = np.split(data[low:high], [(high - low) // 3])
            sums.append(write_part(file.fileno(), Section(data.dtype, data.size, 0), low, parts))
    assert path.read_bytes() == data.tobytes()
    expected = [crc32(data[low : low + PART_BYTES]) for low in range(0, data.size, PART_BYTES)]
    assert joined_sums(sums) == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=40), st.sampled_from([1, 2, 3]))
def test_rows_go_to_the_shard_of_their_source_in_order(tmp_path_factory, pairs, num_shards):
    spool = Spool(tmp_path_factory.mktemp("rows") / "file", Allowance(0))
    src, dst = (np.array([pair[end] for pair in pairs], np.uint32) for end in (0, 1))
    weights = np.arange(len(pairs), dtype=np.float32)
    block = put_block(spool, src, dst, Columns(None, weights), num_shards)
    for shard in range(num_shards):
        expected = [(a // num_shards, b, float(i)) for i, (a, b) in enumerate(pairs) if a % num_shards == shard]
        found = [tuple(zip(*(column.tolist() for column in (local, nodes, columns.weights))))
                 for local, nodes, columns in (part.read() for part in parts_of(spool, [block], shard))]  # fmt: skip
        assert [row for part in found for row in part] == expected


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=40))
def test_both_ways_gives_each_row_and_its_opposite_and_self_loops_once(pairs):
    src, dst = (np.array([pair[end] for pair in pairs], np.uint64) for end in (0, 1))
    expected = []
    for row, (a, b) in enumerate(pairs):
        expected.append((a, b, row))
        if a != b:
            expected.append((b, a, row))
    assert list(zip(*(column.tolist() for column in both_ways(src, dst)))) == expected
