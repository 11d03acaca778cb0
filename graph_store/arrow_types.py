"""Types of Arrow columns: the plain ones that all others are turned into, and which can hold which part of a row."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from graph_store.arrow_features import is_text, type_fault
from graph_store.arrow_numbers import is_number
from graph_store.errors import BadInput
from graph_store.row_batch import Field
from graph_store.row_plan import RowPlan


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return the type without dictionary, extension and view; texts have their large form."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return pa.large_string()
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return pa.large_binary()
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(kind.value_type)
    return kind


def plain(column: pa.ChunkedArray) -> pa.Array:
    """Return a column in one piece, of the type that `plain_type` says."""
    joined = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    while isinstance(joined.type, pa.BaseExtensionType):
        joined = joined.storage
    kind = plain_type(joined.type)
    if pa.types.is_list_view(joined.type) or pa.types.is_large_list_view(joined.type):
        return _from_views(joined)
    return joined if joined.type == kind else joined.cast(kind)


def _from_views(column: pa.Array) -> pa.LargeListArray:
    """Return a column of list views as lists; Arrow's own cast leaves wrong offsets behind nulls (26.0)."""
    lengths = pc.list_value_length(column).fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=True)
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    mask = column.is_null() if column.null_count else None
    return pa.LargeListArray.from_arrays(pa.array(offsets), column.flatten(), mask=mask)


def check_type(plan: RowPlan, field: Field, given: pa.DataType, time_unit: str | None) -> None:
    """Raise BadInput unless a column of the type `given` can hold its part of a row."""
    kind = plain_type(given)
    named = given.value_type if pa.types.is_dictionary(given) else given
    place = f"{plan.path}: column {field.label} ({field.part}) has type {named}"
    if field.feature is not None:
        expected = type_fault(field.feature, kind)
        remedy = f"{expected}; convert it where the file is written, or declare another kind" if expected else None
    elif field.node_type is not None:
        remedy = _id_type_fault(field, kind)
    elif field.role == "relation":
        remedy = None if is_text(kind) or pa.types.is_integer(kind) else "expected strings; write the column as strings"
    elif field.role == "time":
        remedy = _time_type_fault(kind, time_unit)
    else:
        remedy = None if is_number(kind) else "expected floats or integers; convert it where the file is written"
    if remedy is not None:
        raise BadInput(f"{place}, {remedy}")


def _id_type_fault(field: Field, kind: pa.DataType) -> str | None:
    assert field.node_type is not None
    name = field.node_type.name
    if field.kind == "string":
        if is_text(kind):
            return None
        advice = "declare integer ids" if pa.types.is_integer(kind) else "write the column as strings"
        return f"but node type {name!r} has string ids; {advice}"
    if is_number(kind):
        return None
    if is_text(kind):
        return f"but node type {name!r} has integer ids; declare string ids"
    return "expected integer ids; write the column as int64"


def _time_type_fault(kind: pa.DataType, time_unit: str | None) -> str | None:
    if pa.types.is_timestamp(kind):
        if time_unit in (None, kind.unit):
            return None
        return f"but time_unit is {time_unit!r}; say time_unit = {kind.unit!r}, or convert it where the file is written"
    return None if is_number(kind) else "expected integers or timestamps; convert it where the file is written"
