"""topology.json and experiment.json in both of OpenDC's dialects.

Sizes and speeds are written with their unit: bare numbers of memory are read as mebibytes by one version and were
written as bytes by another. A GPU is one core at 1,000 MHz unless it was asked for otherwise: usage is a share of it.

The default scheduler has no GPU filter: GPUs would be given away many times over, and nothing would say so. A workload
with GPUs therefore names its filters in the new dialect, and in the old one a policy that has a GPU filter built in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpulake.core.errors import UsageError, choice_hint
from gpulake.replay.exports.opendc_checks import Checks
from gpulake.replay.workload import Clockwork, Host, Notes

# OpenDC's own default of a CPU's power; a host without a model would get it anyway, GPUs as well.
CPU_IDLE_WATTS, CPU_BUSY_WATTS = 200.0, 400.0


def placed(hosts: Sequence[Host], checks: Checks, notes: Notes, clock: Clockwork) -> list[Host]:
    """Hosts with nothing left open: what is not known of one is what the largest task needs."""
    known = [host for host in hosts if host.count > 0] or [
        Host("host", 1, None, clock.core_mhz, None, -(-checks.most_gpu_cores // clock.gpu_cores))
    ]
    if not hosts:
        notes.guessed["a host of the size of the largest task: no machine is known"] += 1
    complete = []
    for host in known:
        if host.cores is None:
            notes.guessed["cores of a host: those of the largest task"] += host.count
        if host.memory_bytes is None:
            notes.guessed["memory of a host: that of the largest task"] += host.count
        notes.guessed["power of a host's CPUs: OpenDC's default"] += host.count
        if host.gpus and host.gpu_busy_watts is None:
            notes.guessed["power of a host's GPUs: OpenDC's default"] += host.count
        cores = max(1, checks.most_cores) if host.cores is None else host.cores
        memory = max(1, checks.most_memory_mb) * 2**20 if host.memory_bytes is None else host.memory_bytes
        complete.append(replace(host, cores=cores, memory_bytes=memory))
    return complete


def topology(name: str, hosts: Sequence[Host], clock: Clockwork, dialect: str) -> dict[str, Any]:
    return {"clusters": [{"name": name, "hosts": [_host(host, clock, is_sdk=dialect == "sdk") for host in hosts]}]}


def _host(host: Host, clock: Clockwork, *, is_sdk: bool) -> dict[str, Any]:
    """Speeds and powers have units in the new dialect only."""
    core_mhz, gpu_core_mhz = _plain(host.core_mhz), _plain(clock.gpu_mhz / clock.gpu_cores)
    entry: dict[str, Any] = {
        "name": host.name,
        "count": host.count,
        "cpu": {"coreCount": host.cores, "coreSpeed": f"{core_mhz} MHz" if is_sdk else core_mhz},
        "memory": {"size" if is_sdk else "memorySize": f"{host.memory_bytes} Bytes"},
        "cpuPowerModel": _power(CPU_IDLE_WATTS, CPU_BUSY_WATTS, is_sdk=is_sdk),
    }
    if host.gpus:
        speed = f"{gpu_core_mhz} MHz" if is_sdk else gpu_core_mhz
        gpu = {"count": host.gpus, "coreCount": clock.gpu_cores, "coreSpeed": speed}
        entry["gpu"] = {**gpu, "modelName": host.gpu_type or "unknown"}
        if host.gpu_idle_watts is not None and host.gpu_busy_watts is not None:
            entry["gpuPowerModel"] = _power(host.gpu_idle_watts, host.gpu_busy_watts, is_sdk=is_sdk)
    return entry


def _power(idle: float, busy: float, *, is_sdk: bool) -> dict[str, Any]:
    least, most = min(idle, busy), max(idle, busy)
    if is_sdk:
        return {"type": "linear", "idlePower": f"{_plain(least)} Watts", "maxPower": f"{_plain(most)} Watts"}
    return {"modelType": "linear", "power": busy, "idlePower": least, "maxPower": most}


def _plain(value: float) -> int | float:
    """A whole number without its point: OpenDC's pattern of a number knows no exponent with a plus."""
    return int(value) if value == int(value) else value


GPU_POLICIES = ("ProvisionedCpuGpuCores", "ProvisionedCpuGpuCoresInv", "GpuTaskMemorizing")
CPU_POLICIES = (
    *("Mem", "MemInv", "CoreMem", "CoreMemInv", "ActiveServers", "ActiveServersInv"),
    *("ProvisionedCores", "ProvisionedCoresInv", "TaskNumMemorizing", "Timeshift"),
)
EXPORT_SECONDS = 3600
FAILURES_OF_A_TASK = 10  # OpenDC's default


def check_policy(policy: str | None) -> None:
    if policy is not None and policy not in (*GPU_POLICIES, *CPU_POLICIES):
        raise UsageError(f"OpenDC has no policy named {policy!r}", choice_hint(policy, (*GPU_POLICIES, *CPU_POLICIES)))


def oversubscribes(policy: str | None, has_gpus: bool) -> bool:
    """Whether this policy gives GPUs away without looking."""
    return has_gpus and policy in CPU_POLICIES


@dataclass(frozen=True)
class Checkpoints:
    """Between two of them, and while one is written."""

    interval_seconds: float
    cost_seconds: float


def sdk_experiment(
    name: str,
    topology: dict[str, Any],
    policy: str | None,
    has_gpus: bool,
    failures: int,
    checkpoints: Checkpoints | None,
) -> dict[str, Any]:
    """Paths are those from the experiment's own folder, as the command line resolves them."""
    models: list[dict[str, Any]] = [{"type": "none"}]
    if failures:
        models.append({"type": "traceBased", "source": _named("../failures.parquet"), "repeat": False})
    written = (
        None
        if checkpoints is None
        else {
            "interval": f"{_plain(checkpoints.interval_seconds)} seconds",
            "duration": f"{_plain(checkpoints.cost_seconds)} seconds",
            "intervalScaling": 1.0,
        }
    )
    return {
        "name": name,
        "topologies": [topology],
        "workloads": [{"type": "trace", "source": _named("..")}],
        "allocationPolicies": [_sdk_policy(policy, has_gpus)],
        "failureModels": models,
        **_recovery(failures, written),
        # With its unit: a bare number would be milliseconds here.
        "exportModels": [{"exportInterval": f"{EXPORT_SECONDS} seconds", "printFrequency": 24}],
        "runs": 1,
    }


def legacy_experiment(
    name: str, policy: str | None, has_gpus: bool, failures: int, checkpoints: Checkpoints | None
) -> dict[str, Any]:
    """Paths are those from the folder of the export: the old reader resolves them against the working directory."""
    models: list[dict[str, Any]] = [{"type": "no"}]
    if failures:
        models.append({"type": "trace-based", "pathToFile": "failures.parquet", "startPoint": 0.0, "repeat": False})
    written = (
        None
        if checkpoints is None
        else {
            "checkpointInterval": round(1000 * checkpoints.interval_seconds),
            "checkpointDuration": round(1000 * checkpoints.cost_seconds),
            "checkpointIntervalScaling": 1.0,
        }
    )
    chosen = policy or (GPU_POLICIES[0] if has_gpus else CPU_POLICIES[0])
    return {
        "name": name,
        "topologies": [{"pathToFile": "legacy/topology.json"}],
        "workloads": [{"pathToFile": ".", "type": "ComputeWorkload"}],
        "allocationPolicies": [{"type": "prefab", "policyName": chosen}],
        "failureModels": models,
        **_recovery(failures, written),
        # A bare number of seconds: the old reader takes nothing else.
        "exportModels": [{"exportInterval": EXPORT_SECONDS, "printFrequency": 24}],
        "runs": 1,
    }


def _recovery(failures: int, checkpoints: dict[str, Any] | None) -> dict[str, Any]:
    """With and without checkpoints. OpenDC gives a task up at its eleventh failure, and does not say so."""
    found: dict[str, Any] = {"maxNumFailures": [failures]} if failures > FAILURES_OF_A_TASK else {}
    return {**found, "checkpointModels": [None, checkpoints]} if checkpoints else found


def _sdk_policy(policy: str | None, has_gpus: bool) -> dict[str, Any]:
    if policy is not None:
        return {"type": "prefab", "prefabName": policy}
    filters = [{"type": "compute"}, {"type": "vcpu", "allocationRatio": 1.0}, {"type": "ram", "allocationRatio": 1.0}]
    weighers = [{"type": "ram", "multiplier": 1.0}]
    if has_gpus:
        filters.insert(2, {"type": "vgpu", "allocationRatio": 1.0})
        weighers = [{"type": "vcpu", "multiplier": 1.0}, {"type": "vgpu", "multiplier": 1.0}]
    return {"type": "filter", "filters": filters, "weighers": weighers}


def _named(name: str) -> dict[str, str]:
    return {"type": "named", "name": name}
