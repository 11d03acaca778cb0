"""The training loop: what one rank of a run does from its start to its end."""

import hashlib
import math
import os
import socket
import time
from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from mpi_runner import checkpoint, held_out, launch
from mpi_runner import config as configuration
from mpi_runner.client import RemoteTable
from mpi_runner.config import Config
from mpi_runner.errors import ConfigError, RunError
from mpi_runner.exchange import MpiExchange
from mpi_runner.guard import check_equal, say, together
from mpi_runner.held_out import HeldOutEdges
from mpi_runner.layout import Layout
from mpi_runner.progress import Progress
from mpi_runner.run_folder import RunFolder
from mpi_runner.transport import Transport

if TYPE_CHECKING:
    from graph_store import GraphStore
    from models import Exchange, Model, ModelOptions, Trace
    from sparse_tables import LocalTable

SPANS = ("sample", "pull", "compute", "push", "evaluate")


class Trainer:
    """One rank of a training run. Every method is collective.

    Parameters
    ----------
    config : Config
        The same on all ranks.
    transport : Transport
    threads : int
        Threads that this rank may compute with.
    quiet : bool
        Whether rank 0 keeps its progress bar to itself.

    Raises
    ------
    AgreedFailure
        If the store, its edge type, the held-out edges or the run folder cannot be used, on any rank.
    """

    def __init__(self, config: Config, transport: Transport, *, threads: int, quiet: bool = False) -> None:
        self.config = config
        self.transport = transport
        self.threads = threads
        self.options: ModelOptions = together(transport, lambda: model_options(config), what="the options")
        # One rank of each node opens first: it rebuilds what the store derives, should that be missing.
        first = launch.local_rank() == 0
        store = together(transport, lambda: self._open_store() if first else None, what="opening the store")
        self.store: GraphStore = together(transport, lambda: store or self._open_store(), what="opening the store")
        self.held_out = self._share_held_out()
        self.folder: RunFolder | None = self._make_folder()
        self.progress = Progress(shown=transport.rank == 0 and not quiet)

    def run(self) -> dict[str, Any]:
        """Train, evaluate and save as the configuration says; return the last epoch's line of metrics."""
        from models import MODELS, Trace

        layout = Layout(self.transport.size, self.store.num_shards)
        self.local = self._make_tables(layout)
        self.exchange = make_exchange(self.transport)
        trace = Trace()
        model = MODELS[self.config.model.name](
            self.store,
            self.config.data.edge_type,
            connect(self.local, self.transport),
            exchange=self.exchange,
            options=self.options,
            threads=self.threads,
        )
        line: dict[str, Any] = {"epoch": 0}
        with self.progress:
            if self.config.train.epochs == 0:
                self._save(0)
            for epoch in range(1, self.config.train.epochs + 1):
                line = self._run_epoch(model, epoch, trace)
        return line

    def close(self) -> None:
        """Give the store and the run folder's lock back."""
        self.store.close()
        if self.folder is not None:
            self.folder.release()

    def _run_epoch(self, model: "Model", epoch: int, trace: "Trace") -> dict[str, Any]:
        trace.reset()
        loader = model.loader()
        self.progress.start(epoch, self.config.train.epochs, loader.num_steps)
        loss, started = 0.0, time.perf_counter()
        for step in range(loader.num_steps):
            self.transport.at(f"epoch {epoch}, step {step}")
            with trace.span("sample"):
                batch = loader.batch(epoch, step, rank=self.transport.rank, size=self.transport.size)
            loss += model.step(batch, trace=trace)
            self.progress.step()
        seconds = time.perf_counter() - started
        self.transport.at(f"the end of epoch {epoch}")
        together(self.transport, lambda: self._check_finite(loss, epoch), what="checking that rows are finite")
        scores: dict[str, float] = {}
        if self._is_due(self.config.train.evaluate_every, epoch):
            with trace.span("evaluate"):
                scores = self.evaluate(model)
        line = self._metrics(epoch, loss, loader.num_samples, seconds, trace, scores)
        self.progress.finish(line)
        if self.folder is not None:
            self.folder.append_metrics(line)
        if self._is_due(self.config.run.checkpoint_every, epoch):
            self._save(epoch)
        return line

    def _check_finite(self, loss: float, epoch: int) -> None:
        """Raise RunError when training has run away on this rank: rows that are not finite rank nothing."""
        for name, table in self.local.items():
            rows = table.pull(table.ids(), insert=False)
            with np.errstate(over="ignore", invalid="ignore"):
                lengths = np.einsum("ij,ij->i", rows, rows)
            if not (math.isfinite(loss) and np.isfinite(lengths).all()):
                raise RunError(
                    f"epoch {epoch}: the loss or the rows of table {name!r} are no longer finite; "
                    f"train.learning_rate {self.config.train.learning_rate:g} is too high for this data, lower it"
                )

    def evaluate(self, model: "Model") -> dict[str, float]:
        """Return the ranking metrics on the held-out edges; empty where there are none."""
        import models

        if self.held_out is None:
            return {}
        edges = (self.held_out.indptr, self.held_out.items)
        return models.evaluate(model, self.held_out.users, edges, ks=(self.config.train.k,), exchange=self.exchange)

    def _is_due(self, every: int, epoch: int) -> bool:
        return epoch == self.config.train.epochs or (every > 0 and epoch % every == 0)

    def _metrics(
        self,
        epoch: int,
        loss: float,
        samples: int,
        seconds: float,
        trace: "Trace",
        scores: Mapping[str, float],
    ) -> dict[str, Any]:
        """Return the line of an epoch: sums over ranks of rows, means over ranks of seconds."""
        spans = sorted({*SPANS, *trace.seconds})
        counts = ("pulled_rows", "pushed_rows")
        own = [loss, seconds, *(trace.seconds.get(span, 0.0) for span in spans)]
        values = [*own, *(trace.counts.get(count, 0) for count in counts)]
        total = self.exchange.sum(np.array(values, dtype=np.float64))
        means = dict(zip(spans, (total[2 : 2 + len(spans)] / self.transport.size).tolist()))
        pulled, pushed = total[-2:].tolist()
        return {
            "epoch": epoch,
            "loss": float(total[0]) / max(samples, 1),
            "samples": samples,
            "samples_per_second": samples * self.transport.size / float(total[1]),
            "pull_rows_per_second": pulled / means["pull"] if means["pull"] else 0.0,
            "push_rows_per_second": pushed / means["push"] if means["push"] else 0.0,
            "seconds": {**means, "train": float(total[1]) / self.transport.size},
            **scores,
        }

    def _open_store(self) -> "GraphStore":
        import graph_store

        store = graph_store.open(self.config.data.store, threads=self.threads)
        if not store.adjacency(self.config.data.edge_type).num_edges:
            raise RunError(f"{store.path}: {self.config.data.edge_type} has no edges to train on")
        return store

    def _share_held_out(self) -> HeldOutEdges | None:
        """Read the held-out edges on rank 0 and give them to all, so that one rank alone needs the file."""
        if self.config.data.test is None:
            return None
        first = self.transport.rank == 0
        edges = together(
            self.transport,
            lambda: held_out.read(self.config.data, self.store, threads=self.threads) if first else None,
            what="reading the held-out edges",
        )
        if first and edges.describe():
            say(edges.describe())
        packed = held_out.pack(edges) if first else None
        return held_out.unpack(self.transport.broadcast_integers(packed, what="held-out edges"))

    def _make_folder(self) -> RunFolder | None:
        """Compare what the ranks run, and make the run folder on rank 0."""
        own = {
            "rank": self.transport.rank,
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "config": hashlib.sha256(msgspec.json.encode(self.config)).hexdigest()[:16],
            "store": f"{self.store.uuid} version {self.store.version}",
        }
        facts = [msgspec.json.decode(part) for part in self.transport.gather(msgspec.json.encode(own), what="ranks")]
        ranks = [{key: fact[key] for key in ("rank", "host", "pid")} for fact in facts]

        def make() -> RunFolder | None:
            check_equal(facts, "config", "the ranks read different configurations")
            check_equal(facts, "store", "the ranks opened different stores")
            return RunFolder.create(self.config, ranks, notice=say) if self.transport.rank == 0 else None

        return together(self.transport, make, what="making the run folder")

    def _make_tables(self, layout: Layout) -> "dict[str, LocalTable]":
        from models import MODELS
        from sparse_tables import LocalTable

        shards = layout.shards(self.transport.rank)
        configs = MODELS[self.config.model.name].tables(self.options, num_shards=self.store.num_shards)
        return {side: LocalTable(table, shards=shards, threads=self.threads) for side, table in configs.items()}

    def _save(self, epoch: int) -> None:
        facts = {
            "store_uuid": self.store.uuid,
            "store_version": self.store.version,
            "edge_type": self.config.data.edge_type,
            "finished": epoch == self.config.train.epochs,
        }
        folder = self.folder or RunFolder(self.config.run.dir)
        checkpoint.save(self.transport, folder, self.local, epoch=epoch, facts=facts)


def make_exchange(transport: Transport) -> "Exchange":
    """Return the exchange of a model: over MPI, or the local one in a single process."""
    from models import LocalExchange

    return MpiExchange(transport) if transport.size > 1 else LocalExchange()


def connect(tables: "Mapping[str, LocalTable]", transport: Transport) -> dict[str, Any]:
    """Return the tables that a model trains: remote ones, or in a single process the local ones."""
    if transport.size == 1:
        return dict(tables)
    return {side: RemoteTable(table, transport) for side, table in tables.items()}


def model_options(config: Config) -> "ModelOptions":
    """Return the model's options: every key of `[model]` and `[train]` that the model knows.

    Raises
    ------
    ConfigError
        If the model refuses a value.
    """
    from models import ModelOptions

    given = {**configuration.to_dict(config)["model"], **configuration.to_dict(config)["train"]}
    known = {field.name for field in fields(ModelOptions)}
    try:
        return ModelOptions(**{key: value for key, value in given.items() if key in known and value is not None})
    except (TypeError, ValueError) as error:
        raise ConfigError(str(error)) from None
