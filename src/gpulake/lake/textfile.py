"""A text file to Parquet by the engine, which keeps the rows that do not parse."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

from gpulake.core.tables import Table
from gpulake.core.types import BadRow, CsvLayout
from gpulake.lake.blocks import SOURCE_KEY, Copied
from gpulake.lake.engine import Connection, text
from gpulake.lake.fields import is_in_range, read_type, selected
from gpulake.lake.sanitise import bad_row, check_bad_rows

BLOCK_BYTES = 1 << 20
# Ids are random hex: the first level is both faster and smaller here than the default one.
# To look for a dictionary in such a column, and to write a filter over it, costs a quarter of the time for nothing.
PARQUET_OPTIONS = (
    "FORMAT parquet, PARQUET_VERSION v2, COMPRESSION zstd, COMPRESSION_LEVEL 1,"
    " DICTIONARY_SIZE_LIMIT 100, WRITE_BLOOM_FILTER false, ROW_GROUP_SIZE 61440"
)


_NO_NUMBER = re.compile(
    r'CAST: Error when converting column "(?P<column>\w+)"\. Could not convert string "(?P<value>.*)" to .*', re.DOTALL
)


def count_lines(path: Path) -> int:
    lines = 0
    last = b"\n"
    with path.open("rb", buffering=0) as file:
        while block := file.read(BLOCK_BYTES):
            lines += block.count(b"\n")
            last = block[-1:]
    return lines + int(last != b"\n")


def copy_csv(connection: Connection, path: Path, layout: CsvLayout, parquet: Path, source: str) -> Copied:
    kinds = layout.table.column_types
    columns = ", ".join(f"{text(column)}: {text(read_type(kinds[column]))}" for column in layout.file_columns)
    chosen = ", ".join(selected(column, layout) for column in layout.table.column_names)
    connection.execute("DROP TABLE IF EXISTS reject_errors")
    connection.execute("DROP TABLE IF EXISTS reject_scans")
    query = f"""
        SELECT {chosen}
        FROM read_csv(
            {text(str(path))}, columns = {{{columns}}}, auto_detect = false, header = {layout.has_header},
            compression = 'none',
            delim = {text(layout.delimiter)}, quote = {text(layout.quote)}, escape = {text(layout.quote)},
            store_rejects = true, rejects_limit = 0
        )
    """
    copied = copy_query(connection, query, layout.table, parquet, source)
    return replace(copied, bad=_rejects(connection))


def copy_query(connection: Connection, query: str, table: Table, parquet: Path, source: str) -> Copied:
    """The file names its source, so the origin of its rows is known even if its commit is lost."""
    counted = connection.execute(
        f"COPY ({query}) TO {text(str(parquet))}"
        f" ({PARQUET_OPTIONS}, RETURN_STATS, KV_METADATA {{{SOURCE_KEY}: {text(source)}}})"
    ).fetchone()
    if counted is None:
        return Copied(0, {}, [])
    kinds = table.column_types
    statistics = {column.strip('"'): values for column, values in counted[4].items()}
    null_counts = {column: int(values.get("null_count", 0)) for column, values in statistics.items()}
    numbers = [(column, values) for column, values in statistics.items() if kinds[column] in ("number", "integer")]
    sound = all(
        values.get("has_nan") != "true"
        and all(is_in_range(table, column, float(values[side])) for side in ("min", "max") if side in values)
        for column, values in numbers
    )
    return Copied(counted[1], null_counts, [], sound)


def _rejects(connection: Connection) -> list[BadRow]:
    count, reason = connection.execute("SELECT count(*), any_value(error_message) FROM reject_errors").fetchall()[0]
    check_bad_rows(count, reason)
    # A row has an error for each bad column; the first of them is reason enough.
    rows = connection.execute(
        """
        SELECT line, arg_min(error_type || ': ' || error_message, error_message), any_value(csv_line)
        FROM reject_errors GROUP BY line ORDER BY line
        """
    ).fetchall()
    return [bad_row(line, _said(reason), (row or "").strip("\r\n")) for line, reason, row in rows]


def _said(reason: str) -> str:
    """The engine's words for a value that is no number, as a reader of the file would put it."""
    line = reason.replace("\n", " ")
    found = _NO_NUMBER.match(line)
    return f"{found['column']} is {found['value']!r}, which is not a number" if found else line
