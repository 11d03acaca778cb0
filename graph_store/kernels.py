"""What every compiled kernel of the store shares: the decorator, prefetch, mixing, integers in, threads over ranges."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# nogil: kernels run side by side in plain threads. No `parallel=True`: its threading layers are neither
# fork-safe nor re-entrant, and the results here must not depend on the number of threads anyway.
kernel = numba.njit(cache=True, nogil=True, error_model="numpy")
# A part of a kernel that is called once an item: as a call of its own it costs a sixth of what `edges_at` takes.
inlined = numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")


@intrinsic
def prefetch(typingctx: Any, array: Any, index: Any) -> Any:
    """Ask the processor to bring `array[index]` into its caches; never reads, never faults."""
    signature = types.void(array, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type = signature.args[0]
        view = context.make_array(array_type)(context, builder, args[0])
        pointer = builder.gep(view.data, [args[1]])
        byte = builder.bitcast(pointer, ir.IntType(8).as_pointer())
        int32 = ir.IntType(32)
        declared = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), int32, int32, int32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [ir.IntType(8).as_pointer()], declared)
        builder.call(function, [byte, int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def load_bits(typingctx: Any, words: Any, bit: Any) -> Any:
    """Return the 57 bits or more from `bit` on in little-endian uint64 `words`, by one unaligned load."""
    signature = types.uint64(words, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int64 = ir.IntType(64)
        view = context.make_array(signature.args[0])(context, builder, args[0])
        base = builder.bitcast(view.data, ir.IntType(8).as_pointer())
        pointer = builder.bitcast(builder.gep(base, [builder.lshr(args[1], int64(3))]), int64.as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 1
        return builder.lshr(loaded, builder.and_(args[1], int64(7)))

    return signature, generate


@intrinsic
def load_word(typingctx: Any, data: Any, at: Any) -> Any:
    """Return the eight bytes from `at` on in uint8 `data` as a little-endian uint64, by one unaligned load."""
    signature = types.uint64(data, types.intp)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        view = context.make_array(signature.args[0])(context, builder, args[0])
        pointer = builder.bitcast(builder.gep(view.data, [args[1]]), ir.IntType(64).as_pointer())
        loaded = builder.load(pointer)
        loaded.align = 1
        return loaded

    return signature, generate


@kernel
def mix64(value: np.uint64) -> np.uint64:
    """Mix 64 bits (the finaliser of splitmix64, Steele, Lea and Flood, OOPSLA 2014): a bijection."""
    value = np.uint64(value)
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def int64_array(values: Any, name: str) -> np.ndarray:
    """Return integers as a contiguous int64[n], not copied where they are one already.

    Raises
    ------
    TypeError
        Values that are no integers; they are never rounded.
    ValueError
        More than one dimension, or a value past int64. The message says `name`.
    """
    given = np.asarray(values)
    if given.ndim > 1:
        raise ValueError(f"{name} must have one dimension, got shape {given.shape}")
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {given.dtype}")
    if given.dtype == np.uint64 and given.size and int(given.max()) >= 1 << 63:
        raise ValueError(f"{name} must be below 2^63, got {given.max()}")
    return np.ascontiguousarray(given, np.int64)


def num_threads(threads: int | None = None) -> int:
    """Return `threads`, or the cores this process may run on when None."""
    return max(1, threads if threads is not None else len(os.sched_getaffinity(0)))


def run_ranges(
    call: Callable[[int, int], Any], length: int, *, threads: int | None = None, grain: int = 1 << 14
) -> list[Any]:
    """Call `call(start, stop)` over contiguous ranges of `length`, in threads, and return the results in order.

    Each of several ranges holds at least half of `grain` items, so that small work stays on the calling thread.
    """
    parts = max(1, min(num_threads(threads), -(-length // grain)))
    bounds = [length * part // parts for part in range(parts + 1)]
    if parts == 1:
        return [call(0, length)]
    with ThreadPoolExecutor(parts - 1) as pool:
        others = [pool.submit(call, bounds[part], bounds[part + 1]) for part in range(1, parts)]
        first = call(bounds[0], bounds[1])
        return [first, *(other.result() for other in others)]
