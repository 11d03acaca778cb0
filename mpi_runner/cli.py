"""The `gossamer` command: its groups, its exit statuses, and the commands of a run."""

import difflib
import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

from mpi_runner import launch

# Math libraries read these when numpy is imported, which the imports below may do.
launch.limit_threads()

import click  # noqa: E402

from mpi_runner.errors import ConfigError, RunError  # noqa: E402

# The commands of a store and where they are; imported when one of them is asked for.
_STORE_COMMANDS = {
    "ingest": "cli_store",
    "info": "cli_store",
    "verify": "cli_store",
    "query": "cli_query",
    "update": "cli_update",
    "changes": "cli_update",
    "compact": "cli_update",
    "reshard": "cli_update",
    "repair": "cli_update",
    "export": "cli_update",
}


class _Commands(click.Group):
    """The command group: the commands below and those of a store."""

    def list_commands(self, context: click.Context) -> list[str]:
        return [*_STORE_COMMANDS, *super().list_commands(context)]

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name in _STORE_COMMANDS:
            return getattr(importlib.import_module(f"mpi_runner.{_STORE_COMMANDS[name]}"), name)
        return super().get_command(context, name)

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(context)
        if arguments and arguments[0] not in names and not arguments[0].startswith("-"):
            near = difflib.get_close_matches(arguments[0], names, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names)}"
            context.fail(f"no command {arguments[0]!r}; {hint}")
        return super().resolve_command(context, arguments)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="gossamer")
def group() -> None:
    """Gossamer: a durable graph store, embedding tables and recommenders across MPI ranks."""


@group.command()
@click.argument("config", type=click.Path())
@click.option("-n", "--ranks", type=click.IntRange(1), help="Ranks to start; under mpiexec those found are used.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def train(config: str, ranks: int | None, as_json: bool) -> None:
    """Train the model that CONFIG, a TOML file, describes.

    Example: gossamer train clicks.toml -n 2
    """
    found = launch.world_size()
    if not found and ranks is not None and ranks > 1:
        from mpi_runner import config as configuration

        configuration.load(config)
        launch.replace_process(ranks, ["train", config, *(["--json"] if as_json else [])])
    if found and ranks not in (None, found) and launch.world_rank() == 0:
        click.echo(f"gossamer: mpiexec started {found} ranks; -n {ranks} is not used", err=True)
    from mpi_runner import job

    _leave(job.train(config, as_json=as_json))


@group.command()
@click.argument("run", type=click.Path())
@click.option(
    "-k",
    "ks",
    type=click.IntRange(1, 10_000),
    multiple=True,
    help="Length of the ranking; may be repeated.  [default: train.k of the run]",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def evaluate(run: str, ks: tuple[int, ...], as_json: bool) -> None:
    """Rank all items for the held-out users of a finished RUN.

    Example: gossamer evaluate runs/clicks --json
    """
    from mpi_runner.evaluate import TrainedRun

    with TrainedRun(run) as trained:
        scores, counts = trained.evaluate(ks)
    if as_json:
        click.echo(json.dumps({**scores, **counts}))
        return
    for name, score in scores.items():
        click.echo(f"{name:<14}{score:.4f}")
    for name, count in counts.items():
        if count:
            click.echo(f"{name.replace('_', ' '):<14}{count:,}")


@group.command()
@click.argument("run", type=click.Path())
@click.option("--ids", required=True, help="User ids, separated by commas.")
@click.option("-k", default=20, show_default=True, type=click.IntRange(1, 10_000), help="Items for each user.")
@click.option("--include-seen", is_flag=True, help="Also items that the user has in the training edges.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def recommend(run: str, ids: str, k: int, include_seen: bool, as_json: bool) -> None:
    """Recommend items to users by a finished RUN.

    Example: gossamer recommend runs/clicks --ids 17,42 -k 10
    """
    from mpi_runner.cli_options import parse_ids
    from mpi_runner.evaluate import TrainedRun

    with TrainedRun(run) as trained:
        kind = trained.store.node_types[trained.edge_type.src].id_type
        results = trained.recommend(parse_ids(ids, kind), k, include_seen=include_seen)
    if as_json:
        click.echo(json.dumps({"k": k, "results": results}))
        return
    for result in results:
        click.echo(f"{result['id']}:")
        for item, score in zip(result["items"], result["scores"]):
            click.echo(f"  {item}  {score:.4f}")


@group.command()
@click.option("--dir", "folder", type=click.Path(), default="demo", show_default=True, help="Where the files go.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object on stdout.")
def demo(folder: str, as_json: bool) -> None:
    """Show the whole way on generated data, in a few minutes.

    Example: gossamer demo --dir demo
    """
    from mpi_runner import demo as demonstration

    _leave(demonstration.run(folder, as_json=as_json))


def _leave(status: int) -> None:
    """End the command with a status."""
    if status:
        raise click.exceptions.Exit(status)


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit: 0 done, 1 the data or the run failed, 2 the command was used wrongly."""
    sys.exit(_status(lambda: group.main(arguments, prog_name="gossamer", standalone_mode=False)))


def _status(call: Callable[[], Any]) -> int:
    try:
        status = call()
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        return 2
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx is not None else "gossamer"
        return _fail(2, f"{where}: {error.format_message()} (see {where} --help)")
    except click.ClickException as error:
        return _fail(error.exit_code, f"gossamer: {error.format_message()}")
    except ConfigError as error:
        return _fail(2, f"gossamer: {error}")
    except click.exceptions.Exit as error:
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _fail(1, "gossamer: interrupted")
    except BrokenPipeError:
        # The reader of our output has gone: nothing is left to say, not even at the interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if not isinstance(error, _expected()):
            if launch.world_size() > 1:
                return _abort(error)
            raise
        return _fail(1, f"gossamer: {' '.join(str(error).split()) or type(error).__name__}")


def _abort(error: Exception) -> int:
    """End all ranks for a failure outside what `guard.run` watches, such as a package that this rank lacks."""
    from mpi_runner import guard
    from mpi_runner.transport import Transport

    transport = Transport.world()
    guard.report(error, transport)
    time.sleep(guard.ABORT_SECONDS)
    transport.abort(1)
    return 1


def _expected() -> tuple[type[Exception], ...]:
    from mpi_runner.guard import expected_errors

    return RunError, *expected_errors()


def _fail(status: int, message: str) -> int:
    """Print a message, on rank 0 only where all ranks come to the same one, and return the status."""
    if launch.world_rank() == 0:
        click.echo(" ".join(message.split()), err=True)
    return status


if __name__ == "__main__":
    main()
