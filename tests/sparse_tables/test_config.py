"""The value class of a table."""

import pytest

from sparse_tables import TableConfig


def test_defaults_of_eps_follow_the_optimizer():
    assert TableConfig("t", 4, optimizer="adagrad").eps == 1e-10
    assert TableConfig("t", 4, optimizer="row_adagrad").eps == 1e-8
    assert TableConfig("t", 4, optimizer="adam").eps == 1e-8
    assert TableConfig("t", 4, optimizer="adam", eps=1e-3).eps == 1e-3


def test_the_dict_of_a_config_gives_it_back():
    config = TableConfig("user", 8, optimizer="adam", betas=(0.8, 0.99), seed=-5, placement="mix", l2=1e-4)
    assert TableConfig.from_dict(config.to_dict()) == config


@pytest.mark.parametrize(("optimizer", "width"), [("sgd", 0), ("adagrad", 6), ("row_adagrad", 1), ("adam", 12)])
def test_state_width_is_that_of_the_optimizer(optimizer, width):
    assert TableConfig("t", 6, optimizer=optimizer).state_width == width


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"dim": 0}, "dim"),
        ({"dim": 1 << 17}, "dim"),
        ({"optimizer": "lamb"}, "optimizer"),
        ({"placement": "random"}, "placement"),
        ({"initial": "ones"}, "initial"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"l2": -1.0}, "l2"),
        ({"scale": -0.1}, "scale"),
        ({"num_shards": 0}, "num_shards"),
        ({"betas": (0.9, 1.0)}, "betas"),
        ({"name": "a/b"}, "name"),
        ({"name": ""}, "name"),
        ({"name": ".hidden"}, "name"),
        ({"seed": 1 << 65}, "seed"),
    ],
)
def test_an_impossible_value_is_named(fields, word):
    with pytest.raises(ValueError, match=word):
        TableConfig(**{"name": "t", "dim": 4, **fields})


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ({"dim": 4.0}, "dim"),
        ({"dim": True}, "dim"),
        ({"learning_rate": "fast"}, "learning_rate"),
        ({"betas": 0.9}, "betas"),
        ({"name": 3}, "name"),
        ({"momentum": 0.9}, "momentum"),
    ],
)
def test_a_wrong_kind_is_named(fields, word):
    with pytest.raises(TypeError, match=word):
        TableConfig(**{"name": "t", "dim": 4, **fields})


def test_a_constant_may_be_negative():
    assert TableConfig("t", 4, initial="constant", scale=-0.5).scale == -0.5
