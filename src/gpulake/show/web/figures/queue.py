"""Figures of the queue: percentiles, distributions, demand against capacity, the hours of a week."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from gpulake.show import plots
from gpulake.show.plots import Figure, Row
from gpulake.show.web.cells import duration

SIZE_LABELS = ("< 0.25", "0.25 – 0.5", "0.5 – 1", "1", "1 – 8", "8 – 63", "≥ 64")
PERCENTILE_COLOURS = {"p50": "#9ecae1", "p90": plots.SKY, "p95": plots.BLUE, "p99": plots.RED}
CIVIDIS = (
    "#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838",
)  # fmt: skip
WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
# Durations as people read them, on a logarithmic axis.
TICKS = {
    1: "1 s", 10: "10 s", 60: "1 min", 600: "10 min", 3600: "1 h", 6 * 3600: "6 h", 86400: "1 d", 7 * 86400: "7 d",
    30 * 86400: "30 d",
}  # fmt: skip
LEAST_SECONDS = 1.0  # a bar of a logarithmic axis has to begin somewhere


def colour_scale(colours: Sequence[str] = CIVIDIS) -> list[list[Any]]:
    return [[at / (len(colours) - 1), colour] for at, colour in enumerate(colours)]


def log_seconds(title: str = "") -> Figure:
    ticks = {"tickvals": list(TICKS), "ticktext": list(TICKS.values())}
    return {"type": "log", "zeroline": False, "title": {"text": title}, **ticks}


def waits_by_type(rows: Sequence[Row]) -> Figure:
    return _percentiles(rows, [str(row["gpu_type"]) for row in rows], [row["gpu_type"] for row in rows])


def waits_by_size(rows: Sequence[Row]) -> Figure:
    return _percentiles(rows, [SIZE_LABELS[row["size"] - 1] for row in rows], [row["size"] for row in rows])


def _percentiles(rows: Sequence[Row], names: list[str], custom: list[Any]) -> Figure:
    labels = [html.escape(name) for name in names]
    traces = []
    for name, colour in PERCENTILE_COLOURS.items():
        values = [row[f"{name}_wait_seconds"] for row in rows]
        texts = [
            f"{label}: {name} {'–' if value is None else duration(value)}, {row['waits']:,} tasks that began"
            for label, value, row in zip(labels, values, rows, strict=True)
        ]
        shown = [None if value is None else max(value, LEAST_SECONDS) for value in values]
        traces.append(plots.bars(name, labels, shown, colour, customdata=custom, hovertext=texts, hoverinfo="text"))
    return plots.figure(
        traces, {"type": "category", "automargin": True}, log_seconds(), barmode="group", bargap=0.25, bargroupgap=0.05
    )


def distribution(rows: Sequence[Row]) -> Figure:
    """How many take at most so long, by GPU type; the line of each ends at 100 %."""
    kinds = sorted({str(row["gpu_type"]) for row in rows})
    traces = []
    for at, kind in enumerate(kinds):
        some = [row for row in rows if str(row["gpu_type"]) == kind]
        trace = plots.line(
            kind,
            plots.column(some, "at_most_seconds", 3),
            plots.column(some, "tasks_so_far_ratio", 5),
            plots.PALETTE[at % len(plots.PALETTE)],
            1.8,
            customdata=[[kind, row["at_most_seconds"]] for row in some],
            text=[duration(row["at_most_seconds"]) for row in some],
            hovertemplate="%{y:.1%} take at most %{text}<extra>%{fullData.name}</extra>",
        )
        traces.append(trace)
    share = {"tickformat": ".0%", "range": [0, 1.02], "title": {"text": "share of tasks"}}
    return plots.figure(traces, log_seconds(), share, hovermode="closest")


def demand(rows: Sequence[Row]) -> Figure:
    """What is held, and on top of it what waits, against what is available."""
    begins = plots.column(rows, "begin")
    traces = [
        plots.line(
            name, begins, plots.column(rows, f"{name}_gpu_hours", 2), colour, 0, stackgroup="demand", fillcolor=colour
        )
        for name, colour in (("held", plots.BLUE), ("waiting", plots.ORANGE))
    ]
    available = plots.line("available", begins, plots.column(rows, "available_gpu_hours", 2), plots.RED, 2)
    available["line"]["dash"] = "dot"
    requested = plots.column(rows, "requested_gpus", 2)
    traces += [available, plots.line("GPUs newly requested", begins, requested, plots.GREY, 1, visible="legendonly")]
    return plots.figure(traces, plots.time_axis(begins), plots.from_zero("GPU-hours"), hovermode="x unified")


def week(rows: Sequence[Row]) -> Figure:
    """Demand by weekday and hour, Monday on top."""
    by_hour = {(row["weekday"], row["hour"]): row for row in rows}
    days, hours = range(1, 8), range(24)
    values = [[_share(by_hour.get((day, hour))) for hour in hours] for day in days]
    texts = [[_hour_text(by_hour.get((day, hour))) for hour in hours] for day in days]
    heat = {
        "type": "heatmap",
        "x": [f"{hour:02d}:00" for hour in hours],
        "y": list(WEEKDAYS),
        "z": values,
        "customdata": [[[day, hour] for hour in hours] for day in days],
        "text": texts,
        "hovertemplate": "%{y} %{x}<br>%{text}<extra></extra>",
        "colorscale": colour_scale(),
        "colorbar": {"tickformat": ".0%", "thickness": 12, "outlinewidth": 0},
        "hoverongaps": False,
        "xgap": 1,
        "ygap": 1,
    }
    grid = {"showgrid": False}
    return plots.figure([heat], {"type": "category", **grid}, {"autorange": "reversed", "type": "category", **grid})


def _share(row: Row | None) -> float | None:
    return None if row is None or row["demanded_ratio"] is None else round(row["demanded_ratio"], 4)


def _hour_text(row: Row | None) -> str:
    if row is None:
        return "no data for this hour"
    demanded = "–" if row["demanded_ratio"] is None else f"{row['demanded_ratio']:.1%}"
    return (
        f"demanded {demanded} of what is available<br>{row['held_gpu_hours']:,.1f} GPU-h held, "
        f"{row['waiting_gpu_hours']:,.1f} waiting<br>{row['submitted_tasks']:,.1f} tasks launched<br>"
        f"mean of {row['hours']} hours"
    )
