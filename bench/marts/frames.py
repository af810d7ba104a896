"""`python -m bench.marts.frames LAKE`: the seven marts in pandas, vectorised, on frames that are in memory already."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gpulake.core.config import Config
from gpulake.lake import Lake

# Frames as a user of pandas would hold them: with the trace's own ids, which are text, and instants as seconds.
# As long as theirs: 24 hex digits.
FAILED = ("failed", "node_fail")
JOB = "lpad(lower(to_hex(job_key)), 24, '0') AS job_key"
MACHINE = "lpad(lower(to_hex(machine_key)), 24, '0') AS machine_key"
QUERIES = {
    "windows": f"SELECT {MACHINE}, epoch(window_started_at) AS b, epoch(window_ended_at) AS e, busy_gpus,"
    " cpu_util_ratio FROM silver_gpu_timeseries",
    "machines": f"SELECT {MACHINE}, gpus, cores FROM silver_machines",
    "days": "SELECT dt, epoch(started_at) AS b, epoch(ended_at) AS e, epoch(observed_from) AS ob,"
    " epoch(observed_until) AS oe FROM silver_days ORDER BY dt",
    "hours": "SELECT hour_number, epoch(started_at) AS b, observed_seconds FROM silver_hours ORDER BY hour_number",
    "holdings": f"SELECT {JOB}, {MACHINE}, gpu_type, gpus, used_gpus, bucket, use_bucket, is_inferred, has_checkpoint,"
    " held_seconds, epoch(held_from) AS b, epoch(held_until) AS e, epoch(coalesce(lost_from, held_until)) AS lost_b"
    " FROM silver_holdings",
    "instances": f"SELECT {MACHINE}, epoch(started_at) AS b, epoch(ended_at) AS e FROM silver_instances"
    " WHERE machine_key IS NOT NULL AND gpus = 0",
    "unmeasured": f"SELECT {MACHINE}, epoch(coalesce(started_at, ended_at)) AS b,"
    " epoch(coalesce(ended_at, started_at)) AS e FROM silver_instances WHERE machine_key IS NOT NULL AND gpus IS NULL"
    " AND status != 'waiting'",
    "jobs": f"SELECT {JOB}, user_id, group_id, workload, status, turnaround_seconds FROM silver_jobs",
    "tasks": "SELECT coalesce(gpu_type, 'unknown') AS gpu_type, launch_wait_seconds,"
    " requested_gpus * coalesce(planned_instances, 1) AS gpus, epoch(launched_at) AS launch, status,"
    " epoch(coalesce(started_at, ended_at)) AS until, start_wait_seconds, started_at IS NULL AND task_key IN ("
    "SELECT task_key FROM silver_instances WHERE started_at IS NULL AND status NOT IN ('waiting', 'unknown')"
    ") AS is_undated FROM silver_tasks WHERE requested_gpus > 0",
    "capacity": f"SELECT {MACHINE}, coalesce(gpu_type, 'unknown') AS gpu_type, gpus FROM silver_capacity",
    "outages": f"SELECT {MACHINE}, basis, epoch(started_at) AS b, epoch(ended_at) AS e FROM silver_outages",
    "job_days": f"SELECT * REPLACE ({JOB}) FROM gold_job_efficiency_daily",
    "ledger": "SELECT epoch(started_at) AS b, gpu_type, capacity_gpu_hours - down_gpu_hours AS available,"
    " capacity_gpu_hours - down_gpu_hours - unallocated_gpu_hours - unknown_gpu_hours AS held"
    " FROM gold_ledger_hourly",
    "clusters": "SELECT epoch(observed_from) AS b, epoch(observed_until) AS e, unknown_demand_ratio"
    " FROM silver_clusters",
}
Frames = dict[str, pd.DataFrame]
LOST = ("failed", "timed_out", "interrupted")
BUCKETS = ("idle", "under_used", *LOST, "unobserved", "used")


def cut(begin: np.ndarray[Any, Any], end: np.ndarray[Any, Any], edges: np.ndarray[Any, Any]) -> tuple[Any, Any, Any]:
    """For each piece of an interval between edges: the row, the place of its left edge, and its seconds."""
    first = np.searchsorted(edges, begin, side="right") - 1
    last = np.searchsorted(edges, end, side="left") - 1
    counts = np.maximum(last - first + 1, 0)
    rows = np.repeat(np.arange(len(begin)), counts)
    place = np.arange(counts.sum()) - np.repeat(counts.cumsum() - counts, counts) + np.repeat(first, counts)
    place = np.clip(place, 0, len(edges) - 2)
    seconds = np.minimum(end[rows], edges[place + 1]) - np.maximum(begin[rows], edges[place])
    keep = seconds > 0
    return rows[keep], place[keep], seconds[keep]


def pieces(held: pd.DataFrame, begin: float, end: float, edges: np.ndarray[Any, Any]) -> pd.DataFrame:
    """What was held between two moments, cut at the edges and put into the buckets: lost since lost_b, else by use."""
    rows, place, seconds = cut(np.maximum(held.b.to_numpy(), begin), np.minimum(held.e.to_numpy(), end), edges)
    part = held.iloc[rows]
    begins = np.maximum(np.maximum(part.b.to_numpy(), begin), edges[place])
    since = np.maximum(begins, part.lost_b.to_numpy())
    gpus, hours = part.gpus.to_numpy(), seconds / 3600
    lost = np.maximum(begins + seconds - since, 0) / 3600
    used = np.minimum(part.used_gpus.to_numpy(), gpus)
    use, bucket = part.use_bucket.to_numpy(), part.bucket.to_numpy()
    is_inferred = part.is_inferred.to_numpy()
    amounts = {
        "held": hours * gpus,
        "idle": np.where(use == "idle", (hours - lost) * gpus, 0),
        "under_used": np.where(use == "used", (hours - lost) * (gpus - used), 0),
        **{name: np.where(bucket == name, lost * gpus, 0) for name in LOST},
        "unobserved": np.where(use == "unobserved", (hours - lost) * gpus, 0),
        "used": np.where(use == "used", (hours - lost) * used, 0),
        "lost_at_least": np.where(part.has_checkpoint.to_numpy(), lost * gpus, 0),
        "inferred": np.where(is_inferred, hours * gpus, 0),
        "inferred_lost": np.where(is_inferred, lost * gpus, 0),
        "sensed": np.where(np.isnan(used), 0, hours * gpus),
        "measured": np.where(np.isnan(used), 0, hours * used),
    }
    keys = {name: part[name].to_numpy() for name in ("job_key", "machine_key", "gpu_type")}
    return pd.DataFrame({**keys, "place": place, **amounts})


def daily_utilisation(frames: Frames) -> list[float]:
    windows = frames["windows"]
    edges = np.append(frames["days"].b.to_numpy(), frames["days"].e.iloc[-1])
    last = max(edges[-1], windows.e.max())
    edges = np.append(edges, np.arange(edges[-1] + 86400, last + 86400, 86400))
    rows, place, _ = cut(windows.b.to_numpy(), windows.e.to_numpy(), edges)
    begin = np.maximum(windows.b.to_numpy()[rows], edges[place])
    end = np.minimum(windows.e.to_numpy()[rows], edges[place + 1])
    part = windows.iloc[rows]
    sides = []
    for at, sign in ((begin, 1.0), (end, -1.0)):
        sides.append(
            pd.DataFrame(
                {
                    "machine_key": part.machine_key.to_numpy(),
                    "day": place,
                    "at": at,
                    "gpu_windows": part.busy_gpus.notna().to_numpy() * sign,
                    "busy_gpus": part.busy_gpus.fillna(0).to_numpy() * sign,
                    "cpu_windows": part.cpu_util_ratio.notna().to_numpy() * sign,
                    "cpu": part.cpu_util_ratio.fillna(0).to_numpy() * sign,
                }
            )
        )
    edge = pd.concat(sides).sort_values(["machine_key", "day", "at"], kind="stable")
    keys = edge.groupby(["machine_key", "day"], sort=False)
    running = keys[["gpu_windows", "busy_gpus", "cpu_windows", "cpu"]].cumsum()
    edge["seconds"] = keys["at"].shift(-1) - edge["at"]
    stretch = edge.assign(**running)
    stretch = stretch[(stretch.seconds > 0) & ((stretch.gpu_windows > 0.5) | (stretch.cpu_windows > 0.5))]
    stretch = stretch.merge(frames["machines"], on="machine_key")
    has_gpu = stretch.gpu_windows > 0.5
    busy = np.where(has_gpu, np.maximum(stretch.busy_gpus / stretch.gpu_windows.where(has_gpu), 0), 0)
    has_cpu = stretch.cpu_windows > 0.5
    cpu = np.where(has_cpu, np.maximum(stretch.cpu / stretch.cpu_windows.where(has_cpu), 0), 0)
    stretch = stretch.assign(
        gpu_seconds=np.where(has_gpu, stretch.seconds, 0),
        busy_seconds=stretch.seconds * busy,
        cpu_seconds=np.where(has_cpu, stretch.seconds, 0) * stretch.cores,
        busy_cpu_seconds=stretch.seconds * cpu * stretch.cores,
    )
    machine_days = stretch.groupby(["day", "machine_key", "gpus", "cores"], as_index=False)[
        ["gpu_seconds", "busy_seconds", "cpu_seconds", "busy_cpu_seconds"]
    ].sum()
    machine_days["observed"] = machine_days.gpu_seconds * machine_days.gpus
    machine_days["ratio"] = machine_days.busy_seconds / machine_days.observed.replace(0, np.nan)
    days = machine_days.groupby("day").agg(
        busy=("busy_seconds", "sum"),
        observed=("observed", "sum"),
        p95=("ratio", lambda ratio: ratio.quantile(0.95)),
        cpu=("cpu_seconds", "sum"),
        busy_cpu=("busy_cpu_seconds", "sum"),
    )
    return [
        days.busy.sum() / 3600,
        days.observed.sum() / 3600,
        (days.busy / days.observed.replace(0, np.nan)).sum(),
    ]


def job_efficiency(frames: Frames) -> list[float]:
    held = frames["holdings"]
    held = held[held.held_seconds > 0].merge(
        frames["capacity"][["machine_key", "gpu_type"]], on="machine_key", how="left", suffixes=("_asked", "")
    )
    held["gpu_type"] = held.gpu_type.fillna("unlisted")
    days = frames["days"]
    edges = np.append(days.b.to_numpy(), days.e.iloc[-1]).astype(float)
    edges[0], edges[-1] = days.ob.iloc[0], days.oe.iloc[-1]
    columns = pieces(held, edges[0], edges[-1], edges).drop(columns="machine_key")
    columns["gpu_type"] = columns.gpu_type.astype("category")
    found = columns.groupby(["job_key", "place", "gpu_type"], observed=True, as_index=False).sum()
    found = found.merge(frames["jobs"], on="job_key", how="left")
    ratio = found.measured / found.sensed.replace(0, np.nan)
    return [len(found), found.held.sum(), found.used.sum(), found[list(LOST)].sum().sum(), ratio.sum()]


def per_user(frames: Frames) -> list[float]:
    days = frames["job_days"]
    keys = ["user_id", "dt"]
    sums = days.groupby(keys)[[f"{bucket}_gpu_hours" for bucket in ("held", *BUCKETS, "lost", "inferred")]].sum()
    jobs = days.groupby(keys)["job_key"].nunique()
    failed = days[days.status.isin(FAILED)].groupby(keys)["job_key"].nunique()
    return [len(sums), int(jobs.sum()), int(failed.sum()), sums.idle_gpu_hours.sum()]


def size(gpus: pd.Series[float]) -> Any:
    rounded = gpus.round(3)
    is_one = rounded == 1
    return np.where(is_one, 3, np.digitize(rounded, [0.25, 0.5, 1.0, 8.0, 64.0]) + (rounded > 1))


def waits(frames: Frames) -> list[float]:
    tasks = frames["tasks"].assign(size=size(frames["tasks"].gpus))
    for column in ("launch_wait_seconds", "start_wait_seconds"):
        tasks[column] = tasks[column].where(tasks[column] >= 0)
    found = tasks.groupby(["gpu_type", "size"])[["launch_wait_seconds", "start_wait_seconds"]].quantile(
        np.array([0.5, 0.75, 0.9, 0.95, 0.99])
    )
    groups = tasks.groupby(["gpu_type", "size"])[["launch_wait_seconds", "start_wait_seconds"]].agg(["count", "mean"])
    start, launch = found.start_wait_seconds.unstack(), found.launch_wait_seconds.unstack()
    return [len(groups), start[0.5].sum(), start[0.99].sum(), launch[0.95].sum()]


def demand(frames: Frames) -> list[float]:
    tasks, hours, span = frames["tasks"], frames["hours"], frames["clusters"].iloc[0]
    tasks, hours = tasks[tasks.launch.notna()], hours[hours.observed_seconds > 0]
    edges = np.append(hours.b.to_numpy(), hours.b.iloc[-1] + 3600)
    submitted = np.searchsorted(edges, tasks.launch, side="right") - 1
    is_observed = (tasks.launch >= span.b) & (tasks.launch <= span.e)
    counted = (
        tasks.assign(hour=submitted)[is_observed]
        .groupby(["hour", "gpu_type"])
        .agg(tasks=("gpus", "size"), gpus=("gpus", "sum"))
    )
    counted = counted[(counted.index.get_level_values(0) >= 0) & (counted.index.get_level_values(0) < len(hours))]
    # What never began waits for as long as anyone looked, if it is waiting. Of the rest, and of what ran since nobody
    # knows when, nobody knows how long it did.
    tasks = tasks[(tasks.until.notna() | (tasks.status == "waiting")) & ~tasks.is_undated]
    until = np.minimum(tasks.until.fillna(span.e).to_numpy(), span.e)
    rows, place, seconds = cut(np.maximum(tasks.launch.to_numpy(), span.b), until, edges)
    waiting = (
        pd.DataFrame(
            {
                "hour": place,
                "gpu_type": tasks.gpu_type.to_numpy()[rows],
                "waiting": tasks.gpus.to_numpy()[rows] * seconds / 3600,
            }
        )
        .groupby(["hour", "gpu_type"])
        .waiting.sum()
    )
    waited = waiting.index.get_level_values(1)
    kinds = sorted({*counted.index.get_level_values(1), *waited, *frames["ledger"].gpu_type.unique()})
    spine = pd.MultiIndex.from_product([range(len(hours)), kinds], names=["hour", "gpu_type"])
    ledger = frames["ledger"].assign(hour=np.searchsorted(edges, frames["ledger"].b, side="right") - 1)
    held = ledger.groupby(["hour", "gpu_type"])[["held", "available"]].sum().reindex(spine, fill_value=0)
    waits_by_hour = waiting.reindex(spine, fill_value=0)
    asked_by_hour = counted.reindex(spine, fill_value=0)
    demanded = float((waits_by_hour + held["held"]).sum())
    return [len(spine), int(asked_by_hour.tasks.sum()), float(waits_by_hour.sum()), demanded]


def recurrence(frames: Frames) -> list[float]:
    jobs = frames["jobs"].assign(sound=frames["jobs"].turnaround_seconds.where(frames["jobs"].turnaround_seconds >= 0))
    held = frames["job_days"].groupby("job_key")[["held_gpu_hours", "lost_gpu_hours"]].sum()
    jobs = jobs.merge(held, left_on="job_key", right_index=True, how="left")
    jobs["is_failed"] = jobs.status.isin(FAILED)
    # A group that is the user alone recurs in nothing.
    groups = jobs[jobs.group_id != jobs.user_id].groupby("group_id")
    found = groups.agg(
        jobs=("job_key", "size"),
        users=("user_id", "nunique"),
        failed=("is_failed", "sum"),
        median=("sound", "median"),
        mean=("sound", "mean"),
        held=("held_gpu_hours", "sum"),
        lost=("lost_gpu_hours", "sum"),
    )
    deviation = groups.sound.std(ddof=0)
    return [
        len(found),
        int(found.users.sum()),
        found["median"].sum(),
        (deviation / found["mean"].replace(0, np.nan)).sum(),
    ]


def machine_hours(frames: Frames) -> list[float]:
    held, hours, span = frames["holdings"], frames["hours"], frames["clusters"].iloc[0]
    held = held[held.held_seconds > 0]
    edges = np.append(hours.b.to_numpy(), hours.b.iloc[-1] + 3600)
    claims = pieces(held, span.b, span.e, edges).rename(columns={"place": "hour"}).drop(columns=["job_key", "gpu_type"])
    signs = [claims]
    for moment in ("b", "e"):
        at = frames["instances"][["machine_key", moment]].dropna()
        signs.append(
            pd.DataFrame(
                {"machine_key": at.machine_key.to_numpy(), "hour": np.searchsorted(edges, at[moment], side="right") - 1}
            )
        )
    summed = pd.concat(signs).fillna(0).groupby(["machine_key", "hour"], as_index=False).sum()
    spine = frames["capacity"].merge(hours[["b", "observed_seconds"]].reset_index(names="hour"), how="cross")
    spine = spine[spine.observed_seconds > 0]
    spine["capacity"] = spine.gpus * spine.observed_seconds / 3600
    found = spine.merge(summed, on=["machine_key", "hour"], how="left").fillna(0)
    outages = frames["outages"]
    rows, place, seconds = cut(
        np.maximum(outages.b, span.b).to_numpy(), np.minimum(outages.e, span.e).to_numpy(), edges
    )
    is_silent = (outages.basis == "silent").to_numpy()[rows]
    out = pd.DataFrame(
        {
            "machine_key": outages.machine_key.to_numpy()[rows],
            "hour": place,
            "down": np.where(is_silent, 0, seconds / 3600),
            "silent": is_silent.astype(float),
        }
    )
    out = pd.concat([out, _unmeasured(frames, edges)])
    found = found.merge(out.groupby(["machine_key", "hour"], as_index=False).sum(), how="left")
    found = found.fillna({"down": 0, "silent": 0})
    down_gpus = np.minimum(found.down * found.gpus, found.capacity)
    claimed = found[list(BUCKETS)].sum(axis=1)
    share = np.where(claimed > found.capacity - down_gpus, (found.capacity - down_gpus) / claimed.replace(0, 1), 1)
    free = np.maximum(found.capacity - down_gpus - claimed * share, 0)
    is_unknown = (found.silent > 0) | (span.unknown_demand_ratio > 0.5)
    lost = found[list(LOST)].sum(axis=1)
    return [
        *(len(found), free[~is_unknown].sum(), free[is_unknown].sum(), (lost * share).sum()),
        *((found.lost_at_least * share).sum(), (claimed * (1 - share)).sum()),
    ]


def _unmeasured(frames: Frames, edges: np.ndarray[Any, Any]) -> pd.DataFrame:
    """Hours of machines with attempts of which nobody knows what they asked for, as silent ones."""
    span, asked = frames["clusters"].iloc[0], frames["unmeasured"].dropna(subset=["b", "e"])
    asked = asked[(asked.b <= span.e) & (np.maximum(asked.b, asked.e) >= span.b)]
    first = np.searchsorted(edges, np.maximum(asked.b, span.b), side="right") - 1
    last = np.maximum(first, np.searchsorted(edges, np.minimum(asked.e, span.e), side="right") - 1)
    hours = [
        (key, hour)
        for key, begin, end in zip(asked.machine_key, first, last, strict=True)
        for hour in range(begin, end + 1)
    ]
    return pd.DataFrame(hours, columns=["machine_key", "hour"]).assign(down=0.0, silent=1.0)


MARTS = {
    "daily utilisation": daily_utilisation,
    "job efficiency": job_efficiency,
    "per-user daily": per_user,
    "wait percentiles": waits,
    "hourly demand": demand,
    "recurrence": recurrence,
    "machine-hours": machine_hours,
}


def main(folder: Path) -> dict[str, object]:
    with Lake(Config(lake=folder)).open().reading() as reader:
        frames = {name: reader.query(query).to_pandas() for name, query in QUERIES.items()}
    answers: dict[str, object] = {}
    for mart, compute in MARTS.items():
        begin, begin_cpu = time.perf_counter(), time.process_time()
        figures = compute(frames)
        cost = {"seconds": time.perf_counter() - begin, "cpu_seconds": time.process_time() - begin_cpu}
        answers[mart] = {**cost, "figures": [float(figure) for figure in figures]}
    return answers


if __name__ == "__main__":
    print(json.dumps(main(Path(sys.argv[1]))))
