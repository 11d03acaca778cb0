"""The errors of the package: what a table or its checkpoint may refuse."""


class TableError(Exception):
    """A table is in a state that does not allow what was asked."""


class ForeignId(TableError, ValueError):
    """An id belongs to a logical shard that this table does not hold."""


class TableFull(TableError):
    """A shard would pass the largest number of rows a slot number can name."""


class CheckpointNotFound(TableError, FileNotFoundError):
    """There is no complete checkpoint at the path."""


class CorruptCheckpoint(TableError):
    """A file of a checkpoint is missing, truncated, changed, or not what its manifest says."""


class SegmentNotFound(TableError, FileNotFoundError):
    """No table of that name is published in the shared folder."""
