"""Batches as the `Data` and `HeteroData` that models of PyTorch Geometric read."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from graph_store.errors import BadInput
from graph_store.features import FeatureValues
from graph_store.sampling.links import LinkBatch
from graph_store.sampling.node_loader import NodeBatch
from graph_store.sampling.subgraph import Subgraph
from graph_store.sampling.tensors import tensor

try:
    import torch
    from torch_geometric.data import Data, HeteroData
except ImportError:
    raise ImportError(
        "to_pyg needs torch and torch_geometric, which are not installed: pip install 'gossamer[torch]'"
    ) from None

# The direction in which messages go along the edges of a layer, and what is sampled for it.
_DIRECTIONS = {"source_to_target": "in", "target_to_source": "out"}


def to_pyg(
    batch: Subgraph | NodeBatch | LinkBatch,
    *,
    x: Mapping[str, str] | None = None,
    y: Mapping[str, str] | None = None,
    flow: str = "source_to_target",
) -> Data | HeteroData:
    """Return a batch as PyG's loaders return theirs; the tensors share the batch's memory, but for `edge_index`.

    A `Data` where nodes are of one type and edges of one, otherwise a `HeteroData`, whose edge types are tuples. There
    are `n_id` (the store's nodes, for `GraphStore.to_ids`), `edge_index` (labels, an edge in its own direction, hop by
    hop), `e_id`, `edge_weight` and `edge_time` where they were sampled, `num_sampled_nodes`, `num_sampled_edges`, and
    in trees `batch`: what `trim_to_layer` and the layers read. Seeds are the first `batch_size` nodes of their type;
    `input_id` says which examples they are, `seed_time` when. Merged, a seed given twice is one node, and `input_id` is
    where it was first.

    Of links there is no `batch_size`; ends are labels: `src_index`, `dst_pos_index` and `dst_neg_index` ([n], of
    several negatives [n, k]; -1 where there is none), or without negatives `edge_label_index`; and `edge_label` where
    labels were given.

    A feature has its own name, with `feature_` before it where something else has it, and `NAME_present`, bool; of a
    list of ids `NAME_indptr` too. `x` is the feature of that name, the one that is given as `x`, or the first vector;
    of edges the first vector is `edge_attr`.

    Parameters
    ----------
    batch : Subgraph, NodeBatch or LinkBatch
    x, y : mapping of str to str, optional
        By node type the feature that is its `x` or `y`.
    flow : str
        As of PyG's layers: `"source_to_target"` is for what was sampled in direction `"in"`, `"target_to_source"` for
        `"out"`.

    Raises
    ------
    BadInput
        Edges lead the other way than messages are to go; there is no feature of that name.
    """
    subgraph = batch if isinstance(batch, Subgraph) else batch.subgraph
    _check_flow(subgraph, flow)
    hetero = len(subgraph.nodes) > 1 or len(subgraph.edge_types) != 1
    data = HeteroData() if hetero else Data()

    def part(kind: str) -> Any:
        return data if not hetero else data[tuple(kind.split(":")) if ":" in kind else kind]

    for kind, nodes in subgraph.nodes.items():
        part(kind).n_id = tensor(nodes)
        part(kind).num_nodes = nodes.size
        part(kind).num_sampled_nodes = subgraph.num_sampled_nodes[kind]
        if subgraph.trees is not None:
            part(kind).batch = tensor(subgraph.trees[kind])
    for kind, counts in subgraph.num_sampled_edges.items():
        part(kind).edge_index = tensor(subgraph.edge_index(kind))
        part(kind).num_sampled_edges = counts
        for column, name in (("edge_ids", "e_id"), ("weights", "edge_weight"), ("times", "edge_time")):
            values = subgraph.column(kind, column)
            if values is not None:
                setattr(part(kind), name, tensor(values))
    features = {} if isinstance(batch, Subgraph) else batch.features
    for name, given in (("x", x), ("y", y)):
        for kind, feature in (given or {}).items():
            if feature not in features.get(kind, ()):
                raise BadInput(
                    f"{name} of {kind!r} is to be {feature!r}, which did not come along; "
                    f"those that did: {', '.join(features.get(kind, ())) or 'none'}"
                )
    for kind, named in features.items():
        shown = _shown(kind, named, subgraph, x or {}, y or {})
        for name, own in named.items():
            _add_feature(part(kind), shown.get(name, name), own)
    if isinstance(batch, LinkBatch):
        _add_links(batch, part)
    else:
        _add_seeds(batch, subgraph, part)
    return data


def _check_flow(subgraph: Subgraph, flow: str) -> None:
    if flow not in _DIRECTIONS:
        raise BadInput(f"flow must be one of {', '.join(_DIRECTIONS)}, got {flow!r}")
    wanted = _DIRECTIONS[flow]
    for hop in () if subgraph.induced else subgraph.hops:
        if hop.direction != wanted:
            raise BadInput(
                f"edges of {hop.edge_type} were drawn in direction {hop.direction!r}, so with flow {flow!r} messages "
                f"would go away from the seeds; sample with direction={wanted!r}, or give the layers and to_pyg the "
                "other flow"
            )


def _shown(
    kind: str, values: Mapping[str, FeatureValues], subgraph: Subgraph, x: Mapping[str, str], y: Mapping[str, str]
) -> dict[str, str]:
    """Return by feature the name of another that it takes."""
    shown = {given[kind]: name for name, given in (("x", x), ("y", y)) if kind in given}
    main = "x" if kind in subgraph.nodes else "edge_attr"
    if main not in {*values, *shown.values()}:
        first = next((name for name, own in values.items() if own.values.ndim == 2 and name not in shown), None)
        if first is not None:
            shown[first] = main
    return shown


def _add_feature(part: Any, name: str, values: FeatureValues) -> None:
    while name in part:
        name = f"feature_{name}"
    setattr(part, name, tensor(values.values))
    setattr(part, f"{name}_present", tensor(values.present))
    if values.indptr is not None:
        setattr(part, f"{name}_indptr", tensor(values.indptr))


def _add_seeds(batch: Subgraph | NodeBatch, subgraph: Subgraph, part: Any) -> None:
    for kind, labels in subgraph.labels_of_seeds.items():
        size = subgraph.num_sampled_nodes[kind][0]
        part(kind).batch_size = size
        # Labels count seeds as they first come.
        firsts = np.arange(size) if labels.size == size else np.unique(labels, return_index=True)[1]
        examples = np.arange(labels.size) if isinstance(batch, Subgraph) else batch.share.examples
        part(kind).input_id = tensor(examples[firsts])
        if isinstance(batch, NodeBatch) and batch.times is not None:
            part(kind).seed_time = tensor(batch.times[firsts])


def _add_links(batch: LinkBatch, part: Any) -> None:
    entry = batch.targets.edge_type
    own, src, dst = part(entry.name), part(entry.src), part(entry.dst)
    own.input_id = tensor(np.arange(batch.src.size) if batch.share is None else batch.share.examples)
    if batch.labels is not None:
        own.edge_label = torch.as_tensor(batch.labels)
    if batch.negatives.shape[1] == 0:
        own.edge_label_index = tensor(np.stack([batch.src, batch.dst]))
        if batch.times is not None:
            own.edge_label_time = tensor(batch.times)
        return
    src.src_index, dst.dst_pos_index = tensor(batch.src), tensor(batch.dst)
    dst.dst_neg_index = tensor(batch.negatives).squeeze(-1)
    if batch.times is not None:
        src.seed_time = dst.seed_time = tensor(batch.times)
