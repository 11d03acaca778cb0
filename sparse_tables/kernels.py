"""What every compiled kernel of the tables shares: the decorator, memory by address, mixing and threads."""

import itertools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, wait
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
# addresses and read through the functions below. Whoever calls a kernel keeps the arrays behind them alive. (An array
# made inside a kernel costs 15 ns in counted references.)
_BYTE = ir.IntType(8).as_pointer()
_FLOAT = ir.FloatType().as_pointer()


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
def load_float(typingctx: Any, address: Any, index: Any) -> Any:
    """Return the float32 number `index` from `address` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.gep(builder.inttoptr(args[0], _FLOAT), [args[1]]))

    return types.float32(types.int64, types.int64), generate


@intrinsic
def store_float(typingctx: Any, address: Any, index: Any, value: Any) -> Any:
    """Write `value` as the float32 number `index` from `address` on."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], builder.gep(builder.inttoptr(args[0], _FLOAT), [args[1]]))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.float32), generate


@kernel
def copy_floats(destination: int, source: int, length: int) -> None:
    """Copy `length` float32 from the address `source` to the address `destination`."""
    for column in range(length):
        store_float(destination, column, load_float(source, column))


@kernel
def add_floats(destination: int, source: int, length: int) -> None:
    """Add `length` float32 at the address `source` to those at the address `destination`."""
    for column in range(length):
        store_float(destination, column, load_float(destination, column) + load_float(source, column))


@kernel
def fill_floats(destination: int, value: float, length: int) -> None:
    """Write `value` into `length` float32 at the address `destination`."""
    for column in range(length):
        store_float(destination, column, np.float32(value))


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

    Parts run in `pool`. The first part runs on the calling thread, all of them do when `pool` is None. The error of
    a part is raised when all of them have ended.
    """
    parts = list(itertools.pairwise(bounds))
    if pool is None or len(parts) == 1:
        return [call(start, stop) for start, stop in parts]
    others = [pool.submit(call, start, stop) for start, stop in parts[1:]]
    try:
        first = call(*parts[0])
    finally:
        wait(others)
    return [first, *(other.result() for other in others)]
