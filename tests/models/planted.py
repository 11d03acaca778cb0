"""A data set whose right answer is known, and a store of it."""

from pathlib import Path

import numpy as np

import graph_store
from graph_store import GraphStore

EDGE_TYPE = "user:clicks:item"
NUM_USERS, NUM_ITEMS = 60, 24


def checkerboard() -> tuple[np.ndarray, np.ndarray]:
    """Return clicks int64[n, 2] and the held-out item int64[users] of each user.

    A user clicks all items of its own parity but one, so that one is the best thing to recommend: the only
    unseen item that all similar users clicked. (The checkerboard of `implicit`, with holes spread evenly.)
    """
    clicks, held_out = [], []
    for user in range(NUM_USERS):
        own = [item for item in range(NUM_ITEMS) if item % 2 == user % 2]
        hole = own[(user // 2) % len(own)]
        clicks += [(user, item) for item in own if item != hole]
        held_out.append(hole)
    return np.array(clicks, np.int64), np.array(held_out, np.int64)


def make_store(folder: Path, edges: np.ndarray, *, reverse: bool = False, num_shards: int = 8) -> GraphStore:
    """Ingest edges int64[n, 2] into `folder/store` and open it, one thread."""
    file = folder / "clicks.csv"
    file.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in edges.tolist()))
    schema = graph_store.Schema.from_edges(file, edge_type=EDGE_TYPE, reverse=reverse)
    graph_store.ingest(schema, folder / "store", num_shards=num_shards, threads=1)
    return graph_store.open(folder / "store", threads=1)


def random_edges(seed: int, num_users: int, num_items: int, num_edges: int) -> np.ndarray:
    """Return distinct random edges; the last user and the last item have none but one to each other."""
    draws = np.random.default_rng(seed)
    pairs = np.stack([draws.integers(0, num_users - 1, num_edges), draws.integers(0, num_items - 1, num_edges)], axis=1)
    return np.unique(np.concatenate([pairs, [[num_users - 1, num_items - 1]]]), axis=0).astype(np.int64)
