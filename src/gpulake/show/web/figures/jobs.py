"""Figures of jobs: how they ended, their attempts in time, what they used of what they asked for."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from gpulake.show.plots import BLUE, GREEN, GREY, GRID, LAYOUT, ORANGE, RED
from gpulake.show.web.figures.axes import time_axis

Row = dict[str, Any]
Figure = dict[str, Any]
MOST_LANES = 150
TALLEST, LANE, AROUND = 600, 30, 90  # in pixels
COLOURS = {
    "succeeded": GREEN,
    "failed": RED,
    "node_fail": "#7f2704",
    "timeout": "#CC79A7",
    "interrupted": ORANGE,
    "cancelled": GREY,
    "running": BLUE,
    "waiting": "#56B4E9",
    "unknown": "#b7a9c9",
}
RESOURCES = (
    ("GPU", "requested_gpus", "used_gpus", "{:.3g} of {:.3g} GPUs"),
    ("CPU", "requested_cores", "used_cores", "{:.3g} of {:.3g} cores"),
    ("memory, peak", "requested_memory_bytes", "peak_memory_bytes", "{:,.0f} of {:,.0f} bytes"),
)


def layout(**changes: Any) -> Figure:
    return {
        "margin": {"l": 60, "r": 20, "t": 10, "b": 40},
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom", "traceorder": "normal"},
        "xaxis": {},
        "yaxis": {"gridcolor": GRID, "rangemode": "tozero"},
        **LAYOUT,
        **changes,
    }


def told(words: str) -> Figure:
    """In the middle of a plot that has nothing else to show."""
    return {"text": words, "showarrow": False, "xref": "paper", "yref": "paper", "x": 0.5, "y": 0.5}


def by_status(rows: Sequence[Row]) -> Figure:
    """Jobs of each day of submission, stacked by how they ended."""
    days = sorted({str(row["day"]) for row in rows})
    jobs = {(str(row["day"]), row["status"]): row["jobs"] for row in rows}
    known = {str(row["status"]) for row in rows}
    bars = [
        {
            "type": "bar",
            "name": html.escape(status),
            "x": days,
            "y": [jobs.get((day, status), 0) for day in days],
            "marker": {"color": COLOURS.get(status, GREY)},
        }
        for status in (*COLOURS, *sorted(known - set(COLOURS)))
        if status in known
    ]
    own = layout(barmode="stack", bargap=0.15)
    own["yaxis"]["title"] = {"text": "jobs submitted"}
    own["xaxis"] = time_axis(days)
    return {"data": bars, "layout": own}


def attempts(rows: Sequence[Row]) -> Figure:
    """A lane for each attempt, from its begin to its end; what is inferred is pale. A click leads to its machine."""
    drawn = [row for row in rows if _begin(row) and _end(row)][:MOST_LANES]
    lanes = [f"{place + 1}" for place in range(len(drawn))]
    bars = []
    for status in dict.fromkeys(str(row["status"]) for row in drawn):
        own = [(lane, row) for lane, row in zip(lanes, drawn, strict=True) if str(row["status"]) == status]
        bars.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": html.escape(status),
                "y": [lane for lane, _ in own],
                "base": [_begin(row).isoformat() for _, row in own],  # type: ignore[union-attr]
                "x": [_milliseconds(row) for _, row in own],
                "customdata": [row["machine_id"] or "" for _, row in own],
                "text": [_told(row) for _, row in own],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {
                    "color": COLOURS.get(status, GREY),
                    "opacity": [0.5 if row["is_inferred"] else 1.0 for _, row in own],
                },
            }
        )
    names = [_name(row) for row in drawn]
    is_named = len(drawn) <= 24
    own_layout = layout(barmode="overlay", bargap=0.25, height=min(AROUND + LANE * max(len(drawn), 2), TALLEST))
    own_layout["xaxis"] = {"type": "date", "gridcolor": GRID}
    own_layout["yaxis"] = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": lanes,
        "autorange": "reversed",
        "automargin": True,
        "showticklabels": is_named,
        "tickvals": lanes,
        "ticktext": names,
    }
    return {"data": bars, "layout": own_layout}


def resources(rows: Sequence[Row]) -> Figure:
    """Of each task, what its instances used of what was requested, as a share of the request."""
    bars = []
    for (resource, asked, used, words), colour in zip(RESOURCES, (BLUE, GREEN, ORANGE), strict=True):
        own = [row for row in rows if row[asked] and row[used] is not None]
        if own:
            bars.append(
                {
                    "type": "bar",
                    "name": resource,
                    "x": [html.escape(str(row["task_name"])) for row in own],
                    "y": [row[used] / row[asked] for row in own],
                    "text": [words.format(row[used], row[asked]) for row in own],
                    "hovertemplate": "%{text}: %{y:.1%}<extra></extra>",
                    "textposition": "none",
                    "marker": {"color": colour},
                }
            )
    own_layout = layout(barmode="group", bargap=0.3)
    own_layout["xaxis"] = {"type": "category"}
    own_layout["yaxis"].update(title={"text": "used, of what was requested"}, tickformat=".0%")
    own_layout["shapes"] = [
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": 1, "y1": 1, "line": {"color": GREY, "dash": "dot"}}
    ]
    if not bars:
        own_layout["yaxis"]["range"] = [0, 1.1]
        own_layout["annotations"] = [told("no sensor saw what it used of it")]
    return {"data": bars, "layout": own_layout}


def _begin(row: Row) -> datetime | None:
    begin: datetime | None = row["held_from"] or row["started_at"]
    return begin


def _end(row: Row) -> datetime | None:
    end: datetime | None = row["held_until"] or row["ended_at"]
    return end


def _milliseconds(row: Row) -> float:
    begin, end = _begin(row), _end(row)
    return (end - begin).total_seconds() * 1000 if begin and end else 0.0


def _name(row: Row) -> str:
    return html.escape(f"{row['task_name']} {row['attempt']} · {(row['machine_id'] or 'no machine')[:20]}")


def _told(row: Row) -> str:
    machine = row["machine_id"] or "no machine"
    inferred = ", its begin or end inferred" if row["is_inferred"] else ""
    times = f"{_begin(row):%Y-%m-%d %H:%M:%S} to {_end(row):%H:%M:%S}"
    return "<br>".join(
        html.escape(line)
        for line in (
            f"{row['task_name']}, attempt {row['attempt']}: {row['status']}",
            f"{machine}, {row['gpus'] or 0:g} GPUs",
            times + inferred,
        )
    )
