"""Chapter: who submits what, in which gangs, and how often it recurs (figures 2a and 2b, and the paper's)."""

from __future__ import annotations

import numpy as np

from gpulake.core.pai import published
from gpulake.show.pai.compare import Floats, against_curve, known, points_apart
from gpulake.show.pai.parts import Content, Curve, Figures
from gpulake.show.pai.source import INSTANCES, Trace

RECURRING = 5
GANG_STEPS = np.unique(np.round(np.geomspace(1, 1000, 80)))
FIGURES = Figures[Trace]("Users, gangs and recurrence")


@FIGURES.add("2a")
def per_user(trace: Trace) -> Content:
    counts = known(trace.columns("tasks_of_users").numbers("tasks"))
    facts, totals = published()["curves"]["users"]["tasks"], published()["counts"]
    curves, measure = against_curve("tasks of a user", counts, facts, "tasks")
    scaled = counts / counts.mean() * totals["tasks"] / totals["users"] if len(counts) else counts
    more, scaled_measure = against_curve("scaled to the whole trace", scaled, facts, "tasks", hue=1)
    return Content([*curves, more[0]], [measure, scaled_measure], "tasks", "users, %", is_log=True)


def share_in_gangs(sizes: Floats, at_least: Floats) -> Floats:
    """Of all that the sizes add up to, the share in sizes of at least so much, in %."""
    ordered = np.sort(sizes)
    below = np.concatenate([[0.0], np.cumsum(ordered)])[np.searchsorted(ordered, at_least, side="left")]
    return np.asarray(100 * (1 - below / ordered.sum())) if len(ordered) else np.full(len(at_least), np.nan)


@FIGURES.add("2b")
def gangs(trace: Trace) -> Content:
    planned = trace.columns("planned").numbers("size")
    facts = published()["gangs"]
    at_least, percent = np.array(facts["at_least"], dtype=float), np.array(facts["instance_percent"])
    curves = [
        _sizes("planned", planned, 0),
        Curve("planned", list(facts["at_least"]), list(percent), 0, is_published=True, style="points"),
    ]
    measures = []
    if len(planned):
        ours = share_in_gangs(planned, at_least)
        for size in (2, 100):
            place = int(np.flatnonzero(at_least == size)[0])
            measures.append(
                points_apart(f"in tasks of {size} and more", float(ours[place]), float(percent[place]), 0.5)
            )
        worst = int(np.argmax(np.abs(ours - percent)))
        name = f"furthest off: {at_least[worst]:,.0f} and more"
        measures.append(points_apart(name, float(ours[worst]), float(percent[worst]), 0.5))
    if INSTANCES in trace.present:
        curves.append(_sizes("that ran", trace.columns("recorded").numbers("size"), 1))
    return Content(curves, measures, "instances of the task, at least", "instances, %", is_log=True)


@FIGURES.add("paper: recurrence")
def recurrence(trace: Trace) -> Content:
    sizes = trace.columns("recurrence").numbers("size")
    reference = published()["shares"]["jobs"]["recurring"]
    ours = float(share_in_gangs(sizes, np.array([float(RECURRING)]))[0]) if len(sizes) else None
    curves = [
        _sizes("tasks", sizes, 0),
        Curve("tasks", [RECURRING], [reference], 0, is_published=True, style="points"),
    ]
    measures = [points_apart(f"of groups of {RECURRING} and more", ours, reference, 0.5)]
    return Content(curves, measures, "tasks of the group, at least", "tasks, %", is_log=True)


def _sizes(label: str, sizes: Floats, hue: int) -> Curve:
    if not len(sizes):
        return Curve(label, [], [], hue)
    steps = GANG_STEPS[: np.searchsorted(GANG_STEPS, max(sizes.max(), 2), side="right")]
    return Curve(label, steps.tolist(), [round(share, 3) for share in share_in_gangs(sizes, steps).tolist()], hue)
