"""An ingest by the ranks that `mpiexec` started."""

from collections.abc import Callable

from mpi_runner import guard, launch
from mpi_runner.errors import RankTimeout
from mpi_runner.transport import Transport

# A rank waits for others as long as their part of a phase takes; one that is killed ends the job at once.
_PHASE_SECONDS = 7 * 86_400.0
_FAILURE_SECONDS = 10.0


class IngestRanks:
    """The ranks of a transport, as `graph_store.ranks.Ranks` has them."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self.rank, self.size = transport.rank, transport.size

    def gather(self, payload: bytes) -> list[bytes]:
        """Return the payload of every rank, in rank order, on every rank."""
        return self._transport.gather(payload, what="the ingest")


def run(call: Callable[[IngestRanks], None]) -> int:
    """Return the exit status of `call` on this rank; an error that all ranks met is told once. Collective."""
    from graph_store.errors import GraphStoreError

    transport = Transport.world()
    transport.timeout = _PHASE_SECONDS

    def work() -> int:
        try:
            call(IngestRanks(transport))
        except (GraphStoreError, OSError) as error:
            transport.timeout = _FAILURE_SECONDS
            try:
                problems = transport.agree(guard.one_line(error), what="the end of the ingest")
            except RankTimeout:  # only this rank failed
                raise error from None
            # The rank that met it says it in the fewest words, the others with its number in front.
            shortest = min((text for _, text in problems), key=len)
            raise guard.AgreedFailure([(0, shortest)], transport.size) from None
        return 0

    return guard.run(transport, work)


def threads(given: int | None) -> int:
    """Return the threads of this rank: as given, else its share of the cores."""
    return launch.num_threads() if given is None else given
