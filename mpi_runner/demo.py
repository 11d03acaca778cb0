"""The demonstration: the whole way on generated clicks whose best possible recall is known."""

import json
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_runner import launch
from mpi_runner.errors import RunError

MARKER = ".gossamer-demo"
K = 20

CONFIG = f"""\
[data]
store = "taste.store"
edge_type = "user:clicks:item"
test = "held_out.csv"

[model]
name = "lightgcn"
dim = 32
layers = 2

[train]
policy = "sync"
epochs = 8
batch_size = 1024
optimizer = "adam"
learning_rate = 1e-2
l2 = 1e-4
seed = 7
k = {K}

[run]
dir = "run"
"""


@dataclass(frozen=True)
class Taste:
    """Clicks with planted taste groups.

    A user belongs to one group and clicks `num_clicks` of its items, drawn uniformly without replacement, and
    `num_stray` items of other groups. Of the group's items, `num_held_out` more are held out.

    Parameters
    ----------
    num_groups, num_users, items_per_group, num_clicks, num_stray, num_held_out : int
    seed : int
        Of the draws.
    """

    num_groups: int = 20
    num_users: int = 2000
    items_per_group: int = 50
    num_clicks: int = 20
    num_stray: int = 2
    num_held_out: int = 8
    seed: int = 11

    @property
    def num_items(self) -> int:
        """Items of all groups."""
        return self.num_groups * self.items_per_group

    @property
    def best_recall(self) -> float:
        """The recall@20 that nothing can beat on average.

        Who knows the groups knows nothing of a user beyond them: the held-out items are a uniform draw from
        the group's items that the user has not clicked. So the best list is any 20 of those, and holds each
        with probability 20 / (items_per_group - num_clicks).
        """
        return min(1.0, K / (self.items_per_group - self.num_clicks))

    def group_of_users(self) -> npt.NDArray[np.int64]:
        """Return each user's group, int64[num_users]."""
        return np.arange(self.num_users) % self.num_groups

    def group_of_items(self) -> npt.NDArray[np.int64]:
        """Return each item's group, int64[num_items]."""
        return np.arange(self.num_items) % self.num_groups

    def user_ids(self) -> npt.NDArray[np.int64]:
        """Return the original ids of users, int64[num_users], with gaps."""
        return 1001 + 7 * np.arange(self.num_users)

    def item_ids(self) -> npt.NDArray[np.int64]:
        """Return the original ids of items, int64[num_items], beyond what a float64 holds exactly."""
        return (1 << 53) + 1 + 12 * np.arange(self.num_items)

    def edges(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return clicks and held-out edges as original ids: int64[n, 2] and int64[m, 2]."""
        draws = np.random.default_rng(self.seed)
        group_of_items = self.group_of_items()
        clicks, held_out = [], []
        for user, group in enumerate(self.group_of_users()):
            liked = draws.permutation(np.flatnonzero(group_of_items == group))
            stray = draws.choice(np.flatnonzero(group_of_items != group), self.num_stray, replace=False)
            clicks += [(user, item) for item in (*liked[: self.num_clicks], *stray)]
            held_out += [(user, item) for item in liked[self.num_clicks : self.num_clicks + self.num_held_out]]
        return self._ids(draws.permutation(clicks)), self._ids(np.array(held_out))

    def _ids(self, edges: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        return np.stack([self.user_ids()[edges[:, 0]], self.item_ids()[edges[:, 1]]], axis=1)


def run(folder: str | Path, *, as_json: bool = False) -> int:
    """Make, ingest, train, evaluate, query and recommend in `folder`; return the exit status.

    Raises
    ------
    RunError
        If `folder` holds files that no demonstration made, or a step fails.
    """
    started = time.perf_counter()
    place = _clear(Path(folder))
    taste = Taste()
    show = _Shower(quiet=as_json)
    _write(taste, place, show)
    num_ranks = _ranks(show)
    store, run_folder = place / "taste.store", place / "run"
    edges = ["--edges", str(place / "clicks.csv"), "--edge-type", "user:clicks:item"]
    show.command("Ingest the clicks into a store", ["ingest", *edges, "--reverse", str(store)])
    show.command(f"Train on {num_ranks} ranks", ["train", str(place / "train.toml"), "-n", str(num_ranks)])
    scores = json.loads(show.command("Rank all items for every user", ["evaluate", str(run_folder), "--json"]))
    recall, best = scores[f"recall@{K}"], taste.best_recall
    show.line(f"recall@{K} {recall:.3f}; who knows the groups gets {best:.3f} on average")
    user = str(taste.user_ids()[0])
    type_and_ids = ["--edge-type", "user:clicks:item", "--ids", user]
    show.command(f"What user {user} clicked", ["query", "neighbors", str(store), *type_and_ids])
    answer = show.command(
        f"What user {user} may like", ["recommend", str(run_folder), "--ids", user, "-k", "10", "--json"]
    )
    liked = _share_of_group(taste, json.loads(answer)["results"][0]["items"])
    show.line(f"{liked:.0%} of them are of the user's own taste group")
    result = {
        f"recall@{K}": recall,
        f"best_recall@{K}": best,
        "ranks": num_ranks,
        "seconds": time.perf_counter() - started,
        "files": {"store": str(store), "run": str(run_folder), "config": str(place / "train.toml")},
    }
    _end(result, show, as_json)
    return 0 if recall >= 0.8 * best else 1


class _Shower:
    """Prints what happens, and runs the commands."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._step = 0

    def line(self, text: str) -> None:
        if not self._quiet:
            sys.stdout.write(f"   {text}\n")
            sys.stdout.flush()

    def title(self, text: str) -> None:
        self._step += 1
        if not self._quiet:
            sys.stdout.write(f"\n{self._step}. {text}\n")
            sys.stdout.flush()

    def command(self, title: str, arguments: list[str]) -> str:
        """Run `gossamer ARGUMENTS` in a process of its own, show what it prints and return it."""
        self.title(title)
        self.line(f"$ gossamer {shlex.join(arguments)}")
        started = time.perf_counter()
        done = subprocess.run(
            [sys.executable, "-P", "-m", "mpi_runner", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE if self._quiet else None,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if done.returncode:
            raise RunError(f"gossamer {arguments[0]} ended with status {done.returncode} {done.stderr or ''}")
        for line in done.stdout.splitlines():
            self.line(line if len(line) <= 110 else line[:107] + "...")
        self.line(f"({time.perf_counter() - started:.1f} s)")
        return done.stdout


def _clear(place: Path) -> Path:
    if place.exists() and not place.is_dir():
        raise RunError(f"{place} is a file; give the demonstration a folder with --dir")
    if place.is_dir() and any(place.iterdir()):
        if not (place / MARKER).is_file():
            raise RunError(f"{place} holds files that no demonstration made; give it another folder with --dir")
        shutil.rmtree(place)
    place.mkdir(parents=True, exist_ok=True)
    (place / MARKER).touch()
    return place


def _write(taste: Taste, place: Path, show: _Shower) -> None:
    show.title("Make clicks with planted taste groups")
    clicks, held_out = taste.edges()
    for name, edges in (("clicks.csv", clicks), ("held_out.csv", held_out)):
        rows = "".join(f"{user},{item}\n" for user, item in edges.tolist())
        (place / name).write_text("user,item\n" + rows)
    (place / "train.toml").write_text(CONFIG)
    show.line(
        f"{taste.num_users:,} users in {taste.num_groups} groups, {taste.num_items:,} items, "
        f"{len(clicks):,} clicks, {len(held_out):,} held out"
    )


def _ranks(show: _Shower) -> int:
    try:
        launch.find_mpiexec()
    except RunError as error:
        show.line(f"one rank only: {error}")
        return 1
    return 2


def _share_of_group(taste: Taste, items: list[int]) -> float:
    groups = taste.group_of_items()[np.searchsorted(taste.item_ids(), items)]
    return float((groups == taste.group_of_users()[0]).mean())


def _end(result: dict[str, Any], show: _Shower, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(result) + "\n")
        return
    show.title("Where everything is")
    for name, path in result["files"].items():
        show.line(f"{name:<8}{path}")
    show.line(f"done in {result['seconds']:.1f} s")
