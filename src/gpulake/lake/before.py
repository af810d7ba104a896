"""The ledger tables under their former names: views in schema `before`.

`used` was called productive, what sensors measured in a job was called used, and `unknown` counted as unallocated.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpulake.lake.engine import Connection, text

SCHEMA = "before"
_HELD = "idle_gpu_hours under_used_gpu_hours lost_gpu_hours unobserved_gpu_hours productive_gpu_hours"
_LEDGER = f"capacity_gpu_hours down_gpu_hours unallocated_gpu_hours {_HELD}"
_NOTES = "recorded_down_gpu_hours inferred_gpu_hours overcommitted_gpu_hours"
# The former columns of each table.
COLUMNS = {
    "gold_machine_hours": f"cluster_id machine_key started_at dt gpu_type {_LEDGER} {_NOTES}",
    "gold_ledger_hourly": f"cluster_id started_at dt gpu_type {_LEDGER} {_NOTES}",
    "gold_ledger_daily": f"cluster_id dt gpu_type user_id group_id workload {_LEDGER} inferred_gpu_hours",
    "gold_job_efficiency_daily": (
        "cluster_id dt job_key job_id user_id group_id workload gpu_type status attempts held_gpu_hours "
        f"{_HELD} inferred_gpu_hours used_gpu_hours gpu_efficiency_ratio"
    ),
    "gold_user_gpu_usage_daily": (
        "cluster_id user_id dt jobs failed_jobs held_gpu_hours productive_gpu_hours idle_gpu_hours "
        "under_used_gpu_hours lost_gpu_hours unobserved_gpu_hours inferred_gpu_hours"
    ),
}
CHANGED: Mapping[str, str] = {
    "productive_gpu_hours": "used_gpu_hours",
    "unallocated_gpu_hours": "unallocated_gpu_hours + unknown_gpu_hours",
    "used_gpu_hours": "measured_gpu_hours",
}
# Tables carried over from an older build have other columns.
BUILT = """
SELECT table_name FROM duckdb_columns()
WHERE database_name = {catalogue} AND schema_name = 'main' AND column_name = 'lost_at_least_gpu_hours'
"""


def name_as_before(connection: Connection, catalogue: str) -> None:
    """Creates the views of the tables that exist."""
    connection.execute(f"CREATE SCHEMA IF NOT EXISTS {catalogue}.{SCHEMA}")
    built = {row[0] for row in connection.execute(BUILT.format(catalogue=text(catalogue))).fetchall()}
    for table, columns in COLUMNS.items():
        if table in built:
            chosen = ", ".join(f"{CHANGED.get(column, column)} AS {column}" for column in columns.split())
            # Unqualified by catalogue: the file may be attached under any name.
            rows = f"SELECT {chosen} FROM main.{table}"
            connection.execute(f"CREATE OR REPLACE VIEW {catalogue}.{SCHEMA}.{table} AS {rows}")
