"""The overlay of a node type: nodes that came since the base was written, nodes that went, features that changed."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graph_store.delta import NodeDelta
from graph_store.feature_type import FeatureType
from graph_store.features import Sections, concatenate, empty_sections, take
from graph_store.ids import IdMap, dense_ranks
from graph_store.ragged import starts_of, take_spans
from graph_store.string_ids import StringMap

_SPLIT = "."
_NONE = np.empty(0, np.int64)


def build(
    ids: IdMap, delta: NodeDelta, features: list[FeatureType], before: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Return the sections of the overlay, as `OverlayIds` and `FeatureTables` take them.

    Parameters
    ----------
    ids : IdMap
        Of the base.
    delta : NodeDelta
        What happened since the overlay `before`, or since the base where that is empty.
    """
    sections = _id_sections(ids, delta, before)
    for place, feature in enumerate(features):
        changed = [
            (nodes, empty_sections(feature, nodes.size) if arrays is None else split_sections(arrays, place))
            for nodes, arrays in delta.features
        ]
        known = split_sections(before, place)
        if known:
            changed.insert(0, (known["nodes"], known))
        found = latest(feature, [(nodes, table) for nodes, table in changed if table])
        if found is not None:
            sections |= {f"{place}{_SPLIT}{name}": section for name, section in found.items()}
    return sections


def split_sections(arrays: Mapping[str, np.ndarray], place: int) -> Sections:
    """Return the sections of feature number `place` among arrays named `place.section`."""
    head = f"{place}{_SPLIT}"
    return {name[len(head) :]: array for name, array in arrays.items() if name.startswith(head)}


def latest(feature: FeatureType, changes: list[tuple[np.ndarray, Sections]]) -> Sections | None:
    """Join the rows that changed; of a node that changed several times the last stays, and `nodes` ascend."""
    if not changes:
        return None
    nodes = np.concatenate([nodes for nodes, _ in changes])
    table = concatenate(feature, [table for _, table in changes])
    # The last of equal nodes is the first when read backwards.
    unique, place = np.unique(nodes[::-1], return_index=True)
    return take(feature, table, nodes.size - 1 - place) | {"nodes": unique}


def _id_sections(ids: IdMap, delta: NodeDelta, before: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    came = int(before["counts"].sum()) - ids.count if before else 0
    nodes = np.concatenate([before["nodes"][:came] if before else _NONE, *delta.nodes, _NONE])
    gone = set((before["dead"] if before else ids.dead).tolist())
    gone |= {node for node, there in delta.alive.items() if not there}
    gone -= {node for node, there in delta.alive.items() if there}
    dead, back = np.array(sorted(gone), np.int64), np.array(sorted(set(ids.dead.tolist()) - gone), np.int64)
    order = np.argsort(dense_ranks(nodes, starts_of(delta.counts)), kind="stable")
    sections = {"counts": delta.counts, "dead": dead, "nodes": np.concatenate([nodes[order], back])}
    if isinstance(ids, StringMap):
        known_before = [(before["starts"][: came + 1], before["bytes"])] if before else []
        starts, data = _joined_strings([*known_before, *delta.ids])
        sizes = np.diff(starts)[order]
        pool = take_spans(data, starts[:-1][order], starts_of(sizes))
        texts = [text.encode() for text in ids.to_ids(back).tolist()]
        sizes = np.concatenate([sizes, np.array([len(text) for text in texts], np.int64)])
        known = np.concatenate([pool, np.frombuffer(b"".join(texts), np.uint8)])
        return sections | {"starts": starts_of(sizes), "bytes": known}
    given = np.concatenate([before["ids"][:came] if before else _NONE, *delta.ids, _NONE])
    return sections | {"ids": np.concatenate([given[order], ids.to_ids(back).view(np.int64)])}


def _joined_strings(parts: list[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, np.ndarray]:
    sizes = np.concatenate([*(np.diff(starts) for starts, _ in parts), np.empty(0, np.int64)])
    data = [data[int(starts[0]) : int(starts[-1])] for starts, data in parts]
    return starts_of(sizes), np.concatenate([*data, np.empty(0, np.uint8)])


class OverlayIds(IdMap):
    """The ids of a node type at a later version: those of the base, those that came since, without the deleted.

    Parameters
    ----------
    base : IdMap
    sections : dict
        As `build` made them.
    """

    def __init__(self, base: IdMap, sections: Mapping[str, np.ndarray]) -> None:
        self.name, self.id_type = base.name, base.id_type
        self._base, self._counts = base, np.diff(base.base)
        self.base = starts_of(sections["counts"])
        self.dead, self._extra_nodes = sections["dead"], sections["nodes"]
        self._new_base = starts_of(sections["counts"] - self._counts)
        own = np.array([0, self._extra_nodes.size], np.int64)
        if isinstance(base, StringMap):
            data = sections["bytes"] if sections["bytes"].size else np.zeros(1, np.uint8)
            starts = np.ascontiguousarray(sections["starts"])
            self._extra: IdMap = StringMap.restore_strings(base.name, starts, data, own, base.hash_mask)
        else:
            self._extra = IdMap.restore(base.name, np.ascontiguousarray(sections["ids"]), own)
            self._extra.id_type = base.id_type

    @property
    def hash_mask(self) -> int:
        """As of a `StringMap`."""
        return self._base.hash_mask  # type: ignore[attr-defined]

    def find(self, ids: Any, *, threads: int | None = None) -> np.ndarray:
        """Return int64[n], the node of each id, -1 for one that is no node."""
        nodes = self._base.find(ids, threads=threads)
        missing = np.flatnonzero(nodes < 0)
        if self._extra_nodes.size and missing.size:
            places = self._extra.find(_taken(ids, missing, nodes.size))
            nodes[missing] = np.where(places < 0, -1, self._extra_nodes[places])
        if self.dead.size:
            place = np.minimum(np.searchsorted(self.dead, nodes), self.dead.size - 1)
            nodes[self.dead[place] == nodes] = -1
        return nodes

    def to_ids(self, nodes: Any) -> np.ndarray:
        """Return the original id of each node, as `IdMap.to_ids` does."""
        ranks = dense_ranks(nodes, self.base)
        locals_, shards = np.divmod(np.asarray(nodes, np.int64), self.num_shards)
        old = locals_ < self._counts[shards]
        if old.all():
            return self._base.to_ids(nodes)
        known = self._base.to_ids(np.asarray(nodes, np.int64)[old])
        places = self._new_base[shards[~old]] + locals_[~old] - self._counts[shards[~old]]
        new = self._extra.to_ids(places)
        out = np.empty(ranks.size, object if self.id_type == "string" else known.dtype)
        out[old], out[~old] = known, new
        return out

    def materialised(self) -> IdMap:
        """Return a map of its own, all ids in dense order."""
        base, extra = self._base, self._extra
        base.check_all()
        added = np.diff(self._new_base)
        # By turns the old ids of a shard and its new ones.
        firsts = np.stack([base.base[:-1], self._new_base[:-1] + base.count], axis=1).ravel()
        sizes = np.stack([self._counts, added], axis=1).ravel()
        order = take_spans(np.arange(base.count + extra.count), firsts, starts_of(sizes))
        if not isinstance(base, StringMap) or not isinstance(extra, StringMap):
            whole = IdMap.restore(
                self.name, np.concatenate([base.originals, extra.originals])[order], self.base, self.dead
            )
            whole.id_type = self.id_type
            return whole
        lengths = np.concatenate([np.diff(base.offsets), np.diff(extra.offsets)])
        data = np.concatenate([base.originals, extra.originals])
        places = np.concatenate([base.offsets[:-1], extra.offsets[:-1] + base.originals.size])
        starts = starts_of(lengths[order])
        joined = take_spans(data, places[order], starts)
        data = joined if joined.size else np.zeros(1, np.uint8)
        return StringMap.restore_strings(self.name, starts, data, self.base, base.hash_mask, self.dead)


def _taken(ids: Any, places: np.ndarray, size: int) -> Any:
    """Return some of the given ids, whatever kind of sequence they came in."""
    if places.size == size:
        return ids
    if hasattr(ids, "take"):  # numpy and Arrow
        return np.asarray(ids).ravel()[places] if isinstance(ids, np.ndarray) else ids.take(places)
    return [ids[place] for place in places.tolist()]
