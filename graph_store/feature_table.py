"""The features of a node type or edge type as a reader sees them: the base's tables and what changed since."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.features import (
    FeatureValues,
    Sections,
    concatenate,
    empty_sections,
    is_ragged,
    take,
    values_of,
    width,
    words_of,
)
from graph_store.schema import nearest
from graph_store.section_check import SectionCheck


class FeatureTables:
    """Tables of features with a row a node or an edge.

    Parameters
    ----------
    owner : str
        The type, for messages.
    features : sequence of FeatureType
    tables : sequence of dict
        Of each feature its sections in the base.
    rows_of : callable
        Gives the row in the base of each node or edge id, int64[n]; -1 where the base has none.
    changed : dict of int to dict, optional
        By the feature's place: sections with a row for each of the ascending `nodes` that changed.
    checks : sequence of dict, optional
        Of each feature what checks its sections in the base as they are read.
    """

    def __init__(
        self,
        owner: str,
        features: Sequence[FeatureType],
        tables: Sequence[Mapping[str, np.ndarray]],
        rows_of: Callable[[np.ndarray], np.ndarray],
        changed: Mapping[int, Mapping[str, np.ndarray]] | None = None,
        checks: Sequence[Mapping[str, SectionCheck]] = (),
    ) -> None:
        self.owner, self.features, self.tables = owner, list(features), list(tables)
        self._checks = checks
        self._rows_of, self.changed = rows_of, dict(changed or {})
        self._dictionaries: dict[int, list[bytes]] = {}

    @property
    def names(self) -> list[str]:
        """The features' names."""
        return [feature.name for feature in self.features]

    def place(self, name: str) -> int:
        """Return the number of a feature; BadInput names the nearest."""
        if name not in self.names:
            raise BadInput(f"{self.owner} has no feature {name!r}; {nearest(name, self.names)}")
        return self.names.index(name)

    def sections(self, name: str, keys: np.ndarray) -> Sections:
        """Return the table of some nodes or edge ids, int64[n], in the order asked.

        Raises
        ------
        CorruptBlock
            What is read is damaged.
        """
        place = self.place(name)
        feature, base_rows = self.features[place], self._rows_of(keys)
        self._check(place, base_rows)
        table = take(feature, self.tables[place], base_rows)
        changed = self.changed.get(place)
        if changed is None or changed["nodes"].size == 0:
            return table
        known = changed["nodes"]
        at = np.minimum(np.searchsorted(known, keys), known.size - 1)
        hit = known[at] == keys
        if not hit.any():
            return table
        both = concatenate(feature, [table, take(feature, changed, at[hit])])
        rows = np.arange(keys.size)
        rows[hit] = keys.size + np.arange(np.count_nonzero(hit))
        return take(feature, both, rows)

    def _check(self, place: int, rows: np.ndarray) -> None:
        checks = self._checks[place] if self._checks else {}
        if all(check.complete for check in checks.values()):
            return
        feature, table = self.features[place], self.tables[place]
        rows = rows[rows >= 0]
        checks["present"].items(rows, rows + 1)
        if is_ragged(feature):
            checks["starts"].items(rows, rows + 2)
            checks["values"].items(table["starts"][rows], table["starts"][rows + 1])
        else:
            checks["values"].items(rows * width(feature), (rows + 1) * width(feature))

    def values(self, name: str, keys: np.ndarray) -> FeatureValues:
        """Return the values of some nodes or edge ids."""
        return values_of(self.features[self.place(name)], self.sections(name, keys))

    def numbers(self, name: str, keys: np.ndarray) -> FeatureValues:
        """Return the values of some nodes or edge ids; categories as int64 places in `words`, -1 where absent.

        Raises
        ------
        BadInput
            The feature is of strings.
        """
        place = self.place(name)
        feature = self.features[place]
        if feature.kind == "string":
            raise BadInput(f"feature {name!r} of {self.owner} is of strings, which are no numbers; declare a category")
        sections = self.sections(name, keys)
        if feature.kind != "category":
            return values_of(feature, sections)
        present, codes = sections["present"].astype(bool), sections["values"].astype(np.int64)
        if place in self.changed:
            # Words that came later have other places in each part of the table.
            known = {word: code for code, word in enumerate(self._words(place))}
            codes = np.array([known[word] for word in words_of(sections)] or [0])[codes]
        codes[~present] = -1
        return FeatureValues(codes, None, present)

    def words(self, name: str) -> list[str]:
        """Return the words of a category, sorted by their bytes."""
        return [word.decode() for word in self._words(self.place(name))]

    def _words(self, place: int) -> list[bytes]:
        if place not in self._dictionaries:
            words = words_of(self.tables[place])
            if place in self.changed:
                words = sorted({*words, *words_of(self.changed[place])})
            self._dictionaries[place] = words
        return self._dictionaries[place]

    def with_changes(
        self, rows_of: Callable[[np.ndarray], np.ndarray], changed: Mapping[int, Mapping[str, np.ndarray]]
    ) -> "FeatureTables":
        """Return the same tables with later changes."""
        return FeatureTables(self.owner, self.features, self.tables, rows_of, changed, self._checks)


def no_tables(features: Sequence[FeatureType]) -> list[Sections]:
    """Return tables without rows."""
    return [empty_sections(feature, 0) for feature in features]
