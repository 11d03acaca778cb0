"""Run by test_sampling_ranks: hashes of what all ranks together sample from a store, printed by rank 0 as JSON."""

import hashlib
import json
import sys

import numpy as np
from mpi4py import MPI

import graph_store
from graph_store import NegativeSampler
from tests.graph_store.shop import ALL, BACK, CLICKS

WAYS = {CLICKS: [4, 2], BACK: [4, 2]}


def hashed(value):
    """Return a hash of what prints exactly."""
    return hashlib.sha256(repr(value).encode()).hexdigest()


def trees(subgraph):
    """Return of each seed its edges hop by hop, with all columns, by original ids."""
    count = sum(labels.size for labels in subgraph.labels_of_seeds.values())
    found = [[] for _ in range(count)]
    for hop in subgraph.hops:
        columns = [column.tolist() for column in (hop.edge_ids, hop.weights, hop.times) if column is not None]
        rows = zip(hop.src.tolist(), hop.dst.tolist(), *columns)
        for tree, row in zip(subgraph.trees[hop.expanded_type][hop.expanded_labels].tolist(), rows):
            found[tree].append((hop.edge_type, hop.depth, *row))
    return found


def node_part(batch):
    """Return the seeds of a batch with their trees."""
    return list(zip(batch.subgraph.seeds.tolist(), trees(batch.subgraph)))


def link_part(batch):
    """Return the positives of a batch with their negatives and the trees of all their ends."""
    ids, owned = batch.subgraph.ids, trees(batch.subgraph)
    first = {"user": 0, "item": batch.subgraph.labels_of_seeds["user"].size}
    tree_of = {
        kind: dict(zip(labels.tolist(), range(first[kind], first[kind] + labels.size)))
        for kind, labels in batch.subgraph.labels_of_seeds.items()
    }
    rows = []
    for src, dst, negatives in zip(batch.src.tolist(), batch.dst.tolist(), batch.negatives.tolist()):
        ends = [("user", src), ("item", dst), *(("item", label) for label in negatives if label >= 0)]
        rows.append([(ids[kind][label], owned[tree_of[kind][label]]) for kind, label in ends])
    return rows


def main():
    """Sample, join the shares of each step in the order of ranks, and print what they hash to."""
    world = MPI.COMM_WORLD
    threads, depth = int(sys.argv[2]), int(sys.argv[3])
    with graph_store.open(sys.argv[1]) as store:
        shared = {"rank": world.rank, "size": world.size, "threads": threads, "depth": depth, "seed": 5, "columns": ALL}
        links = store.split_edges(CLICKS, valid=0.1, test=0.1, seed=2)
        negatives = NegativeSampler.of_type(store, CLICKS, method="degree")
        loaders = {
            "uniform": (store.node_loader(WAYS, node_type="user", batch_size=9, disjoint=True, **shared), node_part),
            "timed": (
                graph_store.node_loader(
                    store, WAYS, batch_size=9, times=np.arange(40) % 12, window=7, method={CLICKS: "weighted"}, **shared
                ),
                node_part,
            ),
            "links": (
                store.link_loader(
                    CLICKS, [3, 2], links.train, batch_size=64, disjoint=True, negatives=negatives, num_negatives=2,
                    held_out=links.held_out(), **shared,
                ),
                link_part,
            ),
        }  # fmt: skip
        found = {}
        for name, (loader, part) in loaders.items():
            steps = []
            for batch in loader:
                parts = world.gather(part(batch))
                steps.append(hashed([row for rows in parts or [] for row in rows]))
            found[name] = steps
        starts = store.nodes("user")
        own = np.array_split(np.arange(starts.size), world.size)[world.rank]
        walks = graph_store.walk(
            [store.adjacency(CLICKS), store.adjacency(BACK)], starts[own], length=6, walks=3, seed=9, positions=own
        )
        found["walks"] = [hashed([row for rows in world.gather(walks.tolist()) or [] for row in rows])]
        # Merged, a batch is that of its seeds on whichever rank it is made.
        merged = store.neighbor_sampler(WAYS, columns=ALL).sample(starts[:20], node_type="user", seed=1)
        rows = [(hop.src.tolist(), hop.dst.tolist(), hop.edge_ids.tolist()) for hop in merged.hops]
        found["merged"] = sorted(set(world.gather(hashed(rows)) or []))
        if world.rank == 0:
            print(json.dumps(found))


main()
