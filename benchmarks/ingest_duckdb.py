"""duckdb as a peer of ingest: creates the table sorted by source from Parquet; one JSON line a request."""

import json
import os
import sys
import time

import duckdb

for line in sys.stdin:
    request = json.loads(line)
    if os.path.exists(request["database"]):
        os.remove(request["database"])
    os.sync()
    start = time.perf_counter()
    connection = duckdb.connect(request["database"], config={"threads": request["threads"]})
    order = " ORDER BY src" if request["sorted"] else ""
    connection.execute(f"CREATE TABLE edges AS SELECT src, dst FROM read_parquet('{request['parquet']}'){order}")
    connection.execute("CHECKPOINT")
    rows = connection.execute("SELECT count(*) FROM edges").fetchone()[0]
    connection.close()
    seconds = time.perf_counter() - start
    print(json.dumps({"seconds": seconds, "rows": rows, "version": duckdb.__version__}), flush=True)
