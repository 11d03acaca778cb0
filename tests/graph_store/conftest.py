"""Fixtures of the store's tests."""

import pytest

from graph_store.memory_budget import Budget


@pytest.fixture
def budget(monkeypatch):
    """Return `budget(parts)`, which makes that the budget of the ingests that follow."""

    def use(parts):
        monkeypatch.setattr(Budget, "of", lambda memory, taken: parts)

    return use
