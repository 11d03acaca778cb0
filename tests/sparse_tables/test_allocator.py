"""Where memory comes from."""

import errno
import os
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparse_tables import SharedAllocator, private_allocator


@pytest.mark.parametrize("num_bytes", [1, 64, 100, 4096, (2 << 20) - 1, 2 << 20, 5_000_001])
def test_private_memory_is_zeroed_aligned_and_of_the_size_asked(num_bytes):
    array = private_allocator.allocate(num_bytes)
    assert array.dtype == np.uint8
    assert array.shape == (num_bytes,)
    assert array.ctypes.data % 64 == 0
    assert not array.any()
    array[:] = 1
    private_allocator.release(array)


@pytest.mark.parametrize("num_bytes", [1, 100, 5_000_001])
def test_shared_memory_is_zeroed_aligned_and_of_the_size_asked(num_bytes):
    allocator = SharedAllocator()
    array = allocator.allocate(num_bytes)
    assert array.shape == (num_bytes,)
    assert array.ctypes.data % 64 == 0
    assert not array.any()
    array[:] = 1
    path = allocator.folder / allocator.segment(array)
    assert path.stat().st_size == num_bytes
    allocator.release(array)
    assert not path.exists()
    assert array.all()
    allocator.close()


def test_a_folder_in_use_is_not_taken(tmp_path):
    with pytest.raises(FileExistsError):
        SharedAllocator(tmp_path)


def test_threads_that_allocate_at_once_get_segments_of_their_own():
    allocator = SharedAllocator()
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            arrays = list(pool.map(lambda _: allocator.allocate(64), range(2000)))
    finally:
        sys.setswitchinterval(interval)
    assert len({allocator.segment(array) for array in arrays}) == 2000
    allocator.close()


def test_an_allocation_that_finds_no_room_leaves_no_file(monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    allocator = SharedAllocator()
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space left"):
        allocator.allocate(100)
    assert list(allocator.folder.iterdir()) == []
    allocator.close()
