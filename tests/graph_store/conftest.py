"""Fixtures of the store's tests."""

import pytest

import graph_store
from graph_store.memory_budget import Budget
from tests.graph_store.shop import tables


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """Return the store of `shop.tables`, open."""
    path = tmp_path_factory.mktemp("shop") / "store"
    graph_store.ingest(graph_store.Schema.from_tables(tables()), path, num_shards=3)
    with graph_store.open(path, threads=1) as store:
        yield store


@pytest.fixture
def budget(monkeypatch):
    """Return `budget(parts)`, which makes that the budget of the ingests that follow."""

    def use(parts):
        monkeypatch.setattr(Budget, "of", lambda memory, taken: parts)

    return use
