"""What the text of one cell is worth: the slow, exact twin of the readers, which says what is wrong."""

import math
import re

import numpy as np

from graph_store.row_batch import INT64_MAX, INT64_MIN, Field, shown

_WHOLE = re.compile(r"[ \t]*-?[0-9]+[ \t]*")
_NUMBER = re.compile(r"[ \t]*[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?[ \t]*")


def check_text(text: str, field: Field) -> tuple[str, str] | None:
    """Say what is wrong with the text of one value, exactly as the readers would have it.

    Returns
    -------
    (found, advice) or None
        None when the value can be taken.
    """
    if text == "" or (field.kind != "string" and not text.strip(" \t")):
        return f"empty {_noun(field)}", "fill it in or remove the row"
    if field.kind == "string":
        return (f"{shown(text)} holds a zero byte", "repair the id") if "\0" in text else None
    if field.kind == "weight":
        return _check_weight(text)
    if not _WHOLE.fullmatch(text):
        return f"{shown(text)} is no whole number", _advice(text, field)
    if not INT64_MIN <= int(text) <= INT64_MAX:
        remedy = "declare string ids (--id-type string)" if field.node_type else "use a coarser unit of time"
        return (
            f"{shown(text.strip())} is out of the range of int64",
            f"expected {INT64_MIN} to {INT64_MAX}; {remedy}",
        )
    return None


def _noun(field: Field) -> str:
    return "id" if field.node_type else field.role


def _advice(text: str, field: Field) -> str:
    if field.node_type is None:
        return "expected whole numbers in one unit of time, such as seconds"
    if _NUMBER.fullmatch(text):
        return "write ids as plain digits, without sign '+', point or exponent; a float loses ids above 2^53"
    return (
        f"node type {field.node_type.name!r} has integer ids; declare string ids (--id-type string) "
        "if that is what they are"
    )


def _check_weight(text: str) -> tuple[str, str] | None:
    advice = "expected a finite number within float32"
    if not _NUMBER.fullmatch(text):
        return f"{shown(text)} is no finite number", advice
    with np.errstate(over="ignore"):
        finite = math.isfinite(np.float32(float(text)))
    return None if finite else (f"{shown(text.strip())} is out of the range of float32", advice)
