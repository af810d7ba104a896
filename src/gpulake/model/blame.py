"""Which landed file a row that breaks a data test came from, so that the user can fix it or undo its landing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from gpulake.core.tables import bronze_tables
from gpulake.lake import Staging
from gpulake.lake.engine import name, text
from gpulake.model.plan import Plan, PlannedTest

# The table and the column that have the id of a key.
KEYS = {"machine_key": ("silver_machines", "machine_id"), "job_key": ("silver_jobs", "job_id")}
# Ids that are shared by too many rows to name a file.
SHARED_IDS = ("cluster_id", "group_id", "user_id", "account_id")


@dataclass(frozen=True)
class Blamed:
    column: str
    value: str
    source: str
    line: int | None  # None: an archive, or the file is no longer there

    def __str__(self) -> str:
        line = f", line {self.line}" if self.line else ""
        return f"{self.column} {self.value!r} landed from {self.source}{line}"


def blame(staging: Staging, plan: Plan, test: PlannedTest, sql: str) -> Blamed | None:
    """The first row that breaks the test, if its ids stand in a landed file."""
    try:
        for column, value in _ids(staging, sql):
            if source := _source(staging, plan, test.table, value):
                return Blamed(column, value, source, _line(source, value))
    except duckdb.Error:
        # A damaged file must not hide the failed test.
        return None
    return None


def _ids(staging: Staging, sql: str) -> Iterator[tuple[str, str]]:
    rows: list[dict[str, Any]] = staging.read(f"FROM ({sql}) LIMIT 1").to_pylist()
    row = rows[0] if rows else {}
    for column, value in row.items():
        if column.endswith("_id") and column not in SHARED_IDS and isinstance(value, str):
            yield column, value
        elif column in KEYS and value is not None and KEYS[column][0] in staging.tables():
            table, id_column = KEYS[column]
            found = staging.read(f'SELECT {id_column} FROM "lake"."main".{table} WHERE {column} = {int(value)} LIMIT 1')
            yield from ((id_column, str(row[id_column])) for row in found.to_pylist())


def _source(staging: Staging, plan: Plan, table: str, value: str) -> str:
    live = staging.lake.live()
    for bronze in plan.bronze()[table]:
        held = [landing for source in live[bronze].values() for landing in source.held]
        texts = [column.name for column in bronze_tables()[bronze].columns if column.type == "text"]
        if not held or not texts:
            continue
        files = ", ".join(text(str(path)) for path in staging.lake.bronze.files(bronze))
        said = " OR ".join(f"{name(column)} = {text(value)}" for column in texts)
        rows = f"read_parquet([{files}], filename = true, file_row_number = true)"
        found = staging.read(f"SELECT filename, file_row_number FROM {rows} WHERE {said} LIMIT 1").to_pylist()
        places = staging.lake.bronze.slices(bronze)
        for landing in held if found else ():
            file, begin, count = places.get(landing.file, (landing.file, 0, landing.rows_landed))
            if file == Path(found[0]["filename"]).name and begin <= found[0]["file_row_number"] < begin + count:
                return landing.source
    return ""


def _line(source: str, value: str) -> int | None:
    try:
        with Path(source).open("rb") as lines:
            return next((number for number, line in enumerate(lines, start=1) if value.encode() in line), None)
    except OSError:
        return None
