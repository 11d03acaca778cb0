"""LMDB as a peer of the store: adjacency by source, loads, gets and puts; one JSON line a request.

A key is a source id of 8 bytes, big-endian; its value is the array of its distinct neighbours, ascending, int64.
"""

import json
import os
import shutil
import sys
import time
from itertools import pairwise

import lmdb
import numpy as np
import pyarrow.parquet as pq

MAP_SIZE = 1 << 38


def _sorted(src, dst):
    """Sort ids of at most 32 bits by source and neighbour, and drop duplicates."""
    keys = (src << 32) | dst
    keys.sort()
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return keys >> 32, keys & 0xFFFFFFFF


def _keys(ids):
    """Return the keys of ids."""
    data = ids.astype(">i8").tobytes()
    return [data[at : at + 8] for at in range(0, len(data), 8)]


class Peer:
    """A database in a folder."""

    def load(self, request):
        """Make the database of a Parquet file; the peer's own best: sorted, appended, one sync at the end."""
        shutil.rmtree(request["database"], ignore_errors=True)
        os.sync()
        start = time.perf_counter()
        table = pq.read_table(request["parquet"], columns=["src", "dst"])
        src, dst = _sorted(table["src"].to_numpy(), table["dst"].to_numpy())
        del table
        starts = np.flatnonzero(np.concatenate([[True], src[1:] != src[:-1]]))
        spans = pairwise((np.append(starts, dst.size) * 8).tolist())
        data = memoryview(dst).cast("B")
        items = ((key, data[low:high]) for key, (low, high) in zip(_keys(src[starts]), spans))
        database = lmdb.open(
            request["database"], map_size=MAP_SIZE, writemap=True, sync=False, metasync=False, lock=False
        )
        with database.begin(write=True) as transaction:
            transaction.cursor().putmulti(items, append=True)
        database.sync(True)
        seconds = time.perf_counter() - start
        database.close()
        size = sum(entry.stat().st_blocks * 512 for entry in os.scandir(request["database"]))
        return {"seconds": seconds, "edges": dst.size, "bytes": size}

    def open(self, request):
        """Open the database to read, and take the batches of ids to ask for."""
        self.database = lmdb.open(request["database"], readonly=True, lock=False, readahead=False)
        self.batches = np.load(request["batches"])
        self.transaction = self.database.begin(buffers=True)
        self.cursor = self.transaction.cursor()
        return {"entries": self.database.stat()["entries"]}

    def values(self, request):
        """Get every batch; the values stay where they are."""
        start, found = time.perf_counter(), 0
        for batch in self.batches:
            found += len(self.cursor.getmulti(_keys(batch)))
        return {"seconds": time.perf_counter() - start, "found": found}

    def lists(self, request):
        """Get every batch and put it together: how many neighbours each id has, and all of them in one array."""
        start, total = time.perf_counter(), 0
        for batch in self.batches:
            keys = _keys(batch)
            found = dict(self.cursor.getmulti(keys))
            values = [found.get(key, b"") for key in keys]
            indptr = np.cumsum([0] + [len(value) for value in values]) // 8
            self.neighbors = np.frombuffer(b"".join(values), np.int64)
            total += int(indptr[-1])
        return {"seconds": time.perf_counter() - start, "edges": total}

    def put(self, request):
        """Put batches of edges, one key an edge and direction, each batch a synced transaction."""
        shutil.rmtree(request["database"], ignore_errors=True)
        batches = np.load(request["batches"])  # [batch, 2, edges]
        database = lmdb.open(request["database"], map_size=MAP_SIZE)
        start = time.perf_counter()
        for src, dst in batches:
            both = np.stack([np.concatenate([src, dst]), np.concatenate([dst, src])], axis=1).astype(">i8").tobytes()
            keys = sorted(both[at : at + 16] for at in range(0, len(both), 16))
            with database.begin(write=True) as transaction:
                transaction.cursor().putmulti((key, b"") for key in keys)
        seconds = time.perf_counter() - start
        database.close()
        return {"seconds": seconds}


def main():
    """Answer requests until the input ends."""
    peer = Peer()
    for line in sys.stdin:
        request = json.loads(line)
        answer = getattr(peer, request["do"])(request)
        print(json.dumps({**answer, "version": lmdb.__version__}), flush=True)


if __name__ == "__main__":
    main()
