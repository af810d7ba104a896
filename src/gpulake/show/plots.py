"""Plots as plain Plotly figures: dictionaries of data and layout. Reports draw them with plotly.js; the
dashboard's charts.js draws what is used here and in web/figures.

Plotly reads HTML in labels: names of traces are escaped here, all other labels where they are made.
"""

from __future__ import annotations

import html
from collections.abc import Collection, Sequence
from datetime import date, datetime, time, timedelta
from itertools import pairwise
from typing import Any

from gpulake.core.ledger import HELD, bucket_name
from gpulake.core.words import label

Figure = dict[str, Any]
Row = dict[str, Any]
# Okabe and Ito's palette: colour-blind readers can tell its colours apart, too.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
SKY, PINK = "#56B4E9", "#CC79A7"
PALETTE = (BLUE, ORANGE, GREEN, RED, PINK, SKY, "#B8A200", "#7B3294", GREY)
GRID = "rgba(128,128,128,.2)"
BAND = "rgba(0,114,178,.15)"
MOST_HOLDERS = 15
HALF_DAY = timedelta(hours=12)
MOST_LABEL = 28
LEAST_DATES = 4  # fewer are drawn as names, not as a time axis
MOST_EMPTY = 3  # times as long as what is shown: then most of a time axis would be empty
MOST_NAMES = 5
# In the order in which they are stacked.
BUCKET_COLOURS = {
    "used": BLUE,
    "under_used": SKY,
    "idle": ORANGE,
    "failed": RED,
    "timed_out": PINK,
    "interrupted": "#7B3294",
    "unobserved": "#c3b9dd",
    # Unallocated is most of a plot: the same grey on a light page and on a dark one.
    "unallocated": "rgba(128,140,155,.22)",
    "unknown": "#cfc08a",
    "down": "#7a828c",
}
# Legible on a light page and on a dark one.
LAYOUT = {
    "paper_bgcolor": "rgba(0,0,0,0)",
    "plot_bgcolor": "rgba(0,0,0,0)",
    "font": {"family": "system-ui, sans-serif", "color": "#888"},
}


def figure(traces: list[Figure], x: Figure, y: Figure, **layout: Any) -> Figure:
    """The legend grows upwards, away from the plot."""
    margin = {"l": 60, "r": 15, "t": 10, "b": 40}
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    axes = {"xaxis": {"gridcolor": GRID, **x}, "yaxis": {"gridcolor": GRID, **y}}
    return {"data": traces, "layout": {"margin": margin, "legend": legend, **axes, **LAYOUT, **layout}}


def from_zero(title: str = "", **more: Any) -> Figure:
    """An axis of amounts."""
    return {"title": {"text": title}, "rangemode": "tozero", **more}


def shares(title: str = "") -> Figure:
    return from_zero(title, tickformat=".0%")


def time_axis(times: Sequence[object]) -> Figure:
    """Of days or of hours. Times far apart, as of two clusters, are shown side by side, by name."""
    moments = sorted({datetime.fromisoformat(str(time)) for time in times})
    steps = [after - before for before, after in pairwise(moments)]
    is_sparse = bool(steps) and moments[-1] - moments[0] > MOST_EMPTY * len(moments) * min(steps)
    if len(moments) >= LEAST_DATES and not is_sparse:
        return {"type": "date"}
    return {"type": "category", "nticks": MOST_NAMES, "tickangle": 0}


def utc_axis(**more: Any) -> Figure:
    """Of moments in UTC, which a page may show in another zone."""
    return {"type": "date", "zone": "UTC", **more}


def line(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, width: float = 1.5, **more: Any) -> Figure:
    style = {"color": colour, "width": width}
    return {"type": "scatter", "mode": "lines", "name": html.escape(name), "x": x, "y": y, "line": style, **more}


def marks(name: str, x: Sequence[Any], y: Sequence[Any], marker: Figure, **more: Any) -> Figure:
    named = {"type": "scatter", "mode": "markers", "name": html.escape(name)}
    return {**named, "x": x, "y": y, "marker": marker, **more}


def bars(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, **more: Any) -> Figure:
    return {"type": "bar", "name": html.escape(name), "x": x, "y": y, "marker": {"color": colour}, **more}


def spans(
    name: str, lanes: Sequence[Any], times: Sequence[tuple[datetime, datetime]], texts: Sequence[str], colour: str
) -> Figure:
    """From one time to another, each in its lane; the text is shown on hovering."""
    lengths = [(end - begin).total_seconds() * 1000 for begin, end in times]
    begins = [moment(begin) for begin, _ in times]
    hover = {"text": texts, "textposition": "none", "hovertemplate": "%{text}<extra></extra>"}
    return bars(name, lengths, lanes, colour, base=begins, orientation="h", **hover)


def band(name: str, x: list[Any], low: list[Any], high: list[Any]) -> list[Figure]:
    """The expected range, as an area behind everything else."""
    edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip"}
    fill = {"fill": "tonexty", "fillcolor": BAND, "name": name, "legendgroup": name}
    return [{**edge, "y": low, "showlegend": False, "legendgroup": name}, {**edge, **fill, "y": high}]


def shade(begin: datetime, end: datetime, colour: str, opacity: float) -> Figure:
    """A span of time, behind the traces."""
    place = {"type": "rect", "x0": moment(begin), "x1": moment(end), "yref": "paper", "y0": 0, "y1": 1}
    return {**place, "fillcolor": colour, "opacity": opacity, "line": {"width": 0}, "layer": "below"}


def partial_days(days: Collection[date]) -> list[Figure]:
    """Days that were observed in part: what is lower there is no fall."""
    points = [datetime.combine(day, time()) for day in sorted(days)]
    over = {"layer": "above", "name": "part of this day only"}
    return [shade(at - HALF_DAY, at + HALF_DAY, GREY, 0.25) | over for at in points]


def note(text: str, **place: Any) -> Figure:
    """In the middle of the plot, unless a place is given."""
    return {"text": text, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5, **place}


def moment(at: datetime) -> str:
    """As plots read it: in UTC, without a zone."""
    return f"{at:%Y-%m-%d %H:%M:%S.%f}"[:-3].removesuffix(".000")


def column(rows: Sequence[Row], name: str, digits: int | None = None, unit: float = 1) -> list[Any]:
    values = [row[name] for row in rows]
    if digits is None:
        return values
    return [None if value is None else round(float(value) / unit, digits) for value in values]


def utilisation(days: Sequence[Row], scored: Sequence[Row]) -> Figure:
    """GPU utilisation by day, in the expected band. Poorly covered days are hollow; our flags are solid, the
    reference's are rings."""
    reasons = {row["dt"]: row["why_they_differ"] for row in scored}
    dates = [str(day["dt"]) for day in days]
    fills = ["white" if day["is_poorly_covered"] else BLUE for day in days]
    hover = "%{x|%a %Y-%m-%d}<br>%{y:.1%} of GPU-hours<br>%{customdata:.0%} observed<br>%{text}<extra></extra>"
    gpu = line(
        "GPU utilisation",
        dates,
        column(days, "gpu_util_ratio"),
        BLUE,
        mode="lines+markers",
        marker={"color": fills, "line": {"color": BLUE, "width": 1.5}},
        customdata=column(days, "coverage_ratio"),
        text=[html.escape(reasons.get(day["dt"], "")) for day in days],
        hovertemplate=hover,
    )
    solid = {"symbol": "circle", "size": 11, "color": RED}
    ring = {"symbol": "circle-open", "size": 18, "color": RED, "line": {"width": 2}}
    known = [row for row in scored if row["own_low_ratio"] is not None and row["own_high_ratio"] is not None]
    low, high = column(known, "own_low_ratio"), column(known, "own_high_ratio")
    traces = [*band("expected of GPU utilisation", [str(row["dt"]) for row in known], low, high)]
    if any("cpu_util_ratio" in day for day in days):
        traces.append(line("CPU utilisation", dates, column(days, "cpu_util_ratio"), GREY, 1))
    traces.append(gpu)
    for name, flag, marker in (
        ("flagged by gpulake", "own_flag", solid),
        ("flagged by the reference's forest", "anomaly_flag", ring),
    ):
        flagged = {row["dt"] for row in scored if row[flag]}
        shown = [day for day in days if day["dt"] in flagged]
        texts = [html.escape(reasons[day["dt"]]) for day in shown]
        at = [str(day["dt"]) for day in shown]
        values = column(shown, "gpu_util_ratio")
        traces.append(marks(name, at, values, marker, text=texts, hovertemplate="%{text}<extra></extra>"))
    return figure(traces, time_axis(dates), shares("share of observed time"))


def holders(rows: Sequence[Row], name: str, by: str = "held_gpu_hours") -> Figure:
    """Those who have most of it, and what became of all that they held. A click leads to the one."""
    top = sorted(rows, key=lambda row: -row[by])[:MOST_HOLDERS][::-1]
    names = [html.escape(label(row[name], MOST_LABEL)) for row in top]
    # Two long names may be cut to the same text: a bar is placed by its number, and its name is only shown.
    places = list(range(len(top)))
    custom = ["" if row[name] is None else str(row[name]) for row in top]
    hover = {"hovertemplate": "%{text}: %{x:,.0f} GPU-hours<extra>%{fullData.name}</extra>", "textposition": "none"}
    traces = [
        bars(
            bucket_name(bucket),
            column(top, f"{bucket}_gpu_hours"),
            places,
            BUCKET_COLOURS[bucket],
            orientation="h",
            customdata=custom,
            text=names,
            **hover,
        )
        for bucket in HELD
        if any(row[f"{bucket}_gpu_hours"] for row in top)
    ]
    y = {"tickvals": places, "ticktext": names, "automargin": True}
    return figure(traces, {"title": {"text": "GPU-hours held"}}, y, barmode="stack", bargap=0.25)


def buckets(rows: Sequence[Row], at: str = "day") -> Figure:
    """What became of the GPU-hours of each day or hour."""
    times = [str(row[at]) for row in rows]
    shown = [bucket for bucket in BUCKET_COLOURS if any(row.get(bucket) for row in rows)]
    traces = [bars(bucket_name(one), times, column(rows, one, 3), BUCKET_COLOURS[one]) for one in shown]
    return figure(traces, time_axis(times), from_zero("GPU-hours"), barmode="stack", bargap=0.05, hovermode="x unified")


def jobs(days: Sequence[Row]) -> Figure:
    dates = [str(day["dt"]) for day in days]
    other = [day["ended_jobs"] - day["succeeded_jobs"] - day["failed_jobs"] for day in days]
    traces = [
        bars("succeeded", dates, column(days, "succeeded_jobs"), GREEN),
        bars("failed", dates, column(days, "failed_jobs"), RED),
        bars("other", dates, other, GREY),
    ]
    return figure(traces, time_axis(dates), from_zero("jobs ended"), barmode="stack")
