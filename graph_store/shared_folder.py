"""The folder of an ingest by several ranks: made by rank 0, known to all."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from graph_store.ranks import Ranks, gather_json, together
from graph_store.workplace import job_folder


@contextmanager
def shared_job_folder(
    target: Path, ranks: Ranks, *, overwrite: bool, resume: Callable[[Path], None] | None = None
) -> Iterator[Path]:
    """Give every rank the folder that `workplace.job_folder` gives rank 0, which moves the store at the end.

    Raises
    ------
    BadInput
        As of `job_folder`, on all ranks.
    """
    with ExitStack() as stack:

        def enter() -> str:
            if ranks.rank:
                return ""
            return str(stack.enter_context(job_folder(target, overwrite=overwrite, resume=resume)))

        own = together(ranks, enter)
        yield Path(gather_json(ranks, own)[0])
        together(ranks, stack.close)
