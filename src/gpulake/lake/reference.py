"""The tables of the reference system under its own column names: views in schema `reference`."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

import duckdb

from gpulake.core.packaged import queries
from gpulake.lake import views
from gpulake.lake.engine import Connection, text

SCHEMA = "reference"
READS = ("bronze_job_events", "bronze_machine_metrics")


def offer(connection: Connection, landed: views.Landed, schema: str) -> None:
    """The views are made when a query first names the schema, or at once where it is the one to look in first."""
    own = f"{views.LANDED}.{SCHEMA}"
    connection.execute(f"CREATE SCHEMA {own}")
    landed.add(SCHEMA, partial(_name_tables, connection, own), *READS)
    landed.make_named(schema)
    path = f"{own},{views.SEARCH_PATH}" if schema == SCHEMA else f"{views.SEARCH_PATH},{own}"
    connection.execute(f"SET search_path = {text(path)}")


def _name_tables(connection: Connection, own: str) -> None:
    for table, rows in queries("gpulake.lake", "reference.sql").items():
        with suppress(duckdb.CatalogException):  # not built yet
            connection.execute(f"CREATE VIEW {own}.{table} AS {rows}")
