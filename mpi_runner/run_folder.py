"""The folder of a run: who runs, what was asked, a line an epoch, and the checkpoint."""

import fcntl
import itertools
import json
import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from mpi_runner import config as configuration
from mpi_runner.config import Config
from mpi_runner.errors import ConfigError, RunDirError, RunFolderError

CONFIG, RANKS, METRICS, CHECKPOINT, LOCK = "config.toml", "ranks.json", "metrics.jsonl", "checkpoint", "lock"


class RunFolder:
    """One run's folder: `config.toml`, `ranks.json`, `metrics.jsonl`, `checkpoint/` and a lock while it runs.

    Parameters
    ----------
    path : str or Path
        Made by `create`, read by `open`.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.checkpoint = self.path / CHECKPOINT
        self._lock: Any = None

    @classmethod
    def create(
        cls,
        config: Config,
        ranks: Sequence[dict[str, Any]],
        *,
        notice: Callable[[str], None] = lambda text: None,
    ) -> "RunFolder":
        """Make the folder `config.run.dir`, whole from the first moment, and hold its lock.

        A run that is already there and has something to lose (an epoch's metrics or a checkpoint) is moved
        aside to the first free name of `DIR.1`, `DIR.2`, …, never overwritten; one that ended before its
        first epoch is replaced.

        Parameters
        ----------
        config : Config
            Written as `config.toml`, with absolute paths and every default.
        ranks : sequence of dict
            What `ranks.json` holds: rank, host and pid of each rank.
        notice : callable
            Told in a line what was moved where.

        Raises
        ------
        RunDirError
            If the path is a file, below a file, or a folder that is no run.
        RunFolderError
            If it is the folder of a run that still goes on, or cannot be written.
        """
        path = Path(config.run.dir)
        beside = path.with_name(f".{path.name}.{os.getpid()}")
        folder = cls(beside)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            shutil.rmtree(beside, ignore_errors=True)
            beside.mkdir()
            folder._hold_lock()
            write_whole(beside / CONFIG, configuration.dump(config))
            write_whole(beside / RANKS, json.dumps(list(ranks), indent=1) + "\n")
            write_whole(beside / METRICS, "")
            _make_room(path, notice)
            beside.rename(path)
        except RunFolderError:
            folder.release()
            raise
        except OSError as error:
            folder.release()
            kind = RunDirError if isinstance(error, NotADirectoryError | FileExistsError) else RunFolderError
            raise kind(f"cannot make the run folder {path}: {error.strerror or error}") from None
        finally:
            shutil.rmtree(beside, ignore_errors=True)
        folder.path, folder.checkpoint = path, path / CHECKPOINT
        return folder

    @classmethod
    def open(cls, path: str | Path) -> tuple["RunFolder", Config]:
        """Return the folder of a run that has a checkpoint, and its configuration.

        Raises
        ------
        RunFolderError
            If there is no run at `path`, or it has no checkpoint yet.
        """
        folder = cls(path)
        if not (folder.path / CONFIG).is_file():
            raise RunFolderError(f"no run at {path}: expected a folder with {CONFIG} in it, as gossamer train makes")
        if not folder.checkpoint.is_dir():
            raise RunFolderError(f"the run at {path} has no checkpoint: it has not come to one yet, or it failed")
        try:
            return folder, configuration.load(folder.path / CONFIG)
        except ConfigError as error:
            raise RunFolderError(str(error)) from None

    def append_metrics(self, line: dict[str, Any]) -> None:
        """Add one line of JSON to `metrics.jsonl` in a single write, and sync it to disk."""
        with (self.path / METRICS).open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def metrics(self) -> list[dict[str, Any]]:
        """Return the lines of `metrics.jsonl`, oldest first."""
        return [json.loads(line) for line in (self.path / METRICS).read_text("utf-8").splitlines()]

    def release(self) -> None:
        """Give the lock up; the end of the process does so too."""
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _hold_lock(self) -> None:
        self._lock = (self.path / LOCK).open("wb")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def write_whole(path: Path, text: str) -> None:
    """Write a text file so that a reader finds the old content or the new, never a part."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with beside.open("wb") as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _make_room(path: Path, notice: Callable[[str], None]) -> None:
    if not path.exists() and not path.is_symlink():
        return
    if not path.is_dir():
        raise RunDirError(f"run.dir {path} is a file; give the run another folder")
    if not any(path.iterdir()):
        path.rmdir()
        return
    if not (path / RANKS).is_file():
        raise RunDirError(f"run.dir {path} has files in it and is no run folder; give the run another folder")
    if _in_use(path):
        pid = json.loads((path / RANKS).read_text("utf-8"))[0]["pid"]
        raise RunFolderError(f"a run (rank 0 has process id {pid}) still writes to {path}; end it or change run.dir")
    if not (path / CHECKPOINT).exists() and not (path / METRICS).stat().st_size:
        shutil.rmtree(path)
        return
    aside = next(
        candidate
        for number in itertools.count(1)
        if not (candidate := path.with_name(f"{path.name}.{number}")).exists()
    )
    path.rename(aside)
    notice(f"the run that was in {path} is now in {aside}")


def _in_use(path: Path) -> bool:
    with (path / LOCK).open("ab") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
