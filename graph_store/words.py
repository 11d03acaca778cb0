"""The words a schema is written in: names, choices, columns and flags, and how a wrong one is refused."""

import difflib
import re
import unicodedata
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from graph_store.errors import BadInput

DELIMITERS = {"tab": "\t", "\\t": "\t", "space": " ", "comma": ",", "semicolon": ";", "pipe": "|"}
WILDCARD = "*"
BAD_ROWS = ("stop", "aside")
BAD_ROWS_LIMIT = 1000
_NAME = re.compile(r"\w[\w.\-]{0,99}")
_LONGEST_RELATION = 255


def nearest(word: object, known: Iterable[str]) -> str:
    """Return the end of a message about an unknown `word`: the nearest known one, or all of them.

    Parameters
    ----------
    word : object
        What was given.
    known : iterable of str
        What could have been given.

    Returns
    -------
    str
        `"did you mean 'dst'?"`, or `"known: …"` when nothing is near.
    """
    names = [str(name) for name in known]
    close = difflib.get_close_matches(str(word), names, n=1, cutoff=0.5)
    if close:
        return f"did you mean {close[0]!r}?"
    shown = ", ".join(repr(name) for name in names[:20])
    return f"known: {shown}{', …' if len(names) > 20 else ''}" if names else "there are none"


@contextmanager
def within(place: object) -> Iterator[None]:
    """Put the place in front of the message of a BadInput that is raised within."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{place}: {error}") from None


def check_name(what: str, name: object) -> None:
    """Raise BadInput unless `name` can be the name of a node type or a feature; `what` says which it is."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadInput(
            f"{what} name {name!r}: expected 1 to 100 letters, digits, '_', '-' or '.', "
            "beginning with a letter, a digit or '_'"
        )


def check_relation(name: object) -> None:
    """Raise BadInput unless `name` can be a relation: freer than other names, so that a graph's own words stay."""
    if isinstance(name, str) and 1 <= len(name) <= _LONGEST_RELATION and all(map(_is_plain, name)):
        return
    shown = repr(name if not isinstance(name, str) or len(name) <= 60 else name[:60] + "…")
    raise BadInput(f"relation name {shown}: expected 1 to {_LONGEST_RELATION} characters other than ':' and blanks")


def _is_plain(character: str) -> bool:
    return character != ":" and not character.isspace() and unicodedata.category(character) not in ("Cc", "Cs")


def check_choice(place: str, key: str, value: object, known: Iterable[str]) -> None:
    """Raise BadInput unless `value` is one of the `known` words."""
    choices = tuple(known)
    if value not in choices:
        expected = ", ".join(repr(choice) for choice in choices)
        near = nearest(value, choices)
        raise BadInput(
            f"{place}: {key} is {value!r}, expected {expected}" + (f"; {near}" if near.startswith("did") else "")
        )


def check_flag(place: str, key: str, value: object) -> None:
    """Raise BadInput unless `value` is true or false."""
    if not isinstance(value, bool):
        raise BadInput(f"{place}: {key} is {value!r}, expected true or false")


def check_column(place: str, role: str, column: object) -> None:
    """Raise BadInput unless `column` is a column name or a position from 0."""
    if isinstance(column, bool) or not isinstance(column, (str, int)) or column == "":
        raise BadInput(f"{place}: {role} is {column!r}, expected a column name or a position from 0")
    if isinstance(column, int) and column < 0:
        raise BadInput(f"{place}: {role} is {column}, expected a position from 0")


def one_character(place: str, key: str, given: object) -> str:
    """Return the one ASCII character that `given` is or names (`"tab"`, `"space"`, …); raise BadInput otherwise."""
    text = DELIMITERS.get(given, given) if isinstance(given, str) else given
    if not isinstance(text, str) or len(text) != 1 or not text.isascii() or text in '"\r\n\0':
        raise BadInput(f"{place}: {key} {given!r}: expected one ASCII character, 'tab' or 'space'")
    return text


def tuple_of(kind: type, place: str, key: str, given: Any) -> tuple[Any, ...]:
    """Return one value of a kind, or several, as a tuple; raise BadInput for anything else."""
    values = (given,) if isinstance(given, kind) else given
    if not isinstance(values, (list, tuple)) or not all(isinstance(value, kind) for value in values):
        raise BadInput(f"{place}: {key} is {given!r}, expected a tuple of {kind.__name__}")
    return tuple(values)


def check_bad_rows(place: str, bad_rows: object, limit: object) -> None:
    """Raise BadInput unless these say what becomes of rows that cannot be taken, and of how many."""
    check_choice(place, "bad_rows", bad_rows, BAD_ROWS)
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 0:
        raise BadInput(f"{place}: bad_rows_limit is {limit!r}, expected a whole number of 0 or more")
