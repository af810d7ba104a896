"""One more day: the trace cut at a midnight, so that a lake of all but the last day can be extended by it."""

from __future__ import annotations

import shutil
from pathlib import Path

import duckdb

TABLES = (
    "pai_job_table",
    "pai_task_table",
    "pai_instance_table",
    "pai_sensor_table",
    "pai_group_tag_table",
    "pai_machine_metric",
)
# By which column a table is cut, and which of its values come with the last day.
LAST = {
    "pai_group_tag_table": ("inst_id", "SELECT inst_id FROM late"),
    "pai_machine_metric": ("worker_name", "SELECT worker_name FROM late_workers"),
}
BY_JOB = ("job_name", "SELECT job_name FROM late")


def split(trace: Path, out: Path) -> tuple[Path, Path]:
    """Jobs by the day of their end, or of their submission where they have none, in the trace's own time zone."""
    base, day = out / "base", out / "day"
    if day.exists():
        return base, day
    for folder in (base, day):
        folder.mkdir(parents=True)
    connection = duckdb.connect()
    for table in TABLES:
        header = (trace / f"{table}.header").read_text(encoding="utf-8")
        names = ", ".join(f"'{column.strip()}'" for column in header.split(","))
        source = f"read_csv('{trace / table}.csv', header = false, all_varchar = true, names = [{names}])"
        connection.execute(f"CREATE VIEW {table} AS FROM {source}")
    # Midnight in Shanghai is 16 o'clock in UTC.
    last = "SELECT quantile_disc(start_time::DOUBLE, 0.9999) FROM pai_job_table"
    midnight = f"floor((({last}) + 28800) / 86400) * 86400 - 28800"
    connection.execute(
        "CREATE TABLE late AS SELECT job_name, inst_id FROM pai_job_table"
        f" WHERE coalesce(end_time::DOUBLE, start_time::DOUBLE) >= {midnight}"
    )
    connection.execute(
        "CREATE TABLE late_workers AS SELECT DISTINCT worker_name"
        " FROM pai_instance_table SEMI JOIN late USING (job_name)"
    )
    for table in TABLES:
        column, late = LAST.get(table, BY_JOB)
        for folder, which in ((base, "NOT"), (day, "")):
            rows = f"FROM {table} WHERE {which} coalesce({column} IN ({late}), false)"
            connection.execute(f"COPY ({rows}) TO '{folder / table}.csv' (HEADER false)")
    for file in ("pai_machine_spec.csv", "tpu_gpus.csv"):
        shutil.copy(trace / file, base / file)
    return base, day
