"""What was measured, line by line, beside the bar that it must meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

COLUMNS = ("what", "measured", "bar", "met")


@dataclass(frozen=True)
class Line:
    what: str
    value: float
    unit: str
    bar: float | None = None
    side: Literal["at least", "at most"] = "at most"  # "at least": more is better
    kind: Literal["ours", "peer", "CPU ratio"] = "ours"

    @property
    def is_met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.side == "at least" else self.value <= self.bar

    def cells(self) -> tuple[str, str, str, str]:
        bar = "" if self.bar is None else f"{self.side} {self.bar:g} {self.unit}".strip()
        met = {None: "", True: "yes", False: "NO"}[self.is_met]
        return self.what, f"{figure(self.value)} {self.unit}".strip(), bar, met


def cpu_ratio(what: str, theirs: float, ours: float, bar: float | None = None) -> Line:
    """CPU seconds of the other over ours, from interleaved runs: the figure that a busy machine changes least."""
    return Line(what, theirs / ours, "", bar, "at least", "CPU ratio")


def as_text(lines: Sequence[Line]) -> str:
    rows = [COLUMNS, *(line.cells() for line in lines)]
    widths = [max(len(row[position]) for row in rows) for position in range(len(COLUMNS))]
    return "\n".join(
        f"{what:<{widths[0]}}  {measured:>{widths[1]}}  {bar:<{widths[2]}}  {met}".rstrip()
        for what, measured, bar, met in rows
    )


def figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    if 0 < value < 0.1:
        return f"{value:.3g}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if value < 1 else f"{value:.2f}"
