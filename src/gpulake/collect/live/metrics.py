"""A snapshot as families of metrics (a name and its points), the input of the text page and of pushed messages.

Labels of hosts, disks, links, processes and GPUs are in the vocabulary of each style.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, NamedTuple

from gpulake import __version__
from gpulake.collect.identity import Identity
from gpulake.collect.live.state import WINDOW_MS, Gpu, Snapshot
from gpulake.collect.machine.owners import names_gpu
from gpulake.collect.rows import GpuProcess, GpuSample, HostSample, Process, ProcessSample
from gpulake.formats.names import Table
from gpulake.formats.prometheus import Labels

# By kind of owner. hpc_job is dcgm-exporter's label of a job; it names pods, but a cgroup has only their uid.
OWNER_LABELS = {
    "dcgm": {"slurm": "hpc_job", "pod": "pod_uid", "container": "container_id", "trace": "trace_id"},
    "otel": {"slurm": "hpc_job", "pod": "k8s.pod.uid", "container": "container.id", "trace": "trace_id"},
}


NAME_LABELS = {
    "dcgm": {"core": "cpu", "disk": "device", "nic": "device", "process": "pid"},
    "otel": {
        "core": "cpu.logical_number",
        "disk": "system.device",
        "nic": "network.interface.name",
        "process": "process.pid",
    },
}


class GpuOwner(NamedTuple):
    kind: str
    id: str
    evidence: str


def run_labels(identity: Identity) -> Labels:
    return (
        ("run_id", identity.run_id),
        ("node_id", identity.node_id),
        ("stage", identity.stage),
        ("host_id", identity.host_id),
        ("boot_id", identity.boot_id),
    )


def name_label(subject: str, name: object, style: str) -> Labels:
    """The one label of a core, disk or network interface."""
    return ((NAME_LABELS[style][subject], str(name)),)


def process_labels(row: Process, style: str) -> Labels:
    return (
        (NAME_LABELS[style]["process"], str(row.pid)),
        ("proc_id", row.proc_id),
        ("comm", row.comm),
        ("owner_kind", row.owner_kind),
        ("owner_id", row.owner_id),
    )


def gpu_labels(sample: GpuSample, known: Mapping[str, GpuSample], host_name: str, style: str) -> Labels:
    """All labels of a GPU. dcgm-exporter gives a MIG instance the index and uuid of its GPU, and identifies instances
    by their id; MIG_UUID is our addition."""
    parent = known.get(sample.parent_uuid or "")
    if style == "otel":
        return _given(
            ("hw.id", sample.gpu_uuid),
            ("hw.type", "gpu"),
            ("hw.name", _device(sample, parent)),
            ("hw.model", sample.gpu_name),
            ("hw.parent", sample.parent_uuid),
            ("pci_bus_id", sample.pci_bus_id),
            ("GPU_I_PROFILE", sample.mig_profile),
        )
    whole = sample if parent is None else parent
    labels = _given(
        ("gpu", None if whole.gpu_index is None else str(whole.gpu_index)),
        ("UUID", sample.parent_uuid or sample.gpu_uuid),
        ("pci_bus_id", sample.pci_bus_id),
        ("device", _device(sample, parent)),
        ("modelName", sample.gpu_name),
        ("Hostname", host_name),
    )
    if sample.parent_uuid is None:
        return labels
    return labels + _given(
        ("GPU_I_PROFILE", sample.mig_profile),
        ("GPU_I_ID", None if sample.gpu_instance_id is None else str(sample.gpu_instance_id)),
        ("MIG_UUID", sample.gpu_uuid),
    )


def gpu_id_labels(sample: GpuSample, style: str) -> Labels:
    """The minimal labels of a GPU, to join on."""
    if style == "otel":
        return (("hw.id", sample.gpu_uuid),)
    if sample.parent_uuid is None:
        return (("UUID", sample.gpu_uuid),)
    return (("UUID", sample.parent_uuid), ("MIG_UUID", sample.gpu_uuid))


def unknown_gpu_labels(subject: str, host_name: str, style: str) -> Labels:
    """A GPU that only the kernel log names."""
    return (("hw.id", subject),) if style == "otel" else (("pci_bus_id", subject), ("Hostname", host_name))


def gpu_process_labels(row: GpuProcess, style: str) -> Labels:
    return (
        (NAME_LABELS[style]["process"], str(row.pid)),
        ("comm", row.comm or ""),
        ("owner_kind", row.owner_kind),
        ("owner_id", row.owner_id),
    )


def gpu_owners(gpu: Gpu, snapshot: Snapshot) -> tuple[GpuOwner, ...]:
    """The owners of a GPU: of the processes on it, else of those that were allocated it."""
    uuid = gpu.sample.gpu_uuid
    # A process on a MIG instance is on its GPU, too.
    on_it = (one for one in snapshot.gpus if uuid in (one.sample.gpu_uuid, one.sample.parent_uuid))
    users = [user for one in on_it for user in one.processes]
    if users:
        using = {(user.owner_kind, user.owner_id) for user in users if user.owner_id}
        return tuple(GpuOwner(*found, "process") for found in sorted(using))
    sample = gpu.sample
    given = {
        (process.owner_kind, process.owner_id)
        for process, _ in snapshot.processes
        if process.given_gpus
        and process.owner_id
        and names_gpu(process.given_gpus, sample.gpu_uuid, sample.gpu_index, sample.parent_uuid)
    }
    return tuple(GpuOwner(*found, "environment") for found in sorted(given))


def owner_label_set(found: GpuOwner) -> Labels:
    return (("owner_kind", found.kind), ("owner_id", found.id), ("evidence", found.evidence))


def owner_labels(found: tuple[GpuOwner, ...], style: str) -> Labels:
    """One label per kind, with several owners joined: a series for each would count the GPU several times."""
    by_kind: dict[str, list[str]] = {}
    for one in found:
        by_kind.setdefault(one.kind, []).append(one.id)
    words = OWNER_LABELS[style]
    return tuple((words[kind], ",".join(ids)) for kind, ids in by_kind.items() if kind in words)


def _device(sample: GpuSample, parent: GpuSample | None) -> str | None:
    whole = sample if parent is None else parent
    return None if whole.gpu_index is None else f"nvidia{whole.gpu_index}"


def _given(*labels: tuple[str, str | None]) -> Labels:
    return tuple((name, value) for name, value in labels if value is not None)


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
    page.add("run", {"run": 1}, run_labels(snapshot.identity))
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
            page.add("core", values, name_label("core", core, style), boot_ms)
        for disk, (read, written, busy_ms) in sorted(host.disks.items()):
            values = {"read_bytes_total": read, "written_bytes_total": written, "busy_seconds_total": busy_ms / 1000}
            page.add("disk", values, name_label("disk", disk, style), boot_ms)
    for nic in snapshot.nics:
        page.add("nic", nic._asdict(), name_label("nic", nic.iface, style), boot_ms)


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
        page.add("process", values, process_labels(process, page.table.style), start_ms)


def _busiest(snapshot: Snapshot, most: int) -> list[tuple[Process, ProcessSample]]:
    """By total CPU, not recent CPU: series that come and go are expensive."""
    if len(snapshot.processes) <= most:
        return list(snapshot.processes)
    return heapq.nlargest(most, snapshot.processes, key=lambda found: found[1].utime_ticks + found[1].stime_ticks)


def _add_gpus(page: _Page, snapshot: Snapshot) -> None:
    style, host_name = page.table.style, snapshot.identity.host_name
    for gpu in snapshot.gpus:
        sample = gpu.sample
        owners = gpu_owners(gpu, snapshot)
        labels = gpu_labels(sample, snapshot.known_gpus, host_name, style) + owner_labels(owners, style)
        read_ms = snapshot.now_ms - snapshot.elapsed_ms + sample.elapsed_ms
        values = sample._asdict() | _memory(sample) | {"last_sample_seconds": read_ms / 1000}
        page.add("gpu", values, labels, gpu.since_ms)
        for owner in owners:
            page.add("gpu_owner", {"owner": 1}, gpu_id_labels(sample, style) + owner_label_set(owner))
        for user in gpu.processes:
            page.add("gpu_process", user._asdict(), gpu_id_labels(sample, style) + gpu_process_labels(user, style))


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
        return unknown_gpu_labels(uuid, host_name, page.table.style)
    return gpu_labels(sample, snapshot.known_gpus, host_name, page.table.style)


def _scaled(value: float, scale: float) -> float:
    if scale == 1:
        return int(value) if isinstance(value, bool) else value
    # Nine decimals exceed the precision of any sensor, and hide that 0.07 * 100 is not 7.
    return round(value * scale, 9)
