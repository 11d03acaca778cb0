"""String ids: compared byte by byte, so that equal hashes are no equal ids."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.errors import UnknownId
from graph_store.ids import nodes_of_ranks
from graph_store.string_dictionary import HashedStrings
from graph_store.string_ids import StringMap, string_buffers
from tests.oracles import GOLDEN, MASK, mix64

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MASKS = [2**64 - 1, 0, 1, 7, 0xFF]


def hash_of(text):
    """Hash UTF-8 bytes, eight at a time, the length last."""
    data = text.encode()
    value = 0x2545F4914F6CDD1D
    for at in range(0, len(data), 8):
        value = mix64(value ^ int.from_bytes(data[at : at + 8], "little")) + GOLDEN & MASK
    return mix64(value ^ len(data))


def assignment(strings, num_shards, mask):
    """Give each string its node by the definition: its rank by (hash as int64, bytes) within its shard."""

    def key(text):
        value = hash_of(text) & mask
        return value - 2**64 if value >> 63 else value, text.encode()

    shards = [[] for _ in range(num_shards)]
    for text in sorted(strings, key=key):
        shards[mix64(hash_of(text) & mask) % num_shards].append(text)
    return {text: i * num_shards + k for k, shard in enumerate(shards) for i, text in enumerate(shard)}


def collected(batches, *, num_shards=3, mask=2**64 - 1, threads=1):
    """Return the map and the node of each string in the order of the batches."""
    ids = HashedStrings("user", hash_mask=mask, threads=threads)
    codes = np.concatenate([np.empty(0, np.uint32), *(ids.add(pa.array(batch, pa.string())) for batch in batches)])
    built, nodes = ids.finish(num_shards)
    return built, nodes[codes.astype(np.int64)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(TEXT, max_size=15), max_size=4), st.sampled_from(MASKS), st.sampled_from([1, 2, 3, 7, 16]))
def test_strings_get_their_nodes_whatever_their_hashes(batches, mask, num_shards):
    built, nodes = collected(batches, num_shards=num_shards, mask=mask)
    flat = [text for batch in batches for text in batch]
    expected = assignment(set(flat), num_shards, mask)
    assert nodes.tolist() == [expected[text] for text in flat]
    assert built.count == len(expected)
    assert built.find(flat).tolist() == nodes.tolist()
    assert built.to_ids(nodes).tolist() == flat
    assert sorted(built.to_ids(nodes_of_ranks(built.base)).tolist()) == sorted(expected)


@pytest.mark.parametrize("mask", MASKS)
def test_unknown_strings_of_a_known_hash_are_unknown(mask):
    built, _ = collected([["a", "b", "ab"]], mask=mask)
    assert built.find(["", "c", "aa", "ab ", "A"]).tolist() == [-1] * 5
    with pytest.raises(UnknownId, match=r"^no user has the id 'c'$"):
        built.to_nodes(["a", "c", "d"])


@pytest.mark.parametrize("threads", [1, 3])
def test_many_long_strings_outgrow_every_first_size(threads):
    texts = [f"{i:x}" * (1 + i % 90) for i in range(5000)] + ["z" * 300_000]
    built, nodes = collected([texts[:1], texts[:4000], texts], threads=threads)
    distinct = list(dict.fromkeys(texts))
    assert built.count == len(distinct)
    assert built.to_ids(nodes[-len(texts) :]).tolist() == texts
    assert built.to_ids(built.to_nodes(distinct)).tolist() == distinct


def test_the_assignment_is_a_function_of_the_set_not_of_the_order():
    texts = [f"user-{i}" for i in range(500)]
    one, _ = collected([texts], num_shards=7)
    other, _ = collected([texts[::-1], texts[100:200]], num_shards=7)
    for name, section in one.sections.items():
        assert np.array_equal(section, other.sections[name]), name


@pytest.mark.parametrize("texts", [["a", "ü", "日本", "", "x" * 100], []])
def test_restoring_from_the_bytes_gives_the_same_map(texts):
    built, _ = collected([texts])
    restored = StringMap.restore_strings("user", built.offsets.copy(), built.originals.copy(), built.base.copy())
    for name, section in built.sections.items():
        assert np.array_equal(section, restored.sections[name]), name


@pytest.mark.parametrize(
    "strings",
    [
        pa.array(["zero", "a", "ü", ""]).slice(1),
        pa.array(["zero", "a", "ü", "", "more"], pa.large_string()).slice(1, 3),
        pa.chunked_array([["a"], [], ["ü", ""]]),
        pa.array(["a", "ü", ""]).dictionary_encode(),
        ["a", "ü", ""],
        np.array(["a", "ü", ""]),
    ],
    ids=["slice", "large", "chunked", "dictionary", "list", "numpy"],
)
def test_strings_are_taken_in_every_form(strings):
    offsets, data = string_buffers(strings, "user")
    assert [bytes(data[start:stop]).decode() for start, stop in zip(offsets, offsets[1:])] == ["a", "ü", ""]


def test_one_string_for_a_list_of_strings_is_refused():
    built, _ = collected([["a", "b"]])
    with pytest.raises(TypeError, match="a sequence of strings, got one string 'ab'"):
        built.to_nodes("ab")


@pytest.mark.parametrize(
    ("ids", "found"),
    [([5], "int: 5"), ([None], "NoneType: None"), (["a", b"b"], "bytes: b'b'"), ([1.5], "float: 1.5")],
)
def test_ids_of_another_kind_are_refused(ids, found):
    built, _ = collected([["a", "5", "None", "b'b'", "1.5"]])
    with pytest.raises(TypeError, match=f"^ids of user are strings, got {found}$"):
        built.find(ids)


@pytest.mark.parametrize("ids", [pa.array([5]), pa.array([b"a"]), pa.array([True])])
def test_arrow_arrays_of_another_kind_are_refused(ids):
    built, _ = collected([["a", "5", "true"]])
    with pytest.raises(TypeError, match=f"^ids of user are strings, got Arrow {ids.type}$"):
        built.find(ids)


def test_a_null_is_no_string():
    built, _ = collected([["a", ""]])
    with pytest.raises(TypeError, match=r"^ids of user are strings, got a null at position 1$"):
        built.find(pa.array(["a", None]))


def test_empty_batches_and_batches_of_empty_strings_give_codes():
    ids = HashedStrings("user")
    assert ids.add(pa.array([], pa.string())).tolist() == []
    assert ids.add(pa.array(["", "", "b"])).tolist() == [0, 0, 1]
    assert ids.add(pa.array(["b", "zero", ""], pa.large_string()).slice(0, 0)).tolist() == []
    assert ids.add(pa.array(["x", "b", "zero", ""], pa.large_string()).slice(1)).tolist() == [1, 2, 0]
    assert ids.add(pa.chunked_array([["", "b"], [], ["zero", "é"]])).tolist() == [0, 1, 2, 3]
    built = ids.finish(2)[0]
    assert sorted(built.to_ids(nodes_of_ranks(built.base)).tolist()) == ["", "b", "zero", "é"]


def test_strings_that_differ_in_bytes_alone_are_other_ids():
    # Composed and decomposed ü, prefixes, a zero byte at the end, and lengths around the hash's word of eight.
    texts = ["\u00fc", "u\u0308", "a", "a\0", "a\0\0", "1234567", "12345678", "123456789", "12345678\0", "日", "日本"]
    for mask in MASKS:
        built, nodes = collected([texts], mask=mask)
        assert np.unique(nodes).size == built.count == len(texts)
        assert built.to_ids(built.to_nodes(texts[::-1])).tolist() == texts[::-1]


def test_a_node_that_is_none_has_no_string():
    built, _ = collected([["a", "b", "c"]], num_shards=2)
    for node in (-1, 2 * 3, 2 * 3 + 1):
        with pytest.raises(ValueError, match=f"node {node} is none of 3"):
            built.to_ids(np.array([node]))


def test_no_strings_are_no_nodes():
    built, nodes = collected([])
    assert (built.count, nodes.size) == (0, 0)
    assert built.find(["a"]).tolist() == [-1]
    for nothing in ([], (), pa.array([]), pa.array([], pa.string()), np.array([], str), np.array([])):
        assert built.find(nothing).tolist() == []
    assert built.to_ids(np.empty(0, np.int64)).tolist() == []
