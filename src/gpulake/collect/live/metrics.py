"""A snapshot as families of metrics (a name and its points), the input of the text page and of pushed messages."""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from gpulake import __version__
from gpulake.collect.live import subjects
from gpulake.collect.live.state import WINDOW_MS, Snapshot
from gpulake.collect.rows import GpuSample, HostSample, Process, ProcessSample
from gpulake.formats.names import Table
from gpulake.formats.prometheus import Labels

MOST_PROCESS_SERIES = 1_000
CPU_MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


class Point(NamedTuple):
    labels: Labels
    value: float
    start_ms: int  # start of a counter


@dataclass(frozen=True)
class Family:
    name: str
    kind: str
    unit: str
    help: str
    points: list[Point] = field(default_factory=list)


class _Page:
    def __init__(self, table: Table) -> None:
        self.table = table
        self.families: dict[str, Family] = {}

    def add(self, subject: str, values: Mapping[str, Any], labels: Labels = (), start_ms: int = 0) -> None:
        """A missing value gives no point; zero gives one."""
        for name in self.table.subjects[subject]:
            value = values.get(name.field)
            if value is None or not isfinite(value):
                continue
            family = self.families.get(name.name)
            if family is None:
                family = self.families[name.name] = Family(name.name, name.kind, name.unit, name.help)
            every = labels + name.labels if name.labels else labels
            family.points.append(Point(every, _scaled(value, name.scale), start_ms))


def families(snapshot: Snapshot, table: Table, *, most_processes: int = MOST_PROCESS_SERIES) -> list[Family]:
    page = _Page(table)
    _add_collector(page, snapshot, most_processes)
    _add_host(page, snapshot)
    _add_processes(page, snapshot, most_processes)
    _add_gpus(page, snapshot)
    _add_xids(page, snapshot)
    return list(page.families.values())


def _add_collector(page: _Page, snapshot: Snapshot, most_processes: int) -> None:
    begun_ms = snapshot.begun_ms
    page.add("build", {"build": 1}, (("version", __version__), ("mapping", str(page.table.version))))
    page.add("run", {"run": 1}, subjects.run(snapshot.identity))
    values: dict[str, float | None] = snapshot.cost._asdict() if snapshot.cost is not None else {}
    values |= {"last_tick_seconds": snapshot.now_ms / 1000, "is_fresh": snapshot.is_fresh}
    if snapshot.is_fresh:
        values["processes"] = len(snapshot.processes)
        values["processes_left_out"] = max(0, len(snapshot.processes) - most_processes)
    page.add("collect", values, start_ms=begun_ms)
    for name, is_up in sorted(snapshot.sources.items()):
        page.add("source", {"is_up": is_up}, (("source", name),))
    for kind, count in sorted(snapshot.events.items()):
        page.add("events", {"total": count}, (("kind", kind),), begun_ms)
    page.add("push", snapshot.pushed, start_ms=begun_ms)


def _add_host(page: _Page, snapshot: Snapshot) -> None:
    style, boot_ms = page.table.style, snapshot.boot_ms
    if (host := snapshot.host) is not None:
        seconds = 1 / snapshot.identity.ticks_per_second
        given = {"boot_seconds": boot_ms / 1000, "cpu_cores": snapshot.identity.cpu_cores}
        page.add("host", host._asdict() | _cpu(host, seconds) | given, start_ms=boot_ms)
        for core, (busy, everything) in enumerate(host.core_ticks):
            values = {"busy_seconds_total": busy * seconds, "seconds_total": everything * seconds}
            page.add("core", values, subjects.named("core", core, style), boot_ms)
        for disk, (read, written, busy_ms) in sorted(host.disks.items()):
            values = {"read_bytes_total": read, "written_bytes_total": written, "busy_seconds_total": busy_ms / 1000}
            page.add("disk", values, subjects.named("disk", disk, style), boot_ms)
    for nic in snapshot.nics:
        page.add("nic", nic._asdict(), subjects.named("nic", nic.iface, style), boot_ms)


def _cpu(host: HostSample, seconds: float) -> dict[str, float]:
    found = {
        f"cpu_{mode}_seconds_total": ticks * seconds for mode, ticks in zip(CPU_MODES, host.cpu_ticks, strict=False)
    }
    if len(host.cpu_ticks) >= len(CPU_MODES):
        found["cpu_interrupt_seconds_total"] = (host.cpu_ticks[5] + host.cpu_ticks[6]) * seconds
    return found


def _add_processes(page: _Page, snapshot: Snapshot, most: int) -> None:
    ticks_per_second = snapshot.identity.ticks_per_second
    for process, sample in _busiest(snapshot, most):
        start_ms = snapshot.boot_ms + process.start_ticks * 1000 // ticks_per_second
        values = sample._asdict() | {
            "cpu_seconds_total": (sample.utime_ticks + sample.stime_ticks) / ticks_per_second,
            "cpu_user_seconds_total": sample.utime_ticks / ticks_per_second,
            "cpu_system_seconds_total": sample.stime_ticks / ticks_per_second,
            "started_seconds": start_ms / 1000,
        }
        page.add("process", values, subjects.process(process, page.table.style), start_ms)


def _busiest(snapshot: Snapshot, most: int) -> list[tuple[Process, ProcessSample]]:
    """By total CPU, not recent CPU: series that come and go are expensive."""
    if len(snapshot.processes) <= most:
        return list(snapshot.processes)
    return heapq.nlargest(most, snapshot.processes, key=lambda found: found[1].utime_ticks + found[1].stime_ticks)


def _add_gpus(page: _Page, snapshot: Snapshot) -> None:
    style, host_name = page.table.style, snapshot.identity.host_name
    for gpu in snapshot.gpus:
        sample = gpu.sample
        owners = subjects.owners(gpu, snapshot)
        labels = subjects.gpu(sample, snapshot.known_gpus, host_name, style) + subjects.owner_labels(owners, style)
        read_ms = snapshot.now_ms - snapshot.elapsed_ms + sample.elapsed_ms
        values = sample._asdict() | _memory(sample) | {"last_sample_seconds": read_ms / 1000}
        page.add("gpu", values, labels, gpu.since_ms)
        for owner in owners:
            page.add("gpu_owner", {"owner": 1}, subjects.gpu_id(sample, style) + subjects.owner(owner))
        for user in gpu.processes:
            page.add("gpu_process", user._asdict(), subjects.gpu_id(sample, style) + subjects.gpu_process(user, style))


def _memory(sample: GpuSample) -> dict[str, float]:
    used, total = sample.memory_used_bytes, sample.memory_total_bytes
    if used is None or total is None or total < used:
        return {}
    return {"memory_free_bytes": total - used} | ({"memory_used_ratio": used / total} if total else {})


def _add_xids(page: _Page, snapshot: Snapshot) -> None:
    """Including GPUs without samples: a GPU that fell off the bus has only its Xid."""
    for uuid, code in sorted(snapshot.xids.last.items()):
        page.add("last_xid", {"code": code}, _xid_labels(page, snapshot, uuid))
    for (uuid, code), total in sorted(snapshot.xids.total.items()):
        recent = snapshot.xids.recent.get((uuid, code), 0)
        labels = (*_xid_labels(page, snapshot, uuid), ("xid", str(code)))
        page.add("xid", {"recent": recent}, (*labels, ("window_size_in_ms", str(WINDOW_MS))))
        page.add("xid", {"total": total}, labels, snapshot.begun_ms)


def _xid_labels(page: _Page, snapshot: Snapshot, uuid: str) -> Labels:
    sample = snapshot.known_gpus.get(uuid)
    host_name = snapshot.identity.host_name
    if sample is None:
        return subjects.unknown_gpu(uuid, host_name, page.table.style)
    return subjects.gpu(sample, snapshot.known_gpus, host_name, page.table.style)


def _scaled(value: float, scale: float) -> float:
    if scale == 1:
        return int(value) if isinstance(value, bool) else value
    # Nine decimals exceed the precision of any sensor, and hide that 0.07 * 100 is not 7.
    return round(value * scale, 9)
