"""Numbers in text: read exactly or told apart, whichever way they are written."""

from decimal import Decimal, InvalidOperation

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graph_store.text_numbers import (
    EMPTY,
    NO_WHOLE_NUMBER,
    NUMBER,
    OUT_OF_RANGE,
    WHOLE,
    real_numbers,
    split_cells,
    texts_of,
    whole_numbers,
)


def strings(*texts):
    return pa.array(texts, pa.large_string())


def whole(text, unsigned=False):
    """Return (value, status) of one text, read in the middle of others and of a slice."""
    around = strings("junk", "1", text, "2").slice(1)
    values, status = whole_numbers(around, unsigned=unsigned)
    assert values[[0, 2]].tolist() == [1, 2]
    value = int(values.view(np.uint64)[1]) if unsigned else int(values[1])
    return value, WHOLE if status is None else int(status[1])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3.2466e+05", 324660),
        ("12.0", 12),
        ("+7", 7),
        ("-7.000", -7),
        ("1e5", 100000),
        ("1E05", 100000),
        ("1200e-2", 12),
        ("0.0012e4", 12),
        (".5e1", 5),
        ("5.", 5),
        ("-0.0", 0),
        ("0e999999999999999999999", 0),
        ("0.0000e-999999999999999999999", 0),
        ("  42\t", 42),
        ("0004", 4),
        ("9007199254740993.0", 2**53 + 1),
        ("9.007199254740993e15", 2**53 + 1),
        ("9223372036854775807", 2**63 - 1),
        ("9.223372036854775807E18", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775808.00", -(2**63)),
        ("0" * 400 + "1" + "0" * 400 + "e-400", 1),
    ],
)
def test_a_whole_number_is_read_exactly(text, value):
    assert whole(text) == (value, WHOLE)


@pytest.mark.parametrize(
    "text",
    ["7.5", "1e-1", "0.1", "x", "1_000", "0x10", "- 5", "--5", "1e", "1e+", "1e5.0", ".", "-", "+", "e5", "nan", "inf",
     "1.2.3", "1 2", "1\n", "１", "1e5e5", "99999999999999999999.5", "1e-999999999999999999999"],
)  # fmt: skip
def test_what_is_no_whole_number_is_told(text):
    assert whole(text) == (0, NO_WHOLE_NUMBER)
    assert whole(text, unsigned=True) == (0, NO_WHOLE_NUMBER)


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "1e19", "1e999999999999999999999"])
def test_what_is_beyond_int64_is_told(text):
    assert whole(text) == (0, OUT_OF_RANGE)


@pytest.mark.parametrize("text", ["", " ", "\t \t"])
def test_what_is_empty_is_told(text):
    assert whole(text) == (0, EMPTY)


def test_unsigned_numbers_reach_2_to_the_64():
    assert whole("18446744073709551615", unsigned=True) == (2**64 - 1, WHOLE)
    assert whole("1.8446744073709551615e19", unsigned=True) == (2**64 - 1, WHOLE)
    assert whole("-0", unsigned=True) == (0, WHOLE)
    assert whole("18446744073709551616", unsigned=True) == (0, OUT_OF_RANGE)
    assert whole("-1", unsigned=True) == (0, OUT_OF_RANGE)
    values, status = whole_numbers(strings("18446744073709551615", "9223372036854775808"), unsigned=True)
    assert (values.tolist(), status) == ([-1, -(2**63)], None)


def by_decimal(text):
    """Return (value, status) as the decimal module has it."""
    text = text.strip(" \t")
    if not text:
        return 0, EMPTY
    try:
        number = Decimal(text) if NUMBER.fullmatch(text) else Decimal("NaN")
    except InvalidOperation:
        number = Decimal("NaN")
    if not number.is_finite() or number != number.to_integral_value():
        return 0, NO_WHOLE_NUMBER
    return (int(number), WHOLE) if -(2**63) <= number < 2**63 else (0, OUT_OF_RANGE)


@settings(max_examples=1500, deadline=None)
@given(
    st.text(st.sampled_from("0123456789-+.eE \tx"), max_size=9)
    | st.from_regex(r"\A[+-]?[0-9]{0,22}(\.[0-9]{0,3}0{0,20})?([eE][+-]?[0-9]{1,2})?\Z")
)
@example("9223372036854775807.0e0")
def test_any_text_is_read_as_the_decimal_module_reads_it(text):
    assert whole(text) == by_decimal(text)


def test_real_numbers_are_taken_empty_ones_null_and_others_wrong():
    numbers, wrong = real_numbers(strings("1.5", " +2 ", "", " ", "nan", "-inf", "1e39", ".5", "-0.1"), pa.float32())
    assert wrong is None
    assert numbers.to_pylist()[:4] == [1.5, 2.0, None, None]
    assert np.isnan(numbers[4].as_py())
    assert numbers.to_pylist()[5:] == [-np.inf, np.inf, 0.5, float(np.float32(-0.1))]
    numbers, wrong = real_numbers(strings("1.5", "x", "", "0x1", "1e", "Infinity", "2,5"), pa.float64())
    assert wrong.tolist() == [False, True, False, True, True, False, True]
    assert numbers.to_pylist() == [1.5, None, None, None, None, np.inf, None]


@pytest.mark.parametrize(
    ("cell", "separator", "items"),
    [
        ("1 2  3", None, ["1", "2", "3"]),
        (" 1\t2 \n 3 ", " ", ["1", "2", "3"]),
        ("[1 2\n 3]", None, ["1", "2", "3"]),
        ("", None, []),
        ("  ", None, []),
        ("[]", ",", []),
        (" [ ] ", ",", []),
        ("1", "|", ["1"]),
        ("1|2 | 3", "|", ["1", "2", "3"]),
        ("1,,2,", ",", ["1", "", "2", ""]),
        (",", ",", ["", ""]),
        (" [1, 2.5, é] ", ",", ["1", "2.5", "é"]),
        ("[1", ",", ["[1"]),
    ],
)
def test_a_cell_is_split_into_its_items(cell, separator, items):
    indptr, found = split_cells(strings("x", cell, "", "7", cell).slice(1), separator)
    assert indptr.tolist() == np.cumsum([0, len(items), 0, 1, len(items)]).tolist()
    assert found.to_pylist() == [*items, "7", *items]


def test_no_texts_are_no_numbers():
    assert whole_numbers(strings())[0].tolist() == []
    assert split_cells(strings(), ",")[1].to_pylist() == []
    assert whole_numbers(strings("", ""))[1].tolist() == [EMPTY, EMPTY]
    assert texts_of(np.array([0, 1, 3]), np.frombuffer("aé".encode(), np.uint8)).to_pylist() == ["a", "é"]
