"""The dictionaries of a node type → its nodes, a shard at a time, and the local id of every entry of a dictionary.

An id's shard is known from the id alone, so each shard is made by itself: what the dictionaries hold of it is merged in
the order of the ids, a range of them at a time where memory is short.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from graph_store.dictionary import LISTED
from graph_store.id_collector import Segment
from graph_store.kernels import kernel
from graph_store.spool import Piece, Spool
from graph_store.string_ids import same_bytes

# The local id of an entry that is no node.
MISSING = np.uint32(0xFFFFFFFF)
# Keys that are looked at for each part that they are cut into.
_SAMPLES_A_PART = 64
# Memory that merging takes an entry, besides the bytes of strings, which are there three times.
_ENTRY_BYTES, _STRING_BYTES = 40, 80


class Source(NamedTuple):
    """A dictionary to be merged: where it is, and where its local ids go (uint32[n]) and who is listed (uint8[n])."""

    spool: Spool
    segment: Segment
    locals: Piece
    listed: Piece | None


class IdBlock(NamedTuple):
    """Some consecutive ids of a shard: a part of the arrays of a spool."""

    keys: Piece
    start: int
    stop: int
    lengths: Piece | None = None
    data: Piece | None = None
    data_start: int = 0
    data_stop: int = 0


class Ids(NamedTuple):
    """Ids in order: int64[n] ids or hashes of strings, and of strings uint32[n] lengths and the uint8[m] bytes."""

    keys: np.ndarray
    lengths: np.ndarray | None = None
    data: np.ndarray | None = None


class _Cursor:
    """Walks through what a dictionary holds of one shard."""

    def __init__(self, source: Source, shard: int) -> None:
        self.source, segment = source, source.segment
        self.at, self.stop = int(segment.starts[shard]), int(segment.starts[shard + 1])
        self._data_at = 0 if segment.data_starts is None else int(segment.data_starts[shard])

    def sample(self, most: int) -> tuple[list[int], float]:
        """Return some keys, and how many entries each stands for."""
        size = self.stop - self.at
        count = min(size, most)
        places = [self.at + size * number // count for number in range(count)]
        keys = [int(self.source.spool.get(self.source.segment.keys, place, place + 1)[0]) for place in places]
        return keys, size / max(count, 1)

    def take(self, below: int | None, step: int) -> tuple[int, Ids, np.ndarray | None]:
        """Return the place, the ids and the flags of what comes next with keys under `below` (all where None)."""
        spool, segment = self.source.spool, self.source.segment
        start, found = self.at, []
        while self.at < self.stop:
            size = self.stop - self.at if below is None else min(step, self.stop - self.at)
            keys = spool.get(segment.keys, self.at, self.at + size)
            count = size if below is None else int(np.searchsorted(keys, below))
            # A copy, where the rest is a large part of what was read.
            found.append(keys[:count].copy() if 2 * count < size else keys[:count])
            self.at += count
            if count < size:
                break
        keys = found[0] if len(found) == 1 else np.concatenate([*found, np.empty(0, np.int64)])
        flags = None if segment.flags is None else spool.get(segment.flags, start, self.at)
        if segment.lengths is None or segment.data is None:
            return start, Ids(keys), flags
        lengths = spool.get(segment.lengths, start, self.at)
        data_start, self._data_at = self._data_at, self._data_at + int(lengths.sum(dtype=np.int64))
        return start, Ids(keys, lengths, spool.get(segment.data, data_start, self._data_at)), flags


def merge_shard(sources: Sequence[Source], shard: int, spool: Spool, *, room: int) -> list[IdBlock]:
    """Merge what dictionaries hold of one shard, into `spool`.

    Parameters
    ----------
    room : int
        Bytes that this may take.
    """
    cursors = [_Cursor(source, shard) for source in sources]
    blocks, first = [], 0
    for below in [*_cuts(cursors, shard, room), None]:
        step = max(1 << 7, room // (4 * _ENTRY_BYTES * max(1, len(cursors))))
        taken = [cursor.take(below, step) for cursor in cursors]
        unique, places = _unite([ids for _, ids, _ in taken])
        flags = None
        if any(part is not None for _, _, part in taken):
            flags = np.zeros(unique.keys.size, np.uint8)
            for (_, _, part), place in zip(taken, places):
                flags[place] |= np.uint8(1) if part is None else part
        kept = unique.keys.size if flags is None else int(np.count_nonzero(flags))
        for cursor, (start, _, _), place in zip(cursors, taken, places):
            _tell(cursor.source, start, place, flags, first)
        if kept:
            blocks.append(_put(spool, unique, None if kept == unique.keys.size else flags))
        first += kept
    return blocks


def _tell(source: Source, start: int, place: np.ndarray, flags: np.ndarray | None, first: int) -> None:
    """Write the local ids of some entries of a dictionary."""
    if flags is None:
        local = (place + first).astype(np.uint32)
    else:
        local = (np.cumsum(flags != 0)[place] + (first - 1)).astype(np.uint32)
        local[flags[place] == 0] = MISSING
    source.spool.fill(source.locals, start, local)
    if source.listed is not None:
        known = np.zeros(place.size, np.uint8) if flags is None else flags[place] & np.uint8(LISTED)
        source.spool.fill(source.listed, start, known)


def _put(spool: Spool, ids: Ids, flags: np.ndarray | None) -> IdBlock:
    if flags is not None:
        there = flags != 0
        data = None
        if ids.lengths is not None and ids.data is not None:
            data = ids.data[np.repeat(there, ids.lengths)]
        ids = Ids(ids.keys[there], None if ids.lengths is None else ids.lengths[there], data)
    lengths, data = (None if column is None else spool.put(column) for column in ids[1:])
    return IdBlock(spool.put(ids.keys), 0, ids.keys.size, lengths, data, 0, 0 if ids.data is None else ids.data.size)


def shard_of_one(segment: Segment, shard: int) -> list[IdBlock]:
    """Return the ids of a shard where one dictionary, all of whose entries are nodes, holds them all."""
    start, stop = int(segment.starts[shard]), int(segment.starts[shard + 1])
    if start == stop:
        return []
    data = (0, 0) if segment.data_starts is None else (int(at) for at in segment.data_starts[shard : shard + 2])
    return [IdBlock(segment.keys, start, stop, segment.lengths, segment.data, *data)]


def read_ids(spool: Spool, blocks: Sequence[IdBlock], *, at_once: int = 1 << 62) -> Iterator[Ids]:
    """Yield the ids of a shard in order, at most so many at once."""
    for block in blocks:
        data_at = block.data_start
        for low in range(block.start, block.stop, min(at_once, block.stop - block.start)):
            high = min(low + at_once, block.stop)
            keys = spool.get(block.keys, low, high)
            if block.lengths is None or block.data is None:
                yield Ids(keys)
                continue
            lengths = spool.get(block.lengths, low, high)
            data_from, data_at = data_at, data_at + int(lengths.sum(dtype=np.int64))
            yield Ids(keys, lengths, spool.get(block.data, data_from, data_at))


def _cuts(cursors: Sequence[_Cursor], shard: int, room: int) -> list[int]:
    """Choose keys that cut all entries into parts of about half of what fits."""
    size = 0
    for cursor in cursors:
        starts = cursor.source.segment.data_starts
        size += (cursor.stop - cursor.at) * (_ENTRY_BYTES if starts is None else _STRING_BYTES)
        size += 0 if starts is None else 3 * int(starts[shard + 1] - starts[shard])
    if size <= room:
        return []
    parts = 1.5 * size / room
    most = max(4, int(_SAMPLES_A_PART * parts) // len(cursors))
    samples = [cursor.sample(most) for cursor in cursors]
    weighed = sorted((key, weight) for keys, weight in samples for key in keys)
    part = sum(weight for _, weight in weighed) / parts
    cuts: list[int] = []
    filled = 0.0
    for key, weight in weighed:
        if filled >= part and (not cuts or key > cuts[-1]):
            cuts.append(key)
            filled = 0.0
        filled += weight
    return cuts


@kernel
def _places(unique: np.ndarray, keys: np.ndarray, places: np.ndarray) -> None:
    """Find ascending keys among ascending unique ones, which hold them all."""
    at = 0
    for i in range(keys.size):
        while unique[at] != keys[i]:
            at += 1
        places[i] = at


def _unite(parts: Sequence[Ids]) -> tuple[Ids, list[np.ndarray]]:
    """Return the distinct ids of all parts, in order, and the place among them of each part's ids."""
    if parts and parts[0].lengths is not None:
        return _unite_strings(parts)
    keys = np.concatenate([*(part.keys for part in parts), np.empty(0, np.int64)])
    keys.sort()
    first = np.ones(keys.size, bool)
    first[1:] = keys[1:] != keys[:-1]
    unique = keys[first]
    places = [np.empty(part.keys.size, np.int64) for part in parts]
    for part, place in zip(parts, places):
        _places(unique, part.keys, place)
    return Ids(unique), places


@kernel
def _find_mixed(order, hashes, starts, data, new, mixed):
    """Mark in `new` where another string begins; returns how many runs of one hash hold several, put in `mixed`."""
    count, low = 0, 0
    while low < order.size:
        high, same = low + 1, True
        one = order[low]
        while high < order.size and hashes[order[high]] == hashes[one]:
            other = order[high]
            same &= same_bytes(data, starts[one], starts[one + 1], data, starts[other], starts[other + 1])
            high += 1
        new[low] = True
        if not same:
            mixed[2 * count], mixed[2 * count + 1] = low, high
            count += 1
        low = high
    return count


def _unite_strings(parts: Sequence[Ids]) -> tuple[Ids, list[np.ndarray]]:
    hashes = np.concatenate([part.keys for part in parts])
    lengths = np.concatenate([part.lengths for part in parts])
    data = np.concatenate([*(part.data for part in parts), np.zeros(1, np.uint8)])
    starts = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    order = np.argsort(hashes, kind="stable")
    new, mixed = np.zeros(order.size, bool), np.empty(2 * order.size, np.int64)
    count = int(_find_mixed(order, hashes, starts, data, new, mixed))
    for low, high in mixed[: 2 * count].reshape(-1, 2).tolist():
        texts = {place: data[starts[place] : starts[place + 1]].tobytes() for place in order[low:high].tolist()}
        run = sorted(texts, key=texts.__getitem__)
        order[low:high] = run
        new[low + 1 : high] = [texts[one] != texts[other] for one, other in zip(run, run[1:])]
    place = np.empty(order.size, np.int64)
    place[order] = np.cumsum(new) - 1
    chosen = order[new]
    sizes = lengths[chosen]
    ends = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    joined = np.empty(int(ends[-1]), np.uint8)
    _copy_strings(data, starts, chosen, ends, joined)
    bounds = np.cumsum([0, *(part.keys.size for part in parts)])
    return Ids(hashes[chosen], sizes, joined), [place[low:high] for low, high in zip(bounds[:-1], bounds[1:])]


@kernel
def _copy_strings(data, starts, chosen, ends, out):
    for i in range(chosen.size):
        start = starts[chosen[i]]
        for j in range(ends[i + 1] - ends[i]):
            out[ends[i] + j] = data[start + j]
