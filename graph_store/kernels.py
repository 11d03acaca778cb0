"""What every compiled kernel of the store shares: the decorator, prefetch, mixing, integers in, threads over ranges."""

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np


class Kernel:
    """A function that numba compiles; numba is imported, and the function made or loaded, when one is first called.

    To import numba and to load what a query needs takes half a second, for which plain Python follows thousands of
    edges: see `Kernel.plainly`. Any other attribute is that of the compiled function, for which numba takes it.

    Parameters
    ----------
    function : callable
    options
        Of `numba.njit`.
    """

    # What plain Python may still go through in this process: about what it does in the time that loading takes.
    plain_items: ClassVar[int] = 1 << 15
    # Called once, before numba is imported: with whether no kernel was compiled here before.
    before_loading: ClassVar[Callable[[bool], None] | None] = None
    _plain: ClassVar[threading.local] = threading.local()
    _lock: ClassVar[threading.RLock] = threading.RLock()
    _loaded: ClassVar[bool] = False

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        self.__doc__, self.__name__, self.__module__ = function.__doc__, function.__name__, function.__module__
        self.__wrapped__ = function
        self._options = options
        self._compiled: Any = None

    def __call__(self, *arguments: Any) -> Any:
        if self._compiled is not None:
            return self._compiled(*arguments)
        if getattr(self._plain, "active", False):
            return self.__wrapped__(*(np.int64(each) if type(each) is int else each for each in arguments))
        return self.compiled()(*arguments)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.compiled(), name)

    def compiled(self) -> Any:
        """Return what numba makes of the function."""
        with self._lock:
            if self._compiled is None:
                if not Kernel._loaded and Kernel.before_loading is not None:
                    Kernel.before_loading(not _any_compiled())
                import numba

                from graph_store import intrinsics  # noqa: F401

                # nogil: kernels run side by side in plain threads. No `parallel=True`: its threading layers are
                # neither fork-safe nor re-entrant, and results must not depend on the number of threads anyway.
                options = {"cache": True, "nogil": True, "error_model": "numpy", **self._options}
                self._compiled = numba.njit(**options)(self.__wrapped__)
                Kernel._loaded = True
        return self._compiled

    @classmethod
    @contextmanager
    def plainly(cls, items: int) -> Iterator[bool]:
        """Within, run kernels as the Python that they are, if none was loaded yet and there are few items for them.

        Gives whether it does so. The items of all such calls of a process are counted together, so that one that goes
        on asking comes to load the kernels.
        """
        if cls._loaded or items > cls.plain_items:
            yield False
            return
        cls.plain_items -= items
        before, cls._plain.active = getattr(cls._plain, "active", False), True
        try:
            with np.errstate(over="ignore"):  # of products of 64 bits only those bits are kept
                yield True
        finally:
            cls._plain.active = before


def _any_compiled() -> bool:
    """Say whether kernels of this package were compiled before, where numba keeps them."""
    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(__file__).parent / "__pycache__")
    return next(folder.rglob("*.nbi"), None) is not None


def kernel(function: Callable[..., Any]) -> Kernel:
    """Make a kernel of a function of arrays and numbers."""
    return Kernel(function)


def inlined(function: Callable[..., Any]) -> Kernel:
    """Make a part of kernels that is called once an item: as a call it costs a sixth of what `edges_at` takes."""
    return Kernel(function, inline="always")


def prefetch(array: np.ndarray, index: Any) -> None:
    """Ask the processor to bring `array[index]` into its caches; never reads, never faults."""


def load_bits(words: np.ndarray, bit: Any) -> np.uint64:
    """Return the 57 bits or more from `bit` on in little-endian uint64 `words`, by one unaligned load."""
    return load_word(words.view(np.uint8), int(bit) >> 3) >> np.uint64(int(bit) & 7)


def load_word(data: np.ndarray, at: Any) -> np.uint64:
    """Return the eight bytes from `at` on in uint8 `data` as a little-endian uint64, by one unaligned load."""
    return np.frombuffer(data[int(at) : int(at) + 8].tobytes(), np.uint64)[0]


@kernel
def mix64(value: np.uint64) -> np.uint64:
    """Mix 64 bits (the finaliser of splitmix64, Steele, Lea and Flood, OOPSLA 2014): a bijection."""
    value = np.uint64(value)
    value ^= value >> np.uint64(30)
    value *= np.uint64(0xBF58476D1CE4E5B9)
    value ^= value >> np.uint64(27)
    value *= np.uint64(0x94D049BB133111EB)
    return value ^ (value >> np.uint64(31))


def unmasked(values: Any, name: str) -> np.ndarray:
    """Return values as an array; ValueError where one is masked, since numpy would give what lies under the mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        row = int(np.flatnonzero(np.ma.getmaskarray(values).ravel())[0])
        raise ValueError(f"{name}: the value at position {row} is masked; leave it out, or fill it in")
    return np.asarray(values)


def int64_array(values: Any, name: str) -> np.ndarray:
    """Return integers as a contiguous int64[n], not copied where they are one already.

    Raises
    ------
    TypeError
        Values that are no integers; they are never rounded.
    ValueError
        More than one dimension, a value past int64, or one that is masked. The message says `name`.
    """
    given = unmasked(values, name)
    if given.ndim > 1:
        raise ValueError(f"{name} must have one dimension, got shape {given.shape}")
    if given.size and given.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, got {given.dtype}")
    if given.dtype == np.uint64 and given.size and int(given.max()) >= 1 << 63:
        raise ValueError(f"{name} must be below 2^63, got {given.max()}")
    return np.ascontiguousarray(given, np.int64)


def num_threads(threads: int | None = None) -> int:
    """Return `threads`, or the cores this process may run on when None."""
    return max(1, threads if threads is not None else len(os.sched_getaffinity(0)))


def run_ranges(
    call: Callable[[int, int], Any], length: int, *, threads: int | None = None, grain: int = 1 << 14
) -> list[Any]:
    """Call `call(start, stop)` over contiguous ranges of `length`, in threads, and return the results in order.

    Each of several ranges holds at least half of `grain` items, so that small work stays on the calling thread.
    """
    parts = max(1, min(num_threads(threads), -(-length // grain)))
    bounds = [length * part // parts for part in range(parts + 1)]
    if parts == 1:
        return [call(0, length)]
    with ThreadPoolExecutor(parts - 1) as pool:
        others = [pool.submit(call, bounds[part], bounds[part + 1]) for part in range(1, parts)]
        first = call(bounds[0], bounds[1])
        return [first, *(other.result() for other in others)]
