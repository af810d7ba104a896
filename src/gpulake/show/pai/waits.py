"""Chapter: how long tasks run and wait (figures 4a, 4b and 5a to 5d)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gpulake.core.pai import published
from gpulake.show.pai.compare import (
    Floats,
    against_curve,
    against_curves,
    against_points,
    known,
    ordered_types,
    percent_apart,
    points_apart,
    share_at_most,
)
from gpulake.show.pai.parts import Content, Curve, Figures, Measure
from gpulake.show.pai.source import Columns, Trace

CLASSES = {"<25": (0, 25), "[25,50)": (25, 50), "[50,100)": (50, 100), "=100": (100, 100), ">100": (100, np.inf)}
"""Of the GPU that an instance asks for, in %."""
LONG_WAIT = 50.0
FIGURES = Figures["Times"]("Run times and waits")


@dataclass(frozen=True)
class Times:
    """The tasks, read when the first figure asks for them."""

    trace: Trace

    @cached_property
    def columns(self) -> Columns:
        return self.trace.columns("task_times")

    @cached_property
    def wait(self) -> Floats:
        return self.columns.numbers("wait")

    @cached_property
    def run_seconds(self) -> Floats:
        return self.columns.numbers("run_seconds")

    @cached_property
    def plan_gpu(self) -> Floats:
        # Sums and products of fractions come out a little off.
        return np.round(self.columns.numbers("plan_gpu"), 6)

    @cached_property
    def is_over(self) -> NDArray[np.bool_]:
        return np.asarray(self.columns.numbers("is_over") == 1)

    def of_class(self, name: str) -> NDArray[np.bool_]:
        least, most = CLASSES[name]
        if name == "=100":
            return np.asarray(self.plan_gpu == least)
        is_above = self.plan_gpu > least if name in ("<25", ">100") else self.plan_gpu >= least
        return np.asarray(is_above & (self.plan_gpu < most))

    def types(self) -> list[tuple[str, NDArray[np.bool_]]]:
        names, codes = self.columns.labels("gpu_type")
        return [(name, codes == names.index(name)) for name in ordered_types(names)]


@FIGURES.add("4a")
def runtimes(times: Times) -> Content:
    facts, exact = published()["curves"]["runtime_seconds"], published()["gpu_task"]
    every = known(times.run_seconds)
    with_gpu = known(times.run_seconds[times.plan_gpu > 0])
    curves, measure = against_curve("all tasks", every, facts["all"], "s")
    points = published()["points"]["runtime_seconds"]["gpu_tasks"]
    gpu_curves, gpu_measure = against_points("with a GPU", with_gpu, points, "s", hue=1)
    philly = facts["philly"]
    reference = Curve("Philly", philly["value"], philly["percent"], 5, is_published=True, style="line")
    medians = [
        percent_apart("with a GPU, median", "s", _quantile(with_gpu, 0.5), exact["runtime_median_seconds"]),
        percent_apart(
            "with a GPU, mean", "s", float(with_gpu.mean()) if len(with_gpu) else None, exact["runtime_mean_seconds"]
        ),
    ]
    shown = [*curves, *gpu_curves, reference]
    return Content(shown, [measure, gpu_measure, *medians], "seconds", "tasks, %", is_log=True)


@FIGURES.add("4b")
def wait_shares(times: Times) -> Content:
    percent, is_long, is_short = split_waits(times.wait, times.run_seconds)
    facts = published()["points"]["wait_percent"]
    curves: list[Curve] = []
    measures: list[Measure] = []
    for hue, (name, chosen) in enumerate((("long", is_long), ("all", is_long | is_short), ("short", is_short))):
        sample = known(percent[chosen])
        drawn, measure = against_points(name, sample, facts[name], "% of its time", hue)
        curves += drawn
        measures.append(measure)
    for name, chosen in (("short", is_short), ("long", is_long)):
        reference = 100 - facts[name]["percent"][facts[name]["value"].index(LONG_WAIT)]
        measures.append(points_apart(f"{name}, waits more than half", long_waits(percent[chosen]), reference, 0.5))
    return Content(curves, measures, "wait, % of the time to completion", "tasks, %")


def split_waits(wait: Floats, run_seconds: Floats) -> tuple[Floats, NDArray[np.bool_], NDArray[np.bool_]]:
    """The part of its time that each task waits, in %; which tasks run longer than the median, and which not."""
    total = wait + run_seconds
    percent = np.divide(100 * wait, total, out=np.full(len(wait), np.nan), where=total > 0)
    is_timed = np.isfinite(percent)
    middle = np.median(run_seconds[np.isfinite(run_seconds)]) if np.isfinite(run_seconds).any() else np.nan
    return percent, is_timed & (run_seconds > middle), is_timed & (run_seconds <= middle)


def long_waits(percent: Floats) -> float | None:
    """The share of tasks that wait more than half of their time."""
    sample = known(percent)
    return float(100 * (1 - share_at_most(sample, LONG_WAIT))) if len(sample) else None


@FIGURES.add("5a")
def request_waits(times: Times) -> Content:
    facts = published()["curves"]["request_wait_seconds"]
    samples = ((f"{name} %", known(times.wait[times.of_class(name)]), facts[name]) for name in CLASSES)
    curves, measures = against_curves(samples, "s")
    return Content(curves, measures, "seconds", "tasks, %", is_log=True)


@FIGURES.add("5b")
def waits_by_type(times: Times) -> Content:
    return by_type(times, times.wait, "wait_seconds")


def by_type(times: Times, seconds: Floats, family: str) -> Content:
    facts = published()["curves"][family]
    samples = ((name, known(seconds[chosen]), facts.get(name)) for name, chosen in times.types())
    curves, measures = against_curves(samples, "s")
    return Content(curves, measures, "seconds", "tasks, %", is_log=True)


@FIGURES.add("5c")
def proportions(times: Times) -> Content:
    shares, exact = published()["shares"], published()["points"]["request"]["gpus"]
    has_gpu = times.plan_gpu > 0
    count = int(has_gpu.sum())

    def share(chosen: NDArray[np.bool_]) -> float | None:
        return float(100 * (chosen & has_gpu).sum() / count) if count else None

    classes = [
        (f"asks for {name} % of a GPU", share(times.of_class(name)), shares["plan_gpu_class"][name]) for name in CLASSES
    ]
    types = [(name, share(chosen), shares["gpu_type"].get(name)) for name, chosen in times.types()]
    names = [*(f"{name} %" for name in CLASSES), *(name for name, _, _ in types)]
    curves = [
        Curve("tasks", names if count else [], [ours for _, ours, _ in [*classes, *types]], 0, style="bars"),
        Curve(
            "tasks", names, [reference for _, _, reference in [*classes, *types]], 0, is_published=True, style="bars"
        ),
    ]
    measures = [points_apart(name, ours, reference, 0.15) for name, ours, reference in [*classes, *types]]
    gpus = known(times.plan_gpu[has_gpu] / 100)
    return Content(
        curves, [*measures, against_points("GPUs of an instance", gpus, exact, "GPUs")[1]], "", "tasks with a GPU, %"
    )


@FIGURES.add("5d")
def runtimes_by_type(times: Times) -> Content:
    return by_type(times, np.where(times.is_over, times.run_seconds, np.nan), "runtime_seconds")


def _quantile(sample: Floats, share: float) -> float | None:
    return float(np.quantile(sample, share)) if len(sample) else None
