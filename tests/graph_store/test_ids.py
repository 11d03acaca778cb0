"""Integer ids ↔ nodes: exact at the ends of int64, a pure function of the set of ids."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.errors import UnknownId
from graph_store.ids import IdMap, build_index, dense_ranks, nodes_of_ranks, shards_of
from tests import oracles

INT64 = st.integers(-(2**63), 2**63 - 1)
EXTREMES = [-(2**63), -(2**63) + 1, -1, 0, 1, 2**53 + 1, 2**63 - 2, 2**63 - 1]
SHARDS = [1, 2, 3, 7, 16]


def assignment(ids, num_shards):
    """Give each id its node by the definition: its rank among the sorted ids of its shard."""
    shards = [[] for _ in range(num_shards)]
    for value in sorted(ids):
        shards[oracles.mix64(value % 2**64) % num_shards].append(value)
    nodes = {value: i * num_shards + k for k, shard in enumerate(shards) for i, value in enumerate(shard)}
    return nodes, [value for shard in shards for value in shard]


def mapped(ids, num_shards):
    return IdMap.build("user", np.array(sorted(ids), np.int64), num_shards)


@settings(max_examples=50, deadline=None)
@given(st.sets(st.one_of(INT64, st.integers(0, 300), st.sampled_from(EXTREMES))), st.sampled_from(SHARDS))
def test_nodes_are_local_times_shards_plus_shard_of_the_mixed_id(ids, num_shards):
    nodes, dense = assignment(ids, num_shards)
    ids_map = mapped(ids, num_shards)
    assert ids_map.count == len(ids)
    assert ids_map.num_shards == num_shards
    asked = sorted(ids, key=oracles.mix64)
    assert ids_map.to_nodes(asked).tolist() == [nodes[value] for value in asked]
    assert ids_map.to_ids(ids_map.to_nodes(asked)).tolist() == asked
    assert nodes_of_ranks(ids_map.base).tolist() == [nodes[value] for value in dense]
    assert ids_map.to_ids(nodes_of_ranks(ids_map.base)).tolist() == dense
    assert dense_ranks(nodes_of_ranks(ids_map.base), ids_map.base).tolist() == list(range(len(ids)))
    assert shards_of(np.array(asked, np.int64), num_shards).tolist() == [nodes[value] % num_shards for value in asked]


@settings(max_examples=50, deadline=None)
@given(
    st.sets(st.one_of(INT64, st.integers(-50, 50)), max_size=60),
    st.lists(st.one_of(INT64, st.integers(-60, 60), st.sampled_from(EXTREMES)), max_size=60),
)
def test_find_gives_minus_one_for_what_is_no_id(ids, asked):
    nodes, _ = assignment(ids, 3)
    assert mapped(ids, 3).find(asked).tolist() == [nodes.get(value, -1) for value in asked]


@pytest.mark.parametrize(
    "ids",
    [
        range(1000),
        range(-500, 500),
        range(2**63 - 100, 2**63),
        range(-(2**63), -(2**63) + 100),
        [-(2**63), 2**63 - 1],
        range(0, 4000, 4),
        range(0, 4 << 40, 1 << 34),
    ],
)
def test_near_and_far_ids_are_found_alike(ids):
    nodes, _ = assignment(ids, 16)
    ids_map = mapped(ids, 16)
    assert ids_map.find(list(ids)).tolist() == [nodes[value] for value in ids]
    outside = [value for value in (ids[0] - 1, ids[-1] + 1, 12345678901) if -(2**63) <= value < 2**63]
    assert (ids_map.find([value for value in outside if value not in ids]) == -1).all()


def test_restoring_from_the_ids_in_dense_order_gives_the_same_map():
    for ids in (range(100), EXTREMES, []):
        built = mapped(ids, 7)
        restored = IdMap.restore("user", built.originals.copy(), built.base.copy())
        assert built.sections.keys() == restored.sections.keys()
        for name, section in built.sections.items():
            assert np.array_equal(section, restored.sections[name]), name


def test_an_unknown_id_is_named():
    ids_map = mapped([1, 2, 3], 2)
    with pytest.raises(UnknownId, match=r"^no user has the id 77$"):
        ids_map.to_nodes([1, 77, 88])
    with pytest.raises(UnknownId, match=r"^no user has the id -9223372036854775808$"):
        ids_map.to_nodes(np.array([3, -(2**63)]))
    with pytest.raises(UnknownId, match="the id 9223372036854775808"):
        ids_map.to_nodes(np.array([1, 2**63], np.uint64))
    with pytest.raises(UnknownId, match="no user has the id 0"):
        mapped([], 2).to_nodes([0])


@pytest.mark.parametrize("ids", [[2**64], [-1, 2**63], [1, 2**70], [-(2**63) - 1], [np.int64(1), 2**63]])
def test_an_integer_that_no_int64_holds_is_unknown_whatever_numpy_makes_of_it(ids):
    with pytest.raises(UnknownId, match=f"^no user has the id {ids[-1]}$"):
        mapped([-1, 1], 2).to_nodes(ids)


def test_integers_in_an_array_of_objects_are_taken():
    ids_map = mapped([-5, 2**53 + 1], 2)
    assert ids_map.to_ids(ids_map.to_nodes(np.array([2**53 + 1, -5], object))).tolist() == [2**53 + 1, -5]


@pytest.mark.parametrize("ids", [[1.0], ["1"], [None], [True], np.array([1.5]), [1.0, 2**63], [1, None]])
def test_ids_of_another_kind_are_refused(ids):
    with pytest.raises(TypeError, match="ids of user are integers"):
        mapped([1], 2).to_nodes(ids)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint64, np.int64])
def test_every_integer_type_is_taken(dtype):
    ids_map = mapped([1, 2, 100], 2)
    assert ids_map.to_ids(ids_map.to_nodes(np.array([100, 1], dtype))).tolist() == [100, 1]


def test_ids_that_fill_a_quarter_of_their_range_are_found_by_value_others_by_hash():
    # A spread of up to 4 · ids + 1024: 1000 ids in 5024, but not in 5025.
    for spread, by_value in ((5024, True), (5025, False)):
        ids_map = mapped([*range(999), spread - 1], 3)
        assert (ids_map.direct.size, ids_map.index.size) == ((5024, 0) if by_value else (0, 2 * 2049))
        assert ids_map.to_ids(ids_map.to_nodes([spread - 1, 500])).tolist() == [spread - 1, 500]
        assert ids_map.find([999, spread, -1]).tolist() == [-1] * 3


def test_a_node_that_is_none_has_no_id():
    ids_map = mapped(range(10), 3)
    ends = [shard + 3 * size for shard, size in enumerate(np.diff(ids_map.base).tolist())]
    for node in [*ends, -1, -3, -(2**63), 2**63 - 1]:
        for ask in (ids_map.to_ids, lambda nodes: dense_ranks(nodes, ids_map.base)):
            with pytest.raises(ValueError, match=f"node {node} is none of 10"):
                ask(np.array([0, node]))


def test_nodes_that_are_no_integers_have_no_ids():
    with pytest.raises(TypeError, match="nodes must be integers, got float64"):
        mapped(range(10), 3).to_ids([0.0])
    assert mapped(range(10), 3).to_ids([]).tolist() == []


def test_no_ids_are_no_nodes():
    assert mapped([1], 2).to_nodes([]).tolist() == []
    assert mapped([], 5).find([]).tolist() == []


def test_the_spread_of_ids_over_shards_is_even():
    for ids in (np.arange(16_000), np.arange(16_000) * 16, np.arange(16_000) << 40):
        assert abs(oracles.chi_square(np.bincount(shards_of(ids, 16), minlength=16))) < 4


def test_an_index_keeps_equal_keys_apart_in_the_order_of_their_nodes():
    index = build_index(np.array([5, 5, 5]), np.array([3, 1, 2]))
    pairs = index.reshape(-1, 2)
    assert pairs[pairs[:, 1] > 0].tolist() == [[5, 2], [5, 3], [5, 4]]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(INT64, st.integers(0, 100)), max_size=200), st.randoms(use_true_random=False))
def test_an_index_is_a_function_of_the_set_of_its_keys(keys, random):
    pairs = list(zip(keys, range(len(keys))))
    indexes = []
    for _ in range(2):
        random.shuffle(pairs)
        indexes.append(build_index(*(np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))))
    assert np.array_equal(*indexes)
    # As the paper has it: entries in the order of their hashes, each at its home or right behind the one before.
    slots = 1 << ((indexes[0].size // 2).bit_length() - 1)
    expected, behind = [], 0
    for hashed, key, node in sorted((oracles.mix64(~key % 2**64), key, node) for key, node in pairs):
        slot = max(hashed >> (65 - slots.bit_length()), behind)
        expected.append((slot, key, node + 1))
        behind = slot + 1
    rows = indexes[0].reshape(-1, 2)
    found = [(slot, *rows[slot].tolist()) for slot in np.flatnonzero(rows[:, 1])]
    assert found == expected
    assert rows[-1, 1] == 0
    assert slots >= 2 * len(keys)


UINT64 = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 50), st.sampled_from([2**63 - 1, 2**63, 2**64 - 1]))


@settings(max_examples=50, deadline=None)
@given(st.sets(UINT64, max_size=60), st.lists(UINT64, max_size=40), st.sampled_from(SHARDS))
def test_unsigned_ids_are_given_in_and_back_as_uint64(ids, asked, num_shards):
    kept = np.sort(np.array(list(ids), np.uint64).view(np.int64))
    ids_map = IdMap.build("user", kept, num_shards, "unsigned")
    for form in (list(ids), np.array(list(ids), np.uint64), np.array(list(ids), object)):
        back = ids_map.to_ids(ids_map.to_nodes(form))
        assert back.dtype == np.uint64
        assert back.tolist() == list(ids)
    nodes, _ = assignment([value - 2**64 if value >> 63 else value for value in ids], num_shards)
    expected = [nodes.get(value - 2**64 if value >> 63 else value, -1) for value in asked]
    assert ids_map.find(asked).tolist() == expected


@pytest.mark.parametrize("ids", [[-1], [2**64], [1, -5], np.array([-3]), [np.int64(-1), 2**63], [2**63, 2**64]])
def test_an_id_that_no_uint64_holds_is_unknown_to_unsigned_ids(ids):
    ids_map = IdMap.build("user", np.array([1, 2]), 2, "unsigned")
    with pytest.raises(UnknownId, match=r"no user has the id (-|18446744073709551616)"):
        ids_map.find(ids)


def test_signed_ids_given_to_unsigned_ones_are_taken_by_value():
    ids_map = IdMap.build("user", np.array([-1, 1, 2]), 2, "unsigned")  # the first is 2^64 - 1
    assert ids_map.to_ids(ids_map.to_nodes(np.array([1, 2], np.int8))).tolist() == [1, 2]
    assert ids_map.to_ids(ids_map.to_nodes([2**64 - 1])).tolist() == [2**64 - 1]
    with pytest.raises(UnknownId, match="no user has the id 3"):
        ids_map.to_nodes(np.array([1, 3], np.uint64))
    with pytest.raises(TypeError, match="float"):
        ids_map.find([1.0])


@pytest.mark.parametrize("num_shards", [1, 3, 4])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 127, 128, 129, 200])
def test_ids_of_many_nodes_are_those_of_each(num_shards, size):
    nodes, _ = assignment(range(-50, 250), num_shards)
    ids = np.random.default_rng(size).integers(-50, 250, size)
    ids_map = mapped(range(-50, 250), num_shards)
    asked = np.array([nodes[value] for value in ids.tolist()])
    assert ids_map.to_ids(asked).tolist() == ids.tolist()
    assert ids_map.to_ids(asked[::-1].reshape(1, -1)).tolist() == [ids[::-1].tolist()]
    asked[size * 2 // 3] = 300 * num_shards
    with pytest.raises(ValueError, match=f"node {300 * num_shards} is none of 300"):
        ids_map.to_ids(asked)
