"""Our column types in the words of the engine, of Delta and of Arrow."""

from __future__ import annotations

import pyarrow as pa
from deltalake import Field, Schema
from deltalake.schema import PrimitiveType

from gpulake.core.tables import Table

ENGINE = {
    "text": "VARCHAR",
    "number": "DOUBLE",
    "real": "DOUBLE",
    "integer": "BIGINT",
    "flag": "BOOLEAN",
    "date": "DATE",
    "time": "TIMESTAMPTZ",
    "local_time": "TIMESTAMP",
    "json": "JSON",
}
DELTA = {
    "text": "string",
    "number": "double",
    "real": "double",
    "integer": "long",
    "flag": "boolean",
    "date": "date",
    "time": "timestamp",
    "local_time": "timestamp_ntz",
    "json": "string",
}
ARROW = {
    "text": pa.string(),
    "number": pa.float64(),
    "real": pa.float64(),
    "integer": pa.int64(),
    "flag": pa.bool_(),
    "date": pa.date32(),
    "time": pa.timestamp("us", "UTC"),
    "local_time": pa.timestamp("us"),
    "json": pa.string(),
}


def engine_types(table: Table) -> dict[str, str]:
    return {name: ENGINE[kind] for name, kind in table.column_types.items()}


def delta_schema(table: Table) -> Schema:
    return Schema([Field(name, PrimitiveType(DELTA[kind]), nullable=True) for name, kind in table.column_types.items()])


def arrow_schema(table: Table) -> pa.Schema:
    return pa.schema([(name, ARROW[kind]) for name, kind in table.column_types.items()])
