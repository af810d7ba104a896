"""Tables in which one thing is wrong: for every watch, the one that it is there to find."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from gpulake.detect.watches import WATCHES, Read
from gpulake.lake.engine import connect, create_table, name
from gpulake.model.plan import shipped_plan

BEGIN = datetime(2026, 1, 5, tzinfo=UTC)
HOUR, DAY, SECOND = timedelta(hours=1), timedelta(days=1), timedelta(seconds=1)
Row = dict[str, Any]
Tables = dict[str, list[Row]]
COLUMNS = {model.name: {each.name: each.type for each in model.columns} for model in shipped_plan().models}


@contextmanager
def lake_of(tables: Mapping[str, Sequence[Row]]) -> Iterator[Read]:
    """Reads these tables; what a row does not say is empty."""
    with connect("1GB", 1, Path("spill")) as bench:
        bench.execute("ATTACH ':memory:' AS lake")
        bench.execute("USE lake.main")
        for table, rows in {"silver_gpu_types": [], "silver_holdings": [], **tables}.items():
            create_table(bench, f"lake.main.{name(table)}", COLUMNS[table], rows)
        yield lambda query: bench.execute(query).to_arrow_table()


def noise(count: int, seed: int = 0) -> list[float]:
    return np.random.default_rng(seed).normal(size=count).tolist()  # type: ignore[no-any-return]


def cluster_hours(who: str) -> Tables:
    rows = []
    for hour, chance in enumerate(noise(21 * 24)):
        usual = 0.4 + 0.1 * np.sin(hour / 24 * 2 * np.pi) + 0.01 * chance
        seen = 0.95 if 450 <= hour < 460 else usual
        rows.append(hourly(who, hour) | {"gpu_util_ratio": seen, "coverage_ratio": 0.3})
    return {"gold_cluster_util_hourly": rows}


def hourly(who: str, hour: int) -> Row:
    return {"cluster_id": who, "started_at": BEGIN + hour * HOUR}


def cluster_days(who: str) -> Tables:
    """Four machines, one of them twice as busy as the others; one day all of them do half as much again."""
    days = [BEGIN + place * DAY for place in range(30)]
    daily = [{"cluster_id": who, "dt": day.date(), "is_poorly_covered": False} for day in days]
    begins = [{"cluster_id": who, "dt": day.date(), "started_at": day, "ended_at": day + DAY} for day in days]
    machines = [{"cluster_id": who, "machine_key": key, "machine_id": f"m{key}", "gpus": 8} for key in range(4)]
    chances = iter(noise(4 * len(days)))
    stretches = [
        {
            "cluster_id": who,
            "machine_key": key,
            "dt": day.date(),
            "started_at": day,
            "ended_at": day + DAY,
            "seconds": 86_400.0,
            "busy_gpus": (4.0 if key == 0 else 2.0)
            * (1.5 if place == 26 else 1.1 if place % 7 > 4 else 1.0)
            * (1.0 + 0.05 * next(chances)),
        }
        for place, day in enumerate(days)
        for key in range(4)
    ]
    return {
        "gold_cluster_util_daily": daily,
        "silver_days": begins,
        "silver_machine_stretches": stretches,
        "silver_machines": machines,
    }


def failures(who: str) -> Tables:
    rows = []
    for hour in range(240):
        for place in range(10):
            is_failed = place == hour % 10 or (200 <= hour < 204 and place < 9)
            status = "failed" if is_failed else "succeeded"
            rows.append({"cluster_id": who, "submitted_at": BEGIN + hour * HOUR, "status": status})
    return {"silver_jobs": rows}


def runaway_users(who: str) -> Tables:
    jobs: list[Row] = []
    held: list[Row] = []
    for hour in range(200):
        users = [f"user {hour % 9}", f"user {hour % 7}", *([who] * 5 if 150 <= hour < 160 else [])]
        for user in users:
            key = len(jobs)
            jobs.append({"cluster_id": "c", "job_key": key, "user_id": user})
            held.append({"cluster_id": "c", "job_key": key, "bucket": "idle", "held_from": BEGIN + hour * HOUR})
    return {"silver_jobs": jobs, "silver_holdings": held}


def dead_machines(who: str) -> Tables:
    died = BEGIN + 100 * HOUR + timedelta(minutes=50)
    outages = [
        {"cluster_id": "c", "machine_key": key, "basis": basis, "started_at": died, "ended_at": BEGIN + 120 * HOUR}
        for key, basis in ((3, "silent"), (0, "died"), (1, "died"))
    ]
    machines = [{"cluster_id": "c", "machine_key": key, "machine_id": f"{who}{key}"} for key in range(4)]
    clusters = [{"cluster_id": "c", "observed_from": BEGIN, "observed_until": BEGIN + 120 * HOUR}]
    return {"silver_outages": outages, "silver_machines": machines, "silver_clusters": clusters}


def slow_machines(who: str) -> Tables:
    jobs: list[Row] = []
    runs: list[Row] = []
    drawn = iter(noise(4 * 15 * 10))
    for day in range(15):
        for group in range(10):
            for machine in range(4):
                key = len(jobs)
                seconds = 600 * (group + 1) * np.exp(0.3 * next(drawn)) * (2.5 if machine == 0 and day >= 10 else 1.0)
                jobs.append({"cluster_id": "c", "job_key": key, "group_id": f"group {group}"})
                runs.append(
                    {
                        "job_key": key,
                        "task_key": key,
                        "task_name": "worker",
                        "machine_key": machine,
                        "status": "succeeded",
                        "started_at": BEGIN + day * DAY + group * HOUR,
                        "run_seconds": seconds,
                    }
                )
    machines = [{"cluster_id": "c", "machine_key": key, "machine_id": f"{who}{key}"} for key in range(4)]
    return {"silver_jobs": jobs, "silver_instances": runs, "silver_machines": machines}


def gpus(who: str, column: str, usual: float, strange: float) -> Tables:
    """Eight GPUs beside each other; after two minutes, the third is not like the others."""
    drawn = iter(noise(8 * 600))
    return {
        "silver_gpu_samples": [
            sample(who, second, gpu)
            | {
                column: (strange if gpu == 2 and second >= 120 else usual) * (1 + 0.005 * next(drawn)),
                "busy_ratio": 1.0,
            }
            for second in range(600)
            for gpu in range(8)
        ]
    }


def sample(who: str, second: float, gpu: int = 0) -> Row:
    at = {"sampled_at": BEGIN + second * SECOND, "covers_seconds": 1.0}
    return {"cluster_id": "c", "node_id": who, "gpu_id": f"{who}-{gpu}", "gpu_index": gpu} | at


def hot_gpus(who: str) -> Tables:
    return gpus(who, "temperature_celsius", 50.0, 75.0)


def slow_gpus(who: str) -> Tables:
    return gpus(who, "sm_clock_hertz", 1.9e9, 1.2e9)


def weak_gpus(who: str) -> Tables:
    return gpus(who, "power_watts", 650.0, 300.0)


def used_ratio(second: int) -> float:
    return 0.3 if second < 300 else 0.3 + (second - 300) * 0.0015


def gpu_memory(who: str) -> Tables:
    rows = [
        sample(who, second) | {"memory_used_bytes": int(8e10 * used_ratio(second)), "memory_total_bytes": int(8e10)}
        for second in range(0, 700, 2)
    ]
    return {"silver_gpu_samples": rows}


def host_memory(who: str) -> Tables:
    rows = [
        {
            "cluster_id": "c",
            "node_id": who,
            "sampled_at": BEGIN + second * SECOND,
            "covers_seconds": 2.0,
            "memory_available_bytes": int(1e12 * (1 - used_ratio(second))),
            "memory_total_bytes": int(1e12),
        }
        for second in range(0, 700, 2)
    ]
    return {"silver_host_samples": rows}


def gpu_errors(who: str) -> Tables:
    rows = [
        sample(who, 60 * minute) | {"ecc_corrected_total": 0, "ecc_uncorrected_total": max(0, minute - 100)}
        for minute in range(110)
    ]
    return {"silver_gpu_samples": rows}


def node_events(who: str) -> Tables:
    first = {"cluster_id": "c", "node_id": "other", "kind": "link_down", "severity": "info", "happened_at": BEGIN}
    row = {"cluster_id": "c", "node_id": who, "kind": "xid", "code": 43, "severity": "info"}
    return {"silver_node_events": [first, *(row | {"happened_at": BEGIN + 15 * HOUR + n * SECOND} for n in range(6))]}


def stuck_gpus(who: str) -> Tables:
    drawn = iter(noise(2 * 180))
    rows = [
        sample(who, 10 * place, gpu)
        | {
            "busy_ratio": 1.0,
            "memory_busy_ratio": 0.5 + 0.05 * next(drawn) if place < 100 else 0.0,
            "owner_kind": "slurm",
            "owner_id": "4711",
        }
        for place in range(180)
        for gpu in range(2)
    ]
    return {"silver_gpu_samples": rows}


def queue(who: str) -> Tables:
    rows = []
    for hour, chance in enumerate(noise(14 * 24)):
        waiting = 60.0 if 300 <= hour < 310 else 2.0 + 0.1 * chance
        rows.append(hourly(who, hour) | {"waiting_gpu_hours": waiting, "available_gpu_hours": 100.0})
    return {"gold_demand_hourly": rows}


def machine_hours(who: str) -> Tables:
    rows = []
    for hour, chance in enumerate(noise(14 * 24)):
        used = (0.1 if hour >= 250 else 0.8) + 0.02 * chance
        hours = {"capacity_gpu_hours": 8.0, "used_gpu_hours": 8 * used, "idle_gpu_hours": 8 * (1 - used)}
        rows.append(hourly("c", hour) | hours | {"machine_key": 1, "under_used_gpu_hours": 0.0})
    machines = [{"cluster_id": "c", "machine_key": 1, "machine_id": who}]
    return {"gold_machine_hours": rows, "silver_machines": machines}


SCENES: dict[str, Callable[[str], Tables]] = {
    scene.__name__: scene
    for scene in (
        cluster_days,
        cluster_hours,
        dead_machines,
        failures,
        gpu_errors,
        gpu_memory,
        host_memory,
        hot_gpus,
        machine_hours,
        node_events,
        queue,
        runaway_users,
        slow_gpus,
        slow_machines,
        stuck_gpus,
        weak_gpus,
    )
}
# The scene of another watch is the function `example` of its file.
SCENES |= {
    name: module.example
    for name in WATCHES
    if (module := sys.modules.get(f"gpulake.detect.watches.{name}")) and hasattr(module, "example")
}
