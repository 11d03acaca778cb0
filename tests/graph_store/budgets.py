"""Memory budgets that make an ingest take every way there is, and the bytes of the store that it makes."""

import graph_store
from graph_store.memory_budget import Budget
from graph_store.resident import shard_folder
from graph_store.shard import Shard

MIB = 1 << 20
ROOMY = Budget(waiting=64 * MIB, ids=16 * MIB, reading=16 * MIB, work=64 * MIB)
# Each makes another part wait on disk or come in pieces.
BUDGETS = {
    "rows on disk": ROOMY._replace(waiting=0),
    "some rows on disk": ROOMY._replace(waiting=40_000),
    "ids in many dictionaries": ROOMY._replace(ids=1),
    "ids on disk": ROOMY._replace(ids=1, waiting=0),
    "ids merged in ranges": ROOMY._replace(ids=1, work=20_000),
    "lists in ranges": ROOMY._replace(work=60_000),
    "nothing in memory": Budget(waiting=0, ids=1, reading=1, work=10_000),
}


def records(path):
    """Return all keys and values in the shards."""
    shards = sorted(int(folder.name.removeprefix("shard-")) for folder in (path / "gen-1").glob("shard-*"))
    found = {}
    for shard in shards:
        with Shard(shard_folder(path, 1, shard)) as database:
            for family in ("adj", "ids", "feat", "meta"):
                found[shard, family] = list(database.items(family, b""))
    return found


def content(path):
    """Return the bytes of a store: of its shards' records and of its arena."""
    assert graph_store.verify(path) == []
    return records(path), {file.name: file.read_bytes() for file in sorted((path / "arena").iterdir())}
