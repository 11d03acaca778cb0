"""What an ingest has in its spools, as JSON: for other ranks, and to go on after a kill."""

from collections.abc import Callable
from typing import Any

import numpy as np

from graph_store.feature_spool import FeatureChunk, WaitingColumn
from graph_store.id_collector import Segment
from graph_store.id_merge import IdBlock
from graph_store.row_chunks import Block, Chunk
from graph_store.spool import Piece

_KINDS = {kind.__name__: kind for kind in (Segment, IdBlock, Chunk, Block, FeatureChunk, WaitingColumn)}


def encode(value: Any, on_disk: Callable[[Piece], Piece]) -> Any:
    """Return a value of plain types, arrays, pieces and the tuples made of them as what JSON has.

    Parameters
    ----------
    on_disk : callable
        Returns where a piece is in the file of its spool.
    """
    if isinstance(value, Piece):
        piece = on_disk(value)
        return {"piece": [piece.offset, piece.size, piece.dtype]}
    if isinstance(value, np.ndarray):
        return {"array": [value.dtype.str, value.tolist()]}
    if type(value).__name__ in _KINDS:
        return {type(value).__name__: [encode(part, on_disk) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[key, encode(part, on_disk)] for key, part in value.items()]}
    if isinstance(value, (list, tuple)):
        return [encode(part, on_disk) for part in value]
    return value.item() if isinstance(value, np.generic) else value


def decode(value: Any) -> Any:
    """Return what `encode` was given; tuples of plain types are lists then."""
    if isinstance(value, list):
        return [decode(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, parts),) = value.items()
    if kind == "piece":
        return Piece(-1, *parts)
    if kind == "array":
        return np.array(parts[1], parts[0])
    if kind == "dict":
        return {key: decode(part) for key, part in parts}
    return _KINDS[kind](*(decode(part) for part in parts))
