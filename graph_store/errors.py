"""The errors of a graph store; each message says what, where, expected, got and remedy."""


class GraphStoreError(Exception):
    """Base of every error that a user of a store can cause or meet."""


class BadInput(GraphStoreError, ValueError):
    """An input file, a schema or an argument that cannot be taken as it is."""


class StoreNotFound(GraphStoreError, FileNotFoundError):
    """There is no complete store at the path."""

    def __str__(self) -> str:
        return str(self.args[0])


class StoreClosed(GraphStoreError, RuntimeError):
    """The store was used after `close`."""


class StoreBusy(GraphStoreError, RuntimeError):
    """Another process is writing to the store."""


class UnknownVersion(GraphStoreError, LookupError):
    """A version that the store does not keep."""


class CorruptBlock(GraphStoreError, RuntimeError):
    """Bytes on disk that fail a checksum, a magic number or an invariant."""


class UnknownEdgeType(GraphStoreError, KeyError):
    """The store has no edge type of that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class UnknownNodeType(UnknownEdgeType):
    """The store has no node type of that name."""


class UnknownId(GraphStoreError, KeyError):
    """An id that is no node of its type."""

    def __str__(self) -> str:
        return str(self.args[0])
