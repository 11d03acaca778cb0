"""Random numbers by counting: each draw is a pure function of what it is for, never of who asks or when.

A key is mixed from (seed, step, purpose, hop); a unit (a node, a sample's position, a walk) is mixed into the key, and
draw number d of the unit is `mix64(unit_key + d · golden)`, the output function of splitmix64 (Steele, Lea and Flood,
OOPSLA 2014). So the same seed gives the same batch at any number of threads, workers and ranks.
"""

import numpy as np

from graph_store.kernels import int64_array, kernel, mix64, run_ranges

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
NEIGHBORS, NEGATIVES, PERMUTATION, WALKS, SPLITS = 1, 2, 3, 4, 5


@kernel
def mixed(key: np.uint64, value: np.uint64) -> np.uint64:
    """Mix one more value into a key."""
    return mix64((np.uint64(key) ^ mix64(np.uint64(value) + GOLDEN)) * np.uint64(0xD6E8FEB86659FD93) + GOLDEN)


@kernel
def draw(unit_key: np.uint64, number: int, bound: int) -> np.int64:
    """Return draw `number` of a unit, uniform over 0 … bound − 1 (bias below bound / 2^64).

    The high word of a 64 × 64-bit product (Lemire, ACM TOMACS 2019) from four 32-bit products.
    """
    value = mix64(unit_key + np.uint64(number + 1) * GOLDEN)
    low32, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    limit = np.uint64(bound)
    high, low = value >> half, value & low32
    if limit <= low32:
        return np.int64((high * limit + ((low * limit) >> half)) >> half)
    limit_high, limit_low = limit >> half, limit & low32
    middle = high * limit_low + ((low * limit_low) >> half)
    other = low * limit_high + (middle & low32)
    return np.int64(high * limit_high + (middle >> half) + (other >> half))


@kernel
def fraction(unit_key: np.uint64, number: int) -> np.float64:
    """Return draw `number` of a unit, uniform over the multiples of 2^-53 in [0, 1)."""
    return np.float64(mix64(unit_key + np.uint64(number + 1) * GOLDEN) >> np.uint64(11)) * 2.0**-53


def key_of(seed: int, step: int, purpose: int, hop: int = 0) -> np.uint64:
    """Return the key of everything that is drawn for one purpose in one hop of one step."""
    mask = (1 << 64) - 1
    golden = int(GOLDEN)

    def mix(value: int) -> int:
        value ^= value >> 30
        value = value * 0xBF58476D1CE4E5B9 & mask
        value ^= value >> 27
        value = value * 0x94D049BB133111EB & mask
        return value ^ (value >> 31)

    key = 0
    for value in (seed, step, purpose, hop):
        key = mix(((key ^ mix((value + golden) & mask)) * 0xD6E8FEB86659FD93 + golden) & mask)
    return np.uint64(key)


@kernel
def _permute(positions, length, half_bits, key, out, start, stop):
    half_mask = (np.uint64(1) << np.uint64(half_bits)) - np.uint64(1)
    shift, limit = np.uint64(half_bits), np.uint64(length)
    keys = np.empty(4, np.uint64)
    for turn in range(4):
        keys[turn] = mixed(key, np.uint64(turn))
    for i in range(start, stop):
        value = np.uint64(positions[i])
        while True:
            left, right = value >> shift, value & half_mask
            for turn in range(4):
                left, right = right, left ^ (mix64(right + keys[turn]) & half_mask)
            value = left << shift | right
            if value < limit:
                break
        out[i] = np.int64(value)


def permute(positions: np.ndarray, length: int, *, seed: int, epoch: int = 0, threads: int | None = None) -> np.ndarray:
    """Map positions through a seeded permutation of 0 … length − 1, in constant memory.

    A Feistel network of four rounds (Luby and Rackoff, SIAM J. Comput. 1988) on the next even number of bits, walked
    until it falls into the range again (Black and Rogaway, CT-RSA 2002), less than four times on average.

    Parameters
    ----------
    positions : int64[n], each in 0 … length − 1
    length, seed, epoch : int

    Returns
    -------
    int64[n]

    Raises
    ------
    ValueError
        If a position is outside the range.
    """
    positions = int64_array(positions, "positions")
    if positions.size and (positions.min() < 0 or positions.max() >= length):
        raise ValueError(f"positions must be in 0 … {length - 1}")
    half_bits = max(1, (int(length - 1).bit_length() + 1) // 2)
    out = np.empty(positions.size, np.int64)
    key = key_of(seed, epoch, PERMUTATION)
    run_ranges(
        lambda start, stop: _permute(positions, length, half_bits, key, out, start, stop),
        positions.size,
        threads=threads,
    )
    return out
