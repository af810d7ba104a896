"""The ledger drawn: shares of what was held or of capacity, how efficient jobs are, and utilisation by day."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gpulake.core.ledger import HELD, bucket_name
from gpulake.core.words import count
from gpulake.show import plots
from gpulake.show.plots import Figure, Row

days = plots.buckets  # by day
users = partial(plots.holders, name="user_id")
groups = partial(plots.holders, name="group_id")


def utilisation(rows: Sequence[Row]) -> Figure:
    return plots.utilisation(rows, rows)


def area(rows: Sequence[Row], of: str = "held") -> Figure:
    """Every bucket as a share of what was held, or of capacity, stacked. A click leads to its day.

    A day that was observed in part is no fall of a share; it is shaded."""
    is_hourly = bool(rows) and rows[0].get("lasted") == "hour"
    x = [f"{row['began_at']:%Y-%m-%d %H:%M}" if is_hourly else str(row["day"]) for row in rows]
    shown = [one for one in plots.BUCKET_COLOURS if (of == "capacity" or one in HELD) and any(row[one] for row in rows)]
    wholes = [sum(row[one] for one in shown) for row in rows]
    traces = []
    for bucket in shown:
        colour, name = plots.BUCKET_COLOURS[bucket], bucket_name(bucket)
        shares = [row[bucket] / whole if whole else None for row, whole in zip(rows, wholes, strict=True)]
        texts = [
            "" if share is None else f"{name}: {share:.1%}, {row[bucket]:,.0f} GPU-hours"
            for row, share in zip(rows, shares, strict=True)
        ]
        style: Figure = {"stackgroup": of, "fillcolor": colour, "marker": {"color": colour}, "hovertext": texts}
        trace = plots.line(name, x, shares, colour, mode="lines" if len(rows) > 1 else "markers", **style)
        trace["line"] |= {"width": 0, "shape": "hv" if is_hourly else "linear"}
        traces.append({**trace, "customdata": [str(row["day"]) for row in rows]})
    partial = plots.partial_days({row["day"] for row in rows if row["is_partial"]})
    y = {**plots.shares(f"share of {of}"), "range": [0, 1]}
    return plots.figure(traces, plots.time_axis(x), y, hovermode="x unified", shapes=partial)


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
