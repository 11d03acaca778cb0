"""What kernels share: mixing, prefetching, and threads over ranges."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_store.kernels import kernel, mix64, num_threads, prefetch, run_ranges
from tests import oracles

UINT64 = st.integers(0, 2**64 - 1)


@kernel
def sum_with_prefetch(values, ahead):
    total = 0
    for i in range(values.size):
        prefetch(values, i + ahead)
        total += values[i]
    return total


def unmix64(value):
    """Undo mix64: xor-shifts by repeating them, products by the inverses of the odd factors."""
    mask = 2**64 - 1
    value ^= value >> 31 ^ value >> 62
    value = value * pow(0x94D049BB133111EB, -1, 2**64) & mask
    value ^= value >> 27 ^ value >> 54
    value = value * pow(0xBF58476D1CE4E5B9, -1, 2**64) & mask
    return value ^ value >> 30 ^ value >> 60


def test_mix64_of_the_states_of_splitmix64_gives_its_published_outputs():
    golden = 0x9E3779B97F4A7C15
    published = [6457827717110365317, 3203168211198807973, 9817491932198370423]
    states = [(1234567 + number * golden) % 2**64 for number in (1, 2, 3)]
    assert [int(mix64(np.uint64(state))) for state in states] == published
    assert int(mix64(np.uint64(0))) == 0


@settings(max_examples=200, deadline=None)
@given(UINT64)
def test_mix64_is_a_bijection_of_64_bits(value):
    mixed = int(mix64(np.uint64(value)))
    assert mixed == oracles.mix64(value)
    assert unmix64(mixed) == value


@pytest.mark.parametrize("bit", range(0, 64, 9))
def test_a_flipped_bit_flips_about_half_of_the_mixed_bits(bit):
    random = np.random.default_rng(bit)
    flips = [
        (int(mix64(np.uint64(value))) ^ int(mix64(np.uint64(value ^ 1 << bit)))).bit_count()
        for value in random.integers(0, 2**64, 1000, dtype=np.uint64).tolist()
    ]
    # Of 1000 values 64 bits each: 32 on average, the mean within 5 of its deviations (4 / √1000).
    assert abs(np.mean(flips) - 32) < 0.64


@pytest.mark.parametrize("ahead", [0, 1, 64, -(10**6), 10**9, 2**40])
def test_a_prefetch_outside_of_its_array_does_nothing(ahead):
    assert sum_with_prefetch(np.arange(100), ahead) == 4950


def test_num_threads_is_what_was_asked_or_the_cores_of_the_process():
    assert [num_threads(threads) for threads in (1, 7, 0, -3)] == [1, 7, 1, 1]
    assert num_threads() == num_threads(None) == len(os.sched_getaffinity(0))


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 300), st.integers(1, 9), st.integers(1, 100))
def test_ranges_follow_each_other_and_cover_the_length(length, threads, grain):
    ranges = run_ranges(lambda start, stop: (start, stop), length, threads=threads, grain=grain)
    assert ranges[0][0] == 0
    assert ranges[-1][1] == length
    assert [stop for _, stop in ranges[:-1]] == [start for start, _ in ranges[1:]]
    assert len(ranges) <= threads
    sizes = [stop - start for start, stop in ranges]
    assert max(sizes) - min(sizes) <= 1
    assert len(sizes) == 1 or min(sizes) >= grain // 2


def test_each_range_runs_in_a_thread_of_its_own_the_first_on_the_calling_one():
    together = threading.Barrier(3, timeout=30)

    def call(start, stop):
        together.wait()
        return threading.get_ident()

    idents = run_ranges(call, 3, threads=3, grain=1)
    assert len(set(idents)) == 3
    assert idents[0] == threading.get_ident()
    # Below a grain nothing leaves the calling thread.
    assert run_ranges(lambda start, stop: threading.get_ident(), 100, threads=3) == [threading.get_ident()]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_an_exception_of_any_range_reaches_the_caller_after_the_others_ended(failing):
    ended = []

    def call(start, stop):
        if start == failing:
            raise RuntimeError(f"range {start}")
        ended.append(start)

    with pytest.raises(RuntimeError, match=f"range {failing}"):
        run_ranges(call, 3, threads=3, grain=1)
    assert sorted(ended) == [start for start in range(3) if start != failing]


@pytest.mark.parametrize("compiled", [False, True])
def test_who_waits_for_the_first_compilation_is_told_so(tmp_path, compiled):
    """At a terminal, with a cache that holds nothing; not with one that does."""
    if compiled:
        (tmp_path / "some").mkdir()
        (tmp_path / "some" / "kernel.nbi").touch()
    script = (
        "from mpi_runner.cli_output import reported\n"
        "import sys; sys.stderr.isatty = lambda: True\n"
        "from graph_store.kernels import mix64, Kernel\n"
        "with reported():\n    assert Kernel.before_loading; mix64(1); mix64(2)\n"
    )
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stderr.count("compiling kernels, once after an installation") == (not compiled)
