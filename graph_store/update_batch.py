"""A batch of updates as the log holds it: a list of operations, each on the nodes or edges of one type.

=============== ======================================================================================
operation       arrays
=============== ======================================================================================
`new_nodes`     `ids` int64, or `bytes` uint8 and `starts` int64: they get the next numbers of their shards
`revive_nodes`  `nodes` int64: deleted nodes whose ids came again
`delete_nodes`  `nodes` int64: with all edges at them
`add_edges`     `src`, `dst` int64, perhaps `weight` float32, `time` int64, `row` int64 (first edge id)
`delete_edges`  `src`, `dst` int64, perhaps `time` int64; without times every edge between the two
`expire`        `before` int64[1]: edges of earlier times
`set_features`  `nodes` int64, `F.section` of the features F, one row a node; or of edges `rows` int64
=============== ======================================================================================

The payload is a JSON table of the operations with the name, dtype and length of each array, its length (4 bytes) in
front, and behind it the arrays, each from a multiple of 8 bytes on.
"""

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

NEW, REVIVE, DELETE_NODES = "new_nodes", "revive_nodes", "delete_nodes"
ADD, DELETE, EXPIRE = "add_edges", "delete_edges", "expire"
SET_NODES, SET_EDGES = "set_features", "set_edge_features"


@dataclass(frozen=True)
class Operation:
    """One operation.

    Attributes
    ----------
    kind : str
    number : int
        Of the node type or the edge type.
    arrays : dict of str to np.ndarray
    """

    kind: str
    number: int
    arrays: Mapping[str, np.ndarray] = field(default_factory=dict)


def to_payload(operations: Sequence[Operation]) -> bytes:
    """Return the bytes of a batch."""
    table = [
        [each.kind, each.number, [[name, array.dtype.str, array.size] for name, array in each.arrays.items()]]
        for each in operations
    ]
    head = json.dumps(table, separators=(",", ":")).encode()
    parts = [struct.pack("<I", len(head)), head, b"\0" * (-(4 + len(head)) % 8)]
    for each in operations:
        for array in each.arrays.values():
            data = np.ascontiguousarray(array).tobytes()
            parts += [data, b"\0" * (-len(data) % 8)]
    return b"".join(parts)


def from_payload(payload: bytes) -> list[Operation]:
    """Read a batch back; the arrays are views of `payload`."""
    (length,) = struct.unpack_from("<I", payload)
    at = (4 + length + 7) // 8 * 8
    operations = []
    for kind, number, arrays in json.loads(payload[4 : 4 + length]):
        found = {}
        for name, dtype, size in arrays:
            found[name] = np.frombuffer(payload, dtype, size, at)
            at += (found[name].nbytes + 7) // 8 * 8
        operations.append(Operation(kind, number, found))
    return operations
