"""Batches as torch tensors over the same memory."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from graph_store.features import FeatureValues
from graph_store.sampling.links import LinkBatch
from graph_store.sampling.node_loader import NodeBatch
from graph_store.sampling.subgraph import Hop, Subgraph

try:
    import torch
except ImportError:
    raise ImportError("tensors need torch, which is not installed: pip install 'gossamer[torch]'") from None

if TYPE_CHECKING:
    from graph_store.sampling.gather import Features

Tensors = dict[str, torch.Tensor]


class FeatureTensors(NamedTuple):
    """See `FeatureValues`: values, and where the list of each begins, and which are present."""

    values: torch.Tensor
    indptr: torch.Tensor | None
    present: torch.Tensor


@dataclass(frozen=True)
class TensorHop:
    """See `Hop`; all arrays are tensors."""

    edge_type: str
    src_type: str
    dst_type: str
    depth: int
    direction: str
    first: int
    indptr: torch.Tensor
    neighbors: torch.Tensor
    edge_ids: torch.Tensor | None
    weights: torch.Tensor | None
    times: torch.Tensor | None


@dataclass(frozen=True)
class TensorBatch:
    """A batch as tensors.

    Attributes
    ----------
    labels_of_seeds, nodes, trees : dict of str to int64 tensor
        See `Subgraph`; `trees` is None where trees are merged.
    hops : tuple of TensorHop
    features : dict of str to dict of str to FeatureTensors
    links : dict of str to tensor
        `src`, `dst`, `negatives`, `unmet`, and where there are any `labels` and `times` of a `LinkBatch`.
    """

    labels_of_seeds: Tensors
    nodes: Tensors
    hops: tuple[TensorHop, ...]
    trees: Tensors | None
    features: dict[str, dict[str, FeatureTensors]]
    links: Tensors


def to_torch(batch: Subgraph | NodeBatch | LinkBatch) -> TensorBatch:
    """Return a batch as tensors that share its memory: nothing is copied, and what changes one changes the other.

    Parameters
    ----------
    batch : Subgraph, NodeBatch or LinkBatch

    Returns
    -------
    TensorBatch
    """
    subgraph = batch if isinstance(batch, Subgraph) else batch.subgraph
    features: Features = {} if isinstance(batch, Subgraph) else batch.features
    links = {}
    if isinstance(batch, LinkBatch):
        columns = {name: getattr(batch, name) for name in ("src", "dst", "negatives", "unmet", "labels", "times")}
        links = {name: tensor(column) for name, column in columns.items() if column is not None}
    return TensorBatch(
        _all(subgraph.labels_of_seeds),
        _all(subgraph.nodes),
        tuple(_hop(hop) for hop in subgraph.hops),
        None if subgraph.trees is None else _all(subgraph.trees),
        {kind: {name: _feature(own) for name, own in values.items()} for kind, values in features.items()},
        links,
    )


def tensor(array: np.ndarray) -> torch.Tensor:
    """Return a tensor over the memory of an array; of one that may not be written, over a copy."""
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _maybe(array: np.ndarray | None) -> torch.Tensor | None:
    return None if array is None else tensor(array)


def _all(arrays: dict[str, np.ndarray]) -> Tensors:
    return {name: tensor(array) for name, array in arrays.items()}


def _feature(values: FeatureValues) -> FeatureTensors:
    return FeatureTensors(tensor(values.values), _maybe(values.indptr), tensor(values.present))


def _hop(hop: Hop) -> TensorHop:
    return TensorHop(
        hop.edge_type,
        hop.src_type,
        hop.dst_type,
        hop.depth,
        hop.direction,
        hop.first,
        tensor(hop.indptr),
        tensor(hop.neighbors),
        _maybe(hop.edge_ids),
        _maybe(hop.weights),
        _maybe(hop.times),
    )
