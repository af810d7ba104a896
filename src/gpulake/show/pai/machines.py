"""Chapter: the machines under load (figures 8a and 8b, and the paper's on utilisation, contention and sharing)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulake.core.pai import published
from gpulake.show.pai.compare import Floats, against_curve, against_curves, known, ordered_types, points_apart
from gpulake.show.pai.parts import Content, Curve, Figures, Measure
from gpulake.show.pai.source import Trace

LEAST_HELD = 8
"""GPUs; with fewer on an hour, what they save is chance."""
MOST_HOURS = 2000
FIGURES = Figures[Trace]("Machines")


@FIGURES.add("8a")
def network(trace: Trace) -> Content:
    sample = known(trace.columns("reads").numbers("gigabits"))
    curves, measure = against_curve("read", sample, published()["curves"]["network"]["read_gbit"], "Gbit")
    return Content(curves, [measure], "Gbit (2^30) read in a worker's life", "workers, %", is_log=True)


@FIGURES.add("8b")
def processors(trace: Trace) -> Content:
    columns = trace.columns("processors")
    facts = published()["curves"]["machine_cpu_percent"]
    names = ("usr", "kernel", "iowait")
    curves, measures = against_curves(((name, known(columns.numbers(name)), facts[name]) for name in names), "%")
    return Content(curves, measures, "% of the machine", "workers, %", is_log=True)


@FIGURES.add("paper: machines")
def by_type(trace: Trace) -> Content:
    columns = trace.columns("utilisation")
    names, codes = columns.labels("gpu_type")
    seconds = columns.numbers("seconds")
    curves: list[Curve] = []
    measures: list[Measure] = []
    for hue, name in enumerate(ordered_types(names)):
        is_one = codes == names.index(name)
        for resource in ("gpu", "cpu"):
            values = columns.numbers(resource)
            chosen = is_one & np.isfinite(values)
            if not chosen.any():
                continue
            value, share = weighted(values[chosen], seconds[chosen])
            if resource == "gpu":
                curves.append(Curve(name, value.tolist(), (100 * share).round(3).tolist(), hue))
            for percent in (50, 90):
                at = float(value[np.searchsorted(share, percent / 100 - 1e-12)])
                measures.append(Measure(f"{name}, {resource.upper()}, P{percent}", "%", at))
    return Content(curves, measures, "busy GPUs, % of the machine's", "time, %")


def weighted(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Each value once, and the share of the weight at most there."""
    value, place = np.unique(values, return_inverse=True)
    share = np.cumsum(np.bincount(place, weights=weights))
    return value, np.asarray(share / share[-1])


@FIGURES.add("paper: contention")
def contention(trace: Trace) -> Content:
    rows = trace.rows("contention")
    names = [f"{20 * row['fifth']} to {20 * row['fifth'] + 20} %" for row in rows]
    curves = [
        Curve("median", names, [round(row["median_pace"], 4) for row in rows], 0, style="bars"),
        Curve("90 of 100 are below", names, [round(row["p90_pace"], 4) for row in rows], 1, style="bars"),
    ]
    measures = [
        Measure(f"processors {name} busy, median of {row['runs']:,} runs", "", row["median_pace"])
        for name, row in zip(names, rows, strict=True)
    ]
    return Content(curves, measures, "load of the machine's processors", "run time, of the usual")


@FIGURES.add("paper: sharing")
def sharing(trace: Trace) -> Content:
    rows = [row for row in trace.rows("sharing") if row["whole"] >= LEAST_HELD]
    facts = published()["paper"]
    saved = [100 * (1 - row["packed"] / row["whole"]) for row in rows]
    shown: list[dict[str, Any]] = rows[:: max(1, -(-len(rows) // MOST_HOURS))]
    hours = [row["hour"] for row in shown]
    curves = [
        Curve("a whole GPU each", hours, [row["whole"] for row in shown], 3, style="line"),
        Curve("shared", hours, [row["packed"] for row in shown], 0, style="line"),
    ]
    measures = [
        points_apart("saved, mean", float(np.mean(saved)) if saved else None, facts["sharing_saves_percent"], 0.5),
        points_apart("saved, most", max(saved) if saved else None, facts["sharing_saves_most_percent"], 0.5),
    ]
    return Content(curves, measures, "", "GPUs held")
