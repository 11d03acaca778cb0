"""Compiling the kernels of a run before its first step: the whole way on a few edges, thrown away."""

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mpi_runner import routing, trainer
from mpi_runner.config import Config

if TYPE_CHECKING:
    from graph_store import GraphStore

NUM_USERS, NUM_ITEMS = 24, 16
EDGE_TYPE = "user:clicks:item"


def warm_up(config: Config) -> None:
    """Run one step and one evaluation of the configured model on a tiny store; numba caches the kernels.

    A kernel is compiled for the kinds of its arguments, not for their sizes, so what this leaves in the cache
    is what the run loads. Not collective.
    """
    from models import MODELS, LocalExchange, Trace, evaluate
    from sparse_tables import LocalTable

    with tempfile.TemporaryDirectory(prefix="gossamer-") as folder, _tiny_store(Path(folder)) as store:
        options = replace(trainer.model_options(config), batch_size=8)
        kind = MODELS[config.model.name]
        configs = kind.tables(options, num_shards=store.num_shards)
        tables = {side: LocalTable(table, threads=1) for side, table in configs.items()}
        exchange = LocalExchange()
        model = kind(store, EDGE_TYPE, tables, exchange=exchange, options=options, threads=1)
        model.step(model.loader().batch(1, 0), trace=Trace())
        routing.first_seen(np.array([0]))
        users, items = store.nodes("user")[:1], store.nodes("item")[:1]
        evaluate(model, users, (np.array([0, 1]), items), ks=(config.train.k,), exchange=exchange)


def _tiny_store(folder: Path) -> "GraphStore":
    import graph_store
    from graph_store.schema import Schema

    edges = folder / "edges.csv"
    pairs = [(user, item) for user in range(NUM_USERS) for item in range(NUM_ITEMS) if (user * 7 + item * 3) % 5 == 0]
    edges.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    schema = Schema.from_edges(edges, edge_type=EDGE_TYPE)
    graph_store.ingest(schema, folder / "store", num_shards=2, threads=1)
    return graph_store.open(folder / "store", threads=1)
