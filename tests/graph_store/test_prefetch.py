"""Results made ahead: in order, by workers that are not shared, with errors at once and no thread left behind."""

import threading
import time

import pytest

from graph_store.sampling.prefetch import prefetched


def names():
    return {thread.name for thread in threading.enumerate() if thread.name.startswith("gossamer-prefetch")}


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
@pytest.mark.parametrize("depth", [0, 1, 5])
def test_results_come_in_the_order_of_the_tasks(threads, depth):
    def worker(task):
        time.sleep(0.002 * (task % 3))
        return task * task

    found = list(prefetched(range(20), lambda: worker, threads=threads, depth=depth))
    assert found == [task * task for task in range(20)]
    assert names() == set()


def test_no_two_threads_use_one_worker_at_once():
    class Worker:
        def __init__(self):
            self.busy = threading.Lock()

        def __call__(self, task):
            assert self.busy.acquire(blocking=False)
            time.sleep(0.001)
            self.busy.release()
            return task

    made = []

    def make():
        made.append(Worker())
        return made[-1]

    assert list(prefetched(range(40), make, threads=3, depth=6)) == list(range(40))
    assert len(made) == 3


def test_no_more_than_depth_is_made_ahead():
    begun = []
    results = prefetched(range(100), lambda: lambda task: begun.append(task), threads=2, depth=4)
    next(results)
    time.sleep(0.05)
    assert len(begun) <= 5
    results.close()


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_an_error_comes_with_its_own_trace(threads):
    def worker(task):
        if task == 3:
            raise RuntimeError("shard 7 is gone")
        return task

    results = prefetched(range(10), lambda: worker, threads=threads, depth=2)
    with pytest.raises(RuntimeError, match="shard 7 is gone") as caught:
        list(results)
    assert any(entry.name == "worker" for entry in caught.traceback)
    assert names() == set()


def test_an_error_is_not_held_back_by_a_slow_task_before_it():
    slow = threading.Event()

    def worker(task):
        if task == 1:
            raise RuntimeError("dead")
        assert slow.wait(20)

    results = prefetched(range(2), lambda: worker, threads=2, depth=2)
    started = time.monotonic()
    threading.Timer(2, slow.set).start()
    with pytest.raises(RuntimeError, match="dead"):
        next(results)
    # It is raised while task 0 is still at work; ending the threads then waits for that.
    assert time.monotonic() - started < 10


def test_a_thread_that_ends_itself_is_an_error_too():
    def worker(task):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        next(prefetched(range(2), lambda: worker, threads=1, depth=1))


def test_a_consumer_that_stops_leaves_no_thread():
    results = prefetched(iter(int, 1), lambda: lambda task: task, threads=2, depth=3)
    assert [next(results) for _ in range(3)] == [0, 0, 0]
    assert names() != set()
    del results
    assert names() == set()
