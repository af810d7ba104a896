"""tasks.parquet, fragments.parquet and failures.parquet, exactly as OpenDC's schemas have them.

The loader resolves columns by name and reads ids with `addInt`: an id that is not INT32 fails, and a column that its
schema calls required must be so in the file.

OpenDC replays one failure after the other: it waits for `failure_interval` from the end of the last one, takes a share
of the hosts down (which ones, it draws), and brings them back after `failure_duration`. Outages that overlap are
therefore one failure here, whose intensity is the mean share of machines that was down: the machine-time that is lost
stays the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from types import TracebackType

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gpulake.core.workloads import GPU_MHZ
from gpulake.replay.workload import Outage


@dataclass(frozen=True)
class Failure:
    interval_ms: int
    duration_ms: int
    intensity: float  # above 0, at most 1


def failures(outages: Sequence[Outage], machines: int, began_ms: int) -> list[Failure]:
    """From the first submission on. What comes after the last task has no effect."""
    spans = sorted((max(outage.started_ms, began_ms), outage.ended_ms) for outage in outages)
    found = []
    last_end = began_ms
    for start, end, lost_ms in _merged([span for span in spans if span[0] < span[1]]):
        intensity = min(1.0, lost_ms / ((end - start) * max(1, machines)))
        found.append(Failure(start - last_end, end - start, intensity))
        last_end = end
    return found


def failure_batch(rows: Sequence[Failure]) -> pa.RecordBatch:
    columns = zip(*map(astuple, rows), strict=True)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns], schema=FAILURES)


def _merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Spans that overlap as one, with the sum of their lengths."""
    merged: list[tuple[int, int, int]] = []
    for start, end in spans:
        if merged and start <= merged[-1][1]:
            first, last, lost = merged[-1]
            merged[-1] = (first, max(last, end), lost + end - start)
        else:
            merged.append((start, end, end - start))
    return merged


# Parquet's three levels: list, element.
IDS = pa.list_(pa.field("element", pa.int32()))
FRAGMENTS_V2 = pa.schema(
    [
        pa.field("id", pa.int32(), nullable=False),
        pa.field("duration", pa.int64(), nullable=False),
        pa.field("cpu_usage", pa.float64(), nullable=False),
        pa.field("gpu_usage", pa.float64()),
    ]
)
FAILURES = pa.schema(
    [
        pa.field("failure_interval", pa.int64()),
        pa.field("failure_duration", pa.int64()),
        pa.field("failure_intensity", pa.float64()),
    ]
)
# Our columns under the names of the files.
TASK_NAMES = {
    "submission_time": "submission_ms",
    "duration": "duration_ms",
    "cpu_capacity": "cpu_capacity_mhz",
    "mem_capacity": "mem_capacity_kb",
    "gpu_capacity": "gpu_capacity_mhz",
    "deadline": "deadline_ms",
}
FRAGMENT_NAMES = {"duration": "duration_ms", "cpu_usage": "cpu_usage_mhz", "gpu_usage": "gpu_usage_mhz"}
# What version 2 called deferrable: the kind of a task, in a word.
NATURE = "nature"


def task_schema(version: int, has_plain_times: bool) -> pa.Schema:
    """Version 3 is today's; version 2 has `nature` in the place of `deferrable`."""
    time = pa.int64() if has_plain_times else pa.timestamp("ms", tz="UTC")
    kind = pa.field("deferrable", pa.bool_()) if version == 3 else pa.field(NATURE, pa.string())
    return pa.schema(
        [
            pa.field("id", pa.int32(), nullable=False),
            pa.field("name", pa.string()),
            pa.field("submission_time", time, nullable=False),
            pa.field("duration", pa.int64(), nullable=False),
            pa.field("cpu_count", pa.int32(), nullable=False),
            pa.field("cpu_capacity", pa.float64(), nullable=False),
            pa.field("mem_capacity", pa.int64(), nullable=False),
            pa.field("gpu_count", pa.int32()),
            pa.field("gpu_capacity", pa.float64()),
            pa.field("parents", IDS),
            pa.field("children", IDS),
            kind,
            pa.field("deadline", pa.int64()),
        ]
    )


def task_batch(tasks: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = []
    for wanted in schema:
        if wanted.name == NATURE:
            arrays.append(pc.if_else(tasks.column("deferrable"), "deferrable", pa.scalar(None, pa.string())))
        else:
            arrays.append(tasks.column(TASK_NAMES.get(wanted.name, wanted.name)).cast(wanted.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def fragment_batch(fragments: pa.RecordBatch) -> pa.RecordBatch:
    arrays = [fragments.column(FRAGMENT_NAMES.get(kind.name, kind.name)).cast(kind.type) for kind in FRAGMENTS_V2]
    return pa.RecordBatch.from_arrays(arrays, schema=FRAGMENTS_V2)


class TableFile:
    """A Parquet file in the making, in a form that Java's readers support."""

    def __init__(self, path: Path, schema: pa.Schema, gpu_mhz: float | None = None) -> None:
        self.rows = 0
        self._writer = pq.ParquetWriter(path, schema, compression="snappy", version="2.6", store_schema=False)
        if gpu_mhz is not None:
            self._writer.add_key_value_metadata({GPU_MHZ: f"{gpu_mhz:g}"})

    def __enter__(self) -> TableFile:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._writer.close()

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self._writer.write_batch(batch)
