"""Every message between ranks and every wait for one: buffers only, each with a deadline."""

import faulthandler
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from mpi_runner.errors import RankTimeout

PIECE_BYTES = 1 << 30
NUM_OPERATIONS = 1024
# Where ranks outnumber cores a waiting rank gives its core away this many times before it sleeps: a barrier
# of four ranks on two cores took 79 µs so, 280 µs with sleeping alone.
YIELDS = 200


class Transport:
    """The ranks of a run, and what they say to each other.

    Every method but `at`, `skip` and `abort` is collective: all ranks call the same methods in the same
    order. Messages are matched by the number and the kind of the call, so ranks that fall out of order end
    with a `RankTimeout`, never with each other's bytes. Only one thread of a rank may use a transport.

    Parameters
    ----------
    comm : mpi4py.MPI.Intracomm or None
        The ranks; None for a single process, for which mpi4py is never imported.
    timeout : float
        Seconds that a rank waits for another one.
    piece_bytes : int
        Longer messages travel in pieces of this many bytes.
    """

    def __init__(self, comm: Any = None, *, timeout: float = 300.0, piece_bytes: int = PIECE_BYTES) -> None:
        self.comm = comm
        self.rank: int = comm.rank if comm is not None else 0
        self.size: int = comm.size if comm is not None else 1
        self.timeout = timeout
        self.piece_bytes = piece_bytes
        self.place = ""
        self._operation = 0
        self._roomy = self.size <= len(os.sched_getaffinity(0))

    @classmethod
    def world(cls, *, timeout: float = 300.0) -> "Transport":
        """Return the transport over all ranks that `mpiexec` started.

        The first call of a process starts MPI, which waits for every rank: one that does not come within `timeout`
        seconds ends this process, with a traceback.
        """
        import mpi4py

        mpi4py.rc.thread_level = "funneled"
        # MPI_Init has no deadline and keeps the interpreter locked: only a thread outside Python can end it.
        faulthandler.dump_traceback_later(timeout, exit=True)
        from mpi4py import MPI

        faulthandler.cancel_dump_traceback_later()
        return cls(MPI.COMM_WORLD if MPI.COMM_WORLD.size > 1 else None, timeout=timeout)

    def at(self, place: str) -> None:
        """Set where the run is, such as "epoch 3, step 17", for the errors of the waits that follow."""
        self.place = place

    def swap(self, outgoing: Sequence[npt.NDArray[Any]], *, what: str, kind: int = 0) -> list[npt.NDArray[Any]]:
        """Send one array to each rank and return the one that each sent here, of whatever length.

        Parameters
        ----------
        outgoing : sequence of size arrays, any[n_r]
            C contiguous and of one dtype on all ranks, one for each rank in rank order. They must not change
            before the call returns.
        what : str
            Named in a timeout's message, such as "ids of table 'item'".
        kind : int
            0 to 14, told apart from other kinds of calls in the same place.

        Returns
        -------
        list of size arrays, any[m_r]
            In rank order. The own array is returned itself, not a copy.

        Raises
        ------
        RankTimeout
            If a rank does not answer before the deadline.
        """
        dtype = outgoing[0].dtype
        incoming: list[npt.NDArray[Any]] = [outgoing[self.rank]] * self.size
        if self.size == 1:
            return incoming
        wait = self._start(what, kind)
        for peer in self._peers():
            wait.send(outgoing[peer], peer)
        pieces = wait.probe_all(self._peers())
        for peer, received in pieces.items():
            joined = received[0] if len(received) == 1 else np.concatenate(received)
            incoming[peer] = joined.view(dtype)
        wait.finish()
        return incoming

    def swap_into(
        self,
        outgoing: Sequence[npt.NDArray[Any]],
        incoming: Sequence[npt.NDArray[Any]],
        *,
        what: str,
        kind: int = 1,
        meanwhile: Callable[[], Any] = lambda: None,
    ) -> None:
        """Send one array to each rank and fill `incoming` with what each sent here; every length is known.

        Parameters
        ----------
        outgoing, incoming : sequences of size arrays, any[...]
            C contiguous, one for each rank in rank order; those of the own rank are left alone. The number of
            bytes that rank a sends to b must be that of b's `incoming[a]`; where it is 0 nothing is sent.
        what, kind
            As `swap`.
        meanwhile : callable
            Called once while the messages travel; must not use the transport.

        Raises
        ------
        RankTimeout
            If a rank does not answer before the deadline.
        """
        if self.size == 1:
            meanwhile()
            return
        wait = self._start(what, kind)
        for peer in self._peers():
            if incoming[peer].size:
                wait.receive(incoming[peer], peer)
        for peer in self._peers():
            if outgoing[peer].size:
                wait.send(outgoing[peer], peer)
        meanwhile()
        wait.finish()

    def sum(self, values: npt.ArrayLike, *, what: str = "sums") -> npt.NDArray[np.float64]:
        """Return the sum over ranks, added in rank order, the same bits on every rank.

        Parameters
        ----------
        values : float64[n]
            The same n on every rank.

        Returns
        -------
        float64[n]
        """
        values = np.ascontiguousarray(values, dtype=np.float64)
        parts = self.swap([values] * self.size, what=what, kind=2)
        total = parts[0].copy()
        for part in parts[1:]:
            total += part
        return total

    def gather(self, payload: bytes, *, what: str) -> list[bytes]:
        """Return the payload of every rank, in rank order, on every rank."""
        buffer = np.frombuffer(payload, dtype=np.uint8)
        return [part.tobytes() for part in self.swap([buffer] * self.size, what=what, kind=3)]

    def broadcast(self, payload: bytes, *, what: str) -> bytes:
        """Return the payload of rank 0 on every rank."""
        own = np.frombuffer(payload if self.rank == 0 else b"", dtype=np.uint8)
        return self.swap([own] * self.size, what=what, kind=4)[0].tobytes()

    def broadcast_integers(self, values: npt.NDArray[np.int64] | None, *, what: str) -> npt.NDArray[np.int64]:
        """Return the values (int64[n]) of rank 0 on every rank; those of the others may be None."""
        own = values if self.rank == 0 and values is not None else np.empty(0, dtype=np.int64)
        return self.swap([own] * self.size, what=what, kind=4)[0]

    def barrier(self, what: str) -> None:
        """Return when every rank has come here."""
        self.swap([np.empty(0, dtype=np.uint8)] * self.size, what=what, kind=5)

    def agree(self, problem: str | None, *, what: str) -> list[tuple[int, str]]:
        """Return each rank that has a problem with its problem, the same list everywhere."""
        answers = self.gather((problem or "").encode(), what=what)
        return [(rank, answer.decode()) for rank, answer in enumerate(answers) if answer]

    def skip(self, num_calls: int = 1) -> None:
        """Count calls of `swap_into` that this rank leaves out, having nothing to send or receive in them."""
        self._operation = (self._operation + num_calls) % NUM_OPERATIONS

    def abort(self, status: int = 1) -> None:
        """End all ranks of the job at once. Returns only in a single process."""
        if self.comm is not None:
            self.comm.Abort(status)

    def _peers(self) -> list[int]:
        # Starting after the own rank spreads the first messages over all receivers.
        return [(self.rank + offset) % self.size for offset in range(1, self.size)]

    def _start(self, what: str, kind: int) -> "_Wait":
        self._operation = (self._operation + 1) % NUM_OPERATIONS
        return _Wait(self, what, self._operation * 16 + kind)


class _Wait:
    """The messages of one collective call and the deadline they share."""

    def __init__(self, transport: Transport, what: str, tag: int) -> None:
        self.transport = transport
        self.what = what
        self.tag = tag
        self.pending: list[tuple[Any, int, str]] = []
        self.started = time.monotonic()
        self.num_polls = 0
        # Spinning only pays where no other rank waits for this core.
        self.spin_seconds = 2e-4 if transport._roomy else 0.0

    def send(self, array: npt.NDArray[Any], peer: int) -> None:
        buffer = _bytes(array)
        size = self.transport.piece_bytes
        self.spin_seconds += buffer.size * 1e-9 if self.transport._roomy else 0.0
        # A message that fills its last piece is followed by an empty one, so the receiver knows the end.
        for start in range(0, buffer.size + 1, size):
            piece = buffer[start : start + size]
            self.pending.append((self.transport.comm.Isend(piece, peer, self.tag), peer, "sending"))

    def receive(self, array: npt.NDArray[Any], peer: int) -> None:
        buffer = _bytes(array)
        size = self.transport.piece_bytes
        for start in range(0, buffer.size + 1, size):
            piece = buffer[start : start + size]
            self.pending.append((self.transport.comm.Irecv(piece, peer, self.tag), peer, "receiving"))

    def probe_all(self, peers: list[int]) -> dict[int, list[npt.NDArray[np.uint8]]]:
        from mpi4py import MPI

        received: dict[int, list[npt.NDArray[np.uint8]]] = {peer: [] for peer in peers}
        missing = list(peers)
        status = MPI.Status()
        while missing:
            found = False
            for peer in list(missing):
                message = self.transport.comm.Improbe(peer, self.tag, status)
                if message is None:
                    continue
                found = True
                buffer = np.empty(status.Get_count(MPI.BYTE), dtype=np.uint8)
                self.pending.append((message.Irecv(buffer), peer, "receiving"))
                received[peer].append(buffer)
                if buffer.size < self.transport.piece_bytes:
                    missing.remove(peer)
            if missing and not found:
                self._pause(missing[0], "receiving")
        return received

    def finish(self) -> None:
        while True:
            self.pending = [entry for entry in self.pending if not entry[0].Test()]
            if not self.pending:
                return
            self._pause(self.pending[0][1], self.pending[0][2])

    def _pause(self, peer: int, verb: str) -> None:
        self.num_polls += 1
        if self.num_polls <= 20:
            return
        waited = time.monotonic() - self.started
        if waited < self.spin_seconds:
            return
        if waited > self.transport.timeout:
            place = f" at {self.transport.place}" if self.transport.place else ""
            raise RankTimeout(
                f"rank {self.transport.rank} waited {waited:.1f} s for rank {peer}, {verb} {self.what}{place}"
                "; that rank is dead, stopped or slow: see its own message, or raise run.timeout"
            )
        if self.transport._roomy or self.num_polls > YIELDS:
            time.sleep(50e-6)
        else:
            os.sched_yield()


def _bytes(array: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    assert array.flags.c_contiguous, "a message must be C contiguous: its bytes are sent or filled where they lie"
    return array.reshape(-1).view(np.uint8)
