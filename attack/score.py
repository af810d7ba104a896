"""What one suite of attacks came to."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Score:
    """Count every try; keep a line for every fault, so that somebody can repeat it."""

    tries: int = 0
    faults: list[str] = field(default_factory=list)
    measured: dict[str, str] = field(default_factory=dict)

    def fault(self, line: str) -> None:
        self.faults.append(line)


def peak_mib() -> int:
    """The most memory that this process had; ru_maxrss is also of the one that started it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) >> 10 for line in lines if line.startswith("VmHWM:"))
