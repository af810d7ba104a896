"""Figures of one machine: its GPUs and CPU in use, and what ran on it."""

from __future__ import annotations

import html
from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import pairwise

from gpulake.core.ledger import HELD, bucket_name
from gpulake.show import plots
from gpulake.show.plots import Figure, Row
from gpulake.show.web.cells import duration

MOST_STEPS = 3  # from one point to the next of a line
LEAST_LANES = 4  # so that a few attempts do not fill the plot
TALLEST, LANE, AROUND = 480, 22, 100  # in pixels
ledger = partial(plots.buckets, at="begin")


def use(rows: Sequence[Row]) -> Figure:
    rows = _with_gaps(rows)
    times = [plots.moment(row["began_at"]) for row in rows]
    traces = [
        plots.line("GPUs in use", times, plots.column(rows, "busy_gpus", 3), plots.BLUE),
        plots.line("CPU in use", times, plots.column(rows, "cpu_util_ratio", 3), plots.GREY, yaxis="y2"),
    ]
    right = {**plots.shares(), "overlaying": "y", "side": "right", "showgrid": False}
    return plots.figure(
        traces, plots.utc_axis(), plots.from_zero("GPUs"), yaxis2=right, margin={"l": 60, "r": 50, "t": 10, "b": 40}
    )


def _with_gaps(rows: Sequence[Row]) -> list[Row]:
    """A line is broken where nothing was observed: an empty point follows the last one."""
    pairs = list(pairwise(rows))
    step = min((after["began_at"] - before["began_at"] for before, after in pairs), default=timedelta())
    with_gaps: list[Row] = list(rows[:1])
    for before, after in pairs:
        if after["began_at"] - before["began_at"] > MOST_STEPS * step:
            with_gaps.append({"began_at": before["began_at"] + step, "busy_gpus": None, "cpu_util_ratio": None})
        with_gaps.append(after)
    return with_gaps


def timeline(rows: Sequence[Row]) -> Figure:
    """Attempts as bars, each in the first free lane; the colour is what became of its GPU-hours."""
    ordered = sorted(rows, key=lambda row: (row["held_from"], row["held_until"], str(row["job_id"])))
    lanes = packed([(row["held_from"], row["held_until"]) for row in ordered])
    traces: list[Figure] = []
    for bucket in HELD:
        if bucket == "under_used":  # of an attempt only a part is
            continue
        some = [(row, lane) for row, lane in zip(ordered, lanes, strict=True) if row["bucket"] == bucket]
        texts = [
            f"job {html.escape(str(row['job_id']))}, {html.escape(str(row['status']))}<br>{row['gpus']:g} GPUs for "
            f"{duration(row['held_seconds'])}<br>{bucket_name(bucket)}"
            for row, _ in some
        ]
        times = [(row["held_from"], row["held_until"]) for row, _ in some]
        trace = plots.spans(bucket_name(bucket), [lane for _, lane in some], times, texts, plots.BUCKET_COLOURS[bucket])
        custom = [[str(row["job_id"]), str(row["cluster_id"])] for row, _ in some]
        traces.append({**trace, "width": 0.85, "customdata": custom})
    deep = max(max(lanes, default=0) + 1, LEAST_LANES)
    lanes_axis = {"range": [deep - 0.5, -0.5], "showticklabels": False, "showgrid": False, "zeroline": False}
    height = min(AROUND + LANE * deep, TALLEST)
    return plots.figure(traces, plots.utc_axis(), lanes_axis, barmode="overlay", hovermode="closest", height=height)


def packed(times: Sequence[tuple[datetime, datetime]]) -> list[int]:
    """The lane of each span, in the order of their starts: the first lane whose last span is over."""
    free: list[datetime] = []
    lanes = []
    for begin, end in times:
        lane = next((at for at, until in enumerate(free) if until <= begin), len(free))
        free[lane : lane + 1] = [end]
        lanes.append(lane)
    return lanes
