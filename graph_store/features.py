"""Features: the values that nodes and edges have, as tables of mapped arrays with a row a node or edge.

A table of one feature is a few flat arrays, its sections:

========== ======================= ===========================================================
kind       section                 content
========== ======================= ===========================================================
all        `present`               uint8[rows], 0 where the value is absent
vector     `values`                float32, float16 or int8 [rows * dim]
scalar     `values`                [rows] of its dtype
category   `values`                int32[rows], the word's place in the dictionary
           `words`, `word_starts`  uint8, int64: the UTF-8 bytes of the words, ascending
ids        `values`, `starts`      int64[m], int64[rows + 1]
string     `values`, `starts`      uint8[m] UTF-8 bytes, int64[rows + 1]
========== ======================= ===========================================================
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from graph_store.feature_type import FeatureType
from graph_store.ragged import starts_of, take_spans

Sections = dict[str, np.ndarray]


class FeatureValues(NamedTuple):
    """The values of one feature for some nodes or edges.

    Attributes
    ----------
    values : np.ndarray
        vector: [n, dim] of float32 or float16 (int8 is multiplied by its scale, in float32); scalar: [n] of its
        dtype; category and string: object[n] of str, None where absent; ids: int64[m]. Absent numbers are 0.
    indptr : int64[n + 1] or None
        Where the list of each begins, for ids.
    present : bool[n]
        False where there is no value.
    """

    values: np.ndarray
    indptr: np.ndarray | None
    present: np.ndarray


def is_ragged(feature: FeatureType) -> bool:
    """Say whether values differ in length: ids and strings."""
    return feature.kind in ("ids", "string")


def value_type(feature: FeatureType) -> np.dtype:
    """Return the dtype of the section `values`."""
    by_kind = {"category": np.int32, "ids": np.int64, "string": np.uint8}
    return np.dtype(by_kind.get(feature.kind, feature.dtype))


def width(feature: FeatureType) -> int:
    """Return how many values a row has in the section `values`, where all have as many."""
    return feature.dim or 1


def empty_sections(feature: FeatureType, rows: int) -> Sections:
    """Return the sections of a table in which every value is absent."""
    sections = {"present": np.zeros(rows, np.uint8)}
    if is_ragged(feature):
        return sections | {"values": np.empty(0, value_type(feature)), "starts": np.zeros(rows + 1, np.int64)}
    sections["values"] = np.zeros(rows * width(feature), value_type(feature))
    if feature.kind == "category":
        sections |= {"words": np.empty(0, np.uint8), "word_starts": np.zeros(1, np.int64)}
    return sections


def take(feature: FeatureType, sections: Mapping[str, np.ndarray], rows: np.ndarray) -> Sections:
    """Return the sections of a table of some rows; a row below 0 is absent."""
    if sections["present"].size == 0:
        return dict(sections) | empty_sections(feature, rows.size)
    outside = rows < 0
    if outside.any():
        rows = np.where(outside, 0, rows)
    taken = {"present": sections["present"][rows]}
    taken["present"][outside] = 0
    if is_ragged(feature):
        starts = sections["starts"]
        sizes = starts[rows + 1] - starts[rows]
        sizes[outside] = 0
        taken["starts"] = starts_of(sizes)
        taken["values"] = take_spans(sections["values"], starts[rows], taken["starts"])
        return taken
    values = sections["values"].reshape(-1, width(feature))[rows]
    values[outside] = 0
    taken["values"] = values.ravel()
    if feature.kind == "category":
        taken |= {name: sections[name] for name in ("words", "word_starts")}
    return taken


def concatenate(feature: FeatureType, tables: Sequence[Mapping[str, np.ndarray]]) -> Sections:
    """Put the rows of several tables behind each other; dictionaries are joined."""
    if len(tables) == 1:
        return dict(tables[0])
    joined = {"present": np.concatenate([table["present"] for table in tables])}
    if is_ragged(feature):
        offsets = np.cumsum([0, *(int(table["starts"][-1]) for table in tables)])
        starts = [table["starts"][1:] + offset for table, offset in zip(tables, offsets)]
        joined["starts"] = np.concatenate([np.zeros(1, np.int64), *starts])
    if feature.kind == "category":
        return joined | _joined_categories(tables)
    joined["values"] = np.concatenate([np.asarray(table["values"]) for table in tables])
    return joined


def _joined_categories(tables: Sequence[Mapping[str, np.ndarray]]) -> Sections:
    dictionaries = [words_of(table) for table in tables]
    known = sorted({word for words in dictionaries for word in words})
    place = {word: number for number, word in enumerate(known)}
    codes = []
    for table, words in zip(tables, dictionaries):
        mapping = np.array([place[word] for word in words] or [0], np.int32)
        codes.append(mapping[table["values"]] if words else np.zeros(table["values"].size, np.int32))
    return {"values": np.concatenate(codes), **word_sections(known)}


def words_of(sections: Mapping[str, np.ndarray]) -> list[bytes]:
    """Return the words of a category's dictionary."""
    data, starts = np.asarray(sections["words"]).tobytes(), sections["word_starts"].tolist()
    return [data[start:stop] for start, stop in zip(starts[:-1], starts[1:])]


def word_sections(words: Sequence[bytes]) -> Sections:
    """Return the sections of a dictionary."""
    starts = np.cumsum([0, *map(len, words)]).astype(np.int64)
    return {"words": np.frombuffer(b"".join(words), np.uint8), "word_starts": starts}


def values_of(feature: FeatureType, sections: Mapping[str, np.ndarray]) -> FeatureValues:
    """Return the values of all rows as users get them."""
    present = sections["present"].astype(bool)
    values = sections["values"]
    if feature.kind == "ids":
        return FeatureValues(np.asarray(values), np.asarray(sections["starts"]), present)
    if feature.kind == "string":
        return FeatureValues(_texts(np.asarray(values), sections["starts"], present), None, present)
    if feature.kind == "category":
        words = np.array([*(word.decode() for word in words_of(sections)), None], object)
        texts = words[values]
        texts[~present] = None
        return FeatureValues(texts, None, present)
    if feature.kind == "scalar":
        return FeatureValues(np.asarray(values), None, present)
    rows = np.asarray(values).reshape(-1, width(feature))
    if feature.scale is not None:
        rows = rows.astype(np.float32) * np.float32(feature.scale)
    return FeatureValues(rows, None, present)


def _texts(values: np.ndarray, starts: np.ndarray, present: np.ndarray) -> np.ndarray:
    data, places = values.tobytes(), starts.tolist()
    texts = np.empty(present.size, object)
    for row, there in enumerate(present.tolist()):
        if there:
            texts[row] = data[places[row] : places[row + 1]].decode()
    return texts


def stored(feature: FeatureType, values: Any, rows: int, present: Any = None) -> Sections:
    """Return the sections of a table of values as users give them, the opposite of `values_of`.

    Parameters
    ----------
    feature : FeatureType
    values
        vector: [rows, dim] of numbers (for an int8 feature divided by its scale and rounded; an array of int8 is
        taken as stored); scalar: [rows]; category, string: a sequence of str or None; ids: a sequence of sequences of
        integers or None. Arrow arrays are taken too; what a numpy mask hides is absent.
    rows : int
        How many there must be.
    present : bool[rows], optional
        False where there is no value; None in `values` says the same.

    Raises
    ------
    TypeError, ValueError
        Values of another kind, shape or range; the message names the feature.
    """
    from graph_store.feature_values import checked_sections

    return checked_sections(feature, values, rows, present)
