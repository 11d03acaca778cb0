"""Results made ahead by threads, each with a worker of its own, and handed over in order; an error comes at once."""

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from queue import SimpleQueue
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
Worker = Callable[[Task], Result]


def prefetched(
    tasks: Iterable[Task], make_worker: Callable[[], Worker], *, threads: int, depth: int
) -> Generator[Result, None, None]:
    """Yield `worker(task)` of each task, in their order.

    Parameters
    ----------
    make_worker : callable
        Returns what does a task; no two threads use the same one at once, so that it may keep a workspace.
    threads : int
        0 works on the calling thread, when a result is asked for.
    depth : int
        Results that may be finished or in work beyond the one that is waited for.

    Raises
    ------
    Exception
        Whatever a worker raised, as soon as it did, though results of tasks before it are still to come. No thread
        is left behind by that, nor by a consumer that stops.
    """
    if threads == 0:
        worker = make_worker()
        for task in tasks:
            yield worker(task)
        return
    workers: SimpleQueue[Worker] = SimpleQueue()
    for _ in range(threads):
        workers.put(make_worker())

    def done(task: Task) -> Result:
        worker = workers.get()
        try:
            return worker(task)
        finally:
            workers.put(worker)

    pool = ThreadPoolExecutor(threads, thread_name_prefix="gossamer-prefetch")
    waiting: deque[Future[Result]] = deque()
    try:
        for task in tasks:
            waiting.append(pool.submit(done, task))
            if len(waiting) > depth:
                yield _first(waiting)
        while waiting:
            yield _first(waiting)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _first(waiting: deque[Future[Result]]) -> Result:
    """Take the first result when it is there; raise what any of the others raised meanwhile."""
    open_ones = set(waiting)
    while True:
        ended = {future for future in open_ones if future.done()}
        for future in ended:
            future.result()
        open_ones -= ended
        if waiting[0].done():
            return waiting.popleft().result()
        wait(open_ones, return_when=FIRST_COMPLETED)
