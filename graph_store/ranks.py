"""Ranks: the processes that make a store together, as far as an ingest knows of them."""

import json
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from graph_store.errors import BadInput, GraphStoreError

T = TypeVar("T")


class Ranks(Protocol):
    """Processes that call the same methods in the same order; all see the same disk."""

    @property
    def rank(self) -> int:
        """The number of this process."""

    @property
    def size(self) -> int:
        """The number of processes."""

    def gather(self, payload: bytes) -> list[bytes]:
        """Return the payload of every rank, in rank order, on every rank."""


class OneRank:
    """A process alone."""

    rank, size = 0, 1

    def gather(self, payload: bytes) -> list[bytes]:
        """Return the payload."""
        return [payload]


def gather_json(ranks: Ranks, value: Any) -> list[Any]:
    """Return the value of every rank, in rank order, on every rank."""
    if ranks.size == 1:
        return [value]
    return [json.loads(payload) for payload in ranks.gather(json.dumps(value).encode())]


def together(ranks: Ranks, call: Callable[[], T]) -> T:
    """Return what `call` returns, once it has ended on every rank; it must not use `ranks`.

    Raises
    ------
    Exception
        What `call` raised here, else what it raised on another rank, as BadInput or GraphStoreError.
    """
    if ranks.size == 1:
        return call()
    result, error = None, None
    try:
        result = call()
    except Exception as caught:
        error = caught
    said = None if error is None else [isinstance(error, BadInput), str(error) or type(error).__name__]
    failed = [(rank, each) for rank, each in enumerate(gather_json(ranks, said)) if each is not None]
    if error is not None:
        raise error
    if failed:
        rank, (of_input, message) = failed[0]
        raise BadInput(message) if of_input else GraphStoreError(f"rank {rank}: {message}")
    return result  # type: ignore[return-value]


def shards_of_rank(num_shards: int, rank: int, size: int) -> range:
    """Return the shards that a rank makes: consecutive ones."""
    return range(num_shards * rank // size, num_shards * (rank + 1) // size)
