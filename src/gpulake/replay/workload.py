"""A workload that a simulator can run again: tasks, what they used over time, and the machines they ran on.

Times are milliseconds of the epoch, work is megahertz summed over cores, memory is kilobytes: simulators count so.
A workload is a stream of parts, so that a trace of millions of tasks needs no more memory than a small one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field, fields, replace

import pyarrow as pa

from gpulake.core.config import GpuType
from gpulake.core.gpu_models import matching

LARGEST_ID = 2**31 - 1
GPUS_OF_A_HOST = 8  # where the number is unknown
ARROW = {
    "int": pa.int64(),
    "float": pa.float64(),
    "str": pa.string(),
    "bool": pa.bool_(),
    "tuple[int, ...]": pa.list_(pa.int64()),
}


@dataclass(frozen=True)
class Task:
    """What one machine did for one job, without a break."""

    id: int
    name: str | None
    submission_ms: int
    duration_ms: int
    cpu_count: int
    cpu_capacity_mhz: float
    mem_capacity_kb: int
    gpu_count: int | None = None
    gpu_capacity_mhz: float | None = None
    parents: tuple[int, ...] | None = None
    children: tuple[int, ...] | None = None
    deferrable: bool | None = None
    deadline_ms: int | None = None


@dataclass(frozen=True)
class Fragment:
    """A stretch of a task in which it used the same; a task's fragments follow each other."""

    id: int
    duration_ms: int
    cpu_usage_mhz: float
    gpu_usage_mhz: float | None = None


def _schema(row: type[Task] | type[Fragment]) -> pa.Schema:
    kinds = {column.name: str(column.type) for column in fields(row)}
    return pa.schema(
        [pa.field(name, ARROW[kind.removesuffix(" | None")], kind.endswith("None")) for name, kind in kinds.items()]
    )


TASKS, FRAGMENTS = _schema(Task), _schema(Fragment)


@dataclass(frozen=True)
class Host:
    """Machines that are alike. None: unknown."""

    name: str
    count: int
    cores: int | None
    core_mhz: float
    memory_bytes: int | None
    gpus: int = 0
    gpu_type: str | None = None
    gpu_idle_watts: float | None = None
    gpu_busy_watts: float | None = None


@dataclass(frozen=True)
class Outage:
    """A machine was down."""

    machine: str
    started_ms: int
    ended_ms: int


@dataclass(frozen=True)
class Part:
    """Some tasks in the order of their submission, and all fragments of these, task by task."""

    tasks: pa.RecordBatch
    fragments: pa.RecordBatch


@dataclass(frozen=True)
class Clockwork:
    """The MHz of a core and of a GPU. A GPU of several cores can be shared by tasks that need a part of it."""

    core_mhz: float = 2400.0  # where a machine does not say
    gpu_mhz: float = 1000.0
    gpu_cores: int = 1


@dataclass
class Notes:
    """What was not as simple as it looks, by reason: filled in while the parts are read."""

    read: int = 0  # rows of the source that might have been a task
    left_out: Counter[str] = field(default_factory=Counter)
    inferred: Counter[str] = field(default_factory=Counter)  # worked out from what is nearest
    guessed: Counter[str] = field(default_factory=Counter)  # an assumption, since there is nothing to go by
    split: Counter[str] = field(default_factory=Counter)
    remarks: Counter[str] = field(default_factory=Counter)
    gpu_hours: float = 0.0  # of all tasks
    assumed_gpu_hours: float = 0.0  # of tasks whose use of GPUs was not measured


@dataclass(frozen=True)
class Workload:
    name: str
    origin: Mapping[str, object]  # what it was made from
    parts: Iterator[Part]
    notes: Notes
    hosts: Sequence[Host] = ()
    outages: Sequence[Outage] = ()
    machines: int = 0  # that the outages are of
    clock: Clockwork = field(default_factory=Clockwork)


def pool_hosts(name: str, gpus: int, most_gpus: int, gpu_type: str | None, core_mhz: float) -> list[Host]:
    """A cluster of which only the number of GPUs is known, in hosts of eight, or of as many as a task needs."""
    each = max(GPUS_OF_A_HOST, most_gpus)
    full, rest = divmod(gpus, each)
    hosts = [Host(name, full, None, core_mhz, None, each, gpu_type)] if full else []
    return [*hosts, Host(f"{name}-rest", 1, None, core_mhz, None, rest, gpu_type)] if rest else hosts


def powered(host: Host, gpu_types: Mapping[str, GpuType]) -> Host:
    """The host with the power of its GPUs, if known."""
    known = matching(host.gpu_type, gpu_types) if host.gpu_type else None
    if known is None or known.idle_watts < 0 or known.busy_watts < 0:
        return host
    return replace(host, gpu_idle_watts=known.idle_watts, gpu_busy_watts=known.busy_watts)


def part_of(tasks: Sequence[Task], fragments: Sequence[Fragment]) -> Part:
    return Part(_batch(tasks, TASKS), _batch(fragments, FRAGMENTS))


def _batch(rows: Sequence[Task] | Sequence[Fragment], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*map(astuple, rows), strict=True) if rows else ([] for _ in schema)
    arrays = [pa.array(list(values), kind.type) for values, kind in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
