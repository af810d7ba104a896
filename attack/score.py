"""What one suite of attacks came to."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Score:
    """Count every try; keep a line for every fault, so that somebody can repeat it."""

    tries: int = 0
    faults: list[str] = field(default_factory=list)
    measured: dict[str, str] = field(default_factory=dict)

    def fault(self, line: str) -> None:
        self.faults.append(line)
