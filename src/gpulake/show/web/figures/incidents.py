"""Incidents by day, and the days that stand out."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.show import plots
from gpulake.show.plots import Figure, Row
from gpulake.show.web.figures.axes import time_axis
from gpulake.show.web.figures.frame import amounts
from gpulake.show.web.figures.jobs import told

SEVERITY_COLOURS = {"critical": plots.RED, "warning": plots.ORANGE, "info": "#56B4E9"}
MOST_DAYS_AS_NAMES = 8


def incidents_by_day(days: Sequence[Row]) -> Figure:
    dates = [str(day["day"]) for day in days]
    bars = [
        {"type": "bar", "name": severity, "x": dates, "y": [day[severity] for day in days], "marker": {"color": colour}}
        for severity, colour in SEVERITY_COLOURS.items()
    ]
    figure = amounts(bars, "incidents seen", barmode="stack")
    figure["layout"]["yaxis"]["dtick"] = 1 if max(day["incidents"] for day in days) < MOST_DAYS_AS_NAMES else None
    is_short = len(days) < MOST_DAYS_AS_NAMES
    figure["layout"]["bargap"] = 0.7 if is_short else 0.2
    figure["layout"]["xaxis"].update(time_axis(dates))
    return figure


def anomalous_days(days: Sequence[Row]) -> Figure:
    """Each day's utilisation within the band that was expected of it."""
    rows = sorted(days, key=lambda day: str(day["day"]))
    banded = [row for row in rows if row["low_ratio"] is not None and row["high_ratio"] is not None]
    low, high = _points(banded, "low_ratio"), _points(banded, "high_ratio")
    traces: list[Figure] = [
        *plots.band("expected", low["x"], low["y"], high["y"]),
        {
            **_points(rows, "gpu_util_ratio"),
            "type": "scatter",
            "mode": "lines+markers",
            "name": "GPU utilisation",
            "line": {"color": plots.BLUE, "width": 1.5},
            "marker": {"size": 5},
            "hovertemplate": "%{x|%a %Y-%m-%d}<br>%{y:.1%} of observed GPU-hours<extra></extra>",
        },
        _marks("outside of what is expected", [row for row in rows if row["own_flag"]], "circle", plots.RED),
        _marks(
            "flagged by the reference's forest", [row for row in rows if row["reference_flag"]], "diamond", plots.ORANGE
        ),
    ]
    figure = amounts([trace for trace in traces if trace["x"]], "share of observed time", barmode="stack")
    figure["layout"]["yaxis"]["tickformat"] = ".0%"
    figure["layout"]["xaxis"].update(time_axis([row["day"] for row in rows]))
    if not any(row["gpu_util_ratio"] is not None for row in rows):
        figure["layout"]["annotations"] = [told("no utilisation was observed on these days")]
        figure["layout"]["yaxis"]["range"] = [0, 1]
    return figure


def _points(rows: Sequence[Row], column: str) -> Figure:
    return {"x": [str(row["day"]) for row in rows], "y": [row[column] for row in rows]}


def _marks(name: str, rows: Sequence[Row], symbol: str, colour: str) -> Figure:
    return {
        **_points(rows, "gpu_util_ratio"),
        "type": "scatter",
        "mode": "markers",
        "name": name,
        "marker": {"symbol": f"{symbol}-open", "size": 14, "color": colour, "line": {"width": 2}},
        "hovertemplate": f"%{{x|%a %Y-%m-%d}}<br>{name}<extra></extra>",
    }
