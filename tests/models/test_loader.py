"""An epoch is a seeded permutation of all edges, the same for any shares and threads."""

import numpy as np
import pytest

from models import EdgeLoader
from tests.models.planted import EDGE_TYPE, checkerboard, make_store


def make_loader(store, **keys) -> EdgeLoader:  # type: ignore[no-untyped-def]
    values = {"batch_size": 64, "num_negatives": 2, "seed": 3, "threads": 1, **keys}
    return EdgeLoader(store.adjacency(EDGE_TYPE), store.nodes("item"), **values)


def pairs(store, batches) -> list[tuple[int, int]]:  # type: ignore[no-untyped-def]
    users = store.to_ids("user", np.concatenate([batch.users for batch in batches]))
    items = store.to_ids("item", np.concatenate([batch.positives for batch in batches]))
    return list(zip(users.tolist(), items.tolist()))


def test_an_epoch_holds_each_edge_once(board) -> None:  # type: ignore[no-untyped-def]
    loader = make_loader(board)
    clicks = sorted(map(tuple, checkerboard()[0].tolist()))
    orders = []
    for epoch in (1, 2):
        batches = [loader.batch(epoch, step) for step in range(loader.num_steps)]
        assert [batch.num_total for batch in batches] == [64] * (len(clicks) // 64) + [len(clicks) % 64]
        orders.append(pairs(board, batches))
        assert sorted(orders[-1]) == clicks
    assert orders[0] != orders[1]
    assert orders[0] != sorted(orders[0])


def test_negatives_are_strict(board) -> None:  # type: ignore[no-untyped-def]
    loader = make_loader(board)
    for step in range(loader.num_steps):
        batch = loader.batch(1, step)
        assert batch.negatives.shape == (batch.users.size, 2)
        users = np.repeat(batch.users, 2)
        assert not board.adjacency(EDGE_TYPE).has_edges(users, batch.negatives.ravel()).any()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_the_shares_of_ranks_make_the_whole_step(board, shared: bool, size: int) -> None:  # type: ignore[no-untyped-def]
    loader = make_loader(board, shared=shared, num_negatives=4)
    whole = loader.batch(2, 1)
    parts = [make_loader(board, shared=shared, num_negatives=4).batch(2, 1, rank=r, size=size) for r in range(size)]
    assert {part.num_total for part in parts} == {64}
    for field in ("users", "positives") if shared else ("users", "positives", "negatives"):
        assert (np.concatenate([getattr(part, field) for part in parts]) == getattr(whole, field)).all()
    if shared:
        assert all((part.negatives == whole.negatives).all() for part in parts)


def test_shared_negatives_are_distinct_and_change_with_the_step(board) -> None:  # type: ignore[no-untyped-def]
    loader = make_loader(board, shared=True, num_negatives=6)
    found = [tuple(loader.batch(epoch, step).negatives.tolist()) for epoch in (1, 2) for step in range(3)]
    assert len(set(found)) == 6
    assert all(len(set(nodes)) == 6 for nodes in found)
    assert set(sum(found, ())) <= set(board.nodes("item").tolist())
    everything = make_loader(board, shared=True, num_negatives=1000).batch(1, 0).negatives
    assert sorted(everything.tolist()) == sorted(board.nodes("item").tolist())


def test_what_does_not_exist_is_refused(board) -> None:  # type: ignore[no-untyped-def]
    loader = make_loader(board)
    with pytest.raises(ValueError, match=f"step must be in 0 … {loader.num_steps - 1}, got {loader.num_steps}"):
        loader.batch(1, loader.num_steps)
    with pytest.raises(ValueError, match="samples 5 … 65"):
        loader.batch_range(1, 0, 5, 65)
    with pytest.raises(ValueError, match="at least 1"):
        make_loader(board, batch_size=0)


def test_popular_negatives_come_in_proportion_to_edges(tmp_path) -> None:  # type: ignore[no-untyped-def]
    # Item 0 has 60 edges, item 1 has 20, items 2 … 21 one each: 3 draws of 100 edges hold it with 1 − .4 · .39 · .39.
    edges = [(user, 0) for user in range(60)] + [(user, 1) for user in range(20)] + [(60 + i, 2 + i) for i in range(20)]
    with make_store(tmp_path, np.array(edges)) as store:
        loader = make_loader(store, shared=True, popular=True, num_negatives=3, batch_size=1)
        found = [loader.batch(epoch, step).negatives for epoch in range(1, 11) for step in range(loader.num_steps)]
        assert all(np.unique(nodes).size == nodes.size <= 3 for nodes in found)
        first, second, third = store.to_nodes("item", np.array([0, 1, 2]))
        share = [np.mean([node in nodes for nodes in found]) for node in (first, second, third)]
    assert share == pytest.approx([0.94, 0.49, 0.03], abs=0.04)
