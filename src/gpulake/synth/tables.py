"""Tables: the rows of each published file, as batches of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gpulake.synth import columns
from gpulake.synth.draws import generator
from gpulake.synth.facts import CPU_TYPE, GPU_TYPES, HEADERS, STATUSES, TYPES, WAITING, curve, habits
from gpulake.synth.ids import Ids
from gpulake.synth.jobs import workloads
from gpulake.synth.metrics import Metrics
from gpulake.synth.nodes import devices_of
from gpulake.synth.tasks import role_names
from gpulake.synth.trace import Trace
from gpulake.synth.usage import GANG_NOISE, Usage

BLOCK_ROWS = 200_000
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
            columns.words(trace.job_status[number], STATUSES),
            columns.seconds(people.jobs.submitted_at[number], np.ones(len(number), dtype=bool)),
            columns.seconds(np.maximum(end, 0), end >= 0),
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
            columns.words(people.tasks.role[number], role_names()),
            columns.floats(people.tasks.size[number]),
            columns.words(trace.job_status[job], STATUSES),
            columns.seconds(np.maximum(start, 0), start >= 0),
            columns.seconds(np.maximum(end, 0), end >= 0),
            columns.floats(people.plan_cpu[number]),
            columns.floats(people.plan_mem[number]),
            columns.floats(people.tasks.plan_gpu[number], has_gpu),
            columns.words(np.where(has_gpu | (kind == CPU_TYPE), kind, -1), TYPES),
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
            columns.words(people.tasks.role[task], role_names()),
            ids.column("instance", rows.instance[number]),
            ids.column("worker", rows.worker[number], is_waiting),
            ids.column("inst", job),
            columns.words(rows.status[number], STATUSES),
            columns.seconds(rows.started_at[number], rows.is_start_known[number]),
            columns.seconds(rows.ended_at[number], rows.is_end_known[number]),
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
            columns.words(people.tasks.role[task], role_names()),
            ids.column("worker", rows.worker[number]),
            ids.column("inst", job),
            ids.column("machine", rows.machine[number]),
            columns.words(device, [f"/dev/nvidia{index}" for index in range(8)]),
            columns.decimals(usage.cpu_percent[task] * near, 4),
            columns.decimals(usage.gpu_percent[task] * near, 4),
            columns.decimals(usage.mem_gb[task] * near, 6),
            columns.decimals(usage.mem_gb[task] * near * peak, 6),
            columns.decimals(usage.gpu_mem_gb[task] * near, 6),
            columns.decimals(usage.gpu_mem_gb[task] * near * (1 + (peak - 1) / 2), 6),
            columns.decimals(read, 2),
            columns.decimals(write, 2),
            columns.decimals(read / rng.uniform(3e3, 12e3, len(number)), 4),
            columns.decimals(write / rng.uniform(2e3, 9e3, len(number)), 4),
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
            columns.words(wanted[number], GPU_TYPES),
            ids.column("group", people.jobs.group[number]),
            columns.words(workload[number], list(table["workloads"])),
        )


def machine_specs(source: Source) -> Batches:
    machines = source.trace.population.machines
    yield batch(
        "pai_machine_spec",
        source.ids.column("machine", np.arange(len(machines))),
        columns.words(machines.gpu_type, TYPES),
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
            columns.seconds(rows.started_at[number], is_known),
            columns.seconds(rows.ended_at[number], is_known),
            columns.decimals(metrics.iowait[place], 7),
            columns.decimals(metrics.kernel[place], 4),
            columns.decimals(metrics.usr[place], 4),
            columns.decimals(metrics.gpu[place], 4),
            columns.decimals(metrics.load_1[place], 4),
            columns.decimals(metrics.net_receive[place], 2),
            columns.decimals(metrics.num_worker[place], 5),
            columns.decimals(metrics.cpu[place], 4),
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
