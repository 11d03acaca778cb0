"""Work done ahead of its consumer by a few threads, handed over in order."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def in_order(calls: Iterable[Callable[[], T]], *, threads: int) -> Generator[T, None, None]:
    """Run `calls` in `threads` threads and yield their results in the order of the calls.

    At most `threads + 1` results exist before they are asked for. The first call that raises ends the
    iteration with its error; closing the iterator drops the calls that have not begun.
    """
    waiting: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(threads)
    try:
        for call in calls:
            waiting.append(pool.submit(call))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
