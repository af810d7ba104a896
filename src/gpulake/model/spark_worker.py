"""What Spark's workers import: functions of Arrow columns that DuckDB evaluates."""

from __future__ import annotations

from functools import cache
from typing import Any

import duckdb
import pyarrow as pa


@cache
def _connection() -> duckdb.DuckDBPyConnection:
    """One for each worker, which has one core; rows stay in their order."""
    connection = duckdb.connect(config={"threads": 1})
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    return connection


def evaluated(sql: str, columns: tuple[pa.Array, ...]) -> pa.Array:
    given = pa.table(list(columns), names=[f"c{place}" for place in range(len(columns))])
    connection = _connection()
    connection.register("given", given)
    found = connection.execute(f"SELECT {sql} AS found FROM given").to_arrow_table().column("found")
    return pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)


def arrow_function(sql: str, returns: str) -> Any:
    """As Spark registers it."""
    from pyspark.sql.functions import arrow_udf

    def call(*columns: pa.Array) -> pa.Array:
        return evaluated(sql, columns)

    # Spark reads the annotations themselves.
    call.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    return arrow_udf(call, returns)
