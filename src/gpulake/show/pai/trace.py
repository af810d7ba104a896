"""Chapter: the trace itself, counted: machines, statuses, gaps, attempts, run times, starts."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpulake.core.pai import published
from gpulake.show.pai.compare import known, ordered_types
from gpulake.show.pai.parts import Listing
from gpulake.show.pai.source import INSTANCES, MACHINES, Trace
from gpulake.show.pai.users import share_in_gangs

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
        for row in trace.rows("inventory")
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
    for row in trace.rows("statuses"):
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
    ours = {row["attempts"]: row["instances"] for row in trace.rows("attempts")}
    total, known_total = sum(ours.values()), sum(reference.values())
    rows: list[tuple[Any, ...]] = [
        (str(tries), ours.get(tries, 0), _part(ours.get(tries, 0), total), _part(reference.get(tries, 0), known_total))
        for tries in sorted({*ours, *reference})
    ]
    workers, tail = trace.rows("workers")[0], published()["tail"]
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
    sample = known(trace.columns("runs").numbers("run_seconds"))
    return Listing(
        "Run time of attempts that ended well",
        f"Seconds. {TAIL}",
        ("percentile", "ours", "published"),
        _quantiles(sample, facts),
    )


def gang_sizes(trace: Trace) -> Listing:
    tail = published()["tail"]
    sizes = trace.columns("recorded").numbers("size")
    shares = share_in_gangs(sizes, np.array([2.0, 100.0])) if len(sizes) else [None, None]
    rows = _quantiles(known(sizes), tail["instances_per_task"])
    rows += [
        ("% of instances in tasks of 2 and more", _number(shares[0]), tail["in_gangs_percent"]),
        ("% of instances in tasks of 100 and more", _number(shares[1]), tail["in_large_gangs_percent"]),
    ]
    return Listing("Instances of a task", TAIL, ("percentile", "ours", "published"), rows)


def by_type(trace: Trace) -> Listing:
    ours = {row["gpu_type"]: row for row in trace.rows("types")}
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
    ours = {row["hour"]: row["starts"] for row in trace.rows("starts")}
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
