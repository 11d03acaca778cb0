"""Original ids ↔ nodes: integers and strings, their shards, and the index that finds them.

A node is `local * num_shards + shard`: `shard = mix64(id) % num_shards` (of a string its 64-bit hash is mixed), `local`
the id's rank within its shard, ascending (strings by hash, then bytes). So the assignment is a pure function of the set
of ids. The dense rank of a node counts through the shards: `base[shard] + local`.

Unsigned ids are kept as the int64 of the same 64 bits, and are in the order of those.

The index is an ordered hash table (Amble and Knuth, "Ordered hash tables", The Computer Journal 17(2), 1974): a key's
home is given by the high bits of its hash, and the keys of a run lie in the order of their hashes. So its words are a
function of the set of keys too, and it can be written from its beginning to its end, a range of hashes at a time.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graph_store.errors import UnknownId
from graph_store.kernels import kernel, mix64, prefetch, run_ranges, unmasked
from graph_store.section_check import PART_BYTES, SectionCheck

LOOK_AHEAD = 64
# Sections of the arena that are compared with their checksums as they are read, where they are large.
CHECKED_LATER = ("direct", "index", "ids", "offsets")
# A table by value is used where ids fill at least a quarter of their range.
DIRECT_SPREAD = 4


@kernel
def shard_of(mixed_id: np.uint64, num_shards: int) -> np.int64:
    """Return the shard of an id (or of a string's hash), as uint64."""
    return np.int64(mix64(mixed_id) % np.uint64(num_shards))


@kernel
def _shards(values: np.ndarray, num_shards: int, out: np.ndarray, start: int, stop: int) -> None:
    for i in range(start, stop):
        out[i] = shard_of(np.uint64(values[i]), num_shards)


def shards_of(values: np.ndarray, num_shards: int) -> np.ndarray:
    """Return int64[n], the shard of each id or string hash, int64[n]."""
    out = np.empty(values.size, np.int64)
    run_ranges(lambda start, stop: _shards(values, num_shards, out, start, stop), values.size)
    return out


@kernel
def index_hash(key: np.int64) -> np.uint64:
    """Return the hash by which the index is ordered."""
    return mix64(~np.uint64(key))


@kernel
def home_shift(index: np.ndarray) -> np.uint64:
    """Return how far a hash is shifted right to give its home in an index: its homes are a power of two."""
    shift, slots = np.uint64(64), index.size >> 1
    while slots > 1:
        slots >>= 1
        shift -= np.uint64(1)
    return shift


@kernel
def find_nodes(ids, at, size, direct, low, index, out, to):
    """Look up at most 64 ids from `ids[at]` on; `out[to + i]` gets the node or -1.

    `direct` (by value, from `low` on) is used when it has any entry, else the `index` of (id, node + 1).
    """
    if direct.size:
        for i in range(size):
            where = np.uint64(ids[at + i]) - np.uint64(low)
            out[to + i] = direct[np.int64(where)] if where < np.uint64(direct.size) else -1
        return
    shift = home_shift(index)
    for i in range(size):
        slot = np.int64(index_hash(ids[at + i]) >> shift)
        out[to + i] = slot
        prefetch(index, 2 * slot)
    for i in range(size):
        slot, node = out[to + i], np.int64(-1)
        while index[2 * slot + 1]:
            if index[2 * slot] == ids[at + i]:
                node = index[2 * slot + 1] - 1
                break
            slot += 1
        out[to + i] = node


@kernel
def _unchecked_slots(keys, index, done, found):
    """List words of the index that a search for keys reads before they were checked; returns how many."""
    shift, per_part, count = home_shift(index), PART_BYTES // 8, 0
    for i in range(keys.size):
        slot = np.int64(index_hash(keys[i]) >> shift)
        # The search for a string goes on past an equal hash, as far as here.
        while done[2 * slot // per_part] and index[2 * slot + 1]:
            slot += 1
        if not done[2 * slot // per_part]:
            if count == found.size:
                return count
            found[count] = 2 * slot
            count += 1
    return count


@kernel
def find_range(ids, direct, low, index, out, start, stop):
    for at in range(start, stop, LOOK_AHEAD):
        find_nodes(ids, at, min(LOOK_AHEAD, stop - at), direct, low, index, out, at)


@kernel
def _fill_index(keys: np.ndarray, nodes: np.ndarray, index: np.ndarray, shift: np.uint64) -> np.int64:
    """Enter (key, node + 1) pairs, those of one hash in the order of their nodes; returns the last slot in use."""
    last = np.int64(-1)
    for low in range(0, keys.size, LOOK_AHEAD):
        high = min(low + LOOK_AHEAD, keys.size)
        for i in range(low, high):
            prefetch(index, 2 * np.int64(index_hash(keys[i]) >> shift))
        for i in range(low, high):
            key, entry = keys[i], nodes[i] + 1
            hashed = index_hash(key)
            slot = np.int64(hashed >> shift)
            while index[2 * slot + 1]:
                other, behind = index_hash(index[2 * slot]), index[2 * slot + 1]
                if hashed < other or (hashed == other and entry < behind):
                    index[2 * slot], key = key, index[2 * slot]
                    index[2 * slot + 1], entry = entry, behind
                    hashed = other
                slot += 1
            index[2 * slot], index[2 * slot + 1] = key, entry
            last = max(last, slot)
    return last


def num_slots(num_keys: int) -> int:
    """Return the number of homes in the index of so many keys: a power of two, at most half of them in use."""
    return max(16, 1 << (2 * num_keys - 1).bit_length())


def build_index(keys: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """Return int64[2 * s], the index of `keys` (int64[n]) to `nodes`; its last slot is free."""
    slots = num_slots(keys.size)
    # What runs over the last home lies behind it; memory that is never written to is not taken.
    index = np.zeros(2 * (slots + keys.size + 1), np.int64)
    last = int(_fill_index(keys, nodes, index, np.uint64(65 - slots.bit_length())))
    return index[: 2 * (max(slots, last + 1) + 1)]


@kernel
def _assign(keys, num_shards, base, nodes, order):
    """Give each key in ascending order its node, and each dense rank its key's place."""
    counts = np.zeros(num_shards, np.int64)
    for i in range(keys.size):
        counts[shard_of(np.uint64(keys[i]), num_shards)] += 1
    for shard in range(num_shards):
        base[shard + 1] = base[shard] + counts[shard]
        counts[shard] = 0
    for i in range(keys.size):
        shard = shard_of(np.uint64(keys[i]), num_shards)
        nodes[i] = counts[shard] * num_shards + shard
        order[base[shard] + counts[shard]] = i
        counts[shard] += 1


def assign(keys: np.ndarray, num_shards: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Assign nodes to int64[n] keys, ascending.

    Returns
    -------
    base : int64[num_shards + 1]
        The dense rank of each shard's first node.
    nodes : int64[n]
        The node of each key.
    order : int64[n]
        The place in `keys` of each dense rank.
    """
    base = np.zeros(num_shards + 1, np.int64)
    nodes, order = np.empty(keys.size, np.int64), np.empty(keys.size, np.int64)
    _assign(keys, num_shards, base, nodes, order)
    return base, nodes, order


@kernel
def _power_bits(num_shards: int) -> int:
    """Return how far a node is shifted to give its local id where the shards are a power of two, else -1."""
    bits = 0
    while (1 << bits) < num_shards:
        bits += 1
    return bits if (1 << bits) == num_shards else -1


@kernel
def _dense_ranks(nodes: np.ndarray, base: np.ndarray, out: np.ndarray) -> int:
    """Fill `out` with dense ranks; returns the place of the first number that is no node, -1 where there is none."""
    num_shards, shift, is_power = np.uint64(base.size - 1), np.uint64(0), _power_bits(base.size - 1) >= 0
    if is_power:
        shift = np.uint64(_power_bits(base.size - 1))
    for i in range(nodes.size):
        node = np.uint64(nodes[i])
        local = node >> shift if is_power else node // num_shards
        shard = np.int64(node - local * num_shards)
        rank = base[shard] + np.int64(local)
        if nodes[i] < 0 or rank >= base[shard + 1]:
            return i
        out[i] = rank
    return -1


@kernel
def take_ids(nodes: np.ndarray, base: np.ndarray, originals: np.ndarray, out: np.ndarray) -> int:
    """Fill `out` with the ids of nodes; returns as `_dense_ranks` does.

    While some are read, memory is asked for those that come next. `out` may be `nodes`.
    """
    ranks, half, count = np.empty(2 * LOOK_AHEAD, np.int64), 0, nodes.size
    for low in range(-LOOK_AHEAD, count, LOOK_AHEAD):
        ready, behind = max(0, min(LOOK_AHEAD, count - low)) if low >= 0 else 0, low + LOOK_AHEAD
        asked = max(0, min(LOOK_AHEAD, count - behind))
        half = LOOK_AHEAD - half
        bad = _dense_ranks(nodes[behind : behind + asked], base, ranks[half:])
        if bad >= 0:
            return behind + bad
        for i in range(max(ready, asked)):
            if i < asked:
                prefetch(originals, ranks[half + i])
            if i < ready:
                out[low + i] = originals[ranks[LOOK_AHEAD - half + i]]
    return -1


def dense_ranks(nodes: Any, base: np.ndarray) -> np.ndarray:
    """Return int64[n], the dense rank of each node.

    Raises
    ------
    TypeError
        Nodes that are no integers.
    ValueError
        A number that is no node; the message names it.
    """
    flat, shape = _flat_nodes(nodes)
    ranks = np.empty(flat.size, np.int64)
    _check_nodes(flat, base, int(_dense_ranks(flat, base, ranks)))
    return ranks.reshape(shape)


def _flat_nodes(nodes: Any) -> tuple[np.ndarray, tuple[int, ...]]:
    """Return nodes as int64[n], and the shape they have."""
    given = np.asarray(nodes)
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"nodes must be integers, got {given.dtype}")
    return np.ascontiguousarray(given.ravel(), np.int64), given.shape


def _check_nodes(nodes: np.ndarray, base: np.ndarray, bad: int) -> None:
    """Raise ValueError for the number in place `bad`, which is no node, where that is not -1."""
    if bad >= 0:
        raise ValueError(f"node {nodes[bad]} is none of {base[-1]} in {base.size - 1} shards")


def nodes_of_ranks(base: np.ndarray, ranks: np.ndarray | None = None) -> np.ndarray:
    """Return int64[n], the node of each dense rank, or of some int64[n] of them."""
    num_shards, sizes = base.size - 1, np.diff(base)
    if ranks is None:
        ranks, shards = np.arange(base[-1]), np.repeat(np.arange(num_shards), sizes)
    else:
        shards = np.searchsorted(base, ranks, "right") - 1
    return (ranks - base[shards]) * num_shards + shards


def live_ranks(base: np.ndarray, dead: np.ndarray) -> Any:
    """Return what picks the dense ranks of the nodes that are not among the deleted ones."""
    if dead.size == 0:
        return slice(None)
    live = np.ones(int(base[-1]), bool)
    live[dense_ranks(dead, base)] = False
    return live


class IdMap:
    """The ids of one node type: found in both directions.

    Attributes
    ----------
    id_type : str
        "integer", "unsigned" or "string".
    base : int64[num_shards + 1]
        The dense rank of each shard's first node.
    originals : int64[n]
        The ids in dense order, unsigned ones as the int64 of their bits.
    direct, low, index
        What `find_nodes` takes; for strings the index is by hash. Deleted nodes are in neither.
    dead : int64[d]
        Deleted nodes, ascending; their ids are kept, to be given the same node when they come back.
    """

    def __init__(
        self,
        name: str,
        sections: Mapping[str, np.ndarray],
        id_type: str = "integer",
        checks: Mapping[str, SectionCheck] | None = None,
    ) -> None:
        self.name, self.id_type = name, id_type
        self._checks = dict(checks or {})
        self.sections = dict(sections)
        self.base = sections["base"]
        self.direct, self.index = sections["direct"], sections["index"]
        self.low = int(sections["low"][0])
        self.originals = sections["ids"]
        self.dead = sections["dead"]

    @classmethod
    def build(cls, name: str, ids: np.ndarray, num_shards: int, id_type: str = "integer") -> "IdMap":
        """Make the map of distinct ids, int64[n] ascending."""
        base, _, order = assign(ids, num_shards)
        return cls.restore(name, ids[order], base, id_type=id_type)

    @classmethod
    def restore(
        cls,
        name: str,
        ids: np.ndarray,
        base: np.ndarray,
        dead: np.ndarray | None = None,
        *,
        id_type: str = "integer",
    ) -> "IdMap":
        """Make the map again from the ids in dense order; every word is as `build` gives it."""
        dead = np.empty(0, np.int64) if dead is None else dead
        live = live_ranks(base, dead)
        indexed = cls._indexed(ids[live], nodes_of_ranks(base)[live], base)
        return cls(name, indexed | {"ids": ids, "dead": dead}, id_type)

    @staticmethod
    def _indexed(ids: np.ndarray, nodes: np.ndarray, base: np.ndarray) -> dict[str, np.ndarray]:
        low, spread = (int(ids.min()), int(ids.max()) - int(ids.min()) + 1) if ids.size else (0, 0)
        empty = np.empty(0, np.int64)
        sections = {"base": base, "low": np.array([low], np.int64), "direct": empty, "index": empty}
        if 0 < spread <= DIRECT_SPREAD * ids.size + 1024:
            direct = np.full(spread, -1, np.int64)
            direct[ids - low] = nodes
            return sections | {"direct": direct}
        return sections | {"index": build_index(ids, nodes)}

    @property
    def num_shards(self) -> int:
        """The number of shards."""
        return self.base.size - 1

    @property
    def count(self) -> int:
        """The number of nodes."""
        return int(self.base[-1])

    def find(self, ids: Any, *, threads: int | None = None) -> np.ndarray:
        """Return int64[n], the node of each id, -1 for one that is no node."""
        ids = self._checked(ids)
        self._check_found(ids)
        nodes = np.empty(ids.size, np.int64)
        run_ranges(
            lambda start, stop: find_range(ids, self.direct, self.low, self.index, nodes, start, stop),
            ids.size,
            threads=threads,
        )
        return nodes

    @property
    def is_checked(self) -> bool:
        """True when everything was compared with its checksum, or there is nothing to compare with."""
        return all(check.complete for check in self._checks.values())

    def check_all(self) -> None:
        """Compare everything with its checksums; CorruptBlock where it is damaged."""
        for check in self._checks.values():
            check.all()

    def _check_found(self, keys: np.ndarray) -> None:
        """Compare what a search for keys reads with its checksums."""
        if self.is_checked:
            return
        if self.direct.size:
            places = keys.view(np.uint64) - np.uint64(self.low & (1 << 64) - 1)
            places = places[places < np.uint64(self.direct.size)].astype(np.int64)
            self._checks["direct"].items(places, places + 1)
            return
        check, found = self._checks["index"], np.empty(1 << 10, np.int64)
        while count := _unchecked_slots(keys, self.index, check.done, found):
            check.items(found[:count], found[:count] + 1)

    def _checked(self, ids: Any) -> np.ndarray:
        """Return int64[n], the ids as they are kept."""
        given = unmasked(ids, f"ids of {self.name}")
        if given.size == 0:
            return np.empty(0, np.int64)
        unsigned = self.id_type == "unsigned"
        low, high = (0, 1 << 64) if unsigned else (-(1 << 63), 1 << 63)
        if given.dtype.kind not in "iu":
            # numpy makes floats or objects of integers that do not fit one of its types.
            for value in np.asarray(ids, dtype=object).ravel():
                if isinstance(value, bool) or not isinstance(value, int | np.integer):
                    raise TypeError(f"ids of {self.name} are integers, got {type(value).__name__}: {value!r}")
                if not low <= value < high:
                    raise UnknownId(f"no {self.name} has the id {value}")
            given = np.asarray(ids, dtype=object).astype(np.uint64 if unsigned else np.int64)
        for end in (int(given.min()), int(given.max())):
            if not low <= end < high:
                raise UnknownId(f"no {self.name} has the id {end}")
        kept = given.ravel().astype(np.uint64 if unsigned else np.int64, copy=False)
        return np.ascontiguousarray(kept).view(np.int64)

    def to_nodes(self, ids: Any) -> np.ndarray:
        """Return int64[n], the node of each id; UnknownId names the first that is none."""
        nodes = self.find(ids)
        missing = np.flatnonzero(nodes < 0)
        if missing.size:
            given = np.asarray(ids, dtype=object).ravel()[missing[0]]
            raise UnknownId(f"no {self.name} has the id {given!r}")
        return nodes

    def to_ids(self, nodes: Any) -> np.ndarray:
        """Return the original id of each node: int64[n], uint64[n] or object[n] of str.

        Raises
        ------
        ValueError
            A number that is no node.
        """
        flat, shape = _flat_nodes(nodes)
        if not self.is_checked:
            ranks = dense_ranks(flat, self.base)
            self._checks["ids"].items(ranks, ranks + 1)
        found = np.empty(flat.size, np.int64)
        _check_nodes(flat, self.base, int(take_ids(flat, self.base, self.originals, found)))
        found = found.reshape(shape)
        return found.view(np.uint64) if self.id_type == "unsigned" else found
