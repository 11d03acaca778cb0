"""Threads and memory by address."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparse_tables.kernels import add_floats, copy_floats, fill_floats, num_threads, run_parts


def test_parts_are_called_side_by_side_and_answered_in_order():
    meet = threading.Barrier(3, timeout=30)

    def call(start, stop):
        meet.wait()
        return start, stop

    with ThreadPoolExecutor(2) as pool:
        assert run_parts(call, [0, 4, 4, 9], pool) == [(0, 4), (4, 4), (4, 9)]
    assert run_parts(lambda start, stop: stop - start, [0, 4, 4, 9], None) == [4, 0, 5]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_part_that_fails_is_raised_after_the_others_ended(failing):
    ended = []

    def call(start, stop):
        if start == failing:
            raise RuntimeError(f"part {start}")
        time.sleep(0.05)
        ended.append(start)

    with ThreadPoolExecutor(2) as pool:
        with pytest.raises(RuntimeError, match=f"part {failing}"):
            run_parts(call, [0, 1, 2, 3], pool)
        assert sorted(ended) == [part for part in range(3) if part != failing]


def test_threads_are_those_asked_or_the_cores():
    assert num_threads(3) == 3
    assert num_threads() >= 1


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 64, 100])
def test_floats_are_copied_added_and_filled_to_the_last_and_no_further(length):
    source = np.arange(1, length + 3, dtype=np.float32)
    target = np.full(length + 2, -1, np.float32)
    copy_floats(target.ctypes.data + 4, source.ctypes.data, length)
    assert target.tolist() == [-1, *range(1, length + 1), -1]
    add_floats(target.ctypes.data + 4, source.ctypes.data, length)
    assert target.tolist() == [-1, *range(2, 2 * length + 1, 2), -1]
    fill_floats(target.ctypes.data + 4, 0.5, length)
    assert target.tolist() == [-1, *[0.5] * length, -1]
