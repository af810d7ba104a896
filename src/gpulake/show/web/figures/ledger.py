"""The ledger drawn: an area that sums to capacity, how efficient jobs are, and utilisation by day."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpulake.core.ledger import bucket_name
from gpulake.core.words import count
from gpulake.show import plots
from gpulake.show.plots import Figure, Row

users = partial(plots.holders, name="user_id")
groups = partial(plots.holders, name="group_id")


def utilisation(rows: Sequence[Row]) -> Figure:
    return plots.utilisation(rows, rows)


def area(rows: Sequence[Row]) -> Figure:
    """One stacked area of all buckets, with the capacity as the line on top. A click leads to its day."""
    is_hourly = bool(rows) and rows[0].get("lasted") == "hour"
    x = [f"{row['began_at']:%Y-%m-%d %H:%M}" if is_hourly else str(row["day"]) for row in rows]
    common: Figure = {"customdata": [str(row["day"]) for row in rows], "hovertemplate": "%{y:,.0f}"}
    traces = [
        plots.line(
            bucket_name(bucket),
            x,
            plots.column(rows, bucket),
            colour,
            mode="lines" if len(rows) > 1 else "markers",
            stackgroup="capacity",
            fillcolor=colour,
            marker={"color": colour},
            **common,
        )
        for bucket, colour in plots.BUCKET_COLOURS.items()
        if any(row.get(bucket) for row in rows)
    ]
    for trace in traces:
        trace["line"] |= {"width": 0, "shape": "hv" if is_hourly else "linear"}
    if any("capacity" in row for row in rows):
        traces.append(plots.line("capacity", x, plots.column(rows, "capacity"), plots.GREY, **common))
        traces[-1]["line"]["dash"] = "dot"
    axis = {**plots.time_axis(x), "hoverformat": "%a %Y-%m-%d %H:%M" if is_hourly else "%a %Y-%m-%d"}
    return plots.figure(
        traces, axis, plots.from_zero(f"GPU-hours {'an hour' if is_hourly else 'a day'}"), hovermode="x unified"
    )


def spread(rows: Sequence[Row]) -> Figure:
    """What jobs of each step of efficiency held. A click leads to the jobs."""
    known = [row for row in rows if row["bin"] is not None]
    width = known[0]["to_ratio"] - known[0]["from_ratio"] if known else 0.05
    trace = plots.bars(
        "GPU-hours held",
        [(row["from_ratio"] + row["to_ratio"]) / 2 for row in known],
        plots.column(known, "held_gpu_hours"),
        plots.BLUE,
        width=[width * 0.92 for _ in known],
        customdata=plots.column(known, "bin"),
        text=[count(row["jobs"], "job") for row in known],
        textposition="none",
        hovertemplate="around %{x:.1%}: %{text}, %{y:,.0f} GPU-hours held<extra></extra>",
    )
    notes = [
        plots.note(
            f"and {row['held_gpu_hours']:,.0f} GPU-hours of {count(row['jobs'], 'job')} without a share of use",
            x=1,
            y=1,
            xanchor="right",
        )
        for row in rows
        if row["bin"] is None
    ]
    x = {"title": {"text": "efficiency of the job"}, "range": [0, 1], "tickformat": ".0%"}
    return plots.figure([trace], x, plots.from_zero("GPU-hours held"), showlegend=False, annotations=notes)
