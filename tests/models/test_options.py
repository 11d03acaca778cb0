"""Options are checked where they are made, and a refusal names the option."""

import pytest

from models import ModelOptions


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"dim": 0}, "dim must be in 1 … 4096, got 0"),
        ({"layers": 9}, "layers must be in 0 … 8, got 9"),
        ({"loss": "hinge"}, "loss must be one of bpr, softmax, got 'hinge'"),
        ({"loss": "softmax", "similarity": "l2"}, "similarity must be one of"),
        ({"similarity": "cosine"}, 'similarity must be "dot"'),
        ({"loss": "softmax", "negatives": "hard"}, "negatives must be one of uniform, popular, got 'hard'"),
        ({"negatives": "popular"}, 'negatives must be "uniform"'),
        ({"num_negatives": 0}, "num_negatives must be in 1"),
        ({"temperature": 0.0}, "temperature must be finite and above 0, got 0.0"),
        ({"learning_rate": float("nan")}, "learning_rate must be finite"),
        ({"l2": -1e-4}, "l2 must be finite and at least 0"),
        ({"seed": -1}, "seed must be in 0"),
        ({"batch_size": 0}, "batch_size must be in 1"),
    ],
)
def test_an_impossible_value_is_named(keys: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ModelOptions(**keys)  # type: ignore[arg-type]


@pytest.mark.parametrize("keys", [{"dim": 1.5}, {"layers": True}, {"learning_rate": "fast"}])
def test_a_wrong_kind_is_named(keys: dict[str, object]) -> None:
    with pytest.raises(TypeError, match=next(iter(keys))):
        ModelOptions(**keys)  # type: ignore[arg-type]


def test_the_number_of_negatives_follows_the_loss() -> None:
    assert ModelOptions().negatives_drawn == 1
    assert ModelOptions(loss="softmax").negatives_drawn == 1024
    assert ModelOptions(loss="softmax", num_negatives=7).negatives_drawn == 7


def test_whole_numbers_are_taken_for_floats() -> None:
    assert ModelOptions(learning_rate=1, l2=0).learning_rate == 1.0
