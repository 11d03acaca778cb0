"""A finished run: its scores and its recommendations come from the checkpoint, in original ids."""

import json
import shutil
from pathlib import Path

import pytest

import graph_store
from mpi_runner.run_folder import RunFolder
from tests.mpi_runner.planted import EDGE_TYPE, SMALL, make_store, write_config

METRICS = ("recall@20", "ndcg@20", "hit_rate@20", "mrr@20")


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("planted")
    make_store(folder)
    return folder


@pytest.fixture(scope="module")
def run(gossamer, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    path = write_config(folder / "c.toml", folder / "run", data, model__name="lightgcn", train__epochs=5)
    done = gossamer("train", path)
    assert done.returncode == 0, done.stderr
    return folder / "run"


def ask(gossamer, *arguments: object) -> dict:
    done = gossamer(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def fail(gossamer, status: int, *arguments: object) -> str:
    done = gossamer(*arguments)
    assert done.returncode == status, done.stderr
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_the_checkpoint_scores_what_the_training_scored(gossamer, run: Path) -> None:
    scores = ask(gossamer, "evaluate", run)
    last = RunFolder(run).metrics()[-1]
    assert scores["users"] == SMALL.num_users
    for metric in METRICS:
        assert scores[metric] == pytest.approx(last[metric], abs=1e-9)
    # The plant's own bound is 20 of the 22 unseen items of a group; drawn luck is within a few hundredths.
    assert 0.7 < scores["recall@20"] < 20 / 22 + 0.05


def test_several_lengths_are_scored_at_once(gossamer, run: Path) -> None:
    scores = ask(gossamer, "evaluate", run, "-k", 5, "-k", 20)
    assert 0 < scores["recall@5"] < scores["recall@20"]
    assert "recall@20" in gossamer("evaluate", run).stdout


def test_recommendations_leave_out_what_was_seen_unless_asked(gossamer, run: Path, data: Path) -> None:
    users = [int(id) for id in SMALL.user_ids()[[3, 0]]]
    with graph_store.open(data / "taste.store") as store:
        found = store.neighbors(users, EDGE_TYPE)
        seen = [set(found.ids[start:stop].tolist()) for start, stop in zip(found.indptr, found.indptr[1:])]
    asked = ["recommend", run, "--ids", ",".join(map(str, users))]
    for extra, share in ([], False), (["--include-seen"], True):
        results = ask(gossamer, *asked, "-k", 10, *extra)["results"]
        assert [result["id"] for result in results] == users
        for result, items in zip(results, seen, strict=True):
            assert len(result["items"]) == len(set(result["items"])) == 10
            assert set(result["items"]) <= set(SMALL.item_ids().tolist())
            assert result["scores"] == sorted(result["scores"], reverse=True)
            assert bool(items & set(result["items"])) is share
    assert f"{users[0]}:" in gossamer(*asked).stdout.splitlines()


def test_asking_for_more_items_than_there_are_gives_all_unseen(gossamer, run: Path) -> None:
    user = int(SMALL.user_ids()[0])
    result = ask(gossamer, "recommend", run, "--ids", user, "-k", 1000)["results"][0]
    assert len(result["items"]) == SMALL.num_items - SMALL.num_clicks - SMALL.num_stray


def test_an_unknown_or_impossible_id_is_named(gossamer, run: Path) -> None:
    assert "1002" in fail(gossamer, 1, "recommend", run, "--ids", "1001,1002")
    assert "'abc' is no integer" in fail(gossamer, 2, "recommend", run, "--ids", "1001,abc")
    assert str(1 << 64) in fail(gossamer, 1, "recommend", run, "--ids", str(1 << 64))


def test_a_folder_without_a_run_is_named(gossamer, tmp_path: Path) -> None:
    assert f"no run at {tmp_path}" in fail(gossamer, 1, "evaluate", tmp_path)
    assert f"no run at {tmp_path}" in fail(gossamer, 1, "recommend", tmp_path, "--ids", "1")


def test_a_damaged_checkpoint_is_refused_by_name(gossamer, run: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    shard = max((copy / "checkpoint").glob("epoch-*/item/shard-*.arrow"), key=lambda path: path.stat().st_size)
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)
    assert str(shard) in fail(gossamer, 1, "evaluate", copy)
    (copy / "checkpoint" / "current.json").write_text("{")
    assert "current.json" in fail(gossamer, 1, "evaluate", copy)
    for damaged in ('{"format":1}', '{"format":1,"folder":"../..","tables":["item"]}'):
        (copy / "checkpoint" / "current.json").write_text(damaged)
        assert "is damaged: it names no folder or no tables" in fail(gossamer, 1, "evaluate", copy)
    (copy / "checkpoint" / "current.json").unlink()
    assert "has no checkpoint" in fail(gossamer, 1, "evaluate", copy)


def test_another_store_is_refused_with_both_named(gossamer, run: Path, data: Path, tmp_path: Path) -> None:
    shutil.copytree(data, tmp_path / "data", ignore=shutil.ignore_patterns("taste.store"))
    make_store(tmp_path / "data")
    copy = tmp_path / "copy"
    shutil.copytree(run, copy)
    text = (copy / "config.toml").read_text()
    (copy / "config.toml").write_text(text.replace(str(data / "taste.store"), str(tmp_path / "data/taste.store")))
    message = fail(gossamer, 1, "evaluate", copy)
    for store in (data / "taste.store", tmp_path / "data" / "taste.store"):
        assert graph_store.info(store)["uuid"] in message


def test_string_ids_come_back_unchanged(gossamer, tmp_path: Path) -> None:
    make_store(tmp_path, id_type="string", prefix="é-0")
    path = write_config(tmp_path / "c.toml", tmp_path / "run", tmp_path, train__epochs=2)
    assert gossamer("train", path).returncode == 0
    user = f"é-0{SMALL.user_ids()[0]}"
    result = ask(gossamer, "recommend", tmp_path / "run", "--ids", user, "-k", 3)["results"][0]
    assert result["id"] == user
    assert set(result["items"]) <= {f"é-0{item}" for item in SMALL.item_ids()}
    assert ask(gossamer, "evaluate", tmp_path / "run")["users"] == SMALL.num_users
