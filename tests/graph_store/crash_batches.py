"""What a process commits until it is killed: each batch is a function of its version. Also the process itself."""

import sys
import time
from pathlib import Path

import numpy as np

from graph_store.feature_type import FeatureType
from graph_store.writer import GraphWriter
from tests.graph_store.empty_stores import edge_type, node_type

VIEWS, KNOWS = "user:views:item", "user:knows:user"
NODE_FEATURES = (FeatureType("age", "scalar", dtype="int32"), FeatureType("word", "category"))
EDGE_FEATURES = (FeatureType("score", "scalar", dtype="float64"),)
CONFIG = (
    [node_type("item", "string"), node_type("user", features=NODE_FEATURES)],
    [
        edge_type(VIEWS, reverse=True, weighted=True, timed=True, features=EDGE_FEATURES, duplicates="sum"),
        edge_type(KNOWS, undirected=True),
    ],
)


def apply(version, batch, model):
    """Do what belongs to a version, on a batch and on the twin; either may be None."""
    random = np.random.default_rng(version)
    for kind in random.choice(
        ["views", "knows", "delete", "expire", "nodes", "gone"], 3, p=[0.4, 0.2, 0.1, 0.05, 0.2, 0.05]
    ):
        size = int(random.integers(1, 40))
        users = random.integers(0, 60, size)
        items = [f"item {number}" for number in random.integers(0, 40, size)]
        weight, times = random.integers(1, 5, size).astype(float), random.integers(-5, 5, size)
        score = random.random(size).tolist()
        others = random.integers(0, 60, size)
        if kind == "views":
            if batch is not None:
                batch.add_edges(VIEWS, users, items, weight=weight, time=times, features={"score": score})
            if model is not None:
                rows = zip(users.tolist(), items, weight.tolist(), times.tolist(), ((each,) for each in score))
                model.add_edges(VIEWS, list(rows))
        elif kind == "knows":
            if batch is not None:
                batch.add_edges(KNOWS, users, others)
            if model is not None:
                model.add_edges(
                    KNOWS, [(one, other, None, None, ()) for one, other in zip(users.tolist(), others.tolist())]
                )
        elif kind == "delete":
            if batch is not None:
                batch.delete_edges(VIEWS, users, items)
            if model is not None:
                model.delete_edges(
                    VIEWS, [(one, other, None) for one, other in zip(users.tolist(), items)], timed=False
                )
        elif kind == "expire":
            if batch is not None:
                batch.expire(VIEWS, int(times[0]))
            if model is not None:
                model.expire(VIEWS, int(times[0]))
        elif kind == "nodes":
            ages = [int(number) for number in weight]
            if batch is not None:
                batch.add_nodes("user", users, {"age": ages, "word": [f"word {age}" for age in ages]})
            if model is not None:
                model.add_nodes("user", users.tolist())
                model.set_features("user", users.tolist(), {"age": ages, "word": [f"word {age}" for age in ages]})
        else:
            if batch is not None:
                batch.delete_nodes("user", users[:2])
            if model is not None:
                model.delete_nodes("user", users[:2].tolist())


def commit_for_ever(path, fold_rows):
    """Commit batch after batch and say which version was acknowledged; fold now and then, or behind."""
    with GraphWriter(path, threads=2, fold_rows=fold_rows, keep=1) as writer:
        print("ready", flush=True)
        while True:
            with writer.batch() as batch:
                apply(writer.version + 1, batch, None)
            print(writer.version, flush=True)
            if fold_rows == 0 and writer.version % 7 == 0:
                writer.fold()
                print(writer.version, flush=True)
            time.sleep(0)


if __name__ == "__main__":
    commit_for_ever(Path(sys.argv[1]), int(sys.argv[2]))
