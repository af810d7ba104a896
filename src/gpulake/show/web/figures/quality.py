"""How much of each day was observed, and how long gpulake's own steps took."""

from __future__ import annotations

from collections.abc import Sequence

from gpulake.show.plots import PALETTE, Figure, Row, bars, column, figure, from_zero, line, shares, time_axis


def coverage(days: Sequence[Row]) -> Figure:
    """A line for each cluster; poorly covered days are hollow."""
    clusters = list(dict.fromkeys(str(day["cluster_id"]) for day in days))
    traces = []
    for number, cluster in enumerate(clusters):
        some = [day for day in days if str(day["cluster_id"]) == cluster]
        colour = PALETTE[number % len(PALETTE)]
        fills = ["white" if day["is_poorly_covered"] else colour for day in some]
        trace = line(
            cluster,
            [str(day["day"]) for day in some],
            column(some, "coverage_ratio"),
            colour,
            mode="lines+markers",
            marker={"color": fills, "size": 7, "line": {"color": colour, "width": 1.5}},
            hovertemplate="%{x|%a %Y-%m-%d}<br>%{y:.1%} of capacity observed<extra>%{fullData.name}</extra>",
        )
        traces.append(trace)
    return figure(traces, time_axis(column(days, "day")), shares("share of capacity observed"), showlegend=True)


def steps(rows: Sequence[Row]) -> Figure:
    """Commands beside each other, named by their start, each made of its steps."""
    names = list(dict.fromkeys(str(row["step"]) for row in rows))
    commands = {(row["command_at"], row["run_id"]): f"{row['command_at']:%m-%d %H:%M:%S}" for row in rows}
    traces = []
    for number, name in enumerate(names):
        some = [row for row in rows if str(row["step"]) == name]
        trace = bars(
            name,
            [commands[row["command_at"], row["run_id"]] for row in some],
            column(some, "seconds"),
            PALETTE[number % len(PALETTE)],
            customdata=["failed" if row["has_failed"] else "succeeded" for row in some],
            hovertemplate="%{x}<br>%{y:.3g} s, %{customdata}<extra>%{fullData.name}</extra>",
        )
        traces.append(trace)
    order = list(dict.fromkeys(commands.values()))
    x = {"type": "category", "categoryorder": "array", "categoryarray": order}
    gap = 0.7 if len(order) < len(PALETTE) else 0.2
    return figure(traces, x, from_zero("seconds"), barmode="stack", bargap=gap)
