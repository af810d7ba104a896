"""Chapter: what tasks ask for and what they use (figures 6a to 6d)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gpulake.core.pai import published
from gpulake.show.pai.compare import (
    Floats,
    against_curve,
    against_points,
    distribution,
    known,
    percent_apart,
    points_apart,
)
from gpulake.show.pai.parts import Content, Curve, Figures, Measure
from gpulake.show.pai.source import Columns, Trace

RESOURCES = {"cpu": "CPU", "gpu": "GPU", "mem": "main memory"}
FIGURES = Figures["Usage"]("What is asked for and what is used")


@dataclass(frozen=True)
class Usage:
    """The tasks that have sensors, read when the first figure asks for them."""

    trace: Trace

    @cached_property
    def columns(self) -> Columns:
        return self.trace.columns("task_usage")

    def numbers(self, name: str) -> Floats:
        return self.columns.numbers(name)

    @cached_property
    def worker_medians(self) -> dict[str, float | None]:
        return self.trace.rows("worker_medians")[0]

    def of_a_worker(self, fact: str, what: str) -> Measure:
        """What the middle worker uses, beside the paper's sentence."""
        name = f"{what} used by a worker, median"
        return percent_apart(name, what.split()[0], self.worker_medians[fact], published()["paper"][fact])

    def plan_beside_use(self, resource: str) -> list[Measure]:
        """How many tasks ask for more than they use, and for less."""
        plan, used = self.numbers(f"plan_{resource}"), self.numbers(resource)
        is_known = np.isfinite(plan) & np.isfinite(used)
        count = int(is_known.sum())
        measures = []
        for word, is_so in (("above", plan > used), ("below", plan < used)):
            ours = float(100 * (is_so & is_known).sum() / count) if count else None
            reference = published()["shares"][f"plan_{word}_usage"][resource]
            measures.append(points_apart(f"{RESOURCES[resource]} plan {word} use", ours, reference))
        return measures


@FIGURES.add("6a")
def cpu(usage: Usage) -> Content:
    asked, asked_measure = against_points(
        "asked for", known(usage.numbers("plan_cpu")), published()["points"]["request"]["cpu_percent"], "%"
    )
    used, used_measure = against_curve(
        "used", known(usage.numbers("cpu")), published()["curves"]["usage"]["cpu_percent"], "%", hue=1
    )
    measures = [*usage.plan_beside_use("cpu"), asked_measure, used_measure, usage.of_a_worker("cores_used", "cores")]
    return Content([*asked, *used], measures, "% of a core", "tasks, %", is_log=True)


@FIGURES.add("6b")
def gpu(usage: Usage) -> Content:
    plan = usage.numbers("plan_gpu")
    used_by_gpu_tasks = known(np.where(np.isfinite(plan), usage.numbers("gpu"), np.nan))
    asked, asked_measure = against_points(
        "asked for", known(plan), published()["points"]["request"]["gpu_percent"], "%"
    )
    used, used_measure = against_curve(
        "used", used_by_gpu_tasks, published()["curves"]["usage"]["gpu_percent"], "%", hue=1
    )
    measures = [
        *usage.plan_beside_use("gpu"),
        asked_measure,
        used_measure,
        Measure("GPUs asked for by a worker, median", "GPUs", usage.worker_medians["gpu_asked"]),
        usage.of_a_worker("gpu_used", "GPUs"),
    ]
    return Content([*asked, *used], measures, "% of a GPU", "tasks, %", is_log=True)


@FIGURES.add("6c")
def memory(usage: Usage) -> Content:
    asked, asked_measure = against_points(
        "main memory asked for", known(usage.numbers("plan_mem")), published()["points"]["request"]["memory_gb"], "GB"
    )
    gpu_used, gpu_measure = against_curve(
        "GPU memory used", known(usage.numbers("gpu_mem")), published()["curves"]["usage"]["gpu_memory_gb"], "GB", hue=2
    )
    main = distribution("main memory used", known(usage.numbers("mem")), hue=1)
    measures = [
        *usage.plan_beside_use("mem"),
        asked_measure,
        gpu_measure,
        usage.of_a_worker("memory_used_gb", "GB of main memory"),
        usage.of_a_worker("gpu_memory_used_gb", "GB of GPU memory"),
    ]
    return Content([*asked, main, *gpu_used], measures, "GB", "tasks, %", is_log=True)


@FIGURES.add("6d")
def spare(usage: Usage) -> Content:
    curves: list[Curve] = []
    measures: list[Measure] = []
    for hue, (resource, label) in enumerate(RESOURCES.items()):
        above = usage.numbers(resource) - usage.numbers(f"plan_{resource}")
        as_published = _over(above, usage.numbers(f"worker_{resource}"))
        facts = published()["curves"]["spare_percent"][resource]
        drawn, measure = against_curve(label, known(as_published), facts, "%", hue)
        once = known(_over(above, usage.numbers(f"machine_{resource}")))
        corrected = distribution(f"{label}, machines once", once, hue)
        curves += [*drawn, replace(corrected, is_dotted=True)]
        measures += [
            measure,
            Measure(f"{label}, machines once, median", "%", float(np.median(once)) if len(once) else None),
        ]
    return Content(curves, measures, "used less asked for, % of capacity", "tasks, %", x_range=(-80, 50))


def _over(part: Floats, whole: Floats) -> Floats:
    """In %; NaN where there is no capacity."""
    return np.asarray(np.divide(100 * part, whole, out=np.full(len(part), np.nan), where=np.nan_to_num(whole) > 0))
