"""Values of JSON objects, put into columns: the slow, exact twin of Arrow's reader, which says what is wrong."""

import json
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import msgspec
import pyarrow as pa

from graph_store.arrow_numbers import UINT64_MAX
from graph_store.row_batch import INT64_MAX, INT64_MIN, Field, shown

# Whole numbers of more digits are out of any range, and not made.
_MOST_DIGITS = 40
_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "true or false", type(None): "null"}


class BadLine(Exception):
    """A line that is no JSON object; its text says why."""


class BadCell(Exception):
    """A value that its column cannot hold: what was found, and what to do."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(found)
        self.found, self.advice = found, advice


def read_line(line: bytes, keys: Sequence[bytes] = ()) -> dict[str, Any]:
    """Return the object of a line; numbers that are not plain integers are Decimals, so that nothing is rounded.

    Parameters
    ----------
    line : bytes
    keys : sequence of bytes
        The keys that matter, in quotes: a line in which each comes up once at most is read the faster way.

    Raises
    ------
    BadLine
        It is no JSON, no object, or has a key twice.
    """
    if keys and b"\\" not in line and all(line.count(key) < 2 for key in keys):
        try:
            value = _FAST.decode(line)
        except (msgspec.DecodeError, ValueError, ArithmeticError, RecursionError):
            value = None
        if type(value) is dict:
            return value
    return _read_carefully(line)


def _read_carefully(line: bytes) -> dict[str, Any]:
    """Do as `read_line`, and say what is wrong."""
    try:
        value = _DECODER.decode(line.decode("utf-8").strip())
    except UnicodeDecodeError:
        raise BadLine("is not UTF-8; write the file as UTF-8") from None
    except json.JSONDecodeError as error:
        raise BadLine(
            f"is no JSON ({error.msg} at character {error.pos + 1}); write an object ({{…}}) a line"
        ) from None
    except (RecursionError, ValueError, ArithmeticError) as error:
        raise BadLine(f"cannot be read ({' '.join(str(error).split())}); repair the line") from None
    if not isinstance(value, dict):
        raise BadLine(f"is {_KINDS.get(type(value), 'a number')}; write an object ({{…}}) a line")
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        keys = [key for key, _ in pairs]
        raise BadLine(f"has key {next(key for key in keys if keys.count(key) > 1)!r} twice; leave out one of them")
    return values


def _integer(text: str) -> int | Decimal:
    return int(text) if len(text) <= _MOST_DIGITS else Decimal(text)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=Decimal, parse_int=_integer, parse_constant=float)
_FAST = msgspec.json.Decoder(float_hook=Decimal)


def cell(kind: pa.DataType, value: Any, field: Field) -> Any:
    """Return a value as a Python value that Arrow puts into a column of type `kind`.

    Raises
    ------
    BadCell
        The column cannot hold it.
    """
    if value is None:
        return None
    if pa.types.is_list(kind):
        if not isinstance(value, list):
            raise BadCell(f"{_shown(value)} is no list", "expected a list ([…])")
        return [cell(kind.value_type, item, field) for item in value]
    if pa.types.is_large_string(kind):
        return _text(value, field)
    if pa.types.is_boolean(kind) and (value is True or value is False or value in (0, 1)):
        return bool(value)
    if isinstance(value, bool) and field.feature is not None:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal)):
        raise BadCell(f"{_shown(value)} is no number", _number_advice(field))
    if pa.types.is_floating(kind):
        return _real(value, field)
    return _whole(value, kind, field)


def is_word(field: Field) -> bool:
    """True for columns of words, where a whole number stands for its digits."""
    return field.role == "relation" or (field.feature is not None and field.feature.kind in ("category", "string"))


def _text(value: Any, field: Field) -> str:
    if is_word(field) and isinstance(value, bool):
        return str(value).lower()
    if is_word(field) and isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        advice = "write it as a string"
        if field.node_type is not None:
            advice = f"node type {field.node_type.name!r} has string ids; write strings, or declare integer ids"
        raise BadCell(f"{_shown(value)} is no string", advice)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise BadCell(f"{ascii(value)[:60]} holds half a character (a lone surrogate)", "repair the string") from None
    return value


def _whole(value: int | float | Decimal, kind: pa.DataType, field: Field) -> int:
    if value == 0:
        return 0
    low, high = (0, UINT64_MAX) if pa.types.is_uint64(kind) else (INT64_MIN, INT64_MAX)
    if isinstance(value, float) or (isinstance(value, Decimal) and not _is_whole(value)):
        raise BadCell(f"{value} is no whole number", _number_advice(field))
    if (isinstance(value, Decimal) and value.adjusted() > _MOST_DIGITS) or not low <= value <= high:
        name = "uint64" if low == 0 else "int64"
        remedy = "use a coarser unit" if field.role == "time" else "repair it"
        if field.node_type is not None:
            remedy = f"declare {'' if low == 0 else 'unsigned or '}string ids"
        raise BadCell(f"{_shown(value)} is out of the range of {name}", f"expected {low} to {high}; {remedy}")
    return int(value)


def _is_whole(value: Decimal) -> bool:
    return bool(value == value.to_integral_value())


def _real(value: int | float | Decimal, field: Field) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and not isinstance(value, float) and field.role == "feature":
        raise BadCell(f"{_shown(value)} is out of the range of float64", "repair it")
    return number


def _number_advice(field: Field) -> str:
    if field.node_type is not None:
        return f"node type {field.node_type.name!r} has integer ids; repair it, or declare string ids"
    if field.role == "time":
        return "expected whole numbers in one unit of time, such as seconds"
    if field.role == "weight":
        return "expected a finite number within float32"
    return "expected a number" if field.feature is None or _is_real(field) else "expected a whole number"


def _is_real(field: Field) -> bool:
    return field.feature is not None and str(field.feature.dtype).startswith("float")


def _shown(value: Any) -> str:
    if isinstance(value, (dict, list)):
        return _KINDS[type(value)]
    if isinstance(value, bool):
        return str(value).lower()
    return shown(value) if isinstance(value, str) else shown(str(value))[1:-1]
