"""Checkpoints of an ingest: what is durable of it, so that it can go on after a kill.

A state is a JSON file of what `IngestRun` and `StoreOutput` have in their spools, written after the spools are durable,
and named by the phase that was reached. Every rank has its own; rank 0 then writes down in `STATE` that all have it.
"""

import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from graph_store.job_state import decode, encode
from graph_store.manifest import fsync_folder
from graph_store.ranks import Ranks, gather_json
from graph_store.spool import Piece, Spool
from graph_store.workplace import STATE, WORK

# Phases in their order. A state of `READING` or `MAPPED` is written again as more sources are read, or lists are made.
READING, READ, MAPPED, WRITTEN = range(4)
SECONDS_BETWEEN = 60.0


class Checkpoints:
    """The states of one rank.

    Parameters
    ----------
    folder : Path
        Of the ingest.
    state : dict
        What `STATE` says: `identity` of the store, `phase`, and the `report` in the last one.

    Attributes
    ----------
    phase : int
    has_state : bool
        False as long as nothing but the beginning is durable.
    """

    def __init__(self, folder: Path, ranks: Ranks, state: Mapping[str, Any]) -> None:
        self._folder, self._ranks, self._state = folder, ranks, dict(state)
        self._last = time.monotonic()
        self._waiting: list[Path] = []
        self.phase: int = self._state["phase"]
        self.saved: dict[str, Any] = {}
        path = self._path(self.phase)
        self.has_state = path.exists()
        if self.has_state:
            self.saved = json.loads(path.read_bytes())

    @property
    def identity(self) -> str:
        """The uuid of the store."""
        return str(self._state["identity"])

    def value(self, name: str) -> Any:
        """Return a value of the state to go on from, None where it has none."""
        return decode(self.saved["values"][name]) if self.saved and name in self.saved["values"] else None

    def end_of(self, spool: str) -> int:
        """Return the bytes of a spool that are to be read again."""
        return int(self.saved["ends"].get(spool, 0)) if self.saved else 0

    def _path(self, phase: int) -> Path:
        return self._folder / WORK / f"state-{phase}-{self._ranks.rank}.json"

    @property
    def due(self) -> bool:
        """True when the last state is old."""
        return time.monotonic() - self._last >= SECONDS_BETWEEN

    @property
    def due_together(self) -> bool:
        """True when a phase that ended should be saved; several ranks always do, as they go on from the same phase."""
        return self._ranks.size > 1 or self.due

    def save(
        self, phase: int, values: Mapping[str, tuple[Any, Spool | None]], *, spools: Mapping[str, Spool], alone: bool
    ) -> None:
        """Make a state durable; collective unless `alone`, which is for more of the phase that all are in.

        Parameters
        ----------
        values : mapping
            By name a value and the spool that its pieces are in.
        spools : mapping
            All that the state needs, by name.
        """
        encoded = {name: encode(value, _place(spool)) for name, (value, spool) in values.items()}
        ends = {name: spool.sync() for name, spool in spools.items()}
        _write(self._path(phase), {"values": encoded, "ends": ends})
        if not alone:
            gather_json(self._ranks, None)
            if self._ranks.rank == 0:
                self._state["phase"] = phase
                _write(self._folder / STATE, self._state)
            gather_json(self._ranks, None)
            for other in range(phase):
                self._path(other).unlink(missing_ok=True)
        self.phase, self.has_state = phase, True
        for path in self._waiting:
            path.unlink(missing_ok=True)
        self._waiting = []
        self._last = time.monotonic()

    def let_go(self, spool: Spool) -> None:
        """Forget a spool; its file goes once no state needs it."""
        if self.has_state:
            spool.clear()
            self._waiting.append(spool.path)
        else:
            spool.close()

    def finish(self, report: Mapping[str, Any]) -> None:
        """Say that the store is whole and only has to be moved; by rank 0."""
        self._state |= {"phase": WRITTEN, "report": report}
        _write(self._folder / STATE, self._state)

    @property
    def report(self) -> dict[str, Any]:
        """What `finish` was given."""
        return dict(self._state["report"])


def _place(spool: Spool | None) -> Callable[[Piece], Piece]:
    """Return what says where pieces are in the file of a spool."""
    return _nowhere if spool is None else spool.on_disk


def _nowhere(piece: Piece) -> Piece:
    raise AssertionError(piece)


def _write(path: Path, value: Any) -> None:
    """Write JSON beside its place, fsync, rename."""
    beside = path.with_name(path.name + ".partial")
    with open(beside, "w", encoding="utf-8") as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    fsync_folder(path.parent)


def begin(folder: Path, identity: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Write the state of an ingest that has done nothing yet, and return it."""
    state = {"identity": identity, "phase": READING, "settings": dict(settings)}
    _write(folder / STATE, state)
    return state
