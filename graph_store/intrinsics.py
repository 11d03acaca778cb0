"""What is done when numba is first needed: it is told the instructions for what numpy has no word for."""

import importlib.machinery
import importlib.util
import os
import sys
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing import signature
from numba.extending import lower_builtin, type_callable

from graph_store import kernels


def _load_blas_alone() -> None:
    """Load the module of BLAS functions that numba looks for with its first kernel, without the rest of scipy.linalg.

    That is a fifth of what a process takes to its first answer. Who imports scipy.linalg later gets all of it.
    """
    name = "scipy.linalg.cython_blas"
    scipy = importlib.util.find_spec("scipy")
    if name in sys.modules or scipy is None:
        return
    folders = [os.path.join(folder, "linalg") for folder in scipy.submodule_search_locations or ()]
    spec = importlib.machinery.PathFinder.find_spec(name, folders)
    if spec is None or spec.loader is None:
        return
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception:  # of another scipy, which numba then imports as it always does
        del sys.modules[name]


_load_blas_alone()


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


@type_callable(kernels.load_word)
@type_callable(kernels.load_bits)
def _type_load(context: Any) -> Any:
    def typer(values: Any, at: Any) -> Any:
        return signature(types.uint64, values, types.uint64)

    return typer


def _unaligned(builder: Any, pointer: Any) -> Any:
    loaded = builder.load(builder.bitcast(pointer, ir.IntType(64).as_pointer()))
    loaded.align = 1
    return loaded


@lower_builtin(kernels.load_word, types.Array, types.uint64)
def _lower_load_word(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    view = context.make_array(signature.args[0])(context, builder, args[0])
    return _unaligned(builder, builder.gep(view.data, [args[1]]))


@lower_builtin(kernels.load_bits, types.Array, types.uint64)
def _lower_load_bits(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    int64 = ir.IntType(64)
    view = context.make_array(signature.args[0])(context, builder, args[0])
    base = builder.bitcast(view.data, ir.IntType(8).as_pointer())
    loaded = _unaligned(builder, builder.gep(base, [builder.lshr(args[1], int64(3))]))
    return builder.lshr(loaded, builder.and_(args[1], int64(7)))
