"""Our column types as the engine, Delta and Arrow name them."""

from __future__ import annotations

import pyarrow as pa
from deltalake import Field, Schema
from deltalake.schema import PrimitiveType

from gpulake.core.tables import Table

TYPES = {
    "text": ("VARCHAR", "string", pa.string()),
    "number": ("DOUBLE", "double", pa.float64()),
    "real": ("DOUBLE", "double", pa.float64()),
    "integer": ("BIGINT", "long", pa.int64()),
    "flag": ("BOOLEAN", "boolean", pa.bool_()),
    "date": ("DATE", "date", pa.date32()),
    "time": ("TIMESTAMPTZ", "timestamp", pa.timestamp("us", "UTC")),
    "local_time": ("TIMESTAMP", "timestamp_ntz", pa.timestamp("us")),
    "json": ("JSON", "string", pa.string()),
}
ENGINE, DELTA, ARROW = ({kind: names[place] for kind, names in TYPES.items()} for place in range(3))


def engine_types(table: Table) -> dict[str, str]:
    return {name: ENGINE[kind] for name, kind in table.column_types.items()}


def delta_schema(table: Table) -> Schema:
    return Schema([Field(name, PrimitiveType(DELTA[kind]), nullable=True) for name, kind in table.column_types.items()])


def arrow_schema(table: Table) -> pa.Schema:
    return pa.schema([(name, ARROW[kind]) for name, kind in table.column_types.items()])
