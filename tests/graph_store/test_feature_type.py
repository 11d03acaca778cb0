"""Feature types: their defaults and what they refuse."""

from dataclasses import replace

import pytest

from graph_store.errors import BadInput
from graph_store.feature_type import FeatureType


@pytest.mark.parametrize(
    ("options", "dtype", "dim"),
    [
        ({}, "float32", None),
        ({"kind": "scalar", "dtype": "bool"}, "bool", None),
        ({"kind": "vector", "dim": 3}, "float32", 3),
        ({"kind": "vector", "columns": ("a", "b")}, "float32", 2),
        ({"kind": "vector", "columns": [4, 5, 6], "dim": 3, "dtype": "float16"}, "float16", 3),
        ({"kind": "vector", "columns": "a", "dim": 1}, "float32", 1),
        ({"kind": "vector", "dim": 8, "dtype": "int8", "scale": 0.5}, "int8", 8),
        ({"kind": "category"}, None, None),
        ({"kind": "ids"}, None, None),
        ({"kind": "string"}, None, None),
    ],
)
def test_what_is_left_out_follows_from_the_kind(options, dtype, dim):
    feature = FeatureType("x", **options)
    assert (feature.dtype, feature.dim) == (dtype, dim)
    assert replace(feature) == feature


def test_the_columns_are_those_named_or_the_one_named_like_the_feature():
    assert FeatureType("age").source_columns == ("age",)
    assert FeatureType("age", columns="user_age").source_columns == ("user_age",)
    assert FeatureType("age", columns=0).source_columns == (0,)
    assert FeatureType("emb", "vector", columns=["x", "y"]).columns == ("x", "y")


@pytest.mark.parametrize(
    ("options", "is_list"),
    [
        ({"kind": "ids"}, True),
        ({"kind": "vector", "dim": 2}, True),
        ({"kind": "vector", "dim": 2, "columns": "v"}, True),
        ({"kind": "vector", "columns": ("a", "b")}, False),
        ({"kind": "category"}, False),
        ({}, False),
    ],
)
def test_ids_and_vectors_of_one_column_are_lists_in_a_cell(options, is_list):
    assert FeatureType("x", **options).is_list == is_list


@pytest.mark.parametrize(("word", "mark"), [("comma", ","), ("pipe", "|"), ("space", " "), (";", ";"), ("tab", "\t")])
def test_a_separator_may_be_named(word, mark):
    assert FeatureType("x", "ids", separator=word).separator == mark


def test_a_scale_is_kept_as_a_float():
    feature = FeatureType("x", "vector", "int8", 2, scale=2)
    assert feature.scale == 2.0
    assert isinstance(feature.scale, float)


INT8 = {"kind": "vector", "dim": 2, "dtype": "int8"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"kind": "vectors"}, "kind is 'vectors', expected 'vector', .* did you mean 'vector'"),
        ({"kind": None}, "kind is None, expected 'vector', 'scalar', 'category', 'ids', 'string'"),
        ({"dtype": "float16"}, "dtype is 'float16', expected 'float32', 'float64'"),
        ({"dtype": "int63"}, "did you mean 'int6?"),
        ({"kind": "vector", "dim": 2, "dtype": "float64"}, "dtype is 'float64', expected 'float32', 'float16', 'int8'"),
        ({"kind": "category", "dtype": "int32"}, "kind 'category' has none; leave it out"),
        ({"kind": "vector"}, "dim is missing; say how many"),
        ({"kind": "vector", "columns": "a"}, "dim is missing; say how many"),
        ({"kind": "vector", "dim": 0}, "dim is 0, expected a whole number of 1 or more"),
        ({"kind": "vector", "dim": True}, "dim is True"),
        ({"kind": "vector", "dim": 2.0}, r"dim is 2\.0"),
        ({"kind": "vector", "dim": 3, "columns": ("a", "b")}, "dim is 3, but columns names 2"),
        ({"dim": 3}, "only a vector has one; say kind = 'vector'"),
        (INT8, "scale is missing"),
        ({**INT8, "scale": 0}, "scale is 0, expected a number above 0"),
        ({**INT8, "scale": -1.5}, "expected a number above 0"),
        ({**INT8, "scale": float("nan")}, "expected a number above 0"),
        ({**INT8, "scale": float("inf")}, "expected a number above 0"),
        ({**INT8, "scale": True}, "expected a number above 0"),
        ({**INT8, "scale": "0.1"}, "expected a number above 0"),
        ({**INT8, "scale": 10**400}, "expected a number above 0"),
        ({"kind": "vector", "dim": 2, "scale": 0.5}, "for vectors of dtype 'int8' only"),
        ({"dtype": "int8", "scale": 0.5}, "for vectors of dtype 'int8' only"),
        ({"columns": ("a", "b")}, "only a vector has several"),
        ({"kind": "vector", "columns": ("a", "b", "a")}, "columns names 'a' twice"),
        ({"kind": "vector", "columns": (1, "1")}, "columns names '1' twice"),
        ({"columns": ("",)}, "a column is '', expected a column name or a position"),
        ({"columns": -1}, "expected a position from 0"),
        ({"columns": True}, "expected a column name"),
        ({"columns": {"a": 1}}, "columns is .*, expected a column name or position, or several"),
        ({"separator": ","}, "separator is for kind 'ids' and for a vector in one column"),
        ({"kind": "vector", "columns": ("a", "b"), "separator": ","}, "separator is for kind 'ids'"),
        ({"kind": "ids", "separator": ", "}, "one ASCII character"),
        ({"kind": "ids", "separator": "-"}, "can be part of a number"),
        ({"kind": "ids", "separator": "5"}, "can be part of a number"),
    ],
)
def test_a_feature_that_cannot_be_is_refused_by_name_and_reason(options, says):
    with pytest.raises(BadInput, match=says) as error:
        FeatureType("age", **options)
    assert str(error.value).startswith("feature 'age': ")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["", "two words", "-x", 7, None, "a:b", "x" * 101])
def test_a_name_that_cannot_be_is_refused(name):
    with pytest.raises(BadInput, match="feature name"):
        FeatureType(name)
