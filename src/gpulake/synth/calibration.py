"""Calibration: how far a written trace is from the published one, figure by figure. The trace is read back as the
published files are: names from the header, nothing but the text.

Shares are compared in percentage points. Curves are compared by the largest gap between the two distributions
(Kolmogorov-Smirnov), over the range that was published; waits are whole seconds and are compared at half seconds.
"""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
from numpy.typing import NDArray

from gpulake.core.errors import InputError
from gpulake.core.pai import published
from gpulake.synth.draws import Curve, sums_by
from gpulake.synth.facts import GPU_TYPES, HEADERS, STATUSES, curve, tail_curve

TEXT = {"job_name", "task_name", "inst_name", "worker_name", "inst_id", "status", "machine", "user", "gpu_type"}
TEXT |= {"gpu_type_spec", "group", "workload", "gpu_name"}
ROLES = 64


def table(directory: Path, name: str, only: list[str] | None = None) -> pa.Table:
    """One table of the trace; empty fields are null."""
    names = HEADERS[name].split(",")
    types = {column: pa.string() if column in TEXT else pa.float64() for column in names}
    read = pyarrow.csv.ReadOptions(column_names=names)
    convert = pyarrow.csv.ConvertOptions(
        column_types=types, include_columns=only, strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    plain, packed = directory / f"{name}.csv", directory / f"{name}.tar.gz"
    if plain.exists():
        return pyarrow.csv.read_csv(plain, read_options=read, convert_options=convert)
    if packed.exists():
        with tarfile.open(packed) as archive:
            return pyarrow.csv.read_csv(archive.extractfile(f"{name}.csv"), read_options=read, convert_options=convert)
    raise InputError(f"no {name} in {directory}", "write a trace first: gpulake synth --out DIR")


def places(column: pa.ChunkedArray, among: pa.ChunkedArray) -> NDArray[np.int64]:
    """The position of each value in another column, -1 if it is not there."""
    known = among.combine_chunks() if isinstance(among, pa.ChunkedArray) else among
    found: NDArray[np.int64] = pc.fill_null(pc.index_in(column, known), -1).to_numpy().astype(np.int64)
    return found


@dataclass(frozen=True)
class Readback:
    """The tables of a trace; `task` is the place of each instance's task in the task table."""

    tables: dict[str, pa.Table]
    task: NDArray[np.int64]

    def numbers(self, name: str, column: str) -> NDArray[np.float64]:
        """A column of numbers, NaN where there is none."""
        values: NDArray[np.float64] = self.tables[name][column].to_numpy().astype(float)
        return values

    def texts(self, name: str, column: str) -> NDArray[np.object_]:
        """A column of texts, None where there is none."""
        values: NDArray[np.object_] = self.tables[name][column].to_numpy()
        return values

    def places(self, column: str, name: str, among: str) -> NDArray[np.int64]:
        """The position of each value of a column in the same column of another table."""
        return places(self.tables[name][column], self.tables[among][column])


def opened(directory: Path, only: dict[str, list[str]] | None = None) -> Readback:
    """All tables, or only those columns of some of them."""
    tables = {name: table(directory, name, (only or {}).get(name)) for name in HEADERS}
    jobs, tasks = tables["pai_job_table"], tables["pai_task_table"]
    roles = pc.unique(tasks["task_name"])

    def key(rows: pa.Table) -> NDArray[np.int64]:
        role: NDArray[np.int64] = pc.fill_null(pc.index_in(rows["task_name"], roles), ROLES - 1).to_numpy()
        return places(rows["job_name"], jobs["job_name"]) * ROLES + role

    task_key = key(tasks)
    order = np.argsort(task_key)
    spot = np.searchsorted(task_key[order], key(tables["pai_instance_table"]))
    return Readback(tables, order[np.minimum(spot, len(order) - 1)])


JOBS, TASKS, INSTANCES = "pai_job_table", "pai_task_table", "pai_instance_table"
SENSORS, METRICS = "pai_sensor_table", "pai_machine_metric"
USED_COLUMNS = {
    INSTANCES: ["job_name", "task_name", "worker_name", "status", "start_time", "end_time"],
    SENSORS: ["worker_name", "cpu_usage", "gpu_wrk_util", "avg_mem", "avg_gpu_wrk_mem", "read"],
}
SHARE_BOUND = 1.0
GANG_BOUND = 4.0
CURVE_BOUND = 0.05
RHYTHM_BOUND = 1.0
DAILY_BOUND = 25.0
RECURRING_BOUND = 5.0
RUNTIME_BOUND = 400.0
RUN_MEAN_BOUND = 700.0
# A user submits at least one job, which in a small trace is more than many of the real users submit.
USERS_BOUND = 0.2
GPU_CLASSES = {"<25": (0, 25), "[25,50)": (25, 50), "[50,100)": (50, 100), "=100": (100, 101), ">100": (101, 1e9)}


@dataclass(frozen=True)
class Check:
    name: str
    measured: float
    published: float
    distance: float
    bound: float
    passed: bool


def measure(directory: Path) -> list[Check]:
    """Every calibrated figure of the trace in a folder."""
    trace = opened(directory, USED_COLUMNS)
    groups = (
        _counts, _shares, _instance_shares, _gangs, _waits_and_runtimes, _runs, _usage, _machines, _people, _rhythm,
    )  # fmt: skip
    return [check for group in groups for check in group(trace)]


def gap(sample: NDArray[np.float64], known: Curve, step: float = 0.0) -> float:
    """The largest distance between a sample's distribution and a curve, where the curve was published."""
    value, count = np.unique(sample, return_counts=True)
    below = np.cumsum(count) / len(sample)
    share = known.share(np.maximum(value + step, 1e-9))
    inside = (share >= known.shares[1]) & (share <= known.shares[-2])
    gaps = np.abs(below - share)[inside]
    if step == 0.0:
        gaps = np.concatenate([gaps, np.abs(below - count / len(sample) - share)[inside]])
    return float(gaps.max(initial=0.0))


def _point(name: str, ours: float, theirs: float, bound: float) -> Check:
    distance = abs(ours - theirs)
    return Check(name, float(ours), float(theirs), float(distance), bound, bool(distance <= bound))


def _curve(name: str, sample: NDArray[np.float64], known: Curve, bound: float, step: float = 0.0) -> Check:
    """A curve, shown by its medians."""
    if len(sample) == 0:
        return Check(name, float("nan"), float(known.value(np.array(0.5))), 1.0, bound, False)
    distance = gap(sample, known, step)
    return Check(name, float(np.median(sample)), float(known.value(np.array(0.5))), distance, bound, distance <= bound)


def _percent(flags: NDArray[np.bool_]) -> float:
    return float(np.mean(flags)) * 100 if len(flags) else float("nan")


def _counts(trace: Readback) -> Iterator[Check]:
    counts = published()["counts"]
    scale = len(trace.tables[JOBS]) / counts["jobs"]
    for name, file in (("tasks", TASKS), ("instances", INSTANCES), ("machine_metrics", METRICS)):
        rows = len(trace.tables[file])
        yield _point(f"rows of {name}, per published", rows / scale / counts[name], 1.0, 0.001)


def _shares(trace: Readback) -> Iterator[Check]:
    plan = trace.numbers(TASKS, "plan_gpu")
    has_gpu = plan > 0
    kind = trace.texts(TASKS, "gpu_type")[has_gpu]
    shares = published()["shares"]
    for name, share in shares["gpu_type"].items():
        yield _point(f"Fig 5c tasks on {name}, %", _percent(kind == name), share, SHARE_BOUND)
    for name, (low, high) in GPU_CLASSES.items():
        ours = _percent((plan[has_gpu] >= low) & (plan[has_gpu] < high))
        yield _point(f"Fig 5c plan_gpu {name}, %", ours, shares["plan_gpu_class"][name], SHARE_BOUND)
    counts = published()["counts"]
    theirs = counts["gpu_tasks"] / counts["tasks"] * 100
    yield _point("tasks with a GPU, %", _percent(has_gpu), theirs, SHARE_BOUND)


def _instance_shares(trace: Readback) -> Iterator[Check]:
    status = trace.texts(INSTANCES, "status")
    lacks_start = np.isnan(trace.numbers(INSTANCES, "start_time"))
    shares = published()["shares"]
    for name in STATUSES:
        yield _point(f"instances {name}, %", _percent(status == name), shares["instance_status"][name], SHARE_BOUND)
    for name, share in shares["missing_start"].items():
        yield _point(f"{name} without a start, %", _percent(lacks_start[status == name]), share, SHARE_BOUND)


def _gangs(trace: Readback) -> Iterator[Check]:
    size = trace.numbers(TASKS, "inst_num")
    gangs = published()["gangs"]
    for least, share in zip(gangs["at_least"], gangs["instance_percent"], strict=True):
        ours = size[size >= least].sum() / size.sum() * 100
        yield _point(f"Fig 2b instances in tasks of {least} and more, %", ours, share, GANG_BOUND)


def _waits_and_runtimes(trace: Readback) -> Iterator[Check]:
    start, end = trace.numbers(INSTANCES, "start_time"), trace.numbers(INSTANCES, "end_time")
    tasks = len(trace.tables[TASKS])
    earliest = np.full(tasks, np.inf)
    has_start = ~np.isnan(start)
    np.minimum.at(earliest, trace.task[has_start], start[has_start])
    wait = earliest - trace.numbers(TASKS, "start_time")
    is_timed = has_start & ~np.isnan(end)
    ran = sums_by(trace.task[is_timed], (end - start)[is_timed], tasks)
    runtime = ran / np.maximum(np.bincount(trace.task[is_timed], minlength=tasks), 1)
    is_over = (trace.texts(TASKS, "status") == "Terminated") & (runtime > 0)
    kind = np.where(trace.numbers(TASKS, "plan_gpu") > 0, trace.texts(TASKS, "gpu_type"), "")
    for name in GPU_TYPES:
        sample = wait[(kind == name) & np.isfinite(wait)]
        yield _curve(f"Fig 5b wait on {name}, s", sample, curve("wait_seconds", name), CURVE_BOUND, step=0.5)
    for name in GPU_TYPES:
        sample = runtime[(kind == name) & is_over]
        yield _curve(f"Fig 5d runtime on {name}, s", sample, curve("runtime_seconds", name), CURVE_BOUND)
    yield _curve("Fig 4a runtime of all, s", runtime[runtime > 0], curve("runtime_seconds", "all"), CURVE_BOUND)
    known = published()["gpu_task"]
    ours = float(runtime[(kind != "") & (runtime > 0)].mean())
    yield _point("mean runtime with a GPU, s", ours, known["runtime_mean_seconds"], RUNTIME_BOUND)
    ours = float(np.median(wait[(kind != "") & np.isfinite(wait)]))
    yield _point("median wait with a GPU, s", ours, known["wait_median_seconds"], 1.0)


def _runs(trace: Readback) -> Iterator[Check]:
    """Instances, which figures of tasks say little about: the real tail's run times, and how full they keep the GPUs.

    What share of its GPUs the cluster held is not published. The GPUs asked for in an hour (Fig 3c, read roughly) times
    the tail's mean run is; of it the Terminated instances, whose times are all known, hold their part.
    """
    tail, paper = published()["tail"], published()["first_week"]
    is_over = trace.texts(INSTANCES, "status") == "Terminated"
    run = (trace.numbers(INSTANCES, "end_time") - trace.numbers(INSTANCES, "start_time"))[is_over]
    task = trace.task[is_over]
    size, plan = trace.numbers(TASKS, "inst_num"), np.nan_to_num(trace.numbers(TASKS, "plan_gpu")) / 100
    yield _curve("run of an instance (tail), s", run, tail_curve("run_seconds"), CURVE_BOUND)
    in_gang = run[size[task] > 1]
    yield _curve("run of an instance in a gang (tail), s", in_gang, tail_curve("gang_run_seconds"), CURVE_BOUND)
    yield _point("mean run of an instance (tail), s", float(run.mean()), tail["run_mean_seconds"], RUN_MEAN_BOUND)
    scale = len(trace.tables[JOBS]) / published()["counts"]["jobs"]
    submitted = trace.numbers(JOBS, "start_time")
    hours = float(submitted.max() - submitted.min()) / 3600
    low, high = paper["gpus"]
    ours = float((size * plan).sum()) / scale / hours
    yield _point("Fig 3c GPUs asked for in an hour, scaled", ours, (low + high) / 2, (high - low) / 2)
    gpus = sum(entry["cap_gpu"] * entry["count"] for entry in published()["machines"])
    share = tail["run_mean_seconds"] / 3600 / gpus * published()["shares"]["instance_status"]["Terminated"]
    held = float((run * plan[task]).sum()) / hours / 3600 / trace.numbers("pai_machine_spec", "cap_gpu").sum() * 100
    yield _point("GPU time held by Terminated instances, %", held, (low + high) / 2 * share, (high - low) / 2 * share)


def _usage(trace: Readback) -> Iterator[Check]:
    task = trace.task[trace.places("worker_name", SENSORS, INSTANCES)]
    tasks = len(trace.tables[TASKS])
    count = np.bincount(task, minlength=tasks)
    has = count > 0

    def per_task(column: str) -> NDArray[np.float64]:
        return sums_by(task, trace.numbers(SENSORS, column), tasks)[has]

    shares = published()["shares"]["plan_above_usage"]
    for name, column in (("cpu", "cpu_usage"), ("gpu", "gpu_wrk_util"), ("mem", "avg_mem")):
        plan = trace.numbers(TASKS, f"plan_{name}")[has] * count[has]
        yield _point(f"{name} plan above usage, %", _percent(plan > per_task(column)), shares[name], SHARE_BOUND)
    yield _curve("Fig 6a cpu used, %", per_task("cpu_usage"), curve("usage", "cpu_percent"), CURVE_BOUND)
    yield _curve("Fig 6b gpu used, %", per_task("gpu_wrk_util"), curve("usage", "gpu_percent"), CURVE_BOUND)
    yield _curve("Fig 6c gpu memory, GB", per_task("avg_gpu_wrk_mem"), curve("usage", "gpu_memory_gb"), CURVE_BOUND)
    read = trace.numbers(SENSORS, "read") * 8 / 2**30
    yield _curve("Fig 8a network read, Gbit", read, curve("network", "read_gbit"), CURVE_BOUND)


def _machines(trace: Readback) -> Iterator[Check]:
    for name in ("usr", "kernel", "iowait"):
        sample = trace.numbers(METRICS, f"machine_cpu_{name}")
        yield _curve(f"Fig 8b machine {name}, %", sample, curve("machine_cpu_percent", name), CURVE_BOUND)
    day = np.floor_divide(trace.numbers(METRICS, "end_time") + 8 * 3600, 86400).astype(int)
    daily = sums_by(day, trace.numbers(METRICS, "machine_gpu"), day.max() + 1) / np.maximum(np.bincount(day), 1)
    theirs = published()["daily_machine_gpu"]
    yield _point("mean of daily machine_gpu, %", daily[daily > 0].mean(), theirs["mean"], DAILY_BOUND)
    yield _point("days of machine_gpu", float(np.count_nonzero(daily)), theirs["days"], 0.0)


def _people(trace: Readback) -> Iterator[Check]:
    tags = trace.tables["pai_group_tag_table"]
    members = pc.value_counts(tags["group"]).field("counts").to_numpy()
    shares = published()["shares"]["jobs"]
    recurring = members[members >= 5].sum() / len(tags) * 100
    yield _point("jobs of groups of 5 and more, %", recurring, shares["recurring"], RECURRING_BOUND)
    tagged = (1 - tags["workload"].null_count / len(tags)) * 100
    yield _point("jobs with a workload, %", tagged, shares["workload"], SHARE_BOUND)
    counts = published()["counts"]
    submitted = pc.value_counts(trace.tables[JOBS]["user"]).field("counts").to_numpy()
    tasks = submitted / submitted.mean() * counts["tasks"] / counts["users"]
    yield _curve("Fig 2a tasks of a user, scaled", tasks, curve("users", "tasks"), USERS_BOUND)


def _rhythm(trace: Readback) -> Iterator[Check]:
    start = trace.numbers(JOBS, "start_time").astype(int) + 8 * 3600
    hour = np.bincount(start % 86400 // 3600, minlength=24) / len(start) * 100
    theirs = np.array(published()["rhythm"]["hour"]) / np.sum(published()["rhythm"]["hour"]) * 100
    worst = int(np.argmax(np.abs(hour - theirs)))
    yield _point(f"Fig 3b jobs by hour, % (worst: {worst} h)", hour[worst], theirs[worst], RHYTHM_BOUND)
    # The epoch, 1970-01-01, was a Thursday; the published week begins on Sunday.
    weekday = (start // 86400 + 4) % 7
    days = np.bincount(np.unique(start // 86400) % 7, minlength=7)
    is_weekend = (weekday == 0) | (weekday == 6)
    per_day = is_weekend.sum() / days[[3, 2]].sum() / ((~is_weekend).sum() / days[[4, 5, 6, 0, 1]].sum()) * 100
    week = np.array(published()["rhythm"]["weekday"])
    yield _point("Fig 3a week-end over working days, %", per_day, week[[0, 6]].mean() / week[1:6].mean() * 100, 8.0)
