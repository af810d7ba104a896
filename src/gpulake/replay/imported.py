"""An imported workload is exported unchanged: the same rows and columns, in the same order.

Nothing of it is changed. What is odd about it is counted, since a simulator does not report it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpulake.core.errors import InputError
from gpulake.core.workloads import GPU_MHZ
from gpulake.lake import LakeReader
from gpulake.replay.exports import Exported
from gpulake.replay.exports.opendc import OpendcExport
from gpulake.replay.workload import Clockwork, Host, Notes

ROWS = 65_536
TASKS = "SELECT * FROM bronze_opendc_tasks WHERE workload = getvariable('workload') ORDER BY file_row"
FRAGMENTS = "SELECT * FROM bronze_opendc_fragments WHERE workload = getvariable('workload') ORDER BY file_row"
FILES = """
SELECT
    count(*) AS rows,
    count(DISTINCT file_row) AS places,
    any_value(file_columns) AS file_columns
FROM {table} WHERE workload = getvariable('workload')
"""
TASK_FILES = FILES.format(table="bronze_opendc_tasks")
FRAGMENT_FILES = FILES.format(table="bronze_opendc_fragments")
ODDITIES = """
WITH used AS (
    SELECT
        id,
        sum(duration) AS duration,
        max(cpu_usage) AS cpu_usage,
        max(gpu_usage) AS gpu_usage
    FROM bronze_opendc_fragments WHERE workload = getvariable('workload')
    GROUP BY id
),

tasks AS (
    SELECT *, lag(submission_time) OVER (ORDER BY file_row) AS last_submission_time
    FROM bronze_opendc_tasks WHERE workload = getvariable('workload')
),

events AS (
    SELECT submission_time AS instant, 1 AS change FROM tasks
    UNION ALL
    SELECT submission_time + duration AS instant, -1 AS change FROM tasks
),

running AS (
    SELECT sum(change) OVER (ORDER BY instant, change) AS tasks_at_once FROM events
)

SELECT
    count(*) FILTER (WHERE used.id IS NULL) AS without_fragments,
    count(*) FILTER (WHERE used.duration != tasks.duration) AS not_covered,
    count(*) FILTER (WHERE used.cpu_usage > tasks.cpu_capacity) AS cpu_above,
    count(*) FILTER (WHERE used.gpu_usage > tasks.gpu_capacity) AS gpu_above,
    count(*) FILTER (WHERE tasks.submission_time < tasks.last_submission_time) AS out_of_order,
    count(*) - count(DISTINCT tasks.id) AS same_id,
    coalesce(max(tasks.cpu_count), 1) AS most_cores,
    coalesce(max(tasks.cpu_capacity / greatest(tasks.cpu_count, 1)), 0) AS core_mhz,
    coalesce(max(tasks.gpu_count), 0) AS most_gpu_cores,
    coalesce(max(tasks.gpu_capacity / greatest(tasks.gpu_count, 1)), 0) AS gpu_mhz,
    coalesce(max(tasks.mem_capacity), 1) AS most_kb,
    (SELECT cast(max(running.tasks_at_once) AS bigint) FROM running) AS tasks_at_once
FROM tasks
LEFT JOIN used ON tasks.id = used.id
"""
SAID = {
    "without_fragments": "tasks without fragments: OpenDC skips them",
    "not_covered": "tasks whose fragments are longer or shorter than they are",
    "cpu_above": "tasks that use more CPU than they have",
    "gpu_above": "tasks that use more GPU than they have",
    "out_of_order": "tasks that were submitted before the one above them",
    "same_id": "tasks with the id of another",
}
LISTS = re.compile(r"list<(\w+): (\w+)( not null)?>")
TIMES = re.compile(r"timestamp\[(\w+)(?:, tz=(.+))?\]")
NOT_NULL = " not null"


def export_imported(reader: LakeReader, name: str, export: OpendcExport, folder: Path) -> Exported:
    """The files as they were, with a topology and an experiment for them."""
    tasks, fragments = (_file(reader, name, query) for query in (TASK_FILES, FRAGMENT_FILES))
    (facts,) = reader.query(ODDITIES, workload=name).to_pylist()
    notes = Notes(read=tasks["rows"])
    for fact, words in SAID.items():
        if facts[fact]:
            notes.remarks[words] += facts[fact]
    notes.guessed["hosts: of the size of the largest task, as many as tasks would run at once"] += 1
    hosts = [
        Host(
            name=name,
            count=max(1, facts["tasks_at_once"]),
            cores=max(1, facts["most_cores"]),
            core_mhz=facts["core_mhz"] or Clockwork().core_mhz,
            # OpenDC compares megabytes with mebibytes.
            memory_bytes=max(1, -(-facts["most_kb"] // 1000)) * 2**20,
            gpus=facts["most_gpu_cores"],
        )
    ]
    clock = Clockwork(hosts[0].core_mhz, facts["gpu_mhz"] or Clockwork().gpu_mhz)
    tables = {
        f"{table}.parquet": (file["schema"], _batches(reader, name, query, file["schema"]), file["gpu_mhz"])
        for table, file, query in (("tasks", tasks, TASKS), ("fragments", fragments, FRAGMENTS))
    }
    return export.write_as_it_was(tables, name, hosts, clock, notes, folder)


def _file(reader: LakeReader, name: str, query: str) -> dict[str, Any]:
    (facts,) = reader.query(query, workload=name).to_pylist()
    if not facts["rows"]:
        raise InputError(f"workload {name!r} has no tasks, or no fragments", "import both of its files")
    if facts["rows"] != facts["places"]:
        raise InputError(
            f"the files of two workloads landed as {name!r}", "import them into a lake of their own, with --name"
        )
    kinds = json.loads(facts["file_columns"])
    gpu_mhz = kinds.pop(GPU_MHZ, None)
    schema = pa.schema(
        pa.field(column, _type(kind.removesuffix(NOT_NULL)), nullable=not kind.endswith(NOT_NULL))
        for column, kind in kinds.items()
    )
    return {"rows": facts["rows"], "schema": schema, "gpu_mhz": None if gpu_mhz is None else float(gpu_mhz)}


def _type(kind: str) -> pa.DataType:
    if found := LISTS.fullmatch(kind):
        element, of, is_required = found.groups()
        return pa.list_(pa.field(element, _type(of), nullable=not is_required))
    if found := TIMES.fullmatch(kind):
        return pa.timestamp(*found.groups())
    return pa.type_for_alias(kind)


def _batches(reader: LakeReader, name: str, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in reader.stream(query, ROWS, workload=name):
        arrays = [_as_it_was(batch.column(column.name), column.type) for column in schema]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _as_it_was(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_list(kind):
        return pa.array([None if text is None else json.loads(text) for text in column.to_pylist()], kind)
    if pa.types.is_timestamp(kind):
        return column.cast(pa.timestamp("ms", kind.tz)).cast(kind)
    return column.cast(kind)
