"""Chapter: how many tasks come in an hour, and what they ask for (figures 3a to 3d)."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import numpy as np

from gpulake.core.pai import published
from gpulake.show.pai.compare import Floats, percent_apart, points_apart
from gpulake.show.pai.parts import Content, Curve, Figures, Measure
from gpulake.show.pai.source import Trace

COUNTED = ("tasks", "cores", "gpus", "memory_gb")
DAY_HOURS = 24
WEEK_DAYS = 7
SUNDAY = 6

Grids = dict[str, Any]
FIGURES = Figures["Grids"]("The load")


def hourly(trace: Trace) -> Grids:
    """A row of 24 hours for every whole day, of each count; and the size of this lake beside the published trace."""
    days: list[date] = [row["dt"] for row in trace.rows("whole_days")]
    place = {day: position for position, day in enumerate(days)}
    grids: Grids = {name: np.zeros((len(days), DAY_HOURS)) for name in COUNTED}
    tasks = 0
    for row in trace.rows("hours"):
        tasks += row["tasks"]
        if row["dt"] in place:
            for name in COUNTED:
                grids[name][place[row["dt"]], row["hour"]] = row[name] or 0.0
    grids["days"] = days
    grids["scale"] = tasks / published()["counts"]["tasks"]
    return grids


def week_of(days: list[date]) -> int | None:
    """Where the published week begins among the days; else the first week that begins on a Sunday."""
    published_day: date = published()["first_week"]["begins"]
    starts = [
        place
        for place, day in enumerate(days[: len(days) - WEEK_DAYS + 1])
        if day.weekday() == SUNDAY and days[place + WEEK_DAYS - 1] - day == timedelta(days=WEEK_DAYS - 1)
    ]
    same = [place for place in starts if days[place] == published_day]
    return next(iter([*same, *starts]), None)


@FIGURES.add("3a")
def first_week(grids: Grids) -> Content:
    begin = week_of(grids["days"])
    if begin is None:
        return Content([], [])
    ours: Floats = grids["tasks"][begin : begin + WEEK_DAYS].ravel()
    reference = np.array(published()["first_week"]["tasks"], dtype=float)
    hours = [f"{grids['days'][begin + hour // DAY_HOURS]} {hour % DAY_HOURS:02}:00" for hour in range(len(ours))]
    curves = [
        Curve("tasks", hours, ours.tolist(), 0, style="line"),
        Curve("tasks", hours, (reference * grids["scale"]).round(1).tolist(), 0, is_published=True, style="line"),
    ]
    weekend = [float(_weekend(week)) for week in (ours, reference)]
    measures = [
        percent_apart("tasks in the week, scaled", "tasks", float(ours.sum() / grids["scale"]), reference.sum(), 3.0),
        points_apart("a day of the weekend beside a weekday", weekend[0], weekend[1], 3.0),
        points_apart("hours in the wrong place", _misplaced(ours, reference), 0.0),
    ]
    return Content(curves, measures, "", "tasks an hour")


@FIGURES.add("3b")
def tasks_by_hour(grids: Grids) -> Content:
    return by_hour(grids, "tasks")


@FIGURES.add("3c")
def asked(grids: Grids) -> Content:
    begin = week_of(grids["days"])
    if begin is None:
        return Content([], [])
    hours = [
        f"{grids['days'][begin + hour // DAY_HOURS]} {hour % DAY_HOURS:02}:00" for hour in range(WEEK_DAYS * DAY_HOURS)
    ]
    curves, measures = [], []
    for hue, (name, label, unit, step) in enumerate(
        [
            ("cores", "CPU, 10 cores", "cores", 10),
            ("gpus", "GPUs", "GPUs", 1),
            ("memory_gb", "memory, 100 GB", "GB", 100),
        ]
    ):
        values: Floats = grids[name][begin : begin + WEEK_DAYS].ravel()
        least, most = published()["first_week"][name]
        curves.append(Curve(label, hours, (values / step).round(2).tolist(), hue, style="line"))
        ours = float(np.median(values) / grids["scale"])
        half_range = (most - least) / (most + least) * 100
        measures.append(percent_apart(f"{unit} of an hour, scaled", unit, ours, (least + most) / 2, half_range))
    return Content(curves, measures, "", "asked for in an hour")


@FIGURES.add("3d")
def cores_by_hour(grids: Grids) -> Content:
    return by_hour(grids, "cores")


def by_hour(grids: Grids, name: str) -> Content:
    values: Floats = grids[name]
    if not len(values):
        return Content([], [])
    facts = published()["rhythm" if name == "tasks" else "cores_by_hour"]
    low, quarter, middle, three_quarters, high = boxes(values)
    hours = list(range(DAY_HOURS))
    reference = np.array(facts["hour"], dtype=float)
    box = {"low": low, "quarter": quarter, "three_quarters": three_quarters, "high": high}
    curves = [
        Curve(name, hours, middle.tolist(), 0, style="boxes", box={key: part.tolist() for key, part in box.items()}),
        Curve("median", hours, (reference * grids["scale"]).round(2).tolist(), 1, is_published=True, style="line"),
    ]
    measures = [
        percent_apart(
            f"{name} of a median day, scaled", name, float(middle.sum() / grids["scale"]), reference.sum(), 1.0
        ),
        _furthest_hour(middle, reference),
    ]
    return Content(curves, measures, "hour of the day", f"{name} an hour")


def boxes(values: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
    """Whisker, quartile, median, quartile and whisker of each column; a whisker ends at the last value within a box."""
    quarter, middle, three_quarters = np.quantile(values, [0.25, 0.5, 0.75], axis=0)
    spread = three_quarters - quarter
    low = np.where(values >= quarter - spread, values, np.inf).min(axis=0)
    high = np.where(values <= three_quarters + spread, values, -np.inf).max(axis=0)
    return low, quarter, middle, three_quarters, high


def _furthest_hour(ours: Floats, reference: Floats) -> Measure:
    """The hour whose share of the day is furthest off."""
    if not ours.sum():
        return points_apart("share of the day", None, None)
    share, known = 100 * ours / ours.sum(), 100 * reference / reference.sum()
    hour = int(np.argmax(np.abs(share - known)))
    return points_apart(f"hour {hour:02} of the day", float(share[hour]), float(known[hour]))


def _misplaced(ours: Floats, reference: Floats) -> float:
    """How much of the week would have to move to another hour, in %."""
    total = ours.sum()
    return float(50 * np.abs(ours / total - reference / reference.sum()).sum()) if total else 100.0


def _weekend(week: Floats) -> float:
    days = week.reshape(WEEK_DAYS, DAY_HOURS).sum(axis=1)
    weekdays = days[1:-1].mean()
    return float(100 * (days[0] + days[-1]) / 2 / weekdays) if weekdays else 0.0
