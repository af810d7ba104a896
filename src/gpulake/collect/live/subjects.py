"""Labels of hosts, disks, links, processes and GPUs, in the vocabulary of each style."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from gpulake.collect.identity import Identity
from gpulake.collect.live.state import Gpu, Snapshot
from gpulake.collect.machine.owners import names_gpu
from gpulake.collect.rows import GpuProcess, GpuSample, Process
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


def run(identity: Identity) -> Labels:
    return (
        ("run_id", identity.run_id),
        ("node_id", identity.node_id),
        ("stage", identity.stage),
        ("host_id", identity.host_id),
        ("boot_id", identity.boot_id),
    )


def named(subject: str, name: object, style: str) -> Labels:
    """The one label of a core, disk or network interface."""
    return ((NAME_LABELS[style][subject], str(name)),)


def process(row: Process, style: str) -> Labels:
    return (
        (NAME_LABELS[style]["process"], str(row.pid)),
        ("proc_id", row.proc_id),
        ("comm", row.comm),
        ("owner_kind", row.owner_kind),
        ("owner_id", row.owner_id),
    )


def gpu(sample: GpuSample, known: Mapping[str, GpuSample], host_name: str, style: str) -> Labels:
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


def gpu_id(sample: GpuSample, style: str) -> Labels:
    """The minimal labels of a GPU, to join on."""
    if style == "otel":
        return (("hw.id", sample.gpu_uuid),)
    if sample.parent_uuid is None:
        return (("UUID", sample.gpu_uuid),)
    return (("UUID", sample.parent_uuid), ("MIG_UUID", sample.gpu_uuid))


def unknown_gpu(subject: str, host_name: str, style: str) -> Labels:
    """A GPU that only the kernel log names."""
    return (("hw.id", subject),) if style == "otel" else (("pci_bus_id", subject), ("Hostname", host_name))


def gpu_process(row: GpuProcess, style: str) -> Labels:
    return (
        (NAME_LABELS[style]["process"], str(row.pid)),
        ("comm", row.comm or ""),
        ("owner_kind", row.owner_kind),
        ("owner_id", row.owner_id),
    )


def owners(gpu: Gpu, snapshot: Snapshot) -> tuple[GpuOwner, ...]:
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


def owner(found: GpuOwner) -> Labels:
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
