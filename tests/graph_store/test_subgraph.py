"""A subgraph as matrices of labels; and what is there without torch."""

import subprocess
import sys

import numpy as np
import pytest

from graph_store import BadInput
from tests.graph_store.shop import BACK, CLICKS, LIKES
from tests.graph_store.test_node_loader import WAYS


def dense(found, kind):
    """The edges of a type as a matrix of labels, by plain loops."""
    src, _, dst = kind.split(":")
    matrix = np.zeros((found.nodes[src].size, found.nodes[dst].size))
    for hop in found.hops:
        if hop.edge_type == kind:
            weights = np.ones(hop.neighbors.size) if hop.weights is None else hop.weights
            for row, col, weight in zip(hop.src_labels, hop.dst_labels, weights):
                matrix[row, col] += weight
    return matrix


@pytest.mark.parametrize("direction", ["out", "in"])
@pytest.mark.parametrize("columns", [(), ["weights"]])
def test_a_scipy_matrix_has_the_edges_by_label(shop, direction, columns):
    sampler = shop.neighbor_sampler({**WAYS, LIKES: [3, 3]}, direction=direction, columns=columns)
    found = sampler.sample(shop.nodes("user")[:6], node_type="user", seed=1)
    for kind in (CLICKS, BACK, LIKES):
        assert np.array_equal(found.to_scipy(kind).toarray(), dense(found, kind))
    with pytest.raises(BadInput, match=r"edge_type must be one of user:clicks:item, .*, got None"):
        found.to_scipy()


@pytest.mark.parametrize(
    ("module", "name"), [("torch", "to_torch"), ("torch", "to_pyg"), ("torch_geometric", "to_pyg")]
)
def test_all_of_the_package_is_there_without_torch_but_what_needs_it(module, name):
    script = (
        f"import sys; sys.modules[{module!r}] = None\nfrom graph_store import *\nimport graph_store; graph_store.{name}"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    if (module, name) != ("torch_geometric", "to_torch"):
        assert "pip install 'gossamer[torch]'" in done.stderr.splitlines()[-1]
