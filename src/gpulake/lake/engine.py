"""The embedded engine behind a few verbs. Nothing outside `lake` and `model` opens it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import duckdb
from deltalake.exceptions import DeltaError

from gpulake.core.errors import LakeBusyError, LakeError, UsageError

Connection = duckdb.DuckDBPyConnection
# Parts of the engine's messages about damaged Parquet files and databases.
DAMAGE = (
    *(
        "magic bytes",
        "No files found that match",
        "TProtocolException",
        "Decompression failure",
        "decompression failed",
    ),
    *("checksum", "not a valid DuckDB database", "Could not read enough bytes", "Failed to read file", "footer"),
    *(
        "out of buffer",
        "Cannot open file",
        "deserializ",
        "Failed to read Parquet",
        "Parquet file",
        "cannot read bronze_",
    ),
    *("cannot read quarantine", "INTERNAL Error", "corrupt", "Corrupt", "ZSTD", "Out of buffer"),
)
# The start of the error of a query on rows that cannot be read, and its hint.
DAMAGED = "cannot read"
REPAIR = "see what is damaged with: gpulake doctor --deep; repair it with: gpulake repair"
Value: TypeAlias = str | int | float | None


def connect(memory_limit: str, threads: int, spill: Path | None) -> Connection:
    try:
        connection = duckdb.connect(
            config={
                "memory_limit": memory_limit,
                "threads": threads or os.cpu_count() or 1,
                "temp_directory": str(spill) if spill else "",
                # Rows of a table have no order; keeping one costs memory.
                "preserve_insertion_order": False,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            }
        )
    except (duckdb.ParserException, duckdb.InvalidInputException) as error:
        raise UsageError(f"memory_limit {memory_limit!r}: {first_line(error)}", "write it like 400MB or 2GB") from error
    # A day must not depend on the time zone of the operator's machine.
    connection.execute("SET GLOBAL TimeZone = 'UTC'")
    connection.execute("SET enable_progress_bar = false")
    # Windows meet the few days they fall on: looping over those beats sorting all of these.
    connection.execute("SET nested_loop_join_threshold = 200")
    return connection


def text(value: str) -> str:
    """A string literal."""
    return "'" + value.replace("'", "''") + "'"


def literal(value: Value) -> str:
    """A value as SQL writes it; a fraction is a double, since a decimal rounds."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return text(value)
    return f"{text(repr(value))}::{'BIGINT' if isinstance(value, int) else 'DOUBLE'}"


def name(value: str) -> str:
    """A quoted identifier."""
    return '"' + value.replace('"', '""') + '"'


def surrogate_key(*columns: str) -> str:
    """SQL of the key that models make of such columns: their macro of this name, which a test holds equal."""
    return f"cast(hash({', '.join(columns)}) >> 1 as bigint)"


def first_line(error: Exception) -> str:
    return re.sub(r"^\w+ Error: ", "", str(error).splitlines()[0])


def row_counts(connection: Connection, database: str = "lake") -> dict[str, int]:
    """The rows of each table of an attached database, in the order of their names."""
    built = f"duckdb_tables() WHERE database_name = {text(database)}"
    return dict(connection.execute(f"SELECT table_name, estimated_size FROM {built} ORDER BY ALL").fetchall())


def create_table(
    connection: Connection, target: str, columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """A small table from Python's rows. As text, since binding values would import pandas wherever it is installed."""
    document = text(json.dumps(list(rows), default=str, allow_nan=False))
    connection.execute(
        f"CREATE OR REPLACE TABLE {target} AS"
        f" SELECT unnest(from_json({document}::JSON, {text(json.dumps([dict(columns)]))}), recursive := true)"
    )


@contextmanager
def lake_errors(doing: str) -> Iterator[None]:
    """Turns errors of the engine and the disk into errors with a hint."""
    try:
        yield
    except duckdb.OutOfMemoryException as error:
        raise LakeError(
            f"{doing}: {first_line(error)}", "raise memory_limit or free disk space for spilling"
        ) from error
    except DeltaError as error:
        raise LakeError(f"{doing}: a Delta table is damaged: {first_line(error)}", REPAIR) from error
    except (duckdb.IOException, OSError) as error:
        if is_damage(error):
            raise LakeError(f"{doing}: {first_line(error)}", REPAIR) from error
        raise LakeBusyError(f"{doing}: {first_line(error)}", _io_hint(error)) from error
    except duckdb.Error as error:
        raise LakeError(f"{doing}: {first_line(error)}", REPAIR) from error


def is_damage(error: Exception) -> bool:
    """Whether the engine read a damaged file, rather than a wrong query."""
    words = str(error)
    if any(full in words for full in ("No space left", "ENOSPC", "ermission denied")):
        return False
    return any(sign in words for sign in DAMAGE)


def _io_hint(error: Exception) -> str:
    words = str(error)
    if "No space left" in words or "ENOSPC" in words:
        return "free disk space and run the command again; nothing was half-written"
    if "ermission denied" in words:
        return "give this user write access to the lake's folder"
    return "check the disk and run the command again; nothing was half-written"
