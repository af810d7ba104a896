"""experiment.json in both of OpenDC's dialects.

The default scheduler has no GPU filter: GPUs would be given away many times over, and nothing would say so. A workload
with GPUs therefore names its filters in the new dialect, and in the old one a policy that has a GPU filter built in.
"""

from __future__ import annotations

from typing import Any

from gpulake.core.errors import UsageError, choice_hint

GPU_POLICIES = ("ProvisionedCpuGpuCores", "ProvisionedCpuGpuCoresInv", "GpuTaskMemorizing")
CPU_POLICIES = (
    *("Mem", "MemInv", "CoreMem", "CoreMemInv", "ActiveServers", "ActiveServersInv"),
    *("ProvisionedCores", "ProvisionedCoresInv", "TaskNumMemorizing", "Timeshift"),
)
EXPORT_SECONDS = 3600


def check_policy(policy: str | None) -> None:
    if policy is not None and policy not in (*GPU_POLICIES, *CPU_POLICIES):
        raise UsageError(f"OpenDC has no policy named {policy!r}", choice_hint(policy, (*GPU_POLICIES, *CPU_POLICIES)))


def oversubscribes(policy: str | None, has_gpus: bool) -> bool:
    """Whether this policy gives GPUs away without looking."""
    return has_gpus and policy in CPU_POLICIES


def sdk_experiment(
    name: str, topology: dict[str, Any], policy: str | None, has_gpus: bool, has_failures: bool
) -> dict[str, Any]:
    """Paths are those from the experiment's own folder, as the command line resolves them."""
    failures: list[dict[str, Any]] = [{"type": "none"}]
    if has_failures:
        failures.append({"type": "traceBased", "source": _named("../failures.parquet"), "repeat": False})
    return {
        "name": name,
        "topologies": [topology],
        "workloads": [{"type": "trace", "source": _named("..")}],
        "allocationPolicies": [_sdk_policy(policy, has_gpus)],
        "failureModels": failures,
        # With its unit: a bare number would be milliseconds here.
        "exportModels": [{"exportInterval": f"{EXPORT_SECONDS} seconds", "printFrequency": 24}],
        "runs": 1,
    }


def legacy_experiment(name: str, policy: str | None, has_gpus: bool, has_failures: bool) -> dict[str, Any]:
    """Paths are those from the folder of the export: the old reader resolves them against the working directory."""
    failures: list[dict[str, Any]] = [{"type": "no"}]
    if has_failures:
        failures.append({"type": "trace-based", "pathToFile": "failures.parquet", "startPoint": 0.0, "repeat": False})
    chosen = policy or (GPU_POLICIES[0] if has_gpus else CPU_POLICIES[0])
    return {
        "name": name,
        "topologies": [{"pathToFile": "legacy/topology.json"}],
        "workloads": [{"pathToFile": ".", "type": "ComputeWorkload"}],
        "allocationPolicies": [{"type": "prefab", "policyName": chosen}],
        "failureModels": failures,
        # A bare number of seconds: the old reader takes nothing else.
        "exportModels": [{"exportInterval": EXPORT_SECONDS, "printFrequency": 24}],
        "runs": 1,
    }


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
