"""Compiling the kernels of a run before its first step: the whole way on a few edges, thrown away."""

import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np

from mpi_runner import trainer
from mpi_runner.config import Config

NUM_USERS, NUM_ITEMS = 24, 16


def warm_up(config: Config) -> None:
    """Run one step and one evaluation of the configured model on a tiny store; numba caches the kernels.

    A kernel is compiled for the kinds of its arguments, not for their sizes, so what this leaves in the cache
    is what the run loads. Not collective.
    """
    import graph_store
    from models import MODELS, LocalExchange, Trace, evaluate
    from sparse_tables import LocalTable

    with tempfile.TemporaryDirectory(prefix="gossamer-") as folder, _tiny_store(Path(folder)) as store:
        options = replace(trainer.model_options(config), batch_size=8)
        kind = MODELS[config.model.name]
        configs = kind.tables(options, num_shards=store.num_shards)
        tables = {side: LocalTable(table, threads=1) for side, table in configs.items()}
        exchange = LocalExchange()
        edge_type = "user:clicks:item"
        model = kind(store, edge_type, tables, exchange=exchange, options=options, threads=1)
        model.step(model.loader().batch(1, 0), trace=Trace())
        users, items = store.nodes("user")[:1], store.nodes("item")[:1]
        evaluate(model, users, (np.array([0, 1]), items), ks=(config.train.k,), exchange=exchange)
    assert graph_store is not None


def _tiny_store(folder: Path):  # type: ignore[no-untyped-def]
    import graph_store
    from graph_store.schema import Schema

    edges = folder / "edges.csv"
    pairs = [(user, item) for user in range(NUM_USERS) for item in range(NUM_ITEMS) if (user * 7 + item * 3) % 5 == 0]
    edges.write_text("user,item\n" + "".join(f"{user},{item}\n" for user, item in pairs))
    schema = Schema.from_edges(edges, edge_type="user:clicks:item")
    graph_store.ingest(schema, folder / "store", num_shards=2, threads=1)
    return graph_store.open(folder / "store", threads=1)
