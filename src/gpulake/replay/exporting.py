"""What of the lake is exported: the jobs of a cluster, or a workload that was imported, which goes out unchanged.

Of an imported workload nothing is changed: the same rows and columns, in the same order. What is odd about it is
counted, since a simulator does not report it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa

from gpulake.core.config import GpuType
from gpulake.core.errors import InputError, UsageError
from gpulake.core.packaged import queries
from gpulake.core.workloads import GPU_MHZ
from gpulake.lake import LakeReader
from gpulake.replay.exports import Exported
from gpulake.replay.exports.opendc import OpendcExport
from gpulake.replay.from_lake import Selection, choose, clusters, from_lake
from gpulake.replay.workload import Clockwork, Host, Notes


def export_lake(
    reader: LakeReader,
    cluster: str | None,
    user: str | None,
    days: tuple[date | None, date | None],
    export: OpendcExport,
    clock: Clockwork,
    gpu_types: Mapping[str, GpuType],
    folder: Path,
) -> Exported:
    built, imported = clusters(reader)
    chosen = choose(cluster, sorted({*built, *imported}))
    if chosen not in imported:
        return export.write(from_lake(reader, Selection(chosen, user, *days, clock), gpu_types), folder)
    if user or any(days):
        raise UsageError(f"{chosen} was imported: it goes out whole", "leave out --user, --from and --to")
    if clock != Clockwork() or export.has_plain_times or export.schema_version != OpendcExport.schema_version:
        raise UsageError(
            f"{chosen} was imported: it goes out as it came in",
            "leave out what would change it: sizes, times and versions",
        )
    return export_imported(reader, chosen, export, folder)


ROWS = 65_536
SQL = queries("gpulake.replay", "exporting.sql")
REMARKS = {
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
    tasks, fragments = (_file(reader, name, SQL[query]) for query in ("task_files", "fragment_files"))
    (facts,) = reader.query(SQL["oddities"], workload=name).to_pylist()
    notes = Notes(read=tasks["rows"])
    for fact, words in REMARKS.items():
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
        for table, file, query in (("tasks", tasks, SQL["tasks"]), ("fragments", fragments, SQL["fragments"]))
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
