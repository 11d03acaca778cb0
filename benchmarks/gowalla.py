"""The Gowalla check-ins as a graph of one node type, for the benchmarks of sampling."""

import os
from pathlib import Path

import numpy as np

from benchmarks.rmat import write_parquet

TRAIN = Path(__file__).resolve().parents[2] / "shared" / "data" / "gowalla" / "train.txt"


def gowalla_file(folder: Path) -> Path:
    """Return a file of Gowalla's training edges, both ways, items numbered after users; made unless it is in `folder`.

    Raises
    ------
    SystemExit
        The data is not here.
    """
    path = folder / "gowalla-dense.parquet"
    if path.exists():
        return path
    if not TRAIN.exists():
        raise SystemExit(f"{TRAIN} is not here: the graph of Gowalla is made of it")
    lists = [np.fromstring(line, np.int64, sep=" ") for line in TRAIN.read_text().splitlines()]
    users = np.concatenate([np.full(items.size - 1, items[0]) for items in lists])
    items = np.concatenate([items[1:] for items in lists]) + users.max() + 1
    folder.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".partial")
    write_parquet(beside, np.concatenate([users, items]), np.concatenate([items, users]))
    os.replace(beside, path)
    return path
