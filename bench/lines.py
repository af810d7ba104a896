"""Measured values, line by line, with the target that each must meet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

COLUMNS = ("what", "measured", "target", "met")


@dataclass(frozen=True)
class Line:
    what: str
    value: float
    unit: str
    bar: float | None = None
    side: Literal["at least", "at most"] = "at most"

    @property
    def is_met(self) -> bool | None:
        if self.bar is None:
            return None
        return self.value >= self.bar if self.side == "at least" else self.value <= self.bar

    def cells(self) -> tuple[str, str, str, str]:
        bar = "" if self.bar is None else f"{self.side} {self.bar:g} {self.unit}".strip()
        met = {None: "", True: "yes", False: "NO"}[self.is_met]
        return self.what, f"{_figure(self.value)} {self.unit}".strip(), bar, met


def as_text(lines: Sequence[Line]) -> str:
    rows = [COLUMNS, *(line.cells() for line in lines)]
    widths = [max(len(row[position]) for row in rows) for position in range(len(COLUMNS))]
    return "\n".join(
        f"{what:<{widths[0]}}  {measured:>{widths[1]}}  {bar:<{widths[2]}}  {met}".rstrip()
        for what, measured, bar, met in rows
    )


def _figure(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.3f}" if value < 1 else f"{value:.2f}"
