"""Figures of the machines: every one by hour or day, those that fail more than their peers, and energy."""

from __future__ import annotations

import html
import math
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from gpulake.core.words import label
from gpulake.show import plots
from gpulake.show.plots import Figure, Row
from gpulake.show.web.figures.queue import colour_scale
from gpulake.show.web.questions.options import DOWN, UNKNOWN, UNOBSERVED

# None of these is on the scale from blue over grey to yellow, also as colour-blind readers see it.
STATES = {
    DOWN: ("down for half of it and more", "#a3123f"),
    UNOBSERVED: ("held, and unobserved", plots.BUCKET_COLOURS["unobserved"]),
    UNKNOWN: ("unknown if held", "#e08fb0"),
}
MOST_LABEL = 16  # letters of a name beside the map; the whole name is shown on hovering
MOST_NAMES = 40  # of machines beside the map; beyond that their types alone
ENOUGH, LEAST_BRIGHTEST = 0.99, 0.1
TALLEST, ROW, LEAST = 830, 24, 150  # in pixels: of the map, of one of its rows, and of what is around them


def heat(rows: Sequence[Row]) -> Figure:
    """A row for each machine, grouped by GPU type. States that are not a share have their own colours."""
    begins = sorted({begin for row in rows for begin in row["begins"]})
    places = {begin: place for place, begin in enumerate(begins)}
    grid: list[list[Any]] = []
    for row in rows:
        line: list[Any] = [None] * len(begins)
        for begin, share in zip(row["begins"], row["shares"], strict=True):
            line[places[begin]] = int(share) if share == int(share) else round(share, 3)
        grid.append(line)
    names = _names(rows)
    seen = {share for line in grid for share in line if share is not None and share < 0}
    shares = [[None if share is None or share < 0 else share for share in line] for line in grid]
    bar = {"tickformat": ".0%", "thickness": 12, "outlinewidth": 0, "len": 0.6, "y": 1, "yanchor": "top"}
    # The rows that a click leads to, once for all of the map's layers.
    meta = {"rows": [[str(row["machine_id"]), str(row["cluster_id"])] for row in rows]}
    common = {"type": "heatmap", "x": begins, "y": names, "hoverongaps": False, "meta": meta}
    scale = {"colorscale": colour_scale(), "zmin": 0, "zmax": _brightest(shares), "colorbar": bar}
    shown = {"name": "share of capacity", "z": shares, "hovertemplate": "%{y}<br>%{x}: %{z:.1%}<extra></extra>"}
    traces: list[Figure] = [{**common, **shown, **scale}]
    for state, (words, colour) in STATES.items():
        if state in seen:
            cells = [[1 if share == state else None for share in line] for line in grid]
            flat = {"colorscale": [[0, colour], [1, colour]], "showscale": False, "showlegend": True}
            hover = f"%{{y}}<br>%{{x}}: {words}<extra></extra>"
            traces.append({**common, **flat, "name": words, "z": cells, "hovertemplate": hover})
    x = {**plots.time_axis(begins), "showgrid": False}
    y = {"type": "category", "autorange": "reversed", "showgrid": False, "automargin": True, **_ticks(rows, names)}
    return plots.figure(traces, x, y, shapes=_edges(rows), height=min(LEAST + ROW * len(rows), TALLEST))


def _brightest(shares: list[list[Any]]) -> float:
    """Where the scale ends: 99 % of the shares are below, else the map of a little used cluster would be all dark."""
    known = sorted(share for line in shares for share in line if share is not None)
    high = known[int(ENOUGH * (len(known) - 1))] if known else 1
    return min(max(math.ceil(high * 20) / 20, LEAST_BRIGHTEST), 1.0)


def _names(rows: Sequence[Row]) -> list[str]:
    """As labels; where two clusters have the same name, with the cluster."""
    times = Counter(str(row["machine_id"]) for row in rows)
    return [
        html.escape(
            f"{row['cluster_id']} {row['machine_id']}" if times[str(row["machine_id"])] > 1 else row["machine_id"]
        )
        for row in rows
    ]


def _groups(rows: Sequence[Row]) -> list[tuple[str, int, int]]:
    """GPU types with their first row and the one after their last."""
    groups = []
    for kind, members in groupby(enumerate(rows), key=lambda one: str(one[1]["gpu_type"])):
        places = [at for at, _ in members]
        groups.append((kind, places[0], places[-1] + 1))
    return groups


def _ticks(rows: Sequence[Row], names: list[str]) -> Figure:
    if len(rows) <= MOST_NAMES:
        texts = [html.escape(label(row["machine_id"], MOST_LABEL)) for row in rows]
        return {"tickmode": "array", "tickvals": names, "ticktext": texts, "tickfont": {"size": 10}}
    groups = _groups(rows)
    values = [names[(first + end) // 2] for _, first, end in groups]
    texts = [f"{html.escape(kind)} ({end - first:,})" for kind, first, end in groups]
    return {"tickmode": "array", "tickvals": values, "ticktext": texts}


def _edges(rows: Sequence[Row]) -> list[Figure]:
    line = {"color": "rgba(128,128,128,.9)", "width": 1}
    edges = [first - 0.5 for _, first, _ in _groups(rows)[1:]]
    return [{"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": y, "y1": y, "line": line} for y in edges]


def lemons(rows: Sequence[Row]) -> Figure:
    """Failed jobs against those expected: on the line a machine fails like its peers. Without peers it is left out."""
    rows = [row for row in rows if row["expected_failed_jobs"] is not None]
    most = max((max(row["failed_jobs"], row["expected_failed_jobs"]) for row in rows), default=1) or 1
    traces: list[Figure] = []
    for is_lemon, name, colour in ((False, "like their peers", plots.BLUE), (True, "lemons", plots.RED)):
        some = [row for row in rows if bool(row["is_lemon"]) == is_lemon]
        texts = [
            f"{html.escape(str(row['machine_id']))} ({html.escape(str(row['gpu_type']))})<br>{row['failed_jobs']:,} of "
            f"{row['jobs']:,} jobs failed, {row['expected_failed_jobs']:,.1f} expected"
            for row in some
        ]
        marker = {"color": colour, "size": 8 if is_lemon else 5, "opacity": 0.9 if is_lemon else 0.55}
        trace = plots.marks(
            name, plots.column(some, "expected_failed_jobs", 2), plots.column(some, "failed_jobs"), marker
        )
        custom = [[str(row["machine_id"]), str(row["cluster_id"])] for row in some]
        traces.append({**trace, "customdata": custom, "hovertext": texts, "hoverinfo": "text"})
    dash = {"color": "rgba(128,128,128,.8)", "dash": "dot"}
    even = {"type": "line", "x0": 0, "y0": 0, "x1": most, "y1": most, "line": dash}
    return plots.figure(traces, plots.from_zero("failed jobs expected"), plots.from_zero("failed jobs"), shapes=[even])


def energy(rows: Sequence[Row]) -> Figure:
    days = [str(row["day"]) for row in rows]
    unused = [row["unused_energy_kwh"] or 0 for row in rows]
    rest = [round(row["energy_kwh"] - part, 2) for row, part in zip(rows, unused, strict=True)]
    traces = [
        plots.bars("in use, or free", days, rest, plots.BLUE),
        plots.bars("held and not in use", days, [round(part, 2) for part in unused], plots.ORANGE),
    ]
    return plots.figure(traces, plots.time_axis(days), {"title": {"text": "kWh"}}, barmode="stack", bargap=0.15)
