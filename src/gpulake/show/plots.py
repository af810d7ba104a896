"""Plots as plain Plotly figures: dictionaries of data and layout, drawn by the library's own script in the page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from gpulake.core.ledger import HELD, bucket_name

Figure = dict[str, Any]
Row = dict[str, Any]
# Okabe and Ito's palette: told apart by colour-blind readers too.
BLUE, ORANGE, GREEN, RED, GREY = "#0072B2", "#E69F00", "#009E73", "#D55E00", "#999999"
GRID = "rgba(128,128,128,.2)"
BAND = "rgba(0,114,178,.15)"
MOST_USERS = 15
# In the order in which they are stacked.
BUCKET_COLOURS = {
    "used": BLUE,
    "under_used": "#56B4E9",
    "idle": ORANGE,
    "failed": RED,
    "timed_out": "#CC79A7",
    "interrupted": "#7B3294",
    "unobserved": "#c3b9dd",
    # What nobody held is most of a plot: it is the same grey on a light page and on a dark one.
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


def utilisation(days: Sequence[Row], scored: Sequence[Row]) -> Figure:
    """Corrected utilisation by day, in the band that was expected. Poorly covered days are hollow; our flags are solid,
    the reference's are rings."""
    reasons = {row["dt"]: row["why_they_differ"] for row in scored}
    line = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": "GPU utilisation",
        "x": _dates(days),
        "y": _column(days, "gpu_util_ratio"),
        "marker": {
            "color": ["white" if day["is_poorly_covered"] else BLUE for day in days],
            "line": {"color": BLUE, "width": 1.5},
        },
        "line": {"color": BLUE},
        "customdata": _column(days, "coverage_ratio"),
        "text": [html.escape(reasons.get(day["dt"], "")) for day in days],
        "hovertemplate": (
            "%{x|%a %Y-%m-%d}<br>%{y:.1%} of GPU-hours<br>%{customdata:.0%} observed<br>%{text}<extra></extra>"
        ),
    }
    own = {row["dt"]: row["why_they_differ"] for row in scored if row["own_flag"]}
    forest = {row["dt"]: row["why_they_differ"] for row in scored if row["anomaly_flag"]}
    solid = {"symbol": "circle", "size": 11, "color": RED}
    ring = {"symbol": "circle-open", "size": 18, "color": RED, "line": {"width": 2}}
    marks = [
        _marks("flagged by gpulake", days, own, solid),
        _marks("flagged by the reference's forest", days, forest, ring),
    ]
    cpu = _line("CPU utilisation", _dates(days), _column(days, "cpu_util_ratio"), GREY)
    known = [row for row in scored if row["own_low_ratio"] is not None]
    low, high = _column(known, "own_low_ratio"), _column(known, "own_high_ratio")
    traces = [*band("expected of GPU utilisation", _dates(known), low, high), cpu, line, *marks]
    return _figure(traces, "share of observed time", tickformat=".0%")


def band(name: str, x: list[Any], low: list[Any], high: list[Any]) -> list[Figure]:
    """What was expected, as an area behind everything else."""
    edge = {"type": "scatter", "mode": "lines", "x": x, "line": {"width": 0}, "hoverinfo": "skip"}
    fill = {"fill": "tonexty", "fillcolor": BAND, "name": name, "legendgroup": name}
    return [{**edge, "y": low, "showlegend": False, "legendgroup": name}, {**edge, **fill, "y": high}]


def _marks(name: str, days: Sequence[Row], why: dict[Any, str], marker: Figure) -> Figure:
    marked = [day for day in days if day["dt"] in why]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "x": _dates(marked),
        "y": _column(marked, "gpu_util_ratio"),
        "marker": marker,
        "text": [html.escape(why[day["dt"]]) for day in marked],
        "hovertemplate": "%{text}<extra></extra>",
    }


def holders(users: Sequence[Row]) -> Figure:
    """The users who left most GPU-hours idle, and what became of all that they held."""
    top = list(users[:MOST_USERS])[::-1]
    names = [html.escape(str(user["user_id"])) for user in top]
    bars = [
        {**_bar(bucket_name(bucket), _column(top, bucket), names, BUCKET_COLOURS[bucket]), "orientation": "h"}
        for bucket in HELD
    ]
    figure = _figure(bars, "", barmode="stack")
    figure["layout"]["xaxis"]["title"] = {"text": "GPU-hours held"}
    figure["layout"]["yaxis"].update(type="category", automargin=True)
    figure["layout"]["legend"]["traceorder"] = "normal"
    return figure


def buckets(days: Sequence[Row]) -> Figure:
    """What became of each day's GPU-hours."""
    dates = [str(day["day"]) for day in days]
    shown = [bucket for bucket in BUCKET_COLOURS if any(bucket in day for day in days)]
    bars = [_bar(bucket_name(bucket), dates, _column(days, bucket), BUCKET_COLOURS[bucket]) for bucket in shown]
    figure = _figure(bars, "GPU-hours", barmode="stack")
    figure["layout"]["bargap"] = 0.15
    figure["layout"]["legend"]["traceorder"] = "normal"
    # A day or two are days, and not a time of day.
    figure["layout"]["xaxis"]["type"] = "category" if len(days) < 8 else "date"
    return figure


def jobs(days: Sequence[Row]) -> Figure:
    dates = _dates(days)
    other = [day["ended_jobs"] - day["succeeded_jobs"] - day["failed_jobs"] for day in days]
    parts = [
        ("succeeded", _column(days, "succeeded_jobs"), GREEN),
        ("failed", _column(days, "failed_jobs"), RED),
        ("other", other, GREY),
    ]
    return _figure([_bar(name, dates, values, colour) for name, values, colour in parts], "jobs ended", barmode="stack")


def _line(name: str, x: list[Any], y: list[Any], colour: str) -> Figure:
    return {"type": "scatter", "mode": "lines", "name": name, "x": x, "y": y, "line": {"color": colour, "width": 1}}


def _bar(name: str, x: list[Any], y: list[Any], colour: str) -> Figure:
    return {"type": "bar", "name": name, "x": x, "y": y, "marker": {"color": colour}}


def _figure(traces: list[Figure], y_title: str, barmode: str = "group", tickformat: str = "") -> Figure:
    layout = {
        "barmode": barmode,
        "margin": {"l": 60, "r": 20, "t": 10, "b": 40},
        # It grows upwards, away from the plot.
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": {"gridcolor": GRID},
        "yaxis": {"title": {"text": y_title}, "rangemode": "tozero", "tickformat": tickformat, "gridcolor": GRID},
        **LAYOUT,
    }
    return {"data": traces, "layout": layout}


def _dates(rows: Sequence[Row]) -> list[str]:
    return [str(row["dt"]) for row in rows]


def _column(rows: Sequence[Row], name: str) -> list[Any]:
    return [row[name] for row in rows]
