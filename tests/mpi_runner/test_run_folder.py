"""The run folder: whole from the first moment, and never overwritten."""

import json
from pathlib import Path

import pytest

from mpi_runner import config
from mpi_runner.config import Config
from mpi_runner.errors import RunDirError, RunFolderError
from mpi_runner.run_folder import RunFolder, write_whole

RANKS = [{"rank": 0, "host": "here", "pid": 1}, {"rank": 1, "host": "there", "pid": 2}]


@pytest.fixture
def settings(tmp_path: Path) -> Config:
    return config.parse(
        {
            "data": {"store": "s", "edge_type": "user:clicks:item"},
            "model": {"name": "bpr"},
            "train": {},
            "run": {"dir": str(tmp_path / "deep" / "run")},
        }
    )


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_new_folder_holds_configuration_ranks_and_no_metrics(settings: Config) -> None:
    folder = RunFolder.create(settings, RANKS)
    assert names(folder.path) == {"config.toml", "ranks.json", "metrics.jsonl", "lock"}
    assert names(folder.path.parent) == {"run"}
    assert json.loads((folder.path / "ranks.json").read_text()) == RANKS
    assert config.load(folder.path / "config.toml").model == settings.model
    assert folder.metrics() == []
    folder.release()


def test_a_line_an_epoch_reads_back(settings: Config) -> None:
    folder = RunFolder.create(settings, RANKS)
    folder.append_metrics({"epoch": 1, "loss": 0.5})
    folder.append_metrics({"epoch": 2, "loss": 0.25})
    assert folder.metrics() == [{"epoch": 1, "loss": 0.5}, {"epoch": 2, "loss": 0.25}]
    folder.release()


def test_a_run_with_an_epoch_is_moved_aside_and_said_so(settings: Config) -> None:
    told: list[str] = []
    for epoch in (1, 2, 3):
        folder = RunFolder.create(settings, RANKS, notice=told.append)
        folder.append_metrics({"epoch": epoch})
        folder.release()
    assert names(folder.path.parent) == {"run", "run.1", "run.2"}
    assert RunFolder(folder.path.parent / "run.1").metrics() == [{"epoch": 1}]
    assert RunFolder(folder.path.parent / "run.2").metrics() == [{"epoch": 2}]
    assert folder.metrics() == [{"epoch": 3}]
    assert told == [f"the run that was in {folder.path} is now in {folder.path}.{number}" for number in (1, 2)]


def test_a_run_that_ended_before_its_first_epoch_is_replaced(settings: Config) -> None:
    RunFolder.create(settings, RANKS).release()
    RunFolder.create(settings, RANKS[:1]).release()
    path = Path(settings.run.dir)
    assert names(path.parent) == {"run"}
    assert json.loads((path / "ranks.json").read_text()) == RANKS[:1]


def test_a_run_that_goes_on_is_refused_and_untouched(settings: Config) -> None:
    folder = RunFolder.create(settings, RANKS)
    with pytest.raises(RunFolderError, match=r"a run \(rank 0 has process id 1\) still writes to"):
        RunFolder.create(settings, RANKS)
    assert names(folder.path.parent) == {"run"}
    folder.append_metrics({"epoch": 1})
    folder.release()


def test_a_folder_that_is_no_run_is_refused_and_untouched(settings: Config) -> None:
    path = Path(settings.run.dir)
    path.mkdir(parents=True)
    (path / "thesis.tex").write_text("years of work")
    with pytest.raises(RunDirError, match="has files in it and is no run folder"):
        RunFolder.create(settings, RANKS)
    assert names(path.parent) == {"run"}
    assert names(path) == {"thesis.tex"}


def test_a_file_or_an_unwritable_place_is_refused_in_a_line(settings: Config) -> None:
    path = Path(settings.run.dir)
    path.parent.mkdir(parents=True)
    path.write_text("a file")
    with pytest.raises(RunDirError, match=r"run.dir .* is a file"):
        RunFolder.create(settings, RANKS)
    assert path.read_text() == "a file"
    below = config.parse({**config.to_dict(settings), "run": {"dir": f"{path}/below"}})
    with pytest.raises(RunDirError, match="cannot make the run folder"):
        RunFolder.create(below, RANKS)


def test_an_empty_folder_is_used(settings: Config) -> None:
    Path(settings.run.dir).mkdir(parents=True)
    RunFolder.create(settings, RANKS).release()
    assert "ranks.json" in names(Path(settings.run.dir))


def test_opening_what_is_no_finished_run_says_so(settings: Config, tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no run at"):
        RunFolder.open(tmp_path / "absent")
    RunFolder.create(settings, RANKS).release()
    with pytest.raises(RunFolderError, match="has no checkpoint"):
        RunFolder.open(settings.run.dir)


def test_writing_a_file_whole_leaves_nothing_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", "one")
    write_whole(tmp_path / "a", "two")
    assert names(tmp_path) == {"a"}
    assert (tmp_path / "a").read_text() == "two"
