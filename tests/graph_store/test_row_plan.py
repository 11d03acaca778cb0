"""Batches and the plan they are read by: columns found by name or place, rows left out whole."""

import numpy as np
import pyarrow as pa
import pytest

from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType
from graph_store.row_batch import Column, EdgeBatch, Field, Rejected, cell_reason, fault
from graph_store.row_plan import RowPlan, relation_fault
from graph_store.schema import EdgeSource, EdgeType, NodeSource, NodeType

USER, ITEM = NodeType("user"), NodeType("item", "string")
KEEP = np.array([True, False, True])


def plan(*, features=(), **options):
    policies = {key: options.pop(key) for key in ("bad_weights", "negative_weights", "bad_rows") if key in options}
    edge_type = EdgeType("user:likes:item", [EdgeSource("e.csv", **options)], features=features, **policies)
    return RowPlan.of_edges(edge_type.sources[0], USER, ITEM, edge_type)


def test_a_column_is_filtered_with_its_lists():
    assert Column(np.array([5, 6, 7])).filter(KEEP).values.tolist() == [5, 7]
    lists = Column(np.array([9, 9, 1, 2, 3, 4]), np.array([2, 3, 5, 6]), np.array([True, True, False]))
    kept = lists.filter(KEEP)
    assert (kept.values.tolist(), kept.indptr.tolist(), kept.present.tolist()) == ([1, 4], [0, 1, 2], [True, False])
    none = lists.filter(np.zeros(3, bool))
    assert (none.values.tolist(), none.indptr.tolist()) == ([], [0])


def test_a_batch_is_filtered_in_all_its_columns():
    rejected = (Rejected("e.csv", "line 9", "bad", "x"),)
    batch = EdgeBatch(
        np.array([1, 2, 3]),
        pa.array(["a", "b", "c"], pa.large_string()),
        np.array([1, 2, 3], np.float32),
        None,
        3,
        77,
        src_only=np.array([9]),
        features={"x": Column(np.array([4, 5, 6]))},
        relation=pa.array(["r", "s", "t"], pa.large_string()),
        rejected=rejected,
    ).filter(KEEP)
    assert (batch.src.tolist(), batch.dst.to_pylist(), batch.weight.tolist()) == ([1, 3], ["a", "c"], [1.0, 3.0])
    assert (batch.time, batch.num_rows, batch.bytes_done, batch.src_only.tolist()) == (None, 2, 77, [9])
    assert (batch.features["x"].values.tolist(), batch.relation.to_pylist()) == ([4, 6], ["r", "t"])
    assert batch.rejected == rejected


def test_a_fault_names_file_place_column_and_part():
    age = Field("feature", "'age'", 2, feature=FeatureType("age"))
    assert cell_reason(age, "'x' is no number", "repair it") == (
        "column 'age' (feature 'age'): 'x' is no number; repair it"
    )
    message = str(fault("e.csv", "line 7", Field("src", "0", 0, USER), "empty id", "fill it in"))
    assert message == "e.csv: line 7, column 0 (src): empty id; fill it in"


@pytest.mark.parametrize(
    ("column", "position"), [("item", 1), ("item:token", 1), ("2", 0), (2, 2), ("w:x:float", 2), ("w", 2)]
)
def test_a_column_is_found_by_name_with_or_without_its_type_or_by_position(column, position):
    found = plan(src=3, dst=column).find(["2", "item:token", "w:x:float", "rest"], 4)
    assert [field.position for field in found] == [3, position]


@pytest.mark.parametrize(
    ("options", "names", "says"),
    [
        ({"dst": "itm"}, ["user", "item:token"], "no column 'itm' for dst; did you mean 'item'?"),
        ({"dst": "x"}, None, "no column 'x' for dst; the file has no header; give positions from 0"),
        ({"dst": 7}, ["user", "item"], "no column 7 for dst: the first row has 2, counted from 0"),
        ({"dst": "a"}, ["user", "a", "a"], "dst column 'a': 2 columns have that name"),
        ({"dst": "a"}, ["user", "a:token", "a:float"], "dst column 'a': 2 columns have that name"),
        ({"src": "user", "dst": 0}, ["user", "item"], "two of src, dst are one column; name different ones"),
    ],
)
def test_a_column_that_cannot_be_found_is_refused(options, names, says):
    with pytest.raises(BadInput) as error:
        plan(**options).find(names, len(names or "ab"))
    assert str(error.value) == f"e.csv: {says}"


def test_the_plan_of_edges_and_of_nodes_lists_roles_then_features():
    features = (FeatureType("v", "vector", columns=("a", "b")), FeatureType("t", "string"))
    wanted = plan(features=features, weight="w").wanted
    assert [(each.part, each.column) for each in wanted] == [
        ("src", 0), ("dst", 1), ("weight", "w"), ("feature 'v'", "a"), ("feature 'v'", "b"), ("feature 't'", "t"),
    ]  # fmt: skip
    node_type = NodeType("item", "string", [NodeSource("n.csv", id="k")], features)
    nodes = RowPlan.of_nodes(node_type.sources[0], node_type)
    assert [each.part for each in nodes.wanted] == ["id", "feature 'v'", "feature 'v'", "feature 't'"]
    assert nodes.is_nodes
    assert len(RowPlan.of_nodes(node_type.sources[0], node_type, features=False).wanted) == 1


def test_weights_are_left_out_or_at_fault_as_the_type_says():
    weights = np.array([1, np.nan, -1, -np.inf, np.inf, -0.0, 0], np.float32)
    bad, negative = [False, True, False, True, True, False, False], [False, False, True, False, False, False, False]
    dropped, faults = plan(weight=2).weigh(weights)
    assert (dropped, faults.tolist()) == ({}, bad)
    dropped, faults = plan(weight=2, bad_weights="drop", negative_weights="error").weigh(weights)
    assert ({key: rows.tolist() for key, rows in dropped.items()}, faults.tolist()) == ({"bad_weights": bad}, negative)
    dropped, faults = plan(weight=2, bad_weights="drop", negative_weights="drop").weigh(weights)
    assert {key: rows.tolist() for key, rows in dropped.items()} == {"bad_weights": bad, "negative_weights": negative}
    assert not faults.any()


def test_a_relation_is_any_word_but_the_wildcard():
    assert relation_fault("/film/actor") is None
    assert relation_fault("*") == "relation '*' stands for all relations and can be none of them; rename it"
    assert relation_fault("a:b").endswith("rename it")
