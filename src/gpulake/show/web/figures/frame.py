"""What every figure has around its traces: margins, a legend that grows upwards, away from the plot, and axes."""

from __future__ import annotations

from typing import Any

from gpulake.show.plots import GRID, LAYOUT, Figure


def figure(traces: list[Figure], x: Figure, y: Figure, **layout: Any) -> Figure:
    margin = {"l": 60, "r": 15, "t": 10, "b": 40}
    legend = {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0, "traceorder": "normal"}
    axes = {"xaxis": {"gridcolor": GRID, **x}, "yaxis": {"gridcolor": GRID, **y}}
    return {"data": traces, "layout": {"margin": margin, "legend": legend, **axes, **LAYOUT, **layout}}


def amounts(traces: list[Figure], y_title: str, **layout: Any) -> Figure:
    """Of what there can be nothing of: the axis begins at zero."""
    return figure(traces, {}, {"title": {"text": y_title}, "rangemode": "tozero"}, **layout)
