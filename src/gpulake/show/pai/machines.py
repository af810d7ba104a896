"""Chapter: the machines under load (figures 8a and 8b, and the paper's on utilisation, contention and sharing)."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulake.core.pai import published
from gpulake.show.pai.compare import Floats, against_curve, against_curves, known, ordered_types, points_apart
from gpulake.show.pai.parts import DIGITISED, Content, Curve, Figures, Measure
from gpulake.show.pai.source import INSTANCES, JOBS, MACHINES, METRICS, SENSORS, TAGS, TASKS, Trace

READS = """
SELECT network_read_bytes * 8 / 2 ** 30 AS gigabits FROM silver_instance_usage WHERE network_read_bytes IS NOT NULL
"""
PROCESSORS = """
SELECT cpu_user_ratio * 100 AS usr, cpu_kernel_ratio * 100 AS kernel, cpu_iowait_ratio * 100 AS iowait
FROM silver_gpu_timeseries
WHERE cluster_id = getvariable('cluster')
"""
# Time counts, not rows: overlapping windows of a machine were made one, and each stretch weighs its seconds.
UTILISATION = """
SELECT
    coalesce(machines.gpu_type, 'CPU') AS gpu_type,
    round(200 * stretches.busy_gpus / nullif(machines.gpus, 0)) / 2 AS gpu,
    round(200 * stretches.cpu_util_ratio) / 2 AS cpu,
    sum(stretches.seconds) AS seconds
FROM silver_machine_stretches AS stretches INNER JOIN silver_machines AS machines USING (machine_key)
WHERE stretches.cluster_id = getvariable('cluster') AND stretches.seconds > 0
GROUP BY ALL
"""
# A run beside the usual run of its group and role, by how busy the processors of its machine were meanwhile.
CONTENTION = """
WITH runs AS (
    SELECT
        least(floor(windows.cpu_util_ratio * 5), 4)::BIGINT AS fifth,
        instances.run_seconds / nullif(median(instances.run_seconds) OVER alike, 0) AS pace,
        count(*) OVER alike AS runs
    FROM silver_gpu_timeseries AS windows
    INNER JOIN silver_instances AS instances USING (worker_key)
    INNER JOIN silver_jobs AS jobs USING (job_key)
    WHERE
        windows.cluster_id = getvariable('cluster') AND windows.cpu_util_ratio IS NOT NULL
        AND instances.status = 'succeeded' AND instances.run_seconds > 0 AND jobs.group_id != jobs.user_id
    WINDOW alike AS (PARTITION BY jobs.group_id, instances.task_name)
)
SELECT fifth, median(pace) AS median_pace, quantile_cont(pace, 0.9) AS p90_pace, count(*) AS runs
FROM runs
WHERE runs >= 5
GROUP BY fifth
ORDER BY fifth
"""
# What is held on the hour: whole GPUs if nobody shared; and shared, full machines of them, each rounded up.
SHARING = """
WITH
edges AS (
    SELECT
        machine_key, ceil(epoch(held_from) / 3600)::BIGINT AS hour_number, gpus, ceil(round(gpus, 6)) AS whole
    FROM silver_holdings
    WHERE cluster_id = getvariable('cluster')
    UNION ALL
    SELECT machine_key, ceil(epoch(held_until) / 3600)::BIGINT, -gpus, -ceil(round(gpus, 6))
    FROM silver_holdings
    WHERE cluster_id = getvariable('cluster')
),
changes AS (
    SELECT machine_key, hour_number, sum(gpus) AS gpus, sum(whole) AS whole
    FROM edges
    GROUP BY machine_key, hour_number
),
packed AS (
    SELECT
        machine_key, hour_number, whole,
        ceil(round(sum(gpus) OVER (PARTITION BY machine_key ORDER BY hour_number), 6)) AS held
    FROM changes
),
steps AS (
    SELECT
        hour_number, sum(whole) AS whole, sum(change) AS packed
    FROM (
        SELECT
            hour_number, whole,
            held - coalesce(lag(held) OVER (PARTITION BY machine_key ORDER BY hour_number), 0) AS change
        FROM packed
    )
    GROUP BY hour_number
),
running AS (
    SELECT
        hour_number, sum(whole) OVER (ORDER BY hour_number) AS whole, sum(packed) OVER (ORDER BY hour_number) AS packed
    FROM steps
)
SELECT
    strftime(timezone(clusters.time_zone, to_timestamp(running.hour_number * 3600)), '%Y-%m-%d %H:%M') AS hour,
    running.whole, running.packed
FROM running CROSS JOIN (FROM silver_clusters WHERE cluster_id = getvariable('cluster')) AS clusters
WHERE
    to_timestamp(running.hour_number * 3600) BETWEEN clusters.observed_from AND clusters.observed_until
ORDER BY running.hour_number
"""
LEAST_HELD = 8
"""GPUs; with fewer on an hour, what they save is chance."""
MOST_HOURS = 2000
FIGURES = Figures[Trace]("Machines")


@FIGURES.add(
    "8a",
    "Network input of a worker",
    "All that a worker read, in units of 2^30 bits.",
    (SENSORS,),
    "Published as the machine's receive rate in Gbit/s; it is the input of the worker, in bytes, not a rate.",
    DIGITISED,
)
def network(trace: Trace) -> Content:
    sample = known(trace.columns(READS).numbers("gigabits"))
    curves, measure = against_curve("read", sample, published()["curves"]["network"]["read_gbit"], "Gbit")
    return Content(curves, [measure], "Gbit (2^30) read in a worker's life", "workers, %", is_log=True)


@FIGURES.add(
    "8b",
    "What the processors of a machine do",
    "Percent of the machine, a row for each worker's life.",
    (METRICS,),
    "A row is the mean over the life of one worker, so that busy machines count more often; see the next figure.",
    DIGITISED,
)
def processors(trace: Trace) -> Content:
    columns = trace.columns(PROCESSORS)
    facts = published()["curves"]["machine_cpu_percent"]
    names = ("usr", "kernel", "iowait")
    curves, measures = against_curves(((name, known(columns.numbers(name)), facts[name]) for name in names), "%")
    return Content(curves, measures, "% of the machine", "workers, %", is_log=True)


@FIGURES.add(
    "paper: machines",
    "Utilisation of machines by GPU type",
    "Share of the time at which GPUs and processors are at most so busy; the middle, and what a tenth of the time "
    "exceeds. No number of this was published.",
    (METRICS, MACHINES),
    "Weighted by time, each moment of a machine once, where windows overlap their mean.",
)
def by_type(trace: Trace) -> Content:
    columns = trace.columns(UTILISATION)
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


@FIGURES.add(
    "paper: contention",
    "Runs on machines with busy processors",
    "Run time over the median of the same group and role, by the mean load of the machine's processors meanwhile. Only "
    "groups with five runs and more: like with like, but no proof, since long runs average the load out. No number of "
    "this was published.",
    (METRICS, INSTANCES, JOBS, TAGS),
)
def contention(trace: Trace) -> Content:
    rows = trace.rows(CONTENTION)
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


@FIGURES.add(
    "paper: sharing",
    "GPUs saved by sharing",
    "On each hour: the GPUs that would be held if every instance had whole ones, and those that are needed when the "
    "parts of GPUs are packed on the machine that they ran on.",
    (TASKS, INSTANCES),
    error="Two numbers of the paper's text, in whole percents; how they were counted it does not say.",
)
def sharing(trace: Trace) -> Content:
    rows = [row for row in trace.rows(SHARING) if row["whole"] >= LEAST_HELD]
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
