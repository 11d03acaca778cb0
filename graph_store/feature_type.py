"""A feature of nodes or edges: its name, what its values are, and the columns of a file that hold them."""

from dataclasses import dataclass
from numbers import Integral, Real

from graph_store.errors import BadInput
from graph_store.words import check_choice, check_column, check_name, one_character

KINDS = ("vector", "scalar", "category", "ids", "string")
VECTOR_DTYPES = ("float32", "float16", "int8")
SCALAR_DTYPES = ("float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool")
# Within these 127 times the scale, and a number divided by it, are float32.
_SMALLEST_SCALE, _LARGEST_SCALE = 1e-30, 1e30


@dataclass(frozen=True)
class FeatureType:
    """A named value of every node or edge of a type.

    A value may be absent: it is kept as such, never as zero.

    Attributes
    ----------
    name : str
        Letters, digits, `_`, `-` and `.`.
    kind : str
        `"vector"` (numbers, as many for each), `"scalar"` (a number), `"category"` (a word of a closed set),
        `"ids"` (a list of int64, of any length) or `"string"` (any text).
    dtype : str or None
        Of a vector `"float32"` (default), `"float16"` or `"int8"`; of a scalar `"float32"` (default),
        `"float64"`, `"int8"`, `"int16"`, `"int32"`, `"int64"`, `"uint8"` or `"bool"`; None for the other kinds.
    dim : int or None
        Numbers of a vector; may be left out when `columns` names several, and is then their number.
    scale : float or None
        For vectors of int8, and needed there: value = stored number × scale.
    columns : tuple of str or int
        Where the values are: column names or positions from 0. Empty for the column named like the feature; a
        vector may name several, one for each of its numbers. One column need not stand in a tuple.
    separator : str or None
        Between the numbers of one text cell, for ids and for vectors of one column: one character, or its name
        as for a delimiter. None for blanks.

    Raises
    ------
    BadInput
        A value that cannot be, or two that exclude each other.
    """

    name: str
    kind: str = "scalar"
    dtype: str | None = None
    dim: int | None = None
    scale: float | None = None
    columns: tuple[str | int, ...] = ()
    separator: str | None = None

    def __post_init__(self) -> None:
        check_name("feature", self.name)
        place = f"feature {self.name!r}"
        check_choice(place, "kind", self.kind, KINDS)
        self._set_columns(place)
        self._set_dtype(place)
        self._set_dim(place)
        self._set_scale(place)
        self._set_separator(place)

    def _set_columns(self, place: str) -> None:
        given = (self.columns,) if isinstance(self.columns, (str, int)) else self.columns
        if not isinstance(given, (list, tuple)):
            raise BadInput(f"{place}: columns is {given!r}, expected a column name or position, or several in a list")
        for column in given:
            check_column(place, "a column", column)
        texts = [str(column) for column in given]
        for column in texts:
            if texts.count(column) > 1:
                raise BadInput(f"{place}: columns names {column!r} twice; name each column once")
        if len(given) > 1 and self.kind != "vector":
            raise BadInput(f"{place}: {len(given)} columns, but only a vector has several; say kind = 'vector'")
        object.__setattr__(self, "columns", tuple(given))

    def _set_dtype(self, place: str) -> None:
        known = {"vector": VECTOR_DTYPES, "scalar": SCALAR_DTYPES}.get(self.kind)
        if known is None and self.dtype is not None:
            raise BadInput(f"{place}: dtype is {self.dtype!r}, but kind {self.kind!r} has none; leave it out")
        if known is not None:
            object.__setattr__(self, "dtype", known[0] if self.dtype is None else self.dtype)
            check_choice(place, "dtype", self.dtype, known)

    def _set_dim(self, place: str) -> None:
        if self.kind != "vector":
            if self.dim is not None:
                raise BadInput(f"{place}: dim is {self.dim!r}, but only a vector has one; say kind = 'vector'")
            return
        if self.dim is None and len(self.columns) < 2:
            raise BadInput(f"{place}: dim is missing; say how many numbers the vector has, as in dim = 128")
        if self.dim is None:
            object.__setattr__(self, "dim", len(self.columns))
        if isinstance(self.dim, bool) or not isinstance(self.dim, Integral) or self.dim < 1:
            raise BadInput(f"{place}: dim is {self.dim!r}, expected a whole number of 1 or more")
        object.__setattr__(self, "dim", int(self.dim))
        if len(self.columns) > 1 and self.dim != len(self.columns):
            raise BadInput(
                f"{place}: dim is {self.dim}, but columns names {len(self.columns)}; name {self.dim}, or leave dim out"
            )

    def _set_scale(self, place: str) -> None:
        needed = self.kind == "vector" and self.dtype == "int8"
        if self.scale is None and needed:
            raise BadInput(f"{place}: scale is missing; an int8 vector needs it (value = stored number * scale)")
        if self.scale is None:
            return
        if not needed:
            raise BadInput(f"{place}: scale is for vectors of dtype 'int8' only; leave it out, or say dtype = 'int8'")
        number = isinstance(self.scale, Real) and not isinstance(self.scale, bool)
        if not number or not _SMALLEST_SCALE < self.scale < _LARGEST_SCALE:
            raise BadInput(f"{place}: scale is {self.scale!r}, expected a number above 0")
        object.__setattr__(self, "scale", float(self.scale))

    def _set_separator(self, place: str) -> None:
        if self.separator is None:
            return
        if not self.is_list:
            raise BadInput(
                f"{place}: separator is for kind 'ids' and for a vector in one column; leave it out or say which it is"
            )
        mark = one_character(place, "separator", self.separator)
        if mark.isalnum() or mark in "+-.":
            raise BadInput(f"{place}: separator {mark!r} can be part of a number; expected a mark such as ',' or '|'")
        object.__setattr__(self, "separator", mark)

    @property
    def is_list(self) -> bool:
        """True when one cell holds several numbers: ids, or a vector in one column."""
        return self.kind == "ids" or (self.kind == "vector" and len(self.columns) < 2)

    @property
    def source_columns(self) -> tuple[str | int, ...]:
        """The columns that hold the values: `columns`, or the one named like the feature."""
        return self.columns or (self.name,)
