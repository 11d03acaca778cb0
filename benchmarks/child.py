"""A process of our own that answers a benchmark as a peer does, and knows the memory it takes."""

import contextlib
import importlib
import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

from benchmarks.harness import Peer


def status() -> dict[str, int]:
    """Return this process's memory in bytes by the names of /proc/self/status: `VmRSS`, `RssAnon`, `VmData`, …"""
    lines = Path("/proc/self/status").read_text().splitlines()
    words = [line.split() for line in lines if line.endswith(" kB")]
    return {name.rstrip(":"): int(value) << 10 for name, value, _ in words}


def rollup() -> dict[str, int]:
    """Return what all mappings of this process take, in bytes: `Rss`, `Pss`, `Anonymous`, `Private_Clean`, …"""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    words = [line.split() for line in lines if line.endswith(" kB")]
    return {name.rstrip(":"): int(value) << 10 for name, value, _ in words}


class MemoryWatch:
    """Looks at this process's anonymous memory every few milliseconds, as long as its `with` block lasts.

    Attributes
    ----------
    anonymous, resident : int
        Bytes at the highest: anonymous memory as seen, resident memory (with the mapped pages of files) as the kernel
        keeps it for the whole life of the process.
    """

    def __init__(self, every: float = 0.01) -> None:
        self._every, self._done = every, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.anonymous = self.resident = 0

    def _look(self) -> None:
        while True:
            self.anonymous = max(self.anonymous, status()["RssAnon"])
            if self._done.wait(self._every):
                return

    def __enter__(self) -> "MemoryWatch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        # Not `ru_maxrss`, which a program inherits from the process that started it.
        self.resident = status()["VmHWM"]


class DiskWatch:
    """Adds up the files below a folder several times a second, as long as its `with` block lasts.

    Attributes
    ----------
    bytes : int
        At the highest.
    """

    def __init__(self, folder: Path, every: float = 0.1) -> None:
        self._folder, self._every, self._done = folder, every, threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self.bytes = 0

    def _look(self) -> None:
        while True:
            total = 0
            for parent, _, names in os.walk(self._folder):
                for name in names:
                    with contextlib.suppress(OSError):  # removed meanwhile
                        total += os.stat(os.path.join(parent, name)).st_size
            self.bytes = max(self.bytes, total)
            if self._done.wait(self._every):
                return

    def __enter__(self) -> "DiskWatch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()


class Child(Peer):
    """A process that calls functions of the benchmarks; what a call keeps for the next goes into `KEPT`."""

    def __init__(self) -> None:
        super().__init__(Path(sys.executable), "benchmarks.child")

    def call(self, function: Callable[..., Any], **arguments: Any) -> Any:
        """Call a function of a module by name in the child, with arguments and an answer that JSON can say."""
        module = function.__module__
        if module == "__main__":
            module = f"benchmarks.{Path(sys.argv[0]).stem}"
        return self.ask({"call": [module, function.__name__], "arguments": arguments})["answer"]

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


KEPT: dict[str, Any] = {}


def in_child(function: Callable[..., Any], **arguments: Any) -> Any:
    """Call a function in a process that lives for this call alone."""
    with Child() as child:
        return child.call(function, **arguments)


def main() -> None:
    """Answer calls until the input ends."""
    for line in sys.stdin:
        request = json.loads(line)
        module, name = request["call"]
        try:
            answer = {"answer": getattr(importlib.import_module(module), name)(**request["arguments"])}
        except Exception as error:  # it travels to whoever asked
            traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
