"""The views through which SQL sees what lies outside the build's database file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from gpulake.core.tables import BronzeTable
from gpulake.core.types import Landing
from gpulake.lake import quarantine
from gpulake.lake.engine import Connection, name, text
from gpulake.lake.textfile import ENGINE_TYPES

# The catalogue that the dbt project calls `landed`.
LANDED = "landed"
RUN_COLUMNS = {
    "run_id": "VARCHAR",
    "step": "VARCHAR",
    "status": "VARCHAR",
    "started_at": "TIMESTAMPTZ",
    "seconds": "DOUBLE",
    "detail": "JSON",
}
TEST_COLUMNS = {
    "build_id": "VARCHAR",
    "name": "VARCHAR",
    "table": "VARCHAR",
    "column": "VARCHAR",
    "severity": "VARCHAR",
    "status": "VARCHAR",
    "failures": "BIGINT",
    "seconds": "DOUBLE",
    "description": "VARCHAR",
}
LANDING_SCHEMA = pa.schema(
    [
        ("source", pa.string()),
        ("table", pa.string()),
        ("sha256", pa.string()),
        ("size_bytes", pa.int64()),
        ("rows_read", pa.int64()),
        ("rows_landed", pa.int64()),
        ("rows_quarantined", pa.int64()),
        ("version", pa.int64()),
        ("landed_at", pa.timestamp("us", "UTC")),
        ("file", pa.string()),
    ]
)


def bronze_view(connection: Connection, table: BronzeTable, files: Sequence[Path]) -> None:
    columns = {column.name: ENGINE_TYPES[column.type] for column in table.columns}
    _view(connection, table.name, _parquet(files) if files else _empty(columns))


def quarantine_view(connection: Connection, files: Sequence[Path]) -> None:
    types = {"text": "VARCHAR", "integer": "BIGINT", "time": "TIMESTAMPTZ"}
    columns = {column: types[kind] for column, kind in quarantine.COLUMNS.items()}
    rows = _parquet(files) if files else _empty(columns)
    # Rows of a content whose landing was cut short are not there yet.
    _view(connection, "quarantine", f"{rows} SEMI JOIN landed.landings USING (source, sha256)")


def landings_view(connection: Connection, landings: Sequence[Landing]) -> None:
    rows = [{field: getattr(landing, field) for field in LANDING_SCHEMA.names} for landing in landings]
    arrow = pa.Table.from_pylist(rows, schema=LANDING_SCHEMA)
    connection.register("arrow_landings", arrow)
    connection.execute(f"CREATE TABLE {LANDED}.landings AS SELECT * FROM arrow_landings")
    connection.unregister("arrow_landings")


def json_view(connection: Connection, view: str, columns: dict[str, str], path: Path) -> None:
    if not path.exists():
        _view(connection, view, _empty(columns))
        return
    types = ", ".join(f"{text(column)}: {text(kind)}" for column, kind in columns.items())
    # A line that a crash cut short is no row.
    rows = (
        f"FROM read_json({text(str(path))}, columns = {{{types}}}, format = 'newline_delimited', ignore_errors = true)"
    )
    _view(connection, view, f"{rows} SELECT * WHERE {name(next(iter(columns)))} IS NOT NULL")


def _view(connection: Connection, view: str, body: str) -> None:
    connection.execute(f"CREATE VIEW {LANDED}.{name(view)} AS {body}")


def _parquet(files: Sequence[Path]) -> str:
    return f"FROM read_parquet([{', '.join(text(str(file)) for file in files)}], hive_partitioning = false)"


def _empty(columns: dict[str, str]) -> str:
    selected = ", ".join(f"NULL::{kind} AS {name(column)}" for column, kind in columns.items())
    return f"FROM (SELECT {selected} WHERE false)"
