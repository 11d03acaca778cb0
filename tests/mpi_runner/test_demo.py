"""The demonstration: its plant is what it says, and the whole way ends near the best possible."""

import json
from pathlib import Path

import numpy as np
import pytest

from mpi_runner.demo import Taste


def test_the_plant_holds_what_it_says() -> None:
    taste = Taste(num_groups=3, num_users=30, items_per_group=12, num_clicks=5, num_stray=1, num_held_out=2)
    clicks, held_out = taste.edges()
    assert (len(clicks), len(held_out)) == (30 * 6, 30 * 2)
    assert len({tuple(edge) for edge in [*clicks.tolist(), *held_out.tolist()]}) == 30 * 8
    users = np.searchsorted(taste.user_ids(), held_out[:, 0])
    items = np.searchsorted(taste.item_ids(), held_out[:, 1])
    np.testing.assert_array_equal(taste.group_of_users()[users], taste.group_of_items()[items])


def test_an_oracle_that_knows_the_groups_has_the_stated_recall() -> None:
    taste = Taste(num_users=4000)
    clicks, held_out = taste.edges()
    seen = {tuple(edge) for edge in clicks.tolist()}
    wanted = {tuple(edge) for edge in held_out.tolist()}
    hits = 0
    for user, group in zip(taste.user_ids().tolist(), taste.group_of_users()):
        group_items = taste.item_ids()[taste.group_of_items() == group].tolist()
        best = [item for item in group_items if (user, item) not in seen][:20]
        hits += sum((user, item) in wanted for item in best)
    assert hits / len(held_out) == pytest.approx(taste.best_recall, abs=0.01)


@pytest.mark.mpi
@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.long)])
def test_the_demonstration_ends_near_the_best_possible_however_often(gossamer, tmp_path: Path, times: int) -> None:
    for _ in range(times):
        done = gossamer("demo", "--dir", tmp_path / "demo", "--json")
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout)
        assert result["recall@20"] > 0.8 * result["best_recall@20"]
        assert all(Path(path).exists() for path in result["files"].values())


def test_a_folder_with_other_files_is_left_alone(gossamer, tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    done = gossamer("demo", "--dir", tmp_path)
    assert done.returncode == 1
    assert "holds files that no demonstration made" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]
