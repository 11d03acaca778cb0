"""Packed blocks: the checksum, numbers of any width, and lists as an independent reader of the format sees them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store import arena_blocks, blocks, packing
from graph_store.blocks import MAX_BITS, encode, first_bad_record
from graph_store.kernels import kernel, load_bits
from graph_store.packing import CRC_TABLES, bit_length, bit_mask, pack, unpack
from tests.oracles import crc32c, decode, read_bits

INT64 = st.integers(-(2**63), 2**63 - 1)


@kernel
def loaded(words, bit, mask):
    return load_bits(words, np.uint64(bit)) & mask


def crc_of(data):
    words = np.frombuffer(data, np.uint64)
    return int(packing.crc32c(words, 0, words.size, np.uint32(0), CRC_TABLES))


@pytest.mark.parametrize(
    ("data", "expected"),
    [  # RFC 3720, appendix B.4
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(range(31, -1, -1)), 0x113FDB5C),
        (b"", 0),
    ],
    ids=["zeros", "ones", "up", "down", "nothing"],
)
def test_crc32c_gives_the_published_checksums(data, expected):
    assert crc_of(data) == expected
    assert crc32c(data) == expected


def test_crc32c_of_the_digits_one_to_nine_is_the_check_value_of_its_catalogue():
    value = crc_of(b"12345678") ^ 0xFFFFFFFF
    last = (value >> 8) ^ int(CRC_TABLES[0, (value ^ ord("9")) & 0xFF])
    assert last ^ 0xFFFFFFFF == 0xE3069283


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), max_size=20), st.integers(0, 20))
def test_crc32c_may_be_computed_in_parts(values, cut):
    words = np.array(values, np.uint64)
    cut = min(cut, words.size)
    first = packing.crc32c(words, 0, cut, np.uint32(0), CRC_TABLES)
    assert int(packing.crc32c(words, cut, words.size, np.uint32(first), CRC_TABLES)) == crc32c(words.tobytes())


@pytest.mark.parametrize("bits", range(1, 65))
def test_numbers_of_every_width_come_back_from_packed_words(bits):
    random = np.random.default_rng(bits)
    values = random.integers(0, 2**64, 150, dtype=np.uint64) & np.uint64(2**bits - 1)
    values[:3] = 0, 2**bits - 1, 1
    words = np.zeros(values.size * bits // 64 + 2, np.uint64)
    for i, value in enumerate(values):
        pack(words, i * bits, value.view(np.int64))
    whole = int.from_bytes(words.tobytes(), "little")
    assert [whole >> (i * bits) & (2**bits - 1) for i in range(values.size)] == values.tolist()
    mask = np.uint64(bit_mask(bits))
    assert [int(unpack(words, i * bits, mask)) for i in range(values.size)] == values.tolist()
    if bits <= MAX_BITS:
        padded = np.append(words, np.uint64(2**64 - 1))
        assert [int(loaded(padded, i * bits, mask)) for i in range(values.size)] == values.tolist()


def test_bit_length_counts_at_least_one_and_64_for_a_span_past_int64():
    assert [bit_length(value) for value in (0, 1, 2, 3, 4, 255, 256, 2**62, 2**63 - 1)] == [
        1, 1, 2, 2, 3, 8, 9, 63, 63,
    ]  # fmt: skip
    assert [bit_length(value) for value in (-1, -(2**63))] == [64, 64]


def encoded_of(lists, *, bits, weighted=False, timed=False, numbered=False, first=0):
    """Encode lists of (neighbour, weight, time), or of (neighbour, weight, time, edge id)."""
    indptr = np.cumsum([0, *map(len, lists)]).astype(np.int64)
    columns = list(zip(*(entry for entries in lists for entry in entries))) or [(), (), (), ()]
    return encode(
        indptr,
        np.array(columns[0], np.int64),
        np.array(columns[1], np.float32) if weighted else None,
        np.array(columns[2], np.int64) if timed else None,
        np.array(columns[3], np.int64) if numbered else None,
        first=first,
        bits=bits,
    )


def random_lists(degrees, *, bits, weighted, timed, seed, extreme=False, numbered=False):
    random = np.random.default_rng(seed)
    low, high = (-(2**63), 2**63 - 1) if extreme else (-1000, 1000)
    lists = []
    for degree in degrees:
        neighbors = np.sort(random.integers(0, 2**bits, degree))
        weights = random.standard_normal(degree).astype(np.float32).tolist() if weighted else [None] * degree
        times = np.sort(random.integers(low, high, degree, endpoint=True)).tolist() if timed else [None] * degree
        columns = [neighbors.tolist(), weights, times]
        if numbered:
            columns.append(random.integers(0, 2**56, degree).tolist())
        lists.append(list(zip(*columns)))
    return lists


DEGREES = st.lists(st.one_of(st.integers(0, 40), st.sampled_from([0, 511, 512, 513, 1024, 1025])), max_size=60)


@settings(max_examples=40, deadline=None)
@given(DEGREES, st.integers(1, MAX_BITS), st.tuples(*[st.booleans()] * 3), st.integers(0, 5), st.booleans())
def test_a_reader_of_the_format_finds_the_lists_that_were_encoded(degrees, bits, columns, group, extreme):
    kinds = dict(zip(("weighted", "timed", "numbered"), columns))
    lists = random_lists(degrees, bits=bits, seed=len(degrees), extreme=extreme, **kinds)
    encoded = encoded_of(lists, bits=bits, first=16 * group, **kinds)
    assert decode(*encoded) == {16 * group + i: entries for i, entries in enumerate(lists)}
    assert first_bad_record(encoded) == -1
    # The keys ascend, and the records lie one behind the other.
    keys = encoded.records[:, 2:].tolist()
    assert keys == sorted(keys)
    ends = np.cumsum(encoded.records[:, 1])
    assert encoded.records[:, 0].tolist() == [0, *ends.tolist()][:-1]
    assert encoded.words.size == (ends[-1] if ends.size else 0)


@pytest.mark.parametrize("bits", [1, 2, 31, 32, 33, 56, 57])
@pytest.mark.parametrize("timed", [False, True])
def test_hubs_beside_each_other_and_small_nodes_keep_their_lists(bits, timed):
    degrees = [513, 0, 512, 1024, 3, 1025, 1, 5000] + [0] * 8 + [7] * 20
    lists = random_lists(degrees, bits=bits, weighted=True, timed=timed, seed=1, extreme=True)
    encoded = encoded_of(lists, bits=bits, weighted=True, timed=timed)
    assert decode(*encoded) == dict(enumerate(lists))
    # Node 0: 2 chunks, 3: 2, 5: 3, 7: 10, and the group is a block of its own.
    assert [(first, ordinal) for _, _, first, ordinal, _ in encoded.records.tolist()] == (
        [(0, 0)] + [(0, 1)] * 2 + [(0, 2)] * 2 + [(0, 3)] * 3 + [(0, 4)] * 10 + [(16, 0)]
    )


def test_a_node_of_512_edges_is_no_hub_and_one_of_513_is():
    lists = random_lists([512], bits=20, weighted=False, timed=False, seed=2)
    assert encoded_of(lists, bits=20).records.shape[0] == 1
    lists = random_lists([513], bits=20, weighted=False, timed=False, seed=2)
    assert encoded_of(lists, bits=20).records[:, 4].tolist() == [0, 0, 1]


def test_blocks_take_about_4_kib_and_at_most_1024_nodes():
    lists = random_lists([10] * 5000, bits=22, weighted=False, timed=False, seed=3)
    encoded = encoded_of(lists, bits=22)
    # 4096 bytes of 22 bits are 1489 neighbours: 148 whole nodes, cut at a multiple of 16 to 144.
    assert np.diff(encoded.records[:, 2]).tolist() == [144] * 34
    assert encoded.records[:-1, 1].max() <= 512 + 4 + 73 + 1
    empty = encoded_of([[]] * 3000, bits=22)
    assert empty.records[:, 2].tolist() == [0, 1024, 2048]


def test_no_nodes_make_no_records_and_nodes_without_edges_make_blocks():
    assert encoded_of([], bits=5).records.shape == (0, 5)
    assert decode(*encoded_of([[]] * 17, bits=1, weighted=True, timed=True)) == {i: [] for i in range(17)}


@pytest.mark.parametrize("bits", [0, 58, 64, -1])
def test_a_width_that_one_load_cannot_read_is_refused(bits):
    with pytest.raises(ValueError, match="bits must be 1 to 57"):
        encoded_of([[(0, None, None)]], bits=bits)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_flipped_bit_of_any_record_is_found(data):
    lists = random_lists([600, 3, 0, 9] * 5, bits=19, weighted=True, timed=True, seed=4)
    encoded = encoded_of(lists, bits=19, weighted=True, timed=True)
    row = data.draw(st.integers(0, encoded.records.shape[0] - 1))
    offset, length = encoded.records[row, :2].tolist()
    words = encoded.words.copy()
    words[offset + data.draw(st.integers(0, length - 1))] ^= np.uint64(1) << np.uint64(data.draw(st.integers(0, 63)))
    assert first_bad_record(encoded._replace(words=words)) == row


@pytest.mark.parametrize("timed", [False, True])
def test_a_flipped_bit_in_every_word_of_every_record_is_found(timed):
    lists = random_lists([3, 0, 513, 9] + [4] * 40, bits=19, weighted=True, timed=timed, seed=4)
    encoded = encoded_of(lists, bits=19, weighted=True, timed=timed)
    for row, (offset, length) in enumerate(encoded.records[:, :2].tolist()):
        for word in range(offset, offset + length):
            flipped = np.uint64(1) << np.uint64(word * 7 % 64)
            encoded.words[word] ^= flipped
            assert first_bad_record(encoded) == row, word - offset
            encoded.words[word] ^= flipped
    assert first_bad_record(encoded) == -1


def test_every_bit_of_a_header_is_covered():
    encoded = encoded_of([[(1, None, None)]], bits=3)
    for bit in range(4 * 64):
        words = encoded.words.copy()
        words[bit // 64] ^= np.uint64(1) << np.uint64(bit % 64)
        assert first_bad_record(encoded._replace(words=words)) == 0, bit


@pytest.mark.parametrize("word", [0x42415348 | 1 << 32, 0x42415347 | 3 << 32, 0x42415347])
def test_another_magic_or_version_is_refused_even_with_the_right_checksum(word):
    words = encoded_of([[(1, None, None)]], bits=3).words.copy()
    words[0] = words[0] & ~np.uint64(0xFFFFFFFFFF) | np.uint64(word)
    crc = crc32c(words[:3].tobytes() + words[4:].tobytes())
    words[3] = words[3] & ~np.uint64(0xFFFFFFFF) | np.uint64(crc)
    records = np.array([[0, words.size, 0, 0, 0]])
    assert first_bad_record(blocks.Encoded(words, records)) == 0


@pytest.mark.parametrize("bits", range(1, MAX_BITS + 1))
def test_a_hub_of_any_width_is_one_run_in_the_arena(bits):
    # Chunks of 512 end at a word whatever the width, so that the run is what packing the whole list gives.
    lists = random_lists([600, 1537], bits=bits, weighted=True, timed=True, seed=bits)
    encoded = encoded_of(lists, bits=bits, weighted=True, timed=True)
    target = np.zeros(int(arena_blocks.arena_words(encoded.words, encoded.records)), np.uint64)
    table, directory = np.empty((7, 3), np.int64), np.zeros(1, np.int64)
    used, edges = arena_blocks.fill_arena(encoded.words, encoded.records, target, 0, 0, directory, table, 0)
    # Two nodes have three marks, two words; the block begins at word 0 and holds hubs.
    assert (used, edges, table[0].tolist(), directory.tolist()) == (1, 2137, [0, 0, 0], [2 << 13 | bits << 7 | 1 << 6])
    at = int(encoded.records[0, 1])
    for entries in lists:
        neighbors, weights, times = zip(*entries)
        assert read_bits(target, at, len(entries), bits) == list(neighbors)
        at += (len(entries) * bits + 63) // 64 + 1
        assert target[at:].view(np.float32)[: len(entries)].tolist() == list(weights)
        at += (len(entries) + 1) // 2
        time_bits = max(1, (times[-1] - times[0]).bit_length())
        assert [times[0] + value for value in read_bits(target, at, len(entries), time_bits)] == list(times)
        at += (len(entries) * time_bits + 63) // 64 + 1
    assert at == target.size


@pytest.mark.parametrize(("offset", "length"), [(0, 3), (0, 10**6), (-1, 8), (10**6, 8)])
def test_a_record_outside_of_its_words_is_damaged(offset, length):
    encoded = encoded_of([[(1, None, None)]], bits=3)
    records = encoded.records.copy()
    records[0, :2] = offset, length
    assert first_bad_record(encoded._replace(records=records)) == 0


@settings(max_examples=40, deadline=None)
@given(DEGREES, st.tuples(*[st.booleans()] * 3), st.data())
def test_groups_encoded_apart_hold_their_lists_one_block_a_group(degrees, columns, data):
    kinds = dict(zip(("weighted", "timed", "numbered"), columns))
    lists = random_lists(degrees, bits=20, seed=len(degrees), **kinds)
    count = -(-len(lists) // 16)
    groups = sorted(data.draw(st.sets(st.integers(0, max(0, count - 1)), max_size=count)) if count else [])
    chosen = [lists[16 * group : 16 * group + 16] for group in groups]
    flat = [entries for part in chosen for entries in part]
    values = list(zip(*(entry for entries in flat for entry in entries))) or [(), (), (), ()]
    encoded = blocks.encode_groups(
        np.array(groups, np.int64),
        np.cumsum([0, *map(len, flat)]).astype(np.int64),
        np.array(values[0], np.int64),
        np.array(values[1], np.float32) if kinds["weighted"] else None,
        np.array(values[2], np.int64) if kinds["timed"] else None,
        np.array(values[3], np.int64) if kinds["numbered"] else None,
        sizes=np.array([len(part) for part in chosen], np.int64),
        bits=20,
    )
    expected = {16 * group + i: entries for group, part in zip(groups, chosen) for i, entries in enumerate(part)}
    assert decode(*encoded) == expected
    assert encoded.records[encoded.records[:, 3] == 0, 2].tolist() == [16 * group for group in groups]
