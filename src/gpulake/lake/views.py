"""The views through which SQL sees what lies outside the build's database file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from gpulake.core.tables import Latest, Table
from gpulake.core.types import Landing
from gpulake.lake.engine import Connection, create_table, name, text
from gpulake.lake.types import engine_types

# The catalogue that the dbt project calls `landed`.
LANDED = "landed"
# A content that landed, was taken back and landed again was quarantined twice.
LAST_QUARANTINED = "QUALIFY rank() OVER (PARTITION BY table_name, sha256 ORDER BY quarantined_at DESC) = 1"


def parquet_view(connection: Connection, table: Table, files: Sequence[Path], only: str = "") -> None:
    """The rows of the files, or of none; `only` narrows them down."""
    rows = ", ".join(text(str(file)) for file in files)
    body = f"FROM read_parquet([{rows}], hive_partitioning = false)" if files else _empty(table)
    _view(connection, table.name, f"{body} {only}")


def json_view(connection: Connection, table: Table, path: Path) -> None:
    if not path.exists():
        _view(connection, table.name, _empty(table))
        return
    types = ", ".join(f"{text(column)}: {text(kind)}" for column, kind in engine_types(table).items())
    options = "format = 'newline_delimited', ignore_errors = true"
    # A line that a crash cut short is no row.
    complete = f"WHERE {name(table.column_names[0])} IS NOT NULL"
    _view(connection, table.name, f"FROM read_json({text(str(path))}, columns = {{{types}}}, {options}) {complete}")


def latest_view(connection: Connection, table: Table, latest: Latest) -> None:
    """The last row of each key; of rows at the same time, the one that was written last."""
    rows = f"FROM (SELECT *, row_number() OVER () AS written FROM {LANDED}.{name(latest.of)})"
    window = f"PARTITION BY {name(latest.key)} ORDER BY {name(latest.order)} DESC, written DESC"
    last = f"QUALIFY row_number() OVER ({window}) = 1"
    _view(connection, table.name, f"SELECT * EXCLUDE (written) {rows} {last}")


def landings_table(connection: Connection, table: Table, landings: Sequence[Landing]) -> None:
    newest = {(landing.table, landing.source): landing.version for landing in landings}
    rows = [
        {
            **asdict(landing),
            "landing_id": landing.landing_id,
            "is_live": newest[landing.table, landing.source] == landing.version,
        }
        for landing in landings
        if landing.file
    ]
    create_table(connection, f"{LANDED}.main.{name(table.name)}", engine_types(table), rows)


def _view(connection: Connection, view: str, body: str) -> None:
    connection.execute(f"CREATE VIEW {LANDED}.{name(view)} AS {body}")


def _empty(table: Table) -> str:
    columns = ", ".join(f"NULL::{kind} AS {name(column)}" for column, kind in engine_types(table).items())
    return f"FROM (SELECT {columns} WHERE false)"
