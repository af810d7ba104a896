"""Figures of jobs: how they ended, their attempts over time, and what they used of what they requested."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime

from gpulake.show import plots
from gpulake.show.plots import Figure, Row

MOST_LANES = 150
MOST_NAMED_LANES = 24
TALLEST, LANE, AROUND = 600, 30, 90  # in pixels
COLOURS = {
    "succeeded": plots.GREEN,
    "failed": plots.RED,
    "node_fail": "#7f2704",
    "timeout": plots.PINK,
    "interrupted": plots.ORANGE,
    "cancelled": plots.GREY,
    "running": plots.BLUE,
    "waiting": plots.SKY,
    "unknown": "#b7a9c9",
}
RESOURCES = (
    ("GPU", "requested_gpus", "used_gpus", "{:.3g} of {:.3g} GPUs", plots.BLUE),
    ("CPU", "requested_cores", "used_cores", "{:.3g} of {:.3g} cores", plots.GREEN),
    ("memory, peak", "requested_memory_bytes", "peak_memory_bytes", "{:,.0f} of {:,.0f} bytes", plots.ORANGE),
)


def by_status(rows: Sequence[Row]) -> Figure:
    """Jobs of each day of submission, stacked by how they ended."""
    days = sorted({str(row["day"]) for row in rows})
    jobs = {(str(row["day"]), str(row["status"])): row["jobs"] for row in rows}
    known = {status for _, status in jobs}
    traces = [
        plots.bars(status, days, [jobs.get((day, status), 0) for day in days], COLOURS.get(status, plots.GREY))
        for status in (*COLOURS, *sorted(known - set(COLOURS)))
        if status in known
    ]
    return plots.figure(traces, plots.time_axis(days), plots.from_zero("jobs submitted"), barmode="stack", bargap=0.15)


def attempts(rows: Sequence[Row]) -> Figure:
    """A lane for each attempt, from its start to its end; what is inferred is pale. A click leads to its machine."""
    drawn = [(row, times) for row in rows if (times := _times(row))][:MOST_LANES]
    lanes = [f"{place + 1}" for place in range(len(drawn))]
    traces = []
    for status in dict.fromkeys(str(row["status"]) for row, _ in drawn):
        some = [(lane, *one) for lane, one in zip(lanes, drawn, strict=True) if str(one[0]["status"]) == status]
        texts = [_hover(row, times) for _, row, times in some]
        trace = plots.spans(
            status, [one[0] for one in some], [one[2] for one in some], texts, COLOURS.get(status, plots.GREY)
        )
        trace["marker"]["opacity"] = [0.5 if row["is_inferred"] else 1.0 for _, row, _ in some]
        traces.append({**trace, "customdata": [row["machine_id"] or "" for _, row, _ in some]})
    y = {
        "type": "category",
        "categoryorder": "array",
        "categoryarray": lanes,
        "autorange": "reversed",
        "automargin": True,
        "showticklabels": len(drawn) <= MOST_NAMED_LANES,
        "tickvals": lanes,
        "ticktext": [html.escape(f"{row['task_name']} {row['attempt']} · {_machine(row)[:20]}") for row, _ in drawn],
    }
    height = min(AROUND + LANE * max(len(drawn), 2), TALLEST)
    return plots.figure(traces, plots.utc_axis(), y, barmode="overlay", bargap=0.25, height=height)


def resources(rows: Sequence[Row]) -> Figure:
    """Of each task, what its instances used of what was requested, as a share of the request."""
    traces = []
    for name, requested, used, words, colour in RESOURCES:
        known = [row for row in rows if row[requested] and row[used] is not None]
        if known:
            tasks = [html.escape(str(row["task_name"])) for row in known]
            texts = [words.format(row[used], row[requested]) for row in known]
            hover = {"text": texts, "textposition": "none", "hovertemplate": "%{text}: %{y:.1%}<extra></extra>"}
            traces.append(plots.bars(name, tasks, [row[used] / row[requested] for row in known], colour, **hover))
    line = {
        "type": "line",
        "xref": "paper",
        "x0": 0,
        "x1": 1,
        "y0": 1,
        "y1": 1,
        "line": {"color": plots.GREY, "dash": "dot"},
    }
    y = plots.shares("used, of what was requested") | ({} if traces else {"range": [0, 1.1]})
    notes = [] if traces else [plots.note("no sensor measured what it used")]
    return plots.figure(traces, {"type": "category"}, y, barmode="group", bargap=0.3, shapes=[line], annotations=notes)


def _times(row: Row) -> tuple[datetime, datetime] | None:
    begin, end = row["held_from"] or row["started_at"], row["held_until"] or row["ended_at"]
    return (begin, end) if begin and end else None


def _machine(row: Row) -> str:
    return row["machine_id"] or "no machine"


def _hover(row: Row, times: tuple[datetime, datetime]) -> str:
    inferred = ", start or end inferred" if row["is_inferred"] else ""
    lines = (
        f"{row['task_name']}, attempt {row['attempt']}: {row['status']}",
        f"{_machine(row)}, {row['gpus'] or 0:g} GPUs",
        f"{times[0]:%Y-%m-%d %H:%M:%S} to {times[1]:%H:%M:%S}{inferred}",
    )
    return "<br>".join(map(html.escape, lines))
