"""Figures of one machine: its ledger, its GPUs over time, and what ran on it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from gpulake.core.ledger import HELD, bucket_name
from gpulake.show.plots import BUCKET_COLOURS, GREY, Figure, Row
from gpulake.show.web.cells import duration
from gpulake.show.web.figures.axes import time_axis
from gpulake.show.web.figures.frame import figure
from gpulake.show.web.figures.queue import COLOURS

SERIES = (
    ("busy_ratio", "busy", ".0%", 1),
    ("memory_used_bytes", "memory, GiB", "", 1 << 30),
    ("temperature_celsius", "°C", "", 1),
    ("power_watts", "W", "", 1),
)
# What an attempt counts as, in the order of the legend.
HELD_COLOURS = {bucket: BUCKET_COLOURS[bucket] for bucket in HELD if bucket != "under_used"}
MOST_STEPS = 3  # from one point to the next of a line
LEAST_LANES = 4  # so that few attempts are no wall
TALLEST, LANE, AROUND = 480, 22, 100  # in pixels


def ledger(rows: Sequence[Row]) -> Figure:
    begins = [row["begin"] for row in rows]
    traces: list[Figure] = []
    for bucket, colour in BUCKET_COLOURS.items():
        values = [round(row[bucket], 3) for row in rows]
        marker = {"color": colour, "line": {"width": 0}}
        traces.append({"type": "bar", "name": bucket_name(bucket), "x": begins, "y": values, "marker": marker})
    y = {"title": {"text": "GPU-hours"}, "rangemode": "tozero"}
    return figure(traces, time_axis(begins), y, barmode="stack", bargap=0, hovermode="x unified")


def use(rows: Sequence[Row]) -> Figure:
    rows = _with_gaps(rows)
    times = [_time(row["began_at"]) for row in rows]
    gpus = {"type": "scatter", "mode": "lines", "name": "GPUs in use", "x": times, "line": {"color": COLOURS[0]}}
    cpu = {"type": "scatter", "mode": "lines", "name": "CPU in use", "x": times, "yaxis": "y2", "line": {"color": GREY}}
    traces = [
        {**gpus, "y": [_rounded(row["busy_gpus"]) for row in rows]},
        {**cpu, "y": [_rounded(row["cpu_util_ratio"]) for row in rows]},
    ]
    right = {"overlaying": "y", "side": "right", "tickformat": ".0%", "rangemode": "tozero", "showgrid": False}
    left = {"title": {"text": "GPUs"}, "rangemode": "tozero"}
    return figure(traces, {"type": "date"}, left, yaxis2=right, margin={"l": 60, "r": 50, "t": 10, "b": 40})


def _with_gaps(rows: Sequence[Row]) -> list[Row]:
    """Spans that nobody observed are no line: an empty point stands after what came before them."""
    pairs = list(pairwise(rows))
    step = min((after["began_at"] - before["began_at"] for before, after in pairs), default=timedelta())
    found: list[Row] = list(rows[:1])
    for before, after in pairs:
        if after["began_at"] - before["began_at"] > MOST_STEPS * step:
            found.append({"began_at": before["began_at"] + step, "busy_gpus": None, "cpu_util_ratio": None})
        found.append(after)
    return found


def gpus(rows: Sequence[Row]) -> Figure:
    """Four small charts, one above the other, a line a GPU."""
    kinds = sorted({(row["gpu_index"] if row["gpu_index"] is not None else -1, str(row["gpu_id"])) for row in rows})
    shown = [series for series in SERIES if any(row[series[0]] is not None for row in rows)]
    traces: list[Figure] = []
    axes: dict[str, Any] = {}
    height = 1 / max(len(shown), 1)
    for place, (column, title, form, unit) in enumerate(shown):
        suffix = "" if place == 0 else str(place + 1)
        top = 1 - place * height
        domain = {"domain": [max(top - height + 0.04, 0), top]}
        axes[f"yaxis{suffix}"] = {"title": {"text": title}, "tickformat": form, "rangemode": "tozero", **domain}
        for at, (index, ident) in enumerate(kinds):
            own = [row for row in rows if str(row["gpu_id"]) == ident]
            traces.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "name": f"GPU {index}" if index >= 0 else html.escape(ident),
                    "legendgroup": str(at),
                    "showlegend": place == 0,
                    "x": [_time(row["began_at"]) for row in own],
                    "y": [None if row[column] is None else _rounded(row[column] / unit) for row in own],
                    "yaxis": f"y{suffix}",
                    "line": {"color": COLOURS[at % len(COLOURS)], "width": 1.3},
                }
            )
    first = axes.pop("yaxis", {})
    last = f"y{len(shown)}" if len(shown) > 1 else "y"
    return figure(traces, {"type": "date", "anchor": last}, first, hovermode="x", **axes)


def timeline(rows: Sequence[Row]) -> Figure:
    """Attempts as bars, each in the first lane that is free; the colour is what became of its GPU-hours."""
    ordered = sorted(rows, key=lambda row: (row["held_from"], row["held_until"], str(row["job_id"])))
    lanes = packed([(row["held_from"], row["held_until"]) for row in ordered])
    traces: list[Figure] = []
    for bucket, colour in HELD_COLOURS.items():
        own = [(row, lane) for row, lane in zip(ordered, lanes, strict=True) if row["bucket"] == bucket]
        texts = [
            f"job {html.escape(str(row['job_id']))}, {html.escape(str(row['status']))}<br>{row['gpus']:g} GPUs for "
            f"{duration(row['held_seconds'])}<br>{bucket_name(bucket)}"
            for row, _ in own
        ]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": bucket_name(bucket),
                "base": [_time(row["held_from"]) for row, _ in own],
                "x": [round(row["held_seconds"] * 1000) for row, _ in own],
                "y": [lane for _, lane in own],
                "width": 0.85,
                "customdata": [[str(row["job_id"]), str(row["cluster_id"])] for row, _ in own],
                "hovertext": texts,
                "hoverinfo": "text",
                "marker": {"color": colour, "line": {"width": 0}},
            }
        )
    deep = max(max(lanes, default=0) + 1, LEAST_LANES)
    lanes_axis = {"range": [deep - 0.5, -0.5], "showticklabels": False, "showgrid": False, "zeroline": False}
    height = min(AROUND + LANE * deep, TALLEST)
    return figure(traces, {"type": "date"}, lanes_axis, barmode="overlay", hovermode="closest", height=height)


def packed(spans: Sequence[tuple[datetime, datetime]]) -> list[int]:
    """The lane of each span, by the order of their begins: the first whose last span is over."""
    free: list[datetime] = []
    found = []
    for begin, end in spans:
        lane = next((at for at, until in enumerate(free) if until <= begin), len(free))
        if lane == len(free):
            free.append(end)
        else:
            free[lane] = end
        found.append(lane)
    return found


def _time(value: datetime) -> str:
    return value.strftime("%Y-%m-%d %H:%M:%S")


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(float(value), 3)
