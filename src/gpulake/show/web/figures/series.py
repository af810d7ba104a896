"""Figures of samples in time: a line for each thing that was sampled, a row of axes for each value."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Any

from gpulake.show.plots import BLUE, GREEN, GREY, GRID, ORANGE, RED
from gpulake.show.web.figures.jobs import layout

Row = dict[str, Any]
Figure = dict[str, Any]
PALETTE = (BLUE, ORANGE, GREEN, RED, "#CC79A7", "#56B4E9", "#b7a9c9", GREY)
# Value, what its axis says, how its ticks are written, and what it is divided by.
Axis = tuple[str, str, str, float]
GPU_AXES: tuple[Axis, ...] = (
    ("busy_ratio", "busy", ".0%", 1),
    ("temperature_celsius", "°C", "", 1),
    ("power_watts", "W", "", 1),
)
HOST_AXES: tuple[Axis, ...] = (
    ("cpu_busy_ratio", "CPU busy", ".0%", 1),
    ("memory_used_bytes", "memory, GiB", "", 1 << 30),
)
LINK_AXES: tuple[Axis, ...] = (
    ("rx_bytes_per_second", "received, MB/s", "", 1e6),
    ("tx_bytes_per_second", "sent, MB/s", "", 1e6),
)


def gpus(rows: Sequence[Row]) -> Figure:
    return lines(rows, lambda row: f"{row['node']} / {_or_id(row)}", GPU_AXES)


def hosts(rows: Sequence[Row]) -> Figure:
    return lines(rows, lambda row: str(row["node"]), HOST_AXES)


def links(rows: Sequence[Row]) -> Figure:
    return lines(rows, lambda row: f"{row['node']} {row['interface']}", LINK_AXES)


def lines(rows: Sequence[Row], subject: Callable[[Row], str], axes: Sequence[Axis]) -> Figure:
    """Each subject has its colour in all axes; a click leads to its node."""
    subjects = list(dict.fromkeys(subject(row) for row in rows))
    shown = [axis for axis in axes if any(row[axis[0]] is not None for row in rows)]
    traces, own = [], layout(hovermode="closest")
    share = 1 / max(len(shown), 1)
    for place, (value, title, ticks, unit) in enumerate(shown):
        axis = f"y{place + 1 if place else ''}"
        own[f"yaxis{place + 1 if place else ''}"] = {
            "domain": [1 - share * (place + 1) + 0.03, 1 - share * place - 0.02],
            "title": {"text": title},
            "tickformat": ticks,
            "gridcolor": GRID,
            "rangemode": "normal" if value.endswith("_celsius") else "tozero",
        }
        for number, name in enumerate(subjects):
            points = [row for row in rows if subject(row) == name and row[value] is not None]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": html.escape(name),
                    "legendgroup": str(number),
                    "showlegend": not place,
                    "yaxis": axis,
                    "x": [row["sampled_from"].isoformat() for row in points],
                    "y": [row[value] / unit for row in points],
                    "customdata": [row["node"] for row in points],
                    "line": {"color": PALETTE[number % len(PALETTE)], "width": 1.3},
                }
            )
    own["xaxis"] = {"type": "date", "anchor": f"y{len(shown)}" if len(shown) > 1 else "y"}
    return {"data": traces, "layout": own}


def _or_id(row: Row) -> str:
    return str(row["gpu_id"]) if row["gpu_index"] is None else f"GPU {row['gpu_index']}"
