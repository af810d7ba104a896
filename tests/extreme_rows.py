"""Rows of every bronze table at the edges of what may land: one value of each is the least, the most, or missing."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gpulake.core.clock import LATEST_SECOND
from gpulake.core.tables import Table, bronze_tables
from gpulake.core.types import Landing
from gpulake.lake import Lake, delta
from gpulake.lake.fields import LARGEST_INTEGER, LARGEST_NUMBER, LARGEST_SIZE_BYTES
from gpulake.lake.types import arrow_schema, delta_schema

USUAL_ROWS = 150
BEGIN = datetime(2023, 3, 1, tzinfo=UTC)
WORDS: dict[str, str | None] = {
    **dict.fromkeys(("step", "array_job_id", "array_task_id", "het_job_id", "het_offset")),
    "status": "Terminated",
    "state": "COMPLETED",
    "State": "COMPLETED",
    "base_state": "COMPLETED",
    "pod_phase": "Succeeded",
    "task_name": "worker",
    "kind": "xid",
    "vc": "total",
    "metric": "DCGM_FI_DEV_GPU_UTIL",
    "labels": '{"gpu": "0", "UUID": "GPU-0", "Hostname": "n"}',
    "js1": '{"nodes": {"n": {"total_time": 1}}, "total_time": 1}',
    "file_columns": "{}",
    "cluster": "venus",
    "Cluster": "slurm",
    "workload": "load",
    "owner_kind": "slurm",
    "time_zone": "Asia/Kolkata",
    "condition": "up",
    "source": "mlperf",
}
# Columns of which readers know every value.
CHOSEN = {"time_zone": (None, "UTC"), "condition": ("down", "draining"), "source": ("wandb", "huggingface")}
STRANGE_TEXTS = ("-1", "1e999", "nan", "x" * 1000)
# Columns of JSON, which readers write themselves, of what a file says.
STRANGE_JSON = (
    '{"nodes": {"n": {"total_time": -1, "gpu_utilization": {"0": -5}}}, "total_time": 1}',
    '{"nodes": {"n": {"total_time": 1e300, "used_memory": 1e300, "gpu_used_memory": {"0": -1}}}, "total_time": 1e-9}',
    '{"gpulake.gpu_mhz": "-1"}',
    '{"gpulake.gpu_mhz": "1e-300"}',
    '{"gpu": "-1", "UUID": "", "Hostname": ""}',
    "[]",
)
JSON = ("file_columns", "js1", "labels")
SAME = ("cluster", "list", "workload", "file", "folder", "task_name", "gpu_type", "nodes", "node", "node_id", "machine")


def land_extremes(lake: Lake) -> int:
    """Past the checks of a landing: what these let pass, and nothing else, is in the rows."""
    count = 0
    for table in bronze_tables().values():
        rows = list(_rows(table))
        count += len(rows)
        folder = lake.bronze.folder / table.name
        folder.mkdir(parents=True)
        file = f"{uuid.uuid4().hex}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema(table)), folder / file)
        landing = Landing(table.name, table.name, table.name, 1, len(rows), len(rows), 0, 1, BEGIN, file)
        metadata = {**asdict(landing), "landed_at": BEGIN.isoformat()}
        delta.commit(folder, delta_schema(table), [delta.DataFile(file, len(rows), {})], table.name, metadata)
    return count


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    for number in range(USUAL_ROWS):
        yield _usual(table, number)
    number = USUAL_ROWS
    for column in table.columns:
        for value in _extremes(table, column.name, column.type):
            if value is not None or column.name not in table.required:
                yield {**_usual(table, number), column.name: value}
                number += 1


def _usual(table: Table, number: int) -> dict[str, Any]:
    at = BEGIN + timedelta(minutes=10 * number)
    return {column.name: _value(table, column.name, column.type, number, at) for column in table.columns}


def _value(table: Table, column: str, kind: str, number: int, at: datetime) -> Any:
    later = at + timedelta(hours=1) if "end" in column.lower() or "deletion" in column else at
    match kind:
        case "text":
            return WORDS.get(column, "n" if column in SAME else f"k{number}")
        case "time":
            return later
        case "local_time":
            return later.replace(tzinfo=None)
        case "date":
            return later.date()
        case "flag":
            return number % 2 == 0
        case "real":
            return 1.0
    if column.endswith("_time") and table.name != "bronze_opendc_tasks":
        return later.timestamp()
    is_moment = column == "submission_time" or column == "ts_ms" or column.startswith("ts_") or column == "ts"
    value = later.timestamp() * 1000 if is_moment else 1
    return int(value) if kind == "integer" else float(value)


def _extremes(table: Table, column: str, kind: str) -> tuple[Any, ...]:
    last = datetime(2099, 12, 31, 23, 59, 59, tzinfo=UTC)
    match kind:
        case "text" if column in CHOSEN:
            return CHOSEN[column]
        case "text":
            return (None, *(STRANGE_JSON if column in JSON else STRANGE_TEXTS))
        case "time":
            return (None, datetime(1970, 1, 1, tzinfo=UTC), last)
        case "local_time":
            return (None, datetime(1970, 1, 1, tzinfo=UTC).replace(tzinfo=None), last.replace(tzinfo=None))
        case "date":
            return (None, date(1970, 1, 1), last.date())
        case "flag":
            return (None,)
        case "real":
            return (None, math.nan, math.inf, -math.inf, 1e300, -1e300, -1.0)
    least, most = _bounds(table, column, kind)
    return (None, 0, 1, least, most) if kind == "integer" else (None, 0.0, 0.5, float(least), float(most))


def _bounds(table: Table, column: str, kind: str) -> tuple[Any, Any]:
    if column in table.ranges:
        least, most = table.ranges[column]
        return int(least), int(most)
    if column.endswith("_ms") or column.startswith("ts"):
        return 0, LATEST_SECOND * 1000
    if kind == "integer":
        return -LARGEST_INTEGER, LARGEST_INTEGER
    if column.endswith("_time"):
        return 0, LATEST_SECOND
    most = LARGEST_SIZE_BYTES if column.endswith("_bytes") else LARGEST_NUMBER
    return -most, most
