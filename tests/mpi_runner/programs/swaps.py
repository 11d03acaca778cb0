"""Run by test_transport on any number of ranks: every kind of call gives what its docstring says."""

import sys

import numpy as np

from mpi_runner.transport import Transport


def check_swaps(transport: Transport) -> None:
    rank, size = transport.rank, transport.size
    for scale in (0, 1, 8, 9, 1000):
        outgoing = [np.arange(scale * (peer + 1), dtype=np.int64) + 1000 * rank for peer in range(size)]
        incoming = transport.swap(outgoing, what="numbers")
        for peer in range(size):
            np.testing.assert_array_equal(incoming[peer], np.arange(scale * (rank + 1)) + 1000 * peer)
        sent = [np.full((scale, 3), 10 * rank + peer, dtype=np.float32) for peer in range(size)]
        filled = [np.zeros((scale, 3), dtype=np.float32) for _ in range(size)]
        transport.swap_into(sent, filled, what="rows")
        for peer in range(size):
            if peer != rank:
                assert (filled[peer] == 10 * peer + rank).all()


def check_reductions(transport: Transport) -> None:
    rank, size = transport.rank, transport.size
    total = transport.sum([rank, 0.1, 1.0])
    expected = np.zeros(3)
    for peer in range(size):
        expected += np.array([peer, 0.1, 1.0])
    np.testing.assert_array_equal(total, expected)
    assert transport.gather(b"rank %d" % rank, what="names") == [b"rank %d" % peer for peer in range(size)]
    assert transport.broadcast(b"from %d" % rank, what="greeting") == b"from 0"
    assert transport.agree(None, what="nothing") == []
    problem = f"no {rank}" if rank == size - 1 else None
    assert transport.agree(problem, what="problem") == [(size - 1, f"no {size - 1}")]
    transport.barrier("the end")


def main() -> None:
    world = Transport.world(timeout=60)
    for piece_bytes in (1 << 30, 64, 8):
        transport = Transport(world.comm, timeout=60, piece_bytes=piece_bytes)
        check_swaps(transport)
        check_reductions(transport)
    sys.stdout.write(f"good {world.rank}\n")


main()
