"""Numbers of Arrow columns: taken exactly or not at all, each row that cannot be marked."""

from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from graph_store.row_batch import INT64_MAX, INT64_MIN

UINT64_MAX = (1 << 64) - 1


class Numbers(NamedTuple):
    """Values of a column of n rows.

    Attributes
    ----------
    values : ndarray [n]
        Zero where a row is wrong or null.
    wrong : bool[n] or None
        Rows whose value cannot be taken; None when there are none.
    """

    values: NDArray[Any]
    wrong: NDArray[np.bool_] | None


def is_number(kind: pa.DataType) -> bool:
    """True for integers, floats and decimals."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def largest_exact(kind: pa.DataType) -> int:
    """Return up to where a float type holds every whole number: 2^53 for doubles."""
    return int(1 << {16: 11, 32: 24, 64: 53}[kind.bit_width])


def nulls(column: pa.Array) -> NDArray[np.bool_] | None:
    """Return bool[n], true where a value is null; None when there are none."""
    return column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None


def either(one: NDArray[np.bool_] | None, other: NDArray[np.bool_] | None) -> NDArray[np.bool_] | None:
    """Return the rows that are in one or the other; None when no row is."""
    if one is None or other is None:
        both = other if one is None else one
    else:
        both = one | other
    return both if both is not None and both.any() else None


def whole_numbers(column: pa.Array, *, low: int = INT64_MIN, high: int = INT64_MAX) -> Numbers:
    """Return a column of numbers as int64[n]; nulls are no fault and read 0.

    A float is taken when it is whole and no larger than its type holds exactly, a decimal when it is whole, a
    timestamp as the integer of its unit.

    Parameters
    ----------
    low, high : int
        The range; with a `high` above int64 the values are the bit patterns of the uint64.
    """
    kind = column.type
    if column.null_count:
        column = _filled(column)
    if pa.types.is_decimal(kind):
        return _whole_decimals(column, low, high)
    numbers = to_numpy(column)
    wrong = None
    if numbers.dtype.kind == "f":
        wrong = ~(np.abs(numbers) <= largest_exact(kind)) | (numbers != np.floor(numbers))
        numbers = np.where(wrong, numbers.dtype.type(0), numbers).astype(np.int64)
    lowest, highest = np.iinfo(numbers.dtype).min, np.iinfo(numbers.dtype).max
    if lowest < low:
        wrong = either(wrong, numbers < low)
    if highest > high:
        wrong = either(wrong, numbers > high)
    return Numbers(_as_int64(numbers), either(wrong, None))


def real_numbers(column: pa.Array, dtype: Any) -> Numbers:
    """Return a column of numbers as floats of `dtype`; nulls are no fault and read 0.

    NaN and infinities stay; a finite value that would become infinite is wrong.
    """
    if column.null_count:
        column = _filled(column)
    given = to_numpy(column)
    with np.errstate(over="ignore"):
        numbers = given.astype(dtype, copy=False)
    if np.finfo(dtype).bits >= (np.finfo(given.dtype).bits if given.dtype.kind == "f" else 32):
        return Numbers(numbers, None)  # float32 holds any 64-bit integer in its range
    return Numbers(numbers, either(np.isinf(numbers) & np.isfinite(given), None))


def to_numpy(column: pa.Array) -> NDArray[Any]:
    """Return a column of numbers without nulls as it is: true and false as 1 and 0, decimals as doubles."""
    kind = column.type
    if pa.types.is_boolean(kind):
        column = column.cast(pa.uint8())
    elif pa.types.is_decimal(kind):
        column = column.cast(pa.float64())
    elif pa.types.is_temporal(kind):
        column = column.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return column.to_numpy(zero_copy_only=True)


def _filled(column: pa.Array) -> pa.Array:
    return column.fill_null(pa.scalar(0, pa.int64()).cast(column.type))


def _as_int64(numbers: NDArray[Any]) -> NDArray[np.int64]:
    return numbers.view(np.int64) if numbers.dtype == np.uint64 else numbers.astype(np.int64, copy=False)


def _whole_decimals(column: pa.Array, low: int, high: int) -> Numbers:
    unsigned = high > INT64_MAX
    try:
        numbers = column.cast(pa.uint64() if unsigned else pa.int64())
    except pa.ArrowInvalid:
        values: list[Decimal] = column.to_pylist()
        taken = [
            int(value) if value == value.to_integral_value() and low <= value <= high else None for value in values
        ]
        wrong = np.array([value is None for value in taken])
        dtype = np.uint64 if unsigned else np.int64
        return Numbers(_as_int64(np.array([value or 0 for value in taken], dtype)), wrong)
    return whole_numbers(numbers, low=low, high=high)
