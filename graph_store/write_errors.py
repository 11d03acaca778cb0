"""What goes wrong when files are written, as one clear error."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from graph_store.errors import GraphStoreError


@contextmanager
def write_errors(target: Path, outcome: str = "nothing was stored") -> Iterator[None]:
    """Turn an error of the file system, or a plain one of RocksDB, into a GraphStoreError that names `target`.

    Raises
    ------
    GraphStoreError
        The disk is full, or a file cannot be written.
    """
    try:
        yield
    except GraphStoreError:
        raise
    except Exception as error:
        if not isinstance(error, OSError) and type(error) is not Exception:  # RocksDB's are plain
            raise
        full = "No space left" in str(error) or getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
        cause = "no space left on the disk" if full else f"cannot write: {error}"
        remedy = "; make room and do it again" if full and "when there is room" not in outcome else ""
        raise GraphStoreError(f"{target}: {cause}; {outcome}{remedy}") from error
