"""Cora and Citeseer from the pickles of Planetoid to a store: citations, words as vectors, labels and the split.

    python examples/planetoid.py cora ../shared/data/planetoid cora.store

A pickle runs code when it is loaded: load only those you trust, and in a process of its own, as here.
"""

import argparse
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import graph_store
from graph_store import FeatureType, Schema

# After the nodes to train on, which come first, so many are to validate with.
NUM_VAL = 500


def load(folder: Path, name: str) -> dict[str, Any]:
    """Return the parts of a data set by the ending of their files."""
    parts: dict[str, Any] = {"test.index": np.loadtxt(folder / f"ind.{name}.test.index", dtype=np.int64)}
    with warnings.catch_warnings():
        # They name modules as scipy called them then.
        warnings.simplefilter("ignore", DeprecationWarning)
        for part in ("y", "tx", "ty", "allx", "ally", "graph"):
            with open(folder / f"ind.{name}.{part}", "rb") as file:
                parts[part] = pickle.load(file, encoding="latin1")
    return parts


def nodes(parts: dict[str, Any]) -> pa.Table:
    """Return a row for each node; one that no file describes has zeros for words, and no label."""
    known, test = parts["allx"].shape[0], parts["test.index"]
    size = max(len(parts["graph"]), int(test.max()) + 1)
    words = np.zeros((size, parts["allx"].shape[1]), np.int8)
    words[:known], words[test] = parts["allx"].toarray(), parts["tx"].toarray()
    classes = np.zeros((size, parts["ally"].shape[1]), np.int8)
    classes[:known], classes[test] = parts["ally"], parts["ty"]
    split = np.full(size, None, object)
    num_train = len(parts["y"])
    split[:num_train], split[num_train : num_train + NUM_VAL], split[test] = "train", "val", "test"
    return pa.table(
        {
            "id": np.arange(size),
            "words": pa.FixedSizeListArray.from_arrays(words.ravel(), words.shape[1]),
            "label": pa.array(classes.argmax(1).astype(np.uint8), mask=~classes.any(1)),
            "split": pa.array(split, pa.string()),
        }
    )


def citations(parts: dict[str, Any]) -> pa.Table:
    """Return the edges of the adjacency lists: each at least twice, some with themselves."""
    pairs = [(src, dst) for src, found in parts["graph"].items() for dst in found]
    src, dst = np.array(pairs, np.int64).T
    return pa.table({"src": src, "dst": dst})


def main() -> None:
    """Make the store that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=("cora", "citeseer"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("store", type=Path)
    options = parser.parse_args()

    parts = load(options.folder, options.name)
    table = nodes(parts)
    features = (
        # Each word is there or not, so a byte for each is exact.
        FeatureType("words", "vector", dtype="int8", scale=1, dim=table["words"].type.list_size),
        FeatureType("label", dtype="uint8"),
        FeatureType("split", "category"),
    )
    schema = Schema.from_tables(
        {
            "paper:cites:paper": {
                "table": citations(parts),
                "undirected": True,
                "self_loops": "drop",
                "missing_nodes": "error",
            }
        },
        {"paper": {"table": table, "features": features}},
    )
    graph_store.ingest(schema, options.store, overwrite=True)


if __name__ == "__main__":
    main()
