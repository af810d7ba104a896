"""The identity of this node: the names in its rows and in the header of its segments."""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from gpulake.collect.machine.procfs import read_text
from gpulake.core.errors import UsageError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")  # it becomes a folder


@dataclass(frozen=True)
class Identity:
    """A node of a run. host_id tells apart two hosts that were given the same node name."""

    run_id: str
    node_id: str
    stage: str
    host_id: str
    host_name: str
    boot_id: str
    cpu_cores: int
    memory_bytes: int
    cpu_model: str
    cpu_freq_mhz: int  # 0: unknown
    ticks_per_second: int


def identify(
    *, run_id: str, node_id: str = "", stage: str = "", root: Path = Path("/"), cpu_freq_mhz: int = 0
) -> Identity:
    """Reads the identity of the machine whose files are under root; a given frequency overrides the machine's."""
    host_name = _text(root / "proc/sys/kernel/hostname")
    for name, value in (("run id", run_id), ("node id", node_id or host_name)):
        if not NAME.fullmatch(value):
            raise UsageError(f"the {name} is {value!r}", "use letters, digits, '.', '_' and '-'")
    processors = _text(root / "proc/cpuinfo")
    return Identity(
        run_id=run_id,
        node_id=node_id or host_name,
        stage=stage,
        host_id=host_id_of(_text(root / "etc/machine-id") or _text(root / "var/lib/dbus/machine-id"), host_name),
        host_name=host_name,
        boot_id=read_boot_id(root / "proc"),
        cpu_cores=len(re.findall(r"^processor\s*:", processors, re.MULTILINE)) or os.cpu_count() or 1,
        memory_bytes=int(_first(r"^MemTotal:\s*(\d+) kB$", _text(root / "proc/meminfo")) or 0) * 1024,
        cpu_model=_first(r"^model name\s*:\s*(.+)$", processors),
        cpu_freq_mhz=cpu_freq_mhz or _freq_mhz(root, processors),
        ticks_per_second=os.sysconf("SC_CLK_TCK"),
    )


def read_boot_id(proc: Path) -> str:
    """The id of this boot; empty if unknown."""
    return _text(proc / "sys/kernel/random/boot_id").replace("-", "")[:12]


def host_id_of(machine_id: str, host_name: str) -> str:
    """A hash: machine ids are confidential. Containers of one image may share one, so the name counts."""
    return hashlib.sha256(f"gpulake {machine_id} {host_name}".encode()).hexdigest()[:12]


def _freq_mhz(root: Path, processors: str) -> int:
    if most := _text(root / "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"):
        return round(int(most) / 1000)
    return round(float(_first(r"^cpu MHz\s*:\s*([\d.]+)$", processors) or 0))


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else ""


def _text(path: Path) -> str:
    return read_text(path).strip()
