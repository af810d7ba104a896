"""Figures of training runs: loss and throughput over time, with the stretches that were lost shaded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from math import isfinite

from gpulake.show.plots import (
    BLUE,
    GREEN,
    GRID,
    ORANGE,
    PALETTE,
    PINK,
    RED,
    SKY,
    Figure,
    Row,
    figure,
    line,
    moment,
    shade,
    utc_axis,
)

# Value, and what its axis says.
AXES = (("loss", "loss"), ("samples_per_second", "samples/s"), ("tokens_per_second", "tokens/s"))
LOST = {"restart": RED, "checkpoint": GREEN, "evaluation": SKY, "stall": ORANGE}
REPEATED = PINK


def steps(rows: Sequence[Row]) -> Figure:
    """Each run has its colour in all axes; what a step was lost to is behind it, and named in the legend."""
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(str(row["run_id"]), []).append(row)
    shown = [axis for axis in AXES if any(_finite(row[axis[0]]) is not None for row in rows)] or [("step", "step")]
    traces: list[Figure] = []
    layout: dict[str, Figure] = {}
    height = 1 / len(shown)
    for place, (value, title) in enumerate(shown):
        number = str(place + 1) if place else ""
        domain = [max(1 - height * (place + 1) + 0.03, 0), 1 - height * place - 0.02]
        layout[f"yaxis{number}"] = {"domain": domain, "title": {"text": title}, "gridcolor": GRID}
        for at_colour, (name, some) in enumerate(runs.items()):
            x, y = [moment(row["logged_at"]) for row in some], [_finite(row[value]) for row in some]
            texts = [f"step {row['step']:,.0f}" for row in some]
            said = f"%{{x}}<br>%{{text}}: {title} %{{y:.5g}}<extra></extra>"
            place_of = {"yaxis": f"y{number}", "showlegend": place == 0}
            colour = PALETTE[at_colour % len(PALETTE)] if len(runs) > 1 else BLUE
            traces.append({**line(name, x, y, colour, text=texts, hovertemplate=said), **place_of})
    first, *_ = [moment(row["logged_at"]) for row in rows] or [""]
    named = [kind for kind in LOST if any(row["lost_to"] == kind for row in rows)]
    named += ["repeated"] if any(row["repeated_seconds"] for row in rows) else []
    traces += [
        {**line(name, [first], [None], {**LOST, "repeated": REPEATED}[name], 8), "hoverinfo": "skip"} for name in named
    ]
    shapes = [shade_ for row in rows for shade_ in _lost(row)]
    upper = layout.pop("yaxis")
    bottom = f"y{len(shown)}" if len(shown) > 1 else "y"
    return figure(traces, utc_axis(anchor=bottom), upper, shapes=shapes, height=120 + 180 * len(shown), **layout)


def _lost(row: Row) -> list[Figure]:
    end = row["logged_at"]
    found = []
    if row["repeated_seconds"]:
        found.append(shade(end - timedelta(seconds=row["repeated_seconds"]), end, REPEATED, 0.2))
    if row["lost_to"] in LOST and row["took_seconds"]:
        begin = end - timedelta(seconds=row["took_seconds"])
        found.append(shade(begin, begin + timedelta(seconds=row["lost_seconds"]), LOST[row["lost_to"]], 0.3))
    return found


def _finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None
