"""Arrays that wait: in memory as far as allowed, else in a file, and always as they were."""

import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.spool import Allowance, Spool

DTYPES = [np.uint8, np.uint16, np.uint32, np.int64, np.uint64, np.float32, bool]


@settings(max_examples=50, deadline=None)
@given(
    sizes=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(DTYPES)), max_size=12),
    allowed=st.sampled_from([0, 100, 300, 1 << 20]),
    data=st.data(),
)
def test_arrays_come_back_as_they_were_whole_or_in_part(tmp_path_factory, sizes, allowed, data):
    spool = Spool(tmp_path_factory.mktemp("spool") / "file", Allowance(allowed))
    random = np.random.default_rng(0)
    arrays = [random.integers(0, 2**8, size).astype(dtype) for size, dtype in sizes]
    pieces = [spool.put(array) for array in arrays]
    for array, piece in zip(arrays, pieces):
        assert (piece.size, piece.num_bytes) == (array.size, array.nbytes)
        start = data.draw(st.integers(0, array.size))
        stop = data.draw(st.integers(start, array.size))
        for found, expected in ((spool.get(piece), array), (spool.get(piece, start, stop), array[start:stop])):
            assert found.dtype == array.dtype
            assert np.array_equal(found, expected)
    if allowed == 1 << 20:
        assert spool.in_memory


@pytest.mark.parametrize("allowed", [0, 1 << 20])
def test_room_is_made_and_filled_in_parts(tmp_path, allowed):
    spool = Spool(tmp_path / "file", Allowance(allowed))
    piece, other = spool.reserve(10, np.uint32), spool.put(np.arange(3))
    spool.fill(piece, 7, np.array([7, 8, 9], np.uint32))
    spool.fill(piece, 0, np.arange(7, dtype=np.uint32))
    spool.fill(piece, 4, np.empty(0, np.uint32))
    assert spool.get(piece).tolist() == list(range(10))
    assert spool.get(other).tolist() == [0, 1, 2]
    assert spool.get(spool.reserve(0, np.uint8)).tolist() == []


def test_what_is_let_go_makes_room(tmp_path):
    allowance = Allowance(800)
    spool, other = Spool(tmp_path / "one", allowance), Spool(tmp_path / "other", allowance)
    piece = spool.put(np.zeros(100))
    waiting = other.put(np.ones(100))
    assert spool.in_memory
    assert not other.in_memory
    spool.drop(piece)
    spool.drop(piece)
    later = other.put(np.full(100, 2.0))
    assert later.number >= 0
    assert other.get(waiting).tolist() == [1.0] * 100
    other.close()
    assert spool.put(np.zeros(100)).number >= 0


def test_a_spool_that_is_closed_leaves_no_file(tmp_path):
    spool = Spool(tmp_path / "file", Allowance(0))
    spool.put(np.arange(10))
    assert (tmp_path / "file").exists()
    spool.close()
    spool.close()
    assert list(tmp_path.iterdir()) == []


def test_a_spool_of_another_rank_is_read_and_filled_but_not_removed(tmp_path):
    spool = Spool(tmp_path / "file", Allowance(0))
    piece, room = spool.put(np.arange(10)), spool.reserve(4, np.uint8)
    other = Spool(tmp_path / "file", Allowance(0), own=False)
    assert other.get(piece, 3, 5).tolist() == [3, 4]
    other.fill(room, 1, np.array([5, 6], np.uint8))
    other.fill(room, 0, np.array([4], np.uint8))
    other.fill(room, 3, np.array([7], np.uint8))
    other.close()
    assert spool.get(room).tolist() == [4, 5, 6, 7]


def test_a_file_that_lost_its_end_is_an_error(tmp_path):
    spool = Spool(tmp_path / "file", Allowance(0))
    piece = spool.put(np.arange(100))
    os.truncate(tmp_path / "file", 500)
    with pytest.raises(OSError, match="ends too early"):
        spool.get(piece)
