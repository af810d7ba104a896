"""Chapter: the trace itself, counted: machines, statuses, gaps, attempts, run times, starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulake.core.pai import published
from gpulake.show.pai.compare import known, ordered_types
from gpulake.show.pai.parts import Listing
from gpulake.show.pai.source import INSTANCES, MACHINES, Trace
from gpulake.show.pai.users import share_in_gangs

INVENTORY = """
SELECT
    coalesce(gpu_type, 'CPU') AS gpu_type, cores, memory_bytes / 2 ** 30 AS memory_gb, gpus AS gpus_each,
    count(*) AS machines, sum(gpus) AS gpus
FROM silver_machines
WHERE cluster_id = getvariable('cluster')
GROUP BY ALL
ORDER BY ALL
"""
STATUSES = """
SELECT
    status, count(*) AS attempts,
    100 * count(*) / sum(count(*)) OVER () AS percent,
    100 * count(*) FILTER (WHERE started_at IS NULL) / count(*) AS no_start,
    100 * count(*) FILTER (WHERE ended_at IS NULL) / count(*) AS no_end,
    100 * count(*) FILTER (WHERE worker_key IS NULL) / count(*) AS no_worker
FROM silver_instances
WHERE cluster_id = getvariable('cluster')
GROUP BY status
ORDER BY attempts DESC, status
"""
ATTEMPTS = """
WITH tries AS (
    SELECT max(attempt) AS attempts FROM silver_instances
    WHERE cluster_id = getvariable('cluster')
    GROUP BY instance_key
)
SELECT attempts, count(*) AS instances FROM tries GROUP BY attempts ORDER BY attempts
"""
WORKERS = """
SELECT count(DISTINCT worker_key) AS workers, count(worker_key) AS runs
FROM silver_instances
WHERE cluster_id = getvariable('cluster')
"""
SIZES = """
SELECT count(*) AS size FROM silver_instances
WHERE cluster_id = getvariable('cluster') AND attempt = 1
GROUP BY task_key
"""
RUNS = """
SELECT run_seconds FROM silver_instances
WHERE cluster_id = getvariable('cluster') AND status = 'succeeded' AND run_seconds >= 0
"""
TYPES = """
SELECT
    CASE
        WHEN instances.machine_key IS NULL THEN 'no machine'
        WHEN machines.machine_key IS NULL THEN 'not in the inventory'
        ELSE coalesce(machines.gpu_type, 'CPU')
    END AS gpu_type,
    100 * count(*) / sum(count(*)) OVER () AS percent,
    median(instances.run_seconds) FILTER (WHERE instances.status = 'succeeded') AS median_seconds
FROM silver_instances AS instances LEFT JOIN silver_machines AS machines USING (machine_key)
WHERE instances.cluster_id = getvariable('cluster')
GROUP BY ALL
"""
# Counted by the hour first: asking the time zone of each start would take longer than all the rest.
STARTS = """
WITH hourly AS (
    SELECT
        floor((epoch(instances.started_at) + clusters.hour_shift_seconds) / 3600) * 3600 - clusters.hour_shift_seconds
            AS second,
        clusters.time_zone,
        count(*) AS starts
    FROM silver_instances AS instances INNER JOIN silver_clusters AS clusters USING (cluster_id)
    WHERE instances.cluster_id = getvariable('cluster') AND instances.started_at IS NOT NULL
    GROUP BY ALL
)
SELECT hour(timezone(time_zone, to_timestamp(second))) AS hour, sum(starts)::BIGINT AS starts
FROM hourly
GROUP BY ALL
ORDER BY ALL
"""
# Our words for the trace's.
WORDS = {
    "succeeded": "Terminated",
    "running": "Running",
    "failed": "Failed",
    "interrupted": "Interrupted",
    "waiting": "Waiting",
}
TAIL = "Published here means the last 28,000 rows of the real table, which are no random sample."


def listings(trace: Trace) -> list[Listing]:
    """Those whose tables are there."""
    shown = [inventory(trace)] if MACHINES in trace.present else []
    if INSTANCES in trace.present:
        shown += [statuses(trace), attempts(trace), run_times(trace), gang_sizes(trace), by_type(trace), starts(trace)]
    return shown


def inventory(trace: Trace) -> Listing:
    reference = {
        (entry["gpu_type"], entry["cap_cpu"], entry["cap_mem"], entry["cap_gpu"]): entry["count"]
        for entry in published()["machines"]
    }
    ours = {
        (row["gpu_type"], row["cores"], row["memory_gb"], row["gpus_each"]): row["machines"]
        for row in trace.rows(INVENTORY)
    }
    kinds = sorted({*ours, *reference}, key=str)
    rows: list[tuple[Any, ...]] = [
        (*kind, ours.get(kind, 0), int(ours.get(kind, 0) * (kind[3] or 0)), reference.get(kind, 0)) for kind in kinds
    ]
    totals = (sum(row[4] for row in rows), sum(row[5] for row in rows), sum(row[6] for row in rows))
    return Listing(
        "Machines",
        "By type and capacity.",
        ("GPU type", "cores", "memory, GB", "GPUs each", "machines", "GPUs", "machines, published"),
        [*rows, ("all", None, None, None, *totals)],
    )


def statuses(trace: Trace) -> Listing:
    shares = published()["shares"]
    rows = []
    for row in trace.rows(STATUSES):
        word = WORDS.get(row["status"], row["status"])
        rows.append(
            (
                word,
                row["attempts"],
                row["percent"],
                shares["instance_status"].get(word),
                row["no_start"],
                shares["missing_start"].get(word),
                row["no_end"],
                shares["missing_end"].get(word),
                row["no_worker"],
            )
        )
    return Listing(
        "How attempts end, and which times they lack",
        f"{TAIL} Interrupted is in the data, though not in its description.",
        ("status", "attempts", "%", "published", "no start, %", "published", "no end, %", "published", "no worker, %"),
        rows,
    )


def attempts(trace: Trace) -> Listing:
    reference = {int(tries): count for tries, count in published()["tail"]["attempts"].items()}
    ours = {row["attempts"]: row["instances"] for row in trace.rows(ATTEMPTS)}
    total, known_total = sum(ours.values()), sum(reference.values())
    rows: list[tuple[Any, ...]] = [
        (str(tries), ours.get(tries, 0), _part(ours.get(tries, 0), total), _part(reference.get(tries, 0), known_total))
        for tries in sorted({*ours, *reference})
    ]
    workers, tail = trace.rows(WORKERS)[0], published()["tail"]
    repeated = workers["runs"] - workers["workers"]
    rows.append(
        (
            "workers that ran again",
            repeated,
            _part(repeated, workers["workers"]),
            _part(tail["repeated_workers"], tail["workers"]),
        )
    )
    return Listing(
        "Attempts of an instance",
        f"{TAIL} An instance is tried again under its old name; nearly always a new worker does it.",
        ("attempts", "instances", "%", "published"),
        rows,
    )


def run_times(trace: Trace) -> Listing:
    facts = published()["tail"]["run_seconds"]
    sample = known(trace.columns(RUNS).numbers("run_seconds"))
    return Listing(
        "Run time of attempts that ended well",
        f"Seconds. {TAIL}",
        ("percentile", "ours", "published"),
        _quantiles(sample, facts),
    )


def gang_sizes(trace: Trace) -> Listing:
    tail = published()["tail"]
    sizes = trace.columns(SIZES).numbers("size")
    shares = share_in_gangs(sizes, np.array([2.0, 100.0])) if len(sizes) else [None, None]
    rows = _quantiles(known(sizes), tail["instances_per_task"])
    rows += [
        ("% of instances in tasks of 2 and more", _number(shares[0]), tail["in_gangs_percent"]),
        ("% of instances in tasks of 100 and more", _number(shares[1]), tail["in_large_gangs_percent"]),
    ]
    return Listing("Instances of a task", TAIL, ("percentile", "ours", "published"), rows)


def by_type(trace: Trace) -> Listing:
    ours = {row["gpu_type"]: row for row in trace.rows(TYPES)}
    shares, medians = published()["shares"]["instance_gpu_type"], published()["tail"]["median_run_seconds"]
    rows = [
        (name, ours[name]["percent"], shares.get(name), ours[name]["median_seconds"], medians.get(name))
        for name in ordered_types(list(ours))
    ]
    return Listing(
        "Attempts by the GPU type of their machine",
        f"Run times in seconds, of those that ended well. {TAIL}",
        ("GPU type", "% of attempts", "published", "median run time", "published"),
        rows,
    )


def starts(trace: Trace) -> Listing:
    reference = published()["tail"]["starts_by_hour"]
    ours = {row["hour"]: row["starts"] for row in trace.rows(STARTS)}
    total = sum(ours.values())
    rows = [
        (f"{hour:02}", ours.get(hour, 0), _part(ours.get(hour, 0), total), _part(count, sum(reference)))
        for hour, count in enumerate(reference)
    ]
    return Listing("Starts by the hour of the day", TAIL, ("hour", "starts", "%", "published"), rows)


def _quantiles(sample: Any, facts: dict[str, Any]) -> list[tuple[Any, ...]]:
    return [
        (f"P{percent}", float(np.quantile(sample, percent / 100)) if len(sample) else None, reference)
        for percent, reference in zip(facts["percent"], facts["value"], strict=True)
    ]


def _part(count: float, total: float) -> float | None:
    return 100 * count / total if total else None


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
