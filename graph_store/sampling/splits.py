"""Splits: the edges of a type shared out to training, validation and test, so that no part has a pair of another."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graph_store.draws import SPLITS, key_of, mixed
from graph_store.errors import BadInput
from graph_store.kernels import kernel
from graph_store.sampling.edge_part import EdgePart
from graph_store.sampling.exclusions import Exclusions
from graph_store.sampling.negatives import ALPHA, Negatives, NegativeSampler

if TYPE_CHECKING:
    from graph_store.manifest import StoredEdgeType
    from graph_store.store import GraphStore

PARTS = ("train", "valid", "test")
RULES = ("edge", "time", "leave_one_out", "each_user", "user")
_TRAIN, _VALID, _TEST, _LEFT_OUT = range(4)
_ROWS = 1 << 20


class HeldOutNegatives(NamedTuple):
    """Negatives of a split's validation and test.

    Attributes
    ----------
    valid, test : Negatives
        A row for each edge of the part.
    taken : Exclusions
        Their pairs, which training's negatives must not be: see `NegativeSampler`.
    """

    valid: Negatives
    test: Negatives
    taken: Exclusions


@dataclass(frozen=True)
class Split:
    """Three parts of an edge type: no pair of nodes, in either direction where both are of one type, is in two.

    Attributes
    ----------
    edge_type : str
    train, valid, test : EdgePart
        Ascending by position; an undirected edge is there once, from the lower node to the higher.
    left_out : int
        Edges in no part: by time, those whose pair was in an earlier part already.
    """

    edge_type: str
    train: EdgePart
    valid: EdgePart
    test: EdgePart
    left_out: int
    one_type: bool = field(repr=False, default=False)

    def held_out(self, part: str = "train") -> Exclusions:
        """Return the edges that are not to be seen while a part is learned or scored.

        Parameters
        ----------
        part : str
            For `"train"` and `"valid"` those of validation and test, for `"test"` those of test.

        Returns
        -------
        Exclusions
            Of this edge type; where both ends are of one type with the reverse of each edge.
        """
        if part not in PARTS:
            raise BadInput(f"part must be one of {', '.join(PARTS)}, got {part!r}")
        parts = (self.test,) if part == "test" else (self.valid, self.test)
        src, dst = (np.concatenate([getattr(each, end) for each in parts]) for end in ("src", "dst"))
        return self._exclusions(src, dst)

    def negatives(
        self,
        store: "GraphStore",
        num_negatives: int = 1,
        *,
        method: str = "uniform",
        alpha: float = ALPHA,
        seed: int = 0,
    ) -> HeldOutNegatives:
        """Draw negatives for validation and test: no edges of any part, and no pair for both.

        Parameters
        ----------
        store : GraphStore
            The one that was split.
        num_negatives : int
            For each edge; by an edge's place in its part, -1 for a source with an edge to every node.
        method, alpha, seed
            As of `NegativeSampler.of_type` and `sample`.
        """
        taken, drawn = Exclusions(*np.empty((2, 0), np.int64)), []
        for code, part in ((_TEST, self.test), (_VALID, self.valid)):
            sampler = NegativeSampler.of_type(store, self.edge_type, method=method, alpha=alpha, taken=taken)
            found = sampler.sample(
                part.src, np.arange(len(part)), num_negatives=num_negatives, seed=seed, epoch=code, targets=part.dst
            )
            met = ~found.unmet
            taken = taken.union(self._exclusions(np.repeat(part.src, met.sum(axis=1)), found.nodes[met]))
            drawn.append(found)
        return HeldOutNegatives(drawn[1], drawn[0], taken)

    def _exclusions(self, src: np.ndarray, dst: np.ndarray) -> Exclusions:
        """Return pairs; both ways where both ends are of one type."""
        if self.one_type:
            src, dst = np.concatenate([src, dst]), np.concatenate([dst, src])
        return Exclusions(src, dst)


class _Rows(NamedTuple):
    """All entries of an edge type in order of position: what a rule goes by.

    `keys` uint64[n] is one random number for each pair of nodes; `once` bool[n] picks each edge once.
    """

    keys: np.ndarray
    once: np.ndarray
    sources: np.ndarray | None
    times: np.ndarray | None


def split_edges(
    store: "GraphStore",
    edge_type: str,
    *,
    by: str = "edge",
    valid: float | None = None,
    test: float | None = None,
    cuts: Sequence[int] | None = None,
    latest: bool | None = None,
    seed: int = 0,
) -> Split:
    """Share the edges of a type out to training, validation and test.

    Parallel edges, an edge and its reverse between nodes of one type, and both entries of an undirected edge are always
    in the same part. Which part that is depends on the seed and the nodes alone: not on threads, and with `by` an
    `"edge"` the validation edges are the same whatever `test` is, and the other way round.

    Parameters
    ----------
    store : GraphStore
    edge_type : str
    by : str
        - `"edge"`: at random, `valid` and `test` being shares of all edges.
        - `"time"`: the latest `test` of the edges, before them the latest `valid`; edges of one moment stay together,
          in the earlier part. An edge whose pair was in an earlier part already is left out.
        - `"leave_one_out"`: of each source one edge is the test's and one the validation's (`valid` and `test` are 1 or
          0), the latest ones or random ones. A source keeps at least one for training, then one for the test.
        - `"each_user"`: the shares are of each source's edges; it keeps at least one unless they add up to 1.
        - `"user"`: the shares are of the sources that have edges, each with all it has.
    valid, test : float, optional
        Shares, each from 0, together at most 1; 0.1 when None, or 1 to leave one out. 0 gives an empty part. A number
        of edges is rounded, and less where parallel edges stay together.
    cuts : two ints, optional
        By time, instead of shares: the first times of validation and of test.
    latest : bool, optional
        For `"leave_one_out"` and `"each_user"`: hold out the latest edges of a source (of one moment those behind in
        its list) instead of random ones. None: to leave one out where the type has times.
    seed : int

    Returns
    -------
    Split
        While it is made it takes 20 to 80 bytes an entry.

    Raises
    ------
    UnknownEdgeType
    BadInput
        A rule that there is not, shares out of range, times of a type that has none.
    """
    store.adjacency(edge_type)  # there is such a type
    entry = store.edge_types[edge_type]
    valid, test, latest = _checked(entry, by, valid, test, cuts, latest)
    rows = _read(store, entry, seed, sources=by in ("leave_one_out", "each_user", "user"), times=by == "time")
    if by == "edge":
        codes = _by_edge(rows, valid, test)
    elif by == "time":
        codes = _by_time(rows, valid, test, cuts)
    elif by == "user":
        codes = _by_source(rows, key_of(seed, 1, SPLITS), valid, test)
    else:
        codes = _by_each_source(rows, valid, test, latest=latest, one=by == "leave_one_out")
    if entry.src == entry.dst and rows.sources is not None:
        _keep_together(codes, rows.keys)
    train, valid_part, test_part = (
        EdgePart(store, entry.name, np.flatnonzero((codes == code) & rows.once)) for code in (_TRAIN, _VALID, _TEST)
    )
    left_out = int(np.count_nonzero((codes == _LEFT_OUT) & rows.once))
    return Split(entry.name, train, valid_part, test_part, left_out, entry.src == entry.dst)


def _checked(
    entry: "StoredEdgeType",
    by: str,
    valid: float | None,
    test: float | None,
    cuts: Sequence[int] | None,
    latest: bool | None,
) -> tuple[float, float, bool]:
    place = f"split of {entry.name}"
    if by not in RULES:
        raise BadInput(f"{place}: by must be one of {', '.join(RULES)}, got {by!r}")
    if cuts is not None and (by != "time" or valid is not None or test is not None):
        raise BadInput(f"{place}: cuts are for by='time', in the place of valid and test")
    if cuts is not None and (len(cuts) != 2 or cuts[0] > cuts[1]):
        raise BadInput(f"{place}: cuts must be two times, the earlier first, got {list(cuts)}")
    one = by == "leave_one_out"
    valid, test = ((1 if one else 0.1) if share is None else share for share in (valid, test))
    if one and not (valid in (0, 1) and test in (0, 1)):
        raise BadInput(f"{place}: to leave one out valid and test must be 0 or 1, got {valid} and {test}")
    if not one and not (0 <= valid <= 1 and 0 <= test <= 1 and valid + test <= 1 + 1e-9):
        raise BadInput(
            f"{place}: valid and test must be shares from 0 to 1, together at most 1, got {valid} and {test}"
        )
    if latest is not None and not one and by != "each_user":
        raise BadInput(f"{place}: latest is for by='leave_one_out' and 'each_user', got by={by!r}")
    if (latest or by == "time") and not entry.timed:
        raise BadInput(f"{place}: the edge type has no times to split by; ingest it with a time column")
    return valid, test, one and entry.timed if latest is None else latest


@kernel
def _pair_keys(key, sources, targets, either_way, out):
    for i in range(sources.size):
        first, second = sources[i], targets[i]
        if either_way and first > second:
            first, second = second, first
        out[i] = mixed(mixed(key, np.uint64(first)), np.uint64(second))


def _read(store: "GraphStore", entry: "StoredEdgeType", seed: int, *, sources: bool, times: bool) -> _Rows:
    from graph_store.scan import entries  # pyarrow, which a sampler needs not

    adjacency = store.adjacency(entry.name)
    size, key = adjacency.num_edges, key_of(seed, 0, SPLITS)
    keys, once = np.empty(size, np.uint64), np.ones(size, bool)
    all_sources, all_times = (np.empty(size, np.int64) if wanted else None for wanted in (sources, times))
    low = 0
    for part in entries(adjacency, batch_rows=_ROWS, edge_ids=False):
        rows = slice(low, low + part.sources.size)
        _pair_keys(key, part.sources, part.targets, entry.src == entry.dst, keys[rows])
        if entry.undirected:
            once[rows] = part.sources <= part.targets
        if all_sources is not None:
            all_sources[rows] = part.sources
        if all_times is not None and part.times is not None:
            all_times[rows] = part.times
        low = rows.stop
    return _Rows(keys, once, all_sources, all_times)


def _numbers(size: int, valid: float, test: float) -> tuple[int, int]:
    """Return how many of `size` are for validation and for test."""
    num_test = min(size, math.floor(size * test + 0.5))
    return min(size - num_test, math.floor(size * valid + 0.5)), num_test


def _outer(keys: np.ndarray, known: np.ndarray, valid: float, test: float) -> np.ndarray:
    """Give the lowest keys to test and the highest to validation, so that neither depends on the other's share.

    `known` are the keys that are counted. Equal keys stay together, where they would not in training.
    """
    codes = np.zeros(keys.size, np.int8)
    ordered = np.sort(known)
    num_valid, num_test = _numbers(ordered.size, valid, test)
    if num_test:
        codes[keys < ordered[num_test] if num_test < ordered.size else slice(None)] = _TEST
    if num_valid and num_valid + num_test == ordered.size:
        codes[codes == _TRAIN] = _VALID
    elif num_valid:
        codes[keys > ordered[ordered.size - num_valid - 1]] = _VALID
    return codes


def _by_edge(rows: _Rows, valid: float, test: float) -> np.ndarray:
    return _outer(rows.keys, rows.keys[rows.once], valid, test)


def _by_source(rows: _Rows, key: np.uint64, valid: float, test: float) -> np.ndarray:
    assert rows.sources is not None
    starts = _run_starts(rows.sources)
    keys = np.empty(starts.size, np.uint64)
    _pair_keys(key, rows.sources[starts], rows.sources[starts], False, keys)
    return np.repeat(_outer(keys, keys, valid, test), np.diff(starts, append=rows.sources.size))


def _run_starts(*columns: np.ndarray) -> np.ndarray:
    """Return where a new value begins in one of the columns."""
    changes = np.zeros(columns[0].size, bool)
    changes[:1] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def _by_time(rows: _Rows, valid: float, test: float, cuts: Sequence[int] | None) -> np.ndarray:
    times = rows.times
    assert times is not None
    if cuts is not None:
        codes = np.searchsorted(np.array(cuts, np.int64), times, side="right").astype(np.int8)
    else:
        codes = np.zeros(times.size, np.int8)
        ordered = np.sort(times[rows.once])
        num_valid, num_test = _numbers(ordered.size, valid, test)
        for code, count in ((_VALID, num_valid + num_test), (_TEST, num_test)):
            if count:
                codes[times > ordered[ordered.size - count - 1] if count < ordered.size else slice(None)] = code
    for code in (_VALID, _TEST):
        own = np.flatnonzero(codes == code)
        codes[own[_among(rows.keys[own], rows.keys[codes < code])]] = _LEFT_OUT
    return codes


def _by_each_source(rows: _Rows, valid: float, test: float, *, latest: bool, one: bool) -> np.ndarray:
    keys, sources = rows.keys, rows.sources
    assert sources is not None
    by_pair = np.lexsort((keys, sources))
    pairs = _run_starts(sources[by_pair], keys[by_pair])
    if pairs.size == 0:
        return np.zeros(0, np.int8)
    # A list is by time, so that the later of two pairs is the one whose last entry is behind.
    rank = np.maximum.reduceat(by_pair, pairs) if latest else keys[by_pair[pairs]]
    pair_sources = sources[by_pair[pairs]]
    order = np.lexsort((rank, pair_sources))
    starts = _run_starts(pair_sources)
    counts = np.diff(starts, append=pairs.size)
    del rank, pair_sources
    all_held = not one and valid + test >= 1 - 1e-9
    shared, kept = np.ones(counts.size) if one else counts, counts if all_held else counts - 1
    num_test = np.minimum(kept, np.floor(shared * test + 0.5).astype(np.int64))
    num_valid = np.minimum(kept - num_test, np.floor(shared * valid + 0.5).astype(np.int64))
    if all_held and valid:
        num_valid = counts - num_test
    place, chosen = np.arange(pairs.size) - np.repeat(starts, counts), np.zeros(pairs.size, np.int8)
    if latest:
        chosen[place >= np.repeat(counts - num_test - num_valid, counts)] = _VALID
        chosen[place >= np.repeat(counts - num_test, counts)] = _TEST
    else:
        chosen[place < np.repeat(num_test, counts)] = _TEST
        chosen[place >= np.repeat(counts - num_valid, counts)] = _VALID
    pair_codes, codes = np.empty(pairs.size, np.int8), np.empty(keys.size, np.int8)
    pair_codes[order] = chosen
    codes[by_pair] = np.repeat(pair_codes, np.diff(pairs, append=keys.size))
    return codes


def _keep_together(codes: np.ndarray, keys: np.ndarray) -> None:
    """Move edges whose pair is held out by its other end to that part; test comes before validation."""
    for code in (_TEST, _VALID):
        codes[_among(keys, keys[codes == code]) & (codes < code)] = code


def _among(keys: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Return bool[n], which keys are known ones; several times as fast as `np.isin`, which sorts both."""
    if known.size == 0:
        return np.zeros(keys.size, bool)
    known = np.sort(known)
    return known[np.minimum(np.searchsorted(known, keys), known.size - 1)] == keys
