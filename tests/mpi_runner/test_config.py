"""The configuration: a mistake is named, a default filled in, and what is written reads back equal."""

import dataclasses
import tomllib
from copy import deepcopy
from pathlib import Path

import pytest

from models import ModelOptions
from mpi_runner import config
from mpi_runner.errors import ConfigError

ISSUE = """
[data]
store = "gowalla.store"
edge_type = "user:clicks:item"
test = "test.txt"
[model]
name = "lightgcn"
dim = 64
layers = 3
[train]
policy = "sync"
epochs = 5
batch_size = 2048
optimizer = "adam"
learning_rate = 1e-3
l2 = 1e-4
seed = 2020
[run]
dir = "runs/gowalla"
"""
EXAMPLES = Path(__file__).parents[2] / "examples"
VALUES = tomllib.loads(ISSUE)


def changed(section: str, key: str, value: object) -> dict:
    values = deepcopy(VALUES)
    values.setdefault(section, {})[key] = value
    return values


def message(values: dict) -> str:
    with pytest.raises(ConfigError) as caught:
        config.parse(values)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_configuration_of_the_issue_is_read_as_written(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(ISSUE)
    loaded = config.load(tmp_path / "c.toml")
    assert (loaded.train.epochs, loaded.train.batch_size, loaded.train.learning_rate) == (5, 2048, 1e-3)
    assert (loaded.model.name, loaded.model.dim, loaded.model.layers, loaded.train.seed) == (
        "lightgcn",
        64,
        3,
        2020,
    )


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.toml")), ids=lambda path: path.name)
def test_an_example_is_read(path: Path) -> None:
    values = tomllib.loads(path.read_text("utf-8"))
    if "model" in values:  # Others are schemas of stores.
        assert config.load(path).train.policy == "sync"


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.toml").write_text(ISSUE)
    monkeypatch.chdir(tmp_path)
    loaded = config.load("sub/c.toml")
    assert loaded.data.store == str(tmp_path / "sub/gowalla.store")
    assert loaded.data.test == str(tmp_path / "sub/test.txt")
    assert loaded.run.dir == str(tmp_path / "sub/runs/gowalla")


def test_an_edge_type_as_test_is_no_path(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(ISSUE.replace("test.txt", "user:buys:item"))
    assert config.load(tmp_path / "c.toml").data.test == "user:buys:item"


@pytest.mark.parametrize(
    ("section", "key", "value", "words"),
    [
        ("train", "epoch", 3, ["train.epoch", "train.epochs"]),
        ("train", "dim", 3, ["train.dim", "[model]"]),
        ("trian", "dim", 3, ["trian", "train"]),
        ("train", "epochs", "3", ["train.epochs", "int", "'3'"]),
        ("train", "epochs", 2.5, ["train.epochs", "int", "2.5"]),
        ("train", "epochs", True, ["train.epochs", "int", "True"]),
        ("train", "batch_size", 0, ["train.batch_size", ">= 1", "0"]),
        ("train", "learning_rate", 0.0, ["train.learning_rate", "> 0", "0.0"]),
        ("train", "learning_rate", float("nan"), ["train.learning_rate", "finite", "nan"]),
        ("train", "l2", float("inf"), ["train.l2", "finite", "inf"]),
        ("train", "seed", 2**63, ["train.seed"]),
        ("train", "optimizer", "adamm", ["train.optimizer", "'adam'", "'adamm'"]),
        ("train", "policy", "async", ["train.policy", "'sync'"]),
        ("model", "name", "lightgnc", ["model.name", "did you mean 'lightgcn'"]),
        ("model", "dim", -1, ["model.dim", ">= 1", "-1"]),
        ("data", "edge_type", "user:item", ["data.edge_type", "src:relation:dst", "'user:item'"]),
        ("data", "test", {"path": "x", "fromat": "csv"}, ["data.test.fromat", "data.test.format"]),
        ("data", "test", {"path": "x", "format": "xml"}, ["data.test.format", "'parquet'", "'xml'"]),
        ("run", "dir", "", ["run.dir", "''"]),
        ("run", "timeout", -1, ["run.timeout", "> 0", "-1"]),
    ],
)
def test_a_mistake_is_named_with_what_would_be_right(section: str, key: str, value: object, words: list[str]) -> None:
    text = message(changed(section, key, value))
    assert all(word in text for word in words), text


@pytest.mark.parametrize(("section", "key"), [("data", "store"), ("model", "name"), ("run", "dir")])
def test_a_missing_key_is_named(section: str, key: str) -> None:
    values = deepcopy(VALUES)
    del values[section][key]
    assert f"{section}.{key} is missing" in message(values)
    del values[section]
    assert f"[{section}] is missing" in message(values)


def test_a_section_that_is_a_value_is_named() -> None:
    assert "[run]" in message({**VALUES, "run": 3})


def test_a_missing_or_broken_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no configuration file at .*absent.toml"):
        config.load(tmp_path / "absent.toml")
    (tmp_path / "broken.toml").write_text("[data\n")
    with pytest.raises(ConfigError, match=r"broken.toml is not TOML: .*line 1"):
        config.load(tmp_path / "broken.toml")
    with pytest.raises(ConfigError, match="cannot read"):
        config.load(tmp_path)


def test_what_is_written_reads_back_equal(tmp_path: Path) -> None:
    values = changed(
        "data", "test", {"path": 'odd "name"\\\t\u00e9\x7f.csv', "src": "user id", "dst": 3, "header": True}
    )
    values["train"].update(loss="softmax", num_negatives=7, learning_rate=1e-30)
    (tmp_path / "a.toml").write_text(config.dump(config.parse(values)))
    first = config.load(tmp_path / "a.toml")
    (tmp_path / "b.toml").write_text(config.dump(first))
    assert config.load(tmp_path / "b.toml") == first
    assert first.data.test.path.endswith('odd "name"\\\t\u00e9\x7f.csv')  # type: ignore[union-attr]
    assert first.train.num_negatives == 7


def test_every_option_of_a_model_is_a_key_with_the_same_default() -> None:
    keys = {**config.to_dict(config.parse(VALUES))["model"], **config.to_dict(config.parse(VALUES))["train"]}
    defaults = config.to_dict(config.parse({**VALUES, "model": {"name": "bpr"}, "train": {}}))
    for field in dataclasses.fields(ModelOptions):
        assert field.name in keys
        assert {**defaults["model"], **defaults["train"]}[field.name] == field.default
