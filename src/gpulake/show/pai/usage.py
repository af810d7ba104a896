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
from gpulake.show.pai.parts import DIGITISED, Content, Curve, Figures, Measure
from gpulake.show.pai.source import INSTANCES, MACHINES, SENSORS, TASKS, Columns, Trace

# A worker counts once, though it may have run twice or have a sensor for each of its GPUs. Plans are summed over the
# workers that have a sensor: only of those is it known what they used. The capacity is summed in both ways: over
# workers, as the notebook does, and over the machines that they ran on, each once.
TASK_USAGE = """
WITH
sensed AS (
    SELECT worker_key, min(task_key) AS task_key, min(machine_key) AS machine_key
    FROM silver_instances SEMI JOIN silver_instance_usage USING (worker_key)
    WHERE cluster_id = getvariable('cluster')
    GROUP BY worker_key
),
workers AS (
    FROM sensed INNER JOIN silver_instance_usage USING (worker_key)
),
placed AS (
    SELECT
        workers.task_key, workers.machine_key, count(*) AS workers, sum(workers.used_cores) AS used_cores,
        sum(workers.used_gpus) AS used_gpus, sum(workers.mean_memory_bytes) AS memory_bytes,
        sum(workers.mean_gpu_memory_bytes) AS gpu_memory_bytes
    FROM workers
    GROUP BY workers.task_key, workers.machine_key
),
used AS (
    SELECT
        placed.task_key, sum(placed.workers) AS workers, sum(placed.used_cores) AS used_cores,
        sum(placed.used_gpus) AS used_gpus, sum(placed.memory_bytes) AS memory_bytes,
        sum(placed.gpu_memory_bytes) AS gpu_memory_bytes,
        sum(placed.workers * machines.cores) AS worker_cores, sum(machines.cores) AS machine_cores,
        sum(placed.workers * machines.gpus) AS worker_gpus, sum(machines.gpus) AS machine_gpus,
        sum(placed.workers * machines.memory_bytes) AS worker_memory, sum(machines.memory_bytes) AS machine_memory
    FROM placed LEFT JOIN silver_machines AS machines USING (machine_key)
    GROUP BY placed.task_key
)
SELECT
    used.workers,
    used.workers * tasks.requested_cores * 100 AS plan_cpu,
    used.used_cores * 100 AS cpu,
    nullif(used.workers * tasks.requested_gpus * 100, 0) AS plan_gpu,
    used.used_gpus * 100 AS gpu,
    used.workers * tasks.requested_memory_bytes / 2 ** 30 AS plan_mem,
    used.memory_bytes / 2 ** 30 AS mem,
    used.gpu_memory_bytes / 2 ** 30 AS gpu_mem,
    used.worker_cores * 100 AS worker_cpu, used.machine_cores * 100 AS machine_cpu,
    used.worker_gpus * 100 AS worker_gpu, used.machine_gpus * 100 AS machine_gpu,
    used.worker_memory / 2 ** 30 AS worker_mem, used.machine_memory / 2 ** 30 AS machine_mem
FROM silver_tasks AS tasks INNER JOIN used USING (task_key)
"""
# Of single workers, as in the paper.
WORKER_MEDIANS = """
SELECT
    median(usage.used_cores) AS cores_used,
    median(usage.used_gpus) FILTER (WHERE instances.gpus > 0) AS gpu_used,
    median(instances.gpus) FILTER (WHERE instances.gpus > 0) AS gpu_asked,
    median(usage.mean_memory_bytes) / 2 ** 30 AS memory_used_gb,
    median(usage.mean_gpu_memory_bytes) FILTER (WHERE instances.gpus > 0) / 2 ** 30 AS gpu_memory_used_gb
FROM silver_instances AS instances INNER JOIN silver_instance_usage AS usage USING (worker_key)
WHERE instances.cluster_id = getvariable('cluster')
"""
RESOURCES = {"cpu": "CPU", "gpu": "GPU", "mem": "main memory"}
SENSED = "Summed over the workers of a task that have a sensor."
ONCE = "A worker's sensors count once; the notebook's join counts a worker that ran twice, or has several GPUs, again."
NEEDS = (TASKS, INSTANCES, SENSORS)
FIGURES = Figures["Usage"]("What is asked for and what is used")


@dataclass(frozen=True)
class Usage:
    """The tasks that have sensors, read when the first figure asks for them."""

    trace: Trace

    @cached_property
    def columns(self) -> Columns:
        return self.trace.columns(TASK_USAGE)

    def numbers(self, name: str) -> Floats:
        return self.columns.numbers(name)

    @cached_property
    def worker_medians(self) -> dict[str, float | None]:
        return self.trace.rows(WORKER_MEDIANS)[0]

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


@FIGURES.add("6a", "CPU: asked for and used", f"Percent of a core. {SENSED}", NEEDS, ONCE, DIGITISED)
def cpu(usage: Usage) -> Content:
    asked, asked_measure = against_points(
        "asked for", known(usage.numbers("plan_cpu")), published()["points"]["request"]["cpu_percent"], "%"
    )
    used, used_measure = against_curve(
        "used", known(usage.numbers("cpu")), published()["curves"]["usage"]["cpu_percent"], "%", hue=1
    )
    measures = [*usage.plan_beside_use("cpu"), asked_measure, used_measure, usage.of_a_worker("cores_used", "cores")]
    return Content([*asked, *used], measures, "% of a core", "tasks, %", is_log=True)


@FIGURES.add(
    "6b",
    "GPU: asked for and used",
    f"Percent of a GPU. {SENSED}",
    NEEDS,
    f"{ONCE} Tasks without a GPU are left out.",
    f"{DIGITISED} Below the median the figure cannot be read.",
)
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


@FIGURES.add(
    "6c",
    "Memory: asked for and used",
    f"GB. {SENSED} The published curve of use is that of GPU memory; there is none of main memory.",
    NEEDS,
    "The notebook draws the memory of the GPU as the use of the main memory that was asked for; here both are drawn.",
    DIGITISED,
)
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


@FIGURES.add(
    "6d",
    "Used less asked for, beside capacity",
    "Percent of the machines that a task ran on. Dotted: each machine counted once.",
    (*NEEDS, MACHINES),
    "The notebook counts a machine again for each worker on it; compared is its way, and the other is drawn beside it.",
    f"{DIGITISED} And half a point, near 0.",
)
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
