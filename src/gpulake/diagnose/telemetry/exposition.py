"""Pages of dcgm-exporter and node_exporter. A page is a moment: its samples' own, or that of the file."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from gpulake.diagnose.telemetry.samples import Gathering, GpuSample, HostSample
from gpulake.formats.plausible import is_plausible

_SAMPLE = re.compile(r"([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+(\d{9,16}))?\s*", re.ASCII)
_NAME = re.compile(r"[a-zA-Z_:][\w:]*", re.ASCII)
# A name is looked for where a word begins, and not at each of its letters.
_LABEL = re.compile(r'\b([a-zA-Z_]\w*+)="((?:[^"\\]|\\.)*+)"', re.ASCII)
_COMMENT = re.compile(r"# (?:HELP|TYPE) \S+")
# By the exporter's name: ours, the unit that it is held to, and how much of ours one of theirs is.
GPU = {
    "DCGM_FI_DEV_GPU_UTIL": ("busy_ratio", "_ratio", 0.01),
    "DCGM_FI_PROF_GR_ENGINE_ACTIVE": ("active_ratio", "_ratio", 1.0),
    "DCGM_FI_DEV_FB_USED": ("memory_used_bytes", "_bytes", float(1 << 20)),
    "DCGM_FI_DEV_FB_FREE": ("free", "_bytes", float(1 << 20)),
    "DCGM_FI_DEV_FB_RESERVED": ("reserved", "_bytes", float(1 << 20)),
    "DCGM_FI_DEV_FB_TOTAL": ("memory_total_bytes", "_bytes", float(1 << 20)),
    "DCGM_FI_DEV_POWER_USAGE": ("power_watts", "_watts", 1.0),
    "DCGM_FI_DEV_GPU_TEMP": ("temperature_celsius", "_celsius", 1.0),
    "DCGM_FI_DEV_ECC_SBE_VOL_TOTAL": ("ecc_corrected", "_total", 1.0),
    "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL": ("ecc_uncorrected", "_total", 1.0),
    "DCGM_FI_DEV_XID_ERRORS": ("last_xid", "_total", 1.0),
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": ("clock_event_reasons", "_total", 1.0),
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": ("clock_event_reasons", "_total", 1.0),
}
HOST = {
    "node_memory_MemAvailable_bytes": "memory_available_bytes",
    "node_memory_MemFree_bytes": "memory_free_bytes",
    "node_memory_MemTotal_bytes": "memory_total_bytes",
    "node_vmstat_oom_kill": "oom_kills",
}
KNOWN = {*GPU, *HOST}
WHOLE = ("ecc_corrected", "ecc_uncorrected", "last_xid", "clock_event_reasons", "oom_kills")


def is_telling(lines: Iterable[str]) -> bool:
    return any(_COMMENT.match(line) or line.startswith(("DCGM_FI_", "node_memory_")) for line in lines)


def read(lines: Iterable[str], gathering: Gathering, node: str, written_at: float) -> None:
    gpus: dict[tuple[float, str, str], dict[str, float]] = defaultdict(dict)
    hosts: dict[tuple[float, str], dict[str, float]] = defaultdict(dict)
    for line in lines:
        name = _NAME.match(line)
        if name is None or name[0] not in KNOWN:
            continue
        found = _SAMPLE.fullmatch(line.rstrip("\r\n"))
        value = _number(found[3]) if found else None
        if found is None or value is None:
            gathering.bad_rows += 1
            continue
        labels = dict(_LABEL.findall(found[2] or ""))
        at = int(found[4]) / 1000 if found[4] else written_at
        host = labels.get("Hostname") or labels.get("hostname") or node
        if name[0] in HOST:
            hosts[at, host][HOST[name[0]]] = value
            continue
        ours, unit, scale = GPU[name[0]]
        if is_plausible(unit, value * scale):
            gpus[at, host, _gpu(labels)][ours] = value * scale
    _gather(gpus, hosts, gathering)


def _gather(
    gpus: dict[tuple[float, str, str], dict[str, float]],
    hosts: dict[tuple[float, str], dict[str, float]],
    gathering: Gathering,
) -> None:
    for (at, host, gpu), told in gpus.items():
        if gathering.counts(at):
            free, reserved = told.pop("free", None), told.pop("reserved", 0.0)
            if free is not None and "memory_used_bytes" in told:
                told.setdefault("memory_total_bytes", told["memory_used_bytes"] + free + reserved)
            active = told.pop("active_ratio", None)  # where it is there, it may be all that is
            if active is not None:
                told.setdefault("busy_ratio", active)
            gathering.add_gpu(GpuSample(at, host, gpu, **_typed(told)))
    for (at, host), told in hosts.items():
        if gathering.counts(at):
            gathering.add_host(HostSample(at, host, **_typed(told)))


def _gpu(labels: dict[str, str]) -> str:
    """Parts of a GPU (MIG) have its id, and a number of their own."""
    gpu = labels.get("UUID") or labels.get("gpu") or "0"
    return f"{gpu}/{labels['GPU_I_ID']}" if labels.get("GPU_I_ID") else gpu


def _typed(told: dict[str, float]) -> dict[str, Any]:
    return {name: int(value) if name in WHOLE else value for name, value in told.items()}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if is_plausible("", value) else None
