"""Subgraphs that are not drawn: all edges among given nodes, and all within some hops of given nodes."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from graph_store.adjacency import Adjacency, first_bad_node
from graph_store.errors import BadInput
from graph_store.kernels import int64_array, kernel, load_bits, run_ranges
from graph_store.packed_lists import LOOK_AHEAD, entry_of, locate, node_mark
from graph_store.packing import bit_mask
from graph_store.sampling.lists import check_columns, gather_lists
from graph_store.sampling.plan import known_type, read_type
from graph_store.sampling.relabel import Relabeller, label_of, prefetch_label
from graph_store.sampling.subgraph import Hop, LabelIds, Subgraph

if TYPE_CHECKING:
    from graph_store.store import GraphStore

DIRECTIONS = ("out", "in", "both")


@kernel
def _places_among(arrays, nodes, table, stamp, counts, starts, places, start, stop):
    """Find the places of neighbours that have a label; only counts them where there is no room for places."""
    words, words32, directory, group_base = arrays
    values = np.empty(LOOK_AHEAD, np.int64)
    for i in range(start, stop):
        entry = entry_of(nodes[i], directory, group_base)
        degree, bit, bits, _ = locate(words, words32, entry, node_mark(nodes[i], entry, group_base))
        mask, count = bit_mask(bits), 0
        for low in range(0, degree, LOOK_AHEAD):
            size = min(LOOK_AHEAD, degree - low)
            for j in range(size):
                values[j] = np.int64(load_bits(words, np.uint64(bit + (low + j) * bits)) & mask)
                prefetch_label(table, values[j])
            for j in range(size):
                if label_of(table, stamp, values[j]) >= 0:
                    if places.size:
                        places[starts[i] + count] = low + j
                    count += 1
        counts[i] = count


def _among(
    adjacency: Adjacency, nodes: np.ndarray, labels: Relabeller, threads: int | None
) -> tuple[np.ndarray, np.ndarray]:
    """Return `indptr` and the places in the lists of nodes of the neighbours that have a label, from two passes."""
    adjacency.check_blocks(nodes)
    counts, starts = np.empty(nodes.size, np.int64), np.zeros(nodes.size + 1, np.int64)

    def search(places: np.ndarray) -> None:
        run_ranges(
            lambda start, stop: _places_among(
                adjacency.arrays, nodes, *labels.table, counts, starts, places, start, stop
            ),
            nodes.size,
            threads=threads,
            grain=1 << 8,
        )

    search(np.empty(0, np.int64))
    np.cumsum(counts, out=starts[1:])
    places = np.empty(int(starts[-1]), np.int64)
    if places.size:
        search(places)
    return starts, places


def induced_subgraph(
    store: "GraphStore",
    nodes: Mapping[str, np.ndarray],
    *,
    edge_types: Sequence[str] | None = None,
    columns: Collection[str] = (),
    threads: int | None = 1,
) -> Subgraph:
    """Return given nodes and all edges among them.

    Each list of the nodes is read once or twice from one end to the other: a hub among them costs its whole list.

    Parameters
    ----------
    store : GraphStore
    nodes : dict of str to int64[n]
        By node type; labels count them in the order in which they come first.
    edge_types : sequence of str, optional
        All types between the given node types when None. An edge of an undirected type comes from both of its ends, and
        a type and its reverse are two.
    columns : collection of str
        Which of `edge_ids`, `weights` and `times` come along.
    threads : int, optional

    Returns
    -------
    Subgraph
        Of one hop for each edge type; the given nodes are its seeds.

    Raises
    ------
    UnknownNodeType, UnknownEdgeType
    ValueError
        One is no node of its type.
    BadInput
        An edge type that leads to or from a node type of which no nodes are given.
    """
    columns = check_columns(columns)
    labels, seed_labels = {}, {}
    for name, given in nodes.items():
        labels[name] = Relabeller()
        seed_labels[name] = labels[name].labels(_checked(store, name, given))
    if edge_types is None:
        edge_types = [name for name, entry in store.edge_types.items() if {entry.src, entry.dst} <= nodes.keys()]
    found = {name: own.nodes.copy() for name, own in labels.items()}
    ids = LabelIds(found, {name: store.id_map(name) for name in found})
    hops = []
    for name in edge_types:
        entry = known_type(store.edge_types, name)
        for end in (entry.src, entry.dst):
            if end not in nodes:
                raise BadInput(f"edges of {name} need nodes of type {end!r}; those given are of {', '.join(nodes)}")
        indptr, places = _among(store.adjacency(name), found[entry.src], labels[entry.dst], threads)
        drawn = gather_lists(store.adjacency(name), found[entry.src], indptr, places, columns=columns, threads=threads)
        hops.append(
            Hop(
                name,
                entry.src,
                entry.dst,
                0,
                drawn.indptr,
                labels[entry.dst].labels(drawn.neighbors),
                ids,
                edge_ids=drawn.edge_ids,
                weights=drawn.weights,
                times=drawn.times,
            )
        )
    sizes = {name: [own.size, 0] for name, own in found.items()}
    return Subgraph(seed_labels, found, ids, tuple(hops), sizes, induced=True)


def _checked(store: "GraphStore", node_type: str, nodes: np.ndarray) -> np.ndarray:
    nodes = int64_array(nodes, f"nodes of {node_type}")
    bad = int(first_bad_node(nodes, np.diff(store.node_base(node_type))))
    if bad >= 0:
        raise ValueError(f"node {nodes[bad]} at position {bad} is no node of type {node_type}")
    return nodes


def ego_graph(
    store: "GraphStore",
    nodes: np.ndarray,
    hops: int = 1,
    *,
    node_type: str,
    edge_types: Sequence[str] | None = None,
    direction: str = "out",
    columns: Collection[str] = (),
    threads: int | None = 1,
) -> Subgraph:
    """Return all nodes within some hops of given ones, and all edges among them.

    Parameters
    ----------
    store : GraphStore
    nodes : int64[b]
        Of `node_type`.
    hops : int
        0 or more.
    node_type : str
    edge_types : sequence of str, optional
        The types that hops go along, and whose edges are returned; all of the store's when None.
    direction : str
        Hops go `"out"` to destinations, `"in"` to sources, or `"both"` ways.
    columns, threads
        See `induced_subgraph`.

    Returns
    -------
    Subgraph
        As of `induced_subgraph`, with `nodes` as seeds: of each type `num_sampled_nodes` says how many nodes are at
        distance 0, 1, 2, …, and labels are in this order.

    Raises
    ------
    UnknownNodeType, UnknownEdgeType, ValueError
    BadInput
        A direction that there is not, or `"in"` along a type without a reverse.
    """
    if direction not in DIRECTIONS:
        raise BadInput(f"direction must be one of {', '.join(DIRECTIONS)}, got {direction!r}")
    if hops < 0:
        raise BadInput(f"hops must be 0 or more, got {hops}")
    named = list(store.edge_types) if edge_types is None else list(edge_types)
    ways = []
    for name in named:
        entry = known_type(store.edge_types, name)
        if direction != "in":
            ways.append((entry.src, entry.dst, name))
        if direction != "out":
            ways.append((entry.dst, entry.src, read_type(entry, "in")))
    labels = {name: Relabeller() for name in (node_type, *(end for way in ways for end in way[:2]))}
    seed_labels = labels[node_type].labels(_checked(store, node_type, nodes))
    ends = {name: [0, own.num_nodes] for name, own in labels.items()}
    for _ in range(hops):
        for expanded, reached, read in ways:
            first, stop = ends[expanded][-2:]
            labels[reached].labels(store.adjacency(read).neighbors(labels[expanded].nodes[first:stop].copy())[1])
        for name, own in labels.items():
            ends[name].append(own.num_nodes)
    found = induced_subgraph(
        store,
        {name: own.nodes for name, own in labels.items()},
        edge_types=named,
        columns=columns,
        threads=threads,
    )
    sizes = {name: np.diff(own).tolist() for name, own in ends.items()}
    return replace(found, labels_of_seeds={node_type: seed_labels}, num_sampled_nodes=sizes)
