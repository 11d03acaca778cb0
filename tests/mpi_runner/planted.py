"""A small planted set in a store, and configurations that train on it."""

from pathlib import Path
from typing import Any

import graph_store
from mpi_runner import config
from mpi_runner.demo import Taste

SMALL = Taste(num_groups=4, num_users=120, items_per_group=30, num_clicks=8, num_stray=1, num_held_out=4, seed=5)
EDGE_TYPE = "user:clicks:item"


def write_csv(path: Path, edges: Any, prefix: str = "") -> Path:
    """Write edges (int64[n, 2]) with a header, ids as `prefix` and digits."""
    path.write_text("user,item\n" + "".join(f"{prefix}{user},{prefix}{item}\n" for user, item in edges.tolist()))
    return path


def make_store(folder: Path, taste: Taste = SMALL, *, id_type: str = "integer", prefix: str = "") -> Path:
    """Make `folder/taste.store` and `folder/held_out.csv`; return the store's path."""
    clicks, held_out = taste.edges()
    write_csv(folder / "held_out.csv", held_out, prefix)
    schema = graph_store.Schema.from_edges(
        write_csv(folder / "clicks.csv", clicks, prefix), edge_type=EDGE_TYPE, id_type=id_type
    )
    graph_store.ingest(schema, folder / "taste.store", num_shards=8, threads=1)
    return folder / "taste.store"


def write_config(path: Path, run: Path, data: Path, **keys: Any) -> Path:
    """Write a configuration at `path` for the store in `data`; `keys` are `section__key=value`."""
    values: dict[str, dict[str, Any]] = {
        "data": {"store": str(data / "taste.store"), "edge_type": EDGE_TYPE, "test": str(data / "held_out.csv")},
        "model": {"name": "bpr", "dim": 8, "layers": 2},
        "train": {"epochs": 3, "batch_size": 100, "learning_rate": 0.05, "seed": 3, "evaluate_every": 0},
        "run": {"dir": str(run), "timeout": 60.0},
    }
    for name, value in keys.items():
        section, _, key = name.partition("__")
        values[section][key] = value
    path.write_text(config.dump(config.parse(values)))
    return path
