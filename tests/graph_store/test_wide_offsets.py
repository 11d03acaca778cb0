"""Graphs of more than 2^31 edges and 2^40 nodes: their offsets and ids, on a virtual base."""

import numpy as np
import pytest

from graph_store.adjacency import Adjacency
from graph_store.arena_blocks import arena_words, check_addressable, directory_entry, fill_arena
from graph_store.blocks import GROUP_NODES, encode
from graph_store.draws import key_of
from graph_store.errors import GraphStoreError
from graph_store.sampling.lists import draw_lists
from graph_store.sampling.neighbors import sample_neighbors
from graph_store.sampling.rule import Rule

FIRST_WORD = 3 << 31  # 48 GiB of words lie before the lists
FIRST_EDGE = 5 << 31
FIRST_LOCAL = 1 << 41
NUM_SHARDS = 2


@pytest.fixture
def adjacency(tmp_path):
    """Two shards whose nodes begin at local id 2^41 and whose words lie far back in a file full of holes."""
    lists = [[2**42 + 3 * number + place for place in range(number % 5)] for number in range(40)]
    lists[7] = [2**42 + place for place in range(1500)]
    indptr = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    neighbors = np.array([node for part in lists for node in part], np.int64)
    encoded = encode(indptr, neighbors, first=FIRST_LOCAL, bits=43)
    size = int(arena_words(encoded.words, encoded.records))
    with open(tmp_path / "words", "wb") as file:
        file.truncate(8 * (FIRST_WORD + 2 * size))
    words = np.memmap(tmp_path / "words", np.uint64, "r+")
    first_group, groups = FIRST_LOCAL // GROUP_NODES, 3
    # Slot = group_base[shard] + group: only the groups that are there have a slot.
    group_base = np.array([-first_group, groups - first_group, 2 * groups - first_group], np.int64)
    directory, blocks = np.zeros(2 * groups, np.int64), np.empty((20, 3), np.int64)
    at, edge, count, starts = FIRST_WORD, FIRST_EDGE, 0, [0]
    for shard in range(NUM_SHARDS):
        target = np.zeros(size, np.uint64)
        used, edge = fill_arena(
            encoded.words, encoded.records, target, at, group_base[shard], directory, blocks[count:], edge
        )
        words[at : at + size] = target
        at, count = at + size, count + used
        starts.append(count)
    sections = {
        "words": words,
        "directory": directory,
        "group_base": group_base,
        "blocks": blocks[:count].ravel(),
        "shard_starts": np.array(starts, np.int64),
        "counts": np.full(NUM_SHARDS, FIRST_LOCAL + 40, np.int64),
        "num_edges": np.array([edge], np.int64),
    }
    return Adjacency(sections, weighted=False, timed=False, threads=1), lists


def nodes_of(shard, numbers):
    return (FIRST_LOCAL + np.asarray(numbers)) * NUM_SHARDS + shard


def test_lists_behind_two_to_the_31_words_hold_ids_above_two_to_the_40(adjacency):
    found, lists = adjacency
    for shard in range(NUM_SHARDS):
        nodes = nodes_of(shard, range(40))
        assert nodes.min() > 2**41
        indptr, neighbors = found.neighbors(nodes)
        assert indptr.tolist() == np.cumsum([0, *map(len, lists)]).tolist()
        assert neighbors.tolist() == [node for part in lists for node in part]
        assert found.has_edges(nodes[[7, 7]], np.array([2**42 + 1499, 2**42 + 1500])).tolist() == [True, False]


def test_edges_have_positions_above_two_to_the_31(adjacency):
    found, lists = adjacency
    total = sum(map(len, lists))
    positions = FIRST_EDGE + np.arange(2 * total)
    assert found.num_edges == FIRST_EDGE + 2 * total
    sources, targets = found.edges_at(positions)
    expected = [
        (int(node), target)
        for shard in range(NUM_SHARDS)
        for node, part in zip(nodes_of(shard, range(40)), lists)
        for target in part
    ]
    assert list(zip(sources.tolist(), targets.tolist())) == expected


def test_samples_come_from_behind_two_to_the_31_words(adjacency):
    found, lists = adjacency
    nodes = nodes_of(1, range(40))
    indptr, drawn = sample_neighbors(found, nodes, 3, seed=1)
    for number, part in enumerate(lists):
        own = drawn[indptr[number] : indptr[number + 1]].tolist()
        assert len(own) == min(3, len(part))
        assert set(own) <= set(part)


@pytest.mark.parametrize(("fanout", "replace"), [(3, False), (3, True), (-1, False)])
def test_sampled_edges_have_positions_above_two_to_the_31(adjacency, fanout, replace):
    found, lists = adjacency
    for shard in range(NUM_SHARDS):
        nodes = nodes_of(shard, range(40))
        units = (nodes * 7 + 1).astype(np.uint64)
        drawn = draw_lists(found, nodes, Rule(fanout, replace), key=key_of(1, 0, 1), units=units, columns=["edge_ids"])
        assert drawn.edge_ids.min() > 2**31
        sources, targets = found.edges_at(drawn.edge_ids)
        assert np.array_equal(sources, np.repeat(nodes, np.diff(drawn.indptr)))
        assert np.array_equal(targets, drawn.neighbors)
        for number, part in enumerate(lists):
            own = drawn.neighbors[drawn.indptr[number] : drawn.indptr[number + 1]].tolist()
            assert set(own) <= set(part)
            assert len(own) == (len(part) if fanout < 0 else 3 * bool(part) if replace else min(3, len(part)))


def test_lists_that_no_directory_entry_can_point_to_are_refused():
    check_addressable(1 << 40)
    with pytest.raises(GraphStoreError, match=r"take 8,796,093,022,216 bytes, at most 8,796,093,022,208 can be"):
        check_addressable((1 << 40) + 1)


def test_a_directory_entry_holds_a_place_far_back():
    header = np.uint64(57 << 48 | 4 << 40)
    entry = int(directory_entry(header, np.int64(1024), np.int64((1 << 40) - 1)))
    assert entry == ((1 << 40) - 1) << 23 | 513 << 13 | 57 << 7 | 1 << 6
    assert entry + 63 < 2**63
