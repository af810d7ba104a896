"""The ledger drawn: an area that sums to capacity, bars of those who hold most, and how efficient jobs are."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

from gpulake.core.ledger import HELD, bucket_name
from gpulake.core.words import count, label
from gpulake.show.plots import BLUE, BUCKET_COLOURS, GREY, GRID, Figure, Row
from gpulake.show.web.figures.axes import time_axis
from gpulake.show.web.figures.frame import amounts

MOST_HOLDERS = 15
MOST_LABEL = 28


def area(rows: Sequence[Row]) -> Figure:
    """One stacked area of all buckets, with the capacity as the line on top. A click leads to its day."""
    shown = [bucket for bucket in BUCKET_COLOURS if any(row.get(bucket) for row in rows)]
    is_hourly = bool(rows) and rows[0].get("lasted") == "hour"
    x = [_moment(row, is_hourly) for row in rows]
    days = [str(row["day"]) for row in rows]
    traces = [
        {
            "type": "scatter",
            "mode": "lines" if len(rows) > 1 else "markers",
            "stackgroup": "capacity",
            "name": bucket_name(bucket),
            "x": x,
            "y": [row[bucket] for row in rows],
            "customdata": days,
            "line": {"width": 0, "color": BUCKET_COLOURS[bucket], "shape": "hv" if is_hourly else "linear"},
            "fillcolor": BUCKET_COLOURS[bucket],
            "marker": {"color": BUCKET_COLOURS[bucket]},
            "hovertemplate": "%{y:,.0f}",
        }
        for bucket in shown
    ]
    if any("capacity" in row for row in rows):
        traces.append(_capacity(rows, x, days))
    figure = amounts(traces, "GPU-hours " + ("an hour" if is_hourly else "a day"))
    figure["layout"]["hovermode"] = "x unified"
    figure["layout"]["xaxis"].update(time_axis(x))
    figure["layout"]["xaxis"]["hoverformat"] = "%a %Y-%m-%d %H:%M" if is_hourly else "%a %Y-%m-%d"
    return figure


def holders(name: str) -> Any:
    """Bars of those who hold most, by the column that names them. A click leads to the one."""

    def draw(rows: Sequence[Row]) -> Figure:
        top = sorted(rows, key=lambda row: -row["held_gpu_hours"])[:MOST_HOLDERS][::-1]
        names = [_label(row[name]) for row in top]
        # Two long names may be cut to the same: what a bar stands for is its place, and its name is only shown.
        places = list(range(len(top)))
        traces = [
            {
                "type": "bar",
                "orientation": "h",
                "name": bucket_name(bucket),
                "x": [row[f"{bucket}_gpu_hours"] for row in top],
                "y": places,
                "customdata": ["" if row[name] is None else str(row[name]) for row in top],
                "text": names,
                "textposition": "none",
                "marker": {"color": BUCKET_COLOURS[bucket]},
                "hovertemplate": "%{text}: %{x:,.0f} GPU-hours<extra>%{fullData.name}</extra>",
            }
            for bucket in HELD
            if any(row[f"{bucket}_gpu_hours"] for row in top)
        ]
        figure = amounts(traces, "")
        figure["layout"]["barmode"] = "stack"
        figure["layout"]["bargap"] = 0.25
        figure["layout"]["xaxis"].update(title={"text": "GPU-hours held"}, gridcolor=GRID)
        figure["layout"]["yaxis"] = {"tickvals": places, "ticktext": names, "automargin": True}
        return figure

    return draw


def spread(rows: Sequence[Row]) -> Figure:
    """What jobs of each step of efficiency held. A click leads to the jobs."""
    known = [row for row in rows if row["bin"] is not None]
    unknown = [row for row in rows if row["bin"] is None]
    width = known[0]["to_ratio"] - known[0]["from_ratio"] if known else 0.05
    bars = {
        "type": "bar",
        "name": "GPU-hours held",
        "x": [(row["from_ratio"] + row["to_ratio"]) / 2 for row in known],
        "y": [row["held_gpu_hours"] for row in known],
        "width": [width * 0.92 for _ in known],
        "customdata": [row["bin"] for row in known],
        "text": [count(row["jobs"], "job") for row in known],
        "textposition": "none",
        "marker": {"color": BLUE},
        "hovertemplate": "around %{x:.1%}: %{text}, %{y:,.0f} GPU-hours held<extra></extra>",
    }
    figure = amounts([bars], "GPU-hours held")
    figure["layout"]["showlegend"] = False
    figure["layout"]["xaxis"].update(title={"text": "efficiency of the job"}, range=[0, 1], tickformat=".0%")
    if unknown:
        hours, jobs = unknown[0]["held_gpu_hours"], unknown[0]["jobs"]
        figure["layout"]["annotations"] = [
            {
                "text": f"and {hours:,.0f} GPU-hours of {count(jobs, 'job')} without a share of use",
                "xref": "paper",
                "yref": "paper",
                "x": 1,
                "y": 1,
                "xanchor": "right",
                "showarrow": False,
            }
        ]
    return figure


def _capacity(rows: Sequence[Row], x: list[str], days: list[str]) -> Figure:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "capacity",
        "x": x,
        "y": [row["capacity"] for row in rows],
        "customdata": days,
        "line": {"color": GREY, "width": 1.5, "dash": "dot"},
        "hovertemplate": "%{y:,.0f}",
    }


def _moment(row: Row, is_hourly: bool) -> str:
    return f"{row['began_at']:%Y-%m-%d %H:%M}" if is_hourly else str(row["day"])


def _label(value: object) -> str:
    """As Plotly may show it: it reads HTML in labels, and a long one would push the bars aside."""
    return html.escape(label(value, MOST_LABEL))
