"""The first query of a fresh process, `python -m benchmarks.first_query STORE IDS.npy`: seconds a step, as JSON."""

import json
import sys
import time


def main() -> None:
    """Import the package, open the store, ask for the neighbours of the ids."""
    start = time.perf_counter()
    import numpy as np

    import graph_store

    imported = time.perf_counter()
    with graph_store.open(sys.argv[1]) as store:
        opened = time.perf_counter()
        found = store.neighbors(np.load(sys.argv[2]))
        answered = time.perf_counter()
    seconds = {"import": imported - start, "open": opened - imported, "query": answered - opened}
    print(json.dumps({**seconds, "edges": int(found.indptr[-1])}))


if __name__ == "__main__":
    main()
