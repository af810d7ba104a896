"""OpenDC's loader and filters, as its sources have them, written again so that our exports meet them without it.

ids only through INT32 (`addInt`), columns by name, tasks without fragments skipped, KB by a thousand into MB, a missing
GPU column as 0, GPU cores compared with the sum of the topology's, zero-length fragments dropped, tasks sorted by
submission; JSON with unit strings in the new dialect, and bare numbers as each dialect takes them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

PHYSICAL = {
    "id": "INT32",
    "name": "BYTE_ARRAY",
    "submission_time": "INT64",
    "duration": "INT64",
    "cpu_count": "INT32",
    "cpu_capacity": "DOUBLE",
    "mem_capacity": "INT64",
    "gpu_count": "INT32",
    "gpu_capacity": "DOUBLE",
    "parents.list.element": "INT32",
    "children.list.element": "INT32",
    "deferrable": "BOOLEAN",
    "deadline": "INT64",
    "cpu_usage": "DOUBLE",
    "gpu_usage": "DOUBLE",
}
REQUIRED = {
    "tasks": {"id", "submission_time", "duration", "cpu_count", "cpu_capacity", "mem_capacity"},
    "fragments": {"id", "duration", "cpu_usage"},
}
UNITS = {"MHz": 1.0, "GHz": 1000.0, "Bytes": 1 / 2**20, "MiB": 1.0, "GiB": 1024.0, "Watts": 1.0, "seconds": 1000.0}


@dataclass
class SimTask:
    id: int
    submitted_at: int
    duration: int
    cpu_count: int
    cpu_capacity: float
    memory_mb: int
    gpu_count: int
    gpu_capacity: float
    name: str | None
    fragments: list[tuple[int, float, float]] = field(default_factory=list)


@dataclass(frozen=True)
class SimHost:
    cores: int
    core_mhz: float
    memory_mib: float
    gpu_cores: int
    gpu_core_mhz: float


def load(folder: Path) -> list[SimTask]:
    """What OpenDC would run of a workload."""
    _check_file(folder / "tasks.parquet", "tasks")
    _check_file(folder / "fragments.parquet", "fragments")
    fragments: dict[int, list[tuple[int, float, float]]] = {}
    for row in pq.read_table(folder / "fragments.parquet").to_pylist():
        if row["duration"]:
            fragments.setdefault(row["id"], []).append((row["duration"], row["cpu_usage"], row.get("gpu_usage") or 0.0))
    tasks = [
        SimTask(
            row["id"],
            _milliseconds(row["submission_time"]),
            row["duration"],
            row["cpu_count"],
            row["cpu_capacity"],
            int(row["mem_capacity"] / 1000.0 + 0.5),
            row.get("gpu_count") or 0,
            row.get("gpu_capacity") or 0.0,
            row.get("name"),
            fragments[row["id"]],
        )
        for row in pq.read_table(folder / "tasks.parquet").to_pylist()
        if row["id"] in fragments
    ]
    return sorted(tasks, key=lambda task: task.submitted_at)


def hosts(topology: dict[str, Any]) -> list[SimHost]:
    """The hosts of a topology of either dialect, each once for all that are like it."""
    found = []
    for cluster in topology["clusters"]:
        for host in cluster["hosts"]:
            assert host["count"] > 0
            gpu = host.get("gpu", {"count": 0, "coreCount": 0, "coreSpeed": 0})
            memory = host["memory"].get("size", host["memory"].get("memorySize"))
            for model in (host["cpuPowerModel"], host.get("gpuPowerModel")):
                if model:
                    assert measure(model["idlePower"]) <= measure(model["maxPower"])
            found.append(
                SimHost(
                    host["cpu"]["coreCount"],
                    measure(host["cpu"]["coreSpeed"]),
                    int(measure(memory)),
                    gpu["count"] * gpu["coreCount"],
                    measure(gpu["coreSpeed"]),
                )
            )
    return found


def fits(task: SimTask, host: SimHost) -> bool:
    """The filters vcpu, vgpu and ram, at a ratio of 1, of an empty host."""
    return task.cpu_count <= host.cores and task.gpu_count <= host.gpu_cores and task.memory_mb <= host.memory_mib


def measure(value: str | float) -> float:
    """In OpenDC's own unit: MHz, MiB, watts or milliseconds, which is what a bare number is, too."""
    if not isinstance(value, str):
        return float(value)
    found = re.fullmatch(r"\s*([\de.-]+)\s*(\w+)\s*", value)
    assert found, value
    return float(found[1]) * UNITS[found[2]]


def read_json(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def _check_file(path: Path, kind: str) -> None:
    schema = pq.ParquetFile(path).schema
    found = {schema.column(at).path: schema.column(at) for at in range(len(schema))}
    for name, column in found.items():
        assert column.physical_type == PHYSICAL[name], (name, column.physical_type)
    for name in REQUIRED[kind]:
        assert found[name].max_definition_level == 0, f"{name} is not required"


def _milliseconds(value: Any) -> int:
    return value if isinstance(value, int) else round(value.timestamp() * 1000)
