"""How much of each day was observed, and how long our own steps took."""

from __future__ import annotations

import html
from collections.abc import Sequence

from gpulake.show import plots
from gpulake.show.plots import Figure, Row
from gpulake.show.web.figures.axes import time_axis
from gpulake.show.web.figures.frame import amounts

COLOURS = (plots.BLUE, plots.ORANGE, plots.GREEN, "#CC79A7", "#56B4E9", plots.RED, "#F0E442", plots.GREY)


def coverage(days: Sequence[Row]) -> Figure:
    """A line a cluster; poorly covered days are hollow."""
    clusters = list(dict.fromkeys(str(day["cluster_id"]) for day in days))
    traces = []
    for number, cluster in enumerate(clusters):
        own = [day for day in days if str(day["cluster_id"]) == cluster]
        colour = COLOURS[number % len(COLOURS)]
        fills = ["white" if day["is_poorly_covered"] else colour for day in own]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": html.escape(cluster),
                "x": [str(day["day"]) for day in own],
                "y": [day["coverage_ratio"] for day in own],
                "line": {"color": colour, "width": 1.5},
                "marker": {"color": fills, "size": 7, "line": {"color": colour, "width": 1.5}},
                "hovertemplate": "%{x|%a %Y-%m-%d}<br>%{y:.1%} of capacity observed<extra>%{fullData.name}</extra>",
            }
        )
    figure = amounts(traces, "share of capacity observed", barmode="stack")
    figure["layout"]["yaxis"]["tickformat"] = ".0%"
    figure["layout"]["showlegend"] = True
    figure["layout"]["xaxis"].update(time_axis([day["day"] for day in days]))
    return figure


def steps(rows: Sequence[Row]) -> Figure:
    """Commands beside each other, each made of its steps; their names say when they began."""
    names = list(dict.fromkeys(str(row["step"]) for row in rows))
    commands = {(row["command_at"], row["run_id"]): f"{row['command_at']:%m-%d %H:%M:%S}" for row in rows}
    traces = []
    for number, name in enumerate(names):
        own = [row for row in rows if str(row["step"]) == name]
        traces.append(
            {
                "type": "bar",
                "name": html.escape(name),
                "x": [commands[row["command_at"], row["run_id"]] for row in own],
                "y": [row["seconds"] for row in own],
                "marker": {"color": COLOURS[number % len(COLOURS)]},
                "customdata": ["failed" if row["has_failed"] else "succeeded" for row in own],
                "hovertemplate": "%{x}<br>%{y:.3g} s, %{customdata}<extra>%{fullData.name}</extra>",
            }
        )
    figure = amounts(traces, "seconds", barmode="stack")
    order = list(dict.fromkeys(commands.values()))
    figure["layout"]["xaxis"] = {"type": "category", "categoryorder": "array", "categoryarray": order}
    figure["layout"]["bargap"] = 0.7 if len(order) < len(COLOURS) else 0.2
    return figure
