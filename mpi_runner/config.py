"""The configuration of a run: the keys of the TOML file, checked once."""

import difflib
import math
import tomllib
import typing
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mpi_runner.errors import ConfigError

Positive = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]
PositiveFloat = Annotated[float, Meta(gt=0)]
NotNegativeFloat = Annotated[float, Meta(ge=0)]
Optimizer = Literal["sgd", "adagrad", "row_adagrad", "adam"]


class HeldOut(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[data.test]`: held-out edges in a file whose layout is stated rather than detected."""

    path: str
    format: Literal["parquet", "csv", "tsv", "adjacency"] | None = None
    src: str | int | None = None
    dst: str | int | None = None
    header: bool | None = None
    delimiter: str | None = None


class DataConfig(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """`[data]`: what is trained on and tested with. Paths are relative to the configuration file."""

    store: Annotated[str, Meta(min_length=1)]
    edge_type: Annotated[str, Meta(pattern=r"^[^:\s]+:[^:\s]+:[^:\s]+$")]
    test: str | HeldOut | None = None


class ModelConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[model]`: the model and its shape. `layers` counts for LightGCN only."""

    name: Literal["bpr", "lightgcn"]
    dim: Annotated[int, Meta(ge=1, le=4096)] = 64
    layers: Annotated[int, Meta(ge=0, le=8)] = 3
    init_scale: PositiveFloat = 0.1


class TrainConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[train]`: the optimisation; docs/training.md says what each key means.

    `batch_size` counts the samples of one step over all ranks. `evaluate_every` is the number of epochs
    between evaluations on the held-out edges: 0 evaluates after the last epoch only. `k` is the length of the
    ranking.
    """

    policy: Literal["sync"] = "sync"
    epochs: NotNegative = 1
    batch_size: Positive = 2048
    optimizer: Optimizer = "adam"
    learning_rate: PositiveFloat = 1e-3
    l2: NotNegativeFloat = 1e-4
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    loss: Literal["bpr", "softmax"] = "bpr"
    num_negatives: Annotated[int, Meta(ge=1, le=65536)] | None = None
    negatives: Literal["uniform", "popular"] = "uniform"
    temperature: PositiveFloat = 0.1
    similarity: Literal["dot", "cosine"] = "dot"
    l2_per: Literal["sample", "row"] = "sample"
    evaluate_every: NotNegative = 1
    k: Annotated[int, Meta(ge=1, le=10_000)] = 20


class RunConfig(Struct, frozen=True, forbid_unknown_fields=True):
    """`[run]`: where the results go, and how long a rank waits.

    `checkpoint_every` is the number of epochs between checkpoints: 0 saves after the last epoch only.
    `timeout` is the seconds that a rank waits for another one before the run ends with an error.
    """

    dir: Annotated[str, Meta(min_length=1)]
    checkpoint_every: NotNegative = 0
    timeout: PositiveFloat = 300.0


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """A whole configuration, checked. `load` reads it from TOML; all paths are then absolute."""

    data: DataConfig
    model: ModelConfig
    train: TrainConfig
    run: RunConfig


SECTIONS: dict[str, type[Struct]] = {
    "data": DataConfig,
    "model": ModelConfig,
    "train": TrainConfig,
    "run": RunConfig,
}


def load(path: str | Path) -> Config:
    """Read a configuration file.

    Parameters
    ----------
    path : str or Path
        A TOML file. Relative paths in it are relative to its folder.

    Returns
    -------
    Config
        Checked, every default filled in, every path absolute.

    Raises
    ------
    ConfigError
        If the file is missing, is no TOML, has an unknown key (the nearest known key is offered), lacks a
        needed key, or has a value of a wrong type or out of range. The message names the file and the key.
    """
    path = Path(path)
    try:
        values = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise ConfigError(f"no configuration file at {path}") from None
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    try:
        return _absolute(parse(values), path.absolute().parent)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(values: dict[str, Any]) -> Config:
    """Check the values of a configuration.

    Parameters
    ----------
    values : dict
        As `tomllib` gives them: a dict a section.

    Raises
    ------
    ConfigError
        As `load`.
    """
    _check_names(values, SECTIONS, "section")
    for section, struct in SECTIONS.items():
        if section not in values:
            continue
        if not isinstance(values[section], dict):
            raise ConfigError(f"[{section}] must be a section, got {section} = {values[section]!r}")
        known = struct.__struct_fields__
        _check_names(values[section], known, "key", section)
        for key, value in values[section].items():
            if isinstance(value, float) and not math.isfinite(value):
                raise ConfigError(f"{section}.{key} must be a finite number, got {value}")
    test = values.get("data", {}).get("test")
    if isinstance(test, dict):
        _check_names(test, HeldOut.__struct_fields__, "key", "data.test")
    try:
        return msgspec.convert(values, Config)
    except msgspec.ValidationError as error:
        raise ConfigError(_explain(str(error), values)) from None


def dump(config: Config) -> str:
    """Return `config` as TOML text that `load` reads back to an equal value."""
    lines: list[str] = []
    for section, values in to_dict(config).items():
        lines.append(f"[{section}]")
        lines += [f"{key} = {_toml(value)}" for key, value in values.items() if value is not None]
        lines.append("")
    return "\n".join(lines)


def to_dict(config: Config) -> dict[str, dict[str, Any]]:
    """Return every key of `config` in plain dicts, a dict a section."""
    return msgspec.to_builtins(config)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items() if item is not None) + " }"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # JSON's escapes are TOML's, but for DEL, which TOML wants escaped.
        return msgspec.json.encode(value).decode().replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)


def _absolute(config: Config, folder: Path) -> Config:
    def resolve(text: str) -> str:
        return str((folder / Path(text).expanduser()).resolve())

    data, test = config.data, config.data.test
    if isinstance(test, HeldOut):
        test = msgspec.structs.replace(test, path=resolve(test.path))
    elif test is not None and not is_edge_type(test):
        test = resolve(test)
    data = msgspec.structs.replace(data, store=resolve(data.store), test=test)
    run = msgspec.structs.replace(config.run, dir=resolve(config.run.dir))
    return msgspec.structs.replace(config, data=data, run=run)


def is_edge_type(text: str) -> bool:
    """Say whether `text` is written as an edge type, `src:relation:dst`, rather than as a path."""
    parts = text.split(":")
    return len(parts) == 3 and all(parts) and "/" not in text


def _check_names(values: dict[str, Any], known: Any, kind: str, section: str | None = None) -> None:
    for name in values:
        if name in known:
            continue
        near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
        where = f"{section}.{name}" if section else name
        elsewhere = [other for other, struct in SECTIONS.items() if name in struct.__struct_fields__]
        if near:
            hint = f"; did you mean {section + '.' if section else ''}{near[0]}?"
        elif elsewhere:
            hint = f"; {name} belongs to [{elsewhere[0]}]"
        else:
            hint = f"; known: {', '.join(sorted(known))}"
        raise ConfigError(f"unknown {kind} {where}{hint}")


def _explain(message: str, values: dict[str, Any]) -> str:
    """Turn msgspec's `Expected … - at `$.train.epochs`` into a message that starts with the key."""
    problem, _, place = message.partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    problem = problem.replace("`", "")
    if problem.startswith("Object missing required field "):
        missing = problem.removeprefix("Object missing required field ")
        return f"{key + '.' if key else ''}{missing} is missing" if key else f"[{missing}] is missing"
    found: Any = values
    for part in key.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    if problem.startswith("Invalid enum value"):
        choices = _choices(*key.rsplit(".", 1))
        near = difflib.get_close_matches(str(found), choices, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"{key} must be one of {', '.join(map(repr, choices))}, got {found!r}{hint}"
    if "matching regex" in problem:
        return f"{key} must be written src:relation:dst, got {found!r}"
    problem = problem.partition(", got ")[0]
    return f"{key}: {problem[0].lower() + problem[1:]}, got {found!r:.60}"


def _choices(section: str, name: str) -> list[str]:
    struct = HeldOut if section == "data.test" else SECTIONS[section]
    annotation = typing.get_type_hints(struct)[name]
    literals = [part for part in (annotation, *typing.get_args(annotation)) if typing.get_origin(part) is Literal]
    return sorted(str(value) for literal in literals for value in typing.get_args(literal))
