"""What tests of whole stores share: rows with all kinds of lists, and the comparison of a store with its rows."""

import numpy as np

import graph_store
from tests.oracles import Twin, lists_of

CLICKS, BACK = "user:clicks:item", "item:rev_clicks:user"


def check(path, rows, *, edge_type=CLICKS, undirected=False, reverse=False):
    """Compare a store with the twin of its rows, and verify it."""
    twin = Twin(rows, undirected)
    assert graph_store.verify(path) == []
    info = graph_store.info(path)
    src, _, dst = edge_type.split(":")
    ends = {src: {row[0] for row in rows}, dst: {row[1] for row in rows}}
    if src == dst:
        ends = {src: {end for row in rows for end in row[:2]}}
    assert info["nodes"] == {name: len(ids) for name, ids in ends.items()}
    types = [edge_type, BACK] if reverse else [edge_type]
    loops = twin.self_loops if src == dst else 0
    assert info["edges"] == dict.fromkeys(types, twin.num_edges)
    assert info["duplicates"] == dict.fromkeys(types, twin.duplicates)
    assert info["self_loops"] == dict.fromkeys(types, loops)
    with graph_store.open(path) as store:
        for name, ids in ends.items():
            assert sorted(store.ids(name).tolist()) == sorted(ids)
        assert lists_of(store, edge_type) == {node: twin.lists.get(node, []) for node in ends[src]}
        if reverse:
            opposite = twin.reversed
            assert lists_of(store, BACK) == {node: opposite.get(node, []) for node in ends[dst]}


def many_rows(num_rows=6000, *, weighted=True, timed=False, seed=0):
    """Return rows with duplicates, hubs of many degrees, negative and huge ids."""
    random = np.random.default_rng(seed)
    src = (400 * random.random(num_rows) ** 3).astype(np.int64) - 50
    dst = (3000 * random.random(num_rows) ** 2).astype(np.int64) * 2**50
    src = np.concatenate([src, np.repeat([1000, 1001, 1002, 1003], [512, 513, 1024, 1025])])
    dst = np.concatenate([dst, *(np.arange(size) * 2**50 for size in (512, 513, 1024, 1025))])
    weight = np.arange(src.size).astype(np.float32).tolist() if weighted else [None] * src.size
    time = random.integers(-3, 3, src.size).tolist() if timed else [None] * src.size
    return list(zip(src.tolist(), dst.tolist(), weight, time))


def leftovers(path):
    return [entry.name for entry in path.parent.iterdir() if entry.name.startswith(f".{path.name}")]


def snapshot(path):
    """Return the files of a store; not the one that says who wrote to it last."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and file.name != "writer.lock")
    return {str(file.relative_to(path)): file.read_bytes() for file in files}
