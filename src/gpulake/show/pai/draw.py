"""Figures of the study as plain Plotly: ours solid, what was published dashed or hollow, in the same colour."""

from __future__ import annotations

import html
from typing import Any

from gpulake.show.pai.parts import Content, Curve
from gpulake.show.plots import BLUE, GREEN, GREY, LAYOUT, ORANGE, RED, Figure

PURPLE, SKY = "#CC79A7", "#56B4E9"
HUES = (BLUE, RED, GREEN, ORANGE, PURPLE, GREY, SKY)


def drawn(content: Content) -> Figure:
    named = {curve.label for curve in content.curves if not curve.is_published}
    traces = [_trace(curve, curve.label in named) for curve in content.curves if curve.x]
    axis: dict[str, Any] = {"title": {"text": content.x_title, "standoff": 8}, "automargin": True, "zeroline": False}
    if content.is_log:
        axis |= {"type": "log", "dtick": 1, "exponentformat": "SI"}
    elif any(curve.style == "bars" for curve in content.curves):
        axis |= {"type": "category"}
    if content.x_range:
        axis |= {"range": list(content.x_range)}
    layout = {
        **LAYOUT,
        "barmode": "group",
        "showlegend": sum(bool(curve.x) for curve in content.curves) > 1,
        "margin": {"l": 56, "r": 12, "t": 8, "b": 40},
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "font": {"size": 11}},
        "xaxis": {**axis, "gridcolor": "rgba(136,136,136,0.2)"},
        "yaxis": {
            "title": {"text": content.y_title},
            "rangemode": "tozero",
            "gridcolor": "rgba(136,136,136,0.2)",
        },
    }
    return {"data": traces, "layout": layout}


def _trace(curve: Curve, has_ours: bool) -> Figure:
    colour = HUES[curve.hue % len(HUES)]
    # A label may come from the data, and Plotly reads some markup.
    label = html.escape(curve.label)
    trace: Figure = {
        "name": f"{label}, published" if curve.is_published else label,
        "x": [html.escape(value) if isinstance(value, str) else value for value in curve.x],
        "y": curve.y,
        "showlegend": not (curve.is_published and has_ours and curve.style in ("line", "step")),
        "legendgroup": label,
    }
    if curve.style == "bars":
        fill = "rgba(0,0,0,0)" if curve.is_published else colour
        return {**trace, "type": "bar", "marker": {"color": fill, "line": {"color": colour, "width": 1.5}}}
    if curve.style == "boxes":
        return {**trace, **_boxes(curve), "marker": {"color": colour}}
    if curve.style == "points":
        marker = {"symbol": "circle-open", "size": 8, "color": colour, "line": {"width": 2}}
        return {**trace, "type": "scatter", "mode": "markers", "marker": marker}
    dash = "dash" if curve.is_published else "dot" if curve.is_dotted else "solid"
    line = {"color": colour, "width": 1.5, "dash": dash, "shape": "hv" if curve.style == "step" else "linear"}
    return {**trace, "type": "scatter", "mode": "lines", "line": line}


def _boxes(curve: Curve) -> Figure:
    return {
        "type": "box",
        "y": None,
        "lowerfence": curve.box["low"],
        "q1": curve.box["quarter"],
        "median": curve.y,
        "q3": curve.box["three_quarters"],
        "upperfence": curve.box["high"],
    }
