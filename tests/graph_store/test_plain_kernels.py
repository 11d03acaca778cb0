"""Kernels that plain Python runs in a process that has not loaded numba: they answer as the compiled ones do."""

import gc
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graph_store
from graph_store.ids import IdMap
from graph_store.kernels import Kernel, kernel, load_bits, mix64
from graph_store.list_order import sort_lists
from tests import oracles
from tests.graph_store.stores import CLICKS, many_rows

INT64 = st.integers(-(2**63), 2**63 - 1)


@pytest.fixture
def nothing_loaded(monkeypatch):
    """All kernels are as at the start of a process, with so many items left for plain Python; compiling one fails."""

    def use(items):
        monkeypatch.setattr(Kernel, "_loaded", False)
        monkeypatch.setattr(Kernel, "plain_items", items)
        for each in [each for each in gc.get_objects() if type(each) is Kernel]:
            monkeypatch.setattr(each, "_compiled", None)
        monkeypatch.setattr(Kernel, "compiled", lambda self: pytest.fail(f"{self.__name__} was compiled"))

    return use


@pytest.fixture(scope="module", params=["weights", "times", "strings", "undirected", "overlay"])
def store(request, make_store):
    """Stores with each kind of list and id: hubs, sparse and dense ids, strings, edges added later."""
    kind = request.param
    rows = many_rows(2500, weighted=kind == "weights", timed=kind == "times")
    if kind == "strings":
        rows = [(f"u{src}", f"ü{dst}", *rest) for src, dst, *rest in rows]
    if kind == "undirected":
        path = make_store([(src, dst >> 50, *rest) for src, dst, *rest in rows], edge_type="n:to:n", undirected=True)
    else:
        path = make_store(rows, id_type="string" if kind == "strings" else "integer", reverse=True)
    if kind == "overlay":
        with graph_store.GraphWriter(path, fold_rows=0) as writer:
            writer.add_edges(CLICKS, [-7, 1003, 5], [2**50, 3, -(2**62)])
            writer.delete_nodes("user", [1001])
    with graph_store.open(path, threads=1) as opened:
        yield opened


def test_neighbors_and_degrees_are_those_of_the_compiled_kernels(store, nothing_loaded):
    asked = {name: store.ids(store.edge_types[name].src)[::3] for name in store.edge_types}
    expected = {name: store.neighbors(ids, name) for name, ids in asked.items()}
    limited = {name: store.neighbors(ids, name, limit=2) for name, ids in asked.items()}
    nothing_loaded(1 << 20)
    for name, ids in asked.items():
        for found, wanted in zip(store.neighbors(ids, name), expected[name]):
            assert (found is None) == (wanted is None)
            assert wanted is None or (found.dtype == wanted.dtype and np.array_equal(found, wanted))
        for found, wanted in zip(store.neighbors(ids, name, limit=2), limited[name]):
            assert wanted is None or np.array_equal(found, wanted)
        assert np.array_equal(store.degree(ids, name), np.diff(expected[name].indptr))
        assert store.neighbors([], name).indptr.tolist() == [0]


def test_an_unknown_id_is_named_as_ever(store, nothing_loaded):
    name = next(iter(store.edge_types))
    unknown = "nobody" if store.id_map(store.edge_types[name].src).id_type == "string" else 2**60
    nothing_loaded(100)
    with pytest.raises(graph_store.UnknownId, match=str(unknown)):
        store.neighbors([unknown], name)
    with pytest.raises(graph_store.UnknownId, match=str(unknown)):
        store.degree([unknown], name)


def test_a_process_that_goes_on_asking_comes_to_compile(nothing_loaded):
    nothing_loaded(10)
    with Kernel.plainly(6) as first:
        with Kernel.plainly(1) as inner:
            assert (first, inner) == (True, True)
        assert int(mix64(np.uint64(1))) == oracles.mix64(1)
    with Kernel.plainly(4) as second:
        assert not second
        with pytest.raises(pytest.fail.Exception, match="mix64 was compiled"):
            mix64(np.uint64(1))
    with Kernel.plainly(3) as third:
        assert third


def test_nothing_is_plain_once_a_kernel_is_loaded():
    assert int(mix64(np.uint64(1))) == oracles.mix64(1)
    with Kernel.plainly(0) as plain:
        assert not plain


@settings(max_examples=100, deadline=None)
@given(st.lists(INT64, unique=True, max_size=40), st.lists(INT64, max_size=5), st.integers(1, 5))
def test_ids_are_found_as_by_the_compiled_kernels(ids, others, num_shards):
    known = IdMap.build("n", np.sort(np.array(ids, np.int64)), num_shards)
    asked = np.array(ids + others, np.int64)
    nodes, plain = known.find(asked), np.empty(asked.size, np.int64)
    before = [(each, each._compiled) for each in gc.get_objects() if type(each) is Kernel]
    loaded, Kernel._loaded = Kernel._loaded, False
    left, Kernel.plain_items = Kernel.plain_items, 100
    try:
        for each, _ in before:
            each._compiled = None
        with Kernel.plainly(asked.size):
            plain[:] = known.find(asked)
            assert known.to_ids(plain[: len(ids)]).tolist() == ids
            lists = asked.copy()
            sort_lists(np.array([0, len(ids), asked.size]), lists, None, threads=1)
            assert lists.tolist() == sorted(ids) + sorted(others)
    finally:
        Kernel._loaded, Kernel.plain_items = loaded, left
        for each, compiled in before:
            each._compiled = compiled
    assert plain.tolist() == nodes.tolist()


@kernel
def loaded_bits(words, bit):
    return load_bits(words, np.uint64(bit))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=5), st.integers(0, 127))
def test_bits_are_loaded_alike(words, bit):
    array = np.array(words, np.uint64)
    whole = sum(word << 64 * place for place, word in enumerate(words))
    expected = (whole >> bit // 8 * 8 & 2**64 - 1) >> bit % 8
    assert int(load_bits(array, bit)) == int(loaded_bits(array, bit)) == expected


def test_a_kernel_has_the_words_of_its_function_and_the_rest_of_what_numba_made():
    assert (mix64.__name__, mix64.__doc__[:11]) == ("mix64", "Mix 64 bits")
    assert mix64.py_func is mix64.__wrapped__
    assert mix64.targetoptions["nogil"]
    assert not hasattr(mix64, "__dataclass_fields__")


def test_the_first_answer_of_a_process_needs_neither_numba_nor_arrow(make_store):
    path = make_store(many_rows(500))
    code = f"""import sys, graph_store
with graph_store.open({str(path)!r}) as store:
    print(store.neighbors([1000]).ids.size, store.degree([1003])[0], end=" ")
    print({{"numba", "scipy", "pyarrow"}} & set(sys.modules))
    Kernel = sys.modules["graph_store.kernels"].Kernel
    Kernel.plain_items = 500
    print(store.neighbors([1000]).ids.size, *{{"numba"}} & set(sys.modules))"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["512 1025 set()", "512 numba"]
