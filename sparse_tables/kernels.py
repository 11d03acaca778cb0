"""What every compiled kernel of the tables shares: the decorator, memory by address, mixing and threads."""

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

# nogil: kernels run side by side in plain threads. No `parallel=True`: its threading layers are neither
# fork-safe nor re-entrant, and the results here must not depend on the number of threads anyway.
kernel = numba.njit(cache=True, nogil=True, error_model="numpy")

# A table's shards are separate allocations, and one call must reach all of them: kernels get a directory of
# addresses and read through the functions below. Whoever calls a kernel keeps the arrays behind them alive.
_BYTE = ir.IntType(8).as_pointer()


@intrinsic
def prefetch(typingctx: Any, address: Any) -> Any:
    """Ask the processor to bring the line at `address` into its caches; never reads, never faults."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        int32 = ir.IntType(32)
        declared = ir.FunctionType(ir.VoidType(), [_BYTE, int32, int32, int32])
        function = builder.module.declare_intrinsic("llvm.prefetch", [_BYTE], declared)
        builder.call(function, [builder.inttoptr(args[0], _BYTE), int32(0), int32(3), int32(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def load_word(typingctx: Any, address: Any) -> Any:
    """Return the int64 at `address`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return types.int64(types.int64), generate


@intrinsic
def store_word(typingctx: Any, address: Any, value: Any) -> Any:
    """Write the int64 `value` at `address`."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], ir.IntType(64).as_pointer()))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _copy_line(typingctx: Any, destination: Any, source: Any) -> Any:
    """Copy 64 bytes from the address `source` to the address `destination`, neither of them aligned."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = ir.VectorType(ir.FloatType(), 16).as_pointer()
        value = builder.load(builder.inttoptr(args[1], line), align=4)
        builder.store(value, builder.inttoptr(args[0], line), align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _add_line(typingctx: Any, destination: Any, source: Any) -> Any:
    """Add 16 float32 at the address `source` to those at `destination`, neither of them aligned."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        line = ir.VectorType(ir.FloatType(), 16).as_pointer()
        target = builder.inttoptr(args[0], line)
        value = builder.load(builder.inttoptr(args[1], line), align=4)
        builder.store(builder.fadd(builder.load(target, align=4), value), target, align=4)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], _BYTE)

    return types.voidptr(types.int64), generate


@kernel
def floats_at(address: int, length: int) -> Any:
    """Return the `length` float32 at `address` as an array that does not own them."""
    return numba.carray(_pointer(address), (length,), np.float32)


@kernel
def copy_floats(destination: int, source: int, length: int) -> None:
    """Copy `length` float32 from the address `source` to the address `destination`."""
    whole = length & ~15
    for column in range(0, whole, 16):
        _copy_line(destination + 4 * column, source + 4 * column)
    if whole < length:
        target = floats_at(destination + 4 * whole, length - whole)
        origin = floats_at(source + 4 * whole, length - whole)
        for column in range(length - whole):
            target[column] = origin[column]


@kernel
def add_floats(destination: int, source: int, length: int) -> None:
    """Add `length` float32 at the address `source` to those at the address `destination`."""
    whole = length & ~15
    for column in range(0, whole, 16):
        _add_line(destination + 4 * column, source + 4 * column)
    if whole < length:
        target = floats_at(destination + 4 * whole, length - whole)
        origin = floats_at(source + 4 * whole, length - whole)
        for column in range(length - whole):
            target[column] += origin[column]


@kernel
def prefetch_bytes(address: int, num_bytes: int) -> None:
    """Prefetch the lines of `num_bytes` from `address` on."""
    for offset in range(0, num_bytes, 64):
        prefetch(address + offset)


@kernel
def mix64(value: np.uint64) -> np.uint64:
    """Mix 64 bits (the finaliser of splitmix64, Steele, Lea and Flood, OOPSLA 2014): a bijection."""
    value = np.uint64(value)
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def num_threads(threads: int | None = None) -> int:
    """Return `threads`, or the cores this process may run on when None."""
    return max(1, threads if threads is not None else len(os.sched_getaffinity(0)))


def run_parts(call: Callable[[int, int], Any], bounds: Sequence[int], pool: Executor | None) -> list[Any]:
    """Call `call(start, stop)` for each two neighbouring bounds and return the results in order.

    Parts run in `pool`. The first part runs on the calling thread, all of them do when `pool` is None.
    """
    parts = list(itertools.pairwise(bounds))
    if pool is None or len(parts) == 1:
        return [call(start, stop) for start, stop in parts]
    others = [pool.submit(call, start, stop) for start, stop in parts[1:]]
    first = call(*parts[0])
    return [first, *(other.result() for other in others)]
