"""Writes the features of a store: what waited in spools, into the arena and the SST files of the shards."""

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from graph_store.feature_builder import FeatureBuilder
from graph_store.feature_records import dictionary_piece, prefix, read_tables, records_of_shard, write_tables
from graph_store.feature_spool import WaitingColumn, get_column, take_rows
from graph_store.feature_type import FeatureType
from graph_store.spool import Spool


class TableWriter:
    """Makes the tables of one node type or edge type and writes their arena file.

    Parameters
    ----------
    path : Path
        Of the arena file.
    rows : int
        Rows of the tables.
    folder : Path
        Where they grow; removed at the end.
    """

    def __init__(self, path: Path, features: Sequence[FeatureType], rows: int, folder: Path) -> None:
        self._path, self._folder = path, folder
        self._builders = {}
        for place, feature in enumerate(features):
            own = folder / str(place)
            own.mkdir(parents=True)
            self._builders[feature.name] = FeatureBuilder(feature, own, rows)

    def add(
        self, rows: np.ndarray, spool: Spool, columns: dict[str, WaitingColumn], chosen: np.ndarray | None = None
    ) -> None:
        """Take columns for rows int64[n], or those places of them that are chosen."""
        for name, waiting in columns.items():
            column = get_column(spool, waiting)
            self._builders[name].add(rows, column if chosen is None else take_rows(column, chosen))

    def finish(self) -> None:
        """Write the arena file."""
        write_tables(self._path, [builder.sections() for builder in self._builders.values()])
        self._builders.clear()
        shutil.rmtree(self._folder)


def feature_pieces(
    path: Path, features: Sequence[FeatureType], kind: bytes, number: int, *, shard: int, base: Any
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the pieces of a type's features that belong to one shard, from its arena file; see `feature_records`."""
    yield from records_of_shard(features, read_tables(path, len(features))[0], kind, number, shard=shard, base=base)


def dictionaries(
    path: Path, features: Sequence[FeatureType], kind: bytes, number: int
) -> Iterator[tuple[bytes, bytes]]:
    """Yield the dictionaries of a type's categories."""
    for place, (feature, table) in enumerate(zip(features, read_tables(path, len(features))[0])):
        if feature.kind == "category":
            yield b"w" + prefix(kind, number, place) + bytes(8), dictionary_piece(table)


def stored_features(features: Sequence[FeatureType]) -> list[dict[str, Any]]:
    """Return what the manifest says of features."""
    keys = ("name", "kind", "dtype", "dim", "scale")
    return [{key: getattr(feature, key) for key in keys} for feature in features]
