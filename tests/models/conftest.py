"""Stores that the tests of models share."""

from collections.abc import Iterator

import pytest

from graph_store import GraphStore
from tests.models.planted import checkerboard, make_store


@pytest.fixture(scope="session")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphStore]:
    """A store of the checkerboard, 8 shards."""
    with make_store(tmp_path_factory.mktemp("board"), checkerboard()[0]) as store:
        yield store


@pytest.fixture(scope="session")
def board_both_ways(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphStore]:
    """The same with the reverse edge type."""
    with make_store(tmp_path_factory.mktemp("board"), checkerboard()[0], reverse=True) as store:
        yield store
