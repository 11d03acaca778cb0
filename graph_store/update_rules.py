"""Rows of an update checked against the edge type: columns that must be there, weights, self loops, duplicates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from graph_store.adjacency import Adjacency
from graph_store.errors import BadInput
from graph_store.features import Sections, stored, take
from graph_store.kernels import int64_array, unmasked
from graph_store.manifest import StoredEdgeType, StoredNodeType
from graph_store.schema import nearest
from graph_store.string_ids import is_utf8


class EdgeRows(NamedTuple):
    """Edges as an update brings them.

    src, dst : ids as given; weight : float32[n] or None; time : int64[n] or None; features : dict of str to table
    """

    src: Any
    dst: Any
    weight: np.ndarray | None
    time: np.ndarray | None
    features: dict[str, Sections]

    def take(self, rows: np.ndarray, entry: StoredEdgeType) -> "EdgeRows":
        """Return some rows, by index."""
        types = {feature.name: feature for feature in entry.feature_types}
        return EdgeRows(
            take_ids(self.src, rows),
            take_ids(self.dst, rows),
            None if self.weight is None else self.weight[rows],
            None if self.time is None else self.time[rows],
            {name: take(types[name], table, rows) for name, table in self.features.items()},
        )


def take_ids(ids: Any, rows: np.ndarray) -> Any:
    """Return some ids of whatever sequence they came in."""
    return ids[rows] if isinstance(ids, np.ndarray) else [ids[row] for row in rows.tolist()]


def as_ids(ids: Any, node_type: StoredNodeType) -> Any:
    """Return ids as a list of str or an int64 or uint64 array.

    Raises
    ------
    BadInput
        An id of another kind, out of range, or an empty string.
    """
    if node_type.id_type == "string":
        texts = ids.to_pylist() if hasattr(ids, "to_pylist") else ids
        if isinstance(texts, str):
            raise BadInput(f"ids of {node_type.name} must be a sequence of strings, got one string {texts!r}")
        texts = list(texts)
        for row, text in enumerate(texts):
            if not isinstance(text, str) or not text or "\0" in text:
                raise BadInput(f"row {row}: id {text!r} of {node_type.name}: expected a string that is not empty")
            if not is_utf8(text):
                raise BadInput(f"row {row}: id {text!a} of {node_type.name} holds half a character; repair it")
        return texts
    wanted = np.dtype(np.uint64 if node_type.id_type == "unsigned" else np.int64)
    given = (
        ids.to_numpy(zero_copy_only=False)
        if hasattr(ids, "to_pylist")
        else plain_array(ids, f"ids of {node_type.name}")
    )
    if given.ndim != 1:
        raise BadInput(f"ids of {node_type.name} must have one dimension, got shape {given.shape}")
    if given.size == 0:
        return np.empty(0, wanted)
    if given.dtype.kind not in "iu":
        raise BadInput(f"ids of {node_type.name} are integers, got {given.dtype}")
    info = np.iinfo(wanted)
    if int(given.min()) < info.min or int(given.max()) > info.max:
        raise BadInput(f"ids of {node_type.name} are {wanted}, got {given.min()} to {given.max()}")
    return np.ascontiguousarray(given, wanted)


def plain_array(values: Any, what: str) -> np.ndarray:
    """Return values as an array; BadInput where one is masked."""
    try:
        return unmasked(values, what)
    except ValueError as error:
        raise BadInput(str(error)) from None


def as_times(place: str, times: np.ndarray) -> np.ndarray:
    """Return integers as int64 times; BadInput where one is past int64."""
    try:
        return int64_array(times, "times")
    except ValueError as error:
        raise BadInput(f"{place}: {error}") from None


def checked_rows(
    entry: StoredEdgeType,
    ends: tuple[StoredNodeType, StoredNodeType],
    src: Any,
    dst: Any,
    *,
    weight: Any,
    time: Any,
    features: Mapping[str, Any] | None,
) -> EdgeRows:
    """Return the rows of edges to add, of the right types and lengths.

    Raises
    ------
    BadInput
        A column that is missing, too many, too short, or of another kind; the message names it.
    """
    place = f"edges of {entry.name}"
    sources, targets = as_ids(src, ends[0]), as_ids(dst, ends[1])
    size = len(sources)
    if len(targets) != size:
        raise BadInput(f"{place}: {size} sources and {len(targets)} destinations; give as many of both")
    weights = None if weight is None else plain_array(weight, f"{place}: weight")
    _check_column(place, "weight", weights, size, entry.weighted, "iuf")
    times = None if time is None else plain_array(time, f"{place}: time")
    _check_column(place, "time", times, size, entry.timed, "iu")
    tables = {}
    known = {feature.name: feature for feature in entry.feature_types}
    for name, values in (features or {}).items():
        if name not in known:
            raise BadInput(f"{place}: no feature {name!r}; {nearest(name, known)}")
        tables[name] = checked_table(place, known[name], values, size)
    with np.errstate(over="ignore"):
        floats = None if weights is None else weights.astype(np.float32)
    return EdgeRows(sources, targets, floats, None if times is None else as_times(place, times), tables)


def checked_table(place: str, feature: Any, values: Any, rows: int) -> Sections:
    """Return feature values as a table of `rows` rows; BadInput says what is wrong with them."""
    try:
        return stored(feature, values, rows)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{place}: {error}") from None


def _check_column(place: str, name: str, given: np.ndarray | None, size: int, wanted: bool, kinds: str) -> None:
    if given is None:
        if wanted:
            raise BadInput(f"{place}: no {name}; the edge type has a {name} for each edge")
        return
    if not wanted:
        raise BadInput(f"{place}: got a {name}, but the edge type was made without; leave it out")
    if given.shape != (size,) or (size and given.dtype.kind not in kinds):
        raise BadInput(
            f"{place}: {name} must be {size} {'numbers' if 'f' in kinds else 'integers'}, got "
            f"{given.dtype} {list(given.shape)}"
        )


def kept_rows(entry: StoredEdgeType, rows: EdgeRows) -> tuple[np.ndarray, dict[str, int]]:
    """Return the mask of rows that the rules of an edge type let in, and how many each rule left out.

    Raises
    ------
    BadInput
        A rule says error.
    """
    keep, dropped = np.ones(len(rows.src), bool), dict[str, int]()

    def apply(rule: str, wrong: np.ndarray, default: str, what: str) -> None:
        action = entry.rules.get(rule, default)
        wrong = wrong & keep
        if action == "keep" or not wrong.any():
            return
        if action == "error":
            row = int(np.flatnonzero(wrong)[0])
            ends = f"{plain(rows.src[row])!r} to {plain(rows.dst[row])!r}"
            raise BadInput(f"edges of {entry.name}: row {row} ({ends}) {what}; leave it out")
        dropped[rule] = int(np.count_nonzero(wrong))
        keep[wrong] = False

    if rows.weight is not None:
        apply("bad_weights", ~np.isfinite(rows.weight), "error", "has a weight that is not finite")
        apply("negative_weights", rows.weight < 0, "keep", "has a negative weight")
    if entry.src == entry.dst:
        pairs = zip(rows.src, rows.dst)
        same = rows.src == rows.dst if isinstance(rows.src, np.ndarray) else np.array([a == b for a, b in pairs], bool)
        apply("self_loops", same, "keep", "is a self loop")
    return keep, dropped


def plain(one: Any) -> Any:
    """Return an id as Python shows it in messages."""
    return one.item() if isinstance(one, np.generic) else one


def known_edges(adjacency: Adjacency, src: np.ndarray, dst: np.ndarray, time: np.ndarray | None) -> np.ndarray:
    """Return bool[n], whether each edge between nodes is stored, of just that time where there are times."""
    num_shards = adjacency.counts.size
    known = np.flatnonzero(src // num_shards < adjacency.counts[src % num_shards])
    indptr, neighbors, _, times, _ = adjacency.columns(src[known], weights=False, edge_ids=False)
    rows = np.repeat(known, np.diff(indptr))
    same = neighbors == dst[rows]
    if time is not None and times is not None:
        same &= times == time[rows]
    found = np.zeros(src.size, bool)
    found[rows[same]] = True
    return found
