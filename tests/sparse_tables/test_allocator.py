"""Where memory comes from."""

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
