"""Tables: the rows of each published file, as batches of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulake.synth.draws import Bools, Floats, Ids, Ints, generator
from gpulake.synth.facts import CPU_TYPE, GPU_TYPES, HEADERS, STATUSES, TYPES, WAITING, curve, habits
from gpulake.synth.nodes import devices_of
from gpulake.synth.tasks import role_names, workloads
from gpulake.synth.trace import Trace
from gpulake.synth.usage import GANG_NOISE, Metrics, Usage

BLOCK_ROWS = 200_000
TIME_DIGITS = 7  # every second of this trace lies between 1,000,000 and 9,999,999
SUFFIX = b".0"
Batches = Iterator[pa.RecordBatch]


@dataclass(frozen=True)
class Source:
    """All that tables are made from."""

    trace: Trace
    usage: Usage
    metrics: Metrics
    ids: Ids


def batch(table: str, *values: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(values), names=HEADERS[table].split(","))


def blocks(count: int) -> Iterator[NDArray[np.int64]]:
    for low in range(0, count, BLOCK_ROWS):
        yield np.arange(low, min(low + BLOCK_ROWS, count))


def jobs(source: Source) -> Batches:
    trace, ids = source.trace, source.ids
    people = trace.population
    for number in blocks(len(people.jobs)):
        end = trace.job_ended_at[number]
        yield batch(
            "pai_job_table",
            ids.column("job", number),
            ids.column("inst", number),
            ids.column("user", people.jobs.user[number]),
            words(trace.job_status[number], STATUSES),
            seconds(people.jobs.submitted_at[number], np.ones(len(number), dtype=bool)),
            seconds(np.maximum(end, 0), end >= 0),
        )


def tasks(source: Source) -> Batches:
    trace, ids = source.trace, source.ids
    people = trace.population
    for number in blocks(len(people.tasks)):
        job, kind = people.tasks.job[number], people.tasks.gpu_type[number]
        start, end = trace.task_started_at[number], trace.task_ended_at[number]
        has_gpu = people.tasks.has_gpu[number]
        yield batch(
            "pai_task_table",
            ids.column("job", job),
            words(people.tasks.role[number], role_names()),
            floats(people.tasks.size[number]),
            words(trace.job_status[job], STATUSES),
            seconds(np.maximum(start, 0), start >= 0),
            seconds(np.maximum(end, 0), end >= 0),
            floats(people.plan_cpu[number]),
            floats(people.plan_mem[number]),
            floats(people.tasks.plan_gpu[number], has_gpu),
            words(np.where(has_gpu | (kind == CPU_TYPE), kind, -1), TYPES),
        )


def instances(source: Source) -> Batches:
    trace, ids = source.trace, source.ids
    people, rows = trace.population, trace.rows
    for number in blocks(len(rows)):
        task = rows.task[number]
        job = people.tasks.job[task]
        is_waiting = rows.status[number] == WAITING
        yield batch(
            "pai_instance_table",
            ids.column("job", job),
            words(people.tasks.role[task], role_names()),
            ids.column("instance", rows.instance[number]),
            ids.column("worker", rows.worker[number], is_waiting),
            ids.column("inst", job),
            words(rows.status[number], STATUSES),
            seconds(rows.started_at[number], rows.is_start_known[number]),
            seconds(rows.ended_at[number], rows.is_end_known[number]),
            ids.column("machine", np.maximum(rows.machine[number], 0), is_waiting),
        )


def sensors(source: Source) -> Batches:
    trace, ids, usage = source.trace, source.ids, source.usage
    people, rows = trace.population, trace.rows
    measured = np.flatnonzero(usage.has_sensor)
    for place in blocks(len(measured)):
        rng = generator(trace.seed, 22, int(place[0]))
        number = measured[place]
        task = rows.task[number]
        job = people.tasks.job[task]
        is_gang = people.tasks.size[task] > 1
        near = 1 + GANG_NOISE * is_gang * rng.uniform(-1, 1, len(number))
        peak = 1 + rng.exponential(0.35, len(number))
        device = devices_of(number, people.machines.cap_gpu[rows.machine[number]], people.tasks.plan_gpu[task])
        read = curve("network", "read_gbit").value(rng.random(len(number))) * 2**30 / 8
        write = read * np.exp(rng.normal(-0.7, 1.0, len(number)))
        yield batch(
            "pai_sensor_table",
            ids.column("job", job),
            words(people.tasks.role[task], role_names()),
            ids.column("worker", rows.worker[number]),
            ids.column("inst", job),
            ids.column("machine", rows.machine[number]),
            words(device, [f"/dev/nvidia{index}" for index in range(8)]),
            decimals(usage.cpu_percent[task] * near, 4),
            decimals(usage.gpu_percent[task] * near, 4),
            decimals(usage.mem_gb[task] * near, 6),
            decimals(usage.mem_gb[task] * near * peak, 6),
            decimals(usage.gpu_mem_gb[task] * near, 6),
            decimals(usage.gpu_mem_gb[task] * near * (1 + (peak - 1) / 2), 6),
            decimals(read, 2),
            decimals(write, 2),
            decimals(read / rng.uniform(3e3, 12e3, len(number)), 4),
            decimals(write / rng.uniform(2e3, 9e3, len(number)), 4),
        )


def groups(source: Source) -> Batches:
    trace, ids = source.trace, source.ids
    people = trace.population
    rng = generator(trace.seed, 23)
    table = habits()["groups"]
    workload = workloads(people.jobs, rng)
    first_task = np.searchsorted(people.tasks.job, np.arange(len(people.jobs)))
    asks = people.tasks.has_gpu[first_task] & (rng.random(len(people.jobs)) < table["gpu_type_spec_share"])
    wanted = np.where(asks, people.tasks.gpu_type[first_task], -1)
    for number in blocks(len(people.jobs)):
        yield batch(
            "pai_group_tag_table",
            ids.column("inst", number),
            ids.column("user", people.jobs.user[number]),
            words(wanted[number], GPU_TYPES),
            ids.column("group", people.jobs.group[number]),
            words(workload[number], list(table["workloads"])),
        )


def machine_specs(source: Source) -> Batches:
    machines = source.trace.population.machines
    yield batch(
        "pai_machine_spec",
        source.ids.column("machine", np.arange(len(machines))),
        words(machines.gpu_type, TYPES),
        pa.array(machines.cap_cpu),
        pa.array(machines.cap_mem),
        pa.array(machines.cap_gpu),
    )


def machine_metrics(source: Source) -> Batches:
    rows, ids, metrics = source.trace.rows, source.ids, source.metrics
    for place in blocks(len(metrics.row)):
        number = metrics.row[place]
        is_known = np.ones(len(number), dtype=bool)
        yield batch(
            "pai_machine_metric",
            ids.column("worker", rows.worker[number]),
            ids.column("machine", rows.machine[number]),
            seconds(rows.started_at[number], is_known),
            seconds(rows.ended_at[number], is_known),
            decimals(metrics.iowait[place], 7),
            decimals(metrics.kernel[place], 4),
            decimals(metrics.usr[place], 4),
            decimals(metrics.gpu[place], 4),
            decimals(metrics.load_1[place], 4),
            decimals(metrics.net_receive[place], 2),
            decimals(metrics.num_worker[place], 5),
            decimals(metrics.cpu[place], 4),
        )


MAKERS: dict[str, Callable[[Source], Batches]] = {
    "pai_instance_table": instances,
    "pai_sensor_table": sensors,
    "pai_machine_metric": machine_metrics,
    "pai_job_table": jobs,
    "pai_task_table": tasks,
    "pai_group_tag_table": groups,
    "pai_machine_spec": machine_specs,
}
"""Largest first, so that two writers finish together."""


# Columns: numbers turned into the text of the published files.


def words(codes: Ints, names: Sequence[str]) -> pa.Array:
    """The name of each code; -1 and the empty name are written as nothing."""
    known = pa.array([name or None for name in names], pa.string())
    return known.take(pa.array(codes, mask=np.asarray(codes) < 0))


def seconds(second: Ints, is_known: Bools) -> pa.Array:
    """Times as "4550879.0", or nothing."""
    width = TIME_DIGITS + len(SUFFIX)
    text = np.empty((len(second), width), dtype=np.uint8)
    rest = np.asarray(second, dtype=np.uint32)
    for place in range(TIME_DIGITS - 1, -1, -1):
        rest, digit = np.divmod(rest, np.uint32(10))
        text[:, place] = digit + 48
    text[:, TIME_DIGITS:] = np.frombuffer(SUFFIX, dtype=np.uint8)
    offsets = np.arange(0, (len(second) + 1) * width, width, dtype=np.int32)
    mask = pa.py_buffer(np.packbits(is_known, bitorder="little"))
    return pa.Array.from_buffers(pa.string(), len(second), [mask, pa.py_buffer(offsets), pa.py_buffer(text)])


def floats(value: Floats | Ints, is_known: Bools | None = None) -> pa.Array:
    """Few distinct numbers as Python writes floats: "600.0", "29.296875"."""
    distinct, index = np.unique(np.asarray(value, dtype=float), return_inverse=True)
    codes = index if is_known is None else np.where(is_known, index, -1)
    return words(codes, [repr(float(number)) for number in distinct])


def decimals(value: NDArray[np.float64], digits: int) -> pa.Array:
    return pa.array(np.round(value, digits))
