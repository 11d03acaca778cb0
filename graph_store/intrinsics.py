"""What kernels do that numpy has no word for, as instructions: registered with numba when it is first needed."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing import signature
from numba.extending import lower_builtin, type_callable

from graph_store import kernels


@type_callable(kernels.prefetch)
def _type_prefetch(context: Any) -> Any:
    def typer(array: Any, index: Any) -> Any:
        return signature(types.void, array, types.intp)

    return typer


@lower_builtin(kernels.prefetch, types.Array, types.intp)
def _lower_prefetch(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    view = context.make_array(signature.args[0])(context, builder, args[0])
    byte = builder.bitcast(builder.gep(view.data, [args[1]]), ir.IntType(8).as_pointer())
    int32 = ir.IntType(32)
    declared = ir.FunctionType(ir.VoidType(), [ir.IntType(8).as_pointer(), int32, int32, int32])
    function = builder.module.declare_intrinsic("llvm.prefetch", [ir.IntType(8).as_pointer()], declared)
    builder.call(function, [byte, int32(0), int32(3), int32(1)])
    return context.get_dummy_value()


@type_callable(kernels.load_bits)
def _type_load_bits(context: Any) -> Any:
    def typer(words: Any, bit: Any) -> Any:
        return signature(types.uint64, words, types.uint64)

    return typer


@lower_builtin(kernels.load_bits, types.Array, types.uint64)
def _lower_load_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    int64 = ir.IntType(64)
    view = context.make_array(signature.args[0])(context, builder, args[0])
    base = builder.bitcast(view.data, ir.IntType(8).as_pointer())
    pointer = builder.bitcast(builder.gep(base, [builder.lshr(args[1], int64(3))]), int64.as_pointer())
    loaded = builder.load(pointer)
    loaded.align = 1
    return builder.lshr(loaded, builder.and_(args[1], int64(7)))
