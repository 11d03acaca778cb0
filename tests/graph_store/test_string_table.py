"""A table of strings against a dict, around the length up to which their bytes are in its slots."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.dictionary import LISTED, NODE
from graph_store.string_ids import hash_strings, string_buffers, word_at
from graph_store.string_table import SLOT_BYTES, StringTable, most_strings

ALL = 2**64 - 1
# Few letters, so that many begin alike; 24 bytes are the longest that a slot holds.
TEXT = st.text("aé\0", max_size=30) | st.integers(20, 28).map(lambda size: "a" * size)


def buffers(texts, mask):
    starts, data = string_buffers(pa.array(texts, pa.large_string()), "user")
    return starts, data, hash_strings(starts, data, mask)


def strings_of(table):
    numbers = np.arange(table.used, dtype=np.uint32)
    hashes, flags = table.entries()
    lengths = table.lengths(numbers)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    out = np.empty(int(starts[-1]), np.uint8)
    table.copy(numbers, starts[:-1], out)
    texts = [out[low:high].tobytes().decode() for low, high in zip(starts[:-1], starts[1:])]
    return texts, hashes.tolist(), flags.tolist()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.tuples(st.lists(TEXT, max_size=40), st.sampled_from([0, NODE, NODE | LISTED])), max_size=4),
    st.sampled_from([ALL, 0, 3]),
    st.integers(1, 3),
)
def test_every_string_gets_one_code_in_the_order_of_appearance(batches, mask, parts):
    tables = [StringTable(part, parts, mask) for part in range(parts)]
    expected: dict[str, int] = {}
    for texts, flag in batches:
        strings = buffers(texts, mask)
        codes = np.full(len(texts), 0xFFFFFFFF, np.uint32)
        for table in tables:
            table.add(strings, flag, codes)
        for text, code in zip(texts, codes.tolist()):
            assert expected.setdefault(text, code) == code
    flags = dict.fromkeys(expected, 0)
    for texts, flag in batches:
        for text in texts:
            flags[text] |= flag
    assert sum(table.used for table in tables) == len(expected)
    for part, table in enumerate(tables):
        texts, hashes, found = strings_of(table)
        assert [expected[text] for text in texts] == [number * parts + part for number in range(len(texts))]
        assert hashes == buffers(texts, mask)[2].tolist()
        assert found == [flags[text] for text in texts]


@pytest.mark.parametrize("mask", [ALL, 0xFFF])
def test_a_table_that_grows_keeps_its_strings(mask):
    texts = [f"{number:x}" * (1 + number % 7) for number in range(6000)] + ["z" * 200_000]
    table = StringTable(0, 1, mask)
    codes = np.empty(len(texts), np.uint32)
    number_of = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    for _ in range(2):
        table.add(buffers(texts, mask), NODE, codes)
        assert codes.tolist() == [number_of[text] for text in texts]
    assert strings_of(table)[0] == list(number_of)
    # 200,000 bytes in the pool, and slots for 6,001 strings of which three in four are in use at most.
    assert table.num_bytes >= 200_000 + 6001 * 4 // 3 * SLOT_BYTES


def test_tables_hold_three_quarters_of_their_slots():
    assert most_strings(64 * SLOT_BYTES, 1) == 48
    assert most_strings(127 * SLOT_BYTES, 1) == 48
    assert most_strings(128 * SLOT_BYTES, 2) == 96


@given(st.binary(min_size=1, max_size=20), st.data())
def test_a_word_is_the_next_eight_bytes_before_the_end(data, draw):
    at = draw.draw(st.integers(0, len(data)))
    stop = draw.draw(st.integers(at, len(data)))
    expected = int.from_bytes(data[at : min(at + 8, stop)], "little")
    assert int(word_at(np.frombuffer(data, np.uint8), at, stop)) == expected
