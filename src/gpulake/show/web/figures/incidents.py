"""Incidents by day, and the days that stand out."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.show.plots import (
    ORANGE,
    RED,
    SKY,
    Figure,
    Row,
    bars,
    column,
    figure,
    from_zero,
    note,
    time_axis,
    utilisation,
)

SEVERITY_COLOURS = {"critical": RED, "warning": ORANGE, "info": SKY}
FEW = 8


def incidents_by_day(days: Sequence[Row]) -> Figure:
    dates = [str(day["day"]) for day in days]
    traces = [bars(name, dates, column(days, name), colour) for name, colour in SEVERITY_COLOURS.items()]
    step = 1 if max(day["incidents"] for day in days) < FEW else None
    gap = 0.7 if len(days) < FEW else 0.2
    return figure(traces, time_axis(dates), from_zero("incidents seen", dtick=step), barmode="stack", bargap=gap)


def anomalous_days(days: Sequence[Row]) -> Figure:
    """Each day's utilisation within the band that was expected of it."""
    names = {
        "dt": "day",
        "own_low_ratio": "low_ratio",
        "own_high_ratio": "high_ratio",
        "anomaly_flag": "reference_flag",
    }
    rows = [
        {**day, **{name: day[source] for name, source in names.items()}}
        for day in sorted(days, key=lambda day: str(day["day"]))
    ]
    drawn = utilisation(rows, rows)
    if not any(row["gpu_util_ratio"] is not None for row in rows):
        drawn["layout"]["annotations"] = [note("no utilisation was observed on these days")]
        drawn["layout"]["yaxis"]["range"] = [0, 1]
    return drawn
