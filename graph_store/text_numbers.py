"""Numbers written as text: whole ones by exact decimal arithmetic, and the items of lists within one cell."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from graph_store.kernels import kernel

WHOLE, EMPTY, NO_WHOLE_NUMBER, OUT_OF_RANGE = range(4)
NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")
_REAL = r"^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$|^[+-]?(?i:nan|inf|infinity)$"
# Exponents beyond this put any number of at most a block's digits far out of range or near zero alike.
_LARGEST_EXPONENT = 1 << 40


def buffers_of(texts: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Return int64[n + 1] offsets and the bytes of an Arrow array of large strings or binaries."""
    _, offsets, data = texts.buffers()
    if len(texts) == 0 or data is None or data.size == 0:
        return np.zeros(len(texts) + 1, np.int64), np.zeros(1, np.uint8)
    return np.frombuffer(offsets, np.int64, len(texts) + 1, texts.offset * 8), np.frombuffer(data, np.uint8)


def texts_of(offsets: NDArray[np.int64], data: NDArray[np.uint8]) -> pa.LargeStringArray:
    """Return the strings whose UTF-8 bytes these are; they are not checked."""
    return pa.LargeStringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(data))


def whole_numbers(texts: pa.Array, *, unsigned: bool = False) -> tuple[NDArray[np.int64], NDArray[np.uint8] | None]:
    """Return the whole numbers that texts are, whichever way they are written: 12, +12, 12.0, 1.2e1.

    Parameters
    ----------
    texts : pyarrow large strings or binaries of length n
        Without nulls. Blanks around a number do not count.
    unsigned : bool
        The numbers are from 0 to 2^64 - 1 instead of within int64.

    Returns
    -------
    values : int64[n]
        Bit patterns of the uint64 when unsigned; 0 where the text is no such number.
    status : uint8[n] or None
        `WHOLE`, `EMPTY`, `NO_WHOLE_NUMBER` or `OUT_OF_RANGE`; None when all are whole.
    """
    offsets, data = buffers_of(texts)
    values, status = np.zeros(len(texts), np.int64), np.zeros(len(texts), np.uint8)
    return values, status if _read_whole(offsets, data, unsigned, values, status) else None


@kernel
def _is_blank(mark):
    return mark == 32 or mark == 9


@kernel
def _read_whole(offsets, data, unsigned, values, status):
    """Read each text; returns how many are not whole numbers."""
    others = 0
    for i in range(values.size):
        at, stop = offsets[i], offsets[i + 1]
        while at < stop and _is_blank(data[at]):
            at += 1
        while at < stop and _is_blank(data[stop - 1]):
            stop -= 1
        values[i], status[i] = _whole(data, at, stop, unsigned)
        others += status[i] != 0
    return others


@kernel
def _whole(data, at, stop, unsigned):
    """Return the number that `data[at:stop]` is, and its status."""
    if at == stop:
        return np.int64(0), EMPTY
    negative = data[at] == 45
    if negative or data[at] == 43:
        at += 1
    num_digits, num_whole = np.int64(0), np.int64(-1)
    end = at
    while end < stop and (48 <= data[end] <= 57 or (data[end] == 46 and num_whole < 0)):
        if data[end] == 46:
            num_whole = num_digits
        else:
            num_digits += 1
        end += 1
    if num_digits == 0:
        return np.int64(0), NO_WHOLE_NUMBER
    if num_whole < 0:
        num_whole = num_digits
    if end < stop:
        exponent, valid = _exponent(data, end, stop)
        if not valid:
            return np.int64(0), NO_WHOLE_NUMBER
        num_whole += exponent
    limit = np.uint64(0xFFFFFFFFFFFFFFFF)
    if not unsigned:
        limit = np.uint64(0x8000000000000000) if negative else np.uint64(0x7FFFFFFFFFFFFFFF)
    elif negative:
        limit = np.uint64(0)
    return _scaled(data, at, end, num_whole, limit, negative)


@kernel
def _exponent(data, at, stop):
    """Return the exponent `e+05` that `data[at:stop]` is, and whether it is one."""
    if data[at] != 101 and data[at] != 69:
        return np.int64(0), False
    at += 1
    negative = at < stop and data[at] == 45
    if at < stop and (data[at] == 45 or data[at] == 43):
        at += 1
    if at == stop:
        return np.int64(0), False
    exponent = np.int64(0)
    while at < stop:
        if not 48 <= data[at] <= 57:
            return np.int64(0), False
        if exponent < _LARGEST_EXPONENT:
            exponent = exponent * 10 + (np.int64(data[at]) - 48)
        at += 1
    return -exponent if negative else exponent, True


@kernel
def _scaled(data, at, end, num_whole, limit, negative):
    """Return the number whose first `num_whole` digits stand before the point, and its status."""
    value, seen, ten = np.uint64(0), np.int64(0), np.uint64(10)
    for j in range(at, end):
        if data[j] == 46:
            continue
        digit = np.uint64(data[j] - 48)
        if seen >= num_whole:
            if digit != 0:
                return np.int64(0), NO_WHOLE_NUMBER
        elif digit > limit or value > (limit - digit) // ten:
            return np.int64(0), _out_of_range(data, j, end, num_whole - seen)
        else:
            value = value * ten + digit
        seen += 1
    while seen < num_whole and value != 0:
        if value > limit // ten:
            return np.int64(0), OUT_OF_RANGE
        value *= ten
        seen += 1
    return np.int64(~value + np.uint64(1)) if negative else np.int64(value), WHOLE


@kernel
def _out_of_range(data, at, end, num_whole):
    """Return the status of a number too large, of whose digits from `at` so many stand before the point."""
    for j in range(at, end):
        if data[j] == 46:
            continue
        if num_whole <= 0 and data[j] != 48:
            return NO_WHOLE_NUMBER
        num_whole -= 1
    return OUT_OF_RANGE


def real_numbers(texts: pa.LargeStringArray, kind: pa.DataType) -> tuple[pa.Array, NDArray[np.bool_] | None]:
    """Return the numbers that texts are as Arrow floats of this type, nulls where a text is empty or no number.

    Returns
    -------
    numbers : pyarrow floating array of length n
        NaN and infinities where they are written; infinity where a number is out of range.
    wrong : bool[n] or None
        Texts that are no numbers; None when there are none.
    """
    trimmed = pc.utf8_trim(texts, " \t")
    empty = pc.equal(pc.binary_length(trimmed), 0)
    if pc.any(empty).as_py():
        trimmed = pc.if_else(empty, pa.scalar(None, trimmed.type), trimmed)
    try:
        return trimmed.cast(kind), None
    except pa.ArrowInvalid:
        is_number = pc.match_substring_regex(trimmed, _REAL)
        numbers = pc.if_else(is_number, trimmed, pa.scalar(None, trimmed.type)).cast(kind)
        wrong = pc.fill_null(pc.invert(is_number), False).to_numpy(zero_copy_only=False)
        return numbers, wrong if wrong.any() else None


def split_cells(texts: pa.Array, separator: str | None) -> tuple[NDArray[np.int64], pa.LargeStringArray]:
    """Return the items of cells that hold lists.

    Parameters
    ----------
    texts : pyarrow large strings or binaries of length n
        Without nulls; each may stand in square brackets.
    separator : str or None
        One ASCII character between items; None or a space for any run of white space, line ends too. White space
        around items does not count.

    Returns
    -------
    indptr : int64[n + 1]
        The items of cell i are `indptr[i]` to `indptr[i + 1]`; a cell without anything has none.
    items : pyarrow.LargeStringArray
    """
    mark = 32 if separator is None else ord(separator)
    offsets, data = buffers_of(texts)
    indptr = np.zeros(len(texts) + 1, np.int64)
    size = _count_items(offsets, data, mark, indptr)
    np.cumsum(indptr, out=indptr)
    item_offsets, item_data = np.zeros(indptr[-1] + 1, np.int64), np.empty(max(1, size), np.uint8)
    _copy_items(offsets, data, mark, item_offsets, item_data)
    return indptr, texts_of(item_offsets, item_data)


@kernel
def _is_space(mark):
    return mark == 32 or mark == 9 or mark == 10 or mark == 13


@kernel
def _trimmed(data, at, stop):
    while at < stop and _is_space(data[at]):
        at += 1
    while at < stop and _is_space(data[stop - 1]):
        stop -= 1
    return at, stop


@kernel
def _inside(data, at, stop):
    """Return where a cell begins and ends without spaces and brackets around it."""
    at, stop = _trimmed(data, at, stop)
    if stop - at >= 2 and data[at] == 91 and data[stop - 1] == 93:
        at, stop = _trimmed(data, at + 1, stop - 1)
    return at, stop


@kernel
def _item_end(data, at, stop, mark):
    """Return where the item that begins at `at` ends: at a separator, or `stop`."""
    while at < stop and not (data[at] == mark or (mark == 32 and _is_space(data[at]))):
        at += 1
    return at


@kernel
def _next_item(data, end, stop, mark):
    """Return where the next item begins, behind the separator at `end`; beyond `stop` when there is none."""
    end += 1
    if mark == 32:
        while end < stop and _is_space(data[end]):
            end += 1
    return end


@kernel
def _count_items(offsets, data, mark, counts):
    """Count the items of each cell into `counts[1:]`; returns an upper bound of their bytes."""
    size = np.int64(0)
    for i in range(offsets.size - 1):
        at, stop = _inside(data, offsets[i], offsets[i + 1])
        size += stop - at
        if at == stop:
            continue
        while at <= stop:
            counts[i + 1] += 1
            at = _next_item(data, _item_end(data, at, stop, mark), stop, mark)
    return size


@kernel
def _copy_items(offsets, data, mark, item_offsets, item_data):
    item, size = 0, np.int64(0)
    for i in range(offsets.size - 1):
        at, stop = _inside(data, offsets[i], offsets[i + 1])
        if at == stop:
            continue
        while at <= stop:
            end = _item_end(data, at, stop, mark)
            first, last = _trimmed(data, at, end)
            for j in range(first, last):
                item_data[size] = data[j]
                size += 1
            item += 1
            item_offsets[item] = size
            at = _next_item(data, end, stop, mark)
