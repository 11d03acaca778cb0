"""Run by test_transport: the last rank does not answer, and the others must say so."""

import sys
import time

import numpy as np

from mpi_runner import guard
from mpi_runner.transport import Transport


def main() -> int:
    transport = Transport.world(timeout=1.0)
    transport.at("epoch 3, step 17")
    own = [np.arange(3)] * transport.size
    if transport.rank == transport.size - 1:
        if sys.argv[1] == "absent":
            time.sleep(60)
        transport.skip()  # "out of order": the next call is taken for another one
        time.sleep(0.5)
        transport.timeout = 60
    transport.swap(own, what="ids of table 'item'")
    return 0


world = Transport.world()
sys.exit(guard.run(world, main))
